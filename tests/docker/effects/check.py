"""The property: what reaches the host is denied to an operator by the shipped policies.

Requests go to a daemon whose plugins allow what they can read and keep the input: one sees only the
request, the other asks the daemon about containers, as `--inspect` does. What the daemon made of a
request is observed; where that reaches the host, another container or another server, or is more
than the ceilings allow, the shipped policies, asked with the same input, must have said no.

Most requests that a policy denies need not be sent to know that they were denied. Each is first
given to a plugin in this process, in the form in which the daemon would show it. Of several that
would be allowed the most suspicious is sent: the one with a value that is nearly always denied, or
that was never sent. One in four is sent whatever the policies say, so that effects are compared
with denials, too. The verdict is always about what the daemon itself showed.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.effects import observe
from tests.docker.effects.kinds import CEILINGS, KINDS, Kind, Outcome, Request
from tests.docker.effects.spellings import SPELLINGS, Writer
from tests.docker.effects.world import World
from tests.waiting import PATIENCE

from doorward.docker.decider import answer
from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.plugin import Plugin
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.input import resolve_path

__all__ = ["Check", "Violation"]

_DENIED_SHARE: Final = 0.25
_ATTEMPTS: Final = 300
_FEW: Final = 20
_CANDIDATES: Final = 8
_ENTERING: Final = (
    ("POST", "/v1.41/containers/{}/exec", b'{"Cmd":["true"]}'),
    ("POST", "/v1.41/containers/{}/attach", b""),
    ("PUT", "/v1.41/containers/{}/archive?path=/", b""),
    ("GET", "/v1.41/containers/{}/archive?path=/", b""),
    ("GET", "/v1.41/containers/{}/export", b""),
    ("POST", "/v1.41/commit?container={}&repo=img", b""),
)


@dataclass(frozen=True)
class Violation:
    """A request that was allowed although it did this."""

    kind: str
    request: str
    effects: tuple[str, ...]
    seconds: float
    number: int
    """How many requests were sent until then."""


class Recorder:
    """Decides "allow", and keeps what it was shown."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []

    def decide(self, input: dict[str, Any]) -> answer.Answer:
        self.inputs.append(input)
        return answer.Answer(True)


