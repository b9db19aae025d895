"""Go's way of writing text and numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.rego.golang.numbers import from_float, json_float, parse_int
from doorward.rego.golang.octets import to_text
from doorward.rego.golang.strings import quote
from doorward.rego.values import to_json


@pytest.mark.parametrize(
    ("value", "v", "json"),
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (1.0, "1", "1"),
        (100.0, "100", "100"),
        (1e6, "1e+06", "1000000"),
        (123456.0, "123456", "123456"),
        (1234567.0, "1.234567e+06", "1234567"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "1e-05", "0.00001"),
        (1e-7, "1e-07", "1e-7"),
        (-1.5, "-1.5", "-1.5"),
        (1e20, "1e+20", "100000000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (1.25e300, "1.25e+300", "1.25e+300"),
        (5e-324, "5e-324", "5e-324"),
        (float("inf"), '"Infinity"', '"Infinity"'),
        (float("-inf"), '"-Infinity"', '"-Infinity"'),
        (float("nan"), '"NaN"', '"NaN"'),
    ],
)
def test_floats(value: float, v: str, json: str) -> None:
    assert (to_json(from_float(value)), to_json(json_float(value))) == (v, json)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_read_back(value: float) -> None:
    assert float(to_json(from_float(value))) == value
    assert float(to_json(json_float(value))) == value


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('"\\\n\x00\x7f', '"\\"\\\\\\n\\x00\\x7f"'),
        ("é\u200b\U0001f600", '"é\\u200b\U0001f600"'),
        (b"\xc3\xa9\xff", '"é\\xff"'),
    ],
)
def test_quote(text: str | bytes, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("+7", 7), ("-2", -2), ("007", 7)])
def test_parse_int(text: str, value: int) -> None:
    assert parse_int(text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" 7", 'strconv.ParseInt: parsing " 7": invalid syntax'),
        ("", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("1_0", 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        ("٣", 'strconv.ParseInt: parsing "٣": invalid syntax'),
        (str(2**63), f'strconv.ParseInt: parsing "{2**63}": value out of range'),
    ],
)
def test_what_is_no_integer_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="ParseInt") as raised:
        parse_int(text)
    assert str(raised.value) == message


def test_every_byte_that_is_not_utf8_is_one_mark() -> None:
    assert to_text(b"a\xff\xed\xa0\x80\xc3\xa9\xe0\xa0") == "a\ufffd\ufffd\ufffd\ufffdé\ufffd\ufffd"
