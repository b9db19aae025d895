"""The kinds of requests: how each is written, sent, and looked at for what it did.

A kind knows its route's fields from the description. `write` makes one request out of a good one by
changing a few fields; `run` sends it, together with what it takes to see its effects, and says what
they were. Whether they were allowed is not known here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import urlencode

from examples.docker.private_daemon import Answer
from tests.docker.effects import observe
from tests.docker.effects.schema import Field, Path_, body_field, leaves, parameters
from tests.docker.effects.spellings import Writer
from tests.docker.effects.world import World, context_archive, marked_process

__all__ = ["CEILINGS", "KINDS", "Kind", "Outcome", "Request", "Sender"]

CEILINGS: Final = {"memory": 64 << 20, "cpus": 1, "pids": 50, "swap": 128 << 20}
"""What the policies are told that a container may have; swap is as much again as memory."""
_LIMITS: Final = {"Memory": 32 << 20, "MemorySwap": 64 << 20, "PidsLimit": 50, "CpuQuota": 50_000}
_SLEEP: Final = {"Image": "img:1", "Cmd": ["sleep", "86400"]}
_JSON: Final = ("Content-Type", "application/json")
_FORM: Final = ("Content-Type", "application/x-www-form-urlencoded")


@dataclass(frozen=True)
class Request:
    """One request, with placeholders. `fields` are what of the description stands in it."""

    method: str
    target: str
    body: str | bytes = ""
    headers: tuple[tuple[str, str], ...] = ()
    fields: frozenset[str] = frozenset()
    atoms: frozenset[str] = frozenset()
    """Fields with their values, taken apart: what the check counts, to know what is rare."""

    def __str__(self) -> str:
        body = self.body if isinstance(self.body, str) else f"({len(self.body)} bytes)"
        headers = "; ".join(f"{name}: {value}" for name, value in self.headers)
        return f"{self.method} {self.target} {body} [{headers}]"


@dataclass
class Outcome:
    """What the daemon made of a request."""

    accepted: bool
    effects: set[str] = field(default_factory=set)
    compared: bool = False
    """Whether there was something to look at."""
    container: str = ""
    """A container that still runs, with these effects."""


class Sender(Protocol):
    """Sends a request past the recorder."""

    def __call__(self, request: Request, /) -> Answer: ...


def _limit_effects(seen: observe.Observation) -> set[str]:
    return observe.beyond(seen, CEILINGS)


@dataclass
class Kind:
    """What all kinds share: the daemon, the writer, and a plain container to compare with."""

    world: World
    writer: Writer
    send: Sender
    plain: observe.Observation
    covered: set[str]
    """Fields that were sent before."""
    route: ClassVar[str] = ""
    weight: ClassVar[int] = 1
    method: ClassVar[str] = "POST"

    def __post_init__(self) -> None:
        self.body = self._body()
        self.paths = list(leaves(self.body)) if self.body else []
        self.query = parameters(self.route)

    def _body(self) -> Field | None:
        return body_field(self.route)

    def fields(self) -> set[str]:
        """Everything that the description has for this route."""
        return {self.name(path) for path in self.paths} | {
            f"{self.route} ?{name}" for name in self.query
        }

    def name(self, path: Path_) -> str:
        return f"{self.route} {'.'.join(path)}"

    def write(self) -> Request:
        raise NotImplementedError

    def run(self, request: Request) -> Outcome:
        raise NotImplementedError

    # writing

    def choose(self) -> Path_:
        """A field: one that was never sent, half of the time."""
        random_ = self.writer.random
        new = [path for path in self.paths if self.name(path) not in self.covered]
        if new and self.writer.often(0.5):
            return random_.choice(new)
        # By the first name, so that a large object is not all that is tried, then by the rest.
        first = random_.choice(sorted({path[:2] for path in self.paths}))
        return random_.choice([path for path in self.paths if path[:2] == first])

    def fill_in(self, base: dict[str, Any], number: int) -> tuple[list[Path_], frozenset[str]]:
        """Change a few fields of `base`; which, and with which values."""
        assert self.body is not None
        chosen = [self.choose() for _ in range(number)]
        for path in chosen:
            self.writer.assign(self.body, path, base)
        atoms = {atom for path in chosen for atom in _atoms(self.name(path), _at(base, path))}
        return chosen, frozenset(atoms)

    def names(self, chosen: Sequence[Path_], queries: Sequence[str] = ()) -> frozenset[str]:
        return frozenset(
            {self.name(path) for path in chosen} | {f"{self.route} ?{name}" for name in queries}
        )

    def json_headers(self) -> tuple[tuple[str, str], ...]:
        if not self.writer.often(0.05):
            return (_JSON,)
        self.writer.used["content type twice"] += 1
        return self.writer.random.choice(
            (
                (_JSON, ("Content-Type", "text/plain")),
                (("Content-Type", "text/plain"), _JSON),
                (("Content-Type", "Application/JSON; charset=utf-8"),),
            )
        )

    # looking

    def view(self, pid: int) -> set[str] | None:
        """The effects of a process; None where it is gone."""
        if not pid:
            return None
        try:
            seen = observe.observe(pid, self.world.daemon.folder.name)
        except (OSError, KeyError):
            return None
        return observe.exposures(seen, self.plain, "/effects/allowed") | _limit_effects(seen)

    def contacting(self, act: Callable[[], Any]) -> set[str]:
        """Whether the server that nobody may use was contacted meanwhile."""
        before = self.world.contacts()
        act()
        return {"contacts another server"} if self.world.contacts() > before else set()

    def start(self, identifier: str) -> Outcome:
        """Start a container that was made, and look at it."""
        effects = self.contacting(
            lambda: self.world.daemon.raw("POST", f"/v1.41/containers/{identifier}/start")
        )
        seen = self.view(self.world.pid(identifier))
        return Outcome(True, effects | (seen or set()), seen is not None, identifier)


def _at(value: Any, path: Path_) -> Any:
    """What is at a path; the first of the items of an array."""
    for name in path:
        while isinstance(value, list) and value:
            value = value[0]
        value = value.get(name) if isinstance(value, dict) else value
    return value


def _atoms(name: str, value: Any) -> Iterator[str]:
    """A field's value in parts: options one by one, numbers by their size."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _atoms(f"{name} {key}", item)
    elif isinstance(value, list):
        for item in value:
            yield from _atoms(name, item)
    elif isinstance(value, str):
        yield f"{name}={value}"
        if "," in value or ":" in value:
            yield from (f"{name}~{part.strip().lower()}" for part in re.split("[,:]", value))
    elif isinstance(value, bool) or not isinstance(value, int):
        yield f"{name}={value}"
    else:
        yield f"{name}={'-' if value < 0 else ''}{len(str(abs(value))) if value else 0}"


