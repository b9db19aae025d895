"""The property: what reaches the host is denied to a developer by the shipped policies.

Requests go to a daemon whose only plugin allows what it can read and keeps the input. What the
daemon made of a request is observed; where that reaches the host, or is more than the ceilings
allow, the shipped policies, asked with the same input, must have said no.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.effects import observe
from tests.docker.effects.schema import Field, body_field, leaves, query_names
from tests.docker.effects.spellings import assign, generate, respelled

from doorward.docker import remote
from doorward.docker.embedded import PACK, EmbeddedPdp
from doorward.docker.plugin import Plugin

__all__ = ["Check", "Violation"]

CEILINGS: Final = {"memory": 64 << 20, "cpus": 1, "pids": 50}
SLEEP: Final = {"Image": "img:1", "Cmd": ["sleep", "300"]}
_CONTACT: Final = re.compile(r"(?:lookup |https?://)([a-z.]+)")
HOSTS: Final = ("first.invalid/x", "second.invalid/x", "ok")


@dataclass(frozen=True)
class Violation:
    """A request that was allowed although it did this."""

    kind: str
    request: str
    effects: tuple[str, ...]


class Recorder:
    """Decides "allow", and keeps what it was shown."""

    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []

    def decide(self, input: dict[str, Any]) -> remote.Answer:
        self.inputs.append(input)
        return remote.Answer(True)


@dataclass
class Check:
    """A daemon behind a recorder, and the policies that judge what it recorded."""

    daemon: PrivateDaemon
    name: str
    folder: Path
    seed: int = 1
    sent: Counter[str] = field(default_factory=Counter)
    effective: Counter[str] = field(default_factory=Counter)
    covered: set[tuple[str, ...]] = field(default_factory=set)
    violations: list[Violation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.recorder = Recorder()
        self.create = body_field("/containers/create")
        self.update = body_field("/containers/{id}/update")
        self.volume = body_field("/volumes/create")
        self.exec = body_field("/containers/{id}/exec")
        self.open = self._pack("open", {})
        self.limited = self._pack("limited", CEILINGS)
        self.daemon.plugin(self.name, Plugin(self.recorder).answer)
        self.daemon.chain(self.name)
        container = self._made({**SLEEP, "HostConfig": {"NetworkMode": "none"}})
        assert container is not None, self.daemon.log[-1000:]
        self.plain_id = container
        self.plain = self._observed(container)

    def close(self) -> None:
        self.daemon.chain()
        self.daemon.end_plugin(self.name)

    def _pack(self, name: str, ceilings: dict[str, int]) -> EmbeddedPdp:
        folder = self.folder / name
        shutil.copytree(PACK, folder)
        data = json.loads((folder / "data.json").read_text())
        data["docker"] |= {"users": {"alice": ["operator"]}, "limits": ceilings}
        (folder / "data.json").write_text(json.dumps(data))
        return EmbeddedPdp([str(folder)], watch=False)

    # requests

    def step(self) -> None:
        """One request, or a few that belong together."""
        action: Callable[[], None] = self.random.choices(
            [self._create, self._volume, self._update, self._exec, self._query],
            weights=[6, 3, 2, 1, 2],
        )[0]
        action()

    def _send(self, method: str, target: str, body: Any) -> Answer:
        self.recorder.inputs.clear()
        return self.daemon.json(method, f"/v1.41{target}", body)

    def _create(self) -> None:
        body: dict[str, Any] = {**SLEEP, "HostConfig": {"NetworkMode": "none"}}
        for _ in range(self.random.choice((1, 1, 2, 3))):
            name = self.random.choice(("HostConfig", "HostConfig", "HostConfig", None))
            names = [each.name for each in self.create.fields if each.name not in SLEEP]
            assign(self.random, self.create, body, name or self.random.choice(names))
        text = json.dumps(respelled(self.random, body)).replace("{id}", self.plain_id)
        self._judge("create", text, self._made(text.encode()))

    def _made(self, body: Any) -> str | None:
        """The identifier of a container that runs, or None."""
        answer = self._send("POST", "/containers/create", body)
        if answer.status != 201:
            return None
        identifier = str(json.loads(answer.body)["Id"])
        view = list(self.recorder.inputs)
        started = self.daemon.raw("POST", f"/v1.41/containers/{identifier}/start")
        self.recorder.inputs[:] = view
        if started.status != 204:
            self._remove(identifier)
            return None
        return identifier

    def _volume(self) -> None:
        body = {"Name": "volume", "Driver": "local"}
        body["DriverOpts"] = generate(self.random, _named(self.volume, "DriverOpts"))
        answer = self._send("POST", "/volumes/create", body)
        if answer.status == 201:
            view = list(self.recorder.inputs)
            host = {"NetworkMode": "none", "Binds": ["volume:/h"]}
            identifier = self._made({**SLEEP, "HostConfig": host})
            self.recorder.inputs[:] = view
            self._judge("volume", json.dumps(body), identifier)
            self.daemon.raw("DELETE", "/v1.41/volumes/volume?force=1")

    def _update(self) -> None:
        memory = CEILINGS["memory"]
        host = {
            "NetworkMode": "none",
            **{"Memory": memory, "MemorySwap": memory, "PidsLimit": 50, "CpuQuota": 50_000},
        }
        identifier = self._made({**SLEEP, "HostConfig": host})
        if identifier is None:
            return
        for _ in range(2):
            body: dict[str, Any] = {}
            for _ in range(self.random.choice((1, 2))):
                chosen = self.random.choice(_limits_first(self.update))
                assign(self.random, self.update, body, chosen)
            text = json.dumps(respelled(self.random, body))
            before = self._beyond(identifier)
            answer = self._send("POST", f"/containers/{identifier}/update", text.encode())
            self.sent["update"] += 1
            beyond = self._beyond(identifier)
            if answer.status == 200 and beyond - before:
                self.effective["update"] += 1
                self._must_be_denied("update", text, beyond - before, self.limited)
                break
        self._remove(identifier)

    def _beyond(self, identifier: str) -> set[str]:
        answer = self.daemon.raw("GET", f"/v1.41/containers/{identifier}/json")
        values = observe.limits(json.loads(answer.body))
        ceilings = {**CEILINGS, "swap": 2 * CEILINGS["memory"]}
        return {
            f"{name} {values[name]}"
            for name, ceiling in ceilings.items()
            if not 0 < values[name] <= ceiling
        }

    def _exec(self) -> None:
        body = generate(self.random, self.exec) | {"Cmd": ["sleep", "20"], "Detach": True}
        body.pop("WorkingDir", None)
        text = json.dumps(respelled(self.random, body))
        answer = self._send("POST", f"/containers/{self.plain_id}/exec", text.encode())
        self.sent["exec"] += 1
        if answer.status != 201:
            return
        view = list(self.recorder.inputs)
        identifier = json.loads(answer.body)["Id"]
        self.daemon.json("POST", f"/v1.41/exec/{identifier}/start", {"Detach": True})
        made = json.loads(self.daemon.raw("GET", f"/v1.41/exec/{identifier}/json").body)
        self.recorder.inputs[:] = view
        if made.get("Pid"):
            try:
                seen = observe.observe(made["Pid"], str(self.daemon.folder))
            except OSError:
                return
            self._report("exec", text, observe.exposures(seen, self.plain))

    def _query(self) -> None:
        """A query against a form: the registry that is really asked must be the one shown."""
        names = query_names("/images/create")
        values = (*HOSTS, "-", "")
        query = {n: self.random.choice(values) for n in names if self.random.random() < 0.5}
        form = {n: self.random.choice(HOSTS) for n in names if self.random.random() < 0.4}
        headers = [("Content-Type", "application/x-www-form-urlencoded")] if form else []
        if form and self.random.random() < 0.5:
            headers.append(("Content-Type", "application/x-tar"))
        target = f"/v1.41/images/create?{urlencode(query)}"
        self.recorder.inputs.clear()
        answer = self.daemon.raw("POST", target, urlencode(form).encode(), headers)
        self.sent["query"] += 1
        contacted = {name for name in _CONTACT.findall(answer.body.decode()) if "invalid" in name}
        if not self.recorder.inputs or not contacted:
            return
        self.effective["query"] += 1
        view = self.recorder.inputs[0]
        asked = {f"contacts {name}" for name in contacted if name != view["image"]["registry"]}
        if asked:
            self._must_be_denied("query", f"{target} {form}", asked, self.open)

    # judgement

    def _judge(self, kind: str, request: str, identifier: str | None) -> None:
        self.sent[kind] += 1
        if identifier is None:
            return
        try:
            seen = self._observed(identifier)
        except OSError:
            return  # it ended before it could be looked at
        finally:
            self._remove(identifier)
        self._report(kind, request, observe.exposures(seen, self.plain))

    def _report(self, kind: str, request: str, exposures: set[str]) -> None:
        if exposures:
            self.effective[kind] += 1
            self._must_be_denied(kind, request, exposures, self.open)

    def _must_be_denied(
        self, kind: str, request: str, effects: set[str], policies: EmbeddedPdp
    ) -> None:
        view = {**self.recorder.inputs[0], "User": "alice", "AuthMethod": "TLS", "identified": True}
        result: Any = policies.decide(view).result
        if result["allow"] is not False:
            self.violations.append(Violation(kind, request, tuple(sorted(effects))))

    def _observed(self, identifier: str) -> observe.Observation:
        answer = self.daemon.raw("GET", f"/v1.41/containers/{identifier}/json")
        pid = json.loads(answer.body)["State"]["Pid"]
        if not pid:
            raise ProcessLookupError(identifier)
        return observe.observe(pid, str(self.daemon.folder))

    def _remove(self, identifier: str) -> None:
        self.daemon.raw("DELETE", f"/v1.41/containers/{identifier}?force=1&v=1")

    def table(self) -> str:
        """What was sent and what had effects, by kind of request, as Markdown."""
        lines = ["| request | sent | reach the host | allowed all the same |", "|---|---|---|---|"]
        wrong = Counter(violation.kind for violation in self.violations)
        lines += [
            f"| {kind} | {self.sent[kind]} | {self.effective[kind]} | {wrong[kind]} |"
            for kind in sorted(self.sent)
        ]
        return "\n".join(lines)


def _named(parent: Field, name: str) -> Field:
    [found] = [each for each in parent.fields if each.name == name]
    return found


def _limits_first(update: Field) -> list[str]:
    """The fields of an update; the plain numbers among them three times as often."""
    names = [each.name for each in update.fields]
    return names + 2 * [each.name for each in update.fields if each.kind == "integer"]


def schema_fields() -> dict[str, list[tuple[str, ...]]]:
    """The fields of each body that the check fills."""
    routes = ("/containers/create", "/containers/{id}/update", "/containers/{id}/exec")
    return {route: list(leaves(body_field(route))) for route in (*routes, "/volumes/create")}
