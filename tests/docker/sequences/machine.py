"""Two users send up to eight calls each sequence; what the policies allow is sent to the daemon.

Each call is decided at the moment at which it would be sent, with what the daemon and the host say
then. After each, the canaries are looked at: what was reached is a finding, with all calls before.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from examples.docker.private_daemon import Answer, PrivateDaemon
from tests.docker.sequences.grammars import Grammars
from tests.docker.sequences.world import LABEL, MARK, THEIRS, World

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.plugin import Plugin
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.input import resolve_path

__all__ = ["Finding", "Machine"]

_MOST: Final = 8
_TRIES: Final = 60
"""How often a value is written until one is allowed that says something new."""
_LISTINGS: Final = 8
"""Lists of processes for one call of a sequence: they are quick."""
_VERBS: Final = (
    ("GET", "/json"),
    ("GET", "/logs?stdout=1"),
    ("GET", "/archive?path=/v"),
    ("GET", "/export"),
    ("GET", "/top"),
    ("POST", "/stop?t=0"),
    ("POST", "/kill"),
    ("POST", "/pause"),
    ("DELETE", "?force=1"),
)
_USERS: Final = ("alice", "olga")
"""A developer and an operator."""


@dataclass(frozen=True)
class Finding:
    """What was reached, after how long, by which calls."""

    canary: str
    kind: str
    seconds: float
    calls: int
    sequence: tuple[str, ...]


@dataclass
class Machine:
    """`step` is one sequence."""

    daemon: PrivateDaemon
    folder: Path
    seed: int = 1
    findings: list[Finding] = field(default_factory=list)
    written: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    users: tuple[str, ...] = _USERS

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.world = World(self.daemon)
        self.world.start()
        self.grammars = Grammars(self.random, self.world.words())
        self.plugin = self._plugin()
        self.started = time.monotonic()
        self.calls: Counter[str] = self.written
        self.shapes: set[tuple[object, ...]] = set()
        self.rules: list[tuple[int, str, Callable[[], None]]] = [
            (4, "create", self._create),
            (4, "start", self._start),
            (3, "volume", self._volume),
            (3, "swap", self._swap),
            (2, "restart", self._restart),
            (2, "top", self._top),
            (2, "network", self._network),
            (2, "registry", self._registry),
            (2, "service", self._service if self.world.swarm else self._create),
            (1, "exec", self._exec),
            (1, "rename", self._rename),
            (1, "update", self._update),
            (1, "connect", self._connect),
            (1, "take over", self._take_over),
            (1, "rollback", self._rollback if self.world.swarm else self._create),
            (1, "remove", self._remove),
            (2, "meddle", self._meddle),
        ]

    def _plugin(self) -> Plugin:
        """The shipped policies, which ask the daemon and the host."""
        policies = self.folder / "policies"
        shutil.copytree(PACK, policies)
        data = json.loads((policies / "data.json").read_text())
        settings = data["docker"]
        settings["users"] = {"alice": ["developer"], "olga": ["operator"]}
        settings["owners"], settings["local_roles"] = True, []
        settings["mounts"]["allow"] = [str(self.world.allowed)]
        (policies / "data.json").write_text(json.dumps(data))
        self.pdp = EmbeddedPdp([str(policies)], watch=False)
        try:
            from doorward.docker.request.host import HostFacts
        except ImportError:  # an earlier commit, to see what is found there
            return Plugin(self.pdp, facts=ContainerFacts(self.daemon.socket, resolve_path))
        facts = ContainerFacts(self.daemon.socket, resolve_path, owners=True)
        host = HostFacts(config=str(self.daemon.config), pidfile=str(self.daemon.pidfile))
        return Plugin(self.pdp, facts=facts, host=host)

    def close(self) -> None:
        self.world.close()
        self.pdp.close()

    def step(self) -> None:
        """One sequence, from a clean world."""
        self.sequence: list[str] = []
        self.has_swapped = False
        self.containers: list[str] = []
        self.volumes: list[str] = []
        self.networks: list[str] = []
        self.user = self.random.choice(self.users)
        for _ in range(self.random.randrange(2, _MOST + 1)):
            if self.grammars.often(0.3):
                self.user = self.random.choice(self.users)
            [(_, name, rule)] = self.random.choices(self.rules, weights=list(self._weights()))
            self.kind = name
            before = len(self.findings)
            rule()
            if len(self.findings) > before:
                break
        self.world.clean()

    def _weights(self) -> Iterator[int]:
        """What acts on containers is more likely where there are some."""
        for weight, name, _ in self.rules:
            yield weight * (3 if self.containers and name in ("start", "swap") else 1)

    def _allows(self, call: dict[str, Any]) -> bool:
        reply = self.plugin.answer("/AuthZPlugin.AuthZReq", json.dumps(call).encode())
        return json.loads(reply.body).get("Allow") is True

    # calls

    def _send(
        self, method: str, target: str, document: Any = None, headers: tuple[Any, ...] = ()
    ) -> Answer | None:
        """The daemon's answer to a call that the policies allow; None for one that they deny."""
        self.written[self.kind] += 1
        body = b"" if document is None else json.dumps(document).encode()
        given = [*headers, ("Content-Length", str(len(body)))]
        if body:
            given.append(("Content-Type", "application/json"))
        call: dict[str, Any] = {
            "User": self.user,
            "UserAuthNMethod": "TLS",
            "RequestMethod": method,
            "RequestUri": target,
            "RequestHeaders": dict(given),
        }
        if body:
            call["RequestBody"] = base64.b64encode(body).decode()
        if not self._allows(call):
            return None
        self.allowed[self.kind] += 1
        self.sequence.append(f"{self.user}: {method} {target} {body.decode()}".rstrip())
        contacts = self.world.server.contacts
        answer = self.daemon.raw(method, target, body, given)
        self._judge_answer(answer, contacts)
        return answer

    def _judge_answer(self, answer: Answer, contacts: int) -> None:
        """Count the answer to a call that was allowed, and report each canary that it reached;
        `contacts` are those of the host's web server before the call."""
        self.accepted[self.kind] += answer.status < 400
        if self.world.server.contacts > contacts:
            self._report("web server of the host")
        if MARK.encode() in answer.body:
            self._report("process of the host")
        if THEIRS.encode() in answer.body:
            self._report("things of another user")
        if self.world.has_changed_theirs():
            self._report("state of another user's things")

    def _labels(self) -> dict[str, str]:
        """The owner that a request names: mostly who sends it."""
        if self.grammars.often(0.05):
            return {}
        other = self.grammars.often(0.05)
        return {LABEL: self.random.choice(("carol", *self.users)) if other else self.user}

    def _other(self, kind: str, name: str) -> str:
        """`name`, or now and then what is another user's."""
        others = self.world.others()[kind]
        return self.random.choice(others) if others and self.grammars.often(0.1) else name

    def _report(self, canary: str) -> None:
        seconds = time.monotonic() - self.started
        total = self.written.total()
        kind = f"{self.kind} after a swap" if self.has_swapped else self.kind
        self.findings.append(Finding(canary, kind, seconds, total, tuple(self.sequence)))

    def _look(self, name: str) -> None:
        pid = self.world.pid(name)
        if pid and self.world.sees_file(pid):
            self._report("file of the host")
        if pid and self.world.sees_theirs(pid):
            self._report("files of another user")
        self._look_at_network(pid)

    def _look_at_network(self, pid: int) -> None:
        if pid and self.world.reaches_server(pid):
            self._report("web server of the host")
        if self.world.is_on_lan(pid):
            self._report("network of the host")

    # rules

    def _create(self) -> None:
        grammars = self.grammars
        mode = grammars.mode(self.networks, self.containers)
        host: dict[str, Any] = {"NetworkMode": mode}
        kind = self.random.randrange(7)
        if kind == 5:
            host["Binds"] = [f"{self._other('volume', 't-volume')}:/v"]
        elif kind == 6:
            other = self._other("container", "plain")
            field = self.random.choice(("VolumesFrom", "Links", "PidMode", "IpcMode"))
            text = f"container:{other}" if field.endswith("Mode") else other
            host[field] = text if field.endswith("Mode") else [text]
        elif kind == 0:
            host["Binds"] = [f"{grammars.path()}:/v{grammars.pick('', ':ro', ':rw')}"]
        elif kind == 1:
            mount = {"Type": "bind", "Source": grammars.path(), "Target": "/v"}
            host["Mounts"] = [mount]
        elif kind == 2 and self.volumes:
            host["Binds"] = [f"{self.random.choice(self.volumes)}:/v"]
        elif kind == 3:
            options = {"Name": "local", "Options": grammars.options(templates=False)}
            host["Mounts"] = [
                {"Type": "volume", "Target": "/v", "VolumeOptions": {"DriverConfig": options}}
            ]
        else:
            host["Tmpfs"] = {"/v": grammars.option()}
        name = f"c-{self.written.total()}"
        body = {
            "Image": "img:1",
            "Cmd": ["sleep", "86400"],
            "HostConfig": host,
            "Labels": self._labels(),
        }
        if grammars.often(0.1):
            other = grammars.mode(self.networks, self.containers)
            body["NetworkingConfig"] = {"EndpointsConfig": {other: self._endpoint()}}
        answer = self._send("POST", f"/containers/create?name={name}", body)
        if answer is not None and answer.status == 201:
            self.containers.append(name)
            if grammars.often(0.3):
                self._start()

    def _start(self) -> None:
        if self.containers:
            name = self.random.choice(self.containers)
            if self._send("POST", f"/containers/{name}/start") is not None:
                self._look(name)

    def _restart(self) -> None:
        if self.containers:
            name = self._other("container", self.random.choice(self.containers))
            if self._send("POST", f"/containers/{name}/restart?t=0") is not None:
                self._look(name)

    def _volume(self) -> None:
        for _ in range(_TRIES):
            if self._write_volume():
                return

    def _write_volume(self) -> bool:
        """Whether a volume was created, and a container that has it."""
        name = f"v-{self.written.total()}"
        options = self.grammars.options(templates=False)
        if not self._is_new("volume", options):
            return False
        body = {"Name": name, "Driver": "local", "DriverOpts": options}
        body["Labels"] = {LABEL: self.user}
        answer = self._send("POST", "/volumes/create", body)
        self._note(answer, "volume", options)
        if answer is not None and answer.status == 201:
            self.volumes.append(name)
            host = {"NetworkMode": "none", "Binds": [f"{name}:/v"]}
            created = f"c-{self.written.total()}"
            create = {
                "Image": "img:1",
                "Cmd": ["sleep", "86400"],
                "HostConfig": host,
                "Labels": {LABEL: self.user},
            }
            done = self._send("POST", f"/containers/create?name={created}", create)
            if done is not None and done.status == 201:
                self.containers.append(created)
                self._start()
        return answer is not None

    def _is_new(self, kind: str, options: dict[str, str]) -> bool:
        """Whether nothing of the same shape was allowed: that costs seconds to try, and says no
        more. Now and then it is tried all the same."""
        return (kind, self.grammars.shape(options)) not in self.shapes or self.grammars.often(0.005)

    def _note(self, answer: Answer | None, kind: str, options: dict[str, str]) -> None:
        if answer is not None:
            self.shapes.add((kind, self.grammars.shape(options)))

    def _swap(self) -> None:
        name = self.grammars.pick("one", "two")
        self.has_swapped = True
        self.sequence.append(f"(the folder {name} becomes a link)")
        self.world.swap(name)

    def _top(self) -> None:
        for _ in range(_LISTINGS):
            arguments = quote(self.grammars.ps())
            self._send("GET", f"/containers/plain/top?ps_args={arguments}")

    def _network(self) -> None:
        name = f"n-{self.written.total()}"
        config = {"Subnet": self.grammars.subnet()}
        body: dict[str, Any] = {
            "Name": name,
            "Driver": self.grammars.pick("bridge", "bridge", "bridge", "macvlan", "ipvlan", "host"),
            "IPAM": {"Config": [config]},
            "Labels": self._labels(),
        }
        if self.grammars.often(0.3):
            body["Options"] = self.grammars.driver_options()
        answer = self._send("POST", "/networks/create", body)
        if answer is not None and answer.status == 201:
            self.networks.append(name)
            if self.world.lost_lan():
                self._report("network of the host")
            elif self.grammars.often(0.7):
                self._create_in(name)

    def _create_in(self, network: str, *, starts: bool = True) -> None:
        """A container in a network, which is started."""
        name = f"c-{self.written.total()}"
        body = {
            "Image": "img:1",
            "Cmd": ["sleep", "86400"],
            "HostConfig": {"NetworkMode": network},
            "Labels": {LABEL: self.user},
        }
        if self.grammars.often(0.3):
            body["NetworkingConfig"] = {"EndpointsConfig": {network: self._endpoint()}}
        answer = self._send("POST", f"/containers/create?name={name}", body)
        if answer is not None and answer.status == 201:
            self.containers.append(name)
            if starts:
                self._start()

    def _registry(self) -> None:
        reference = self.grammars.reference()
        kind = self.random.randrange(4)
        if kind == 0:
            self._send("GET", f"/distribution/{reference}/json")
        elif kind == 1:
            query = urlencode({"fromImage": reference})
            self._send("POST", f"/images/create?{query}")
        elif kind == 2:
            self._send("GET", f"/images/search?term={quote(reference)}")
        else:
            address = reference.partition("/")[0]
            body = {"serveraddress": f"http://{address}", "username": "a", "password": "b"}
            self._send("POST", "/auth", body)

    def _service(self) -> None:
        for _ in range(_TRIES):
            if self._write_service():
                return

    def _write_service(self) -> bool:
        """Whether a service was allowed."""
        grammars = self.grammars
        name = f"s-{self.written.total()}"
        spec: dict[str, Any] = {"Image": "img:1", "Command": ["sleep", "86400"]}
        mount: dict[str, Any] = {"Type": "volume", "Target": "/v"}
        options = grammars.options(templates=True)
        if not self._is_new("service", options):
            return False
        driver = {"Name": "local", "Options": options}
        mount["VolumeOptions"] = {"DriverConfig": driver}
        if grammars.often(0.3):
            mount["Source"] = grammars.text("v-service")
        spec["Mounts"] = [mount]
        if grammars.often(0.1):
            spec["Env"] = [f"A={grammars.text('b')}"]
        networks: list[Any] = []
        if grammars.often(0.2):
            networks.append({"Target": grammars.mode(self.networks, self.containers)})
        task = {"ContainerSpec": spec, "Networks": networks, "RestartPolicy": {"Condition": "none"}}
        if secrets := self.world.others()["secret"]:
            file = {"Name": "t-secret", "UID": "0", "GID": "0", "Mode": 0o444}
            if grammars.often(0.1):
                secret = {"SecretID": secrets[0], "SecretName": "t-secret", "File": file}
                spec["Secrets"] = [secret]
        labels = {LABEL: self.user}
        spec["Labels"] = labels
        document = {"Name": name, "TaskTemplate": task, "Labels": labels}
        answer = self._send("POST", "/services/create", document)
        self._note(answer, "service", options)
        if answer is not None and answer.status == 201:
            pid = self.world.wait_task(name)
            if pid and self.world.sees_file(pid):
                self._report("file of the host")
            if pid and self.world.sees_theirs(pid):
                self._report("files of another user")
            self._look_at_network(pid)
        return answer is not None

    def _exec(self) -> None:
        if self.containers:
            name = self._other("container", self.random.choice(self.containers))
            body = {"Cmd": ["cat", "/v/canary"], "AttachStdout": True}
            self._send("POST", f"/containers/{name}/exec", body)

    def _rename(self) -> None:
        if self.containers:
            name = self._other("container", self.random.choice(self.containers))
            other = f"r-{self.written.total()}"
            answer = self._send("POST", f"/containers/{name}/rename?name={other}")
            if answer is not None and answer.status == 204:
                self.containers = [other if each == name else each for each in self.containers]

    def _update(self) -> None:
        if self.containers:
            name = self._other("container", self.random.choice(self.containers))
            policy = self.grammars.pick("always", "no", "on-failure")
            body = {"RestartPolicy": {"Name": policy}}
            self._send("POST", f"/containers/{name}/update", body)

    def _connect(self) -> None:
        if self.containers and self.networks:
            network = self._other("network", self.random.choice(self.networks))
            name = self._other("container", self.random.choice(self.containers))
            body: dict[str, Any] = {"Container": name, "EndpointConfig": self._endpoint()}
            if self._send("POST", f"/networks/{network}/connect", body) is not None:
                self._look_at_network(self.world.pid(name))

    def _endpoint(self) -> dict[str, str]:
        """An endpoint, which may name a network besides the one it is for."""
        if self.grammars.often(0.5):
            return {}
        return {"NetworkID": self.random.choice(["t-network", *self.networks])}

    def _take_over(self) -> None:
        """A network is removed, and the third user makes one of its name. Then containers start."""
        if not self.networks:
            name = f"n-{self.written.total()}"
            body = {"Name": name, "Labels": {LABEL: self.user}}
            if self._send("POST", "/networks/create", body) is None:
                return
            self.networks.append(name)
        name = self.networks.pop()
        self._create_in(name, starts=False)
        answer = self._send("DELETE", f"/networks/{name}")
        if answer is not None and answer.status == 204:
            self.sequence.append(f"(the third user makes a network {name})")
            self.world.make_theirs(name)
        for container in self.containers:
            self._send("POST", f"/containers/{container}/start")

    def _rollback(self) -> None:
        """A service that an administrator wrote, which its owner changes and rolls back."""
        name = f"s-{self.written.total()}"
        labels = {LABEL: self.user}
        container = {"Image": "img:1", "Command": ["sleep", "86400"], "Labels": labels}
        mount = {"Type": "bind", "Source": str(self.world.hidden), "Target": "/v"}
        documents = [
            {
                "Name": name,
                "Labels": labels,
                "TaskTemplate": {
                    "ContainerSpec": {**container, "Mounts": mounts},
                    "RestartPolicy": {"Condition": "none"},
                },
            }
            for mounts in ([mount], [])
        ]
        self.daemon.json("POST", "/services/create", documents[0])
        self.sequence.append(f"(an administrator makes a service {name})")
        for rest in ("", "&rollback=previous"):
            service = json.loads(self.daemon.raw("GET", f"/services/{name}").body)
            target = f"/services/{name}/update?version={service['Version']['Index']}{rest}"
            self._send("POST", target, documents[1])
        service = json.loads(self.daemon.raw("GET", f"/services/{name}").body)
        updated = "PreviousSpec" in service
        if updated and service["Spec"]["TaskTemplate"]["ContainerSpec"].get("Mounts"):
            self._report("file of the host")

    def _meddle(self) -> None:
        """Any call about one thing, which is another user's or the caller's own."""
        kind = self.random.choice(("container", "container", "volume", "network"))
        own = {"container": self.containers, "volume": self.volumes, "network": self.networks}
        name = self._other(kind, self.random.choice(own[kind] or [f"t-{kind}"]))
        if kind != "container":
            method = self.random.choice(("GET", "DELETE"))
            self._send(method, f"/{kind}s/{name}")
            return
        method, verb = self.random.choice(_VERBS)
        self._send(method, f"/containers/{name}{verb}")

    def _remove(self) -> None:
        if self.containers:
            name = self.containers.pop()
            self._send("DELETE", f"/containers/{name}?force=1")

    def table(self) -> str:
        """What was written, allowed and accepted, by kind of call, as Markdown."""
        lines = ["| call | written | allowed | accepted | findings |", "|---|---|---|---|---|"]
        per_kind = Counter(each.kind.partition(" after")[0] for each in self.findings)
        for kind in sorted(self.written):
            row = (self.written[kind], self.allowed[kind], self.accepted[kind], per_kind[kind])
            lines.append(f"| {kind} | " + " | ".join(map(str, row)) + " |")
        return "\n".join(lines)
