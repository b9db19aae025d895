"""Who reads next: simulated readers on a loop and a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from doorward.transport.turns import LEAST, MOST, SLICE, WORTH, Account, Turns

SLOW = 2 * SLICE


class Loop:
    """Calls what is due, round by round."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: deque[Callable[[], object]] = deque()
        self.turns = Turns(cast(asyncio.AbstractEventLoop, self), lambda: self.now)

    def call_soon(self, callback: Callable[[], object], *args: Any) -> None:
        assert not args
        self.due.append(callback)

    def run_round(self) -> None:
        self.due.popleft()()


class Connection:
    """A client whose pieces take the given seconds each."""

    def __init__(self, loop: Loop, log: list[str], name: str, seconds: float, pieces: int) -> None:
        self.account = Account()
        self.answered = 0
        self.pieces = pieces
        self._loop = loop
        self._log = log
        self._name = name
        self._seconds = seconds

    @property
    def is_waiting(self) -> bool:
        return self.pieces > 0

    def read_piece(self) -> int:
        self._log.append(self._name)
        self._loop.now += self._seconds
        self.pieces -= 1
        return LEAST


def test_bytes_are_read_at_once_while_there_is_time() -> None:
    loop = Loop()
    reader = Connection(loop, [], "a", 0, 1)
    assert loop.turns.may_read(reader, LEAST)
    assert not loop.turns.may_read(reader, LEAST + 1)
    begun, loop.now = loop.now, loop.now + SLICE / 4
    loop.turns.spend(reader, begun, LEAST)
    assert loop.turns.may_read(reader, LEAST)
    assert not loop.due
    begun, loop.now = loop.now, loop.now + SLICE
    loop.turns.spend(reader, begun, LEAST)
    assert not loop.turns.may_read(reader, 1)
    loop.run_round()
    assert loop.turns.may_read(reader, LEAST)


def test_the_loop_is_back_after_one_slice() -> None:
    loop, log = Loop(), list[str]()
    loop.turns.wait(Connection(loop, log, "slow", SLOW, 10))
    loop.turns.wait(Connection(loop, log, "other", SLOW, 10))
    loop.run_round()
    assert log == ["slow"]
    assert len(loop.due) == 1


def test_short_pieces_share_a_round() -> None:
    loop, log = Loop(), list[str]()
    for name in "abc":
        loop.turns.wait(Connection(loop, log, name, SLICE / 10, 1))
    loop.run_round()
    assert log == ["a", "b", "c"]
    assert not loop.due


def test_the_least_served_is_next_however_many_flood() -> None:
    loop, log = Loop(), list[str]()
    for _ in range(50):
        loop.turns.wait(Connection(loop, log, "flood", SLOW, 1_000))
    for _ in range(50):
        loop.run_round()
    honest = Connection(loop, log, "honest", SLICE / 10, 1)
    loop.turns.wait(honest)
    loop.run_round()
    assert log[50] == "honest"


def test_an_answered_call_does_not_count() -> None:
    account = Account()
    account.add(3 * WORTH, 1, 1)
    assert account.spent == 2 * WORTH
    account.add(WORTH, 1, 5)
    assert account.spent == 0
    account.add(WORTH, 1, 5)
    account.fade()
    assert account.spent == WORTH / 2


def test_pieces_grow_where_bytes_are_fast_and_shrink_at_once() -> None:
    account = Account()
    assert account.piece == LEAST
    for _ in range(100):
        account.add(SLICE / MOST / 2 * LEAST, LEAST, 0)
    assert account.piece == MOST
    account.add(SLICE * 4, LEAST, 0)
    assert account.piece == LEAST


def test_who_has_left_gets_no_turn() -> None:
    loop, log = Loop(), list[str]()
    reader = Connection(loop, log, "gone", 0, 1)
    loop.turns.wait(reader)
    loop.turns.leave(reader)
    loop.turns.leave(reader)
    loop.run_round()
    assert not log
    assert not loop.due
