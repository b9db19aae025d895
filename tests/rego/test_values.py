"""Values: equality, order, keys, and JSON in and out."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.rego.json_text import from_json
from doorward.rego.numbers import MAX_DIGITS, Number, exact, from_fraction, parse_number
from doorward.rego.values import (
    UNDEFINED,
    compare,
    equal,
    extremes,
    from_key,
    in_order,
    lookup,
    make_object,
    make_set,
    order_key,
    sorted_values,
    to_json,
    to_key,
    to_python,
    to_rego,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, Number("1.0"), True),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ([1], [True], False),
        ({"a": 1}, {"a": Number("1e0")}, True),
        ({"a": [True]}, {"a": [1]}, False),
        (make_set([1, True]), make_set([True, 1]), True),
        (make_set([1]), make_set([True]), False),
        ([], {}, False),
        ("1", 1, False),
    ],
)
def test_equality_is_regos(a: Any, b: Any, same: bool) -> None:
    assert equal(a, b) is same
    assert equal(b, a) is same
    assert (to_key(a) == to_key(b)) is same
    assert (compare(a, b) == 0) is same


def test_order_goes_by_kind_then_value() -> None:
    ordered: list[Any] = [
        None,
        False,
        True,
        -1,
        1.5,
        2,
        "",
        "a",
        [],
        [1],
        {},
        {"a": 1},
        make_set([]),
        make_set([0]),
    ]
    assert sorted_values([to_key(v) for v in reversed(ordered)]) == ordered


@given(JSON)
def test_json_there_and_back(value: Any) -> None:
    assert equal(from_json(to_json(value)), value)
    assert json.loads(to_json(value)) == value
    assert to_python(value) == value


@given(JSON, JSON, JSON)
def test_order_is_total(a: Any, b: Any, c: Any) -> None:
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0
    assert (compare(a, b) == 0) == equal(a, b)


@given(JSON)
def test_keys_there_and_back(value: Any) -> None:
    assert equal(from_key(to_key(value)), value)
    assert hash(to_key(value)) == hash(to_key(from_json(to_json(value))))


@given(st.fractions(min_value=-(10**9), max_value=10**9))
def test_computed_numbers_read_back_as_themselves(value: Fraction) -> None:
    number = from_fraction(value)
    text = number.text if isinstance(number, Number) else str(number)
    assert exact(parse_number(text)) == exact(number)


@pytest.mark.parametrize(
    "text", ["1", "-0", "1.0", "1.50", "1E5", "1e400", "123456789012345678901234567890"]
)
def test_number_text_is_kept(text: str) -> None:
    assert to_json(from_json(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nul",
        "NaN",
        "Infinity",
        "-Infinity",
        "1 2",
        "{'a': 1}",
        "1" * (MAX_DIGITS + 1),
        "1e99999",
    ],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


def test_nesting_beyond_what_python_follows_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * 100_000)


def test_duplicate_keys_are_refused_when_asked() -> None:
    assert from_json('{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(ValueError, match='duplicate key "a"'):
        from_json('{"a": 1, "a": 2}', unique_keys=True)


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        from_json(b'"\xff"')


def test_undefined_is_falsy_and_itself() -> None:
    assert not UNDEFINED
    assert repr(UNDEFINED) == "UNDEFINED"


ODD_NUMBERS = st.sampled_from(
    [
        Number("1.0"),
        Number("1.5"),
        Number("-0"),
        Number("1e400"),
        Number("-1e400"),
        Number("1e-400"),
        0.1,
    ]
)
VALUES = st.recursive(
    SCALARS | ODD_NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(inner.map(to_key), inner, max_size=3)
        | st.lists(inner, max_size=3).map(make_set)
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=6))
def test_the_key_for_sorting_says_what_comparing_says(values: list[Any]) -> None:
    by_key = sorted(values, key=order_key)
    by_comparing = sorted(values, key=cmp_to_key(compare))
    assert [to_rego(a) for a in by_key] == [to_rego(b) for b in by_comparing]


SIMILAR = st.one_of(
    st.lists(st.lists(st.sampled_from([0, 1, "a", "b"]), min_size=2, max_size=2), min_size=1),
    st.lists(st.fixed_dictionaries({"a": VALUES, "b": st.integers(0, 1)}), min_size=1, max_size=8),
    st.lists(st.tuples(VALUES, st.integers(0, 2)).map(list), min_size=1, max_size=8),
    st.lists(VALUES, min_size=1, max_size=8),
)


def test_rows_that_differ_behind_long_columns_are_in_order() -> None:
    rows: list[Any] = [{"a": [*range(2, 400)], "b": n} for n in (3, 1, 2)]
    assert [rows[n]["b"] for n in in_order(rows)] == [1, 2, 3]
    assert [each["b"] for each in extremes(rows, min)] == [1]
    assert [each["b"] for each in extremes(rows, max)] == [3]


@given(SIMILAR)
def test_the_order_of_many_is_the_one_of_pairs(values: list[Any]) -> None:
    positions = sorted(range(len(values)), key=lambda n: cmp_to_key(compare)(values[n]))
    assert list(in_order(values)) == positions
    for choose, best in ((min, values[positions[0]]), (max, values[positions[-1]])):
        same = [id(each) for each in values if compare(each, best) == 0]
        assert list(map(id, extremes(values, choose))) == same


def test_arrays_that_differ_late_are_in_order() -> None:
    late: list[Any] = [[0] * 30 + [n] for n in (3, 1, 2)]
    assert [value[-1] for value in sorted(late, key=order_key)] == [1, 2, 3]
    nested: list[Any] = [[0] * 17, [0] * 16, [0] * 15]
    assert min(nested, key=order_key) == [0] * 15


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.1, "0.1"), (-2.5e-7, "-2.5e-07"), (1234567.5, "1.2345675e+06"), (1e22, "1e+22")],
)
def test_a_float_of_python_is_written_as_a_number_of_rego(number: float, text: str) -> None:
    assert to_rego(number) == text


def test_undefined_stays_itself_when_copied() -> None:
    assert pickle.loads(pickle.dumps(UNDEFINED)) is UNDEFINED
    assert copy.deepcopy([UNDEFINED])[0] is UNDEFINED


def test_a_key_that_is_no_string_is_its_text_in_gos_json() -> None:
    key = make_object([("k", True), (True, "<&\u2028>")])
    text = '{"k":true,"true":"\\u003c\\u0026\\u2028\\u003e"}'
    assert to_python({to_key(key): 1}) == {text: 1}


MODULUS = sys.hash_info.modulus
COLLISIONS: dict[str, list[Any]] = {
    "multiples": [n * MODULUS for n in range(1, 3000)],
    "negative": [-n * MODULUS for n in range(1, 3000)],
    "texts": [Number(f"{n * MODULUS}.0") for n in range(1, 3000)],
    "tiny": [Number(f"{n}e-400") for n in range(1, 3000)],
    "of one float": [Number(f"{1 << 52}.{n:05}") for n in range(1, 1000)],
    "in arrays": [[n * MODULUS] for n in range(1, 3000)],
    "in arrays beside a text": [["a", n * MODULUS] for n in range(1, 3000)],
    "in objects": [{"a": n * MODULUS} for n in range(1, 3000)],
    "in sets": [make_set([n * MODULUS]) for n in range(1, 3000)],
    "under keys": [make_object([(n * MODULUS, 1)]) for n in range(1, 3000)],
}


@pytest.mark.parametrize("name", COLLISIONS)
def test_nobody_can_choose_numbers_that_share_a_hash(name: str) -> None:
    values = COLLISIONS[name]
    hashes = {hash(to_key(value)) for value in values}
    assert len(hashes) > len(make_set(values)) * 0.99


@pytest.mark.parametrize(
    "texts",
    [
        ["1e30", "1000000000000000000000000000000", "1000000000000000000000000000000.0", "10e29"],
        ["2305843009213693951", "2305843009213693951.0", "23058430092136939510e-1"],
        ["-2305843009213693951", "-2305843009213693951.0"],
        ["2305843009213693950", "2305843009213693950.0"],
        ["1.5", "1.50", "15e-1"],
        ["1e-400", "10e-401"],
        ["0", "-0", "0.0", "0e9"],
        *[[str(n * MODULUS), f"{n * MODULUS}.0"] for n in range(2, 30)],
    ],
)
def test_a_number_is_one_key_in_any_text(texts: list[str]) -> None:
    numbers = [parse_number(text) for text in texts]
    assert len(make_set(numbers)) == 1
    assert len(make_set([[number] for number in numbers])) == 1
    assert len({to_key({"a": number}) for number in numbers}) == 1
    assert lookup(make_object([(numbers[0], "at")]), numbers[-1]) == "at"
    assert from_key(to_key(numbers[0])) is numbers[0]
