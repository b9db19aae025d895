"""Real servers in threads, the application behind the middleware, and the matrix through them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from tests.waiting import PATIENCE, wait_until
from werkzeug.serving import WSGIRequestHandler, make_server

from acceptance.matrix import ROWS
from acceptance.row import Row
from acceptance.tokens import make_tokens
from acceptance.wire import Answer, send, write_request
from doorward.pdp import DecisionPoint, from_folder

POLICY = Path(__file__).resolve().parents[2] / "examples/people/policy.rego"
SECRET = "a secret that only the tests know"
TOKENS = make_tokens(SECRET)
DECIDED = [row for row in ROWS if row.group != "decision point"]
"""The rows that need no other state of the decision point."""


def people_point(**options: Any) -> DecisionPoint:
    """The decision point of the People example."""
    return from_folder(POLICY, data={"secrets": {"jwt": SECRET}}, **options)


class Arrivals(list[tuple[str, str, bytes]]):
    """What reached an application: method, target or path, body."""

    async def asgi(self, scope: Any, receive: Any, send_: Any) -> None:
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            await send_({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            await send_({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.append((scope["method"], scope["raw_path"].decode("latin-1"), body))
        await send_({"type": "http.response.start", "status": 200, "headers": []})
        await send_({"type": "http.response.body", "body": b""})

    def wsgi(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH")
        body = environ["wsgi.input"].read(int(length)) if length else b""
        self.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], body))
        start_response("200 OK", [("content-length", "0")])
        return []


@contextmanager
def uvicorn_port(app: Any) -> Iterator[int]:
    """The port of uvicorn with an application of ASGI."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="critical", lifespan="on", proxy_headers=False)
        )
        serve: Callable[[], Any] = lambda: asyncio.run(server.serve([listener]))  # noqa: E731 - what the thread runs
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


class _Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        pass


@contextmanager
def werkzeug_port(app: Any) -> Iterator[int]:
    """The port of Werkzeug with an application of WSGI."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


def send_row(port: int, row: Row) -> Answer:
    """The answer to a row."""
    headers = tuple((name, value.format_map(TOKENS)) for name, value in row.headers)
    request = write_request(row.method, row.target, headers, row.body, chunked=row.chunked)
    return send(port, request, within=PATIENCE)


def outcome(answer: Answer, arrived: bool) -> str:
    """`arrives`, or the status of what did not."""
    return "arrives" if arrived else str(answer.status)


def expected(row: Row) -> str:
    """The outcome through Envoy, which `tests/acceptance` holds Envoy to."""
    return "arrives" if row.arrives else str(row.status)


def differences(port: int, arrivals: Arrivals) -> dict[str, tuple[str, str]]:
    """The rows that get something else than through Envoy: what they get there, and here."""
    different = {}
    for row in DECIDED:
        before = len(arrivals)
        try:
            answer = send_row(port, row)
        except OSError as error:
            answer = Answer(0, {}, str(error).encode(), 0.0)
        got = outcome(answer, len(arrivals) > before)
        if got != expected(row):
            different[f"{row.group}: {row.name}"] = (expected(row), got)
        elif got == "403":
            assert answer.body == b""
            assert row.method == "HEAD" or answer.headers["content-length"] == "0"
        elif got == "400" and row.shows:
            assert row.shows in answer.body.decode(), row.name
    return different
