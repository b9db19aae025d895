"""The gRPC server over real sockets, asked by a real client."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2 as auth
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.envoy.deciders import Fixed, request
from tests.waiting import PATIENCE, wait_until

from doorward.envoy import grpcio_server as served
from doorward.envoy import server as servers
from doorward.envoy.addresses import parse_address
from doorward.envoy.http2_server import GrpcListener
from doorward.envoy.options import Options
from doorward.envoy.server import Server, StartError
from doorward.pdp.decision import Decision
from doorward.rego.values import UNDEFINED, Undefined, Value
from doorward.transport.grpc.methods import Services

CHECK = "/envoy.service.auth.{}.Authorization/Check"


make_server = servers.make_server


@pytest.fixture(autouse=True, params=["http2", "grpcio"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs on both transports."""
    name: str = request.param

    def make(pdp: Fixed, options: Options, **more: Any) -> Server:
        return servers.make_server(pdp, replace(options, transport=name), **more)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{__name__}.make_server", make)
    return name


@contextmanager
def serving(options: Options, pdp: Fixed | None = None) -> Iterator[tuple[Server, grpc.Channel]]:
    server = make_server(pdp or Fixed(True), options)
    server.start()
    target = server.address if not server.port else f"127.0.0.1:{server.port}"
    try:
        with grpc.insecure_channel(target) as channel:
            yield server, channel
    finally:
        server.stop(grace=1)


def call(
    channel: grpc.Channel, raw: bytes, version: str = "v3", timeout: float = PATIENCE
) -> auth.CheckResponse:
    method = channel.unary_unary(CHECK.format(version), bytes, auth.CheckResponse.FromString)
    return method(raw, timeout=timeout)


def options_for(kind: str, folder: Path) -> Options:
    addresses = {
        "tcp": "127.0.0.1:0",
        "grpc": "grpc://127.0.0.1:0",
        "unix": f"unix://{folder}/check.sock",
        "abstract": f"unix://@doorward-{folder.name}",
    }
    return Options(addr=addresses[kind])


@pytest.mark.parametrize("kind", ["tcp", "grpc", "unix", "abstract"])
def test_a_check_is_answered(kind: str, tmp_path: Path) -> None:
    with serving(options_for(kind, tmp_path)) as (_, channel):
        assert call(channel, request()).status.code == 0
        assert call(channel, request(), "v2").status.code == 0
        assert call(channel, b"\xff\xff").denied_response.status.code == 400
        assert call(channel, request()).status.code == 0


def test_many_callers_at_once_are_answered(tmp_path: Path) -> None:
    with (
        serving(options_for("unix", tmp_path), Fixed(False)) as (_, channel),
        ThreadPoolExecutor(16) as callers,
    ):
        answers = callers.map(lambda n: call(channel, request(f"/{n}")), range(400))
        assert {answer.status.code for answer in answers} == {7}


def test_what_is_hard_to_read_is_answered_and_the_server_lives(tmp_path: Path) -> None:
    json = {"content-type": "application/json"}
    large = request("/", "POST", json, '"' + "x" * 4_000_000 + '"')
    many = request("/", headers={f"x-{n}": "v" * 100 for n in range(5000)})
    not_utf8 = request("/a").replace(b"/a", b"/\xff")
    with serving(options_for("unix", tmp_path)) as (_, channel):
        codes = [
            call(channel, raw).denied_response.status.code
            for raw in (large, many, not_utf8, request(""), b"\xff" * 1000, b"")
        ]
        assert codes == [0, 0, 400, 0, 400, 0]
        assert call(channel, request()).status.code == 0


def test_a_message_over_the_limit_is_refused_and_the_server_lives(tmp_path: Path) -> None:
    small = Options(addr=f"unix://{tmp_path}/check.sock", grpc_max_recv_msg_size=1000)
    with serving(small) as (_, channel):
        with pytest.raises(grpc.RpcError) as raised:
            call(channel, request(body="x" * 2000))
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert call(channel, request()).status.code == 0


def test_a_failed_call_carries_the_code_and_the_message(tmp_path: Path) -> None:
    options = Options(addr=f"unix://{tmp_path}/check.sock", on_error="fail-call")
    with serving(options, Fixed(UNDEFINED)) as (_, channel):
        with pytest.raises(grpc.RpcError) as raised:
            call(channel, request())
        assert raised.value.code() is grpc.StatusCode.UNKNOWN
        assert raised.value.details() == "undefined decision"


