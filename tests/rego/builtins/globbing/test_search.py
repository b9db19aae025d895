"""Texts that a glob matches and that OPA's library does not find, and the bounds of the search."""

from __future__ import annotations

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins.globbing.search import Part, build_finder
from doorward.rego.errors import LimitError


@pytest.mark.parametrize(
    ("glob", "delimiters", "text", "is_found"),
    [
        ("a***", "/", "a", False),
        ("a***", "/", "ab", True),
        ("***", "/", "", False),
        ("a**b", "/", "a/b", True),
        ("api{**,/a}", ":", "apia/b/c", False),
        ("api{**,/a}", "/", "api/a", True),
        (".{*,[!a]}", "/", ".ab", False),
        ("a{*b,c}", "/", "ac", True),
        ("a{*b,c}", "/", "axb", False),
        ("{*,ab}/a", "/", "x/a", False),
        ("{*b,c}", "/", "xb", True),
        ("{b*,bc}d", "/", "bcd", True),
        ("{a,ab}c", "/", "abc", True),
        ("{a*b,a*c}d", "/", "axcd", True),
        ("{,a}b{,c}", "/", "bc", True),
        ("a{b,}", "/", "a", True),
        ("{a[bc],a[bc]d}e", "/", "abde", True),
        ("a{?,b}c", "/", "axc", True),
        ("*a*b*", "/", "xaybz", True),
        ("a*b?c", "/", "axbyc", True),
        ("??*", "/", "ab", True),
        ("??*", "/", "a/", False),
        ("?*?", "", "a", False),
        ("?*?", "", "abc", True),
        ("[!ab]?*", "", "cde", True),
        ("a?b*", "", "axb", True),
        ("**a**", "/", "x/a/y", True),
        ("x{**a**,b}", "/", "x/a/y", False),
        ("x{a**b,c}y", "/", "xa/by", False),
        ("{**a,b}y", "/", "x/ay", False),
        ("{a**,b}y", "/", "a/xy", False),
        ("{*a,b}y", "/", "xay", False),
        ("{a*,b}y", "/", "axy", False),
        ("{a,b}{c,d}", "/", "ad", True),
        ("{[a-c],x}y", "/", "by", True),
        ("[a-c][!a-c]*d", "/", "bxzd", True),
        ("?é", ":", "aé", False),
        ("é?", ":", "éa", False),
        ("é*a?", ":", "éxab", True),
        ("a\\", "/", "a", True),
        ("a{*,}", "/", "a", True),
    ],
)
def test_search(glob: str, delimiters: str, text: str, *, is_found: bool) -> None:
    assert invoke("glob.match", glob, list(delimiters) or None, text) is is_found


def test_long_searches_are_refused() -> None:
    find = build_finder([Part("text", "c"), *[Part("*"), Part("text", "b")] * 20], "/")
    assert find(b"c" + b"ab" * 20) is True
    with pytest.raises(LimitError, match="steps to match"):
        find(b"ab" * 2000)
