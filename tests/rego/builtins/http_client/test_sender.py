"""The default sender against a server in this process: what crosses a real socket."""

from __future__ import annotations

import gzip
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from socket import AF_UNIX
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.waiting import PATIENCE

from doorward.rego.builtins.http_client import sender as http_sender
from doorward.rego.builtins.http_client.message import Certificates, HTTPRequest, SendError, Source
from doorward.rego.builtins.http_client.sender import HTTPXSender
from doorward.rego.builtins.registry.bounded_threads import BoundedThreads
from doorward.rego.errors import EvaluationAborted

SLOW = 2.0
"""Seconds that a slow server takes; nobody waits for it."""


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
        if self.path.startswith("/status/"):
            self.send_response(int(self.path.rpartition("/")[2]), "")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path.startswith("/cookie"):
            self.send_response(302)
            self.send_header("Set-Cookie", "session=secret")
            self.send_header("Location", self.path.partition("?to=")[2] or "/a")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path in ("/gzip", "/no-gzip"):
            content = gzip.compress(b"plain") if self.path == "/gzip" else b"plain"
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        if self.path == "/chunked":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"2\r\nab\r\n0\r\n\r\n")
            return
        if self.path == "/drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b"x")
                time.sleep(0.02)
            self.close_connection = True
            return
        if self.path == "/slow":
            time.sleep(SLOW)
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
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
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


def test_a_redirect_without_a_place_is_the_response(base: str, sender: HTTPXSender) -> None:
    request = HTTPRequest("GET", f"{base}/status/302", follow_redirects=True)
    assert sender.send(request, None).status_code == 302


def test_an_empty_location_is_not_followed(base: str, sender: HTTPXSender) -> None:
    request = HTTPRequest("GET", f"{base}/redirect?to=", follow_redirects=True)
    assert sender.send(request, None).status_code == 302


def test_what_is_wrong_with_a_body_is_not_an_error_of_the_network(
    base: str, sender: HTTPXSender
) -> None:
    """As in OPA, where it is read after the response came."""
    with pytest.raises(SendError, match="not valid gzip data") as caught:
        sender.send(HTTPRequest("GET", f"{base}/no-gzip"), None)
    assert not caught.value.is_network


def test_a_policy_says_nothing_of_where_a_body_ends(base: str, sender: HTTPXSender) -> None:
    headers = (("Content-Length", "1"), ("Transfer-Encoding", "chunked"), ("Trailer", "x"))
    response = sender.send(HTTPRequest("POST", f"{base}/", headers, b"body"), None)
    text = response.body.decode().lower()
    assert "content-length: 4" in text
    assert "chunked" not in text
    assert text.endswith("\n\nbody")


def test_headers_of_one_name_are_one_header(base: str, sender: HTTPXSender) -> None:
    request = HTTPRequest("GET", f"{base}/", (("X-A", "first"), ("x-a", "last")))
    text = sender.send(request, None).body.decode()
    assert "last" in text
    assert "first" not in text


@pytest.mark.parametrize("value", ["a\x7f", "a\x00b", "a\r\nb: c", "\x1b"])
def test_a_header_with_control_characters_is_not_sent(value: str, sender: HTTPXSender) -> None:
    with pytest.raises(SendError, match="invalid header"):
        sender.send(HTTPRequest("GET", "http://127.0.0.1:1/", (("x-a", value),)), None)


@pytest.mark.parametrize(
    "host", ["127.1", "2130706433", "0x7f.1", "0x7f000001", "127.0.0.01", "0177.0.0.1", "127.1."]
)
def test_addresses_have_one_spelling(host: str, base: str, sender: HTTPXSender) -> None:
    """As in OPA: the resolver of the system would read them, and a deny list does not."""
    with pytest.raises(SendError, match=r"no such host|invalid IPv4"):
        sender.send(HTTPRequest("GET", base.replace("127.0.0.1", host)), None)


def test_a_body_in_chunks_has_no_header_of_its_frame(base: str, sender: HTTPXSender) -> None:
    response = sender.send(HTTPRequest("GET", f"{base}/chunked"), None)
    assert response.body == b"ab"
    assert response.header("transfer-encoding") is None or not response.header("transfer-encoding")


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


def test_a_host_that_is_not_allowed_is_not_asked(sender: HTTPXSender) -> None:
    request = HTTPRequest("GET", "http://b.example/", allowed_hosts=frozenset({"a.example"}))
    with pytest.raises(SendError, match=r"unallowed host: b\.example"):
        sender.send(request, None)


