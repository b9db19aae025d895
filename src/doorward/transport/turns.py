"""Connections of one loop take turns: one that is slow to read does not stop the others.

    bytes of a connection -> read at once, or in pieces, the least served connection first

As long as there is time, the bytes of a connection are read when they come. Once reading has taken
`SLICE` seconds, the loop looks at its sockets before it reads on, and what comes meanwhile waits:
the next piece is that of the connection for which the least time was spent lately, beyond what its
answered calls are worth. So a client that asks for little waits for a few pieces of others, however
many of them send without a pause.

Nothing in here knows what the bytes mean. How many of them make a piece depends on how long earlier
ones of the same connection took.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

__all__ = ["LEAST", "MOST", "SLICE", "WORTH", "Account", "Reader", "Turns"]

SLICE: Final = 0.002
"""Seconds that reading may take before the loop looks at its sockets again."""
LEAST: Final = 4_096
"""The smallest piece in bytes: 3 ms of the slowest ones (`benchmarks/floods.py`)."""
MOST: Final = 1 << 16
"""The largest piece in bytes."""
_FORGET: Final = 0.9
"""The factor by which a slow pace fades with each turn of faster bytes."""
_SHORT: Final = 512
"""Shorter pieces count as so many bytes: the fixed cost of a turn says nothing about their
contents."""
WORTH: Final = 0.001
"""Seconds of reading that an answered call is worth and that do not count against its client."""


class Account:
    """The time that reading one connection took lately."""

    __slots__ = ("_answered", "_pace", "spent")

    def __init__(self) -> None:
        self.spent = 0.0
        """Recent seconds of reading, less what the answered calls are worth."""
        self._answered = 0
        self._pace = SLICE / LEAST
        """Seconds that reading a byte takes, by the slowest recent turn."""

    @property
    def piece(self) -> int:
        """The number of bytes to read in one turn, fewer if bytes of this connection were slow to
        read.
        """
        return min(MOST, max(LEAST, int(SLICE / self._pace)))

    def add(self, seconds: float, size: int, answered: int) -> None:
        """Count a turn of `seconds` and `size` bytes.

        `answered` is the total of the connection's answered calls; each call since the last turn is
        worth `WORTH` seconds.
        """
        self._pace = max(seconds / max(size, _SHORT), self._pace * _FORGET)
        worth = WORTH * (answered - self._answered)
        self._answered = answered
        self.spent = max(0.0, self.spent + seconds - worth)

    def fade(self) -> None:
        """Halve the time spent; called every half second."""
        self.spent /= 2


class Reader(Protocol):
    """A connection that takes turns in reading."""

    account: Account

    @property
    def answered(self) -> int:
        """The number of calls of the connection that were answered so far."""

    def read_piece(self) -> int:
        """Read a piece of what waits and return its size in bytes; must not raise."""

    @property
    def is_waiting(self) -> bool:
        """True if there is a piece to read."""


class Turns:
    """The order in which the connections of a loop are read; used on the loop's thread only."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = monotonic
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._waiting: dict[Reader, None] = {}
        self._used = 0.0
        self._is_due = False

    def may_read(self, reader: Reader, size: int) -> bool:
        """Return True if `size` bytes may be read at once; otherwise the reader must `wait`."""
        return not self._is_due and size <= reader.account.piece

    def spend(self, reader: Reader, begun: float, size: int) -> None:
        """Count the time since `begun`, in which `size` bytes of `reader` were read as soon as they
        came.

        Once such reads took `SLICE` seconds, connections are read in turns until the loop has
        looked at its sockets again.
        """
        used = self._clock() - begun
        # Both ways of reading are counted, or a client could avoid its account by short reads.
        reader.account.add(used, size, reader.answered)
        self._used += used
        if self._used > SLICE:
            self._come_back()

    def wait(self, reader: Reader) -> None:
        """Give `reader` turns until nothing of it waits."""
        self._waiting[reader] = None
        self._come_back()

    def leave(self, reader: Reader) -> None:
        """Give `reader` no more turns: it is gone, or cannot go on."""
        self._waiting.pop(reader, None)

    def _come_back(self) -> None:
        """Schedule the next turns in the event loop, once."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Read pieces of the waiting connections, one after the other, until `SLICE` seconds have
        passed; each time the one with the least reading time lately. If some still wait, the next
        turns are scheduled after the loop has looked at its sockets.
        """
        self._is_due = False
        self._used = 0.0
        waiting = self._waiting
        begun = now = self._clock()
        while waiting and now - begun < SLICE:
            reader = min(waiting, key=lambda each: each.account.spent)
            del waiting[reader]
            size = reader.read_piece()
            if reader.is_waiting:
                waiting[reader] = None
            before, now = now, self._clock()
            reader.account.add(now - before, size, reader.answered)
        if waiting:
            self._come_back()
