"""What the server of the pages answers, and what it refuses, without a browser."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.console.pages.served import NEEDS_PAGES, Served
from tests.waiting import PATIENCE, wait_until

from doorward.console import Ring
from doorward.console.app import STREAMS, Console, is_host_allowed
from doorward.console.process import Process

pytestmark = NEEDS_PAGES


def test_a_stream_of_counts_holds_no_decision(served: Served) -> None:
    served.decide("bob", "/counted")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    connection.request("GET", "/console/api/decisions?limit=0")
    answer = connection.getresponse()
    lines = [answer.readline().decode() for _ in range(2)]
    connection.close()
    message = json.loads(lines[1].removeprefix("data: "))
    assert (message["decisions"], message["docker"]) == ([], [])
    assert sum(each[1] for each in message["seconds"]) > 0


def test_a_page_of_another_site_gets_nothing(served: Served) -> None:
    assert served.get("/console", Host="evil.example")[0] == 403
    assert served.get("/console/api/decisions/x", Host="evil.example:80")[0] == 403
    body = json.dumps({"files": {}, "query": "1"})
    send = "/console/api/playground/evaluate"
    assert served.get(send, "POST", body, **{"Content-Type": "text/plain"})[0] == 415
    json_type = {"Content-Type": "application/json"}
    assert served.get(send, "POST", body, **json_type)[0] == 200
    assert served.get(send, "POST", "{", **json_type)[0] == 400
    assert served.get(send, "POST", "x" * (3 << 20), **json_type)[0] == 413


def test_readers_that_are_many_or_slow_are_refused_and_stop_nobody(served: Served) -> None:
    slow: list[socket.socket] = []

    def open_stream() -> bool:
        """Of its answer 12 bytes are read, and no more. Streams of pages that an earlier test
        closed may still be there."""
        stream = socket.create_connection(("127.0.0.1", served.port))
        stream.sendall(b"GET /console/api/decisions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if stream.recv(12) == b"HTTP/1.1 200":
            slow.append(stream)
            return True
        stream.close()
        return False

    try:
        for _ in range(STREAMS):
            wait_until(open_stream)
        wait_until(lambda: served.get("/console/api/decisions")[0] == 503)
        served.decide("bob", "/meanwhile")
        assert served.get("/console/api/state")[0] == 200
    finally:
        for each in slow:
            each.close()
    wait_until(lambda: served.status_of_a_stream() == 200)


@pytest.mark.parametrize("version", ["2.3", "2.4"])
@pytest.mark.parametrize("end", ["complete", "left", "cancelled", "not sent"])
def test_a_stream_counts_from_its_answer_to_its_end(end: str, version: str) -> None:
    console = Console(Process(None, Ring(), None))
    console.close()  # a stream that begins ends at once
    scope = {
        "type": "http",
        "asgi": {"spec_version": version},
        "method": "GET",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }

    async def ask() -> Response:
        return await console.answer(Request(scope), ("api", "decisions"))

    async def run() -> None:
        begun, never = asyncio.Event(), asyncio.Event()

        async def receive() -> Any:
            await never.wait()

        async def send(_: Any) -> None:
            begun.set()
            if end == "left":
                raise OSError
            if end == "cancelled":
                await never.wait()

        answers = [await ask() for _ in range(STREAMS)]
        assert [each.status_code for each in answers] == [200] * STREAMS
        assert (await ask()).status_code == 503
        if end == "not sent":
            answers.pop()
        else:
            task = asyncio.ensure_future(answers[0](scope, receive, send))
            await begun.wait()
            if end == "cancelled":
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        answers.append(await ask())
        assert answers[-1].status_code == 200
        assert (await ask()).status_code == 503

    # In a thread of its own: a browser that other tests use runs a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(run())).result(PATIENCE)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    "path", ["", "/static/console.js", "/api/state", "/api/decisions", "/api/policies", "/api/log"]
)
def test_nothing_is_changed_by_any_method(method: str, path: str, served: Served) -> None:
    status, text = served.get(f"/console{path}", method, "{}", Origin="http://evil.example")
    assert status in (404, 405, 501)
    assert "access-control" not in text.lower()


@pytest.mark.parametrize(
    "event_id", ["9" * 400, "-1.-1", "1.2.3.4", "x.y", "\u00b2.0".encode().decode("latin-1"), "."]
)
def test_a_stream_begins_anew_where_its_id_is_none(event_id: str, served: Served) -> None:
    served.decide("bob", "/first")
    # There may be as many streams as there can be, of readers that have just left.

    def status() -> int:
        code = served.status_of_a_stream(**{"Last-Event-ID": event_id})
        return 0 if code == 503 else code

    assert wait_until(status) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/console/static/../app.py",
        "/console/static/%2e%2e/app.py",
        "/console/static/..%5capp.py",
        "/console/static//etc/passwd",
        "/console/static/.",
        "/console/static/",
        "/console/../v1/data",
        "/console/%2e%2e/v1/policies",
        "/console/api/decisions/..%2f..%2fstate",
        f"/console/api/decisions/{'x' * 4_000}",
        "/console/static/console.js%00.css",
    ],
)
def test_paths_lead_nowhere_else(path: str, served: Served) -> None:
    status, text = served.get(path)
    if status == 307:
        # The path as it would be without its dots, on this server.
        (path,) = re.findall(r'href="(/[^/"][^"]*)"', text)
        status, _ = served.get(path)
    assert status in (400, 404)


def test_only_what_is_there_is_answered(served: Served) -> None:
    assert served.get("/console/static/console.js")[0] == 200
    for path in ("static/..%2fapp.py", "static/app.py", "api/nothing", "static", "etc/passwd"):
        assert served.get(f"/console/{path}")[0] == 404, path
    assert served.get("/console/api/decisions/nothing")[0] == 404
    state = json.loads(served.get("/console/api/state")[1])
    assert state["workers"][0]["parts"] == {"bundle": "OK"}


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost:8282", True),
        ("127.0.0.1:8282", True),
        ("[::1]:8282", True),
        ("[::1]", True),
        ("doorward", True),
        ("console.example:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:80", False),
        ("", False),
    ],
)
def test_hosts_that_somebody_else_may_name_are_refused(host: str, is_allowed: bool) -> None:
    assert is_host_allowed(host, frozenset({"console.example"})) is is_allowed
