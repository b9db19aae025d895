"""Requests to one service, over httpx: with its headers, credentials and TLS, all of it bounded.

Bounds: the size of a response, the time until it begins (`response_header_timeout_seconds`), the
time between two pieces of it, and the time of the whole exchange. Redirects are followed, without
credentials to another host. Certificates are read again when their files change.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NoReturn

import httpx

from doorward import __version__
from doorward.config.services import ClientTls, Service
from doorward.control.answers import WITHIN, Answer, ServiceError
from doorward.control.credentials import CredentialsError, auth_for
from doorward.http_client.deadlines import finished_by, with_deadlines
from doorward.http_client.decoding import DecodingError, decoded_body

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["ServiceClient"]

BETWEEN: Final = 30.0
"""Seconds in which the next piece of a response must come."""
MAX_REDIRECTS: Final = 10
SLOWEST: Final = 10_000
"""Bytes a second: what is sent more slowly is not sent."""
TOKEN_BYTES: Final = 1 << 20
"""Bytes of a response that brings a token."""
TOKEN_WITHIN: Final = 10.0

_HARMLESS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "if-none-match",
        "prefer",
        "transfer-encoding",
        "user-agent",
    }
)
"""What may be sent to the host that a redirect leads to; any other header may be a credential."""
USER_AGENT: Final = f"Doorward/{__version__}"


class ServiceClient:
    """Sends requests to one service; safe in any number of threads."""

    def __init__(
        self,
        service: Service,
        *,
        transport: httpx.BaseTransport | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`transport`: what requests go over, in place of the network. `tracer`: makes a span of
        each request."""
        self.service = service
        self._tracer = tracer
        self._transport = transport
        self._origin = _origin(httpx.URL(service.url))
        self._auth = auth_for(service, self._fetch)
        self._files = _files_of(service)
        self._seen: tuple[object, ...] = ()
        self._client: httpx.Client | None = None
        self._closed = False

    def close(self) -> None:
        """Close all connections; requests in progress fail."""
        self._closed = True
        if self._client is not None:
            self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        wait: float = 0.0,
        limit: int = 1 << 20,
    ) -> Answer:
        """Send a request for `path` below the service's URL; return the response.

        Raise `ServiceError` if there is none. `wait` adds seconds to the time limit; `limit`
        bounds the body in bytes.
        """
        url = f"{self.service.url}/{path.strip('/')}"
        sent = {"user-agent": USER_AGENT, "accept-encoding": "gzip"}
        sent |= {name.lower(): value for name, value in self.service.headers.items()}
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        if self._tracer is None:
            return self._ask_service(method, url, sent, content, wait, limit)
        with self._tracer.send(method, url) as (span, fields):
            answer = self._ask_service(method, url, sent | fields, content, wait, limit)
            span.note({"http.response.status_code": answer.status})
            if answer.status >= 400:
                span.failed(str(answer.status))
            return answer

    def _ask_service(
        self, method: str, url: str, sent: dict[str, str], content: bytes, wait: float, limit: int
    ) -> Answer:
        """Send a request and read its answer; every failure becomes a `ServiceError`."""
        named = f'{method.capitalize()} "{url}"'
        until = time.monotonic() + WITHIN + wait
        try:
            client = self._current()
            request = client.build_request(method, url, content=content or None)
            # httpx adds these by itself; only the headers of the service are to be sent.
            for name in ("accept", "accept-encoding", "connection", "user-agent"):
                del request.headers[name]
            request.headers.update(sent)
            request.extensions["timeout"] = self._timeout(wait).as_dict()
            return self._exchange(client, request, until, limit, named)
        except CredentialsError as error:
            raise ServiceError(str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RuntimeError) as error:
            _fail(named, error)

    def _exchange(
        self, client: httpx.Client, request: httpx.Request, until: float, limit: int, named: str
    ) -> Answer:
        """Send the request and read the body within the deadline `until` (monotonic seconds)."""
        with finished_by(min(until, self._begins_by(request))):
            response = client.send(request, auth=self._auth, stream=True, follow_redirects=True)
        try:
            with finished_by(until):
                body = _body(response, until, limit, named)
        finally:
            response.close()
        if response.request.method != request.method:
            # A redirect made a GET of it: what was sent has not arrived, whatever that one gets.
            return Answer(response.history[0].status_code, {}, b"")
        names = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, names, body)

    def _begins_by(self, request: httpx.Request) -> float:
        """The monotonic time limit for the response's head; each timeout is granted once."""
        waits = [each or 0.0 for each in request.extensions["timeout"].values()]
        sending = int(request.headers.get("content-length", 0)) / SLOWEST
        return time.monotonic() + sum(waits) + sending

    def _timeout(self, wait: float) -> httpx.Timeout:
        limit = self.service.header_timeout or WITHIN
        return httpx.Timeout(BETWEEN, connect=limit, read=limit + wait, pool=limit)

    def _fetch(self, request: httpx.Request) -> httpx.Response:
        """Send a request for a token, and return the response."""
        request.headers["user-agent"] = USER_AGENT
        request.extensions["timeout"] = httpx.Timeout(TOKEN_WITHIN).as_dict()
        named = f'{request.method.capitalize()} "{request.url.copy_with(query=None)}"'
        # Tokens come from others than the service: no certificate of ours, no authority of its.
        verify = not self.service.allow_insecure_tls
        try:
            until = time.monotonic() + TOKEN_WITHIN
            with (
                with_deadlines(httpx.Client(verify=verify, transport=self._transport)) as client,
                finished_by(until),
            ):
                response = client.send(request, stream=True)
                try:
                    body = _body(response, until, TOKEN_BYTES, named)
                finally:
                    response.close()
                return httpx.Response(response.status_code, content=body, request=request)
        except ServiceError as error:
            raise CredentialsError(str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise CredentialsError(f"{named}: {_reason(error)}") from None

    def _current(self) -> httpx.Client:
        """The HTTP client; it is replaced if its certificate files have changed."""
        seen = tuple(map(_signature, self._files))
        if self._client is None or seen != self._seen:
            if self._closed:
                raise ServiceError("shutting down")
            older, self._client = self._client, self._connect()
            self._seen = seen
            if older is not None:
                older.close()
        return self._client

    def _connect(self) -> httpx.Client:
        """Create the HTTP client of the service, with its TLS, limits and deadlines."""
        client = httpx.Client(
            verify=True if self._transport is not None else _tls(self.service),
            transport=self._transport,
            max_redirects=MAX_REDIRECTS,
            # Each task has one request at most, and a long poll holds its connection.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            event_hooks={"request": [self._confine]},
        )
        return with_deadlines(client)

    def _confine(self, request: httpx.Request) -> None:
        """Remove the service's headers from a request that is redirected to another host."""
        if _origin(request.url) != self._origin:
            for name in set(request.headers) - _HARMLESS:
                del request.headers[name]


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _body(response: httpx.Response, until: float, limit: int, named: str) -> bytes:
    """Read and decompress the body; raise `ServiceError` beyond `limit` bytes or after `until`."""
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decoded_body(response):
            size += len(piece)
            if size > limit:
                raise ServiceError(f"{named}: response is larger than {limit} bytes")
            if time.monotonic() > until:
                raise ServiceError(f"{named}: response took longer than {WITHIN:g} seconds")
            pieces.append(piece)
    except DecodingError as error:
        raise ServiceError(f"{named}: {error}") from None
    return b"".join(pieces)


def _fail(named: str, error: Exception) -> NoReturn:
    raise ServiceError(f"{named}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The text of an error, in the words of Go's HTTP client where it has them."""
    if isinstance(error, httpx.ReadTimeout):
        return "net/http: timeout awaiting response headers"
    if isinstance(error, httpx.RemoteProtocolError) and "without sending" in str(error):
        return "unexpected EOF" if "complete message" in str(error) else "EOF"
    text = str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _files_of(service: Service) -> tuple[str, ...]:
    """The files with certificates and keys of a service; if one changes, clients reconnect."""
    files = [service.ca_certificate]
    if isinstance(service.credentials, ClientTls):
        files += [service.credentials.certificate, service.credentials.private_key]
    return tuple(filter(None, files))


def _signature(path: str) -> object:
    """A value that changes whenever the file does; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _tls(service: Service) -> ssl.SSLContext:
    """The TLS context of a service; raise `ServiceError` if its certificates cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authority = service.ca_certificate
    if not authority or service.system_ca_required:
        context.load_default_certs()
    try:
        if authority:
            context.load_verify_locations(authority)
        if isinstance(tls := service.credentials, ClientTls):
            # Without a passphrase OpenSSL would ask at the terminal.
            context.load_cert_chain(tls.certificate, tls.private_key, tls.passphrase or "")
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            raise ServiceError(f"the certificates of `{service.name}` cannot be used") from None
        path = error.filename or authority or "a certificate"
        raise ServiceError(f"open {path}: {(error.strerror or 'failed').lower()}") from None
    if service.allow_insecure_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
