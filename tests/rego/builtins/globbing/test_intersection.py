"""Two globs have a text in common, whichever is named first, and the search for it is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.rego.builtins.globbing.intersection import MAX_TEXT, intersect
from doorward.rego.errors import LimitError

LETTERS = st.text("abc", min_size=1, max_size=8)


def no_deadline() -> None:
    pass


@given(LETTERS, LETTERS)
def test_texts_meet_where_they_are_equal(one: str, other: str) -> None:
    assert intersect(one, other, no_deadline) is (one == other)


@given(LETTERS)
def test_any_text_meets_any_characters(text: str) -> None:
    assert intersect(text, ".+", no_deadline)
    assert intersect(".+", text, no_deadline)


TOKENS = st.sampled_from(
    [
        "a",
        "b",
        "-",
        ".",
        "[a-b]",
        "[bc]",
        "a*",
        "b*",
        "a+",
        ".*",
        ".+",
        "[ab]*",
        "[a-c]+",
        "\\.",
        "\\*",
        "é*",
    ]
)
GLOBS = st.lists(TOKENS, max_size=7).map("".join)


@given(st.text("abc-\n", max_size=8), GLOBS)
def test_a_text_meets_a_glob_as_one_written_with_escapes_does(text: str, glob: str) -> None:
    escaped = "".join(f"\\{char}" for char in text)  # a glob, which no regular expression answers
    meets = intersect(escaped, glob, no_deadline)
    assert intersect(text, glob, no_deadline) is meets
    assert intersect(glob, text, no_deadline) is intersect(glob, escaped, no_deadline)


def test_long_globs_are_refused() -> None:
    with pytest.raises(LimitError):
        intersect("a" * (MAX_TEXT + 1), "a", no_deadline)


def test_the_deadline_is_checked_on_the_way() -> None:
    checks: list[None] = []
    intersect("x.*a", "x[a-c]*a", lambda: checks.append(None))
    assert checks
