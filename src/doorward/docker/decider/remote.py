"""A decision point behind a URL, asked over HTTP: one deadline for everything, no redirects.

Connections are kept and used again. Only a kept connection that ends before the first byte of an
answer is replaced, once, within the same deadline: nothing is ever asked again because an answer
was bad, late or cut off. What is answered is read up to a limit and taken literally.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import time
from collections import deque
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from doorward.base.records import record
from doorward.docker.decider.answer import Answer, PdpError
from doorward.rego import UNDEFINED, Value, from_json, to_json
from doorward.transport.unix_sockets import MAX_SOCKET_PATH

__all__ = ["RemotePdp", "UrlError", "accepts_writes", "check_url"]

DEADLINE: Final = 3.0
MAX_ANSWER: Final = 1 << 20
MAX_IDLE: Final = 64
_UNIX: Final = "http+unix://"
_NO_URL: Final = (
    "not a URL of the form http[s]://HOST:PORT/v1/data/PATH "
    "or http+unix://%2FPATH%2FOF%2FSOCKET/v1/data/PATH"
)
_VISIBLE: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"(?:[^.]{1,63}\.)*[^.]{1,63}\.?")
"""A host in ASCII that can be looked up: Python refuses other labels only when it connects."""
_STALE: Final = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


class UrlError(ValueError):
    """The URL of a decision point is malformed, or of a form that is not supported."""


@record
class _Url:
    """The parts of a decision point's URL; `target` is the path with the query."""

    secure: bool
    host: str
    port: int
    target: str
    socket: str = ""
    """The Unix socket in place of host and port."""


