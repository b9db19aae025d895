"""Over HTTP/2 only BuildKit's methods pass, each decided by its name; gRPC is on both sides."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from struct import Struct
from typing import Any

import grpc
import pytest
from tests.docker.guarded import write_policies
from tests.docker.protobuf import field, solve
from tests.waiting import PATIENCE, wait_until

from doorward.docker.proxy.http2 import MOST_SOLVE, Frame, method_of
from doorward.docker.proxy.service import Consumer, ProxyOptions, ProxyService
from doorward.transport.http2.hpack import encode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFO = "/moby.buildkit.v1.Control/Info"
ECHO = "/moby.buildkit.v1.Control/Session"
PRUNE = "/moby.buildkit.v1.Control/Prune"
SOLVE = "/moby.buildkit.v1.Control/Solve"
SIZE = Struct(">L")


class BuildKit:
    """A gRPC server in place of the daemon, which counts its calls."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.calls: list[str] = []
        self.received: list[bytes] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))  # type: ignore[arg-type]
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def service(self, details: Any) -> Any:
        self.calls.append(details.method)
        if details.method == ECHO:
            return grpc.stream_stream_rpc_method_handler(lambda requests, _: requests)
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request: bytes, _context: object) -> bytes:
        self.received.append(request)
        return request + b"!"

    def close(self) -> None:
        self._server.stop(None).wait()


class Behind:
    """The sockets of a proxy in front of it."""

    def __init__(self, folder: Path, buildkit: BuildKit) -> None:
        self.buildkit = buildkit
        self.audit = folder / "audit.log"
        users = {"root": ["buildkit"], "socket:v": ["viewer"]}
        policies = write_policies(folder / "policies", users=users)
        self.builder, self.viewer = str(folder / "s.sock"), str(folder / "v.sock")
        self.service = ProxyService(
            ProxyOptions(
                daemon=buildkit.path,
                socket=self.builder,
                consumers=[Consumer("v", self.viewer)],
                policies=[str(policies)],
                audit_log=str(self.audit),
                deadline=60.0,
                grace=0.1,
            )
        )
        self.service.start()

    @contextlib.contextmanager
    def channel(self, path: str) -> Iterator[grpc.Channel]:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            yield channel


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the roles are root's")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("h")
    buildkit = BuildKit(folder / "d.sock")
    behind = Behind(folder, buildkit)
    yield behind
    behind.service.close()
    buildkit.close()


@pytest.fixture
def behind(served: Behind) -> Behind:
    served.buildkit.calls.clear()
    served.buildkit.received.clear()
    return served


def call(channel: grpc.Channel, method: str, content: bytes = b"x") -> bytes:
    answer: bytes = channel.unary_unary(method, None, None)(content, timeout=PATIENCE)
    return answer


@pytest.mark.parametrize("size", [1, 3 << 20])
def test_method_of_buildkit_is_called(behind: Behind, size: int) -> None:
    with behind.channel(behind.builder) as channel:
        assert call(channel, INFO, b"a" * size) == b"a" * size + b"!"
        assert call(channel, INFO, b"b") == b"b!"
    assert behind.buildkit.calls == [INFO, INFO]


def test_stream_of_a_method_is_carried_both_ways(behind: Behind) -> None:
    with behind.channel(behind.builder) as channel:
        parts = [bytes([number]) * 100_000 for number in range(50)]
        assert list(channel.stream_stream(ECHO, None, None)(iter(parts), timeout=PATIENCE)) == parts


def test_method_is_decided_by_its_name(behind: Behind) -> None:
    with behind.channel(behind.builder) as channel:
        assert call(channel, INFO) == b"x!"
        for method in (PRUNE, "/moby.buildkit.v1.Other/Info", "/other.Service/Call"):
            with pytest.raises(grpc.RpcError) as caught:
                call(channel, method, b"y" * 100_000)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert call(channel, INFO) == b"x!"
    assert behind.buildkit.calls == [INFO, INFO]


def test_who_may_not_call_gets_a_status_and_reaches_nobody(behind: Behind) -> None:
    with behind.channel(behind.viewer) as channel:
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as caught:
                call(channel, INFO)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert "user socket:v may not build.grpc" in str(caught.value.details())
    assert behind.buildkit.calls == []


