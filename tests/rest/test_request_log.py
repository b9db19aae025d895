"""Each answered request is a line, with nothing in it that could be secret; none is lost unsaid."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.waiting import PATIENCE, CrossedCount, WatchedLock, wait_until

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, DecisionLogs
from doorward.decision_log.log import DecisionLog
from doorward.edge import Parts
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest import request_log
from doorward.rest.app import Api
from doorward.rest.request_log import RequestLog
from doorward.rest.server import HttpServer, Listener, bind
from doorward.telemetry.health import Health
from doorward.telemetry.log import line_for, stamp_for
from doorward.telemetry.metrics import Metrics

pytestmark = pytest.mark.system


class Lines:
    def __init__(self) -> None:
        self.content = b""
        self.open = threading.Event()
        self.open.set()
        self.begun = 0

    def write(self, lines: bytes) -> None:
        self.begun += 1
        self.open.wait(PATIENCE)
        self.content += lines

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.content.splitlines()]


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def log(lines: Lines) -> Iterator[RequestLog]:
    log = RequestLog(lines.write, line_for("json"), stamp_for(""), parts=Parts())
    yield log
    log.close()


def test_a_request_is_a_line_on_either_way(lines: Lines, log: RequestLog) -> None:
    pdp = PDP(build(Loaded({"p.rego": "package p\n\nx := input.a\n"})))
    api = Api(pdp, Config(), Health(), Metrics("1"), requests=log)
    socket = bind("127.0.0.1:0")
    listener = Listener("127.0.0.1:0", socket, api, short_path=api.short_path)
    server = HttpServer([listener], grace=1.0)
    server.start()
    port = socket.getsockname()[1]
    try:
        for target in ('/v1/data/p/x?input={"a":"hunter2"}', "/v1/data/p/x?metrics=true", "/nope"):
            text = ask(port, target)
            assert text.startswith("HTTP/1.1")
        wait_until(lambda: len(lines.documents) == 3)
    finally:
        server.close()
        api.close()
    first, second, third = lines.documents
    assert re.fullmatch(r"127\.0\.0\.1:\d+", first.pop("client_addr"))
    assert re.fullmatch(r"[0-9-]+T[0-9:]+Z", first.pop("time"))
    assert 0 < first.pop("resp_duration") < 60_000
    assert first == {
        "level": "info",
        "msg": "Sent response.",
        "req_id": 1,
        "req_method": "GET",
        "req_path": "/v1/data/p/x",
        "resp_bytes": len('{"result":"hunter2"}\n'),
        "resp_status": 200,
    }
    assert (second["req_path"], second["resp_status"]) == ("/v1/data/p/x", 200)
    assert (third["req_path"], third["resp_status"]) == ("/nope", 404)
    assert b"hunter2" not in lines.content


@pytest.mark.parametrize("headers", [(), ("x-tenant",)])
def test_decisions_have_the_number_and_the_client_of_their_request(
    lines: Lines, log: RequestLog, headers: tuple[str, ...]
) -> None:
    events = Lines()
    options = DecisionLogs(console=True, headers=headers)
    decisions = DecisionLog(events.write, line_for("json"), labels={}, options=options)
    pdp = PDP(build(Loaded({"p.rego": "package p\n\nx := input.a\n"})), decisions)
    config = Config(decision_logs=options)
    api = Api(pdp, config, Health(), Metrics("1"), requests=log)
    socket = bind("127.0.0.1:0")
    listener = Listener("127.0.0.1:0", socket, api, short_path=api.short_path)
    server = HttpServer([listener], grace=1.0)
    server.start()
    try:
        port = socket.getsockname()[1]
        targets = ("/v1/data/p/x", "/v1/data/p/x?pretty", "/v1/query?q=true", "/health")
        for target in targets:
            ask(port, target)
        for target in ("/v0/data/p/x", "/v0/data/p/y", "/v1/batch/data/p/x"):
            ask(port, target, "POST")
        wait_until(lambda: len(lines.documents) == len(targets) + 3)
    finally:
        server.close()
        api.close()
        pdp.close()
    clients = {each["req_id"]: each["client_addr"] for each in lines.documents}
    assert list(clients) == list(range(1, len(targets) + 4))
    logged = {each["req_id"]: each for each in events.documents}
    assert list(logged) == [1, 2, 3, 5, 6]
    assert all(each["requested_by"] == clients[number] for number, each in logged.items())
    assert [logged[number]["error"] for number in (5, 6)] == [
        {"code": "undefined_document", "message": "document undefined: data.p.x"},
        {"code": "undefined_document", "message": "document missing: data.p.y"},
    ]


def test_a_request_that_no_thread_is_free_for_is_logged(
    lines: Lines, log: RequestLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doorward.rest.short_path.Pool.submit", lambda *_: False)
    pdp = PDP(build(Loaded({"p.rego": "package p\n\nx := 1\n"})))
    api = Api(pdp, Config(), Health(), Metrics("1"), requests=log)
    socket = bind("127.0.0.1:0")
    listener = Listener("127.0.0.1:0", socket, api, short_path=api.short_path)
    server = HttpServer([listener], grace=1.0)
    server.start()
    try:
        assert ask(socket.getsockname()[1], "/v1/data/p/x") == "HTTP/1.1 503"
        wait_until(lambda: len(lines.documents) == 1)
    finally:
        server.close()
        api.close()
        pdp.close()
    assert lines.documents[0]["resp_status"] == 503


def ask(port: int, target: str, method: str = "GET") -> str:
    import http.client  # only this test needs it

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.putrequest(method, target.replace('"', "%22"))
    connection.endheaders()
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return f"HTTP/1.1 {answer.status}"


@pytest.mark.parametrize(
    ("client", "shown"),
    [(("10.0.0.1", 7), "10.0.0.1:7"), (("::1", 7, 0, 0), "[::1]:7"), ("", "@"), (None, "@")],
)
def test_a_client_is_named_as_go_names_it(
    client: Any, shown: str, lines: Lines, log: RequestLog
) -> None:
    log.note(1, client, "GET", "/", 200, 1, 0.001)
    wait_until(lambda: bool(lines.documents))
    assert lines.documents[0]["client_addr"] == shown
    assert lines.documents[0]["resp_duration"] == 1


def test_what_has_no_room_is_said(
    lines: Lines,
    log: RequestLog,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(request_log, "MAX_WAITING", 2)
    lines.open.clear()
    log.note(1, None, "GET", "/first", 200, 0, 0.0)
    wait_until(lambda: lines.begun)  # what comes from now on waits
    for number in range(5):
        log.note(number, None, "GET", f"/{number}", 200, 0, 0.0)
    with caplog.at_level(logging.ERROR):
        lines.open.set()
        wait_until(lambda: "Lines of the request log were dropped" in caplog.text)
    assert [record.__dict__["lost"] for record in caplog.records] == [3]
    assert [each["req_path"] for each in lines.documents] == ["/first", "/0", "/1"]


def test_what_waits_is_written_at_the_end(lines: Lines) -> None:
    log = RequestLog(lines.write, line_for("text"), stamp_for(""), parts=Parts())
    log.note(1, None, "GET", "/last", 200, 0, 0.0)
    log.close()
    assert b'msg="Sent response." ' in lines.content
    assert b"req_path=/last" in lines.content


def test_lines_that_are_lost_at_the_same_time_are_all_said(
    log: RequestLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lose() -> None:
        log.note(1, None, "GET", "/", 200, 0, 0.0)

    monkeypatch.setattr(request_log, "MAX_WAITING", 0)
    lock = WatchedLock()
    count = CrossedCount(lose, lock)
    log._losing, log._lost = lock, count  # type: ignore[assignment]  # as far as it is used
    with caplog.at_level(logging.ERROR):
        lose()
        count.thread.join(PATIENCE)
        log.close()
    assert [record.__dict__["lost"] for record in caplog.records] == [2]
