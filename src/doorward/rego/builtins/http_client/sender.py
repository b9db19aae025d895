"""The default sender of `http.send`: httpx, in a thread of its own for every request.

INVARIANT: nothing of a response is part of another request: what a server sets as a cookie for one
decision is not sent with the next.

The thread is what makes the deadline hold: name look-up and a server that drips its headers
cannot be interrupted, so the evaluation ends without them. Bounds: `MAX_PENDING` requests under
way, `MAX_BODY` bytes of a body, `MAX_REDIRECTS` hops.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import time
from collections import OrderedDict
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

import httpx

from doorward.http_client.decoding import DecodingError, decoded
from doorward.http_client.errors import describe_failure, describe_request
from doorward.rego.builtins.http_client.message import (
    Certificates,
    HTTPRequest,
    HTTPResponse,
    SendError,
    Source,
)
from doorward.rego.builtins.registry.bounded_threads import BoundedThreads
from doorward.rego.golang.octets import from_bytes

__all__ = ["HTTPXSender", "default_sender"]

MAX_BODY: Final = 32 * 1024 * 1024
"""The most bytes of a response's body after decompression; more is a SendError."""
MAX_PENDING: Final = 64
"""The most requests in progress at a time; further ones wait, at most until their deadline."""
MAX_REDIRECTS: Final = 10
MAX_CLIENTS: Final = 32
"""The most clients with different TLS settings, each with its own connections, that are kept at a
time.
"""

_FIRST_PAUSE: Final = 0.1
"""The seconds before the first retry; each later pause is twice as long, up to `_LONGEST_PAUSE`."""
_LONGEST_PAUSE: Final = 60.0


class HTTPXSender:
    """A `context.HTTPSender` that sends over the network; thread-safe."""

    def __init__(self) -> None:
        self._threads = BoundedThreads("http.send", MAX_PENDING)
        self._clients: OrderedDict[tuple[Certificates, str], httpx.Client] = OrderedDict()
        self._lock = Lock()

    def close(self) -> None:
        """Close all connections. Requests in progress fail with SendError; later ones connect
        again.
        """
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def client_for(self, certificates: Certificates, socket: str) -> httpx.Client:
        """The client, with its pool of connections, for these TLS settings and this Unix socket (""
        for TCP), created at first use. Closes the oldest client if there are more than
        `MAX_CLIENTS`. SendError, OSError or ValueError if the TLS settings cannot be loaded.
        """
        key = (certificates, socket)
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                client = self._clients[key] = _client(certificates, socket)
                if len(self._clients) > MAX_CLIENTS:
                    self._clients.popitem(last=False)[1].close()
            return client

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse:
        """Send the request and return the response; after a failure, wait 0.1 s, then twice as long
        each time (at most `_LONGEST_PAUSE`), and repeat it up to `request.retries` times. SendError
        if the last attempt fails or the time is over at `deadline` (monotonic seconds; None:
        `request.timeout` from now). EvaluationAborted if the sending thread raised an unexpected
        exception or cannot be started.
        """
        end = time.monotonic() + request.timeout if deadline is None else deadline
        pause = _FIRST_PAUSE
        left = request.retries
        while True:
            try:
                return self._send_once(request, end)
            except SendError as error:
                if not left or error.timed_out:
                    raise
                if time.monotonic() + pause >= end:
                    raise _timeout_error(request) from None
            time.sleep(pause)
            left -= 1
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _send_once(self, request: HTTPRequest, end: float) -> HTTPResponse:
        """Send once in a thread of its own and wait for it until `end` (monotonic seconds), also
        for one of the `MAX_PENDING` slots. SendError on failure or if the time is over; the thread
        may then still run. EvaluationAborted for an unexpected exception in it.
        """
        try:
            answer = self._threads.call(_Exchange(self, request, end).answer, end)
        except TimeoutError:
            raise _timeout_error(request) from None
        if isinstance(answer, SendError):
            raise answer
        return answer


