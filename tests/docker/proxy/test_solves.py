"""Builds by calls of BuildKit at the real daemon, through the proxy: what they ask for decides."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.buildkit import Session, carry
from tests.docker.protobuf import field, mapping, solve
from tests.docker.proxied import proxied
from tests.waiting import PATIENCE

SOLVE = "/moby.buildkit.v1.Control/Solve"
CONTEXT = {"Dockerfile": b"FROM img:1\nCOPY hello /hello\nRUN cat /hello\n", "hello": b"hello\n"}
UPGRADE = b"POST /grpc HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


@contextlib.contextmanager
def control(path: str, folder: Path) -> Iterator[grpc.Channel]:
    """A channel over a connection that the daemon at `path` took over after `POST /grpc`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "c.sock"))
    listener.listen(1)
    ends: list[socket.socket] = []

    def bridge() -> None:
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            daemon = socket.socket(socket.AF_UNIX)
            ends.extend((client, daemon))
            daemon.connect(path)
            daemon.sendall(UPGRADE)
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += daemon.recv(1)
            assert head.startswith(b"HTTP/1.1 101 "), head
            for source, sink in ((daemon, client), (client, daemon)):
                threading.Thread(target=carry, args=(source, sink), daemon=True).start()

    thread = threading.Thread(target=bridge, daemon=True)
    thread.start()
    try:
        with grpc.insecure_channel(f"unix:{folder / 'c.sock'}") as channel:
            yield channel
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        listener.close()


def request(session: str, *entitlements: str, **options: str) -> bytes:
    """A build of an image, as clients of 2020 write it: those of today name several outputs."""
    output = field(3, "moby") + mapping(4, {"name": "docker.io/library/solved:1"})
    message = solve(options=options, entitlements=entitlements, rest=output)
    return message.replace(field(5, "session"), field(5, session), 1)


def test_build_is_called_and_judged(daemon: PrivateDaemon, tmp_path: Path) -> None:
    with (
        proxied(daemon, tmp_path, "buildkit", "viewer") as behind,
        Session(behind.socket, tmp_path, CONTEXT) as session,
        control(behind.socket, tmp_path) as channel,
    ):
        call = channel.unary_unary(SOLVE, None, None)
        for entitlements, options in (
            (("network.host",), {}),
            ((), {"force-network-mode": "host"}),
            ((), {"cgroup-parent": "/evil"}),
            ((), {"context": "http://127.0.0.1:1/x"}),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(request(session.identifier, *entitlements, **options), timeout=PATIENCE)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED, options
        assert behind.raw("GET", "/images/solved:1/json").status == 404
        usual = {"filename": "Dockerfile", "force-network-mode": "none"}
        call(request(session.identifier, **usual), timeout=PATIENCE)
        assert behind.raw("GET", "/images/solved:1/json").status == 200
        lines = [line for line in behind.decided() if line["action"] == "build.grpc"]
    assert "entitlement network.host of a build is not allowed" in lines[2]["reason"]
    assert lines[-1]["decision"] == "allow"
    daemon.raw("DELETE", "/images/solved:1?force=1")
