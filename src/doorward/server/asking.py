"""A process that sends requests to services for a parent of workers, which forks and so has no
threads.

    parent ── Ask (pickled) ──▶ process: a thread for each request, httpx, credentials, TLS
           ◀─ head, body ──────

Each message is a file in memory whose descriptor is sent, so a bundle of any size is copied once.
The process knows no policies: the parent verifies and reads the responses. If it dies, its requests
fail, and the next request starts another process.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import EMFILE
from socket import AF_UNIX, SHUT_RDWR, SOCK_SEQPACKET, recv_fds, send_fds, socketpair
from socket import socket as Socket
from typing import TYPE_CHECKING, Any, Final, NoReturn

from doorward.base.records import record
from doorward.control.answers import Answer, ServiceError
from doorward.control.registry import RegistryError
from doorward.control.rounds import FAILURES, Ask
from doorward.edge import FAULTS, Edge
from doorward.transport.workers import run_child

if TYPE_CHECKING:
    from doorward.config.services import Service
    from doorward.control.client import ServiceClient

__all__ = ["AskingProcess", "RemoteClient"]

MOST: Final = 256
"""The largest number of requests at the same time; others are queued."""
_HEAD: Final = struct.Struct(">I")
_EDGE: Final = Edge("asking", "asking a service failed")


@record
class RemoteClient:
    """Names a service for which the asking process sends the requests. Stands for a `ServiceClient`
    in the parent, and cannot send.
    """

    service: Service

    def request(self, method: str, path: str, **_more: Any) -> NoReturn:
        """Raise AssertionError: the other process sends requests."""
        raise AssertionError(
            f"{method} {path}: the parent process does not send requests to services"
        )

    def close(self) -> None:
        """Do nothing: the process closes its clients itself."""


class AskingProcess:
    """The process that sends requests to services for the parent of the workers, as the parent sees
    it. Not thread-safe.
    """

    def __init__(self, prepare: Callable[[], object] = lambda: None) -> None:
        """Create it without a process; `prepare` is called first in each new one, to close
        descriptors of the parent.
        """
        self._prepare = prepare
        self._end: Socket | None = None
        self._pid = 0
        self._killed: list[int] = []
        """The pids of processes that were killed and have not been reaped."""
        self._asked: set[int] = set()

    @property
    def descriptor(self) -> int | None:
        """A descriptor that is readable when an answer has arrived or the process has ended; None
        while there is no process.
        """
        return None if self._end is None else self._end.fileno()

    def start(self) -> None:
        """Fork the process unless it runs. An early start keeps it small, as it shares the memory
        of the parent.
        """
        if self._end is not None:
            return
        self._reap()
        # SEQPACKET keeps messages apart: each is one byte with one descriptor.
        ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            ours.close()
            self._prepare()
            run_child(lambda: _serve(theirs))
        theirs.close()
        # The parent has one thread: it polls, and must never block in `receive`.
        ours.setblocking(False)
        self._end, self._pid = ours, pid

    def send(self, number: int, ask: Ask) -> None:
        """Send a request under a number, starting the process if needed; `receive` returns the
        outcome.

        Raise `ServiceError` if it cannot be sent, as when the process has ended.
        """
        try:
            self.start()
            assert self._end is not None
            _send(self._end, pickle.dumps((number, ask)))
        except OSError:
            text = "the process that sends requests to services does not answer"
            raise ServiceError(text) from None
        self._asked.add(number)

    def receive(self) -> Iterator[tuple[int, Answer | Exception]]:
        """Yield pairs of number and outcome for the requests that have ended: an answer, or the
        error. Does not wait. If the process has ended or a message cannot be received, the process
        is killed, and every open request yields a ServiceError.
        """
        self._reap()
        while self._end is not None:
            try:
                message = _receive(self._end)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                break
            number, outcome = _outcome(message)
            self._asked.discard(number)
            yield number, outcome
        self._kill()
        gone, self._asked = self._asked, set()
        for number in sorted(gone):
            yield (
                number,
                ServiceError(
                    "the process that sends requests to services ended: the next request starts it "
                    "again"
                ),
            )

    def close_inherited(self) -> None:
        """Close this object's descriptors in another child of the parent; the process continues."""
        if self._end is not None:
            self._end.close()

    def close(self) -> None:
        """Kill the process; its open requests get no outcome."""
        self._kill()

    def _kill(self) -> None:
        """Close the connection to the process, and kill it if it still runs."""
        if self._end is not None:
            self._end.close()
            self._end = None
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._killed.append(self._pid)
            self._reap()

    def _reap(self) -> None:
        """Reap the killed processes that have ended. Does not wait for one that has not: the kernel
        may hold it for as long as a disk or a network does not answer. The next call of `receive`
        reaps it.
        """
        self._killed = [pid for pid in self._killed if not os.waitpid(pid, os.WNOHANG)[0]]