class _Exchange:
    """One request in progress."""

    def __init__(self, sender: HTTPXSender, request: HTTPRequest, end: float) -> None:
        self.sender = sender
        self.request = request
        self.end = end

    def answer(self) -> HTTPResponse | SendError:
        """Send the request, and return its response or, for an error of the network, TLS, a file or
        the URL (httpx's errors, OSError, ValueError), a SendError. Other exceptions are raised.
        """
        try:
            return self._exchange()
        except SendError as error:
            return error
        except httpx.TimeoutException:
            return _timeout_error(self.request)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return SendError(f"{_request_text(self.request)}: {describe_failure(error)}")

    def _exchange(self) -> HTTPResponse:
        """Return the response, after at most `MAX_REDIRECTS` redirects if the request follows them.
        `self.request` becomes the request of the last hop. SendError if there are more redirects,
        the time is over, the TLS settings or the socket of a unix URL cannot be used, a host (also
        of a redirect) is not allowed, a header is invalid, or a body is too large or cannot be
        decoded; httpx's errors otherwise.
        """
        request = self.request
        url, socket = _split_socket(request.url)
        try:
            client = self.sender.client_for(request.certificates, socket)
        except (SendError, OSError, ValueError) as error:
            raise _internal(f"{_request_text(request)}: {describe_failure(error)}") from None
        for _ in range(MAX_REDIRECTS + 1):
            left = self.end - time.monotonic()
            if left <= 0:
                raise _timeout_error(request)
            answer, following = self._hop(client, url, left)
            if not (request.follow_redirects and following):
                return answer
            url = following
            request = self._follow_redirect(request, answer.status_code, url)
            self.request = request
        raise SendError(f"{_request_text(self.request)}: stopped after {MAX_REDIRECTS} redirects")

    def _follow_redirect(self, request: HTTPRequest, status: int, url: str) -> HTTPRequest:
        """Build the request for a redirect to `url`. The headers Authorization, Cookie and
        Proxy-Authorization are left out for another scheme, host or port, and Host always; the TLS
        client certificate stays. 303, and 301 or 302 after POST, make it a GET (a HEAD stays one)
        without a body and its headers. SendError if the host is not allowed.
        """
        old, new = httpx.URL(request.url), httpx.URL(url)
        # A server that is allowed could otherwise send the decision point to any host.
        hosts = request.allowed_hosts
        if hosts is not None and new.host.lower() not in hosts:
            raise SendError(f"{_request_text(request)}: unallowed host: {new.host}")
        dropped = {"host"}
        if (old.scheme, old.host, old.port) != (new.scheme, new.host, new.port):
            dropped |= {"authorization", "cookie", "proxy-authorization"}
        method, body = request.method, request.body
        if status == 303 or (status in {301, 302} and method == "POST"):
            method, body = ("HEAD" if method == "HEAD" else "GET"), b""
            dropped |= {"content-type", "content-length", "transfer-encoding"}
        headers = tuple(pair for pair in request.headers if pair[0] not in dropped)
        return HTTPRequest(
            method=method,
            url=url,
            headers=headers,
            body=body,
            timeout=request.timeout,
            follow_redirects=True,
            allowed_hosts=hosts,
            certificates=request.certificates,
        )

    def _hop(self, client: httpx.Client, url: str, left: float) -> tuple[HTTPResponse, str]:
        """Send `self.request` to `url` within `left` seconds, without redirects. Return its
        response, and the URL it redirects to or "". Gzip is decoded if the policy set no
        Accept-Encoding. SendError for a host that is not allowed or is an IP address in an unusual
        spelling, an invalid header, or a body that is too large, late or cannot be decoded; httpx's
        errors otherwise.
        """
        request = self.request
        host = httpx.URL(url).host
        _refuse_unusual_address(request, host)
        # Also where it is read otherwise than by who looked at the URL before.
        if request.allowed_hosts is not None and host.lower() not in request.allowed_hosts:
            raise SendError(f"{_request_text(request)}: unallowed host: {host}")
        headers = [("user-agent", "doorward"), *_own_headers(request)]
        asks_gzip = not any(name.lower() == "accept-encoding" for name, _ in headers)
        asks_gzip = asks_gzip and request.method != "HEAD"
        if asks_gzip:
            headers.append(("accept-encoding", "gzip"))
        built = client.build_request(
            request.method,
            url,
            headers=headers,
            content=request.body or None,
            timeout=left,
            extensions={"sni_hostname": request.certificates.server_name}
            if request.certificates.server_name
            else {},
        )
        response = client.send(built, stream=True)
        is_gzip = asks_gzip and response.headers.get("content-encoding", "").lower() == "gzip"
        try:
            body = self._read(response, "gzip" if is_gzip else "")
        finally:
            response.close()
        following = ""
        if response.is_redirect and response.headers.get("location"):
            following = str(response.url.join(response.headers["location"]))
        dropped = _FRAMING if "transfer-encoding" in response.headers else frozenset()
        dropped |= {"content-encoding", "content-length"} if is_gzip else frozenset()
        pairs = [
            (from_bytes(name).lower(), from_bytes(value)) for name, value in response.headers.raw
        ]
        pairs = [pair for pair in pairs if pair != ("connection", "close")]
        remaining = tuple([pair for pair in pairs if pair[0] not in dropped])
        return HTTPResponse(response.status_code, _status(response), remaining, body), following

    def _read(self, response: httpx.Response, encoding: str) -> bytes:
        """Read the body to its end and return it, decompressed if `encoding` is "gzip", as sent if
        it is "". SendError if it is larger than `MAX_BODY` (after decompression), incomplete after
        `self.end`, or cannot be decoded; httpx's other errors for a failing connection. Closing is
        left to the caller.
        """
        chunks: list[bytes] = []
        size = 0
        try:
            for chunk in decoded(response.iter_raw(), encoding):
                size += len(chunk)
                if size > MAX_BODY:
                    message = f"response is larger than {MAX_BODY} bytes"
                    raise SendError(f"{_request_text(self.request)}: {message}")
                if time.monotonic() > self.end:
                    raise _timeout_error(self.request)
                chunks.append(chunk)
        except (DecodingError, httpx.ProtocolError) as error:
            raise _internal(f"{_request_text(self.request)}: {describe_failure(error)}") from None
        return b"".join(chunks)


