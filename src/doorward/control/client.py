"""Requests to one service, over httpx: with its headers, credentials and TLS, all of it bounded.

Bounds: the size of a response, the time until it begins (`response_header_timeout_seconds`), the
time between two pieces of it, and the time of the whole exchange. Redirects are followed, without
credentials to another host. Certificates are read again when their files change.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

import httpx

from doorward import __version__
from doorward.base.os_errors import describe_os_error
from doorward.config.services import ClientTls, Service
from doorward.control.answers import WITHIN, Answer, ServiceError
from doorward.control.credentials import CredentialsError, auth_for
from doorward.control.fetching import origin_of
from doorward.http_client.deadlines import finished_by, with_deadlines
from doorward.http_client.decoding import DecodingError, decoded_body
from doorward.http_client.errors import describe_failure, describe_request

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["ServiceClient"]

BETWEEN: Final = 30.0
"""The seconds within which the next piece of a response must arrive."""
MAX_REDIRECTS: Final = 10
"""The most redirects of one request; more fail it."""
SLOWEST: Final = 10_000
"""The bytes per second at which the content of a request must be sent at least."""
TOKEN_BYTES: Final = 1 << 20
"""The most bytes of a response with a token."""
TOKEN_WITHIN: Final = 10.0
"""The seconds within which a token must arrive."""

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
"""The headers that are kept when a redirect leads to another host; any other may be a credential.
"""
USER_AGENT: Final = f"Doorward/{__version__}"


class ServiceClient:
    """Sends requests to one service over HTTP; thread-safe. Connections are made at first use."""

    def __init__(
        self,
        service: Service,
        *,
        transport: httpx.BaseTransport | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """Prepare requests to a service; nothing is connected yet. `transport`: in place of the
        network, for tests. `tracer`: makes a span of each request; None: no tracing.
        """
        self.service = service
        self._tracer = tracer
        self._transport = transport
        self._origin = origin_of(httpx.URL(service.url))
        self._auth = auth_for(service, self._fetch)
        self._files = _files_of(service)
        self._lock = threading.Lock()
        """Held while `_current` is replaced, and while users of connections are counted."""
        self._current: _Connections | None = None
        self._open: set[_Connections] = set()
        """`_current`, and those that it replaced and that requests in progress still use."""
        self._closed = False

    def close(self) -> None:
        """Close all connections; requests in progress, and later ones, fail with ServiceError."""
        with self._lock:
            self._closed = True
            connections, self._open = self._open, set()
        for each in connections:
            each.client.close()

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
        """Send a request for `path` below the service's URL and return the response, whatever its
        status. If a redirect turned the request into a GET, return only the status of the redirect,
        without headers and body. ServiceError if no response comes within `WITHIN + wait` seconds,
        its body is larger than `limit` bytes, or there are no credentials.
        """
        url = f"{self.service.url}/{path.strip('/')}"
        sent = {"user-agent": USER_AGENT, "accept-encoding": "gzip"}
        # Without blanks around values, which Go's client removes and ours refuses.
        sent |= {name.lower(): value.strip(" \t") for name, value in self.service.headers.items()}
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
        """Send a request and read its response; every failure becomes a ServiceError in the form of
        Go's, `Get "URL": reason`. `wait` adds seconds to the time for all of it; `limit` is the
        largest body in bytes.
        """
        # Without the query, which may be a signature, as of a shared URL of Azure.
        named = describe_request(method, url.partition("?")[0])
        until = time.monotonic() + WITHIN + wait
        try:
            with self._connected() as client:
                request = client.build_request(method, url, content=content or None)
                # httpx adds these by itself; only the headers of the service are to be sent.
                for name in ("accept", "accept-encoding", "connection", "user-agent"):
                    del request.headers[name]
                request.headers.update(sent)
                request.extensions["timeout"] = self._timeout(wait).as_dict()
                return self._exchange(client, request, until, limit, named)
        except CredentialsError as error:
            raise ServiceError(str(error)) from None
        # httpx raises RuntimeError if `close` is called meanwhile.
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RuntimeError) as error:
            _fail(named, error)

    def _exchange(
        self, client: httpx.Client, request: httpx.Request, until: float, limit: int, named: str
    ) -> Answer:
        """Send the request and read the response up to the deadline `until` (monotonic seconds). If
        a redirect turned the request into a GET, return the status of the redirect: the service has
        not received the content. `limit` is the largest body in bytes; `named` is the request in
        error messages.

        Raise ServiceError if the body is too large, late or cannot be decompressed; other failures
        are httpx.HTTPError or OSError.
        """
        with finished_by(min(until, self._begins_by(request))):
            # Streamed, so that the size and the time of the body can be bounded here.
            response = client.send(request, auth=self._auth, stream=True, follow_redirects=True)
        try:
            with finished_by(until):
                body = _read_body(response, until, limit, named)
        finally:
            response.close()
        if response.request.method != request.method:
            # A redirect made a GET of it: what was sent has not arrived, whatever that one gets.
            return Answer(response.history[0].status_code, {}, b"")
        names = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, names, body)

    def _begins_by(self, request: httpx.Request) -> float:
        """Return the time limit, in monotonic seconds, for the head of the response: the sum of the
        timeouts, and the time to send the content at `SLOWEST`.
        """
        waits = [each or 0.0 for each in request.extensions["timeout"].values()]
        sending = int(request.headers.get("content-length", 0)) / SLOWEST
        return time.monotonic() + sum(waits) + sending

    def _timeout(self, wait: float) -> httpx.Timeout:
        """The timeouts of the phases of a request, in seconds."""
        limit = self.service.header_timeout or WITHIN
        return httpx.Timeout(BETWEEN, connect=limit, read=limit + wait, pool=limit)

    def _fetch(self, request: httpx.Request) -> httpx.Response:
        """Send a request for a token, to another host than the service, and return the response.
        Sets the user agent and the timeout of `request`. CredentialsError if no complete response
        of at most `TOKEN_BYTES` comes within `TOKEN_WITHIN` seconds.
        """
        request.headers["user-agent"] = USER_AGENT
        request.extensions["timeout"] = httpx.Timeout(TOKEN_WITHIN).as_dict()
        named = describe_request(request.method, str(request.url.copy_with(query=None)))
        try:
            until = time.monotonic() + TOKEN_WITHIN
            verify = True if self._transport is not None else self._token_tls(request.url)
            with (
                with_deadlines(httpx.Client(verify=verify, transport=self._transport)) as client,
                finished_by(until),
            ):
                # No redirects, which httpx does not follow by itself: the request may hold a secret
                # in its body.
                response = client.send(request, stream=True)
                try:
                    body = _read_body(response, until, TOKEN_BYTES, named)
                finally:
                    response.close()
                return httpx.Response(response.status_code, content=body, request=request)
        except ServiceError as error:
            raise CredentialsError(str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise CredentialsError(f"{named}: {_reason(error)}") from None

    def _token_tls(self, url: httpx.URL) -> ssl.SSLContext:
        """Return the TLS context for the server of a token. Others than the service get no
        certificate of ours, and its authorities count only for the token service of a registry.
        ServiceError if the certificates cannot be used.
        """
        service = self.service
        if origin_of(url) != self._origin:
            service = replace(service, credentials=None)
            if not service.is_registry:
                service = replace(service, ca_certificate="")
        return _tls(service)

    @contextmanager
    def _connected(self) -> Iterator[httpx.Client]:
        """Context manager of the HTTP client for one request. The client is created at first use,
        and again when the files of its certificates have changed; the one before is closed when its
        last request has ended. ServiceError after `close`, or if the certificates cannot be used.
        """
        with self._lock:
            if self._closed:
                raise ServiceError("shutting down")
            # Before they are read: a change in between is seen by the next request.
            files = tuple(map(_signature, self._files))
            before, current = self._current, self._current
            if current is None or current.files != files:
                self._current = current = _Connections(self._connect(), files)
                self._open.add(current)
            current.users += 1
        if before is not None and before is not current:
            self._release(before)
        try:
            yield current.client
        finally:
            self._release(current)

    def _release(self, connections: _Connections) -> None:
        """Count one user less, and close the connections after the last one."""
        with self._lock:
            connections.users -= 1
            is_unused = not connections.users
            if is_unused:
                self._open.discard(connections)
        if is_unused:
            connections.client.close()

    def _connect(self) -> httpx.Client:
        """Create the HTTP client of the service, with its TLS settings, limits and deadlines.
        ServiceError if its certificates cannot be used.
        """
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
        """Remove all headers that may be credentials from a request to another origin than the
        service's, that is, after a redirect.
        """
        if origin_of(request.url) != self._origin:
            for name in set(request.headers) - _HARMLESS:
                del request.headers[name]


class _Connections:
    """An HTTP client and its connections, which were made with certificates in this state."""

    def __init__(self, client: httpx.Client, files: tuple[object, ...]) -> None:
        self.client = client
        self.files = files
        """The signature of each certificate's file."""
        self.users = 1
        """The requests in progress, and one more until other connections replace these."""


