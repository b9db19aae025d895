"""The server on a socket: health, floods of streams, and workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.envoy.ext_proc.test_exchange import POLICY, request
from tests.envoy.streams import Connection
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.envoy.ext_proc.messages import SERVICE
from doorward.envoy.ext_proc.options import Options
from doorward.envoy.ext_proc.server import ExtProcServer
from doorward.envoy.serving import StartError
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build

METHOD = f"/{SERVICE}/Process"


@contextmanager
def serving(path: Path, **options: Any) -> Iterator[ExtProcServer]:
    pdp = PDP(build(Loaded({"p.rego": POLICY})))
    server = ExtProcServer(pdp, Options(addr=f"unix://{path}", **options))
    server.start()
    try:
        yield server
    finally:
        server.stop(0)


def is_answered(path: Path) -> bool:
    with grpc.insecure_channel(f"unix:{path}") as channel:
        method: Any = channel.stream_stream(METHOD, bytes, pb.ProcessingResponse.FromString)
        calls = method(iter([request()]), timeout=PATIENCE)
        try:
            first = next(calls)
        except grpc.RpcError:
            return False
        with pytest.raises(grpc.RpcError) as caught:
            next(calls)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.ABORTED
    return bool(first.HasField("request_headers"))


def test_a_client_that_ends_too_early_gets_no_ok(tmp_path: Path) -> None:
    with serving(tmp_path / "s"):
        assert is_answered(tmp_path / "s")


def test_its_health_is_served(tmp_path: Path) -> None:
    with serving(tmp_path / "s"), grpc.insecure_channel(f"unix:{tmp_path}/s") as channel:
        question = health_pb2.HealthCheckRequest(service=SERVICE)
        stub = health_pb2_grpc.HealthStub(channel)
        wait_until(lambda: stub.Check(question, timeout=PATIENCE).status == 1)


@pytest.mark.parametrize("streams", [10, 90])
def test_streams_without_a_message_block_nobody(tmp_path: Path, streams: int) -> None:
    path = tmp_path / "s"
    with serving(path), closing(Connection(path, METHOD)) as silent:
        silent.begin(streams)
        assert is_answered(path)
        wait_until(lambda: silent.answers() == streams)


def test_silent_streams_of_many_connections_block_nobody_for_long(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serving(path, max_streams=200), ExitStack() as connections:
        for _ in range(5):
            connections.enter_context(closing(Connection(path, METHOD))).begin(90)
        wait_until(lambda: is_answered(path))


def test_streams_that_are_reset_at_once_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with serving(path, max_streams=10), closing(Connection(path, METHOD)) as hasty:
        hasty.reset(300)
        wait_until(lambda: is_answered(path))


def test_an_address_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path / "s"), pytest.raises(StartError), serving(tmp_path / "s"):
        pass
