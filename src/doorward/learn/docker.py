"""Docker's audit log becomes the data of the shipped policies: roles of users, and what they use.

    audit lines ─Calls─▶ counts by user, setting and value ─learn_docker─▶ data.json and questions

Nothing that the shipped data keep closed is opened: privileged containers, namespaces of the host,
capabilities, drivers and registries beyond the shipped ones, system folders and sockets are
questions, whatever a log says, and no user becomes an admin. Images, folders, ports and limits
become as narrow as what was used.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from doorward.docker.decider.embedded import PACK, shipped_policies
from doorward.learn.observations import Cell, LearnError
from doorward.learn.segments import LONGEST
from doorward.learn.templates import Limits
from doorward.rego import Engine, to_json

__all__ = ["SETTINGS", "Calls", "LearnedCalls", "Value", "is_call", "learn_docker", "roles"]

LOCAL: Final = ""
"""The user of requests on the Unix socket."""
MAX_CELLS: Final = 300_000
_NAME: Final = re.compile(r"[a-z0-9]+(?:[._:/-]+[a-z0-9]+)*\Z")
_FOLDER: Final = re.compile(r"(?:/[A-Za-z0-9._@+ -]+){2,32}\Z")
SEVERAL: Final = 5
"""Users from which one day of each is enough."""
ODD: Final = 0.1
"""The share of a user's calls below which a role is looked at first."""
SYSTEM: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root"),
    *("/run", "/sbin", "/sys", "/usr", "/var/cache", "/var/lib", "/var/log", "/var/run"),
    *("/var/spool", "/var/tmp", "/tmp"),
)
"""Folders below which nothing is learned, nor anything that holds one of them."""

Setting: TypeAlias = tuple[str, str]
"""A section of the data, and a name in it."""

_LISTS: Final[Mapping[Setting, str]] = {
    ("capabilities", "allow"): "capability",
    ("logging", "drivers"): "log driver",
    ("logging", "options"): "log option",
    ("mounts", "volume_drivers"): "volume driver",
    ("networks", "drivers"): "network driver",
    ("networks", "options"): "network option",
    ("builds", "outputs"): "output of a build",
    ("queries", "unverified"): "action with a query that is not verified",
    ("sysctls", "allow"): "sysctl",
    ("registries", "allow"): "registry",
}
"""Settings that become a part of the shipped list."""
_CLOSED: Final[Mapping[Setting, str]] = {
    ("mounts", "nfs"): "NFS export",
    ("mounts", "volumes_from"): "volumes of another container",
    ("networks", "join_containers"): "namespace of another container",
    ("ports", "addresses"): "address of the host",
    ("remotes", "allow"): "URL that the daemon fetches",
    ("runtimes", "allow"): "runtime",
    ("ulimits", "allow"): "ulimit",
}
"""Settings that the shipped data keep closed: only asked about."""
LIMITS: Final = ("memory", "cpus", "pids")
_CREATES: Final = ("container.create", "service.create")
SETTINGS: Final = frozenset(
    {*_LISTS, *_CLOSED, ("users", "roles"), ("images", "allow"), ("mounts", "allow")}
    | {("networks", "subnets"), ("ports", "first"), *(("limits", each) for each in LIMITS)}
)
"""All settings that a value may be of."""


def is_call(document: Any) -> TypeGuard[dict[Any, Any]]:
    """Return True for a line of the plugin's audit log."""
    return isinstance(document, dict) and all(
        type(document.get(name)) is str for name in ("action", "phase", "decision", "uri", "user")
    )


