"""Requests to services are bounded, and say who sends them."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from tests.transport.certificates import Authority
from tests.waiting import PATIENCE

from doorward.config.configuration import parse_config
from doorward.config.services import (
    AwsSigning,
    AwsSource,
    AzureIdentity,
    ClientTls,
    OAuth2,
    Service,
)
from doorward.control.answers import ServiceError, status_text
from doorward.control.client import ServiceClient
from doorward.telemetry.tracing import Tracer

OAUTH2 = {"token_url": "https://token/x", "client_id": "i", "client_secret": "p"}


def client(respond: Callable[[httpx.Request], httpx.Response], **service: Any) -> ServiceClient:
    text = json.dumps({"services": {"s": {"url": "http://s/base/", **service}}})
    config = parse_config(text, environment={})
    return ServiceClient(config.services["s"], transport=httpx.MockTransport(respond))


def test_requests_carry_the_headers_of_the_configuration() -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=b"x")

    answer = client(respond, headers={"X-Tenant": "a"}).request("GET", "/p?q=a%20b")
    assert (answer.status, answer.body) == (200, b"x")
    assert str(seen[0].url) == "http://s/base/p?q=a%20b"
    assert seen[0].headers["x-tenant"] == "a"
    assert seen[0].headers["user-agent"].startswith("Doorward/")
    assert seen[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize(("status", "failed"), [(200, None), (304, None), (500, "500")])
def test_a_request_is_a_span_and_tells_of_it(status: int, failed: str | None) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(status)

    config = parse_config('{"services": {"s": {"url": "http://s:81/base"}}}', environment={})
    asking = ServiceClient(
        config.services["s"],
        transport=httpx.MockTransport(respond),
        tracer=Tracer(provider, TraceContextTextMapPropagator()),
    )
    assert asking.request("GET", "/p?token=hunter2").status == status
    (span,) = exporter.get_finished_spans()
    assert span.name == "HTTP GET"
    assert dict(span.attributes or {}) == {
        "http.request.method": "GET",
        "http.response.status_code": status,
        "server.address": "s",
        "server.port": 81,
        "url.full": "http://s:81/base/p",
        **({"error.type": failed} if failed else {}),
    }
    assert span.context is not None
    assert f"{span.context.span_id:016x}" in seen[0].headers["traceparent"]


def test_a_request_without_an_answer_fails_its_span() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def respond(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    config = parse_config('{"services": {"s": {"url": "http://s"}}}', environment={})
    asking = ServiceClient(
        config.services["s"],
        transport=httpx.MockTransport(respond),
        tracer=Tracer(provider, TraceContextTextMapPropagator()),
    )
    with pytest.raises(ServiceError):
        asking.request("GET", "p")
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {})["error.type"] == "ServiceError"


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (404, "Not Found"), (413, "Request Entity Too Large"), (414, "Request URI Too Long"),
        (416, "Requested Range Not Satisfiable"), (418, "I'm a teapot"),
        (422, "Unprocessable Entity"), (599, ""),
    ],
)  # fmt: skip
def test_statuses_have_the_names_of_go(status: int, name: str) -> None:
    assert status_text(status) == name


def test_a_response_is_bounded() -> None:
    large = client(lambda _: httpx.Response(200, content=b"x" * 100))
    with pytest.raises(ServiceError, match="response is larger than 10 bytes"):
        large.request("GET", "p", limit=10)


@pytest.mark.parametrize("elsewhere", ["http://other/x", "http://s:81/x", "https://s/x"])
def test_headers_of_the_configuration_are_not_sent_elsewhere(elsewhere: str) -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if str(request.url) == "http://s/base/p":
            return httpx.Response(302, headers={"location": "/here"})
        if str(request.url) == "http://s/here":
            return httpx.Response(307, headers={"location": elsewhere})
        return httpx.Response(200)

    asking = client(respond, headers={"X-Api-Key": "hunter2", "Cookie": "a=hunter2"})
    asking.request("GET", "p", headers={"if-none-match": "e", "prefer": "modes=snapshot"})
    first, same, other = [each.headers for each in seen]
    assert first["x-api-key"] == same["x-api-key"] == "hunter2"
    assert "hunter2" not in str(other.raw)
    assert (other["if-none-match"], other["prefer"]) == ("e", "modes=snapshot")


def test_a_token_is_not_sent_to_another_host() -> None:
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.host == "s":
            return httpx.Response(302, headers={"location": "http://other/x"})
        return httpx.Response(200)

    client(respond, credentials={"bearer": {"token": "t"}}).request("GET", "p")
    assert [each.headers.get("authorization") for each in seen] == ["Bearer t", None]


@pytest.mark.parametrize(
    ("status", "answered"), [(301, 301), (302, 302), (303, 303), (307, 200), (308, 200)]
)
def test_what_a_redirect_made_a_get_of_has_not_arrived(status: int, answered: int) -> None:
    """Otherwise a chunk of the decision log that nobody took would count as taken."""

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/base/logs":
            return httpx.Response(status, headers={"location": "http://s/other"})
        return httpx.Response(200 if request.method == "GET" or request.content else 500)

    answer = client(respond).request("POST", "/logs", content=b"events")
    assert answer.status == answered


def test_a_token_is_kept_until_it_expires() -> None:
    tokens: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "s":
            return httpx.Response(200, content=request.headers["authorization"].encode())
        tokens.append(request)
        body = {"access_token": f"t{len(tokens)}", "token_type": "bearer", "expires_in": 3600}
        return httpx.Response(200, json=body)

    asking = client(respond, credentials={"oauth2": OAUTH2})
    assert [asking.request("GET", "p").body for _ in range(3)] == [b"Bearer t1"] * 3
    pair = base64.b64encode(b"i:p").decode()
    assert [each.headers["authorization"] for each in tokens] == [f"Basic {pair}"]


@pytest.mark.parametrize("token", [None, "", " ", "a\nb", "é", 1])
@pytest.mark.parametrize(
    ("credentials", "source"),
    [
        ({"oauth2": OAUTH2}, "the OAuth2 token endpoint"),
        ({"gcp_metadata": {"scopes": ["s"], "endpoint": "http://token"}}, "gcp's metadata service"),
        ({"azure_managed_identity": {"endpoint": "http://token"}}, "azure's identity service"),
    ],
)
def test_an_answer_without_a_token_is_an_error(
    credentials: Any, source: str, token: object
) -> None:
    document = {"token_type": "bearer", "access_token": token, "expires_in": 3600}
    asking = client(lambda _request: httpx.Response(200, json=document), credentials=credentials)
    with pytest.raises(ServiceError, match=f"{source} returned no token"):
        asking.request("GET", "p")


@pytest.mark.parametrize("lifetime", ["nan", "inf", "-inf", "x", -1, None])
def test_a_token_whose_expiry_is_no_number_is_used_once(lifetime: object) -> None:
    tokens = iter(["a", "b"])

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "s":
            return httpx.Response(200, content=request.headers["authorization"].encode())
        body = {"access_token": next(tokens), "token_type": "bearer", "expires_in": lifetime}
        return httpx.Response(200, json=body)

    asking = client(respond, credentials={"oauth2": OAUTH2})
    assert [asking.request("GET", "p").body for _ in range(2)] == [b"Bearer a", b"Bearer b"]


@pytest.mark.parametrize("text", ["", "\n", "a\nb", "é"])
def test_a_token_file_without_a_token_is_an_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    asking = client(
        lambda _request: httpx.Response(200), credentials={"bearer": {"token_path": str(file)}}
    )
    with pytest.raises(ServiceError, match="the token must not be empty, and must contain only"):
        asking.request("GET", "p")


def test_a_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    asking = client(
        lambda request: httpx.Response(200, content=request.headers["authorization"].encode()),
        credentials={"bearer": {"token_path": str(file)}},
    )
    with pytest.raises(ServiceError, match="no such file or directory"):
        asking.request("GET", "p")
    for text in ("one\n", "two\n"):
        file.write_text(text)
        assert asking.request("GET", "p").body == f"Bearer {text.strip()}".encode()


def test_certificates_that_cannot_be_used_are_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for credentials in (None, ClientTls(str(broken), str(broken))):
        service = Service("s", "https://s", ca_certificate=str(broken), credentials=credentials)
        with pytest.raises(ServiceError, match="service `s`: a CA certificate, or"):
            ServiceClient(service).request("GET", "p")
    missing = Service("s", "https://s", ca_certificate=str(tmp_path / "none.pem"))
    with pytest.raises(
        ServiceError, match=r"service `s`: open \S+/none.pem: no such file or directory"
    ):
        ServiceClient(missing).request("GET", "p")


def test_the_file_that_is_missing_is_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    credentials = ClientTls(str(tmp_path / "client.pem"), str(tmp_path / "client.key"))
    service = Service("s", "https://s", ca_certificate=str(authority.file), credentials=credentials)
    with pytest.raises(ServiceError, match=r"service `s`: open \S+/client.pem: no such file"):
        ServiceClient(service).request("GET", "p")


class Greeting(BaseHTTPRequestHandler):
    """Answers with the name in the client's certificate."""

    def do_GET(self) -> None:
        assert isinstance(self.connection, ssl.SSLSocket)
        certificate: Any = self.connection.getpeercert()
        name = dict(pair[0] for pair in certificate["subject"])["commonName"].encode()
        self.send_response(200)
        self.send_header("content-length", str(len(name)))
        self.end_headers()
        self.wfile.write(name)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_client_certificates_are_sent_and_read_again(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), Greeting)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    files = authority.issue("first", "client")
    asking = ServiceClient(
        Service("s", url, ca_certificate=str(authority.file), credentials=ClientTls(*files))
    )
    try:
        assert asking.request("GET", "x").body == b"first"
        authority.issue("second", "client")
        assert asking.request("GET", "x").body == b"second"
        unknown = ServiceClient(Service("s", url, credentials=ClientTls(*files)))
        with pytest.raises(ServiceError, match="certificate verify failed"):
            unknown.request("GET", "x")
        unknown.close()
    finally:
        asking.close()
        server.shutdown()
        server.server_close()


