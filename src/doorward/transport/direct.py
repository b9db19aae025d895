"""Connections of few requests each, without the loop's own transports.

Where a call is a connection of its own, accepting and closing cost more than answering: the
transport of asyncio takes 66 microseconds of CPU for both, uvloop's 17, this one 15, on either
loop. It reads when it accepts, since the request is there mostly, and writes at once. Nor does it
call `listen`, by which the kernel would name this process as the one that listens, although another
one watches over the socket. A kept connection can be closed without losing a request (`retire`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

from doorward.edge import FAULTS, Edge

__all__ = ["DirectListener", "DirectTransport"]

_EDGE: Final = Edge("accept", "a connection could not be taken")

READ: Final = 1 << 16
"""The largest number of bytes in one read."""
PAUSE: Final = 0.1
"""Seconds without accepting after a failure: without free descriptors it fails until connections
end."""
MOST_WAITING: Final = 1 << 16
"""The largest number of queued connections accepted at the end of a server: no kernel's queue is
longer."""


class DirectListener:
    """A listening socket whose connections get protocols from `accept`, until it is closed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        accept: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """Begin to accept from `listener`, which listens already; `accept` makes the protocol of a
        connection.
        """
        listener.setblocking(False)
        self._loop = loop
        self._listener = listener
        self._make_protocol = accept
        self._start()

    def _start(self) -> None:
        if self._listener.fileno() != -1:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def accept_rest(self) -> None:
        """Accept all connections that wait in the queue of the kernel, at most `MOST_WAITING`."""
        for _ in range(MOST_WAITING):
            if not self._accept():
                return

    def close(self) -> None:
        """Stop accepting connections and close the socket; a second call does nothing."""
        if self._listener.fileno() != -1:
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()

    def _accept(self) -> bool:
        """Accept one connection and begin it; return False if none waits or accepting failed.

        After a failure (no descriptors left) the loop is told, and accepting pauses for `PAUSE`
        seconds.
        """
        try:
            end, _ = self._listener.accept()
        # With several processes on one socket, another one may have taken the connection.
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as error:
            context = {"message": "accept failed", "exception": error}
            self._loop.call_exception_handler(context)
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(PAUSE, self._start)
            return False
        try:
            # On Linux an accepted socket does not inherit this from the listener (accept(2)).
            end.setblocking(False)
            DirectTransport(self._loop, end, self._make_protocol()).begin()
        except FAULTS as fault:
            _EDGE.report(fault)
            end.close()
        return True


