"""Arithmetic, texts and order against the slow model of `number_model`, on whatever comes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.rego import number_model as model

from doorward.rego.builtins.registry import REGISTRY
from doorward.rego.builtins.registry.context import Context, Environment
from doorward.rego.numbers import Number, compare_numbers, from_fraction, parse_number
from doorward.rego.values import (
    compare,
    from_key,
    make_set,
    order_key,
    sorted_values,
    to_key,
    to_rego,
)

TEXTS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, max_value=10**9).map(str),
    st.tuples(st.integers(-(10**22), 10**22), st.integers(-60, 60)).map(lambda p: f"{p[0]}e{p[1]}"),
    st.sampled_from(["1.0", "0.5", "2.50", "1e-30", "9223372036854775807.5", "3e-310"]),
)


# Strategies of short names: Hypothesis prints them, and warns where that is long.
@st.composite
def numbers(draw: st.DrawFn) -> Any:
    return draw(TEXTS.map(parse_number) | st.floats(-1e9, 1e9))


NUMBERS: st.SearchStrategy[Any] = numbers()
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.integers(0, 2) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]) | inner.map(to_key), inner, max_size=4)
        | st.lists(inner, max_size=4).map(make_set)
    ),
    max_leaves=8,
)


@st.composite
def some_values(draw: st.DrawFn) -> list[Any]:
    return draw(st.lists(VALUES, min_size=1, max_size=5))


OPERATIONS = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def is_whole(number: Any) -> bool:
    return Fraction(to_rego(number)).denominator == 1


def test_what_rounds_to_an_integer_is_not_computed_with_as_one() -> None:
    number = parse_number("18446744073709551617.5")
    assert number == 18446744073709551618
    assert to_key(number) == to_key(18446744073709551618)
    result = [REGISTRY[name].call(number) for name in ("ceil", "floor", "round", "abs")]
    assert result == [18446744073709551618] * 4
    assert REGISTRY["plus"].call(number, 2**70) == 1199038364791120855000
    assert REGISTRY["rem"].call(number, 4) == 2
    assert REGISTRY["ceil"].call(Number("2.5")) == 3


def text_of(number: Any) -> str:
    return to_rego(number).removeprefix("-") if number == 0 else to_rego(number)


@given(st.sampled_from(sorted(OPERATIONS)), NUMBERS, NUMBERS)
# OPA 1.20.2 gives -302231455100000000000000: the mantissa of an operand is rounded, too.
@example("minus", 1.5, parse_number("3022314551e14"))
def test_results_are_those_of_the_model(name: str, a: Any, b: Any) -> None:
    whole = is_whole(a) and is_whole(b)
    operands = [model.exact(each) if whole else model.rounded(model.exact(each)) for each in (a, b)]
    expected = model.computed(OPERATIONS[name](*operands), whole=whole)
    assert text_of(REGISTRY[name].call(a, b)) == expected


@given(NUMBERS, NUMBERS.filter(lambda number: bool(number != 0)))
def test_quotients_are_those_of_the_model(a: Any, b: Any) -> None:
    x, y = model.exact(a), model.exact(b)
    whole = (x / y).denominator == 1
    value = x / y if whole else model.rounded(x) / model.rounded(y)
    assert text_of(REGISTRY["div"].call(a, b)) == model.computed(value, whole=whole)


@given(st.lists(NUMBERS, max_size=6))
def test_sums_are_rounded_after_each_number(numbers: list[Any]) -> None:
    integers = all(map(is_whole, numbers))
    total = Fraction(0)
    for each in numbers:
        total += model.exact(each)
        total = total if integers else model.rounded(total)
    result = REGISTRY["sum"].call(Context(Environment()), numbers)
    assert to_rego(result) == model.computed(total, whole=integers)


@example(Fraction(2**63 + 1, 2**70))
@example(Fraction(1, 2**40))
@given(st.fractions())
def test_texts_are_those_of_the_model(value: Fraction) -> None:
    number = from_fraction(value)
    assert to_rego(number) == model.computed(value, whole=False)
    if isinstance(number, Number):
        assert float.__repr__(number) == repr(float(number.text))


@given(NUMBERS, NUMBERS)
def test_numbers_are_equal_and_ordered_by_their_exact_values(a: Any, b: Any) -> None:
    x, y = model.exact(a), model.exact(b)
    assert (compare_numbers(a, b) > 0) == (x > y)
    one, other = (Number(to_rego(each)) for each in (a, b))
    assert [one == b, one < other, one <= other, one > other, one >= other] == [
        x == y,
        x < y,
        x <= y,
        x > y,
        x >= y,
    ]
    assert hash(to_key(a)) == hash(one)
    assert one != b or hash(one) == hash(to_key(b))


def test_what_is_no_number_of_rego_is_compared_as_with_a_float() -> None:
    assert Number("1.5") > Fraction(1)
    assert Number("1.5") == Fraction(3, 2)
    assert Number("1.5") != float("inf")
    odd: list[Any] = [Number("1.5"), "a"]
    with pytest.raises(TypeError):
        sorted(odd)


@pytest.mark.long
@settings(suppress_health_check=list(HealthCheck))
@given(some_values())
def test_values_are_sorted_as_the_model_sorts_them(values: list[Any]) -> None:
    expected = [to_rego(each) for each in model.in_order(values)]
    call = REGISTRY["sort"].call
    assert [to_rego(each) for each in call(Context(Environment()), values)] == expected
    assert [to_rego(each) for each in sorted(values, key=order_key)] == expected
    members = make_set(values)
    assert sorted_values(members) == model.in_order([from_key(key) for key in members])
    for a, b in pairwise(values):
        assert compare(a, b) == model.compare_values(a, b)


@st.composite
def alike(draw: st.DrawFn) -> list[Any]:
    """Objects with the same keys, whose values are seldom different."""
    names = draw(st.lists(st.sampled_from(["a", "b", "c", 1, None]), unique=True, min_size=1))
    columns = [[draw(VALUES), draw(VALUES)] for _ in names]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, columns)), max_size=6))
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.long
@settings(suppress_health_check=list(HealthCheck))
@given(alike())
def test_objects_with_the_same_keys_are_sorted_as_others(objects: list[Any]) -> None:
    call = REGISTRY["sort"].call
    expected = [to_rego(each) for each in model.in_order(objects)]
    assert [to_rego(each) for each in call(Context(Environment()), objects)] == expected


@settings(suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["min", "max"]), some_values())
def test_the_first_and_the_last_are_those_of_the_model(name: str, values: list[Any]) -> None:
    result = REGISTRY[name].call(Context(Environment()), values)
    ordered = model.in_order(values)
    # Of equal numbers the last one is returned.
    expected = ordered[0 if name == "min" else -1]
    last = [each for each in values if model.compare_values(each, expected) == 0][-1]
    assert to_rego(result) == to_rego(last)


def test_a_float_of_python_is_the_number_that_it_reads_as() -> None:
    assert make_set([0.1]) == make_set([Number("0.1")])
    assert make_set([[0.1]]) == make_set([[Number("0.1")]])
    assert Number("0.1") == 0.1