def test_redirects_end(base: str, sender: HTTPXSender) -> None:
    url = f"{base}/redirect?to=" * 12 + "/"
    with pytest.raises(SendError, match="stopped after 10 redirects"):
        sender.send(HTTPRequest("GET", url, follow_redirects=True), None)


def test_a_slow_server_is_not_waited_for(base: str, sender: HTTPXSender) -> None:
    with pytest.raises(SendError, match="request timed out") as caught:
        sender.send(HTTPRequest("GET", f"{base}/slow", timeout=0.1), None)
    assert caught.value.timed_out


def test_a_server_that_never_ends_is_not_waited_for(base: str, sender: HTTPXSender) -> None:
    with pytest.raises(SendError, match="request timed out"):
        sender.send(HTTPRequest("GET", f"{base}/drip", timeout=0.1), None)
    under_way = [thread for thread in enumerate_threads() if thread.name == "http.send"]
    for thread in under_way:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in under_way)


def test_after_the_deadline_nothing_is_sent(sender: HTTPXSender) -> None:
    with pytest.raises(SendError, match="request timed out"):
        sender.send(HTTPRequest("GET", "http://127.0.0.1:1/"), time.monotonic() - 1)


def test_a_body_too_large_is_refused(
    base: str, sender: HTTPXSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_sender, "MAX_BODY", 100)
    assert sender.send(HTTPRequest("POST", f"{base}/status/200"), None).body == b""
    with pytest.raises(SendError, match="response is larger than 100 bytes"):
        sender.send(HTTPRequest("POST", f"{base}/", body=b"x" * 100), None)


@pytest.mark.parametrize("code", [404, 599])
def test_a_status_without_words_gets_none(code: int, base: str, sender: HTTPXSender) -> None:
    """As in OPA."""
    assert sender.send(HTTPRequest("GET", f"{base}/status/{code}"), None).status == str(code)


def test_a_cookie_of_one_response_is_not_sent_with_the_next_request(
    base: str, sender: HTTPXSender
) -> None:
    """What one decision was given is not shown for another; nor along a redirect, as in OPA."""
    sender.send(HTTPRequest("GET", f"{base}/cookie"), None)
    assert b"ookie" not in sender.send(HTTPRequest("GET", f"{base}/a"), None).body
    redirect = HTTPRequest("GET", f"{base}/cookie?to=/there", follow_redirects=True)
    followed = sender.send(redirect, None).body
    assert followed.startswith(b"GET /there")
    assert b"ookie" not in followed
    own = HTTPRequest("GET", f"{base}/a", (("cookie", "mine=1"),))
    assert b"mine=1" in sender.send(own, None).body


@pytest.mark.parametrize(
    ("accepts", "is_decoded"), [((), True), ((("accept-encoding", "x"),), False)]
)
def test_gzip_is_decoded_where_the_policy_names_no_encoding(
    accepts: tuple[tuple[str, str], ...], is_decoded: bool, base: str, sender: HTTPXSender
) -> None:
    """As in Go's client: the encoding is no longer named then."""
    response = sender.send(HTTPRequest("GET", f"{base}/gzip", accepts), None)
    assert (response.body == b"plain") is is_decoded
    assert response.header("content-encoding") == ("" if is_decoded else "gzip")


def test_what_nobody_expected_ends_the_evaluation(sender: HTTPXSender) -> None:
    """Rather than make its expression undefined, which `not` would take for a no."""
    with pytest.raises(EvaluationAborted, match="the call raised TypeError"):
        sender.send(HTTPRequest("GÉT", "http://127.0.0.1:1/"), None)


def test_only_so_many_clients_are_kept(sender: HTTPXSender) -> None:
    none = Certificates(system_authorities=False)
    first = sender.client_for(replace(none, server_name="0"), "")
    for n in range(http_sender.MAX_CLIENTS):
        assert sender.client_for(replace(none, server_name=str(n)), "").is_closed is False
    assert sender.client_for(replace(none, server_name="0"), "") is first
    sender.client_for(replace(none, server_name="one more"), "")
    sender.client_for(replace(none, server_name="and one more"), "")
    assert first.is_closed


def test_only_so_many_requests_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = HTTPXSender()
    monkeypatch.setattr(sender, "_threads", BoundedThreads("http.send", 0))
    with pytest.raises(SendError, match="request timed out"):
        sender.send(HTTPRequest("GET", "http://127.0.0.1:1/", timeout=0.01), None)