@dataclass(slots=True)
class Calls:
    """Counts of calls by user, setting and value."""

    used: dict[tuple[str, str, str, str], Cell] = field(default_factory=dict)
    """By user, section, name and value; actions have the section `roles`."""
    denied: dict[tuple[str, str], int] = field(default_factory=dict)
    """By user and action."""
    digests: list[int] = field(default_factory=lambda: [0, 0])
    """Images with a digest, and without."""
    ports: Counter[int] = field(default_factory=Counter)
    """How often each port above 1023 was published."""
    events: int = 0
    without_input: int = 0
    unreadable: int = 0

    def add(self, line: Mapping[Any, Any]) -> None:
        """Count a line."""
        self.events += 1
        user, action = line["user"], line["action"]
        if line["phase"] != "request" or len(user) > LONGEST or len(action) > LONGEST:
            self.unreadable += 1
            return
        if line["decision"] != "allow":
            key = user, action
            self.denied[key] = self.denied.get(key, 0) + 1
            self._check()
            return
        seconds = _seconds(line.get("time"))
        identifier = line.get("decision_id")
        example = identifier[:LONGEST] if type(identifier) is str else ""
        self._use((user, "roles", "actions", action)).add(seconds, example)
        input = line.get("input")
        if not isinstance(input, dict):
            self.without_input += 1
            return
        for (section, name), value in _values(input):
            if type(value) is str and value and len(value) <= LONGEST:
                self._use((user, section, name, value)).add(seconds, example)
        if action in _CREATES:
            image = input.get("image")
            if isinstance(image, dict):
                self.digests[0 if image.get("digest") else 1] += 1
            self.ports.update(_published(input))

    def _use(self, key: tuple[str, str, str, str]) -> Cell:
        cell = self.used.get(key)
        if cell is None:
            cell = self.used[key] = Cell()
            self._check()
        return cell

    def _check(self) -> None:
        if len(self.used) + len(self.denied) > MAX_CELLS:
            raise LearnError(
                f"the log has more than {MAX_CELLS:,} combinations of a user and a value: learn "
                "from a shorter log, or from one user with --only"
            )

    def merge(self, other: Calls) -> None:
        """Count what `other` counted."""
        self.events += other.events
        self.without_input += other.without_input
        self.unreadable += other.unreadable
        for key, cell in other.used.items():
            self._use(key).merge(cell)
        for denial, number in other.denied.items():
            self.denied[denial] = self.denied.get(denial, 0) + number
        self._check()
        self.digests = [a + b for a, b in zip(self.digests, other.digests, strict=True)]
        self.ports.update(other.ports)


def _values(input: Mapping[Any, Any]) -> Iterator[tuple[Setting, Any]]:
    """The values of a request that settings of the data are about."""
    images = [input.get("image"), *_list(input, "images")]
    for image in images:
        if isinstance(image, dict) and image.get("name") and image.get("unresolved") is not True:
            yield ("images", "allow"), image["name"]
            yield ("registries", "allow"), image.get("registry")
    yield ("registries", "allow"), input.get("registry") or None
    for mount in _list(input, "mounts"):
        if not isinstance(mount, dict):
            continue
        kind = mount.get("type")
        if kind == "bind":
            folder = mount.get("clean") if mount.get("unresolved") is False else "unresolved"
            yield ("mounts", "allow"), folder
            if mount.get("resolved") != mount.get("clean"):
                yield ("mounts", "allow"), mount.get("resolved")
        elif kind == "nfs":
            yield ("mounts", "nfs"), mount.get("source")
        elif mount.get("origin") == "VolumesFrom":
            yield ("mounts", "volumes_from"), "true"
        elif kind == "volume":
            yield ("mounts", "volume_drivers"), mount.get("driver")
    yield from _of_security(input)
    if input.get("action") in _CREATES:
        resources = _object(input, "resources")
        for limit in LIMITS:
            value = resources.get(limit)
            is_set = isinstance(value, (int, float)) and type(value) is not bool and value > 0
            yield ("limits", limit), to_json(value) if is_set else "0"
    network = input.get("network")
    if isinstance(network, dict):
        yield ("networks", "drivers"), network.get("driver") or None
        yield from ((("networks", "options"), each) for each in _list(network, "options"))
        yield from ((("networks", "subnets"), each) for each in _list(network, "subnets"))
    logging = input.get("logging")
    if isinstance(logging, dict):
        yield ("logging", "drivers"), logging.get("driver") or None
        yield from ((("logging", "options"), each) for each in _list(logging, "options"))
    build = input.get("build")
    if isinstance(build, dict):
        yield from ((("builds", "outputs"), each) for each in _list(build, "outputs"))
    yield ("remotes", "allow"), input.get("remote") or None
    if input.get("query_trusted") is False:
        yield ("queries", "unverified"), input.get("action")
    for port in _list(_object(input, "ports"), "published"):
        if isinstance(port, dict):
            address = port.get("host_ip")
            if address not in ("", "127.0.0.1", "::1"):
                yield ("ports", "addresses"), address
            first = port.get("first")
            if type(first) is int and 0 < first < 1024:
                yield ("ports", "first"), str(first)


