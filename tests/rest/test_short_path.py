"""The short path answers what the application answers, and only what is plain."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask
from tests.rest.test_golden import BUILD, TIMER, UUID, Server, rows
from tests.transport.http1.wire import Wire
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, DecisionLogs, parse_config
from doorward.edge import counts
from doorward.pdp import pdp as pdps
from doorward.pdp.decision import Answered, RequestContext
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest import short_path
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics
from doorward.transport import pool, slow_calls
from doorward.transport.http1.connection import Application

LEFT = b"HTTP/1.1 404 Not Found"
"""What a server answers that has no application to leave a request to."""
UUID_ALONE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
POLICY = """package a

allow := input

slow := count([1 | some x in numbers.range(1, 1000); some y in numbers.range(1, 30)])

failing := 1 / 0 if input.x

parsed := json.unmarshal(input.text)
"""


@pytest.fixture(autouse=True)
def decide_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_path, "SLOW", 0.0)
    monkeypatch.setattr(slow_calls, "SLOW", 1e9)


@contextmanager
def wire(api: Api) -> Iterator[Wire]:
    loop = asyncio.new_event_loop()
    answer = api.short_path(loop)
    assert answer is not None
    server = Wire(Application(answer))
    try:
        yield server
    finally:
        server.abort()
        server.loop.close()
        loop.close()
        api.close()


def send(
    server: Wire, method: str, target: str, body: bytes, headers: dict[str, str]
) -> Answer | None:
    """The answer of the short path; None where it leaves the request to the application."""
    names = {name.lower() for name in headers}
    fields = dict(headers)
    if "host" not in names:
        fields["host"] = "localhost"
    if (body or method == "POST") and "content-length" not in names:
        fields["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    raw = server.send(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body)
    if raw.startswith(LEFT):
        return None
    head, _, answered = raw.partition(b"\r\n\r\n")
    status, *rest = head.decode("latin-1").split("\r\n")
    answer_headers = dict(line.split(": ", 1) for line in rest)
    del answer_headers["date"]
    return Answer(int(status.split(" ")[1]), answer_headers, answered)


def comparable(answer: Answer) -> tuple[int, dict[str, str], str]:
    text = TIMER.sub(r"\g<1>0", BUILD.sub(r'\1"VALUE"', UUID.sub("UUID", answer.body)))
    headers = {k: UUID_ALONE.sub("UUID", v) for k, v in answer.headers.items()}
    return answer.status, headers | {"content-length": ""}, text


def both(api: Api, method: str, target: str, body: bytes, headers: dict[str, str]) -> bool:
    """Whether a request is plain; if so, both ways answer alike."""
    with wire(api) as server:
        answer = send(server, method, target, body, headers)
    if answer is None:
        return False
    assert comparable(answer) == comparable(ask(api, method, target, body, headers))
    return True


@pytest.mark.long
def test_plain_requests_of_the_recorded_rows_are_answered_alike() -> None:
    plain: set[str] = set()
    for row in (parameter.values[0] for parameter in rows()):
        assert isinstance(row, dict)
        if row.get("files") or row["id"] == "nd-cache-config":  # a configuration that is refused
            continue
        server = Server(row["flags"])
        for step in row["steps"]:
            body = base64.b64decode(step["body_b64"]) if "body_b64" in step else None
            content = (step.get("body") or "").encode() if body is None else body
            printable = all(0x20 < ord(each) < 0x7F for each in step["path"])
            request = step["method"], step["path"], content, step.get("headers") or {}
            # To the parser the others are not a request line.
            if printable and step["method"] in METHODS and both(server.app, *request):
                plain.add(row["id"])
            else:
                ask(server.app, *request)
    assert len(plain) > 60, len(plain)


def api(config: Config | None = None, sink: Any = None, **options: Any) -> Api:
    pdp = PDP(build(Loaded({"a.rego": POLICY})), sink)
    return Api(pdp, config or Config(), Health(), Metrics("1"), **options)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1/data/a/allow", b'{"input": {"x": 1.50}}'),
        ("POST", "/v1/data/a", b"{}"),
        ("POST", "/v1/data", b""),
        ("POST", "/v1/data/a/allow", b"{"),
        ("POST", "/v1/data/a/allow", b"[1]"),
        ("POST", "/v1/data/a/allow", b'{"input": "\xff"}'),
        ("POST", "/v1/data/a/failing", b'{"input": {"x": 1}}'),
        ("POST", "/v1/data/nothing/0/here", b'{"input": 1}'),
        ("POST", "/v1/data/a/parsed", json.dumps({"input": {"text": "[" * 900}}).encode()),
        ("POST", "/v1/data/a/allow", b'{"input": ' + b"[" * 900 + b"]" * 900 + b"}"),
        ("GET", "/v1/data/a/allow", b""),
        ("GET", "/v1/data/a/allow?input=%7B%22x%22%3A1%7D", b""),
        ("GET", "/v1/data/a/allow?input=nonsense", b""),
        ("GET", "/v1/data/a/allow?", b""),
    ],
)
@pytest.mark.parametrize("accept", ["", "gzip"])
def test_plain_requests_are_answered_alike(
    method: str, target: str, body: bytes, accept: str
) -> None:
    headers = {"accept-encoding": accept} if accept else {}
    assert both(api(), method, target, body, headers)


def test_long_answers_are_zipped_alike() -> None:
    body = json.dumps({"input": {"x": ["abc"] * 1_000}}).encode()
    assert both(api(), "POST", "/v1/data/a/allow", body, {"accept-encoding": "deflate, gzip"})
    with wire(api()) as server:
        answer = send(server, "POST", "/v1/data/a/allow", body, {"accept-encoding": "gzip"})
    assert answer is not None
    assert len(gzip.decompress(answer.raw)) > 10 * len(answer.raw)


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PUT", "/v1/data/a", {}),
        ("PATCH", "/v1/data/a", {}),
        ("DELETE", "/v1/data/a", {}),
        ("HEAD", "/v1/data/a", {}),
        ("POST", "/v0/data/a", {}),
        ("POST", "/v1/database", {}),
        ("POST", "/v1/query", {}),
        ("GET", "/health", {}),
        ("POST", "/v1/data/a/", {}),
        ("POST", "/v1/data//a", {}),
        ("POST", "/v1/data/../a", {}),
        ("POST", "/v1/data/./a", {}),
        ("POST", "/v1/data/%61", {}),
        ("POST", '/v1/data/"a', {}),
        ("POST", "/v1/data/a#b", {}),
        ("POST", "/v1/data/a?pretty", {}),
        ("POST", "/v1/data/a?input=1", {}),
        ("GET", "/v1/data/a?pretty=true", {}),
        ("GET", "/v1/data/a?input=1&pretty", {}),
        ("GET", "/v1/data/a?explain=full", {}),
        ("GET", "http://localhost/v1/data/a", {}),
        ("POST", "/v1/data" + "/a" * 300, {}),
        ("POST", "/v1/data/" + "a" * 2_000, {}),
        ("POST", "/v1/data/a", {"content-encoding": "gzip"}),
        ("POST", "/v1/data/a", {"content-type": "application/yaml"}),
        ("POST", "/v1/data/a", {"X-A": "1", "x-a": "2"}),
    ],
)
def test_what_is_not_plain_is_left_to_the_application(
    method: str, target: str, headers: dict[str, str]
) -> None:
    with wire(api()) as server:
        if method == "HEAD":
            assert server.send(f"HEAD {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode()).startswith(
                LEFT
            )
        else:
            assert send(server, method, target, b"", headers) is None
        assert send(server, "GET", "/v1/data/a", b"{}", {}) is None  # a body that means nothing


def test_documents_that_are_not_served_are_left_to_the_application() -> None:
    config = parse_config("server: {decision_paths: [a]}", environment={})
    with wire(api(config)) as server:
        assert send(server, "GET", "/v1/data/a", b"", {}) is not None
        assert send(server, "GET", "/v1/data/b", b"", {}) is None
        assert send(server, "GET", "/v1/data", b"", {}) is None


def test_a_diagnostic_listener_has_no_short_path() -> None:
    loop = asyncio.new_event_loop()
    assert api(diagnostic=True).short_path(loop) is None
    loop.close()


class Sink:
    def __init__(self) -> None:
        self.contexts: list[Any] = []

    def record(self, answered: Answered) -> None:
        self.contexts.append(answered.request_context)

    def close(self) -> None: ...


def test_headers_are_logged_alike() -> None:
    sink = Sink()
    config = Config(decision_logs=DecisionLogs(console=True, headers=("X-A", "X-B")))
    headers = {"x-a": "b", "content-type": "application/json"}
    assert both(api(config, sink), "POST", "/v1/data/a/allow", b"{}", headers)
    client = ("127.0.0.1", 1)
    context = RequestContext({"http": {"headers": {"X-A": ["b"]}}}, client=client)
    assert [each and each._replace(timers=None) for each in sink.contexts] == [context] * 2


def test_a_fault_is_answered_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError

    monkeypatch.setattr(pdps.PDP, "decide", fail)
    before = counts()["http-short-path"]
    with wire(api()) as server:
        answer = send(server, "POST", "/v1/data/a/allow", b"{}", {})
    assert answer is not None
    assert (answer.status, "internal error (LookupError)" in answer.body) == (500, True)
    assert counts()["http-short-path"] == before + 1


# Slow documents


def test_a_document_moves_to_threads_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_calls, "SLOW", 0.001)
    monkeypatch.setattr(short_path, "SLOW", 0.001)
    threads: list[str] = []
    decide = PDP.decide

    def noting(self: PDP, path: Any, *args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread().name)
        return decide(self, path, *args, **options)

    monkeypatch.setattr(PDP, "decide", noting)
    loop = asyncio.new_event_loop()
    health = Health()
    served = Api(PDP(build(Loaded({"a.rego": POLICY}))), Config(), health, Metrics("1"))
    answer = served.short_path(loop)
    assert answer is not None
    server = Wire(Application(answer))

    def ask_once() -> None:
        before = len(server.written)
        server.connection.data_received(b"GET /v1/data/a/allow?input=1 HTTP/1.1\r\nhost: x\r\n\r\n")

        def is_answered() -> bool:
            loop.run_until_complete(asyncio.sleep(0))
            return len(server.written) > before

        wait_until(is_answered)

    ask_once()
    assert threads[0].startswith("http-decisions")  # nobody knows yet how long it takes
    while threads[-1] != threading.current_thread().name:
        ask_once()
    assert "http-decisions" in health.parts.problems
    assert server.written.count(b"200 OK") == len(threads)
    served.close()
    server.abort()
    server.loop.close()
    served.close()
    loop.close()


def test_requests_beyond_what_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_QUEUED", 0)
    monkeypatch.setattr(slow_calls, "SLOW", 0.001)
    monkeypatch.setattr(short_path, "SLOW", 0.001)
    with wire(api()) as server:
        answer = send(server, "POST", "/v1/data/a/allow", b"{}", {})
    assert answer is not None
    assert (answer.status, '"code": "unavailable"' in answer.body) == (503, True)


def test_many_targets_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_path, "_MAX_ROUTES", 2)
    with wire(api()) as server:
        for name in "abcdefaa":
            assert send(server, "GET", f"/v1/data/{name}", b"", {}) is not None


class Kept:
    """A sink that keeps the ids of what it is given."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def record(self, answered: Answered) -> None:
        self.ids.append(answered.decision.decision_id)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("target", "input"),
    [
        ("/v1/data/a/allow", {"x": 1}),
        ("/v1/data/a/allow", {"x": ["abc"] * 1_000}),
        ("/v1/data/a/allow?pretty", {"x": 1}),
        ("/v1/data/a/failing", {"x": 1}),
        ("/v0/data/a/allow", {"x": 1}),
        ("/v0/data/a/nothing", {"x": 1}),
    ],
)
def test_an_answer_names_the_decision_that_is_logged(target: str, input: Any) -> None:
    sink = Kept()
    served = api(sink=sink)
    body = json.dumps(input if "v0" in target else {"input": input}).encode()
    headers = {"accept-encoding": "gzip", "content-type": "application/json"}
    answers = [ask(served, "POST", target, body, headers)]
    with wire(served) as server:
        quick = send(server, "POST", target, body, headers)
    answers += [quick] if quick is not None else []
    assert (quick is not None) == ("?" not in target and "v1" in target)
    assert [answer.headers["x-decision-id"] for answer in answers] == sink.ids
    assert "x-decision-id" not in ask(api(), "POST", target, body, headers).headers