def _send(end: Socket, content: bytes, more: bytes = b"") -> None:
    """Send a message, the bytes of `content` and `more`, over a Unix socket: as the descriptor of a
    file in memory that has them.
    """
    descriptor = os.memfd_create("doorward-message", os.MFD_CLOEXEC)
    try:
        for part in (content, more):
            view = memoryview(part)
            while view:
                view = view[os.write(descriptor, view) :]
        send_fds(end, [b"."], [descriptor])
    finally:
        os.close(descriptor)


def _receive(end: Socket) -> bytes:
    """Receive a message and return its bytes; b"" when the other side has closed. BlockingIOError
    if nothing is there and the socket does not block; OSError if it cannot be received.
    """
    received, descriptors, _, _ = recv_fds(end, 1, 1)
    if not received:
        return b""
    if not descriptors:  # there are too many already: the message is lost
        raise OSError(EMFILE, os.strerror(EMFILE))
    (descriptor,) = descriptors
    try:
        size = os.fstat(descriptor).st_size
        pieces: list[bytes] = []
        at = 0
        # `pread`: the offset of the descriptor is where the sender's writes ended.
        while at < size and (piece := os.pread(descriptor, size - at, at)):
            pieces.append(piece)
            at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(descriptor)


def _outcome(message: bytes) -> tuple[int, Answer | Exception]:
    """Return the number of a request, and its answer or the error that it ended with."""
    (length,) = _HEAD.unpack_from(message)
    head = json.loads(message[_HEAD.size : _HEAD.size + length])
    number = int(head["number"])
    if "error" not in head:
        body = message[_HEAD.size + length :]
        return number, Answer(head["status"], head["headers"], body)
    if head["is_registry"]:
        return number, RegistryError(head["error"], head["status"])
    return number, ServiceError(head["error"])


# In the process


def _serve(end: Socket) -> int:
    """Send requests to services in the process, at most `MOST` at a time, until the parent closes
    its end; return the exit code 0. SIGTERM is ignored, besides the signals of `run_child`: the
    parent decides when the process ends.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asking, sending = _Clients(), threading.Lock()
    threads = ThreadPoolExecutor(MOST, thread_name_prefix="asking")
    while message := _receive(end):
        # Only the parent has the other end of the socket.
        number, ask = pickle.loads(message)
        threads.submit(_answer, asking, end, sending, number, ask)
    return 0


class _Clients:
    """The client of each service, with its present configuration. Safe in any number of threads."""

    def __init__(self) -> None:
        # It brings httpx, which the parent has no need of.
        from doorward.control.client import ServiceClient

        self._made = ServiceClient
        self._lock = threading.Lock()
        self._clients: dict[str, ServiceClient] = {}

    def of(self, service: Service) -> ServiceClient:
        """Return the client of a service; if its configuration has changed, a new one, and the old
        one is closed.
        """
        with self._lock:
            known = self._clients.get(service.name)
            if known is not None and known.service == service:
                return known
            client = self._clients[service.name] = self._made(service)
        if known is not None:
            known.close()
        return client


def _answer(clients: _Clients, end: Socket, sending: threading.Lock, number: int, ask: Ask) -> None:
    """Send a request to a service, and its response or error back to the parent. Nothing is raised.
    If it cannot be sent back, the connection to the parent is closed: then its requests fail, and
    it starts another process.
    """
    head: dict[str, Any] = {"number": number}
    body = b""
    try:
        answer = ask.answer(clients.of(ask.client.service))
        head |= {"status": answer.status, "headers": dict(answer.headers)}
        body = answer.body
    except FAILURES as error:
        is_registry = isinstance(error, RegistryError)
        status = error.status if isinstance(error, RegistryError) else None
        head |= {"error": str(error), "is_registry": is_registry, "status": status}
    except FAULTS as fault:
        head |= {"error": _EDGE.report(fault), "is_registry": False}
    # INVARIANT: not pickled, unlike the request. This process reads what services send, and what is
    # unpickled may run code.
    text = json.dumps(head).encode()
    try:
        with sending:
            _send(end, _HEAD.pack(len(text)) + text, body)
    except OSError:
        # The parent is gone, or this process has too many files or too little memory: it would
        # wait for this outcome for ever.
        with suppress(OSError):
            end.shutdown(SHUT_RDWR)
