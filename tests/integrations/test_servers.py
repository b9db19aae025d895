"""Each framework below a server of others: the policy sees what the application routes on.

`/preadmin` and `/public/pre/secret` were `/admin` and `/secret` to Quart and Litestar below the
root path `/pre`, `/pre/x` was `/x` to all of them, and gunicorn makes `/admin` of `/preadmin`, too.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
PATHS = (
    *("/people", "/people/", "/pre", "/pre/x", "/pre/pre/x", "/preadmin", "/public/pre/secret"),
    *("//people", "/./people", "/x/../people", "/%2e%2e/people", "/people%2f1", "/a%00b", "/a//b"),
    *("/%2570eople", "/%70eople", "/people;x=1", "/people%3bx", "/people%3fx", "/people%23x"),
    *("/caf%C3%A9", "/caf%E9", "/%E2%80%AE", "/a%20b", "/a+b", "/@@people", "http://a.example/x"),
    *("*", "/people?a=1", "/people?", "/%", "/x%25", "/...", "/people/.."),
)
COMMANDS = {
    "uvicorn": ["-m", "uvicorn", "--log-level=critical", "--port={port}"],
    "hypercorn": ["-m", "hypercorn", "--bind=127.0.0.1:{port}"],
    "gunicorn": ["-m", "gunicorn", "--bind=127.0.0.1:{port}", "--log-level=critical"],
}
SITES = (
    ("uvicorn", "litestar", ""),
    ("uvicorn", "quart", "/pre"),
    ("uvicorn", "fastapi_outside", ""),
    *(("hypercorn", site, "/pre") for site in ("starlette", "fastapi_inside", "litestar", "quart")),
    *(("gunicorn", site, "/pre") for site in ("flask", "pyramid")),
    *(("gunicorn", "django", root) for root in ("", "/forced")),
)


@contextmanager
def serving(server: str, site: str, root: str) -> Iterator[int]:
    """The port of a server with a site."""
    port = free_port()
    command = [part.format(port=port) for part in COMMANDS[server]]
    environment = {**os.environ, "SITE": site, "PYTHONPATH": str(ROOT)}
    if root == "/forced":
        environment["ROOT"] = root
    elif root and server == "gunicorn":
        command.append(f"--env=SCRIPT_NAME={root}")
    elif root:
        command.append(f"--root-path={root}")
    running = subprocess.Popen(
        [sys.executable, *command, "tests.integrations.sites:app"],
        env=environment,
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: running.poll() is not None or _answers(port))
        assert running.poll() is None
        yield port
    finally:
        running.terminate()
        running.wait(PATIENCE)


def _answers(port: int) -> bool:
    try:
        _send(port, "/")
    except OSError:
        return False
    return True


def _send(port: int, target: str, *headers: tuple[str, str]) -> tuple[int, bytes]:
    with closing(HTTPConnection("127.0.0.1", port, PATIENCE)) as connection:
        connection.putrequest("GET", target)  # as it stands
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()


def _said(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the application routes on, and what the policy saw."""
    said = json.loads(body)
    return said, json.loads(said["seen"])


@pytest.mark.parametrize(("server", "site", "root"), SITES)
def test_the_policy_sees_what_the_application_routes_on(server: str, site: str, root: str) -> None:
    below = "/pre" if site.startswith("fastapi_") else root
    arrived = []
    with serving(server, site, root) as port:
        for path in PATHS:
            status, body = _send(port, path)
            if status != 200:
                assert status in (400, 404, 307, 308, 500), path
                continue
            said, seen = _said(body)
            sent = unquote_to_bytes(seen["path"].partition("?")[0]).decode()
            # Litestar routes `/people/` as `/people` (docs/frameworks.md); Quart makes a space of
            # what is empty.
            assert sent.rstrip("/") == (below + said["route"]).rstrip("/ "), path
            arrived.append(path)
        # gunicorn believes SCRIPT_NAME of a proxy on loopback: no client may say it.
        for name in ("SCRIPT_NAME", "Script-Name", "X-Forwarded-Prefix", "X-Original-URL"):
            status, body = _send(port, "/a/b", (name, "/a"))
            if status == 200:
                said, seen = _said(body)
                assert (seen["path"], said["route"]) == (f"{below}/a/b", "/a/b")
                assert name.lower() not in seen["headers"]
    wanted = "/pre/x" if below == "/pre" else "/people"
    assert wanted in arrived
    assert "/a//b" not in arrived


@pytest.mark.parametrize("site", ["starlette", "quart"])
def test_a_request_of_http_2_is_what_its_pseudo_headers_say(site: str) -> None:
    import h2.config
    import h2.connection
    import h2.events

    def ask(port: int, headers: list[tuple[str, str]], body: bytes = b"") -> tuple[int, bytes]:
        import socket

        # A client that validates nothing: what an attacker can send is the point.
        config = h2.config.H2Configuration(
            validate_outbound_headers=False, normalize_outbound_headers=False
        )
        connection = h2.connection.H2Connection(config)
        status, received = 0, b""
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            connection.initiate_connection()
            connection.send_headers(1, headers, end_stream=not body)
            if body:
                connection.send_data(1, b"")
                connection.send_data(1, body, end_stream=True)
            sock.sendall(connection.data_to_send())
            while data := sock.recv(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived):
                        status = int(dict(event.headers)[b":status"])
                    elif isinstance(event, h2.events.DataReceived):
                        received += event.data
                    elif isinstance(
                        event, h2.events.StreamEnded | h2.events.StreamReset
                        | h2.events.ConnectionTerminated,
                    ):  # fmt: skip
                        return status, received
                sock.sendall(connection.data_to_send())
        return status, received

    plain = [
        (":method", "GET"), (":path", "/x?a=1"), (":scheme", "http"), (":authority", "a.example"),
    ]  # fmt: skip
    with serving("hypercorn", site, "") as port:
        status, body = ask(port, plain)
        said, seen = _said(body)
        assert (seen["path"], seen["method"], seen["host"]) == ("/x?a=1", "GET", "a.example")
        assert (said["route"], said["method"]) == ("/x", "GET")
        # `host` next to `:authority`: hypercorn leaves one of them, for both.
        status, body = ask(port, [*plain, ("host", "b.example")])
        if status == 200:
            assert _said(body)[1]["host"] == "a.example"
        posted = [(":method", "POST"), *plain[1:], ("content-type", "application/json")]
        status, body = ask(port, [*posted, ("content-length", "7")], b'{"a":1}')
        said, seen = _said(body)
        assert said["body"].encode() == base64.b64decode(seen["body"]) == b'{"a":1}'
        status, body = ask(port, posted, b'{"a":1}')
        assert (status, b"undeclared length" in body) == (400, True)
        for hostile in (
            [*plain, (":path", "/admin")],
            [*plain, ("x-a", "1"), (":method", "DELETE")],
            [(":method", "GET"), (":path", "//x"), *plain[2:]],
            [(":method", "GET"), (":path", "http://b.example/x"), *plain[2:]],
            [(":method", "GET"), (":path", "x"), *plain[2:]],
            [(":method", "GET"), (":path", ""), *plain[2:]],
            [*plain, ("x_user", "root")],
            [*plain, ("X-User", "root")],
            [*plain, ("connection", "x-user"), ("transfer-encoding", "chunked")],
        ):
            status, body = ask(port, hostile)
            assert status != 200, (hostile, body)
