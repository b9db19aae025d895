"""Templates with unusual numbers, bytes that are not UTF-8, and data without JSON, as OPA 1.20.2
answers.
"""

from __future__ import annotations

from typing import Final

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


DATA: Final[dict[Key, Value]] = {"s": ["x", None, 1], "t": None, "m": {"k": 1}}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{.x.y.z}}|{{.m.x.y}}|{{$.x.y}}|{{$x := .t}}{{$x.k}}|{{(.t).k}}",
         "|".join(["<undefined>"] * 5)),
        ("{{.t.k}}", None),
        ("{{.m.k.x}}", None),
        ("{{range .s}}{{.k}}{{end}}", None),
        ("{{range $v := .s}}{{if not $v}}{{$v.k}}{{end}}{{end}}", None),
        ("{{range .s}}{{if not .}}{{.}}{{end}}{{end}}", "<undefined>"),
        ('{{template "T" .t}}{{define "T"}}{{.k}}{{end}}', "<undefined>"),
        ('<no value>{{"<no value>"}}{{print .t}}', "<undefined><undefined><nil>"),
        ("{{html .t}}{{js .x}}{{urlquery .x}}",
         "&lt;no value&gt;\\u003Cno value\\u003E%3Cno+value%3E"),
        ("{{html .s .t}}", "[x &lt;nil&gt; 1]&lt;no value&gt;"),
        ('{{printf "%v %s %5v %05d" .s .s .s .t}}',
         "[x <nil> 1] [x <nil> 1] [    x <nil>     1] %!d(<nil>)"),
        ('{{printf "%d %q %x" .s .s .m}}',
         '[%!d(string=x) <nil> %!d(json.Number=1)] ["x" <nil> "1"] map[6b:31]'),
        ('{{printf "%T %T %T %T %T" .s .m .t 1 (index "a" 0)}}',
         "[]interface {} map[string]interface {} <nil> int uint8"),
        ('{{printf "%#v" .s}}', '[]interface {}{"x", interface {}(nil), "1"}'),
        ('{{printf "%#v %w" .m .m}}',
         'map[string]interface {}{"k":"1"} %!w(map[string]interface {}=map[k:1])'),
        ('{{printf "%#v %v %c" (index "a" 0) (index "a" 0) (index "a" 0)}}', "0x61 97 a"),
        ('{{printf "a" .t (index "a" 0) 1}}', "a%!(EXTRA <nil>, uint8=97, int=1)"),
        ('{{printf "%*d" (index "\\x03" 0) 1}}{{slice "abc" (index "\\x01" 0)}}', "  1bc"),
        ('{{index "abc" (index "\\x01" 0)}}{{index .m.k 0}}', "9849"),
        ("{{index .t}}", None),
        ('{{slice .m.k 0 | printf "%d"}}', "%!d(json.Number=1)"),
        ("{{range $i, $v := 3}}{{end}}", None),
        ("{{range $i, $v := 0}}{{end}}", None),
        ("{{range $i, $v = .x}}{{end}}", None),
        ("{{if false}}{{$y = 1}}{{range $i, $v = .x}}{{end}}{{end}}", ""),
        ("{{$i := 1}}{{$v := 2}}{{range $i, $v = .x}}{{end}}{{$i}}{{$v}}",
         "<undefined><undefined>"),
        ("{{range $i, $v := .x}}{{else}}{{$v}}{{end}}", "<undefined>"),
        ('{{range index "\\x02" 0}}{{.}}{{end}}', "01"),
    ],
)  # fmt: skip
def test_what_is_missing_and_what_is_null(template: str, text: str | None) -> None:
    if text is None:
        with pytest.raises(BuiltinError):
            render(template, DATA)
    else:
        assert render(template, DATA) == text
