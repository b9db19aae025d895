"""Work is stopped in the thread that does it, and no other work with it."""

from __future__ import annotations

import threading

import pytest
from tests.waiting import PATIENCE, wait_until

from doorward.base.cancellation import Cancellation, is_stopped
from doorward.rego import Engine, EvalError
from doorward.rego.shared import within
from doorward.rego.tools import count_step


def test_work_is_stopped_from_another_thread() -> None:
    cancellation = Cancellation()
    stopped: list[bool] = []

    def work() -> None:
        with cancellation.working():
            wait_until(is_stopped)
            stopped.append(True)
        stopped.append(is_stopped())

    thread = threading.Thread(target=work)
    thread.start()
    cancellation.cancel()
    thread.join(PATIENCE)
    assert stopped == [True, False]
    assert not is_stopped()


def test_work_that_ended_cannot_be_stopped() -> None:
    cancellation = Cancellation()
    with cancellation.working():
        assert not is_stopped()
    cancellation.cancel()
    assert cancellation.is_cancelled
    assert not is_stopped()


def test_work_that_was_cancelled_before_is_stopped_at_once() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellation.working():
        assert is_stopped()
    with Cancellation().working():
        assert not is_stopped()


@pytest.mark.parametrize(
    "query",
    [
        "some x in numbers.range(1, 4000000); some y in numbers.range(1, 4000000); x + y < 0",
        "x := sort([y | some y in numbers.range(1, 4000000)])",
        "x := numbers.range(1, 4000000)",
    ],
)
def test_an_evaluation_ends_where_it_is_stopped(query: str) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    prepared = Engine().prepare(query, deadline=10 * PATIENCE)
    with cancellation.working(), pytest.raises(EvalError, match="cancelled"):
        prepared.rows()


def test_work_on_values_ends_where_it_is_stopped() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with cancellation.working(), within(10 * PATIENCE), pytest.raises(EvalError):
        _count_for_ever()


def _count_for_ever() -> None:
    while True:
        count_step()