class Create(Kind):
    """A container that is created and started."""

    route = "/containers/create"
    weight = 8

    def write(self) -> Request:
        writer = self.writer
        base: dict[str, Any] = {**_SLEEP, "HostConfig": {"NetworkMode": "none", **_LIMITS}}
        chosen, atoms = self.fill_in(base, writer.random.choice((1, 1, 2, 3)))
        base |= _SLEEP if writer.often(0.9) else {}
        if writer.often(0.04):
            writer.used["field at the top of the body"] += 1
            base |= base.pop("HostConfig", None) or {}
        queries = {n: writer.query_value(n) for n in self.query if writer.often(0.05)}
        target = writer.target(self.route) + (f"?{urlencode(queries)}" if queries else "")
        return Request(
            "POST", target, writer.body_text(base), self.json_headers(),
            self.names(chosen, list(queries)), atoms,
        )  # fmt: skip

    def run(self, request: Request) -> Outcome:
        answer = self.send(request)
        if answer.status != 201:
            return Outcome(False)
        return self.start(str(json.loads(answer.body)["Id"]))


class Start(Kind):
    """A container that is created as it should be, and started in another way."""

    route = "/containers/{id}/start"
    weight = 1

    def _body(self) -> Field | None:
        # Old versions take a HostConfig here, which the description of this version leaves out.
        fields = {each.name: each for each in body_field("/containers/create").fields}
        return replace(fields["HostConfig"], name="")

    def fields(self) -> set[str]:
        return {f"{self.route} ?{name}" for name in self.query}

    def write(self) -> Request:
        writer = self.writer
        base: dict[str, Any] = {}
        atoms: frozenset[str] = frozenset()
        if writer.often(0.7):
            _, atoms = self.fill_in(base, 1)
        queries = {n: writer.query_value(n) for n in self.query if writer.often(0.2)}
        atoms |= {f"{self.route} ?{name}={value}" for name, value in queries.items()}
        version = writer.random.choice(("1.41", "1.24", "1.23", "1.22", "1.0000000022", "1.18"))
        writer.used["other API version"] += 1
        target = f"/v{version}/containers/effects-start/start"
        target += f"?{urlencode(queries)}" if queries else ""
        body = writer.body_text(base) if base else ""
        headers = self.json_headers() if base else ()
        return Request("POST", target, body, headers, self.names([], list(queries)), atoms)

    def run(self, request: Request) -> Outcome:
        document = {**_SLEEP, "HostConfig": {"NetworkMode": "none", **_LIMITS}}
        make = "/v1.41/containers/create?name=effects-start"
        self.world.daemon.raw("DELETE", "/v1.41/containers/effects-start?force=1&v=1")
        created = self.world.daemon.json("POST", make, document)
        answer = self.send(request)
        identifier = str(json.loads(created.body)["Id"])
        if answer.status != 204:
            self.world.remove(identifier)
            return Outcome(False)
        seen = self.view(self.world.pid(identifier))
        return Outcome(True, seen or set(), seen is not None, identifier)