def _of_security(input: Mapping[Any, Any]) -> Iterator[tuple[Setting, Any]]:
    security = _object(input, "security")
    yield from ((("capabilities", "allow"), each) for each in _list(security, "cap_add"))
    yield from ((("sysctls", "allow"), each) for each in _object(security, "sysctls"))
    yield ("runtimes", "allow"), security.get("runtime") or None
    if _list(security, "joined_containers"):
        yield ("networks", "join_containers"), "true"
    for ulimit in _list(_object(input, "resources"), "ulimits"):
        if isinstance(ulimit, dict):
            yield ("ulimits", "allow"), ulimit.get("name")


def _published(input: Mapping[Any, Any]) -> Iterator[int]:
    for port in _list(_object(input, "ports"), "published"):
        if isinstance(port, dict):
            for name in ("first", "last"):
                number = port.get(name)
                if type(number) is int and 1024 <= number <= 65535:
                    yield number


def _object(document: Mapping[Any, Any], name: str) -> Mapping[Any, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _list(document: Mapping[Any, Any], name: str) -> list[Any]:
    value = document.get(name)
    return value if isinstance(value, list) else []


def _seconds(text: Any) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp()) if type(text) is str else 0
    except (ValueError, OverflowError):
        return 0


# What is learned of them.


@dataclass(slots=True)
class Value:
    """A value of a setting of one user or of all, with what it rests on."""

    section: str
    name: str
    value: str
    users: tuple[str, ...]
    cell: Cell
    proposal: str
    reason: str = ""
    decision: str = ""
    note: str = ""
    share: float = 1.0
    """Of the calls of its users, the part that needs it."""

    @property
    def is_odd(self) -> bool:
        """Return True for what is looked at first: few calls of its users need it."""
        return (
            self.is_granted and self.share < ODD and self.section in ("users", "images", "mounts")
        )

    @property
    def identifier(self) -> str:
        """Under what a decision about it is kept."""
        user = self.users[0] if self.section == "users" else ""
        return json.dumps([self.section, self.name, user, self.value])

    @property
    def is_granted(self) -> bool:
        """The person's decision, or else the proposal."""
        return (self.decision or self.proposal) == "allow"


