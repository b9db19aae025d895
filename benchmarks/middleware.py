"""CPU that the middleware adds to a request: the People policy, next to the bare framework.

    python -m benchmarks.middleware

Frameworks are called in process, without a server and a network, so that the difference is the
middleware's and nothing else's. Each figure is the least of several runs, in microseconds of CPU.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from io import BytesIO
from time import process_time_ns
from typing import Any

from benchmarks.cases import EXAMPLE, SECRET, people
from doorward.integrations import asgi, wsgi
from doorward.pdp import DecisionPoint, from_folder

CALLS = 3_000
RUNS = 5
BODY = json.dumps({"firstname": "Bob", "lastname": "Rego"}).encode()


def requests() -> dict[str, tuple[str, dict[str, str], bytes]]:
    """The measured requests: method, headers, body."""
    given: Any = people().input
    headers = given["attributes"]["request"]["http"]["headers"]
    plain = {name: headers[name] for name in ("accept", "authorization", "user-agent")}
    posting = {**plain, "content-length": str(len(BODY)), "content-type": "application/json"}
    return {"GET": ("GET", plain, b""), "POST": ("POST", posting, BODY)}


def scope_of(method: str, headers: dict[str, str]) -> dict[str, Any]:
    """As uvicorn makes it."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 41326),
        "scheme": "http",
        "method": method,
        "root_path": "",
        "path": "/people",
        "raw_path": b"/people",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8000"), *pairs],
    }


def environ_of(method: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    """As gunicorn makes it."""
    variables = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": "/people",
        "RAW_URI": "/people",
        "QUERY_STRING": "",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
        "HTTP_HOST": "127.0.0.1:8000",
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": headers.get("content-length", ""),
        **variables,
    }


def least(run: Callable[[], None]) -> float:
    """Microseconds of CPU for one call, of the best run."""
    times = []
    for _ in range(RUNS):
        gc.collect()
        gc.disable()
        started = process_time_ns()
        run()
        times.append((process_time_ns() - started) / CALLS / 1000)
        gc.enable()
    return min(times)


def asgi_cost(app: Callable[..., Awaitable[None]], method: str, headers: Any, body: bytes) -> float:
    """Of one call of an ASGI application."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message

    async def calls() -> None:
        for _ in range(CALLS):
            await app(scope_of(method, headers), receive, send)

    return least(lambda: asyncio.run(calls()))


def wsgi_cost(app: Callable[..., Any], method: str, headers: Any, body: bytes) -> float:
    """Of one call of a WSGI application."""

    def start(status: str, _headers: Any, _error: Any = None) -> None:
        assert status.startswith("200"), status

    def calls() -> None:
        for _ in range(CALLS):
            answer = app(environ_of(method, headers, body), start)
            b"".join(answer)
            if hasattr(answer, "close"):
                answer.close()

    return least(calls)


def fastapi_app() -> Any:
    """A route for each method, as small as it can be."""
    from fastapi import Body, FastAPI

    app = FastAPI()

    @app.get("/people")
    async def read() -> dict[str, str]:
        return {}

    @app.post("/people")
    async def write(person: object = Body()) -> dict[str, str]:
        return {}

    return app


def flask_app() -> Any:
    """The same for Flask."""
    from flask import Flask, request

    app = Flask(__name__)

    @app.route("/people", methods=["GET", "POST"])
    def people() -> dict[str, str]:
        request.get_data()
        return {}

    return app


def main() -> None:
    """Print the table."""
    point: DecisionPoint = from_folder(EXAMPLE, data={"secrets": {"jwt": SECRET}})
    print(f"{'':10} {'request':8} {'bare':>8} {'guarded':>8} {'added':>8}")
    for name, (method, headers, body) in requests().items():
        bare, flask = fastapi_app(), flask_app()
        rows = {
            "FastAPI": (
                asgi_cost(bare, method, headers, body),
                asgi_cost(asgi.Authorization(bare, point), method, headers, body),
            ),
            "Flask": (
                wsgi_cost(flask, method, headers, body),
                wsgi_cost(wsgi.Authorization(flask, point), method, headers, body),
            ),
        }
        for framework, (before, after) in rows.items():
            print(f"{framework:10} {name:8} {before:8.1f} {after:8.1f} {after - before:8.1f}")
    point.close()


if __name__ == "__main__":
    main()
