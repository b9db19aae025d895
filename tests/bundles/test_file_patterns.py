"""Patterns match what Go's `filepath.Match` matches."""

from __future__ import annotations

from itertools import product

import pytest
from tests.growth import grows

from doorward.bundles.file_patterns import matches


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*", "a.rego"),
        ("*", ""),
        ("a/*.rego", "a/b.rego"),
        ("a**b", "axxb"),
        ("?", "é"),
        ("[^x]*.rego", "a.rego"),
        ("[!x]*.rego", "!.rego"),
        ("[!x]*.rego", "x.rego"),
        ("[a-c]", "b"),
        ("[a-c0-9]", "7"),
        ("[^c-a]", "b"),
        (r"\*", "*"),
        (r"[\]a]", "]"),
        (r"[\--a]", "-"),
        ("a]", "a]"),
        ("*\n*", "a\nb"),
        ("a+(b)", "a+(b)"),
    ],
)
def test_a_name_matches(pattern: str, name: str) -> None:
    assert matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*", "a/b"),
        ("?", "/"),
        ("a", "A"),
        ("a", "a\n"),
        ("[^x]*.rego", "x.rego"),
        ("[!x]*.rego", "a.rego"),
        (r"\*", r"\a"),
        ("[c-a]", "b"),
        # Not valid.
        ("[a", "[a"),
        ("[]", "[]"),
        ("[]a]", "]"),
        ("[-a]", "-"),
        ("[a-]", "-"),
        ("a\\", "a\\"),
        ("[a-", "a"),
    ],
)
def test_a_name_does_not_match(pattern: str, name: str) -> None:
    assert not matches(pattern, name)


def _matches(pattern: str, name: str) -> bool:
    """Try each length of a star."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        segment = len(name.partition("/")[0])
        return any(_matches(pattern[1:], name[length:]) for length in range(segment + 1))
    is_same = bool(name) and (pattern[0] == name[0] or (pattern[0] == "?" and name[0] != "/"))
    return is_same and _matches(pattern[1:], name[1:])


def test_stars_match_what_any_of_their_lengths_matches() -> None:
    names = ["".join(name) for length in range(5) for name in product("ab/", repeat=length)]
    for length in range(5):
        for pattern in map("".join, product("a*?/", repeat=length)):
            for name in names:
                assert matches(pattern, name) == _matches(pattern, name), (pattern, name)


def test_many_stars_take_time_in_proportion() -> None:
    pattern = "*a" * 20 + "*b"
    assert not grows(lambda name: matches(pattern, name), lambda length: "a" * length, 1000)