class Registry(BaseHTTPRequestHandler):
    """A registry, and the token service to which it refers."""

    realm = ""

    def do_GET(self) -> None:
        is_known = self.headers["authorization"] == "Bearer t"
        body = b'{"token": "t"}' if self.path.startswith("/token") else b"manifest"
        self.send_response(200 if is_known or self.path.startswith("/token") else 401)
        self.send_header("www-authenticate", f'Bearer realm="{self.realm}"')
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_the_token_service_of_a_registry_has_its_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Registry) for _ in range(2)]
    for server in servers:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    urls = [f"https://127.0.0.1:{server.server_address[1]}" for server in servers]
    try:
        for realm in urls:
            Registry.realm = f"{realm}/token"
            service = Service("s", urls[0], ca_certificate=str(authority.file), is_registry=True)
            asking = ServiceClient(service)
            assert asking.request("GET", "v2/a/manifests/b").body == b"manifest"
            asking.close()
        # The authority of another service says nothing about the server of its tokens.
        oauth = OAuth2(token_url=f"{urls[1]}/token", client_id="i", client_secret="p")
        other = ServiceClient(
            Service("s", urls[0], ca_certificate=str(authority.file), credentials=oauth)
        )
        with pytest.raises(ServiceError, match="certificate verify failed"):
            other.request("GET", "x")
        other.close()
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class Keys(BaseHTTPRequestHandler):
    """Answers as a service, and as what gives a token with a line break for it."""

    def do_GET(self) -> None:
        body = b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "geheim\\nx"}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


