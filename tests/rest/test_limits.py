"""What clients can make the HTTP API do is bounded: memory, threads, connections, the log."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import json
import logging
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask
from tests.waiting import PATIENCE, wait_until

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, DecisionLogs, Server
from doorward.decision_log.log import DecisionLog
from doorward.edge import counts
from doorward.pdp.decision import Decision
from doorward.pdp.pdp import PDP
from doorward.pdp.sizes import estimate_memory
from doorward.pdp.snapshot import Settings, build
from doorward.rest import memory, workers
from doorward.rest import server as server_module
from doorward.rest.app import Api
from doorward.rest.memory import Memory, NoRoomError
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health
from doorward.telemetry.log import line_for
from doorward.telemetry.metrics import Metrics
from doorward.transport.http1.limits import Limits

POLICY = "package a\n\nallow := input\n\nparsed := json.unmarshal(input.text)\n"
ZIPPED = {"content-encoding": "gzip"}


def api(health: Health | None = None, **server: Any) -> Api:
    pdp = PDP(build(Loaded({"a.rego": POLICY}), Settings(deadline=PATIENCE)))
    return Api(pdp, Config(server=Server(**server)), health or Health(), Metrics("1"))


def post(app: Api, body: bytes, path: str = "/v1/data/a", **headers: str) -> Answer:
    return ask(app, "POST", path, body, headers)


# Paths


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("prefix", ["/health", "/v1/data", "/v0/data", "/v1/data/a/allow", ""])
def test_a_path_of_many_segments_is_refused_at_once(method: str, prefix: str) -> None:
    answer = ask(api(), method, prefix + "/a" * 32_000)
    assert answer.status == 400
    assert "path has more than" in answer.body


# Bodies


def test_a_small_zipped_body_is_no_large_text() -> None:
    text = b'{"input": [' + b"[]," * 20_000_000 + b"[]]}"
    body = gzip.compress(text)
    assert len(body) < 100_000
    tracemalloc.start()
    try:
        answer = ask(api(), "POST", "/v1/data/a", body, ZIPPED)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == 400
    assert "gzip payload too large" in answer.body
    assert peak < 50 << 20  # once 1.8 GB


def test_a_zipped_body_in_proportion_is_read() -> None:
    text = json.dumps({"input": {"x": [f"{number}" for number in range(100_000)]}}).encode()
    answer = ask(api(), "POST", "/v1/data/a/allow", gzip.compress(text), ZIPPED)
    assert answer.status == 200
    assert len(json.loads(answer.body)["result"]["x"]) == 100_000


@pytest.mark.parametrize("item", [b"[]", b"{}", b'{"a":1}', b'"ab"', b"1.5", b"123456", b"[[[]]]"])
def test_the_price_of_a_text_is_about_what_its_values_take(item: bytes) -> None:
    text = b"[" + b",".join([item] * 200_000) + b"]"
    tracemalloc.start()
    try:
        values = json.loads(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(values) == 200_000
    assert taken < 2 * estimate_memory(text)


def test_values_that_would_take_more_than_all_bodies_may_are_not_made() -> None:
    body = b'{"input": [' + b"[]," * 300_000 + b"[]]}"
    assert post(api(), body).status == 200
    answer = post(api(max_length=len(body)), body)
    assert answer.status == 400
    assert "request body too large" in answer.body


def test_what_others_take_is_waited_for_and_refused_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        room = Memory(1_000_000)
        with room.room() as first, room.room() as second, room.room() as small:
            await first.take(900_000)
            await small.take(memory.UNCOUNTED)
            with pytest.raises(NoRoomError):
                await second.take(200_000)
            monkeypatch.setattr(memory, "WAIT", 20.0)
            waiting = asyncio.create_task(second.take(200_000))
            await asyncio.sleep(0)
            assert not waiting.done()
            room.taken -= first.counted
            first.counted = 0
            await waiting
        assert room.taken == 0
        with room.room() as alone:
            await alone.take(5_000_000)  # more than all: what there is, alone
        assert room.taken == 0

    monkeypatch.setattr(memory, "WAIT", 0.05)
    asyncio.run(run())


def test_a_request_without_room_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WAIT", 0.01)
    app = api()
    app._service.memory.taken = app._service.memory.limit
    answer = post(app, b'{"input": "' + b"x" * 100_000 + b'"}')
    assert answer.status == 503
    assert '"code": "unavailable"' in answer.body
    assert post(app, b'{"input": 1}').status == 200


# Documents that nest


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("depth", [100, 600, 800, 940])
@pytest.mark.parametrize("path", ["/v1/data/a/allow", "/v0/data/a/allow", "/v1/data/a/parsed"])
def test_a_result_that_nests_deep_is_an_answer_and_an_event(path: str, depth: int) -> None:
    lines: list[bytes] = []
    log = DecisionLog(lines.append, line_for("json"), labels={}, options=DecisionLogs(console=True))
    pdp = PDP(build(Loaded({"a.rego": POLICY}), Settings(deadline=PATIENCE)), log)
    app = Api(pdp, Config(), Health(), Metrics("1"))
    input = nested(depth)
    if path.endswith("parsed"):
        input = json.dumps({"text": input.decode()}).encode()
    faults = counts()
    answer = post(app, input if path.startswith("/v0") else b'{"input":' + input + b"}", path)
    pdp.close()
    (event,) = [json.loads(line) for line in b"".join(lines).splitlines()]
    assert log.lost == {}
    assert counts() == faults
    if answer.status == 200:
        assert "error" not in event
    else:
        assert answer.status == 500
        assert '"code": "internal_error"' in answer.body
        assert "nested too deeply" in answer.body
        assert "nested too deeply" in event["error"]["message"]
    # How deep Python follows depends on its version; 3.11 ends at about 500.
    assert answer.status == 200 or depth > 400


# Threads


def test_health_does_not_wait_for_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STUCK_AFTER", -19.9)  # a tenth of a second with the deadlines
    go_on = threading.Event()
    decide = PDP.decide

    def slow(self: PDP, path: Any, *args: Any, **options: Any) -> Decision:
        if path == ("slow",):
            go_on.wait(PATIENCE)
        return decide(self, path, *args, **options)

    monkeypatch.setattr(PDP, "decide", slow)
    health = Health()
    with served(api(health)) as address, ThreadPoolExecutor(60) as clients:
        waiting = [clients.submit(get, address, "/v1/data/slow") for _ in range(60)]
        wait_until(lambda: ("http-workers", "stuck") in health.stopped)
        assert get(address, "/health/x")[0] == 500  # undefined, and answered
        assert get(address, "/metrics")[0] == 200
        status, body = get(address, "/health")
        assert (status, b"http-workers is stuck" in body) == (500, True)
        go_on.set()
        assert {each.result(PATIENCE)[0] for each in waiting} == {200}
        wait_until(lambda: health.stopped == ())


# Connections


@contextmanager
def served(app: Api, connections: int = 1_000) -> Iterator[tuple[str, int]]:
    listener = bind("127.0.0.1:0")
    server = HttpServer([Listener("", listener, app, connections)], grace=1.0)
    server.start()
    try:
        yield listener.getsockname()
    finally:
        server.close()


def get(address: tuple[str, int], path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


WAYS_TO_WAIT = {
    "nothing is sent": b"",
    "half a head": b"GET /health HTTP/1.1\r\nhost: x\r\n",
    "half a body": b"POST /v1/data HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
    "kept after an answer": b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("sent", WAYS_TO_WAIT.values(), ids=list(WAYS_TO_WAIT))
def test_whatever_connections_wait_a_probe_is_served(sent: bytes) -> None:
    with served(api(), connections=20) as address, contextlib.ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
            client.sendall(sent)
        for _ in range(5):
            assert get(address, "/health")[0] == 200


def test_connections_at_work_are_not_dropped_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, begun = threading.Event(), threading.Semaphore(0)
    decide = PDP.decide

    def slow(self: PDP, *args: Any, **options: Any) -> Decision:
        begun.release()
        go_on.wait(PATIENCE)
        return decide(self, *args, **options)

    monkeypatch.setattr(PDP, "decide", slow)
    with served(api(), connections=8) as address, ThreadPoolExecutor(8) as clients:
        waiting = [clients.submit(get, address, "/v1/data/a") for _ in range(8)]
        assert all(begun.acquire(timeout=PATIENCE) for _ in range(8))
        assert get(address, "/health")[0] == 503
        go_on.set()
        assert {each.result(PATIENCE)[0] for each in waiting} == {200}
        assert get(address, "/health")[0] == 200


def test_a_client_that_reads_nothing_is_dropped() -> None:
    body = json.dumps({"input": "x" * 20_000_000}).encode()
    request = b"POST /v1/data/a/allow HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    listener = bind("127.0.0.1:0")
    limits = Limits(write_timeout=0.2)
    server = HttpServer([Listener("", listener, api(), limits=limits)], grace=1.0)
    server.start()
    (connections,) = server._server._connections
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as client:
        client.sendall(request)
        wait_until(lambda: len(connections))
        client.sendall(body)
        wait_until(lambda: not len(connections))
    server.close()


# The log


def test_what_is_not_a_request_is_logged_once_an_interval(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REFUSALS_QUIET", PATIENCE)
    with caplog.at_level(logging.WARNING), served(api()) as address:
        for _ in range(30):
            with socket.create_connection(address, timeout=PATIENCE) as client:
                client.sendall(b"rubbish\r\n\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    lines = [each for each in caplog.records if each.message == "An HTTP request was refused."]
    assert len(lines) == 1
