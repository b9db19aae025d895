"""The default sender against a server in this process: what crosses a real socket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from doorward.rego.builtins.http_message import Certificates, HTTPRequest, SendError, Source
from doorward.rego.builtins.http_sender import HTTPXSender


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked; some paths do something else."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path.startswith("/redirect?to="):
            self.send_response(302)
            self.send_header("Location", self.path.partition("?to=")[2])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/slow":
            time.sleep(0.5)
        lines = [f"{self.command} {self.path}", *(f"{k}: {v}" for k, v in self.headers.items())]
        body = "\n".join(lines).encode() + b"\n\n" + sent
        self.send_response(200)
        self.send_header("X-Twice", "1")
        self.send_header("X-Twice", "2")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is its result."""


class Server(ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: hanging up is what some of these tests are about."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Echo)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def sender() -> Iterator[HTTPXSender]:
    sender = HTTPXSender()
    yield sender
    sender.close()


def test_a_request_arrives_and_its_response_returns(base: str, sender: HTTPXSender) -> None:
    request = HTTPRequest("POST", f"{base}/a?b=c", (("x-a", "1"), ("host", "other")), b"{}")
    response = sender.send(request, None)
    lines = response.body.decode().splitlines()
    assert response.status == "200 OK"
    assert ("x-twice", "1") in response.headers
    assert response.header("x-twice") == "1, 2"
    assert lines[0] == "POST /a?b=c"
    assert {"x-a: 1", "user-agent: doorward", "{}"} <= {
        line.replace("X-A", "x-a") for line in lines
    }
    assert any(line.lower() == "host: other" for line in lines)


def test_redirects_are_followed_only_when_asked(base: str, sender: HTTPXSender) -> None:
    url = f"{base}/redirect?to=/there"
    assert sender.send(HTTPRequest("GET", url), None).status_code == 302
    followed = sender.send(HTTPRequest("POST", url, body=b"x", follow_redirects=True), None)
    assert followed.body.startswith(b"GET /there")


def test_a_redirect_gives_no_credentials_to_another_host(base: str, sender: HTTPXSender) -> None:
    other = base.replace("127.0.0.1", "localhost")
    headers = (("authorization", "secret"), ("x-a", "1"))
    request = HTTPRequest("GET", f"{base}/redirect?to={other}/", headers, follow_redirects=True)
    body = sender.send(request, None).body.decode().lower()
    assert "x-a: 1" in body
    assert "authorization" not in body


def test_a_redirect_stays_within_the_allowed_hosts(base: str, sender: HTTPXSender) -> None:
    other = base.replace("127.0.0.1", "localhost")
    request = HTTPRequest(
        "GET",
        f"{base}/redirect?to={other}/",
        follow_redirects=True,
        allowed_hosts=frozenset({"127.0.0.1"}),
    )
    with pytest.raises(SendError, match="unallowed host: localhost"):
        sender.send(request, None)


def test_redirects_end(base: str, sender: HTTPXSender) -> None:
    url = f"{base}/redirect?to=" * 12 + "/"
    with pytest.raises(SendError, match="stopped after 10 redirects"):
        sender.send(HTTPRequest("GET", url, follow_redirects=True), None)


def test_a_slow_server_is_not_waited_for(base: str, sender: HTTPXSender) -> None:
    start = time.monotonic()
    with pytest.raises(SendError, match="request timed out") as caught:
        sender.send(HTTPRequest("GET", f"{base}/slow", timeout=0.1), None)
    assert caught.value.timed_out
    assert time.monotonic() - start < 0.45


def test_retries_end_with_the_deadline(sender: HTTPXSender) -> None:
    start = time.monotonic()
    with pytest.raises(SendError):
        sender.send(HTTPRequest("GET", "http://127.0.0.1:1/", retries=20, timeout=0.3), None)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize(
    ("url", "certificates"),
    [
        ("http://127.0.0.1:1/", Certificates()),
        ("ftp://127.0.0.1/", Certificates()),
        ("unix://localhost/", Certificates()),
        ("unix://localhost/?socket=/nowhere/x", Certificates()),
        ("https://127.0.0.1:1/", Certificates(authorities=(Source("text", "no PEM"),))),
        ("https://127.0.0.1:1/", Certificates(authorities=(Source("file", "/nowhere"),))),
        ("https://127.0.0.1:1/", Certificates(authorities=(Source("variable", "NOT_SET_"),))),
    ],
)
def test_every_failure_is_a_send_error(
    url: str, certificates: Certificates, sender: HTTPXSender
) -> None:
    with pytest.raises(SendError):
        sender.send(HTTPRequest("GET", url, certificates=certificates), None)


def test_an_error_shows_no_password(sender: HTTPXSender) -> None:
    with pytest.raises(SendError) as caught:
        sender.send(HTTPRequest("GET", "http://bob:geheim@127.0.0.1:1/"), None)
    assert "geheim" not in str(caught.value)
    assert "bob:***@127.0.0.1:1" in str(caught.value)
