"""Patterns match what Go's `filepath.Match` matches."""

from __future__ import annotations

import pytest

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
