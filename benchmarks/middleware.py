"""CPU that the middleware adds to a request: the People policy, next to the bare framework.

    python -m benchmarks.middleware [--opa PROGRAM]

Frameworks are called in process, without a server and a network, so that the difference is the
middleware's and nothing else's. Each figure is the least of several runs, in microseconds of CPU;
runs with and without the middleware take turns. `--opa`: next to fastapi-opa, which asks a server
of that program on this machine, with what that server takes in its own process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time_ns
from typing import Any

from benchmarks.cases import EXAMPLE, SECRET, people
from doorward.integrations import asgi, wsgi
from doorward.pdp import DecisionPoint, from_folder

CALLS = 1_000
RUNS = 15
ASKS = 200
"""Calls of fastapi-opa in one run: each takes milliseconds."""
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


def cpu_of(run: Callable[[], None]) -> float:
    """Microseconds of CPU."""
    gc.collect()
    gc.disable()
    started = process_time_ns()
    run()
    elapsed = process_time_ns() - started
    gc.enable()
    return elapsed / 1000


def least(costs: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The least cost of each, which take turns."""
    best = dict.fromkeys(costs, float("inf"))
    for _ in range(RUNS):
        for name, cost in costs.items():
            best[name] = min(best[name], cost())
    return best


def asgi_cost(
    app: Callable[..., Awaitable[None]],
    method: str,
    headers: Any,
    body: bytes,
    count: int | None = None,
) -> float:
    """Microseconds of one call of an ASGI application, in a run of `count` (CALLS)."""
    count = count or CALLS

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message

    async def calls() -> None:
        for _ in range(count):
            await app(scope_of(method, headers), receive, send)

    return cpu_of(lambda: asyncio.run(calls())) / count


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

    return cpu_of(calls) / CALLS


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


@contextmanager
def opa_server(program: str) -> Iterator[tuple[str, int]]:
    """The address and process of an OPA with the policy of the example."""
    with TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        address = f"127.0.0.1:{port}"
        free.close()
        data = Path(folder, "data.json")
        data.write_text(json.dumps({"secrets": {"jwt": SECRET}}))
        command = [program, "run", "--server", f"--addr={address}", "--log-level=error"]
        server = subprocess.Popen([*command, str(EXAMPLE), str(data)])
        try:
            deadline = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline or server.poll() is not None:
                        raise
                    time.sleep(0.05)
            yield f"http://{address}", server.pid
        finally:
            server.terminate()
            server.wait(timeout=30)


def cpu_of_process(pid: int) -> float:
    """Microseconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def fastapi_opa_app(address: str, given: Any) -> Any:
    """FastAPI behind the middleware of fastapi-opa, whose question has the input of the example."""
    from fastapi_opa import OPAConfig, OPAMiddleware
    from fastapi_opa.auth.auth_interface import AuthInterface

    class Given(AuthInterface):  # type: ignore[misc]  # the class has no types
        def authenticate(self, request: Any, accepted_methods: object = None) -> Any:
            return dict(given)

    config = OPAConfig(Given(), address, package_name="envoy.authz")
    return OPAMiddleware(fastapi_app(), config)


def print_row(framework: str, name: str, before: float, after: float) -> None:
    print(f"{framework:12} {name:8} {before:8.1f} {after:8.1f} {after - before:8.1f}")


def compare_with_opa(program: str) -> None:
    """Print the rows of fastapi-opa and of the server that it asks."""
    given: Any = people().input
    for name, (method, headers, body) in requests().items():
        with opa_server(program) as (address, pid):
            app, bare = fastapi_opa_app(address, given), fastapi_app()
            asgi_cost(app, method, headers, body, ASKS)
            before = cpu_of_process(pid)
            best = least(
                {
                    "bare": partial(asgi_cost, bare, method, headers, body, ASKS),
                    "guarded": partial(asgi_cost, app, method, headers, body, ASKS),
                }
            )
            print_row("fastapi-opa", name, best["bare"], best["guarded"])
            spent = (cpu_of_process(pid) - before) / RUNS / ASKS
            print_row("  OPA itself", name, 0.0, spent)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="CPU that the middleware adds to a request")
    parser.add_argument("--opa", help="an OPA to compare with")
    program = parser.parse_args().opa
    point: DecisionPoint = from_folder(EXAMPLE, data={"secrets": {"jwt": SECRET}})
    print(f"{'':12} {'request':8} {'bare':>8} {'guarded':>8} {'added':>8}")
    for name, (method, headers, body) in requests().items():
        fastapi, flask = fastapi_app(), flask_app()
        fastapi_guarded = asgi.Authorization(fastapi, point)
        flask_guarded = wsgi.Authorization(flask, point)
        best = least(
            {
                "fastapi": partial(asgi_cost, fastapi, method, headers, body),
                "fastapi +": partial(asgi_cost, fastapi_guarded, method, headers, body),
                "flask": partial(wsgi_cost, flask, method, headers, body),
                "flask +": partial(wsgi_cost, flask_guarded, method, headers, body),
            }
        )
        print_row("FastAPI", name, best["fastapi"], best["fastapi +"])
        print_row("Flask", name, best["flask"], best["flask +"])
    point.close()
    if program:
        compare_with_opa(program)


if __name__ == "__main__":
    main()
