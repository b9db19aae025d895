"""Witnesses match the pattern that they were made from, the first ones at least."""

from __future__ import annotations

import re
from typing import Any

import pytest

from doorward.rego import REGISTRY
from doorward.rego.builtins.inversion.witnesses import glob_witnesses, regex_witnesses


@pytest.mark.parametrize("pattern", ["/people/*", "a?c", "[ab]x", "{on,off}-*", "**/x", "plain"])
def test_a_glob_is_matched_by_one_of_its_witnesses(pattern: str) -> None:
    match: Any = REGISTRY["glob.match"].call
    assert any(match(pattern, ["/"], text) for text in glob_witnesses(pattern))


@pytest.mark.parametrize(
    "pattern",
    ["^v[0-9]+$", r"a|b", r"(x|yz){2,3}", r"\d+\.\s*", "[^a]b.", "colou?r", "(?i)on"],
)
def test_a_regular_expression_is_matched_by_its_first_witnesses(pattern: str) -> None:
    first, *rest = regex_witnesses(pattern)
    assert re.search(pattern, first)
    assert rest


@pytest.mark.parametrize("pattern", ["(", "x" * 201, r"\p{Greek}"])
def test_what_python_does_not_read_has_none(pattern: str) -> None:
    assert regex_witnesses(pattern) == []
    assert len(glob_witnesses("*" * 201)) == 0