class Volume(Kind):
    """A volume that is created, and mounted into a plain container."""

    route = "/volumes/create"
    weight = 4

    def write(self) -> Request:
        base: dict[str, Any] = {"Driver": "local"}
        chosen, atoms = self.fill_in(base, self.writer.random.choice((1, 1, 2)))
        if self.writer.often(0.5):
            chosen.append(("DriverOpts",))
            base["DriverOpts"] = self.writer.volume_options()
            atoms |= frozenset(_atoms(self.name(("DriverOpts",)), base["DriverOpts"]))
        base["Name"] = "effects-volume"
        text = self.writer.body_text(base)
        target = self.writer.target(self.route)
        return Request("POST", target, text, self.json_headers(), self.names(chosen), atoms)

    def run(self, request: Request) -> Outcome:
        answer = self.send(request)
        if answer.status != 201:
            return Outcome(False)
        name = json.loads(answer.body)["Name"]
        host = {"NetworkMode": "none", "Binds": [f"{name}:/h"], **_LIMITS}
        document = {**_SLEEP, "HostConfig": host}
        created = self.world.daemon.json("POST", "/v1.41/containers/create", document)
        outcome = Outcome(True)
        if created.status == 201:
            outcome = self.start(str(json.loads(created.body)["Id"]))
            self.world.remove(outcome.container)
        self.world.daemon.raw("DELETE", f"/v1.41/volumes/{name}?force=1")
        return Outcome(True, outcome.effects, outcome.compared)


class Update(Kind):
    """Changes of a container that has limits, one after another."""

    route = "/containers/{id}/update"
    weight = 4
    container = ""

    def choose(self) -> Path_:
        # What an update may lift are limits, and limits are numbers.
        assert self.body is not None
        numbers = [(each.name,) for each in self.body.fields if each.kind == "integer"]
        return self.writer.random.choice(numbers) if self.writer.often(0.5) else super().choose()

    def write(self) -> Request:
        base: dict[str, Any] = {}
        chosen, atoms = self.fill_in(base, self.writer.random.choice((1, 2, 3)))
        text = self.writer.body_text(base)
        target = "/v1.41/containers/effects-limited/update"
        if not self.container:
            self._reset()
        return Request("POST", target, text, self.json_headers(), self.names(chosen), atoms)

    def _reset(self) -> None:
        daemon = self.world.daemon
        daemon.raw("DELETE", "/v1.41/containers/effects-limited?force=1&v=1")
        document = {**_SLEEP, "HostConfig": {"NetworkMode": "none", **_LIMITS}}
        created = daemon.json("POST", "/v1.41/containers/create?name=effects-limited", document)
        self.container = str(json.loads(created.body)["Id"])
        daemon.raw("POST", f"/v1.41/containers/{self.container}/start")

    def run(self, request: Request) -> Outcome:
        if not self.container:
            self._reset()
        answer = self.send(request)
        if answer.status != 200:
            return Outcome(False)
        effects = self.view(self.world.pid(self.container))
        if effects is None or effects:
            self.container = ""  # what comes next is judged by itself
        return Outcome(True, effects or set(), effects is not None)


class Exec(Kind):
    """A program in a plain container."""

    route = "/containers/{id}/exec"
    weight = 1

    def write(self) -> Request:
        base: dict[str, Any] = {}
        chosen, atoms = self.fill_in(base, self.writer.random.choice((1, 2)))
        base |= {"Cmd": ["sleep", "30"]}
        base.pop("WorkingDir", None)
        target = self.writer.target("/containers/plain/exec")
        text = self.writer.body_text(base)
        return Request("POST", target, text, self.json_headers(), self.names(chosen), atoms)

    def run(self, request: Request) -> Outcome:
        answer = self.send(request)
        if answer.status != 201:
            return Outcome(False)
        identifier = json.loads(answer.body)["Id"]
        daemon = self.world.daemon
        daemon.json("POST", f"/v1.41/exec/{identifier}/start", {"Detach": True})
        created = json.loads(daemon.raw("GET", f"/v1.41/exec/{identifier}/json").body)
        effects = self.view(created.get("Pid") or 0)
        # Limits are those of the container, which has none.
        shown = {each for each in effects or () if not each.startswith("limit")}
        shown -= {each for each in shown if each.endswith("of another container")}
        return Outcome(True, shown, effects is not None)


