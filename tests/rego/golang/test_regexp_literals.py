"""Patterns compared as texts answer as RE2 does."""

from __future__ import annotations

import pytest
import re2
from hypothesis import example, given
from hypothesis import strategies as st

from doorward.rego.golang.regexp_literals import MAX_TEXTS, literal_matcher

PIECES = (
    "a",
    "b",
    "é",
    "-",
    r"\.",
    r"\$",
    r"\\",
    "(a|b)",
    "(?:ab|)",
    "b?",
    "(a|é)?",
    "(|a)??",
    " ",
)
ODD = (
    ".",
    ".*",
    "a*",
    "[ab]",
    "^",
    "$",
    "|",
    "a+",
    "a{2}",
    r"\d",
    r"\pL",
    "(?i)a",
    r"\Qa\E",
    "a**",
)

patterns = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "^", ".*", "^.*"]),
        st.lists(st.sampled_from(PIECES) | st.sampled_from(ODD), max_size=5).map("".join),
        st.sampled_from(["", "$", ".*", ".*$", r"\.*", r"\$"]),
    ),
)


@pytest.mark.parametrize("pattern", ["^(a", "^(a|b", "^(?:a", "^(a|b\\\\"])
def test_what_is_cut_off_is_no_literal(pattern: str) -> None:
    assert literal_matcher(pattern) is None


@given(patterns, st.text("abé-.$\\ \n", max_size=6))
@example("^a|b$", "ba")
@example(r"a\.*", "a")
@example("a$", "a\n")
@example("^a.*", "a\nb")
@example(".*b", "a\nb")
@example("^ab??$", "ab")
@example("^ab??$", "abb")
def test_they_say_what_re2_says(pattern: str, value: str) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return
    matches = literal_matcher(pattern)
    if matches is not None:
        assert matches(value) == (compiled.search(value) is not None)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^(GET|HEAD)$", "HEAD", "HEADS"),
        (r"\.example\.com$", "a.example.com", "example.com"),
        ("^(LD_PRELOAD|LD_LIBRARY_PATH)=", "LD_PRELOAD=x", "PATH=/bin"),
        ("docker|podman", "/run/podman.sock", "/run/containerd.sock"),
        ("^/people/?$", "/people/", "/people/1"),
        ("admin", "an admin", "a guest"),
        ("", "", None),
        ("^ab??$", "ab", "abb"),
    ],
)
def test_common_patterns_are_of_this_kind(pattern: str, yes: str, no: str | None) -> None:
    matches = literal_matcher(pattern)
    assert matches is not None
    assert matches(yes)
    assert no is None or not matches(no)


@pytest.mark.parametrize(
    "pattern", ["^[a-z]+$", "a.c", "(?i)get", r"^\d$", "(a|b)" * 9, "x" + "y?" * 7]
)
def test_others_are_left_to_re2(pattern: str) -> None:
    assert literal_matcher(pattern) is None
    assert MAX_TEXTS < 2**7