@dataclass(slots=True)
class LearnedCalls:
    """Values that are proposed and asked about, and ports."""

    values: list[Value] = field(default_factory=list)
    ports: tuple[int, int] = (1024, 1023)
    """None, where no port was published."""
    require_digest: bool = False

    def data(self) -> dict[str, Any]:
        """The data file of the shipped policies."""
        shipped: dict[str, Any] = _shipped()["docker"]
        data: dict[str, Any] = json.loads(json.dumps(shipped))
        granted = [each for each in self.values if each.is_granted]
        lists: defaultdict[Setting, set[str]] = defaultdict(set)
        users: defaultdict[str, set[str]] = defaultdict(set)
        for each in granted:
            if each.section == "users":
                users[each.users[0]].add(each.value)
            else:
                lists[each.section, each.name].add(each.value)
        for section, name in (*_LISTS, ("images", "allow"), ("mounts", "allow")):
            data[section][name] = sorted(lists[section, name])
        data["networks"]["subnets"] = sorted(lists["networks", "subnets"])
        for section, name in _CLOSED:
            values = sorted(lists[section, name])
            is_flag = isinstance(shipped[section][name], bool)
            data[section][name] = bool(values) if is_flag else values
        data["local_roles"] = sorted(users.pop(LOCAL, ()))
        data["users"] = {user: sorted(names) for user, names in sorted(users.items())}
        low = [int(each) for each in lists["ports", "first"]]
        data["ports"]["first"], data["ports"]["last"] = min([*low, self.ports[0]]), self.ports[1]
        data["images"]["require_digest"] = self.require_digest
        for name in LIMITS:
            # A container without a limit is "0": it is as usual as any, or there is a ceiling.
            held_to = [_number(each) for each in lists["limits", name]]
            data["limits"][name] = 0 if 0 in held_to else max(held_to, default=0)
        return {"docker": data}


class _Enough(NamedTuple):
    """The evidence that a value needs."""

    events: int
    days: int

    def missing(self, cell: Cell) -> str:
        """Return the evidence that a value lacks; "" for none."""
        if cell.count < self.events:
            return f"fewer than {self.events} calls"
        return "on one day only" if cell.days.bit_count() < self.days else ""


def learn_docker(calls: Calls, limits: Limits) -> LearnedCalls:
    """Learn the needs of users from their calls."""
    learned = LearnedCalls()
    days = 0
    for cell in calls.used.values():
        days |= cell.days
    enough = _Enough(limits.events, min(2, days.bit_count()))
    by_value: defaultdict[tuple[str, str, str], dict[str, Cell]] = defaultdict(dict)
    totals: Counter[tuple[str, str, str]] = Counter()
    actions: defaultdict[str, dict[str, Cell]] = defaultdict(dict)
    for (user, section, name, value), cell in sorted(calls.used.items()):
        if section == "roles":
            actions[user][value] = cell
        else:
            by_value[section, name, value][user] = cell
            totals[user, section, name] += cell.count
    for user, used in actions.items():
        learned.values += _roles_of(user, used, calls, enough)
    for (section, name, value), users in by_value.items():
        judged = _judge(section, name, value, users, enough)
        judged.share = judged.cell.count / sum([totals[user, section, name] for user in users])
        learned.values.append(judged)
    ports = sorted(calls.ports.elements())
    if len(ports) >= limits.events:
        # The extremes are those that were asked for more often than an exception.
        learned.ports = ports[limits.events - 1], ports[-limits.events]
    learned.require_digest = calls.digests[0] >= limits.floor and not calls.digests[1]
    return learned


def _number(text: str) -> float:
    return int(text) if text.isdecimal() else float(text)


