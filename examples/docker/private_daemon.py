"""A daemon of our own in a folder, with users who have certificates, and plugins in this process.

Needs root, dockerd, the docker command and a static busybox; `missing` says which of them is not
there. Everything that is started here is ended here, by its number. Demo and tests share it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from doorward.docker.install.certificates import issue_client, issue_server, make_authority
from doorward.docker.plugin import Response, Waiting
from doorward.docker.server import PluginServer, bind_unix
from doorward.transport.slow_calls import History

PATIENCE: Final = 300.0
"""Seconds after which it is taken for granted that something never comes. A busy machine may take a
minute for what takes a moment."""

USERS = ("alice", "bob", "carol", "dora")
BUSYBOX = Path("/bin/busybox")
_PROGRAMS = ("sh", "true", "false", "cat", "echo", "ls", "sleep", "id")


def missing() -> str:
    """Why there can be no daemon here, or ""."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("dockerd", "docker", "runc"):
        if shutil.which(program) is None:
            return f"`{program}` is missing"
    if not BUSYBOX.exists():
        return "a static busybox is missing"
    return ""


def free_port() -> int:
    """A port that nobody listens on, and that the system gives to no client meanwhile.

    Those that it gives to who asks for any begin at the first of its range: between asking for one
    of them and listening there, somebody else may get it.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10_000, max(first, 12_000)), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("a thousand ports were tried, and none was free")


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and headers of a raw request."""

    status: int
    body: bytes

    @property
    def message(self) -> str:
        if not self.body.startswith(b"{"):
            return self.body.decode().strip()  # old versions answer with the bare text
        return str(json.loads(self.body).get("message", ""))


@dataclass(slots=True)
class PrivateDaemon:
    """dockerd with everything of its own in `folder`."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    servers: dict[str, PluginServer] = field(default_factory=dict)

    @property
    def socket(self) -> str:
        return str(self.folder / "d.sock")

    @property
    def pidfile(self) -> Path:
        return self.folder / "d.pid"

    @property
    def config(self) -> Path:
        return self.folder / "daemon.json"

    @property
    def log(self) -> str:
        return (self.folder / "d.log").read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def prepare(self) -> None:
        """Certificates, and an empty configuration."""
        certificates = self.folder / "certs"
        make_authority(certificates)
        issue_server(certificates, ["127.0.0.1", "localhost"])
        for user in USERS:
            issue_client(certificates, user)
        self.config.write_text("{}\n")
        self.port = free_port()

    def start(self, *arguments: str, wait: float = PATIENCE) -> None:
        certificates = self.folder / "certs"
        command = [
            "dockerd",
            f"--config-file={self.config}",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.pidfile}",
            f"--host=unix://{self.socket}",
            f"--host=tcp://127.0.0.1:{self.port}",
            "--tlsverify",
            f"--tlscacert={certificates}/ca.pem",
            f"--tlscert={certificates}/server-cert.pem",
            f"--tlskey={certificates}/server-key.pem",
            "--bridge=none",
            "--iptables=false",
            *arguments,
        ]
        with (self.folder / "d.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Where a service runs: the kernel resolves relative devices against it.
                cwd="/",
            )
        until = time.monotonic() + wait
        while time.monotonic() < until and self.alive:
            if self._pings():
                return
            time.sleep(0.05)
        raise RuntimeError(f"dockerd does not answer:\n{self.log[-2000:]}")

    def _pings(self) -> bool:
        try:
            return self.raw("GET", "/_ping").status > 0
        except OSError:
            return False

    def stop(self) -> None:
        """End the daemon first, then the plugins that it asks."""
        if self.process is not None:
            if self.alive:
                self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for name in list(self.servers):
            self.end_plugin(name)
        for mount in _mounts_below(self.folder):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)

    # plugins

    def plugin(self, name: str, answer: Callable[[str, bytes], Response]) -> None:
        """Start a plugin of this name in this process; `answer` may wait."""
        listener = bind_unix(f"/run/docker/plugins/{name}.sock")
        history = History()
        server = PluginServer(
            listener,
            lambda path, body: Waiting(partial(answer, path, body), history),
            threads=16,
        )
        server.start()
        self.servers[name] = server

    def end_plugin(self, name: str) -> None:
        self.servers.pop(name).close(grace=2.0)

    def chain(self, *names: str, **others: Any) -> None:
        """Put these plugins into force, in this order, without a restart."""
        document = {"authorization-plugins": list(names), **others} if names else dict(others)
        self.config.write_text(json.dumps(document) + "\n")
        self.hup()

    def hup(self) -> None:
        """Reload, and wait until that is through."""
        assert self.process is not None
        before = self.log.count("Reloaded configuration")
        self.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.alive:
            if self.log.count("Reloaded configuration") > before:
                return
            time.sleep(0.02)
        raise RuntimeError(f"no reload:\n{self.log[-1000:]}")

    # clients

    def docker(
        self, *arguments: str, user: str = "", input: bytes | None = None, timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Run the docker command, as a user with a certificate or on the Unix socket."""
        where = ["-H", f"unix://{self.socket}"]
        if user:
            certificates = self.folder / "certs"
            where = [
                "-H",
                f"tcp://127.0.0.1:{self.port}",
                "--tlsverify",
                f"--tlscacert={certificates}/ca.pem",
                f"--tlscert={certificates}/{user}-cert.pem",
                f"--tlskey={certificates}/{user}-key.pem",
            ]
        done = subprocess.run(
            ["docker", "--config", str(self.folder / "client"), *where, *arguments],
            input=input,
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def raw(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Send a request as it stands, in bytes, and read the answer."""
        lines = [f"{method} {target} HTTP/1.1", "Host: docker", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers]
        names = {name.lower() for name, _ in headers}
        if body and "content-length" not in names and "transfer-encoding" not in names:
            lines.append(f"Content-Length: {len(body)}")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(self.socket)
            # A body that is not wanted is not read to its end.
            with contextlib.suppress(BrokenPipeError):
                connection.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
            content = received(connection)
        head, _, rest = content.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        return Answer(status, _dechunked(rest) if b"chunked" in head.lower() else rest)

    def json(self, method: str, target: str, document: Any) -> Answer:
        """A request with a JSON body."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.raw(method, target, body, [("Content-Type", "application/json")])

    def import_image(self, name: str) -> None:
        """An image of a static busybox."""
        file = self.folder / "rootfs.tar"
        if not file.exists():
            with tarfile.open(file, "w") as tar:
                tar.add(BUSYBOX, "bin/busybox")
                for program in _PROGRAMS:
                    link = tarfile.TarInfo(f"bin/{program}")
                    link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                    tar.addfile(link)
        done = self.docker("import", str(file), name)
        assert done.returncode == 0, done.stderr


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    content = b""
    resets = 0
    while True:
        try:
            chunk = connection.recv(65536)
        except ConnectionResetError:
            # Once, before what is there to read, when the daemon left some of the body unread.
            resets += 1
            if resets > 1:
                return content
            continue
        if not chunk:
            return content
        content += chunk


def _dechunked(content: bytes) -> bytes:
    body = b""
    while content:
        size, _, rest = content.partition(b"\r\n")
        length = int(size or b"0", 16)
        if not length:
            break
        body, content = body + rest[:length], rest[length + 2 :]
    return body


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    mounts = [line.split()[1] for line in lines]
    return sorted((each for each in mounts if each.startswith(f"{folder}/")), reverse=True)