def _read_body(response: httpx.Response, until: float, limit: int, named: str) -> bytes:
    """Read and decompress the body of a response; ServiceError if it is larger than `limit` bytes,
    takes longer than `until` (monotonic seconds), or cannot be decompressed. `named` is the request
    in error messages.
    """
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
    """Raise ServiceError with the request as `named` and the reason."""
    raise ServiceError(f"{named}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return the text of an error, in the words of Go's HTTP client for those that it has, too."""
    if isinstance(error, httpx.ReadTimeout):
        return "net/http: timeout awaiting response headers"
    if isinstance(error, httpx.RemoteProtocolError) and "without sending" in str(error):
        return "unexpected EOF" if "complete message" in str(error) else "EOF"
    return describe_failure(error)


def _files_of(service: Service) -> tuple[str, ...]:
    """Return the paths of the service's certificates and keys; if a file changes, the client
    connects again.
    """
    files = [service.ca_certificate]
    if isinstance(service.credentials, ClientTls):
        files += [service.credentials.certificate, service.credentials.private_key]
    return tuple(filter(None, files))


def _signature(path: str) -> object:
    """Return a value that changes whenever the file does; None if it cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _tls(service: Service) -> ssl.SSLContext:
    """Return the TLS context (TLS 1.2 or newer) for a service. Its `ca_cert` replaces the system's
    authorities, unless `system_ca_required`; its client certificate is presented if it has one;
    with `allow_insecure_tls` nothing is verified. ServiceError if a file cannot be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As Go's client does by default.
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
        raise ServiceError(f"service `{service.name}`: {_fault_of_files(service, error)}") from None
    if service.allow_insecure_tls:
        # In this order: Python refuses CERT_NONE while names are checked.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _fault_of_files(service: Service, error: OSError) -> str:
    """Return what is wrong with the TLS files of a service. OpenSSL's errors do not name the file,
    so each is opened again.
    """
    files = [service.ca_certificate]
    if isinstance(tls := service.credentials, ClientTls):
        files += [tls.certificate, tls.private_key]
    for path in filter(None, files):
        try:
            with open(path, "rb"):
                pass
        except OSError as fault:
            return f"open {path}: {describe_os_error(fault)}"
    if isinstance(error, ssl.SSLError):
        return (
            "a CA certificate, or the client certificate and its key, is not valid PEM, or they "
            "do not belong together"
        )
    return describe_os_error(error)