AWS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "r"}
METADATA = AwsSigning((AwsSource("metadata", "r"),))
CONTAINER = "AWS_CONTAINER_CREDENTIALS_FULL_URI"


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"headers": {"x-key": "geheim\n"}}, {}),
        ({"headers": {"x-key": "geheim\xe9"}}, {}),
        (
            {"credentials": AwsSigning((AwsSource("environment"),))},
            {**AWS, "AWS_SESSION_TOKEN": "geheim\n"},
        ),
        (
            {"credentials": AwsSigning((AwsSource("environment"),), version="4a")},
            {**AWS, "AWS_SESSION_TOKEN": "geheim\n"},
        ),
        (
            {"credentials": METADATA},
            {CONTAINER: "URL", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "geheim\n"},
        ),
        ({"credentials": METADATA}, {CONTAINER: "URL"}),
        ({"credentials": METADATA}, {CONTAINER: "http://u:geheim@127.0.0.1:1"}),
        (
            {"credentials": AzureIdentity()},
            {"IDENTITY_ENDPOINT": "URL", "IDENTITY_HEADER": "geheim\n"},
        ),
        ({"url": "http://u:geheim@127.0.0.1:1"}, {}),
        ({"url": "http://127.0.0.1:1/x?sig=geheim"}, {}),
    ],
)
def test_no_error_quotes_a_credential(
    options: dict[str, Any], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for name, value in environment.items():
        monkeypatch.setenv(name, url if value == "URL" else value)
    asking = ServiceClient(Service(**{"name": "s", "url": url, **options}))
    try:
        with pytest.raises(ServiceError) as caught:
            asking.request("GET", "x")
        assert "geheim" not in str(caught.value)
    finally:
        asking.close()
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def test_an_empty_scheme_or_token_gives_a_header_that_can_be_sent() -> None:
    seen: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200)

    client(respond, credentials={"bearer": {"scheme": "", "token": "t"}}).request("GET", "x")
    client(respond, credentials={"bearer": {}}).request("GET", "x")
    assert seen == ["Bearer t", "Bearer"]


