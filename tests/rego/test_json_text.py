"""JSON text to values: what is shared of much text, and that nothing else differs for its size."""

from __future__ import annotations

import json
import re
import tracemalloc
from typing import Any

import pytest

from doorward.rego.json_text import MUCH, from_json
from doorward.rego.numbers import MAX_DIGITS, Number, exact
from doorward.rego.values import equal, to_json

PADDING = " " * MUCH


def much(text: str) -> Any:
    """The value of `text` as that of a long text."""
    return from_json(text + PADDING)


ODD = [
    '{"a":1.50,"b":1.5,"c":-0,"d":-0.0,"e":1E+2,"f":1e400,"g":0.1e1,"h":12345678901234567890}',
    '{"a":"x","b":["x",true,1,1.0,null,["x"],{"a":"x"}],"c":[],"d":[1,"1",1.0,true]}',
    '["x","x",{"x":"x"}]',
    '{"a":"\\ud800","b":["\\udfff"],"c":"\\ud83d\\ude00"}',
    "1.25",
    "0.30000000000000004",
    "123456789.123456789123456789",
]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("unique", [False, True])
def test_much_text_has_the_same_value_and_number_texts(text: str, unique: bool) -> None:
    few, many = from_json(text), from_json(text + PADDING, unique_keys=unique)
    assert equal(few, many)
    assert to_json(few) == to_json(many)
    assert repr(few) == repr(many)


SHORT = [
    *ODD,
    "-0",
    " -0 ",
    "[-0]",
    "[1,-0]",
    '{"a": -0}',
    "[-0.0,-0e1,-1,-10]",
    '["2026-01-01","-0"," -0",": -0"]',
    "\n{}\n",
    '"\\\\u0041\\u0041"',
    "9" * 4_096,
    "-" + "9" * 4_095,
    "[" * 4_096,
    "",
    " ",
    "-",
    "-00",
    "01",
    "1 2",
    "[1,]",
    '{"a":1,}',
    "NaN",
    "[-Infinity]",
    '"a',
    "{} x",
    "nul",
    "1\u00a0",
]


@pytest.mark.parametrize("text", SHORT)
def test_a_short_text_is_read_as_a_longer_one(text: str) -> None:
    longer = text + " " * (MAX_DIGITS + 1)
    try:
        expected = from_json(longer)
    except ValueError as error:
        with pytest.raises(ValueError, match=f"^{re.escape(str(error).partition(':')[0])}"):
            from_json(text)
    else:
        value = from_json(text)
        assert (repr(value), to_json(value)) == (repr(expected), to_json(expected))


def test_equal_strings_and_fractions_of_much_text_are_one() -> None:
    value = much('[{"a": "some", "b": ["some", 2.5]}, {"a": "some", "b": ["some", 2.5], "c": 2.5}]')
    first, second = value
    assert first["a"] is second["a"] is first["b"][0] is second["b"][0]
    assert first["b"][1] is second["b"][1] is second["c"]


def test_booleans_and_numbers_are_not_taken_for_one_another() -> None:
    value = much('{"a": ["x", 1, true, 1.0, "1", false, 0]}')["a"]
    assert [type(item) for item in value] == [str, int, bool, Number, str, bool, int]


def test_more_strings_than_are_remembered_are_all_there() -> None:
    wanted = [
        {"name": f"name {n}", "cost": n + 0.5, "kind": f"kind {n % 3}"} for n in range(40_000)
    ]
    assert from_json(json.dumps(wanted)) == wanted


def test_a_number_without_its_text_is_the_same_number() -> None:
    number = much("[1.5]")[0]
    assert (number.text, repr(number), str(number)) == ("1.5", "1.5", "1.5")
    assert exact(number) == exact(Number("1.5"))
    assert number == Number("1.50")
    assert number.text == "1.5"
    assert hash(number) == hash(Number("1.50"))


@pytest.mark.parametrize(
    "text", ["[1,]", '{"a" 1}', "NaN", "[1e99999]", "9" * 5_000, "[" * 100_000]
)
def test_what_is_no_json_is_refused_in_much_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        much(text)


def test_a_key_named_twice_is_found_in_much_text() -> None:
    with pytest.raises(ValueError, match='duplicate key "a"'):
        from_json('{"a": 1, "a": 2}' + PADDING, unique_keys=True)


def test_data_takes_at_most_four_times_its_size() -> None:
    users = {
        f"user-{n}": {
            "name": f"user-{n}",
            "groups": [f"group-{(n * k) % 300}" for k in range(6)],
            "address": {"street": f"{n} Long Street", "city": f"city-{n % 200}"},
            "quota": n * 1.5,
        }
        for n in range(12_000)
    }
    text = json.dumps(users)
    assert len(text) > MUCH
    tracemalloc.start()
    try:
        value = from_json(text)
        before, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert value == users
    assert before / len(text) <= 4