class Service(Kind):
    """A service of the swarm, whose task is looked at."""

    route = "/services/create"
    weight = 2

    def spec(self) -> dict[str, Any]:
        container = {"Image": "img:1", "Command": ["sleep", "86400"], "StopGracePeriod": 1}
        limits = {"MemoryBytes": 32 << 20, "NanoCPUs": 500_000_000, "Pids": 50}
        task = {
            "ContainerSpec": container,
            "RestartPolicy": {"Condition": "none"},
            "Resources": {"Limits": limits},
        }
        return {"Name": "effects-service", "TaskTemplate": task}

    def write(self) -> Request:
        base = self.spec()
        chosen, atoms = self.fill_in(base, self.writer.random.choice((1, 1, 2)))
        base["Name"] = "effects-service"
        if self.writer.often(0.2):
            network = self.writer.network()
            inside = self.writer.often(0.5) and bool(base.get("TaskTemplate"))
            holder = base["TaskTemplate"] if inside else base
            holder["Networks"] = [{"Target": network}]
            path = ("Networks", "Target")
            chosen.append(("TaskTemplate", *path) if inside else path)
            atoms |= {f"{self.route} Networks {inside} {network}"}
        text = self.writer.body_text(base)
        target = self.writer.target(self.route)
        return Request("POST", target, text, self.json_headers(), self.names(chosen), atoms)

    def run(self, request: Request) -> Outcome:
        outcome = Outcome(False)

        def act() -> None:
            nonlocal outcome
            answer = self.send(request)
            if answer.status in (200, 201):
                outcome = self.observed()

        effects = self.contacting(act)
        outcome.effects |= effects
        self.gone()
        return outcome

    def observed(self) -> Outcome:
        seen = self.view(self.world.wait_task("effects-service", 5.0))
        return Outcome(True, seen or set(), seen is not None)

    def gone(self) -> None:
        """Remove the service, and its container at once."""
        daemon = self.world.daemon
        daemon.raw("DELETE", "/v1.41/services/effects-service")
        label = '{"label":["com.docker.swarm.service.name=effects-service"]}'
        query = urlencode({"all": "1", "filters": label})
        for each in json.loads(daemon.raw("GET", f"/v1.41/containers/json?{query}").body):
            self.world.remove(each["Id"])


class ServiceUpdate(Service):
    """A service without tasks, which is changed into one that has them."""

    route = "/services/{id}/update"
    weight = 1

    def write(self) -> Request:
        request = super().write()
        others = [name for name in self.query if name != "version" and self.writer.often(0.1)]
        queries = {name: self.writer.query_value(name) for name in others}
        target = "/v1.41/services/effects-service/update?version=VERSION"
        target += f"&{urlencode(queries)}" if queries else ""
        names = request.fields | {f"{self.route} ?{name}" for name in (*queries, "version")}
        return Request("POST", target, request.body, request.headers, names, request.atoms)

    def run(self, request: Request) -> Outcome:
        daemon = self.world.daemon
        empty = {**self.spec(), "Mode": {"Replicated": {"Replicas": 0}}}
        if daemon.json("POST", "/v1.41/services/create", empty).status != 201:
            return Outcome(False)
        created = json.loads(daemon.raw("GET", "/v1.41/services/effects-service").body)
        version = str(created["Version"]["Index"])
        target = request.target.replace("VERSION", version)
        sent = Request("POST", target, request.body, request.headers)
        return super().run(sent)


