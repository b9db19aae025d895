"""The socket that the daemon calls: HTTP/1.1, one call a connection, as many at once as threads.

Threads wait in `accept` for the next connection and handle it whole, so nothing is handed from one
thread to another. Every answer closes its connection: a daemon that meets a kept connection which
is just being closed repeats its call without the body. A call has a limit in size and time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import httptools

from doorward.docker.plugin import Response
from doorward.edge import FAULTS, Edge, repeat
from doorward.pdp import unix_sockets
from doorward.pdp.quiet import Quiet
from doorward.pdp.unix_sockets import PathTakenError

__all__ = [
    "BACKLOG",
    "CLOSING",
    "LISTEN_FD",
    "BindError",
    "PluginServer",
    "bind_tcp",
    "bind_unix",
    "inherited",
    "tls_context",
]

THREADS: Final = 256
BACKLOG: Final = 1024
READ_TIMEOUT: Final = 10.0
"""Seconds in which a call must have been read; the decision has a deadline of its own."""
MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 8 << 20
"""Twice what a daemon sends: 1 MiB of body in base64, its headers, and those of the answer."""
ACCEPT_QUIET: Final = 10.0
"""Seconds between two lines in the log about calls that could not be accepted."""
CLOSING: Final = ".closing"
"""What the name of a socket gets at its end while calls on it are answered."""
LISTEN_FD: Final = "DOORWARD_LISTEN_FD"
"""The variable with the descriptor of the socket that our watchdog listens on."""
STUCK_AFTER: Final = 120.0
"""Seconds in which one of many calls must have ended: twice the longest time for a decision."""
_FIRST_INHERITED: Final = 3

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("docker-call", "a call failed: denied")
_WORKER: Final = Edge("docker-worker", "waiting for calls failed")


class BindError(Exception):
    """A place that cannot be listened on; the message says which and why."""


def bind_unix(path: str, *, mode: int = 0o600) -> socket.socket:
    """A listening socket at `path`, readable by its owner only from the moment that it exists.

    A socket that nobody listens on any more is replaced; one that answers, or a file, is not.
    """
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
        unix_sockets.clear_stale(path + CLOSING)
        return unix_sockets.bind_unix(path, mode=mode, backlog=BACKLOG)
    except PathTakenError as error:
        raise BindError(f"{path}: {error}") from None
    except OSError as error:
        raise BindError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def bind_tcp(address: str) -> socket.socket:
    """A listening socket at `host:port`."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise BindError(f"{address}: expected HOST:PORT")
    try:
        return socket.create_server((host.strip("[]"), int(port)), backlog=BACKLOG)
    except OSError as error:
        raise BindError(f"{address}: {(error.strerror or str(error)).lower()}") from None


def tls_context(*, certificate: str, key: str, authority: str) -> ssl.SSLContext:
    """TLS for clients whom `authority` certifies, and no others."""
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise BindError(f"{certificate}: {(error.strerror or str(error)).lower()}") from None
    return context


def inherited() -> socket.socket | None:
    """The socket that the service manager, or our watchdog, listens on for us, if there is one."""
    if LISTEN_FD in os.environ:
        return socket.socket(fileno=int(os.environ[LISTEN_FD]))
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if os.environ.get("LISTEN_FDS") != "1":
        raise BindError("expected one socket from the service manager")
    return socket.socket(fileno=_FIRST_INHERITED)


