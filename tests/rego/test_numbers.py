"""Numbers: their texts, how they are read, rounded and written."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest

from doorward.rego.numbers import (
    Number,
    exact,
    from_binary,
    from_fraction,
    parse_lean,
    parse_number,
    rounded,
)


def test_a_large_power_of_two_has_the_fewest_digits_that_read_back() -> None:
    for power in (65, 13_300, 13_301):
        number = from_binary(1, power)
        assert type(number) is int
        assert len(str(number).rstrip("0")) <= 21
        assert rounded(number, 0) == (1, power)


def test_an_integer_of_a_computation_is_itself() -> None:
    assert from_fraction(3) == 3
    assert type(from_fraction(3)) is int
    assert from_fraction(Fraction(1, 2)) == Number("0.5")


def test_a_number_keeps_its_text_when_copied() -> None:
    for actual in (pickle.loads(pickle.dumps(Number("1.50"))), copy.deepcopy(Number("1.50"))):
        assert type(actual) is Number
        assert actual.text == "1.50"


def test_numbers_differ_by_their_values() -> None:
    differ = [a != b for a, b in ((Number("1.50"), Number("1.5")), (Number("1.5"), 2))]
    assert differ == [False, True]
    assert Number("2.0") == 2


@pytest.mark.parametrize("text", ["", "1a", "-", "0x10", "1e", "1_000", "١"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        parse_number(text)


def test_zeros_in_front_of_an_exponent_count_for_nothing() -> None:
    assert parse_number(f"1e{'0' * 300}3") == 1000
    assert parse_number("1e-000000003") == Number("0.001")


@pytest.mark.parametrize("text", ["1.5", "1.50", "2.0", "1e3"])
def test_the_exact_value_is_the_same_every_time(text: str) -> None:
    number = parse_lean(text)
    first, second = exact(number), exact(number)
    assert first == second == Fraction(text)
    assert isinstance(number, Number)
    assert number.text == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.1", "0.1"),
        ("-0.5", "-0.5"),
        ("0.00001", "1e-05"),
        ("0.00012", "0.00012"),
        ("100000.5", "100000.5"),
        ("1234567.5", "1.2345675e+06"),
        ("1/3", "0.33333333333333333334"),
        ("1/3000000", "3.3333333333333333333e-07"),
        ("4/2", "2"),
        ("1180591620717411303424/3", "393530540239137101150"),
    ],
)
def test_computed_numbers_have_the_fewest_digits(value: str, text: str) -> None:
    assert str(from_fraction(Fraction(value))) == text