class LocalServer(Server):
    """Listens on a Unix socket."""

    address_family = AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "local", 0

    def finish_request(self, request: Any, client_address: Any) -> None:
        super().finish_request(request, ("local", 0))


def test_a_unix_socket_is_asked_for_the_rest_of_its_url(
    tmp_path: Path, sender: HTTPXSender
) -> None:
    path = str(tmp_path / "x.sock")
    server = LocalServer(path, Echo)  # type: ignore[arg-type] # a path is the address here
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    response = sender.send(HTTPRequest("GET", f"unix://localhost/a?socket={path}&b=c"), None)
    assert response.body.startswith(b"GET /a?b=c")
    server.shutdown()
    server.server_close()
    thread.join()


def test_retries_end_with_the_deadline(sender: HTTPXSender) -> None:
    retries = 1_000_000  # which take more than an hour
    with pytest.raises(SendError):
        sender.send(HTTPRequest("GET", "http://127.0.0.1:1/", retries=retries, timeout=0.3), None)


@pytest.mark.parametrize(
    ("url", "certificates"),
    [
        ("http://127.0.0.1:1/", Certificates()),
        ("ftp://127.0.0.1/", Certificates()),
        ("unix://localhost/", Certificates()),
        ("unix://localhost/?socket=/nowhere/x", Certificates()),
        ("unix://ex℀mple.com/?socket=/x", Certificates()),
        ("http://ex℀mple.com/", Certificates()),
        ("http://[::g]/", Certificates()),
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


@pytest.mark.parametrize("host", ["127.0.0.1:1", "ex℀mple.com", "[::g]", "us／er"])
def test_an_error_shows_no_password(host: str, sender: HTTPXSender) -> None:
    with pytest.raises(SendError) as caught:
        sender.send(HTTPRequest("GET", f"http://bob:geheim@{host}/a?b#c"), None)
    assert "geheim" not in str(caught.value)
    assert f'Get "http://bob:***@{host}/a?b#c": ' in str(caught.value)


def self_signed() -> tuple[str, str]:
    """A certificate for 127.0.0.1 and `inner.example` that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("inner.example")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), pem.decode()


CERTIFICATE, KEY = self_signed()


@pytest.fixture(scope="module")
def tls_base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants a client certificate of the same authority."""
    pem = tmp_path_factory.mktemp("tls") / "server.pem"
    pem.write_text(CERTIFICATE + KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.load_verify_locations(cadata=CERTIFICATE)
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Echo)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def trusting(**options: object) -> Certificates:
    chosen: dict[str, object] = {
        "authorities": (Source("text", CERTIFICATE),),
        "system_authorities": False,
        "client_certificate": Source("text", CERTIFICATE),
        "client_key": Source("text", KEY),
    }
    return Certificates(**{**chosen, **options})  # type: ignore[arg-type] # of many types


def ask(sender: HTTPXSender, url: str, certificates: Certificates) -> int:
    return sender.send(HTTPRequest("GET", url, certificates=certificates), None).status_code


def test_tls_is_spoken_with_what_is_trusted(tls_base: str, sender: HTTPXSender) -> None:
    assert ask(sender, tls_base, trusting()) == 200
    assert ask(sender, tls_base, trusting(server_name="inner.example")) == 200
    assert ask(sender, tls_base, trusting(authorities=(), verify=False)) == 200


@pytest.mark.parametrize(
    "options",
    [
        {"authorities": ()},
        {"authorities": (), "system_authorities": True},
        {"server_name": "other.example"},
        {"client_certificate": None, "client_key": None},
        {"client_key": Source("text", self_signed()[1])},
    ],
)
def test_tls_is_refused_otherwise(
    options: dict[str, object], tls_base: str, sender: HTTPXSender
) -> None:
    with pytest.raises(SendError):
        ask(sender, tls_base, trusting(**options))


def test_certificates_come_from_files_and_the_environment(
    tls_base: str, sender: HTTPXSender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(CERTIFICATE)
    monkeypatch.setenv("TEST_CLIENT_KEY", KEY)
    chosen = trusting(
        authorities=(Source("file", str(path)),), client_key=Source("variable", "TEST_CLIENT_KEY")
    )
    assert ask(sender, tls_base, chosen) == 200


def test_a_unix_socket_is_asked_by_its_url(tmp_path: Path, sender: HTTPXSender) -> None:
    with pytest.raises(SendError, match="does not exist"):
        ask(sender, f"unix://localhost/a?socket={tmp_path}/x.sock", Certificates())