@dataclass
class Check:
    """A daemon behind two recorders, and the policies that judge what they recorded."""

    daemon: PrivateDaemon
    name: str
    folder: Path
    seed: int = 1
    written: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    effective: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.writer = Writer(self.random)
        self.started = time.monotonic()
        self.covered: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.denied: Counter[str] = Counter()
        self.tried: defaultdict[str, float] = defaultdict(float)
        self.allowed: Counter[str] = Counter()
        self.world = World(self.daemon)
        self.world.start()
        self.policies = [self._pack("open", {}), self._pack("limited", CEILINGS)]
        facts = ContainerFacts(self.daemon.socket, resolve_path, deadline=PATIENCE)
        self.recorders = [Recorder(), Recorder()]
        self.plugins = [Plugin(self.recorders[0]), Plugin(self.recorders[1], facts=facts)]
        foreseers = [Recorder(), Recorder()]
        self.foreseeing = [
            (foreseers[0], Plugin(foreseers[0])),
            (foreseers[1], Plugin(foreseers[1], facts=facts)),
        ]
        names = [f"{self.name}{suffix}" for suffix in "pi"]
        for name, plugin in zip(names, self.plugins, strict=True):
            self.daemon.plugin(name, plugin.answer)
        self.daemon.chain(*names)
        pid = self.world.pid("plain")
        self.plain = observe.observe(pid, self.daemon.folder.name)
        self.kinds = [
            kind(self.world, self.writer, self._send, self.plain, self.covered)
            for kind in KINDS
            if not (self.world.swarm and kind.__name__.startswith("Service"))
        ]

    def close(self) -> None:
        self.daemon.chain()
        for name in [each for each in self.daemon.servers if each.startswith(self.name)]:
            self.daemon.end_plugin(name)
        for name in ("effects-start", "effects-limited"):
            self.daemon.raw("DELETE", f"/v1.41/containers/{name}?force=1&v=1")
        self.world.close()
        for policies in self.policies:
            policies.close()

    def _pack(self, name: str, ceilings: dict[str, int]) -> EmbeddedPdp:
        """The shipped policies with as little allowed as there can be."""
        folder = self.folder / name
        shutil.copytree(PACK, folder)
        data = json.loads((folder / "data.json").read_text())
        settings = data["docker"]
        settings |= {
            "users": {"alice": ["operator"]},
            "limits": {name: ceilings.get(name, 0) for name in ("memory", "cpus", "pids")},
            "remotes": {"allow": [f"http://{self.world.names['good']}/**"]},
        }
        settings["images"] |= {
            "allow": ["docker.io/library/img", f"{self.world.names['good']}/**"],
        }
        settings["mounts"] |= {"allow": [self.world.names["allowed"]]}
        (folder / "data.json").write_text(json.dumps(data))
        return EmbeddedPdp([str(folder)], watch=False)

    # requests

    def step(self) -> None:
        """Write requests until one is worth sending; send it and compare."""
        [kind] = self.random.choices(self.kinds, weights=[each.weight for each in self.kinds])
        request = self._next(kind)
        outcome = self._run(kind, request)
        if outcome.container:
            if _without_limits(outcome.effects):
                self._enter(kind, request, outcome)
            self.world.remove(outcome.container)

    def _next(self, kind: Kind) -> Request:
        """Of several requests that a policy would allow, the one most worth sending; or any."""
        name = _name(kind)
        request = kind.write()
        self.written[name] += 1
        if self.random.random() < _DENIED_SHARE:
            return request
        best, highest, candidates = request, -1.0, 0
        # What never was allowed is not waited for long.
        attempts = _ATTEMPTS if self.allowed[name] or self.written[name] < _ATTEMPTS else _FEW
        for _ in range(attempts):
            allowed = any(self._foreseen(request))
            for atom in request.atoms:
                self.seen[atom] += 1
                self.denied[atom] += not allowed
            if allowed:
                self.allowed[name] += 1
                candidates += 1
                score = self._worth(request)
                if score > highest:
                    best, highest = request, score
                if candidates == _CANDIDATES:
                    break
            request = kind.write()
            self.written[name] += 1
        return best

    def _worth(self, request: Request) -> float:
        """High where a part that is nearly always denied is allowed for once, or a part is new."""
        suspicion = [
            (self.denied[atom] / self.seen[atom]) / (1 + self.tried[atom]) for atom in request.atoms
        ]
        new = sum(not self.tried[atom] for atom in request.atoms)
        return max(suspicion, default=0) + 0.1 * min(new, 5)

    def _run(self, kind: Kind, request: Request) -> Outcome:
        name = _name(kind)
        self.sent[name] += 1
        self.views: list[dict[str, Any] | None] = [None, None]
        outcome = kind.run(request)
        self.covered |= request.fields
        for atom in request.atoms:
            # What the daemon refuses may work together with other values.
            self.tried[atom] += 1 if outcome.accepted else 0.25
        self.accepted[name] += outcome.accepted
        self.compared[name] += outcome.compared
        if outcome.effects:
            self.effective[name] += 1
            self._judge(name, str(request), outcome.effects, self.views)
        return outcome

    def _send(self, request: Request) -> Answer:
        for recorder in self.recorders:
            recorder.inputs.clear()
        target, body, headers = self._filled(request)
        answer = self.daemon.raw(request.method, target, body, headers)
        self.views = [self._view(recorder) for recorder in self.recorders]
        return answer

    def _filled(self, request: Request) -> tuple[str, bytes, list[tuple[str, str]]]:
        body = request.body
        content = self.world.fill(body).encode() if isinstance(body, str) else body
        return self.world.fill(request.target).replace(" ", "%20"), content, list(request.headers)

    @staticmethod
    def _view(recorder: Recorder) -> dict[str, Any] | None:
        """The first that is not a question of the plugin."""
        for each in recorder.inputs:
            if each["Method"] != "GET":
                return each
        return None

    def _foreseen(self, request: Request) -> Iterator[bool]:
        """Whether each of the policies would allow it, by each of the plugins."""
        target, body, headers = self._filled(request)
        yield from self._asked(request.method, target, body, headers, (0, 1))

    def _asked(
        self,
        method: str,
        target: str,
        body: bytes,
        headers: list[tuple[str, str]],
        plugins: tuple[int, ...],
    ) -> Iterator[bool]:
        """What the plugins make of the call that the daemon would make for a request."""
        call: dict[str, Any] = {
            "RequestMethod": method,
            "RequestUri": target,
            "RequestHeaders": dict(headers) | {"Content-Length": str(len(body))},
        }
        first = next((value for name, value in headers if name == "Content-Type"), "")
        if first.partition(";")[0].strip().lower() == "application/json" and body:
            call["RequestBody"] = base64.b64encode(body).decode()
        content = json.dumps(call).encode()
        for number in plugins:
            recorder, plugin = self.foreseeing[number]
            recorder.inputs.clear()
            plugin.answer("/AuthZPlugin.AuthZReq", content)
            if not recorder.inputs:
                yield False
            for view in recorder.inputs[:1]:
                yield from (self._allows(policies, view) for policies in self.policies)

    def _enter(self, kind: Kind, request: Request, outcome: Outcome) -> None:
        """Where containers are inspected, only an admin may enter one that reaches the host."""
        for method, path, body in _ENTERING:
            target = path.format(outcome.container)
            headers = [("Content-Type", "application/json")] if body else []
            if any(self._asked(method, target, body, headers, (1,))):
                how = f"{method} {path} after {request}"
                self._report(f"enter after {_name(kind)}", how, outcome.effects)
                return

    # judgement

    def _judge(
        self, kind: str, request: str, effects: set[str], views: list[dict[str, Any] | None]
    ) -> None:
        open_, limited = self.policies
        for view in views:
            if view is None:
                continue  # refused before any policy was asked
            worse = _without_limits(effects)
            if worse and self._allows(open_, view):
                self._report(kind, request, worse)
                return
            if self._allows(limited, view):
                self._report(kind, request, effects)
                return

    @staticmethod
    def _allows(policies: EmbeddedPdp, view: dict[str, Any]) -> bool:
        question = {**view, "User": "alice", "AuthMethod": "TLS", "identified": True}
        result: Any = policies.decide(question).result
        return result["allow"] is not False

    def _report(self, kind: str, request: str, effects: set[str]) -> None:
        seconds = time.monotonic() - self.started
        number = self.sent.total()
        self.violations.append(Violation(kind, request, tuple(sorted(effects)), seconds, number))

    # what was covered

    def table(self) -> str:
        """What was sent and what had effects, by kind of request, as Markdown."""
        heads = (
            "request", "written", "sent", "accepted", "effects compared", "with effects", "allowed",
        )  # fmt: skip
        lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        wrong = Counter(violation.kind for violation in self.violations)
        counters = (self.written, self.sent, self.accepted, self.compared, self.effective, wrong)
        for kind in sorted(self.sent):
            lines.append(f"| {kind} | " + " | ".join(str(each[kind]) for each in counters) + " |")
        totals = " | ".join(str(each.total()) for each in counters)
        return "\n".join([*lines, f"| all | {totals} |"])

    def coverage(self) -> str:
        """The fields of the description that were sent, and the spellings, as Markdown."""
        lines = ["| route | fields sent | of |", "|---|---|---|"]
        for kind in self.kinds:
            fields = kind.fields()
            lines.append(f"| {kind.route} | {len(fields & self.covered)} | {len(fields)} |")
        used = {name: self.writer.used[name] for name in SPELLINGS}
        lines += ["", "| spelling | times written |", "|---|---|"]
        lines += [f"| {name} | {number} |" for name, number in used.items()]
        return "\n".join(lines)


def _name(kind: Kind) -> str:
    return f"{kind.method} {kind.route}"


def _without_limits(effects: set[str]) -> set[str]:
    return {each for each in effects if not each.startswith("limit ")}
