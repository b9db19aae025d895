"""What a target's path and query become, beyond the recorded rows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.enforcement.errors import RequestParseError
from doorward.enforcement.paths import MAX_FIELDS, parse_query, parse_target


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", [""]),
        ("", [""]),
        ("//x/people", ["x", "people"]),
        ("/a/", ["a", ""]),
        ("%2Fmy%2Ftest", ["my", "test"]),
        ("/a%C3%A9%ff", ["aé\ufffd"]),
        ("/%E0%A0", ["\ufffd\ufffd"]),
        ("/a+b", ["a+b"]),
    ],
)
def test_path(target: str, path: list[str]) -> None:
    assert parse_target(target) == (path, {})


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("a", {"a": [""]}),
        ("=1", {"": ["1"]}),
        ("a=1&b=&a=2", {"a": ["1", "2"], "b": [""]}),
        ("a%26=%3D+", {"a&": ["= "]}),
    ],
)
def test_query(query: str, values: dict[str, list[str]]) -> None:
    assert parse_query(query) == values
    assert parse_target(f"/?{query}") == ([""], values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=%", 'invalid URL escape "%"'),
        ("a=%4", 'invalid URL escape "%4"'),
        ("a=%zz1", 'invalid URL escape "%zz"'),
        ("a=%é", 'invalid URL escape "%é"'),
        ("a=1;b=2", "invalid semicolon separator in query"),
        ("a&" * (MAX_FIELDS + 1), "query or form has more than 10000 parameters"),
    ],
)
def test_what_is_no_query_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(RequestParseError) as raised:
        parse_query(text)
    assert str(raised.value) == message


@given(st.lists(st.text(alphabet="ab.é ", min_size=1), min_size=1))
def test_a_path_of_plain_segments_is_split_and_nothing_else(segments: list[str]) -> None:
    assert parse_target("/" + "/".join(segments)) == (segments, {})
