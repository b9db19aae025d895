"""A client's connection: heads one after the other, each of them an exchange.

The server's sweep ends a head or a body that is late, and a connection that was taken over and has
lost its client. A connection between two requests stays open as long as there is room.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from doorward.docker.proxy.exchange import Exchange, Sides
from doorward.docker.proxy.http2 import is_preface
from doorward.docker.proxy.messages import HeadError, parse_request_head, write_head
from doorward.docker.proxy.wire import CutError, Wire
from doorward.edge import FAULTS, Edge
from doorward.transport.loop import Connections

__all__ = ["ClientConnection"]

_EDGE: Final = Edge("docker-proxy", "a connection of the Docker proxy failed")

ARRIVING: Final = 10.0
"""Seconds in which a head, and a body that is decided, must have arrived."""
LINGERING: Final = 2.0
"""Seconds in which a client may read the last answer of a connection that it still sends on."""
MOST_DRAINED: Final = 8 << 20
"""Bytes that are read of a request that was refused, so that its client sees why."""


class ClientConnection(Wire):
    """A client's connection to the proxy: reads its requests one after the other, and lets an
    `Exchange` answer each.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        sides: Sides,
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(loop)
        self._connections = connections
        self._exchange = Exchange(self, sides)
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None
        self._since = connections.now
        self._is_idle = True
        self._is_closing = False
        self._drains = False
        self._closing_since: float | None = None

    # As the loop calls it

    def connection_made(self, transport: Any) -> None:
        """Register the connection and start the task that serves it."""
        super().connection_made(transport)
        self._task = self.loop.create_task(self._run())
        self._connections.add(self)

    def eof_received(self) -> bool:
        """Tell the exchange that the client sends no more. Return True: answers can still be
        written.
        """
        super().eof_received()
        # Some clients end their side and read on; the exchange knows where that is allowed.
        self._exchange.client_left()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, which the loop reports as closed: wake what waits for it, free its
        slot, abort the exchange of the current request, and call `on_end`.
        """
        super().connection_lost(exc)
        self._connections.remove(self)
        self._exchange.abort()
        self._on_end()

    # As the server calls it

    @property
    def idle_since(self) -> float | None:
        return self._since if self._is_idle else None

    def expire(self) -> None:
        """Abort the connection if a time limit has passed; called in each sweep. A request must
        arrive within `ARRIVING` seconds, and the client must close within `LINGERING` seconds after
        the last answer. Once a request has arrived there is no limit, but a client that is gone is
        noticed here.
        """
        now = self._connections.now
        if self._closing_since is not None:
            if now - self._closing_since > LINGERING:
                self.abort()
        elif self._exchange.has_arrived:
            # Where nothing is read, the end of the client is not noticed otherwise.
            if (self.at_end or not self.is_reading) and self._client_is_gone():
                self.abort()
        elif self._is_late(now):
            self.abort()

    def _is_late(self, now: float) -> bool:
        """Return True if a head, or a body that is decided, has not arrived completely within
        `ARRIVING` seconds.
        """
        is_arriving = bool(self.data) or not self._is_idle
        return is_arriving and not self._exchange.has_arrived and now - self._since > ARRIVING

    def _client_is_gone(self) -> bool:
        """Return True if a client that ended its side has closed the other one as well."""
        end = self.transport.get_extra_info("socket")
        if end is None or end.fileno() < 0:
            return False
        poll = select.poll()
        # No events are asked for: POLLHUP is reported in any case, and only when both
        # sides are shut.
        poll.register(end, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def shutdown(self) -> None:
        """Close the connection after the current exchange; at once if there is none and no part of
        a request has arrived.
        """
        self._drains = True
        # With bytes of a request at hand it ends after its answer.
        if self._is_idle and not self.data:
            self.close()

    def refuse(self) -> None:
        """Answer 503 and close, without reading a request."""
        self._is_closing = True
        self.write(write_head(503, [("Content-Length", "0"), ("Connection", "close")]))
        self.close()

    # Requests

    async def _run(self) -> None:
        """Serve requests until the client or the proxy ends the connection; abort it if it is cut,
        and after a fault, which is reported.
        """
        try:
            while not self._is_closing and await self._next():
                pass
            await self._linger()
        except CutError:
            self.abort()
        except FAULTS as fault:
            _EDGE.report(fault)
            self.abort()

    async def _next(self) -> bool:
        """Read and answer the next request; return True if the connection stays open for another
        one.

        Waits without a limit for the first byte. A head that cannot be parsed is answered with the
        status of its HeadError, and a connection of HTTP/2 is carried to its end; both return
        False, as does a client that ends between two requests. Raise CutError if it ends within
        one.
        """
        self._is_idle, self._since = True, self._connections.now
        try:
            if not self.data and not await self.wait():
                return False
            self._since = self._connections.now
            content = await self.head()
            self._is_idle = False
            # Before the head is parsed: `PRI * HTTP/2.0` is not a request line of HTTP/1.1.
            if is_preface(content):
                await self._exchange.run_http2()
                return False
            head = parse_request_head(content)
        except HeadError as error:
            body = f"{error}\n".encode()
            fields = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
            self.write(write_head(error.status, [*fields, ("Connection", "close")]) + body)
            return False
        return await self._exchange.run(head) and not self._drains

    async def _linger(self) -> None:
        """Send the end of the stream, read and drop bytes of the client until it closes, and close
        the connection.

        Reads at most about `MOST_DRAINED` bytes. A socket that is closed with unread bytes is
        reset, and the client would lose the last response with it.
        """
        self._closing_since = self._connections.now
        self.end()
        drained = 0
        with suppress(CutError):
            while drained < MOST_DRAINED and (piece := await self.piece()):
                drained += len(piece)
        self.close()
