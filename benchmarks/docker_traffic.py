"""Generated calls of Docker's daemon, with hidden true data of the shipped policies, and attacks.

    DockerWorld ─calls()─▶ calls in the order of time ─write()─▶ an audit log with inputs

Users have roles, and use images, folders, ports and limits; the true data say what they may. The
log is one of a daemon whose policy let everything through, so that attacks are in it as well.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple, TextIO

from benchmarks.traffic import DAY, KINDS, START, time_text
from doorward.docker.decider.embedded import PACK, shipped_policies
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import InputOptions, to_input
from doorward.rego import Engine

__all__ = ["Call", "DockerWorld", "Template", "docker_world"]

_USER: Final = "@@user@@"


class Template(NamedTuple):
    """A call that somebody may make; `role`: the least one that has its action."""

    role: str
    method: str
    path: str
    body: Any = None
    weight: float = 1.0


class Call(NamedTuple):
    """A call of one user; `kind` is that of an attack, or "" for a legitimate one."""

    user: str
    template: int
    kind: str = ""
    time: float = 0.0


@dataclass
class DockerWorld:
    """Users with their roles, calls, and the true data."""

    users: dict[str, str]
    """The role of each user."""
    templates: list[Template]
    wrong: list[int]
    """Templates that nobody may use."""
    data: dict[str, Any]
    rules: int
    """Values in the true data that are not the shipped ones."""
    _allowed: dict[tuple[str, int], bool] = field(default_factory=dict)

    @cached_property
    def inputs(self) -> list[dict[str, Any]]:
        """The input of each template, for a user whose name is put in later."""
        return [_input(each) for each in self.templates]

    @cached_property
    def _texts(self) -> list[str]:
        return [json.dumps(each, separators=(",", ":")) for each in self.inputs]

    @cached_property
    def _truth(self) -> Any:
        return decider({"docker": self.data})

    def allows(self, user: str, template: int) -> bool:
        """The truth, by role: users of one role may do the same."""
        key = self.users[user], template
        if key not in self._allowed:
            self._allowed[key] = self._truth.value(self.input(user, template)) is True
        return self._allowed[key]

    def input(self, user: str, template: int) -> dict[str, Any]:
        """The input of a call."""
        return {**self.inputs[template], "User": user}

    def legitimate(self, rng: random.Random) -> Call:
        """A call that a user makes; some users are more active than others."""
        names = list(self.users)
        while True:
            user = names[int(len(names) * rng.random() ** 1.5)]
            weights = [each.weight for each in self.templates]
            template = rng.choices(range(len(self.templates)), weights)[0]
            if self.allows(user, template):
                return Call(user, template)

    def anything(self, rng: random.Random) -> Call:
        """A call of the whole space."""
        return Call(rng.choice(list(self.users)), rng.randrange(len(self.templates)))

    def calls(self, number: int, *, seed: int, days: int = 10, attacks: float = 0.01) -> list[Call]:
        """So many calls in the order of time, of which a share are attacks."""
        rng = random.Random(f"docker {seed}")
        hostile = list(self._attacks(rng, round(number * attacks), days))
        names = list(self.users)
        own = {
            role: [t for t in range(len(self.templates)) if self.allows(name, t)]
            for name, role in self.users.items()
        }
        weights = {role: [self.templates[t].weight for t in ts] for role, ts in own.items()}
        calls = []
        for _ in range(number - len(hostile)):
            user = names[int(len(names) * rng.random() ** 1.5)]
            role = self.users[user]
            template = rng.choices(own[role], weights[role])[0]
            calls.append(Call(user, template, "", START + rng.random() * days * DAY))
        return sorted([*calls, *hostile], key=lambda each: each.time)

    def _attacks(self, rng: random.Random, number: int, days: int) -> Iterator[Call]:
        """A fifth of each kind: of the last, three users do a forbidden thing on every day."""
        share = max(1, number // len(KINDS))
        viewers = [name for name, role in self.users.items() if role == "viewer"]
        thieves = rng.sample(viewers, 8)
        everything = range(len(self.templates))
        forbidden = [t for t in everything if not self.allows(thieves[0], t)]
        for kind in KINDS:
            begin = START + rng.randrange(days) * DAY + 7 * 3600
            slow = rng.choice([t for t in forbidden if t not in self.wrong])
            for n in range(share):
                if kind == "slow":
                    time = START + (n + rng.random()) * days / share * DAY
                    yield Call(thieves[5 + n % 3], slow, kind, time)
                elif kind == "scan":
                    yield Call(thieves[0], rng.choice(self.wrong), kind, begin + n * 0.2)
                else:
                    thief = thieves[KINDS.index(kind)]
                    yield Call(thief, rng.choice(forbidden), kind, begin + n * 3600 / share)

    def write(self, calls: Sequence[Call], file: TextIO) -> int:
        """Write the audit log; the number of its lines."""
        number = 0
        for number, call in enumerate(calls, 1):
            input = self.inputs[call.template]
            user = json.dumps(call.user)
            head = {
                "time": time_text(call.time),
                "decision_id": f"d-{number}",
                "user": call.user,
                "method": input["Method"],
                "action": input["action"],
                "target": input["target"],
                "uri": input["Path"],
                "phase": "request",
                "decision": "allow",
                "reason": "",
                "rule": "roles",
                "latency_ms": 0.4,
            }
            text = self._texts[call.template].replace(json.dumps(_USER), user)
            file.write(f'{json.dumps(head)[:-1]}, "input": {text}}}\n')
        return number


def decider(data: dict[str, Any]) -> Any:
    """The decision of the shipped policies with these data."""
    sources = {path.name: path.read_text() for path in shipped_policies()}
    return Engine(sources, data).prepare("data.policy.docker.authz.allow")


def _input(template: Template) -> dict[str, Any]:
    body = None if template.body is None else json.dumps(template.body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    path = f"/v1.41{template.path}"
    request = AuthzRequest(template.method, path, _USER, "TLS", headers, body)
    input: dict[str, Any] = {**to_input(request, InputOptions()), "inspects": True}
    return input


def docker_world() -> DockerWorld:
    """Viewers look, developers run their images, operators clean up and push."""
    users = {f"view{n:02}": "viewer" for n in range(30)}
    users |= {f"dev{n:02}": "developer" for n in range(25)} | {
        f"ops{n}": "operator" for n in range(5)
    }
    names = list(users)
    random.Random(5).shuffle(names)
    images = [f"team/{name}" for name in ("web", "api", "jobs", "cron", "mail", "search", "pay")]
    images += ["busybox", "postgres", "redis"]
    templates = [
        Template("viewer", "GET", "/containers/json", weight=40),
        Template("viewer", "GET", "/info", weight=10),
        Template("viewer", "GET", "/images/json", weight=10),
        Template("viewer", "GET", "/containers/c/logs?stdout=1", weight=20),
        Template("viewer", "GET", "/containers/c/json", weight=20),
        Template("developer", "POST", "/containers/c/start", weight=10),
        Template("developer", "POST", "/containers/c/stop", weight=10),
        Template("developer", "DELETE", "/containers/c", weight=5),
        Template("developer", "POST", "/containers/c/exec", {"Cmd": ["sh"]}, 6),
        Template("operator", "POST", "/images/team/web/push", None, 4),
        Template("operator", "POST", "/images/prune", None, 2),
        Template("operator", "DELETE", "/images/old", None, 2),
    ]
    folders = ["/srv/web/static", "/srv/jobs/in", "/srv/data/pay"]
    for number, image in enumerate(images):
        host: dict[str, Any] = {"Memory": (1 + number % 4) << 28, "NanoCpus": 10**9}
        templates.append(_create(image, host, 6))
        templates.append(Template("developer", "POST", f"/images/create?fromImage={image}&tag=1"))
        if number < 3:
            templates.append(_create(image, {**host, "Binds": [f"{folders[number]}:/data"]}, 3))
        ports = {"80/tcp": [{"HostPort": str(8000 + 10 * number)}]}
        templates.append(_create(image, {**host, "PortBindings": ports}, 3))
    first_wrong = len(templates)
    base = {"Memory": 1 << 28, "NanoCpus": 10**9}
    templates += [
        _create("evil/miner", base, 0),
        _create("busybox", {**base, "Privileged": True}, 0),
        _create("busybox", {**base, "Binds": ["/etc:/host"]}, 0),
        _create("busybox", {**base, "Binds": ["/var/run/docker.sock:/s"]}, 0),
        _create("busybox", {**base, "NetworkMode": "host"}, 0),
        _create("busybox", {**base, "CapAdd": ["SYS_ADMIN"]}, 0),
        _create("busybox", {"Memory": 1 << 40, "NanoCpus": 10**9}, 0),
        _create("busybox", {}, 0),
        Template("admin", "GET", "/swarm/unlockkey", None, 0),
    ]
    data: dict[str, Any] = json.loads((PACK / "data.json").read_text())["docker"]
    data["local_roles"] = []
    data["users"] = {name: [users[name]] for name in names}
    allowed = [f"docker.io/{each if '/' in each else 'library/' + each}" for each in images]
    data["images"]["allow"] = allowed
    data["mounts"]["allow"] = folders
    data["ports"] |= {"first": 8000, "last": 8090}
    data["limits"] |= {"memory": 4 << 28, "cpus": 1}
    wrong = list(range(first_wrong, len(templates)))
    rules = len(users) + len(images) + len(folders) + 4
    return DockerWorld({name: users[name] for name in names}, templates, wrong, data, rules)


def _create(image: str, host: dict[str, Any], weight: float) -> Template:
    body = {"Image": image, "HostConfig": host}
    return Template("developer", "POST", "/containers/create", body, weight)
