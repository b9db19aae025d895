"""TLS whose client may end its side and still read: `docker run -i` over TCP does.

    bytes of a socket -> TlsLayer -> Wire

The loop's own TLS closes both sides at the end of one. This one stands between a transport and its
protocol: to the first it is a protocol, to the second a transport.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any, Final

from doorward.docker.proxy.wire import Wire

__all__ = ["TlsLayer"]

HANDSHAKE: Final = 5.0
"""Seconds that a client has to begin."""
_READ: Final = 1 << 16


class TlsLayer(asyncio.Protocol):
    """The server's side of TLS around the protocol of a socket."""

    def __init__(
        self, wire: Wire, context: ssl.SSLContext, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._wire = wire
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._loop = loop
        self._transport: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self._has_ended = False
        self._has_said_end = False

    # To the transport: a protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit of the handshake; the wire is told when that is complete."""
        self._transport = transport
        self._timer = self._loop.call_later(HANDSHAKE, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Decrypt received bytes and give them to the wire, after the handshake is complete.

        Closes the connection at an error of TLS, after the alert has been sent.
        """
        self._incoming.write(data)
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
                # Only with the handshake done: before it nobody knows who the client is.
                self._wire.connection_made(self)
            self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._flush()
            self._transport.close()
            return
        self._flush()

    def _read(self) -> None:
        """Decrypt the received bytes and pass them to the wire, and the end of TLS, if the client
        has sent it. Raise ssl.SSLWantReadError once more bytes are needed, the usual case, and
        ssl.SSLError for invalid ones.
        """
        while not self._has_ended:
            try:
                data = self._tls.read(_READ)
            except ssl.SSLZeroReturnError:
                data = b""
            if not data:
                self._end()
                return
            self._wire.data_received(data)

    def eof_received(self) -> bool:
        """Return True, which keeps the connection open for writing, if TLS was ended properly;
        otherwise abort the connection and return False.
        """
        # Without an end of TLS before, somebody may have cut the connection.
        if self._is_open and self._has_ended:
            return True
        self._transport.abort()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of the handshake. Pass `exc` on to the wire if the handshake was complete;
        otherwise the wire never learned of the connection.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._is_open:
            self._wire.connection_lost(exc)

    def pause_writing(self) -> None:
        self._wire.pause_writing()

    def resume_writing(self) -> None:
        self._wire.resume_writing()

    def _end(self) -> None:
        """Tell the wire that the peer sends no more."""
        self._has_ended = True
        self._wire.eof_received()

    def _give_up(self) -> None:
        """Abort the connection if the handshake is not complete: its time is over."""
        if not self._is_open:
            self._transport.abort()

    def _flush(self) -> None:
        """Send what TLS has to send."""
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    # To the protocol: a transport

    def write(self, data: bytes) -> None:
        """Encrypt and send data; ignored after the end was sent or while the connection closes. If
        TLS fails, the connection is aborted.
        """
        if self._has_said_end or self._transport.is_closing():
            return
        try:
            self._tls.write(data)
        except ssl.SSLError:
            self._transport.abort()
            return
        self._flush()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send the end of TLS, and keep the connection open for reading."""
        self._send_close_notify()

    def _send_close_notify(self) -> None:
        """Send the close_notify of TLS, after which nothing more can be written; only the first
        call does. Reading goes on. Errors of TLS are ignored.
        """
        if not self._has_said_end:
            self._has_said_end = True
            # It asks for the client's end as well, which may never come; ours is in `_outgoing`
            # by then.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()

    def close(self) -> None:
        """Send the end of TLS, and close the connection after what is still to be sent."""
        self._send_close_notify()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return bool(self._transport.is_closing())

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high=high)

    def get_extra_info(self, name: str) -> Any:
        """Return the TLS of the connection for `ssl_object`, otherwise what the transport below
        says.
        """
        return self._tls if name == "ssl_object" else self._transport.get_extra_info(name)