class Queried(Kind):
    """Requests whose parameters stand in the query, in a form in the body, or in both."""

    def _body(self) -> Field | None:
        return None

    def spread(self, base: dict[str, str], chance: float) -> Request:
        """`base` and other parameters, in the query or in a form, with one of the types."""
        writer = self.writer
        query, form = dict(base), {}
        for name in self.query:
            where = writer.random.random()
            if where < chance:
                query[name] = writer.query_value(name)
            elif where < chance * 1.6:
                form[name] = writer.query_value(name)
                both = name in query
                writer.used["value in query and form" if both else "value in the form only"] += 1
        if writer.often(0.5):
            form = {}
        pairs = list(query.items())
        if pairs and writer.often(0.04):
            writer.used["value in the query twice"] += 1
            name = writer.random.choice(pairs)[0]
            pairs.append((name, writer.query_value(name)))
        headers: list[tuple[str, str]] = []
        if form:
            headers.append(_FORM)
            writer.used["content type of a form"] += 1
        if (not form and writer.often(0.8)) or (form and writer.often(0.4)):
            other = writer.random.choice(("application/x-tar", "text/plain"))
            headers.append(("Content-Type", other))
            writer.used["content type twice"] += len(headers) > 1
        target = writer.target(self.route) + "?" + _encoded(pairs)
        names = self.names([], [*query, *form])
        others = {n: v for n, v in query.items() if base.get(n) != v}
        atoms = {atom for n, v in others.items() for atom in _atoms(f"{self.route} ?{n}", v)}
        atoms |= {atom for n, v in form.items() for atom in _atoms(f"{self.route} form {n}", v)}
        atoms |= {f"{self.route} type {value}" for _, value in headers}
        body: str | bytes = _encoded(list(form.items())) if form else self.archive()
        return Request("POST", target, body, tuple(headers), names, frozenset(atoms))

    def archive(self) -> bytes:
        return b""


def _encoded(pairs: list[tuple[str, str]]) -> str:
    """A query, but with braces, so that placeholders stay."""
    return urlencode(pairs).replace("%7B", "{").replace("%7D", "}").replace("%3A", ":")


class Build(Queried):
    """A build, with a step that is looked at while it runs."""

    route = "/build"
    weight = 3

    def archive(self) -> bytes:
        return context_archive()

    def write(self) -> Request:
        base = {
            "t": "img:built", "networkmode": "none", "cpuquota": "50000", "nocache": "1",
            "memory": str(32 << 20), "memswap": str(64 << 20),
        }  # fmt: skip
        return self.spread(base, self.writer.random.choice((0.02, 0.05, 0.1)))

    def run(self, request: Request) -> Outcome:
        before = self.world.tags()
        answers: list[Answer] = []
        outcome = Outcome(False)

        def act() -> None:
            thread = threading.Thread(target=lambda: answers.append(self.send(request)))
            thread.start()
            while thread.is_alive():
                thread.join(0.05)
                pid = marked_process()
                if pid and not outcome.compared:
                    seen = self.view(pid)
                    outcome.compared = seen is not None
                    outcome.effects |= seen or set()
                if pid:
                    _end(pid)

        outcome.effects |= self.contacting(act)
        outcome.accepted = bool(answers) and answers[0].status == 200
        new = self.world.tags() - before
        outcome.effects |= {f"tags {tag}" for tag in new if not tag.startswith(("img:", "<none>"))}
        self.world.untag(new)
        # A build has no limit of processes.
        outcome.effects -= {each for each in outcome.effects if each.startswith("limit pids")}
        return outcome


def _end(pid: int) -> None:
    """End the step of a build, which then fails."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Image(Queried):
    """An image that is pulled or imported."""

    route = "/images/create"
    weight = 3

    def archive(self) -> bytes:
        return b"\0" * 1024 if self.writer.often(0.5) else b""

    def write(self) -> Request:
        return self.spread({}, 0.35)

    def run(self, request: Request) -> Outcome:
        before = self.world.tags()
        answers: list[Answer] = []
        effects = self.contacting(lambda: answers.append(self.send(request)))
        new = self.world.tags() - before
        allowed = ("img:", f"{self.world.names['good']}/")
        effects |= {f"tags {tag}" for tag in new if not tag.startswith(allowed)}
        self.world.untag(new)
        return Outcome(answers[0].status == 200, effects, compared=True)


class Plugins(Queried):
    """A plugin that is installed or upgraded."""

    route = "/plugins/pull"
    weight = 1

    def write(self) -> Request:
        queries = {n: self.writer.query_value(n) for n in self.query if self.writer.often(0.7)}
        if self.writer.often(0.7):
            remotes = ("{evil}/x", "{good}/x", "{evil}/x:latest")
            queries["remote"] = self.writer.random.choice(remotes)
        target = self.writer.target(self.route) + "?" + _encoded(list(queries.items()))
        atoms = frozenset(f"{self.route} ?{n}={v}" for n, v in queries.items())
        names = self.names([], list(queries))
        return Request("POST", target, "[]", self.json_headers(), names, atoms)

    def run(self, request: Request) -> Outcome:
        answers: list[Answer] = []
        effects = self.contacting(lambda: answers.append(self.send(request)))
        return Outcome(answers[0].status in (200, 204), effects, compared=True)


KINDS: Final[tuple[type[Kind], ...]] = (
    Create, Start, Volume, Update, Exec, Service, ServiceUpdate, Build, Image, Plugins,
)  # fmt: skip
