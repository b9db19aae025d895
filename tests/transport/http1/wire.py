"""A connection without a socket: a transport that keeps what was written, and a clock."""

from __future__ import annotations

import asyncio
from typing import Any

from doorward.transport.http1.bodies import BodyBudget
from doorward.transport.http1.connection import Application, HttpConnection
from doorward.transport.http1.limits import Limits
from doorward.transport.loop import Connections

__all__ = ["Wire", "responses"]


class Wire:
    """The transport of one connection, and its loop."""

    def __init__(
        self,
        application: Application,
        limits: Limits | None = None,
        bodies: BodyBudget | None = None,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.connections = Connections(10)
        self.connection = HttpConnection(
            self.connections, application, limits or Limits(), self.loop, bodies
        )
        self.written = b""
        self.reading = True
        self.closed = self.aborted = self.half_closed = False
        self.connection.connection_made(self)  # type: ignore[arg-type]  # all that it calls

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.connection.connection_lost(None)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def is_closing(self) -> bool:
        return self.closed

    def was_aborted(self) -> bool:
        return self.aborted

    def reads(self) -> bool:
        return self.reading

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.half_closed = True

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": "/a/socket"}.get(name)

    def send(self, data: bytes) -> bytes:
        """What was written in return."""
        before = len(self.written)
        self.connection.data_received(data)
        self.run()
        return self.written[before:]

    def run(self) -> None:
        """Whatever the loop has to do now."""
        for _ in range(20):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def advance(self, seconds: float) -> None:
        self.connections.now += seconds
        self.connection.expire()


def responses(written: bytes) -> list[tuple[int, bytes]]:
    """Statuses and bodies of responses that announce their length."""
    answers = []
    while written:
        head, _, rest = written.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        answers.append((int(head.split(b" ")[1]), rest[:length]))
        written = rest[length:]
    return answers