class PluginServer:
    """Serves one listening socket with `answer`. `start`, then `close` to drain and end."""

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[str, bytes], Response],
        *,
        context: ssl.SSLContext | None = None,
        threads: int = THREADS,
        unlink: bool = True,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._context = context
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._quiet = Quiet(ACCEPT_QUIET)
        self._waiting = 0
        self._last_end = time.monotonic()
        self._threads = [
            threading.Thread(
                target=repeat,
                args=(self._serve_next, _WORKER),
                kwargs={"stop": self._stop},
                name=f"plugin-{n}",
                daemon=True,
            )
            for n in range(threads)
        ]
        name = listener.getsockname()
        self._file = (name, os.stat(name).st_ino) if unlink and isinstance(name, str) else None

    def start(self) -> None:
        self._listener.settimeout(None)
        for thread in self._threads:
            thread.start()

    @property
    def is_stuck(self) -> bool:
        """Whether all threads have a call, and for so long that none of these will end."""
        return not self._waiting and time.monotonic() - self._last_end > STUCK_AFTER

    def close(self, grace: float = 10.0) -> None:
        """Take no more calls, and let those under way end within `grace` seconds.

        The name goes first, so that the daemon waits for a successor instead of calling us.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):
                if os.stat(self._file[0]).st_ino == self._file[1]:
                    address = self._file[0] + CLOSING
                    os.rename(self._file[0], address)
                    self._wake(address, grace)
                    os.unlink(address)
                    self._listener.close()
                    return
        self.drain(grace)
        self._listener.close()

    def drain(self, grace: float = 10.0) -> None:
        """Take no more calls, and let those under way end; the socket goes on listening."""
        address = self._listener.getsockname()
        if isinstance(address, str) and os.path.exists(address + CLOSING):
            address += CLOSING  # our watchdog is ending too, and has taken the name away
        self._wake(address, grace)

    def _wake(self, address: object, grace: float) -> None:
        # Threads that wait in `accept` wake for a connection each, and end: closing the socket
        # under them would leave them there, and shutting it down would end the service manager's.
        with self._lock:
            self._stop.set()
            waiting = self._waiting
        until = time.monotonic() + grace
        for _ in range(waiting):
            self._wake_acceptors(address, until)
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
        self._serve_rest()

    def _wake_acceptors(self, address: object, until: float) -> None:
        while time.monotonic() < until:
            with socket.socket(self._listener.family, socket.SOCK_STREAM) as knock:
                knock.settimeout(1.0)
                try:
                    knock.connect(address)  # type: ignore[arg-type]  # what getsockname gave
                    return
                except BlockingIOError:
                    time.sleep(0.002)  # the queue is full: threads are taking from it
                except OSError:
                    return

    def _serve_rest(self) -> None:
        """Answer what came in meanwhile; knocks that nobody needed any more are nothing."""
        self._listener.setblocking(False)
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setblocking(True)
            self._serve(connection)

    def _serve_next(self) -> bool:
        """Wait for a connection and serve it; False at the end."""
        if not self._waits():
            return False
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if (more := self._quiet.suppressed("accept")) is not None:
                _log.error("accept failed", extra={"error": error.strerror, "more": more})
            self._stop.wait(0.1)  # out of descriptors: others are about to end
            return True
        finally:
            with self._lock:
                self._waiting -= 1
        self._serve(connection)
        self._last_end = time.monotonic()
        return True

    def _waits(self) -> bool:
        """Count this thread among those that wait, unless there is nothing to wait for."""
        with self._lock:
            if self._stop.is_set():
                return False
            self._waiting += 1
            return True

    def _serve(self, connection: socket.socket) -> None:
        """Answer the call on a connection, and close it. Without an answer the daemon denies."""
        try:
            self._exchange(connection)
        except OSError:
            return  # the other side has gone, or is too slow
        except FAULTS as fault:
            _EDGE.report(fault)

    def _exchange(self, connection: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            connection.settimeout(READ_TIMEOUT)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
                stack.enter_context(connection)
            call = _read(connection)
            if call is None:
                return
            connection.settimeout(READ_TIMEOUT)
            connection.sendall(_written(self._reply(call)))

    def _reply(self, call: _Call) -> Response:
        if call.problem:
            return Response(call.problem, b'{"Err":"the call cannot be read"}')
        if call.method != b"POST":
            return Response(405, b'{"Err":"only POST is answered"}')
        try:
            return self._answer(call.path, bytes(call.body))
        except FAULTS as fault:
            _EDGE.report(fault)
            return Response(500, b'{"Err":"internal error"}')


class _Call:
    """One request as the parser meets it."""

    def __init__(self) -> None:
        self.path = ""
        self.body = bytearray()
        self.method = b""
        self.problem = 0
        self.done = False

    def on_url(self, url: bytes) -> None:
        self.path += url.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.done = True


def _read(connection: socket.socket) -> _Call | None:
    """The call on a connection; None where the other side has gone without one."""
    call = _Call()
    parser = httptools.HttpRequestParser(call)
    size = 0
    until = time.monotonic() + READ_TIMEOUT
    while not call.done:
        if size:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        data = connection.recv(65536)
        if not data:
            return None if not size else _broken(call, HTTPStatus.BAD_REQUEST)
        size += len(data)
        if size > MAX_HEAD + MAX_BODY or size - len(call.body) > MAX_HEAD + len(data):
            return _broken(call, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return _broken(call, HTTPStatus.BAD_REQUEST)
    call.method = parser.get_method()
    return call


def _broken(call: _Call, status: int) -> _Call:
    call.problem = int(status)
    return call


def _written(response: Response) -> bytes:
    phrase = HTTPStatus(response.status).phrase
    head = (
        f"HTTP/1.1 {response.status} {phrase}\r\n"
        "Content-Type: application/vnd.docker.plugins.v1.2+json\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + response.body
