"""Encodings, where the recorded answers are silent: bytes that are not text, bounds, odd keys."""

from __future__ import annotations

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.errors import BuiltinError, LimitError, OperandError
from doorward.rego.values import Value, make_object, make_set


def call(name: str, *operands: Value) -> Value:
    answer: Value = invoke(name, *operands)
    return answer


def test_bytes_that_are_no_text_survive_a_round_trip() -> None:
    decoded = call("base64.decode", "/w==")
    assert call("base64.encode", decoded) == "/w=="
    assert call("hex.encode", decoded) == "ff"
    assert call("urlquery.encode", decoded) == "%FF"


def test_bytes_that_are_no_text_leave_as_the_replacement_character() -> None:
    assert call("json.marshal", call("hex.decode", "ff")) == '"\\ufffd"'
    assert call("json.unmarshal", '"' + str(call("hex.decode", "ff")) + '"') == "\ufffd"


def test_a_lone_surrogate_is_no_byte() -> None:
    assert call("hex.encode", "\ud800") == "efbfbd"
    assert call("json.unmarshal", '"\\udcff"') == "\ufffd"


@pytest.mark.parametrize("text", ["YQ", "YQ=", "Y===", "YQ==YQ==", "Y-Q=", "é==="])
def test_base64_that_is_not_whole_is_refused(text: str) -> None:
    assert call("base64.is_valid", text) is False
    with pytest.raises(BuiltinError, match="illegal base64 data at input byte"):
        call("base64.decode", text)


def test_of_two_keys_with_one_text_the_later_one_stays() -> None:
    assert call("json.marshal", make_object([(1, 2), ("1", 3)])) == '{"1":3}'


def test_pretty_json_leaves_text_alone() -> None:
    value: Value = {"a,b": ['{"x": [1]}', [], {}]}
    pretty = '{\n  "a,b": [\n    "{\\"x\\": [1]}",\n    [],\n    {}\n  ]\n}'
    assert call("json.marshal_with_options", value, {"indent": "  "}) == pretty


def test_indentation_is_bounded() -> None:
    with pytest.raises(LimitError, match="longer than 64"):
        call("json.marshal_with_options", [], {"indent": " " * 65})


def test_nesting_is_bounded_where_it_is_read() -> None:
    deep: Value = []
    for _ in range(5000):
        deep = [deep]
    assert call("json.marshal", deep) == "[" * 5001 + "]" * 5001
    with pytest.raises(LimitError, match="nested too deeply"):
        call("json.unmarshal", "[" * 200_000)
    with pytest.raises(LimitError, match="nested too deeply"):
        call("json.is_valid", "[" * 200_000)


def test_deep_json_is_valid_as_in_opa() -> None:
    assert call("json.is_valid", "[" * 2000 + "]" * 2000) is True
    assert call("json.is_valid", "[" * 2000 + "]" * 2000 + " ") is True
    assert call("json.is_valid", "[" * 2000 + "]" * 2000 + "]") is False
    assert call("json.is_valid", "[" * 4000) is False


def test_a_query_object_holds_strings_only() -> None:
    assert call("urlquery.encode_object", {"b": make_set(["2", "1"]), "a": "é"}) == (
        "a=%C3%A9&b=1&b=2"
    )
    with pytest.raises(OperandError, match="values must be string"):
        call("urlquery.encode_object", {"a": [1]})


def test_a_query_of_too_many_pairs_is_refused() -> None:
    with pytest.raises(BuiltinError, match="more than 10000 parameters"):
        call("urlquery.decode_object", "a&" * 10_001)


def test_a_uri_gives_up_no_password_in_its_parts() -> None:
    assert call("uri.parse", "https://u:secret@h:1/p?q#f") == {
        "scheme": "https",
        "hostname": "h",
        "port": "1",
        "path": "/p",
        "raw_path": "/p",
        "raw_query": "q",
        "fragment": "f",
    }


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("AAA=A", 4),
        ("AAA=\nA", 5),
        ("AA=A", 2),
        ("AA=\nA", 3),
        ("AA=", 3),
        ("AA==A", 4),
        ("AAA*", 3),
        ("AAAAAAA", 4),
        ("AAAAA\r\nA\n", 7),
        ("A\n\n", 2),
    ],
)
def test_base64_says_where_it_is_wrong(text: str, position: int) -> None:
    with pytest.raises(BuiltinError, match=f"illegal base64 data at input byte {position}$"):
        invoke("base64.decode", text)


@pytest.mark.parametrize("query", ["a;b=1&c", "a=1&b;"])
def test_a_semicolon_does_not_part_a_query(query: str) -> None:
    with pytest.raises(BuiltinError, match="invalid semicolon separator in query"):
        invoke("urlquery.decode_object", query)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("a%25b", "a%b"),
        ("a%c3%a9", "aé"),
        ("[fe80::1%25a%20b]", "fe80::1%a b"),
        ("[fe80::1%25a%31b]", "fe80::1%a1b"),
        ("[fe80::1%25a%c3%a9]", "fe80::1%aé"),
    ],
)
def test_escapes_of_hosts(host: str, shown: str) -> None:
    assert invoke("uri.parse", f"http://{host}/")["hostname"] == shown


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("a[::1]", "invalid IP-literal"),
        ("[::1", "missing ']' in host"),
        ("a%2fb", 'invalid URL escape "%2f"'),
        ("a%zz", 'invalid URL escape "%zz"'),
        ("[fe80::1%25a%2fb]", 'invalid URL escape "%2f"'),
        ("[fe80::1%25a%01]", 'invalid URL escape "%01"'),
        ("[fe80::1%25a%]", 'invalid URL escape "%"'),
    ],
)
def test_hosts_that_are_none(host: str, text: str) -> None:
    with pytest.raises(BuiltinError) as caught:
        invoke("uri.parse", f"http://{host}/")
    assert str(caught.value) == f'parse "http://{host}/": {text}'