class Held(Fixed):
    """Decides when it is let go."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.let_go = threading.Event()

    def decide(
        self, path: str, input: Value | Undefined = UNDEFINED, /, *, is_parsed: bool = False
    ) -> Decision:
        decision = super().decide(path, input, is_parsed=is_parsed)
        self.let_go.wait(PATIENCE)
        return decision


def test_a_call_that_nobody_waits_for_any_more_is_not_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    if transport == "http2":
        return  # The transport's own tests have it: one that is reset in the same bytes.
    contexts: list[grpc.ServicerContext] = []
    receive = served._SilentStreams.receive

    def noted(
        self: served._SilentStreams, messages: Iterator[bytes], context: grpc.ServicerContext
    ) -> bytes | None:
        message = receive(self, messages, context)
        contexts.append(context)
        return message

    monkeypatch.setattr(served._SilentStreams, "receive", noted)
    pdp = Held(True)
    options = Options(addr=f"unix://{tmp_path}/check.sock", threads=1)
    with serving(options, pdp) as (_, channel), ThreadPoolExecutor(1) as caller:
        first = caller.submit(call, channel, request())
        wait_until(lambda: pdp.queries)
        method = channel.unary_unary(CHECK.format("v3"), bytes, auth.CheckResponse.FromString)
        given_up = method.future(request())
        wait_until(lambda: len(contexts) == 2)
        given_up.cancel()  # type: ignore[no-untyped-call]  # the stubs have no types
        # The server learns it by a message.
        wait_until(lambda: not contexts[1].is_active())
        pdp.let_go.set()
        assert first.result(PATIENCE).status.code == 0
        assert call(channel, request()).status.code == 0
    assert len(pdp.queries) == 2


def test_health_is_served(tmp_path: Path) -> None:
    with serving(options_for("unix", tmp_path)) as (_, channel):
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "envoy.service.auth.v3.Authorization"):
            question = health_pb2.HealthCheckRequest(service=name)
            answer = stub.Check(question, timeout=PATIENCE)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("enabled", [True, False])
def test_reflection_is_served_when_asked_for(tmp_path: Path, *, enabled: bool) -> None:
    options = Options(addr=f"unix://{tmp_path}/check.sock", enable_reflection=enabled)
    with serving(options) as (_, channel):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        question = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        answers = stub.ServerReflectionInfo(question, timeout=PATIENCE)
        if not enabled:
            with pytest.raises(grpc.RpcError):
                next(answers)
            return
        names = {service.name for service in next(answers).list_services_response.service}
        assert "envoy.service.auth.v3.Authorization" in names


def test_the_socket_has_its_mode_and_goes_with_the_server(tmp_path: Path) -> None:
    file = tmp_path / "check.sock"
    with serving(Options(addr=f"unix://{file}", socket_mode=0o600)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "check.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(file))
    with serving(Options(addr=f"unix://{file}")) as (_, channel):
        assert call(channel, request()).status.code == 0


def test_a_socket_in_use_is_not_taken(tmp_path: Path) -> None:
    options = options_for("unix", tmp_path)
    with serving(options) as (_, channel):
        with pytest.raises(StartError, match="another server listens"):
            make_server(Fixed(True), options).start()
        assert call(channel, request()).status.code == 0


def test_a_file_that_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    file = tmp_path / "check.sock"
    file.write_text("data")
    with pytest.raises(StartError, match="not a socket"):
        make_server(Fixed(True), Options(addr=f"unix://{file}")).start()
    assert file.read_text() == "data"


def test_a_port_in_use_stops_the_start() -> None:
    states: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = Options(addr=f"127.0.0.1:{taken.getsockname()[1]}")
        server = make_server(Fixed(True), options, on_state=states.append)
        with pytest.raises(StartError, match="cannot listen on"):
            server.start()
    assert states == ["NOT_READY", "ERROR"]


@pytest.mark.parametrize(
    "addr",
    ["http://127.0.0.1:1", "9191", "127.0.0.1:99999", "unix://", "unix://@", "unix:///"],
)
def test_an_address_that_names_nothing_is_an_error(addr: str) -> None:
    with pytest.raises(StartError, match="cannot listen on"):
        make_server(Fixed(True), Options(addr=addr))


def test_a_socket_path_that_is_too_long_is_an_error() -> None:
    with pytest.raises(StartError, match="at most 107 bytes"):
        make_server(Fixed(True), Options(addr="unix:///" + "x" * 200))


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="the folder of the socket does not exist"):
        make_server(Fixed(True), Options(addr=f"unix://{tmp_path}/no/check.sock")).start()


def test_a_missing_descriptor_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="proto-descriptor"):
        make_server(Fixed(True), Options(proto_descriptor=str(tmp_path / "none.pb")))


def test_state_follows_the_server(tmp_path: Path) -> None:
    states: list[str] = []
    server = make_server(Fixed(True), options_for("unix", tmp_path), on_state=states.append)
    server.start()
    server.stop(grace=0)
    assert states == ["NOT_READY", "OK", "NOT_READY"]
    assert server.wait(PATIENCE)


def test_services_that_cannot_be_made_stop_the_start(tmp_path: Path) -> None:
    def fail(*_: object) -> Services:
        raise ValueError("no services")

    states: list[str] = []
    addr = f"unix://{tmp_path}/check.sock"
    listener = GrpcListener(addr, fail, [], socket_mode=0o600, on_state=states.append)
    with pytest.raises(StartError, match="did not start"):
        listener.start()
    assert states == ["NOT_READY", "ERROR"]
    listener.stop(grace=0)
    assert not (tmp_path / "check.sock").exists()


def test_a_server_that_did_not_start_can_be_stopped(tmp_path: Path) -> None:
    options = Options(addr=f"unix://{tmp_path}/no/check.sock")
    server = make_server(Fixed(True), options)
    server.stop(grace=0)
    with pytest.raises(StartError):
        (failed := make_server(Fixed(True), options)).start()
    failed.stop(grace=0)


@pytest.mark.parametrize(
    ("addr", "target", "local"),
    [
        ("localhost:1", "localhost:1", True),
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("[::1]:1", "[::1]:1", True),
        ("10.0.0.1:1", "10.0.0.1:1", False),
        ("pdp.example:1", "pdp.example:1", False),
        ("unix://relative.sock", "unix:relative.sock", True),
    ],
)
def test_addresses(addr: str, target: str, *, local: bool) -> None:
    address = parse_address(addr)
    assert (address.target, address.local) == (target, local)


def test_a_port_alone_is_every_address() -> None:
    address = parse_address(":1")
    assert address.target in ("[::]:1", "0.0.0.0:1")
    assert not address.local


def test_a_listener_that_others_reach_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server(Fixed(True), Options(addr=":0"))
    server.start()
    server.stop(grace=0)
    assert "other machines can reach it" in caplog.text
