"""YAML, where the recorded answers are silent: explicit tags, numbers, bounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial

import pytest
from tests.growth import grows
from tests.rego.builtins.calls import invoke

from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang import yaml as go_yaml
from doorward.rego.values import Value, to_json

marshal = partial(invoke, "yaml.marshal")
unmarshal = partial(invoke, "yaml.unmarshal")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: !!str 1\nb: !!float 1\nc: !!int '0x10'", '{"a":"1","b":1,"c":16}'),
        ("- -0x10\n- 0b11\n- -0o7\n- +5\n- 09", "[-16,3,-7,5,9]"),
        ("- 1_0\n- .5\n- 5.\n- 1e2\n- 1e-7\n- 1e21", "[10,0.5,5,100,1e-7,1e+21]"),
        ("9223372036854775807: 1\n1e6: 2\n0.1: 3", '{"0.1":3,"1e+06":2,"9223372036854775807":1}'),
        ("a: &a [1, *b]\n", None),
        ("&a [*a]", None),
        ("a: !!int x", None),
        ("? [1]\n: 2", None),
        ("<<: 1", None),
        ("<<: [{a: 1, b: 1}, {a: 2}]", '{"a":1,"b":1}'),
        ("{.nan: 1, .inf: 2, -.inf: 3}", '{"-.inf":3,".inf":2,".nan":1}'),
        ("1e300: 1\n-1e39: 2\n1.5: 3", '{"-.inf":2,".inf":1,"1.5":3}'),
        ("a: !!binary eA==", '{"a":"x"}'),
        ("a: !!binary x", None),
        ('"\\U0001F600"', '"😀"'),
        ('"\\U00110000"', None),
        ('"\\UFFFFFFFF"', None),
        ('"\\uDC80"', None),
        ('{"\\uD83D\\uDE00": 1}', None),
        ("a: ! 1", '{"a":"1"}'),
        ("é: [\t1,\t2,\n\t3]", '{"é":[1,2,3]}'),
        ("é: a\n  b\n\n  c", '{"é":"a b\\nc"}'),
        ("é: a\n  \tb\n", '{"é":"a b"}'),
        ("é: a # c\nb: c#d", '{"b":"c#d","é":"a"}'),
        ("é: a\n---\nb", '{"é":"a"}'),
        ("é\r\nb\n\x85b", '"é b\\nb"'),
        ("9223372036854775808: 1", None),
        ("1.17549435e-38: 1\n5e-324: 2", '{"0":2,"1.1754944e-38":1}'),
        ("+9223372036854775807: 1", '{"9223372036854775807":1}'),
        ("+18446744073709551615", "18446744073709552000"),
        ("- 0b-1\n- 0b+1\n- -0b-1\n- 0B-1", '[-1,1,"-0b-1","0B-1"]'),
        ("0b-1" + "0" * 70, '"0b-1' + "0" * 70 + '"'),
        ("- .5_1\n- ._5\n- .5_\n- .1e1_0", '[0.51,"._5",".5_",1000000000]'),
        ("!!float 18446744073709551615", None),
        ("!!timestamp 2001-01-01", '"2001-01-01"'),
        ("!!timestamp 2001-13-01", None),
        ("!!binary 'eA\n\n  =='", '"x"'),
        ("!!binary /w==", '"\ufffd"'),
        ("!!merge '<<': {a: 1}\n! <<: {b: 1}", '{"a":1,"b":1}'),
        ("! '<<': {b: 1}", '{"b":1}'),
        ("a: .nan\nb: {~: 1}\na: 1\nb: 2", '{"a":1,"b":2}'),
        ("a: &a [.nan]\nb: *a", None),
        ("a: &a {~: 1}\nb: {<<: *a}", None),
        ("a: &a 1\n*a : [2, .nan]\n1: &b [*a]\nc: *b", '{"1":[1],"a":1,"c":[1]}'),
    ],
)
def test_reading(text: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(BuiltinError):
            unmarshal(text)
    else:
        assert to_json(unmarshal(text)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n b: c", "line 2: mapping values are not allowed in this context"),
        ("- a\nb: c", "line 1: did not find expected '-' indicator"),
        ("a: 1\n- b", "line 1: did not find expected key"),
        ("%YAML 1.3\n---\na", "found incompatible YAML document"),
        ("? {a: [1, ~]}\n: 2", 'invalid map key: map[interface {}]interface {}{"a":[]interface {}'
         "{1, interface {}(nil)}}"),
        ("é: a\n\tb", "line 2: found a tab character that violates indentation"),
        ("%YAML! 1.1\n---\na", "found unexpected non-alphabetical character"),
        ("%FOO 1\n---\na", "found unknown directive name"),
        ("% x\n---\na", "could not find expected directive name"),
    ],
)  # fmt: skip
def test_errors_have_the_words_of_opas_library(text: str, message: str) -> None:
    with pytest.raises(BuiltinError, match=f"^yaml: {re.escape(message)}$"):
        unmarshal(text)


@pytest.mark.parametrize(
    "value",
    [
        {"a": "x" * 100 + " " + "y" * 100, "b": ["1", "yes", "12:30", "2020-01-01", "- a", "a: b"]},
        {"": "", "long key " * 30: None, "multi\nline": "  lead\ntrail \n\n", "é😀": "\x00\r"},
        [[[]], {}, True, 1.5, -7, {"a": {"b": [{"c": []}]}}],
    ],
)
def test_what_is_written_reads_back(value: Value) -> None:
    assert unmarshal(marshal(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2001-01-01", '"2001-01-01"\n'),
        ("2001-13-01", "2001-13-01\n"),
        ("2001-01-01 10:20:30 +1", "2001-01-01 10:20:30 +1\n"),
        ("2001-1-1T1:2:3Z", '"2001-1-1T1:2:3Z"\n'),
        ("12:30", '"12:30"\n'),
        ("0b-1", '"0b-1"\n'),
        ("+18446744073709551615", '"+18446744073709551615"\n'),
        (".5_1", '".5_1"\n'),
        ("a\x85b", "a b\n"),
        ("a \x85\x85 b", "|-\n  a\n  b\n"),
        ("\x85 ", "' '\n"),
        ("\ufeff", '"\\uFEFF"\n'),
        ("\x7f", None),
        ("\x80", None),
        ("\ufffe", None),
        ("a\x85--- b", None),
        ({"a\x85b": 1}, None),
        ({"a" * 1022: 1}, "? " + "a" * 1022 + "\n: 1\n"),
        ({"a" * 1023: 1}, None),
        ({'"' * 512: 1}, None),
    ],
)
def test_strings_are_what_their_json_is_as_yaml(value: Value, text: str | None) -> None:
    if text is None:
        with pytest.raises(BuiltinError):
            marshal(value)
    else:
        assert marshal(value) == text


@pytest.mark.parametrize(
    "keys",
    [
        ["_", "a9", "a10", "b"],
        ["²"],
        ["a²", "a1", "a10", "a٣", "a٢0"],
        ["a.", "a1.", "a1b", "aab"],
        ["a", "a1", "a01", "a001"],
        ["a1.", "a10", "a1٣"],
        ["a0.", "a00", "a01"],
        ["a92233720368547758080", "a1"],
        ["a1", "a1" + "0" * 63, "a1" + "0" * 70],
        ["2", "x" + "1" * 100],
        ["x9999999999999999999", "x2"],
    ],
)
def test_keys_are_sorted_as_by_opa(keys: list[str]) -> None:
    written = marshal({key: 1 for key in sorted(keys)})
    assert list(unmarshal(written)) == keys


def test_large_numbers_have_an_exponent() -> None:
    assert [marshal(n) for n in (10**18, 10**20, 123456)] == [
        "1000000000000000000\n",
        "1e+20\n",
        "123456\n",
    ]


def test_aliases_that_multiply_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    with pytest.raises(BuiltinError, match="excessive aliasing"):
        unmarshal(bomb)


@pytest.mark.parametrize(("width", "is_read"), [(10, True), (11, True), (30, False)])
def test_keys_and_aliases_count_beside_what_they_repeat(width: int, *, is_read: bool) -> None:
    lines = [f"a0: &a0 [{', '.join(['x'] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in (1, 2)]
    with nullcontext() if is_read else pytest.raises(BuiltinError, match="excessive aliasing"):
        unmarshal("\n".join(lines))


def test_more_values_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_yaml, "MAX_NODES", 200)
    text = f"a: &a [{'1,' * 50}]\nb: [*a, *a"
    assert isinstance(go_yaml.unmarshal(f"{text}]", max_text=200), dict)
    with pytest.raises(LimitError, match="document has more than 200 values"):
        go_yaml.unmarshal(f"{text}, *a]", max_text=200)


def test_long_and_deep_texts_are_refused() -> None:
    with pytest.raises(LimitError, match="longer than"):
        unmarshal("a" * (1024 * 1024 + 1))
    with pytest.raises(LimitError, match="nested too deeply"):
        unmarshal("[" * 5000 + "]" * 5000)
    with pytest.raises(LimitError, match="longer than"):
        marshal("a" * (1024 * 1024))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "[" * n + "]" * n,
        lambda n: "[" * 300 + "]" * 300 + (", " + "[" * 300 + "]" * 300) * (n // 300),
        lambda n: "[" * 300 + "a, " * n + "]" * 300,
        lambda n: "{a: " * n + "}" * n,
        lambda n: "- " * n + "a",
    ],
)
def test_brackets_take_time_in_proportion(make: Callable[[int], str]) -> None:
    def read(text: str) -> None:
        with suppress(LimitError, BuiltinError):
            unmarshal(text)

    assert not grows(read, make, 3_000)


@pytest.mark.parametrize("length", [1000, 1100])
def test_keys_end_with_their_line_and_with_1024_characters(length: int) -> None:
    for text in ("[" + "a" * length + ": 1]", '{"' + "a" * length + '": 1}'):
        if length < 1024:
            assert unmarshal(text) is not None
        else:
            with pytest.raises(BuiltinError):
                unmarshal(text)
    with pytest.raises(BuiltinError):
        unmarshal("[[a, b]\n: 1]")
