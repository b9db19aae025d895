"""A daemon, and what nobody may reach: a file, a process, a web server and a network of the host.

`reached` says which of them was reached, whatever was asked before.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from examples.docker.private_daemon import PrivateDaemon
from tests.docker.swarm_tasks import wait_for_task
from tests.ports import free_port

__all__ = ["LABEL", "LAN_BRIDGE", "MARK", "THEIRS", "World"]

MARK: Final = "canary-of-the-host"
THEIRS: Final = "canary-of-another-user"
LABEL: Final = "doorward.owner"
_OTHER: Final = "carol"
"""Whose container, volume, network and secret nobody else may use."""
_LAN: Final = "10.77.3"
LAN_BRIDGE: Final = "br-dwlan"
"""The interface of the host in its network."""
_FOLDERS: Final = ("one", "two", "one,", "two:", "")
"""What is in the folder that users may mount; the last one is that folder itself."""
_LEAST: Final = 8000
_PROCESS: Final = """
import mmap, sys, time
pages = int(sys.argv[1])
size = int(open("/proc/self/statm").read().split()[0])
block = mmap.mmap(-1, max(1, pages - size) * 4096)
size = int(open("/proc/self/statm").read().split()[0])
other = mmap.mmap(-1, (pages - size) * 4096) if pages > size else None
print("ready", flush=True)
time.sleep(1e6)
"""


def _raise_process_numbers() -> None:
    """Let the next processes have numbers that may be the size of one, as on any older machine."""
    with contextlib.suppress(OSError, ValueError):
        last = Path("/proc/sys/kernel/ns_last_pid")
        if int(last.read_text()) < _LEAST:
            last.write_text(str(_LEAST))


class _Answers(http.server.BaseHTTPRequestHandler):
    """A registry that has nothing."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    """Notes each connection."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", free_port()), _Answers)
        self.contacts = 0

    def get_request(self) -> Any:
        self.contacts += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _run(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


@dataclass
class World:
    """What the sequences act on. `start` before, `close` after."""

    daemon: PrivateDaemon
    swarm: bool = False
    folders: list[Path] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None
    lan: bool = False
    taken: list[str] = field(default_factory=list)
    """Networks of the other user that a sequence made."""

    def start(self) -> None:
        self.folder = self.daemon.folder / "sequences"
        self.allowed = self.folder / "allowed"
        self.hidden = self.folder / "hidden"
        self.hidden.mkdir(parents=True, exist_ok=True)
        (self.hidden / "canary").write_text(MARK)
        self.allowed.mkdir(exist_ok=True)
        self.restore()
        self.server = _Server()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{free_port()}"
        wanted = {"ListenAddr": address, "AdvertiseAddr": address}
        self.swarm = self.daemon.json("POST", "/swarm/init", wanted).status == 200
        self._lan()
        body = {"Image": "img:1", "Cmd": ["sleep", "86400"], "HostConfig": {"NetworkMode": "none"}}
        self.daemon.json("POST", "/containers/create?name=plain", body)
        self._start_another()
        _raise_process_numbers()
        self.daemon.raw("POST", "/containers/plain/start")
        self._process(self.pid("plain"))

    def _start_another(self) -> None:
        """What another user has."""
        labels = {LABEL: _OTHER}
        self.daemon.json("POST", "/volumes/create", {"Name": "t-volume", "Labels": labels})
        network = {"Name": "t-network", "Driver": "bridge", "Labels": labels, "Internal": True}
        self.daemon.json("POST", "/networks/create", network)
        data = base64.b64encode(THEIRS.encode()).decode()
        secret = {"Name": "t-secret", "Labels": labels, "Data": data}
        answer = self.daemon.json("POST", "/secrets/create", secret)
        self.secret = str(json.loads(answer.body).get("ID") or "") if self.swarm else ""
        words = f"echo {THEIRS} > /v/canary; sleep 86400"
        body = {
            "Image": "img:1",
            "Cmd": ["sh", "-c", words],
            "Env": [f"CANARY={THEIRS}"],
            "Labels": labels,
            "HostConfig": {"NetworkMode": "none", "Binds": ["t-volume:/v"]},
        }
        self.daemon.json("POST", "/containers/create?name=t-container", body)
        self.daemon.raw("POST", "/containers/t-container/start")
        self.theirs = self._state()

    def _state(self) -> tuple[object, ...]:
        """What changes when somebody acts on another user's things."""
        states = []
        networks = [f"networks/{name}" for name in ("t-network", *self.taken)]
        for target in ("containers/t-container/json", "volumes/t-volume", *networks):
            document = json.loads(self.daemon.raw("GET", f"/{target}").body)
            state = document.get("State") or {}
            states.append(
                (
                    document.get("Id") or document.get("Name"),
                    state.get("Status"),
                    state.get("Pid"),
                    document.get("RestartCount"),
                    (document.get("HostConfig") or {}).get("RestartPolicy"),
                    json.dumps(document.get("Containers"), sort_keys=True),
                    document.get("ExecIDs"),
                )
            )
        return tuple(states)

    def make_theirs(self, network: str) -> None:
        """A further network of another user."""
        body = {"Name": network, "Driver": "bridge", "Labels": {LABEL: _OTHER}, "Internal": True}
        self.daemon.json("POST", "/networks/create", body)
        self.taken.append(network)
        self.theirs = self._state()

    def has_changed_theirs(self) -> bool:
        """Whether somebody stopped, removed, entered or joined what is another user's."""
        before, self.theirs = self.theirs, self._state()
        return before != self.theirs

    def others(self) -> dict[str, Sequence[str]]:
        """The names of what is another user's."""
        secrets = [self.secret] if self.secret else []
        return {
            "container": ["t-container"],
            "volume": ["t-volume"],
            "network": ["t-network"],
            "secret": secrets,
        }

    def _lan(self) -> None:
        """An interface of the host with a network of its own."""
        for words in (
            ("link", "add", LAN_BRIDGE, "type", "bridge"),
            ("addr", "add", f"{_LAN}.1/24", "dev", LAN_BRIDGE),
            ("link", "set", LAN_BRIDGE, "up"),
            # A host behind that interface that is routed apart.
            ("route", "add", "10.78.0.0/16", "via", f"{_LAN}.254"),
        ):
            done = subprocess.run(["ip", *words], check=False, capture_output=True)
            self.lan = done.returncode == 0

    def _process(self, pages: int) -> None:
        """A process of the host, with a secret in its environment and a size that is a number."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROCESS, str(pages)],
            stdout=subprocess.PIPE,
            text=True,
            env={"SECRET": MARK, **os.environ},
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def restore(self) -> None:
        """The folders that users may mount, as they were."""
        for name in ("one", "two"):
            path = self.allowed / name
            if path.is_symlink():
                path.unlink()
            path.mkdir(exist_ok=True)
        # A name with what the kernel's options are separated by.
        for name in _FOLDERS[2:]:
            (self.allowed / name).mkdir(exist_ok=True)

    def swap(self, name: str) -> None:
        """What a container that has the folder above may do: put a link where a folder was."""
        path = self.allowed / name
        if not path.is_symlink():
            shutil.rmtree(path)
            path.symlink_to(self.hidden)

    def words(self) -> dict[str, Sequence[str]]:
        """The names that users know."""
        return {
            "allowed": [str(self.allowed / name) for name in _FOLDERS],
            "hidden": [str(self.hidden)],
            "servers": [f"127.0.0.1:{self.server.server_address[1]}"],
            "interfaces": [LAN_BRIDGE],
            "subnets": ["172.29.0.0/24", "10.99.1.0/24", f"{_LAN}.0/24", "10.78.4.0/24"],
        }

    def pid(self, name: str) -> int:
        answer = self.daemon.raw("GET", f"/containers/{name}/json")
        return int(json.loads(answer.body)["State"]["Pid"]) if answer.status == 200 else 0

    def sees_file(self, pid: int) -> bool:
        """Whether a process finds the file of the host somewhere."""
        return MARK in self._read(pid, "/v/canary")

    def sees_theirs(self, pid: int) -> bool:
        """Whether a process finds the file or the secret of another user somewhere."""
        return THEIRS in self._read(pid, "/v/canary", "/run/secrets/t-secret")

    def _read(self, pid: int, *files: str) -> str:
        command = ["nsenter", f"--target={pid}", "--mount", "/bin/busybox", "cat", *files]
        done = subprocess.run(command, check=False, capture_output=True)
        return done.stdout.decode(errors="replace")

    def lost_lan(self) -> bool:
        """Whether what the host sends to its network goes elsewhere now."""
        if not self.lan:
            return False
        for address in (f"{_LAN}.9", "10.78.4.9"):
            done = subprocess.run(
                ["ip", "route", "get", address], check=False, capture_output=True, text=True
            )
            if f"dev {LAN_BRIDGE}" not in done.stdout:
                return True
        return False

    def reaches_server(self, pid: int) -> bool:
        """Whether a process is in a network from which the host's own web server answers."""
        contacts = self.server.contacts
        port = str(self.server.server_address[1])
        command = ["nsenter", f"--target={pid}", "--net", "/bin/busybox", "nc", "-w", "5"]
        words = b"HEAD / HTTP/1.0\r\n\r\n"
        subprocess.run([*command, "127.0.0.1", port], input=words, check=False, capture_output=True)
        return self.server.contacts > contacts

    def is_on_lan(self, pid: int = 0) -> bool:
        """Whether a container is a neighbour of the hosts of the LAN: a port of its bridge, or an
        interface of the process on top of it."""
        if not self.lan:
            return False
        if _run("ip", "-o", "link", "show", "master", LAN_BRIDGE):
            return True
        if not pid:
            return False
        links = _run("nsenter", f"--target={pid}", "--net", "ip", "-d", "-o", "link")
        below = f"@if{socket.if_nametoindex(LAN_BRIDGE)}:"
        return any(below in line and "vlan" in line for line in links.splitlines())

    def wait_task(self, service: str, seconds: float = 8.0) -> int:
        """The process of a service's task; 0 where none runs in time."""
        return wait_for_task(self.daemon, service, seconds)

    def clean(self) -> None:
        """Remove what the last sequence left."""
        self.restore()
        daemon = self.daemon
        if self.swarm:
            for each in json.loads(daemon.raw("GET", "/services").body) or ():
                daemon.raw("DELETE", f"/services/{each['ID']}")
        for each in json.loads(daemon.raw("GET", "/containers/json?all=1").body) or ():
            if not {"/plain", "/t-container"}.intersection(each["Names"]):
                daemon.raw("DELETE", f"/containers/{each['Id']}?force=1&v=1")
        for each in json.loads(daemon.raw("GET", "/volumes").body).get("Volumes") or ():
            if each["Name"] != "t-volume":
                daemon.raw("DELETE", f"/volumes/{each['Name']}?force=1")
        for each in json.loads(daemon.raw("GET", "/networks").body) or ():
            if each["Name"].startswith("n-"):
                daemon.raw("DELETE", f"/networks/{each['Id']}")
        if self.taken:
            self.taken.clear()
            self.theirs = self._state()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
        self.clean()
        if self.swarm:
            self.daemon.raw("POST", "/swarm/leave?force=1")
        for name in ("plain", "t-container"):
            self.daemon.raw("DELETE", f"/containers/{name}?force=1&v=1")
        self.daemon.raw("DELETE", "/volumes/t-volume?force=1")
        self.daemon.raw("DELETE", "/networks/t-network")
        subprocess.run(["ip", "link", "del", LAN_BRIDGE], check=False, capture_output=True)
        self.server.shutdown()
        self.server.server_close()