_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "trailer"})
"""Headers that say where a body ends; for a request they depend on its body alone, whatever a
policy sets.
"""


_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def _own_headers(request: HTTPRequest) -> list[tuple[str, str]]:
    """The headers that the policy set, the last of each name, without those that frame the body.
    SendError for a value with a control character, which httpx cannot send.
    """
    named = {name.lower(): (name, value) for name, value in request.headers}
    for name, value in named.values():
        if any((char < " " and char != "\t") or char == "\x7f" for char in value):
            raise SendError(f"{_request_text(request)}: invalid header field value for {name}")
    return [pair for name, pair in named.items() if name not in _FRAMING]


def _refuse_unusual_address(request: HTTPRequest, host: str) -> None:
    """Raise SendError for an IP address in an unusual spelling, such as `127.1` or `0x7f.1`:
    resolvers read these differently, and a policy that compares hosts as texts would not recognise
    them.
    """
    if _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise SendError(f"{_request_text(request)}: lookup {host}: no such host") from None


def _status(response: httpx.Response) -> str:
    phrase = response.extensions.get("reason_phrase", b"")
    return f"{response.status_code} {from_bytes(phrase)}".rstrip()


def _request_text(request: HTTPRequest) -> str:
    return describe_request(request.method, request.url)


def _internal(text: str) -> SendError:
    """Build, but do not raise, a SendError that does not count as a failure of the network."""
    error = SendError(text)
    error.is_network = False
    return error


