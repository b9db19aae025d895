"""Go's words for what is not JSON, and what it takes for JSON where Python does not."""

from __future__ import annotations

from json import JSONDecodeError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rego.builtins.calls import invoke

from doorward.rego.errors import LimitError
from doorward.rego.golang.json_decoder import (
    MAX_EXPLAINED,
    JSONError,
    end_of_only_value,
    end_of_value,
    read_again,
)
from doorward.rego.json_text import from_json

WHY = JSONDecodeError("what Python says", "", 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "EOF"),
        (" \n", "EOF"),
        ("{", "unexpected EOF"),
        ('"a', "unexpected EOF"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        ("\\", "invalid character '\\\\' looking for beginning of value"),
        ('"a\tb"', "invalid character '\\t' in string literal"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u00x"', "invalid character 'x' in \\u hexadecimal character escape"),
        ("\ufeff1", "invalid character 'ï' looking for beginning of value"),
        ("\x1f", "invalid character '\\x1f' looking for beginning of value"),
        ("1 x", "invalid character 'x' looking for beginning of value"),
        ("01", "error: invalid character '1' after top-level value"),
        ('{} "a"', "error: invalid character 'a' after top-level value"),
        ("1 true", "error: invalid character '%!s(bool=true)' after top-level value"),
    ],
)
def test_what_is_no_json_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(JSONError) as raised:
        read_again(text.encode(), WHY)
    assert str(raised.value) == message


def test_one_null_may_follow_and_anything_where_only_the_first_value_is_read() -> None:
    assert read_again(b"[1] null", WHY) == [1]
    assert read_again(b"[1] x", WHY, first=True) == [1]
    with pytest.raises(JSONError, match="unexpected EOF"):
        read_again(b"[1", WHY, first=True)


def test_what_is_wrong_with_long_texts_is_not_looked_for() -> None:
    text = b"[" + b"1," * MAX_EXPLAINED
    with pytest.raises(JSONError, match=r"^invalid JSON$"):
        read_again(text, WHY)
    with pytest.raises(JSONError, match=r"^too deep$"):
        read_again(text, ValueError("too deep"))
    with pytest.raises(JSONError, match=r"^unexpected EOF$"):
        read_again(text, WHY, most=len(text))


@given(st.text(alphabet='{}[]",:\\u0aet1-+. \n', max_size=30))
def test_what_python_reads_go_reads(text: str) -> None:
    try:
        value = from_json(text)
    except ValueError:
        return
    assert from_json(text.encode()[: end_of_value(text.encode())]) == value


def test_go_follows_ten_thousand_levels_and_no_more() -> None:
    assert end_of_value(b"[" * 10_000 + b"]" * 10_000) == 20_000
    with pytest.raises(ValueError, match=r"invalid character '\[' exceeded max depth"):
        end_of_value(b"[" * 10_001)
    assert end_of_only_value(b"[[],{},-0,1E+2]") == 15


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a": 1e99999}', "number exponent is out of range"),
        ("1" * 5000, "number is longer than 4096 characters"),
    ],
)
def test_json_that_go_would_read_and_we_do_not(text: str, said: str) -> None:
    with pytest.raises(LimitError, match=said):
        invoke("json.unmarshal", text)