def check_url(text: str) -> _Url:
    """Return the parts of an http, https or http+unix URL.

    The host of `http+unix` is the path of a socket with its slashes written `%2F`. Raise UrlError
    for other forms, hosts that no name server could have, passwords, fragments, spaces and
    characters outside of ASCII.
    """
    if not _VISIBLE.fullmatch(text) or "#" in text:
        raise UrlError("must be a URL of visible ASCII characters, without a fragment")
    if text.startswith(_UNIX):
        return _check_unix(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UrlError(_NO_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UrlError(_NO_URL)
    # Everybody may read the command line of a process in `/proc`.
    if "@" in parts.netloc:
        raise UrlError(
            "the URL must not contain a password, which everyone who lists the processes would see"
        )
    if not _HOST.fullmatch(parts.hostname):
        raise UrlError(
            "the URL's host has an empty part between dots, or one of over 63 characters"
        )
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return _Url(secure, parts.hostname, port or (443 if secure else 80), target)


def _check_unix(text: str) -> _Url:
    """Return the parts of an `http+unix://` URL; UrlError for another form, and for a socket whose
    path is too long.
    """
    host, slash, target = text.removeprefix(_UNIX).partition("/")
    path = unquote(host)
    if len(path.encode()) > MAX_SOCKET_PATH:
        raise UrlError(f"the URL's socket has a path of more than {MAX_SOCKET_PATH} bytes")
    if not path.startswith("/") or "\0" in path:
        raise UrlError("must be a URL of the form http+unix://%2FPATH%2FOF%2FSOCKET/v1/data/PATH")
    return _Url(False, "localhost", 80, slash + target or "/", path)


def _trusting_system() -> ssl.SSLContext:
    """Return a client context that trusts the system's authorities, as Go's client does."""
    # Not `create_default_context`: from Python 3.13 on it refuses certificates for what Go accepts.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    return context


def accepts_writes(url: _Url) -> bool:
    """Send an empty JSON Patch, which changes no data, to the server at `url` over TCP, without
    credentials. Return True if the server accepts it, False if it refuses it or gives no answer
    within `DEADLINE` seconds.
    """
    kind = http.client.HTTPSConnection if url.secure else http.client.HTTPConnection
    connection = kind(url.host, url.port, timeout=DEADLINE)
    try:
        headers = {"Content-Type": "application/json-patch+json"}
        connection.request("PATCH", "/v1/data", b"[]", headers)
        return connection.getresponse().status < 300
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class RemotePdp:
    """The decision point at a URL, which the plugin asks over HTTP or a Unix socket. Safe in any
    number of threads.
    """

    def __init__(
        self, url: str, *, deadline: float = DEADLINE, context: ssl.SSLContext | None = None
    ) -> None:
        """Set the decision point at `url`; no connection is made yet. `deadline` limits each
        decision, in seconds. For https, `context` replaces one that trusts the system's
        authorities, and its class of sockets is changed. Raise UrlError for an invalid URL.
        """
        self._url = check_url(url)
        self._deadline = deadline
        self._context = None
        if self._url.secure:
            self._context = context or _trusting_system()
            # A timeout of `settimeout` counts for each read: a byte a second would last for ever.
            self._context.sslsocket_class = _TimedTlsSocket
        self._idle: deque[_Connection] = deque()
        self._address = ""
        """The loopback address that answered first: a name has two, and any user may listen at
        the other one."""

    def decide(self, input: Value) -> Answer:
        """Return the policy server's decision on `input`; its result is UNDEFINED if the answer has
        none.

        Raise PdpError if the server does not answer within the deadline, cannot be reached or
        trusted, or answers with anything but 200 and JSON of at most `MAX_ANSWER` bytes.
        """
        body = b'{"input":' + to_json(input).encode("utf-8", errors="replace") + b"}"
        until = time.monotonic() + self._deadline
        try:
            status, content = self._ask(body, until)
        except TimeoutError:
            raise PdpError("policy server did not answer in time") from None
        except http.client.HTTPException:
            raise PdpError("policy server did not answer with HTTP: check its URL") from None
        except ssl.SSLCertVerificationError as error:
            raise PdpError(
                f"certificate of the policy server is not accepted: {error.verify_message}"
            ) from None
        except ssl.SSLError:
            raise PdpError(
                "policy server and this machine have no TLS version and cipher suite in common"
            ) from None
        except OSError:
            raise PdpError("policy server cannot be reached") from None
        return _read(status, content)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _ask(self, body: bytes, until: float) -> tuple[int, bytes]:
        """Send the request, on an idle connection if one is still open, and return the status and
        body of the response. It is sent again, on a new connection, only if an idle one ends
        without a byte of a response. The first loopback address that answered is stored for later
        connections.

        TimeoutError after `until` (monotonic seconds); OSError or HTTPException if there is no
        connection, or it fails.
        """
        with contextlib.suppress(IndexError):
            idle = self._idle.pop()
            try:
                return self._exchange(idle, body, until)
            except _STALE:
                if idle.has_answered:
                    raise
                # Most likely it was closed while nobody used it.
        connection = _Connection(self._url, self._context, until, self._address)
        answer = self._exchange(connection, body, until)
        if connection.address.startswith("127.") or connection.address == "::1":
            self._address = connection.address
        return answer

    def _exchange(self, connection: _Connection, body: bytes, until: float) -> tuple[int, bytes]:
        """Send the request on a connection and return the status and body of the response. The
        connection becomes idle, for the next request, if it stays open and `MAX_IDLE` are not idle
        yet; otherwise it is closed, also after an error, which passes through: TimeoutError after
        `until` (monotonic seconds), OSError or HTTPException.
        """
        keep = False
        try:
            status, content, keep = connection.ask(self._url.target, body, until)
        finally:
            if keep and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()
        return status, content


class _Connection:
    """A connection to the decision point. Each wait for it ends at the deadline of the request that
    uses it. TimeoutError after `until` (monotonic seconds), or OSError, if it cannot be made.
    """

    def __init__(
        self, url: _Url, context: ssl.SSLContext | None, until: float, address: str
    ) -> None:
        # 127.0.0.1 is what the recipes name; ::1 could be anybody's.
        host = address or ("127.0.0.1" if url.host == "localhost" else url.host)
        if url.socket:
            plain = _connect_unix(url.socket, _remaining(until))
            self.address = ""
        else:
            plain = socket.create_connection((host, url.port), timeout=_remaining(until))
            self.address = str(plain.getpeername()[0])
            # http.client writes head and body apart: Nagle's algorithm would hold the body back
            # until the head is acknowledged.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock: _TimedSocket | _TimedTlsSocket
        try:
            if context is None:
                self._sock = _TimedSocket(fileno=plain.detach())
            else:
                wrapped = context.wrap_socket(plain, server_hostname=url.host)
                assert isinstance(wrapped, _TimedTlsSocket)
                self._sock = wrapped
        except OSError:
            plain.close()
            raise
        self._http = http.client.HTTPConnection(url.host, url.port)
        self._http.sock = self._sock

    def ask(self, target: str, body: bytes, until: float) -> tuple[int, bytes, bool]:
        """Post a body and return the status, at most `MAX_ANSWER` + 1 bytes of the answer, and True
        if the connection can be used again. TimeoutError after `until` (monotonic seconds); OSError
        or HTTPException if the connection fails.
        """
        self._sock.until = until
        self._sock.has_received = False
        self._sock.settimeout(_remaining(until))
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._http.request("POST", target, body, headers)
        response = self._http.getresponse()
        # One byte more tells a large answer from one of just the limit.
        content = response.read(MAX_ANSWER + 1)
        keep = not response.will_close and response.isclosed() and len(content) <= MAX_ANSWER
        return response.status, content, keep

    @property
    def has_answered(self) -> bool:
        """True if a part of an answer to the last question has come."""
        return self._sock.has_received

    def close(self) -> None:
        self._http.close()
        self._sock.close()


def _connect_unix(path: str, timeout: float) -> socket.socket:
    """Return a connected Unix socket with this time limit in seconds; raise OSError, with the
    socket closed, if connecting fails.
    """
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(timeout)
    try:
        plain.connect(path)
    except OSError:
        plain.close()
        raise
    return plain


def _remaining(until: float) -> float:
    """Return the seconds until `until` by `time.monotonic`; TimeoutError if it has passed."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _TimedSocket(socket.socket):
    """A socket that raises TimeoutError at the time `until`, however slowly the bytes of an answer
    come.
    """

    until = 0.0
    has_received = False

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        """Read as the base class does, but wait at most until the deadline `until`; TimeoutError
        after it. Sets `has_received` if a byte comes.
        """
        self.settimeout(_remaining(self.until))
        count = super().recv_into(*args, **kwargs)
        self.has_received |= count > 0
        return count


class _TimedTlsSocket(ssl.SSLSocket):
    """A TLS socket that raises TimeoutError at the time `until`, however slowly the bytes come."""

    until = 0.0
    has_received = False

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        """Read as the base class does, but wait at most until the deadline `until`, if it is not 0.
        TimeoutError after it. Sets `has_received` if a byte comes.
        """
        if self.until:
            self.settimeout(_remaining(self.until))
        count = super().recv_into(*args, **kwargs)
        self.has_received |= count > 0
        return count


def _read(status: int, content: bytes) -> Answer:
    """Return the answer in a response of the policy server: the member `result` of its JSON object,
    or the object itself if that has no `result` but `allow`, else UNDEFINED, since OPA leaves
    `result` out for undefined documents. JSON that is not an object is the result itself.

    Raise PdpError for a status other than 200, a body over `MAX_ANSWER` bytes, invalid JSON and a
    repeated key.
    """
    if 300 <= status < 400:
        raise PdpError(
            "policy server answered with a redirect, which is not followed: check its URL"
        )
    if status != 200:
        raise PdpError(f"policy server answered with status {status}")
    if len(content) > MAX_ANSWER:
        raise PdpError(f"policy server's answer is larger than {MAX_ANSWER} bytes")
    try:
        # Two `result` members would leave it to the parser who decides.
        document = from_json(content, unique_keys=True)
    except ValueError:
        raise PdpError("policy server's answer is not JSON") from None
    if type(document) is not dict:
        return Answer(document)
    decision_id = document.get("decision_id")
    identifier = decision_id if type(decision_id) is str else ""
    if "result" in document:
        return Answer(document["result"], identifier)
    # OPA leaves `result` out when the identifier is undefined.
    return Answer(document if "allow" in document else UNDEFINED, identifier)