class Waiting(BaseHTTPRequestHandler):
    """Answers a long poll when `released` is set, and everything else at once."""

    released = threading.Event()
    waiting = threading.Semaphore(0)

    def do_GET(self) -> None:
        if self.path == "/poll":
            self.waiting.release()
            self.released.wait(PATIENCE)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_long_polls_leave_room_for_other_requests() -> None:
    polls = 120  # more than the connections of a client of httpx
    server = ThreadingHTTPServer(("127.0.0.1", 0), Waiting)
    server.request_queue_size = polls
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    asking = ServiceClient(Service("s", url, header_timeout=PATIENCE))
    threads = [threading.Thread(target=asking.request, args=("GET", "poll")) for _ in range(polls)]
    try:
        for thread in threads:
            thread.start()
            assert Waiting.waiting.acquire(timeout=PATIENCE)
        assert asking.request("GET", "other").status == 200
    finally:
        Waiting.released.set()
        for thread in threads:
            thread.join()
        asking.close()
        server.shutdown()
        server.server_close()


def test_uploads_of_any_bytes_are_signed_for_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200)

    signing = client(respond, credentials={"s3_signing": {"environment_credentials": {}}})
    content = b"\x1f\x8b\xff\x00"
    signing.request("POST", "p", content=content)
    assert seen[0].headers["x-amz-content-sha256"] == hashlib.sha256(content).hexdigest()
    assert seen[0].headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=x/")


def test_a_changed_certificate_leaves_requests_in_progress(tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    authority.write_text("one")
    begun, goes_on = threading.Event(), threading.Event()
    transports: list[_Closing] = []

    class _Closing(httpx.MockTransport):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/slow":
            begun.set()
            assert goes_on.wait(PATIENCE)
        return httpx.Response(200)

    class _Asking(ServiceClient):
        def _connect(self) -> httpx.Client:
            transports.append(_Closing(respond))
            return httpx.Client(transport=transports[-1], timeout=PATIENCE)

    asking = _Asking(Service("s", "http://s", ca_certificate=str(authority)))
    answers: list[int] = []
    slow = threading.Thread(target=lambda: answers.append(asking.request("GET", "slow").status))
    slow.start()
    assert begun.wait(PATIENCE)
    authority.write_text("another")
    assert asking.request("GET", "fast").status == 200
    assert [each.is_closed for each in transports] == [False, False]
    goes_on.set()
    slow.join(PATIENCE)
    assert answers == [200]
    assert [each.is_closed for each in transports] == [True, False]
    authority.write_text("a third one")
    assert asking.request("GET", "fast").status == 200
    assert [each.is_closed for each in transports] == [True, True, False]
    # The end closes what a request in progress still uses, too.
    begun.clear()
    goes_on.clear()
    slow = threading.Thread(target=lambda: answers.append(asking.request("GET", "slow").status))
    slow.start()
    assert begun.wait(PATIENCE)
    authority.write_text("the fourth one")
    assert asking.request("GET", "fast").status == 200
    asking.close()
    assert [each.is_closed for each in transports] == [True] * 4
    goes_on.set()
    slow.join(PATIENCE)


def test_threads_that_ask_at_once_share_a_client() -> None:
    clients: list[httpx.Client] = []
    together = threading.Barrier(8)

    class _Asking(ServiceClient):
        def _connect(self) -> httpx.Client:
            transport = httpx.MockTransport(lambda _: httpx.Response(200))
            clients.append(httpx.Client(transport=transport, timeout=PATIENCE))
            return clients[-1]

    asking = _Asking(Service("s", "http://s"))

    def ask() -> None:
        together.wait(PATIENCE)
        asking.request("GET", "p")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(clients) == 1
    asking.close()
