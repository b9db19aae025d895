"""The way to BuildKit past every plugin is found, and nothing else is taken for it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from examples.docker.private_daemon import PrivateDaemon

from doorward.docker.install.buildkit import answers_past_plugins, is_for_root_alone
from doorward.docker.install.doctor import past_plugins
from doorward.docker.install.installer import Installation

_Handler: Any = grpc.GenericRpcHandler


class _Control(_Handler):  # type: ignore[misc]  # its type is generic in the stubs only
    """Answers BuildKit's question for its version, or refuses it."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses

    def service(self, details: Any) -> Any:
        if details.method != "/moby.buildkit.v1.Control/Info":
            return None

        def answer(_request: bytes, context: Any) -> bytes:
            if self._refuses:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
            return b"\x0a\x02v1"

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.mark.parametrize(("refuses", "expected"), [(False, True), (True, False)])
def test_buildkit_that_answers_over_http2_is_found(
    tmp_path: Path, refuses: bool, expected: bool
) -> None:
    path = tmp_path / "d.sock"
    server = grpc.server(ThreadPoolExecutor(2), handlers=[_Control(refuses=refuses)])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        assert answers_past_plugins(str(path)) is expected
    finally:
        server.stop(None).wait()


@contextmanager
def answering(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server that gives one answer at a Unix socket."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x07\x00\x00\x00\x00\x00",
        b'\x00\x00\x05\x00\x01\x00\x00\x00\x01{"a":',
        b"\x00",
    ],
)
def test_other_answers_are_not_buildkit(tmp_path: Path, content: bytes) -> None:
    with answering(tmp_path / "s", lambda connection: connection.sendall(content)):
        assert answers_past_plugins(str(tmp_path / "s")) is False


def test_daemon_that_refuses_http2_is_not_open(daemon: PrivateDaemon, tmp_path: Path) -> None:
    assert answers_past_plugins(daemon.socket) is False
    assert answers_past_plugins(str(tmp_path / "nobody")) is False


MODES: list[tuple[int, int, int, bool]] = [
    # owner, group, mode, root alone
    (0, 0, 0o660, True),
    (0, 0, 0o600, True),
    (0, 999, 0o600, True),
    (0, 999, 0o640, True),
    (0, 999, 0o660, False),
    (0, 0, 0o666, False),
    (1000, 0, 0o600, False),
]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give sockets away")
@pytest.mark.parametrize(("owner", "group", "mode", "expected"), MODES)
def test_way_that_root_alone_reaches_is_no_failure(
    tmp_path: Path, owner: int, group: int, mode: int, expected: bool
) -> None:
    path = tmp_path / "d.sock"
    server = grpc.server(ThreadPoolExecutor(2), handlers=[_Control(refuses=False)])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        os.chown(path, owner, group)
        path.chmod(mode)
        assert is_for_root_alone(str(path)) is expected
        [finding] = past_plugins(Installation(socket=str(path)))
        assert finding.level == ("warn" if expected else "fail")
    finally:
        server.stop(None).wait()
    assert is_for_root_alone(str(tmp_path / "nobody")) is False
    assert list(past_plugins(Installation(socket=str(tmp_path / "nobody")))) == []