@cache
def roles() -> Mapping[str, frozenset[str]]:
    """The actions of each role, as the shipped policies have them."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in shipped_policies()}
    engine = Engine(sources, {})
    actions_by_role: Any = engine.prepare("data.policy.docker.roles.actions").value({})
    return {role: frozenset(actions) for role, actions in actions_by_role.items()}


@cache
def _shipped() -> Any:
    return json.loads((PACK / "data.json").read_text(encoding="utf-8"))


def _roles_of(
    user: str, used: Mapping[str, Cell], calls: Calls, enough: _Enough
) -> Iterator[Value]:
    """The least roles that have the actions of a user which are usual."""
    known = roles()
    usual = {
        action
        for action, cell in used.items()
        if not enough.missing(cell) and (user, action) not in calls.denied
    }
    within = {action for action in usual if any(action in each for each in known.values())}
    chosen = _least(within)
    covered = frozenset[str]().union(*[known[role] for role in chosen])
    for role in chosen:
        total = Cell()
        for action in sorted(within & known[role]):
            total.merge(used[action])
        smaller = frozenset[str]().union(*[each for each in known.values() if each < known[role]])
        needing = sum([cell.count for action, cell in used.items() if action not in smaller])
        share = needing / sum([cell.count for cell in used.values()]) if smaller else 1.0
        unused = len(known[role] - used.keys())
        reason = f"{share:.1%} of the calls need it; {unused} of its actions were not used"
        yield Value("users", "roles", role, (user,), total, "allow", reason, share=share)
    questions: defaultdict[str, list[str]] = defaultdict(list)
    for action in sorted(used.keys() - covered):
        having = [role for role in sorted(known) if action in known[role]]
        role = min(having, key=lambda each: (len(known[each]), each), default="admin")
        questions[role].append(action)
    for role, actions in questions.items():
        total = Cell()
        for action in actions:
            total.merge(used[action])
        refused = sum([calls.denied.get((user, action), 0) for action in actions])
        reason = f"for {', '.join(actions)}: {enough.missing(used[actions[0]])}"
        if role == "admin":
            reason = f"for {', '.join(actions)}: no other role has them"
        elif refused:
            reason = f"for {', '.join(actions)}: denied {refused} times as well"
        yield Value("users", "roles", role, (user,), total, "ask", reason)


def _least(actions: set[str]) -> tuple[str, ...]:
    """The fewest surplus actions, and then the fewest roles."""
    known = roles()
    best: tuple[int, int, tuple[str, ...]] | None = None
    for number in range(4):
        for chosen in combinations(sorted(known), number):
            covered = frozenset[str]().union(*[known[role] for role in chosen])
            if actions <= covered:
                rank = len(covered), number, chosen
                best = rank if best is None or rank < best else best
    return best[2] if best else ("operator",)


def _judge(
    section: str, name: str, value: str, users: Mapping[str, Cell], enough: _Enough
) -> Value:
    total = Cell()
    for cell in users.values():
        total.merge(cell)
    reason = _why_closed(section, name, value)
    reason = reason or enough.missing(total)
    # Several accounts that were stolen, each for a day, are not a habit.
    longest = max([cell.days.bit_count() for cell in users.values()])
    if not reason and longest < enough.days and len(users) < SEVERAL:
        reason = f"of fewer than {SEVERAL} users, each on one day only"
    proposal = "ask" if reason else "allow"
    return Value(section, name, value, tuple(sorted(users)), total, proposal, reason)


def _why_closed(section: str, name: str, value: str) -> str:
    """Why a value is not learned, whatever the evidence; "" for one that may be."""
    setting = section, name
    if setting in _CLOSED:
        return f"the shipped data allow no {_CLOSED[setting]}"
    if setting in _LISTS:
        inside = value in _shipped()["docker"][section][name]
        return "" if inside else f"the shipped data do not allow this {_LISTS[setting]}"
    if setting == ("images", "allow"):
        return "" if _NAME.match(value) else "the name of the image is not a plain one"
    if setting == ("mounts", "allow"):
        return _why_not_mounted(value)
    if setting == ("networks", "subnets"):
        return _why_not_subnet(value)
    if section == "limits":
        return ""
    return "the shipped data keep this closed"


def _why_not_mounted(folder: str) -> str:
    if not _FOLDER.match(folder) or ".." in folder.split("/") or "." in folder.split("/"):
        return "the folder is not a plain path of at least two names"
    inside = f"{folder}/"
    if any(inside.startswith(f"{each}/") or each.startswith(inside) for each in SYSTEM):
        return "the folder is a part of the system"
    return ""


def _why_not_subnet(value: str) -> str:
    try:
        subnet: Any = ipaddress.ip_network(value)
        allowed: Iterable[Any] = [
            ipaddress.ip_network(each) for each in _shipped()["docker"]["networks"]["subnets"]
        ]
    except ValueError:
        return "it is not a subnet"
    if any(each.version == subnet.version and subnet.subnet_of(each) for each in allowed):
        return ""
    return "the shipped data do not allow this subnet"
