"""Generated traffic with a hidden true policy, and attacks in it, to judge a learner of policies.

    world ─legitimate()─▶ requests ─┐
      └───attacks()─────▶ requests ─┴─traffic()─▶ in the order of time ─write()─▶ a log

A `World` has users, routes and permissions; `allows` is the truth that a learner must find, and
`anything` draws from all requests that one can make: routes that exist, of own and others' things,
with new words and values of other types. Nothing of a world is known to `doorward.learn`.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final, NamedTuple, TextIO

__all__ = [
    "DAY",
    "KINDS",
    "START",
    "WORLDS",
    "Request",
    "User",
    "World",
    "event",
    "time_text",
    "traffic",
    "write",
]

KINDS: Final = ("scan", "stolen", "crawl", "cross", "slow")
"""Attacks: a search for paths, a stolen account, a crawl through all reads, reads of what others
own, and a few accounts that do one forbidden thing a day."""
START: Final = 1_800_000_000
DAY: Final = 86_400
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class User(NamedTuple):
    """One who asks; `claims` are about this user alone or a group of users."""

    name: str
    roles: tuple[str, ...]
    claims: Mapping[str, str]

    def own(self, claim: str) -> str:
        """The value that makes a thing this user's."""
        return self.name if claim == "sub" else self.claims.get(claim, "")


class Part(NamedTuple):
    """A segment that varies. `kind`: int, uuid, date, word (one of `words`) or own (of `claim`)."""

    kind: str
    words: tuple[str, ...] = ()
    claim: str = ""

    def draw(self, rng: random.Random, user: User) -> str:
        """A value that this user would ask for."""
        if self.kind == "own":
            return user.own(self.claim)
        if self.kind == "word":
            # Few words are frequent, as in a shop.
            return self.words[min(int(rng.expovariate(4 / len(self.words))), len(self.words) - 1)]
        return _value(self.kind, rng)

    def fits(self, text: str, user: User) -> bool:
        """Return True if the truth allows this value for this user."""
        if self.kind == "own":
            return text != "" and text == user.own(self.claim)
        if self.kind == "word":
            return text in self.words
        return _is(self.kind, text)


def _value(kind: str, rng: random.Random) -> str:
    if kind == "int":
        return str(rng.randrange(1, 100_000))
    if kind == "uuid":
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    assert kind == "date"
    return f"{rng.randrange(2020, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"


def _is(kind: str, text: str) -> bool:
    if kind == "int":
        return text.isascii() and text.isdecimal()
    try:
        if kind == "uuid":
            return str(uuid.UUID(text)) == text
        return datetime.strptime(text, "%Y-%m-%d").strftime("%Y-%m-%d") == text
    except ValueError:
        return False


Template = tuple[str | Part, ...]


@dataclass(frozen=True, slots=True)
class Permission:
    """Who may do one thing; `weight`: how often they do, beside others."""

    who: Callable[[User], bool]
    method: str
    template: Template
    weight: float = 1.0
    others: tuple[str, ...] = ()
    """Values of other users of what is owned here, for requests that the truth denies."""

    def path(self, rng: random.Random, user: User) -> str:
        """A path that the user would ask for."""
        parts = [each if isinstance(each, str) else each.draw(rng, user) for each in self.template]
        return "/" + "/".join(parts)

    def allows(self, user: User, segments: Sequence[str]) -> bool:
        """Return True if this permission is one for the user and the path."""
        return (
            len(segments) == len(self.template)
            and all(
                text == each if isinstance(each, str) else each.fits(text, user)
                for each, text in zip(self.template, segments, strict=True)
            )
            and self.who(user)
        )

    @property
    def is_owned(self) -> bool:
        return any(isinstance(each, Part) and each.kind == "own" for each in self.template)


class Request(NamedTuple):
    """One request; `kind` is that of an attack, or "" for a legitimate one."""

    user: User
    method: str
    path: str
    kind: str = ""
    time: float = 0.0
    status: int = 200
    """403 for one that the policy of that time denied."""