def _timeout_error(request: HTTPRequest) -> SendError:
    """Build, but do not raise, a SendError that is marked as timed out."""
    error = SendError(f"{_request_text(request)}: request timed out")
    error.timed_out = True
    return error


def _split_socket(url: str) -> tuple[str, str]:
    """Split `unix://host/path?socket=/run/x.sock` into an HTTP URL and the socket's path. Another
    URL is returned unchanged with "". SendError unless a unix URL has one `socket` and it exists,
    and a host that Python accepts.
    """
    # Others are not split: Python refuses some that httpx accepts, and its error names passwords.
    if not url.lower().startswith("unix:"):
        return url, ""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SendError(
            "the host of a unix URL is invalid: use unix://localhost/PATH?socket=/run/x"
        ) from None
    query = parse_qs(parts.query)
    sockets = query.pop("socket", [])
    if len(sockets) != 1:
        raise SendError("a unix URL names its socket once, as in unix://localhost/?socket=/run/x")
    rest = "&".join(f"{name}={value}" for name, values in query.items() for value in values)
    if not Path(sockets[0]).is_socket():
        raise SendError("the socket of a unix URL does not exist")
    return urlunsplit(("http", parts.netloc or "localhost", parts.path, rest, "")), sockets[0]


def _client(certificates: Certificates, socket: str) -> httpx.Client:
    """Create a client for these TLS settings, over a Unix socket if `socket` is not empty. It
    follows no redirects and keeps no cookies. SendError, OSError or ValueError if the certificates
    cannot be loaded.
    """
    context = _tls(certificates)
    limits = httpx.Limits(max_connections=MAX_PENDING, max_keepalive_connections=16)
    transport = httpx.HTTPTransport(verify=context, uds=socket, limits=limits) if socket else None
    return httpx.Client(
        verify=context,
        limits=limits,
        transport=transport,
        follow_redirects=False,
        # Clients are shared by decisions: a cookie of one must not reach the next.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def _tls(certificates: Certificates) -> ssl.SSLContext:
    """A TLS client context for these settings, TLS 1.2 or newer; without `verify`, the server's
    certificate and name are not checked. SendError, OSError or ValueError if a certificate or key
    cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Go's default, too.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificates.system_authorities:
        context.load_default_certs()
    for source in certificates.authorities:
        context.load_verify_locations(cadata=_text(source))
    if certificates.client_certificate and certificates.client_key:
        _load_chain(context, certificates.client_certificate, certificates.client_key)
    if not certificates.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_chain(context: ssl.SSLContext, certificate: Source, key: Source) -> None:
    """Load the client certificate and key into the context, through a private temporary file.
    SendError if they cannot be used or are encrypted, or an environment variable is not set;
    OSError or ValueError if a file cannot be read.
    """
    # Python reads a key from a file only; the directory is ours alone, and gone a moment later.
    with TemporaryDirectory() as directory:
        path = Path(directory) / "client.pem"
        path.touch(mode=0o600)
        path.write_text(f"{_text(certificate)}\n{_text(key)}\n")
        try:
            context.load_cert_chain(path, password="")
        except ssl.SSLError:
            raise SendError(
                "the certificate and key of the options `tls_client_…` cannot be used: both must "
                "be PEM, belong together, and not be encrypted"
            ) from None


def _text(source: Source) -> str:
    """The PEM text of a source: inline, from an environment variable, or read from a file.
    SendError if the variable is not set, OSError or ValueError if the file cannot be read.
    """
    if source.kind == "text":
        return source.value
    if source.kind == "variable":
        text = os.environ.get(source.value)
        if text is None:
            raise SendError(
                f"environment variable `{source.value}`, named by a TLS option, is not set"
            )
        return text
    return Path(source.value).read_text()


@lru_cache(maxsize=1)
def default_sender() -> HTTPXSender:
    """The sender of environments that bring none of their own: created at the first call, and the
    same for all of them.
    """
    return HTTPXSender()