class DirectTransport(asyncio.Transport):
    """asyncio's transport of a connected socket that reads and writes at once, without buffers of
    the loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, end: socket.socket, protocol: asyncio.BaseProtocol
    ) -> None:
        """Take over `end`, a connected, non-blocking socket, for `protocol`; `begin` reports it."""
        super().__init__()
        self._loop = loop
        self._end = end
        self._fd = end.fileno()
        self._protocol: Any = protocol
        self._unsent = bytearray()
        self._most_unsent = READ
        self.is_retired = False
        """True after `retire` ended reading."""
        self._wants_reading = True
        self._is_reading = False
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False
        self._ends_writing = False

    def begin(self) -> None:
        """Report the connection to its protocol, and read at once unless the protocol closes it."""
        # Reads without waiting for the loop: the client of a short connection has written already.
        self._protocol.connection_made(self)
        if not self._is_closing:
            self._read()

    # Reading

    def _read(self) -> None:
        """Read once and pass the bytes to the protocol.

        At the end of file the connection closes unless the protocol wants to keep it. Nothing to
        read leaves it as it is; any failure loses the connection.
        """
        try:
            data = self._end.recv(READ)
        except BlockingIOError:
            self._watch()
            return
        except OSError as error:
            self._lose(error)
            return
        if data:
            self._protocol.data_received(data)
        # asyncio's contract: a true result keeps the sending side open.
        elif not self._protocol.eof_received():
            self.close()
        else:
            self._wants_reading = False
        self._watch()

    def _watch(self) -> None:
        """Register the socket with the loop for reading, or unregister it, so that it is watched
        exactly while the protocol wants to read and the connection is not closing.
        """
        should_read = self._wants_reading and not self._is_closing
        if should_read is not self._is_reading:
            self._is_reading = should_read
            if should_read:
                self._loop.add_reader(self._fd, self._read)
            else:
                self._loop.remove_reader(self._fd)

    def pause_reading(self) -> None:
        self._wants_reading = False
        self._watch()

    def resume_reading(self) -> None:
        self._wants_reading = True
        self._watch()

    def retire(self) -> None:
        """End reading so that a client on a Unix socket fails to write its next request, and
        repeats it elsewhere.

        If something has arrived already, it is read and the connection goes on. Otherwise the
        connection stays open until it is closed. Go's client repeats a POST that it could not
        write, but not one for which it had chosen a connection that then ended.
        """
        if self._is_closing or self.is_retired:
            return
        try:
            # Where a part of a request is here, its sender may send the rest.
            self._end.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            self.is_retired = True
            self._wants_reading = False
            self._read_last()
        except OSError as error:
            self._lose(error)
        else:
            self._read()

    def _read_last(self) -> None:
        """Shut down reading, and pass the bytes that arrived just before to the protocol. The loop
        then no longer watches the socket for reading, and the connection can still write. An error
        of the socket loses the connection.
        """
        try:
            # From here on the kernel fails the client's writes; what came before can still be read.
            self._end.shutdown(socket.SHUT_RD)
            while data := self._end.recv(READ):  # came after there was nothing
                self._protocol.data_received(data)
        except OSError as error:
            self._lose(error)
        else:
            self._watch()

    # Writing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the number of queued bytes above which the protocol is paused, `READ` if `high` is
        None; `low` is ignored.

        The protocol resumes when nothing is queued.
        """
        self._most_unsent = READ if high is None else high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send `data` at once as far as the socket takes it, and queue the rest.

        Pauses the protocol once more bytes are queued than `set_write_buffer_limits` allows. Does
        nothing while the connection closes. Raises nothing: an error of the socket loses the
        connection.
        """
        if self._is_closing or not data:
            return
        sent = 0
        if not self._unsent:
            sent = self._send(data)
            # `_send` may have lost the connection, and then nothing may be queued or watched.
            if self._is_lost or sent == len(data):
                return
            self._loop.add_writer(self._fd, self._write_queued)
        self._unsent += memoryview(data)[sent:]
        if len(self._unsent) > self._most_unsent and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the socket takes and return the number of bytes: 0 if it would block, or if the
        connection is lost, which is then reported (`_lose`).
        """
        try:
            return self._end.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._lose(error)
            return 0

    def _write_queued(self) -> None:
        """Send queued bytes; the loop calls it whenever the socket can take more. Once all are
        sent, resume a paused protocol, then do what waited for this: close the connection, or shut
        down its sending side (`write_eof`).
        """
        sent = self._send(self._unsent)
        if self._is_lost:
            return
        del self._unsent[:sent]
        if self._unsent:
            return
        # First of all: `resume_writing` may write, and so register the writer again.
        self._loop.remove_writer(self._fd)
        if self._is_paused:
            self._is_paused = False
            self._protocol.resume_writing()
        # A close that was asked for while bytes were queued happens now.
        if self._is_closing:
            self._lose(None)
        elif self._ends_writing:
            self._end_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Shut down the sending side once everything queued is sent."""
        self._ends_writing = True
        if not self._unsent:
            self._end_writing()

    def _end_writing(self) -> None:
        """Shut down the sending side of the socket; the connection is lost if that fails."""
        try:
            self._end.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._lose(error)

    # The end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Stop reading, and close once everything queued is sent: at once if nothing is. Later
        writes are ignored, and a second call does nothing. The protocol is told in a later turn of
        the loop.
        """
        if not self._is_closing:
            self._is_closing = True
            self._watch()
            if not self._unsent:
                self._lose(None)

    def abort(self) -> None:
        """Close at once and drop what is queued."""
        self._lose(None)

    def _lose(self, error: OSError | None) -> None:
        """End the connection at once: drop queued bytes, unregister the socket and schedule
        `connection_lost`, with `error`, or None for an orderly end. The socket is closed after that
        call. Further calls do nothing.
        """
        if self._is_lost:
            return
        # Before `_watch`, which unregisters a closing socket; the descriptor is closed only later.
        self._is_lost = self._is_closing = True
        self._watch()
        if self._unsent:
            self._unsent.clear()
            self._loop.remove_writer(self._fd)
        # Not at once: the protocol may be in the middle of its own `write` or `data_received`.
        self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: OSError | None) -> None:
        """Call `connection_lost` of the protocol, then close the socket."""
        try:
            self._protocol.connection_lost(error)
        finally:
            self._end.close()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the value for `peername`, `sockname` or `socket`; `default` for any other name,
        and for `peername` if the client has reset the connection.
        """
        if name == "peername":
            # The system does not know the other end of a connection that was reset (ENOTCONN).
            with contextlib.suppress(OSError):
                return self._end.getpeername()
            return default
        if name == "socket":
            return self._end
        return self._end.getsockname() if name == "sockname" else default