def raw(path: str, *frames: Frame, until: Callable[[], bool] | None = None) -> bytes:
    """What is answered to frames, until the connection ends or is silent; it stays open `until`
    something is true."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        ping = Frame(6, 0, 0, b"lastping")
        content = b"".join(map(bytes, (Frame(4, 0, 0, b""), *frames, ping)))
        with contextlib.suppress(BrokenPipeError):
            client.sendall(PREFACE + content)
        received = b""
        while b"lastping" not in received:
            try:
                piece = client.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            received += piece
        if until is not None:
            wait_until(until)
        return received


def request(stream: int, path: bytes, content_type: bytes = b"application/grpc") -> Frame:
    fields = [
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"),
        (b"content-type", content_type), (b"te", b"trailers"),
    ]  # fmt: skip
    return Frame(1, 0x5, stream, encode(fields))


ODD = [
    request(1, b"/v1.44/containers/json"),
    request(1, b"/v1.44/containers/json", b"application/json"),
    request(1, b"/v1.44/containers/create"),
    request(1, b"/moby.buildkit.v1.Control/../../containers/json"),
    request(1, b"/moby.buildkit.v1.Control/Info?x"),
    request(1, INFO.encode(), b"application/grpcx"),
]


@pytest.mark.parametrize("frame", ODD)
def test_api_over_http2_reaches_nobody(behind: Behind, frame: Frame) -> None:
    answer = raw(behind.builder, frame)
    assert b"lastping" in answer
    assert behind.buildkit.calls == []


BROKEN = [
    (Frame(9, 4, 1, b""),),
    (Frame(5, 4, 1, b"\0\0\0\2"),),
    (Frame(1, 0x1, 1, b"\x83"), Frame(0, 0, 1, b"x")),
    (Frame(1, 0x5, 2, encode([(b":method", b"POST")])),),
    (Frame(1, 0x5, 1, b"\xff\xff\xff\xff\xff\xff"),),
    (Frame(1, 0x5, 1, encode([(b":path", b"/x"), (b":path", b"/y")])),),
    (Frame(1, 0xD, 1, b"\xff"),),
]


@pytest.mark.parametrize("frames", BROKEN)
def test_frames_that_are_wrong_end_the_connection(
    behind: Behind, frames: tuple[Frame, ...]
) -> None:
    assert b"lastping" not in raw(behind.builder, *frames)
    assert behind.buildkit.calls == []


def test_frame_that_is_too_large_ends_the_connection(behind: Behind) -> None:
    head = bytes(Frame(0, 0, 1, b""))
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(behind.builder)
        client.sendall(PREFACE + bytes(Frame(4, 0, 0, b"")) + b"\xff\xff\xff" + head[3:])
        while client.recv(65536):
            pass


def test_credit_of_what_is_dropped_is_given_back(behind: Behind) -> None:
    refused = request(1, b"/x.Y/Z")._replace(flags=0x4)
    answer = raw(behind.viewer, refused, Frame(0, 0, 1, b"a" * 1000), Frame(0, 1, 1, b""))
    assert bytes(Frame(8, 0, 0, SIZE.pack(1000))) in answer


USUAL = solve(options={"filename": "Dockerfile"})


def test_build_is_called_with_its_request(behind: Behind) -> None:
    large = solve(options={f"build-arg:{number}": "x" * 1000 for number in range(300)})
    with behind.channel(behind.builder) as channel:
        for message in (USUAL, large, solve("")):
            assert call(channel, SOLVE, message) == message + b"!"
    assert behind.buildkit.calls == [SOLVE] * 3


DENIED = {
    "entitlement network.host of a build is not allowed": solve(entitlements=("network.host",)),
    "option cgroup-parent of a build is not allowed": solve(options={"cgroup-parent": "/"}),
    "the request of BuildKit cannot be read": solve(rest=field(99, 1)),
}


@pytest.mark.parametrize("reason", DENIED)
def test_request_that_is_denied_reaches_nobody(behind: Behind, reason: str) -> None:
    with behind.channel(behind.builder) as channel:
        assert call(channel, INFO) == b"x!"
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, SOLVE, DENIED[reason])
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert reason in str(caught.value.details())
        assert call(channel, SOLVE, USUAL) == USUAL + b"!"
    assert behind.buildkit.received == [b"x", USUAL]


def test_request_that_is_too_large_to_be_judged_is_refused(behind: Behind) -> None:
    message = solve(options={"build-arg:A": "x" * MOST_SOLVE})
    with behind.channel(behind.builder) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, SOLVE, message)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert call(channel, INFO) == b"x!"
    assert behind.buildkit.received == [b"x"]


def test_compressed_request_is_refused(behind: Behind) -> None:
    gzip = grpc.Compression.Gzip
    with grpc.insecure_channel(f"unix:{behind.builder}", compression=gzip) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, SOLVE, solve(options={"build-arg:A": "x" * 4000}))
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert behind.buildkit.received == []


def opened(stream: int) -> Frame:
    """The head of a request that builds, whose message follows."""
    return request(stream, SOLVE.encode())._replace(flags=0x4)


def message_of(content: bytes) -> bytes:
    return b"\0" + SIZE.pack(len(content)) + content


def test_parts_of_requests_are_put_together_by_their_streams(behind: Behind) -> None:
    denied = message_of(solve(entitlements=("network.host",)))
    usual = message_of(USUAL)
    parts = [opened(1), opened(3)]
    for at in range(max(len(denied), len(usual))):
        parts += [Frame(0, 0, 1, denied[at : at + 1])] if at < len(denied) else []
        parts += [Frame(0, 0, 3, usual[at : at + 1])] if at < len(usual) else []

    def is_called() -> bool:
        return behind.buildkit.received == [USUAL]

    raw(behind.builder, *parts, Frame(0, 1, 3, b""), until=is_called)


WRONG = [
    (opened(1), Frame(0, 1, 1, message_of(USUAL)[:-1])),
    (opened(1), Frame(0, 1, 1, message_of(USUAL) + b"x")),
    (opened(1), Frame(0, 1, 1, message_of(USUAL) * 2)),
    (opened(1), Frame(0, 8, 1, b"\0" + message_of(USUAL))),
    (opened(1), Frame(1, 5, 1, encode([(b"x", b"y")]))),
    (request(1, SOLVE.encode()),),
]


@pytest.mark.parametrize("frames", WRONG)
def test_request_that_is_framed_in_another_way_ends_the_connection(
    behind: Behind, frames: tuple[Frame, ...]
) -> None:
    assert b"lastping" not in raw(behind.builder, *frames)
    assert behind.buildkit.received == []


def test_requests_that_are_held_are_bounded(behind: Behind) -> None:
    size = SIZE.pack(MOST_SOLVE)
    heads = [opened(number * 2 + 1) for number in range(8)]
    parts = [Frame(0, 0, head.stream, b"\0" + size + b"x" * 400_000) for head in heads]
    assert b"lastping" not in raw(behind.builder, *heads, *parts)
    assert behind.buildkit.received == []


HELD = {
    "denied": message_of(solve(entitlements=("network.host",))),
    "compressed": b"\1" + SIZE.pack(100) + b"x" * 50,
    "reset": message_of(USUAL)[:-1],
}


@pytest.mark.parametrize("how", HELD)
def test_credit_of_what_was_held_is_given_back(behind: Behind, how: str) -> None:
    content = HELD[how]
    more = [Frame(3, 0, 1, SIZE.pack(8))] if how == "reset" else []
    answer = raw(behind.builder, opened(1), Frame(0, 0, 1, content), *more)
    assert answer.count(bytes(Frame(8, 0, 0, SIZE.pack(len(content))))) == 1
    assert behind.buildkit.received == []


def test_client_may_give_up_a_request(behind: Behind) -> None:
    answer = raw(behind.builder, opened(1), Frame(0, 0, 1, b"\0"), Frame(3, 0, 1, SIZE.pack(8)))
    assert b"lastping" in answer
    assert behind.buildkit.received == []


def test_action_of_a_method() -> None:
    assert method_of(INFO.encode()) == ("POST", "/grpc")
    assert method_of(PRUNE.encode()) == ("POST", "/build/prune")
    assert method_of(b"/x/Prune") == ("POST", "/grpc")


def test_http2_after_an_upgrade_is_decided_as_well(tmp_path: Path) -> None:
    """The daemon takes the connection over after `POST /grpc`, and what follows is HTTP/2."""
    upgraded = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    received: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "d.sock"))
    listener.listen(4)

    def serve() -> None:
        with contextlib.suppress(OSError):
            end, _ = listener.accept()
            with end:
                received.append(end.recv(65536))
                end.sendall(upgraded + bytes(Frame(4, 0, 0, b"")))
                while piece := end.recv(65536):
                    received.append(piece)
                    if b"lastping" in piece:
                        end.sendall(bytes(Frame(6, 1, 0, b"lastping")))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    users = {"root": ["buildkit"]}
    service = ProxyService(
        ProxyOptions(
            daemon=str(tmp_path / "d.sock"),
            socket=str(tmp_path / "s.sock"),
            policies=[str(write_policies(tmp_path / "policies", users=users))],
            audit_log="off",
            deadline=60.0,
            grace=0.1,
        )
    )
    service.start()
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(tmp_path / "s.sock"))
            client.sendall(
                b"POST /grpc HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
            )
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 101 ")
            frames = [Frame(4, 0, 0, b""), request(1, b"/v1.44/containers/json")]
            frames += [request(3, INFO.encode()), Frame(6, 0, 0, b"lastping")]
            client.sendall(PREFACE + b"".join(map(bytes, frames)))
            while b"lastping" not in answer:
                answer += client.recv(65536)
        content = b"".join(received)
        assert b"Control/Info" in content
        assert b"containers" not in content
    finally:
        service.close()
        listener.close()
