"""Templates with unusual numbers, bytes that are not UTF-8, and data without JSON, as OPA 1.20.2
answers.
"""

from __future__ import annotations

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.errors import BuiltinError
from doorward.rego.golang.octets import from_bytes
from doorward.rego.values import Key, Value

BYTE = from_bytes(b"\xff")


def render(template: str, variables: dict[Key, Value] | None = None) -> str:
    text: str = invoke("strings.render_template", template, variables or {})
    return text


@pytest.mark.parametrize(
    ("constants", "text"),
    [
        ("{{0x1p-2}} {{0x1.8p1}} {{0X1P1}} {{0x.8p1}} {{0x1p+1_0}}", "0.25 3 2 1 1024"),
        ("{{1e1_0}} {{1_000.5}} {{1.}} {{.5}} {{09.5}} {{01e1}}", "1e+10 1000.5 1 0.5 9.5 10"),
        ("{{017}} {{0_7}} {{0x_1}} {{0b11}} {{0o17}} {{+5}} {{-0}}", "15 7 1 3 15 5 0"),
        ("{{9223372036854775807}} {{-9223372036854775808}}", None),
        ("{{1e-400}} {{-0.0}} {{1e21}} {{0x1e}}", "0 -0 1e+21 30"),
        ("{{if false}}{{9223372036854775808}}{{end}}", ""),
        (
            "{{'\\xff'}} {{'\\377'}} {{'é'}} {{'\\''}} {{'\\u00e9'}} {{'\"'}}",
            "255 255 233 39 233 34",
        ),
    ],
)
def test_constants_are_read_as_by_go(constants: str, text: str | None) -> None:
    expected = constants.replace("{", "").replace("}", "") if text is None else text
    assert render(constants) == expected


@pytest.mark.parametrize(
    "constant",
    [
        *("1e400", "-1e400", "0x1p99999", "99999999999999999999", "-9223372036854775809"),
        *("+9223372036854775808", "0x1ffffffffffffffff", "9223372036854775808"),
        *(
            "08",
            "0_9",
            "0x",
            "0b",
            "1_",
            "1_.5",
            "1._5",
            "1e_1",
            "1e",
            "0x1.8",
            "0b2",
            "0xp1",
            "1i",
        ),
        *("'ab'", "'\\400'", "'\\ud800'", "'\\\"'", "''", "'\\z'"),
        *('"\\400"', '"\\\'"', '"\\ud800"', '"\\U00110000"', '"\\z"'),
    ],
)
def test_constants_that_go_refuses_are_errors(constant: str) -> None:
    with pytest.raises(BuiltinError):
        render(f'{{{{printf "%x" {constant}}}}}')


def test_names_hold_letters_and_decimal_digits() -> None:
    names: dict[Key, Value] = {"é": 1, "a٣": 2, "٣": 3, "_a": 4}
    assert render("{{.é}}{{.a٣}}{{.٣}}{{._a}}{{$a٣ := 5}}{{$a٣}}", names) == "12345"


@pytest.mark.parametrize("name", [".²", ".a²", ".a½", ".Ⅷ", "$²", "x²", "٣a"])
def test_names_with_other_characters_are_errors(name: str) -> None:
    with pytest.raises(BuiltinError):
        render(f"{{{{{name} := 1}}}}{{{{{name}}}}}", {name[1:]: 1})


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{{index "\\xff" 0}}', "255"),
        ('{{len "\\xff"}} {{len "\\u00ff"}} {{len "\\377"}}', "1 2 1"),
        ('{{printf "%x % X" "\\xff" "\\xffa"}}', "ff FF 61"),
        ('{{printf "%.1x" "é"}}', "c3"),
        ('{{urlquery (slice "é" 0 1)}} {{urlquery "é"}}', "%C3 %C3%A9"),
        ('{{js (slice "é" 0 1)}}', "\ufffd"),
        ('{{printf "%q" (slice "é" 0 1)}}', '"\\xc3"'),
        ('{{lt "\\xff" "\\U0001F600"}} {{lt 1 2}} {{lt "a" "b"}}', "false true true"),
        ('{{slice "é" 0 1}}{{slice "é" 1 2}}', "é"),
        ('{{len (print (slice "é" 0 1) "\\xa9")}} {{"\\xc3\\xa9"}}', "2 é"),
    ],
)
def test_texts_are_bytes(template: str, text: str) -> None:
    assert render(template) == text


def test_sprintf_writes_bytes() -> None:
    assert invoke("sprintf", "%x", [BYTE]) == "ff"
    assert invoke("sprintf", "%s%s", [from_bytes(b"\xc3"), from_bytes(b"\xa9")]) == "é"
    assert invoke("sprintf", "%-1s%s", [from_bytes(b"\xc3"), from_bytes(b"\xa9")]) == "é"


@pytest.mark.parametrize(
    "value",
    [BYTE, "\x00", "\x07", "\x0b", "\x7f", "\U000e0001", {"\x01": 1}, frozenset([1]), {1: 2}],
)
def test_data_without_json_is_an_error(value: Value) -> None:
    with pytest.raises(BuiltinError):
        render("x", {"a": value})


def test_data_with_other_control_characters_is_printed() -> None:
    assert render("{{.a}}", {"a": "\b\f\n\r\t\x85\u200b\\a"}) == "\b\f\n\r\t\x85\u200b\\a"
