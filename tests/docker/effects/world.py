"""What requests can reach here: a daemon with a swarm, two registries, a folder with a disk in it.

Everything listens on loopback. `evil` stands for any server that no policy allows: who connects
to it is noted. `allowed` is the one folder that the policies let users mount; a disk, a link out of
it and a folder lie in it.
"""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import re
import socketserver
import stat
import subprocess
import tarfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from examples.docker.private_daemon import PrivateDaemon
from tests.docker.swarm_tasks import wait_for_task
from tests.ports import free_port

__all__ = ["MARK", "PLAIN", "World", "context_archive", "marked_process"]

MARK: Final = "271.828"
"""The seconds that a step of a build sleeps: what finds its process."""
_DOCKERFILE: Final = f"FROM img:1\nRUN sleep {MARK}\n".encode()
PLAIN: Final = {
    "Image": "img:1",
    "Cmd": ["sleep", "86400"],
    "HostConfig": {"NetworkMode": "none"},
}
_PLACEHOLDER: Final = re.compile(r"\{(id|evil|good|allowed|host|network)(?::(\d+))?\}")


class _Registry(http.server.BaseHTTPRequestHandler):
    """Answers as a registry that has nothing, and with a Dockerfile where one is asked for."""

    def do_GET(self) -> None:
        body = _DOCKERFILE if self.path.startswith("/context") else b"{}"
        known = self.path.startswith("/context") or self.path == "/v2/"
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "text/plain" if len(body) > 2 else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    """Notes each connection, whatever is sent."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Registry)
        self.contacts = 0

    def get_request(self) -> Any:
        accepted = super().get_request()
        self.contacts += 1
        return accepted

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # what connects is often no HTTP client


@dataclass
class World:
    """The daemon and its surroundings. `start` before, `close` after."""

    daemon: PrivateDaemon
    swarm: str = ""
    """Why there is no swarm; "" where there is one."""
    names: dict[str, str] = field(default_factory=dict)
    loop: str = ""

    def start(self) -> None:
        self.folder = self.daemon.folder / "effects"
        self.allowed = self.folder / "allowed"
        (self.allowed / "folder").mkdir(parents=True)
        (self.folder / "hidden").mkdir()
        (self.allowed / "link").symlink_to("/etc")
        self._disk()
        self.good, self.evil = (_Server((address, free_port())) for address in _ADDRESSES)
        self._servers = [self.good, self.evil]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.names = {
            "good": _address(self.good),
            "evil": _address(self.evil),
            "allowed": str(self.allowed),
            "network": "effects-net",
        }
        self._swarm()
        networks = json.loads(self.daemon.raw("GET", "/v1.41/networks").body)
        self.names["host"] = next(each["Id"] for each in networks if each["Name"] == "host")
        self.daemon.json("POST", "/v1.41/networks/create", {"Name": "effects-net"})
        created = self.daemon.json("POST", "/v1.41/containers/create?name=plain", PLAIN)
        self.names["id"] = str(json.loads(created.body)["Id"])
        self.daemon.raw("POST", "/v1.41/containers/plain/start")

    def _disk(self) -> None:
        """A disk of its own behind a loop device, as a node in the allowed folder."""
        image = self.folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(4 << 20)
        done = subprocess.run(["mkfs.ext4", "-q", str(image)], check=False, capture_output=True)
        if done.returncode == 0:
            attached = subprocess.run(
                ["losetup", "--find", "--show", str(image)],
                check=False,
                capture_output=True,
                text=True,
            )
            self.loop = attached.stdout.strip()
        if self.loop:
            device = os.stat(self.loop).st_rdev
            os.mknod(self.allowed / "disk", stat.S_IFBLK | 0o600, device)

    def _swarm(self) -> None:
        address = f"127.0.0.1:{free_port()}"
        wanted = {"ListenAddr": address, "AdvertiseAddr": address}
        answer = self.daemon.json("POST", "/v1.41/swarm/init", wanted)
        if answer.status != 200:
            self.swarm = answer.message

    def close(self) -> None:
        if not self.swarm:
            self.daemon.raw("POST", "/v1.41/swarm/leave?force=1")
        for each in json.loads(self.daemon.raw("GET", "/v1.41/containers/json?all=1").body):
            self.remove(each["Id"])
        self.daemon.raw("DELETE", "/v1.41/networks/effects-net")
        for server in self._servers:
            server.shutdown()
            server.server_close()
        if self.loop:
            subprocess.run(["losetup", "--detach", self.loop], check=False, capture_output=True)

    def fill(self, text: str) -> str:
        """`text` with the names of this run in it."""

        def value(match: re.Match[str]) -> str:
            name = self.names[match[1]]
            return name[: int(match[2])] if match[2] else name

        return _PLACEHOLDER.sub(value, text)

    def contacts(self) -> int:
        """How often the server that nobody may use was contacted."""
        return self.evil.contacts

    def remove(self, identifier: str) -> None:
        self.daemon.raw("DELETE", f"/v1.41/containers/{identifier}?force=1&v=1")

    def pid(self, identifier: str) -> int:
        """The first process of a container; 0 where it has none, or is gone."""
        answer = self.daemon.raw("GET", f"/v1.41/containers/{identifier}/json")
        return int(json.loads(answer.body)["State"]["Pid"]) if answer.status == 200 else 0

    def tags(self) -> set[str]:
        images = json.loads(self.daemon.raw("GET", "/v1.41/images/json").body)
        return {tag for image in images for tag in image["RepoTags"] or ()}

    def untag(self, tags: set[str]) -> None:
        for tag in tags:
            self.daemon.raw("DELETE", f"/v1.41/images/{tag}?force=1")

    def wait_task(self, service: str, seconds: float) -> int:
        """The process of the service's task, or 0 where it does not run in time."""
        return wait_for_task(self.daemon, service, seconds)


_ADDRESSES: Final = ("127.0.0.1", "127.0.0.2")


def _address(server: socketserver.TCPServer) -> str:
    host, port = server.server_address[:2]
    return f"{host!s}:{port}"


def context_archive() -> bytes:
    """A build's context, whose step sleeps until it is ended."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(_DOCKERFILE)
        tar.addfile(entry, io.BytesIO(_DOCKERFILE))
    return content.getvalue()


def marked_process() -> int:
    """A process of a build's step, or 0."""
    wanted = MARK.encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if wanted in command and command[0].endswith((b"sleep", b"busybox")):
                return int(folder.name)
    return 0
