"""Calls are found by the value of their operands, and a cache of no use switches itself off."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego.numbers import Number
from doorward.rego.runtime.call_cache import FIRST_PAUSE, MAX_ALIKE, MAX_CALLS, TRIAL, CallCache
from doorward.rego.runtime.operations import MISSING
from doorward.rego.values import UNDEFINED, Boxed


def ask(cache: CallCache, *operands: Any, slot: int = 0, prints: bool = False) -> Any:
    """The cached answer, else MISSING; then the operands are the answer."""
    call = cache.find(slot, operands, always=prints, keeps_undefined=not prints)
    if call is None:
        return MISSING
    return call.keep(operands) and MISSING if call.answer is MISSING else call.answer


SAME = [
    ("a", "a"),
    (1, 1),
    (1, Number("1.0")),
    (None, None),
    (True, True),
    ([1, "a", [2]], [1, "a", [2]]),
    ({"a": 1, "b": {"c": [1]}}, {"b": {"c": [1]}, "a": 1}),
    (frozenset({1, "a"}), frozenset({"a", 1})),
    (frozenset({Boxed([1])}), frozenset({Boxed([1])})),
]
OTHER = [
    ("1", 1),
    (True, 1),
    (False, 0),
    (None, False),
    ([True], [1]),
    ({"a": True}, {"a": 1}),
    ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6]),
    ({"a": [1]}, {"a": [2]}),
    ([], {}),
    ([], frozenset()),
    (frozenset({1}), frozenset({2})),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_operands_have_one_answer(first: Any, second: Any) -> None:
    cache = CallCache()
    assert ask(cache, first, "x") is MISSING
    assert ask(cache, second, "x") == (first, "x")
    assert ask(cache, first) is MISSING
    assert ask(cache, second) == (first,)


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_other_operands_have_answers_of_their_own(first: Any, second: Any) -> None:
    for one, other in ((first, second), (second, first)):
        cache = CallCache()
        assert ask(cache, one) is MISSING
        assert ask(cache, other) is MISSING
        # The other operand is the same.
        assert ask(cache, one, "x") is MISSING
        assert ask(cache, other, "x") is MISSING


def test_functions_and_operands_are_told_apart() -> None:
    cache = CallCache()
    assert ask(cache, "a", "b", slot=1) is MISSING
    assert ask(cache, "a", "b", slot=2) is MISSING
    assert ask(cache, "b", "a", slot=1) is MISSING
    assert ask(cache, ["a", "b"], slot=1) is MISSING


def test_undefined_is_kept_unless_the_function_prints() -> None:
    cache = CallCache()
    for prints, answer in ((False, UNDEFINED), (True, MISSING)):
        call = cache.find(int(prints), (1,), always=prints, keeps_undefined=not prints)
        assert call is not None
        assert call.keep(UNDEFINED) is UNDEFINED
        assert call.answer is answer


def test_a_function_without_equal_calls_is_paused_twice_as_long_each_time() -> None:
    cache = CallCache()
    calls = 0

    def call_until_paused() -> None:
        nonlocal calls
        for _ in range(TRIAL):
            calls += 1
            ask(cache, calls)

    def count_pause() -> int:
        for count in range(10 * FIRST_PAUSE):
            ask(cache, "known")
            if ask(cache, "known") is not MISSING:
                return 2 * count
        raise AssertionError("never looked up again")

    call_until_paused()
    assert not cache.is_useful
    first = count_pause()
    for _ in range(8 * TRIAL):  # no more answers
        call_until_paused()
    assert FIRST_PAUSE <= first <= FIRST_PAUSE + 2


def test_a_cache_that_finds_answers_stays_useful() -> None:
    cache = CallCache()
    for number in range(20 * TRIAL):
        ask(cache, number)
        assert ask(cache, number) is not MISSING
    for number in range(2 * TRIAL):
        ask(cache, number, slot=1)
    assert cache.is_useful


def test_what_is_kept_is_bounded() -> None:
    cache = CallCache()
    kept = sum(ask(cache, n, prints=True) is MISSING for n in range(MAX_CALLS + 10))
    assert kept == MAX_CALLS + 10
    assert ask(cache, 0, prints=True) == (0,)
    assert ask(cache, MAX_CALLS + 5, prints=True) is MISSING
    alike = CallCache()
    values = [[0, 0, 0, 0, number] for number in range(MAX_ALIKE + 1)]
    for value in values:
        ask(alike, value)
    assert [ask(alike, value) is MISSING for value in values] == [False] * MAX_ALIKE + [True]