@dataclass
class World:
    """Users and a true policy."""

    name: str
    users: list[User]
    permissions: list[Permission]
    rules: int
    """Rules of the true policy as a person would write it."""
    _by_user: dict[str, tuple[list[Permission], list[float]]] = field(default_factory=dict)
    _by_shape: dict[tuple[str, int], list[Permission]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.permissions:
            self._by_shape.setdefault((each.method, len(each.template)), []).append(each)

    def allows(self, user: User, method: str, path: str) -> bool:
        """The truth."""
        segments = path[1:].split("/")
        rules = self._by_shape.get((method, len(segments)), ())
        return any(each.allows(user, segments) for each in rules)

    def legitimate(self, rng: random.Random) -> Request:
        """A request that a user makes; some users are more active than others."""
        while True:
            user = self.users[int(len(self.users) * rng.random() ** 1.5)]
            permissions, weights = self._of(user)
            if permissions:
                permission = rng.choices(permissions, cum_weights=weights)[0]
                return Request(user, permission.method, permission.path(rng, user))

    def anything(self, rng: random.Random) -> Request:
        """A request of the whole space, near what somebody may do."""
        permission = rng.choice(self.permissions)
        method = permission.method if rng.random() < 0.7 else rng.choice(METHODS)
        user = rng.choice(self.users)
        owner = user if rng.random() < 0.5 else rng.choice(self.users)
        segments = permission.path(rng, owner)[1:].split("/")
        chance = rng.random()
        if chance < 0.15:
            segments[rng.randrange(len(segments))] = rng.choice(["export", "admin", "zz-new", "x"])
        elif chance < 0.25:
            kind = rng.choice(["int", "uuid", "date"])
            segments[rng.randrange(len(segments))] = _value(kind, rng)
        elif chance < 0.3:
            segments.append(rng.choice(["1", "export"]))
        return Request(user, method, "/" + "/".join(segments))

    def _of(self, user: User) -> tuple[list[Permission], list[float]]:
        known = self._by_user.get(user.name)
        if known is None:
            permissions = [each for each in self.permissions if each.who(user)]
            known = permissions, list(accumulate(each.weight for each in permissions))
            self._by_user[user.name] = known
        return known

    def attacks(self, rng: random.Random, number: int, days: int) -> Iterator[Request]:
        """So many hostile requests, a fifth of each kind."""
        share = max(1, number // len(KINDS))
        thieves = rng.sample(self.users, min(12, len(self.users)))
        yield from self._scan(rng, share, thieves[0], days)
        yield from self._stolen(rng, share, thieves[1], days)
        yield from self._crawl(rng, share, thieves[2], days)
        yield from self._cross(rng, share, thieves[3:7], days)
        yield from self._slow(rng, share, days)

    def _scan(self, rng: random.Random, n: int, user: User, days: int) -> Iterator[Request]:
        begin = START + rng.randrange(days) * DAY + 3 * 3600
        for number in range(n):
            words = [f"{rng.choice(['admin', 'wp', 'old', 'api', 'test'])}-{rng.randrange(10**6)}"]
            words += rng.choice([[], ["config"], [".git"], ["1"]])
            path = "/" + "/".join(words)
            yield Request(user, "GET", path, "scan", begin + number * 0.2, 404)

    def _stolen(self, rng: random.Random, n: int, user: User, days: int) -> Iterator[Request]:
        begin = START + rng.randrange(days) * DAY + 7 * 3600
        for number in range(n):
            for _ in range(200):
                permission = rng.choice(self.permissions)
                path = permission.path(rng, user)
                if not self.allows(user, permission.method, path):
                    time = begin + number * 3600 / n
                    yield Request(user, permission.method, path, "stolen", time)
                    break

    def _crawl(self, rng: random.Random, n: int, user: User, days: int) -> Iterator[Request]:
        begin = START + rng.randrange(days) * DAY + 13 * 3600
        reads = [each for each in self.permissions if each.method == "GET"]
        for number in range(n):
            path = reads[number % len(reads)].path(rng, rng.choice(self.users))
            if not self.allows(user, "GET", path):
                yield Request(user, "GET", path, "crawl", begin + number * 7200 / n)

    def _cross(self, rng: random.Random, n: int, users: list[User], days: int) -> Iterator[Request]:
        owned = [each for each in self.permissions if each.is_owned and each.method == "GET"]
        begin = START + rng.randrange(max(1, days - 1)) * DAY
        for number in range(n if owned else 0):
            user, other = users[number % len(users)], rng.choice(self.users)
            path = rng.choice(owned).path(rng, other)
            if not self.allows(user, "GET", path):
                yield Request(user, "GET", path, "cross", begin + number * 1.8 * DAY / n)

    def _slow(self, rng: random.Random, n: int, days: int) -> Iterator[Request]:
        """Three accounts of one role, one forbidden thing, on every day."""
        for _ in range(1000):
            permission, role = rng.choice(self.permissions), rng.choice(self.users).roles[0]
            same = [each for each in self.users if role in each.roles]
            path = permission.path(rng, rng.choice(self.users))
            same = [each for each in same if not self.allows(each, permission.method, path)]
            if len(same) >= 3:
                break
        else:
            return
        users = rng.sample(same, 3)
        for number in range(n):
            time = START + (number + rng.random()) * days / n * DAY
            path = permission.path(rng, rng.choice(self.users))
            if not self.allows(users[number % 3], permission.method, path):
                yield Request(users[number % 3], permission.method, path, "slow", time)


def traffic(
    world: World,
    events: int,
    *,
    seed: int,
    days: int = 10,
    attacks: float = 0.01,
    denied: float = 0.0,
) -> list[Request]:
    """So many requests in the order of time, of which a share are attacks, and a share denied."""
    rng = random.Random(f"{world.name} {seed}")
    hostile = list(world.attacks(rng, round(events * attacks), days)) if attacks else []
    while len(hostile) < events * (attacks + denied) and denied:
        request = world.anything(rng)
        if not world.allows(*request[:3]):
            time = START + rng.random() * days * DAY
            hostile.append(request._replace(kind="denied", time=time, status=403))
    requests = [
        world.legitimate(rng)._replace(time=START + rng.random() * days * DAY)
        for _ in range(events - len(hostile))
    ]
    return sorted(requests + hostile, key=lambda each: each.time)


# Worlds. Their words are of other trades, so that none is written into a learner.


def _has(role: str) -> Callable[[User], bool]:
    return lambda user: role in user.roles


def _anyone(user: User) -> bool:
    return True


def people_world() -> World:
    """The People API: guests read, admins write, everybody has a profile."""
    users = [User(f"guest{n:03}", ("guest",), {}) for n in range(90)]
    users += [User(f"boss{n}", ("admin",), {}) for n in range(6)]
    random.Random(1).shuffle(users)
    guest, admin = _has("guest"), _has("admin")
    own = Part("own", claim="sub")
    return World(
        "people",
        users,
        [
            Permission(guest, "GET", ("people",), 5),
            Permission(admin, "GET", ("people",), 5),
            Permission(guest, "GET", ("people", Part("int")), 8),
            Permission(admin, "GET", ("people", Part("int")), 4),
            Permission(admin, "POST", ("people",), 3),
            Permission(admin, "DELETE", ("people", Part("int")), 1),
            Permission(admin, "PUT", ("people", Part("int")), 2),
            Permission(_anyone, "GET", ("profiles", own), 3),
            Permission(_anyone, "PUT", ("profiles", own), 1),
            Permission(guest, "GET", ("health",), 1),
        ],
        rules=8,
    )


def rbac_world() -> World:
    """Fifty roles over forty kinds of things; a user has one or two roles."""
    rng = random.Random(2)
    roles = [f"team{n:02}" for n in range(50)]
    users = []
    for n in range(500):
        names = {roles[n % 50]} | ({rng.choice(roles)} if rng.random() < 0.2 else set())
        users.append(User(f"user{n:04}", tuple(sorted(names)), {"email": f"user{n:04}@x.example"}))
    kinds = [f"thing{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(40)]
    permissions = []
    for role in roles:
        for kind in rng.sample(kinds, 3):
            part: Part = Part("int") if kinds.index(kind) % 2 else Part("uuid")
            permissions.append(Permission(_has(role), "GET", ("api", kind), 4))
            permissions.append(Permission(_has(role), "GET", ("api", kind, part), 6))
            if rng.random() < 0.6:
                permissions.append(Permission(_has(role), "POST", ("api", kind), 2))
            if rng.random() < 0.3:
                permissions.append(Permission(_has(role), "DELETE", ("api", kind, part), 1))
    rng.shuffle(users)
    return World("rbac", users, permissions, rules=len(permissions))


def abac_world() -> World:
    """Departments: reports of their staff; invoices for one of them, approved by managers."""
    departments = ("finance", "sales", "legal", "research", "support")
    users = []
    for n in range(150):
        role = "manager" if n % 10 == 0 else "auditor" if n % 25 == 1 else "employee"
        claims = {"department": departments[n % 7 % 5], "site": ("north", "south")[n % 2]}
        users.append(User(f"staff{n:03}", (role,), claims))
    random.Random(3).shuffle(users)
    own = Part("own", claim="department")
    months = Part("date")
    finance: Callable[[User], bool] = lambda user: user.claims["department"] == "finance"  # noqa: E731 a row
    approver: Callable[[User], bool] = lambda user: finance(user) and "manager" in user.roles  # noqa: E731 a row
    return World(
        "abac",
        users,
        [
            Permission(_anyone, "GET", ("departments", own, "reports"), 5),
            Permission(_anyone, "GET", ("departments", own, "reports", months), 6),
            Permission(_has("manager"), "PUT", ("departments", own, "reports", months), 4),
            Permission(
                _has("auditor"),
                "GET",
                ("departments", Part("word", departments), "reports", months),
                6,
            ),
            Permission(finance, "GET", ("invoices", Part("uuid")), 4),
            Permission(finance, "GET", ("invoices",), 2),
            Permission(approver, "POST", ("invoices", Part("uuid"), "approval"), 6),
            Permission(_anyone, "GET", ("menu", Part("date")), 1),
        ],
        rules=8,
    )


def nested_world() -> World:
    """A shop: orders below their customers, products by their names, an export for few."""
    words = [f"{a}-{b}" for a in _ADJECTIVES for b in _NOUNS]
    products = Part("word", tuple(words))
    users = [User(f"cust-{1000 + n}", ("customer",), {"tenant": f"t{n % 12}"}) for n in range(180)]
    users += [User(f"help-{n}", ("support",), {"tenant": "house"}) for n in range(12)]
    users += [User(f"root-{n}", ("admin",), {"tenant": "house"}) for n in range(4)]
    random.Random(4).shuffle(users)
    me, tenant, number = Part("own", claim="sub"), Part("own", claim="tenant"), Part("int")
    anybody = Part("word", tuple(user.name for user in users if "customer" in user.roles))
    customer, support, admin = _has("customer"), _has("support"), _has("admin")
    permissions = [
        Permission(customer, "GET", ("customers", me), 2),
        Permission(customer, "GET", ("customers", me, "orders"), 4),
        Permission(customer, "POST", ("customers", me, "orders"), 3),
        Permission(customer, "GET", ("customers", me, "orders", number), 6),
        Permission(customer, "GET", ("customers", me, "orders", number, "items", number), 4),
        Permission(customer, "DELETE", ("customers", me, "orders", number), 1),
        Permission(customer, "GET", ("tenants", tenant, "news"), 1),
        Permission(support, "GET", ("customers", anybody, "orders", number), 6),
        Permission(support, "PATCH", ("customers", anybody, "orders", number), 2),
        Permission(admin, "GET", ("products", "export"), 2),
        Permission(admin, "PUT", ("products", products), 2),
        Permission(admin, "GET", ("admin", "audit", Part("date")), 2),
    ]
    permissions += [
        Permission(who, "GET", ("products", products), 8) for who in (customer, support, admin)
    ]
    return World("nested", users, permissions, rules=13)


_ADJECTIVES: Final = ("red", "blue", "wide", "thin", "soft", "loud", "fast", "calm")
_NOUNS: Final = ("lamp", "chair", "table", "shelf", "clock", "vase", "rug", "bowl", "desk", "sofa")

WORLDS: Final[Mapping[str, Callable[[], World]]] = {
    "people": people_world,
    "rbac": rbac_world,
    "abac": abac_world,
    "nested": nested_world,
}


# Logs of several makers.


def time_text(seconds: float) -> str:
    """A time as logs have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _claims(user: User) -> dict[str, Any]:
    return {"sub": user.name, "roles": list(user.roles), **user.claims}


def _http(request: Request, number: int, headers: Mapping[str, str]) -> dict[str, Any]:
    http = {
        "method": request.method,
        "path": request.path,
        "host": "app.example",
        "headers": {":method": request.method, "x-request-id": f"req-{number}", **headers},
    }
    return {
        "attributes": {"request": {"http": http}},
        "parsed_path": request.path[1:].split("/"),
        "parsed_query": {},
    }


def _doorward(request: Request, number: int) -> dict[str, Any]:
    """As `doorward run` logs with `decision_logs.claims`: the token is replaced by its claims."""
    path = "/input/attributes/request/http/headers/authorization"
    token = {
        "path": path,
        "scheme": "Bearer",
        "key": "k",
        "header": {"alg": "HS256"},
        "payload": _claims(request.user),
    }
    return {
        "decision_id": f"d-{number}",
        "path": "envoy/authz/allow",
        "timestamp": time_text(request.time),
        "input": _http(request, number, {}),
        "result": request.status != 403,
        "erased": [path],
        "custom": {"claims": {f"sha256:{request.user.name}": token}},
    }


def _opa(request: Request, number: int) -> dict[str, Any]:
    """As OPA logs for a service that asks it: who, with what claims, and the request."""
    return {
        "decision_id": f"o-{number}",
        "path": "httpapi/authz/allow",
        "timestamp": time_text(request.time),
        "labels": {"id": "opa-1", "version": "1.20.2"},
        "input": {
            "method": request.method,
            "path": request.path[1:].split("/"),
            "user": request.user.name,
            "claims": _claims(request.user),
        },
        "result": request.status != 403,
        "requested_by": "10.0.0.1:1234",
        "metrics": {"timer_server_handler_ns": 90_000},
    }


def _access(request: Request, number: int) -> dict[str, Any]:
    """An access log of Envoy in JSON, with what a person adds: the user of the token."""
    return {
        "start_time": time_text(request.time),
        "method": request.method,
        "path": request.path,
        "protocol": "HTTP/1.1",
        "response_code": request.status,
        "response_flags": "-",
        "request_id": f"req-{number}",
        "user": request.user.name,
        "claims": _claims(request.user),
    }


_FORMS: Final[Mapping[str, Callable[[Request, int], dict[str, Any]]]] = {
    "doorward": _doorward,
    "opa": _opa,
    "access": _access,
}


def event(request: Request, number: int = 0, form: str = "doorward") -> dict[str, Any]:
    """The line that a maker of logs would write; `form` is doorward, opa or access."""
    return _FORMS[form](request, number)


def write(requests: Iterable[Request], file: TextIO, form: str = "doorward") -> int:
    """Write a log, and return the number of its lines."""
    number = 0
    for number, request in enumerate(requests, 1):
        file.write(json.dumps(event(request, number, form), separators=(",", ":")) + "\n")
    return number
