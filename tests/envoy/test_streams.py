"""Streams that never send their message, or are reset at once, keep nobody from being answered."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2 as auth
from tests.envoy.deciders import Fixed, request
from tests.envoy.streams import Connection
from tests.waiting import PATIENCE, wait_until

from doorward.edge import Parts
from doorward.envoy import grpcio_server, http2_server
from doorward.envoy.options import Options, Transport
from doorward.envoy.server import make_server
from doorward.pdp.decision import Decision
from doorward.rego import UNDEFINED, Undefined, Value

METHOD = "/envoy.service.auth.v3.Authorization/Check"

on_both = pytest.mark.parametrize("transport", ["http2", "grpcio"])


def is_answered(path: Path) -> bool:
    with grpc.insecure_channel(f"unix:{path}") as channel:
        method = channel.unary_unary(METHOD, bytes, auth.CheckResponse.FromString)
        response: auth.CheckResponse = method(request(), timeout=PATIENCE)
    return bool(response.status.code == 0)


@contextmanager
def serving(path: Path, transport: Transport) -> Iterator[None]:
    server = make_server(Fixed(True), Options(addr=f"unix://{path}", transport=transport))
    server.start()
    try:
        yield
    finally:
        server.stop(grace=0)


@on_both
@pytest.mark.parametrize("streams", [10, 90])
def test_streams_without_a_message_block_nobody(
    tmp_path: Path, transport: Transport, streams: int
) -> None:
    path = tmp_path / "s"
    with serving(path, transport), closing(Connection(path, METHOD)) as silent:
        silent.begin(streams)
        assert is_answered(path)


@on_both
def test_silent_streams_of_many_connections_block_nobody_for_long(
    tmp_path: Path, transport: Transport
) -> None:
    path = tmp_path / "s"
    with serving(path, transport), ExitStack() as connections:
        for _ in range(5):
            connections.enter_context(closing(Connection(path, METHOD))).begin(90)
        assert is_answered(path)


def test_streams_that_would_take_all_threads_end_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpcio_server, "RECEIVE_TIMEOUT", 4 * PATIENCE)
    path = tmp_path / "s"
    with serving(path, "grpcio"), ExitStack() as connections:
        for _ in range(4):
            silent = connections.enter_context(closing(Connection(path, METHOD)))
            silent.begin(90)
        for _ in range(3):
            assert is_answered(path)


@on_both
def test_a_stream_without_a_message_ends(
    tmp_path: Path, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = grpcio_server if transport == "grpcio" else http2_server
    monkeypatch.setattr(server, "RECEIVE_TIMEOUT", 0.1)
    path = tmp_path / "s"
    with serving(path, transport), closing(Connection(path, METHOD)) as silent:
        silent.begin(3)
        wait_until(lambda: silent.answers() == 3)


SERVER = """
import sys
import threading
from tests.envoy.deciders import Fixed
from doorward.envoy.options import Options
from doorward.envoy.server import make_server
server = make_server(Fixed(True), Options(addr="unix://" + sys.argv[1], transport=sys.argv[2]))
server.start()
print("ready", flush=True)
sys.stdin.read()
server.stop(grace=0)
"""


def megabytes(process: subprocess.Popen[str]) -> int:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@on_both
def test_streams_that_are_reset_at_once_take_no_memory(
    tmp_path: Path, transport: Transport
) -> None:
    path = tmp_path / "s"
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path), transport],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        assert is_answered(path)
        before = megabytes(process)
        with closing(Connection(path, METHOD)) as hasty, suppress(OSError):
            hasty.reset(100_000)
        assert is_answered(path)
        # Where all of them wait for a thread they take 80 MB and more.
        assert megabytes(process) - before < 40
    finally:
        process.communicate("")


class Stuck(Fixed):
    """Decides when it is let go."""

    def __init__(self) -> None:
        super().__init__(True)
        self.let_go = threading.Event()

    def decide(
        self, path: str, input: Value | Undefined = UNDEFINED, /, *, is_parsed: bool = False
    ) -> Decision:
        self.let_go.wait(PATIENCE)
        return super().decide(path, input, is_parsed=is_parsed)


def test_checks_that_do_not_end_and_a_thread_that_died_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpcio_server, "STUCK_AFTER", -0.9)
    path, parts, pdp = tmp_path / "s", Parts(), Stuck()
    server = make_server(
        pdp, Options(addr=f"unix://{path}", transport="grpcio"), parts=parts, deadline=0.25
    )
    assert isinstance(server, grpcio_server.GrpcioServer)
    server.start()
    try:
        assert set(parts.problems) == {"check-workers", "silent-streams", "check-server"}
        with ThreadPoolExecutor(1) as caller:
            waiting = caller.submit(is_answered, path)
            wait_until(lambda: parts.problems["check-workers"] == "stuck")
            pdp.let_go.set()
            assert waiting.result(PATIENCE)
        wait_until(lambda: parts.problems["check-workers"] is None)
        server._server.stop(None).wait(PATIENCE)  # behind the back of ours
        wait_until(lambda: parts.problems["check-server"] == "dead")
    finally:
        server.stop(grace=0)
    assert parts.problems == {}
