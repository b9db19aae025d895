"""Patterns of Python's `re` take time that grows with the text, and no faster.

`re` searches with the interpreter's lock held: one request whose text makes a pattern quadratic
stops every other. So every pattern of the sources is in patterns.toml, and is attacked here in two
ways: with texts that `patterns.attacks` derives from the pattern, and with the slowest that is
known, written there. A new pattern without an entry fails.

An entry has `worst` (what precedes, what is repeated, what follows), or says why it
needs none: `own` (nobody's request is the text) or `why`. `by` names the methods of a pattern that
is called by way of another name, `in` the variable that holds what a function compiles.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.patterns import (
    Attack,
    Use,
    digest_of,
    find_slow,
    grows_by,
    longest_literal,
    patterns_in,
    read_attacked,
    slowest,
    uses,
    write_attacked,
)
from tests.rounds import rounds

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("trees")]

LISTED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("patterns.toml").read_text()
)
LINEAR = [key for key, entry in LISTED.items() if "worst" in entry]


@cache
def uses_of_sources() -> dict[str, Use]:
    """The patterns of the sources, read once, and not when tests are collected."""
    return uses()


def entry_for(key: str) -> str:
    """What a new entry could look like; json's escapes are TOML's."""
    worst = slowest(uses_of_sources()[key])
    texts = json.dumps([worst.prefix, worst.pump, worst.suffix])
    return f"\n[{json.dumps(key)}]\nworst = {texts}"


def test_every_pattern_is_listed() -> None:
    new = sorted(set(uses_of_sources()) - set(LISTED))
    assert new == [], "add to tests/patterns.toml:\n" + "\n".join(map(entry_for, new))
    assert sorted(set(LISTED) - set(uses_of_sources())) == [], (
        "these are gone: remove their entries"
    )


def test_every_entry_says_how_it_is_tested_or_why_not() -> None:
    for key, entry in LISTED.items():
        assert set(entry) <= {"by", "in", "own", "why", "worst"}, key
        assert sum(name in entry for name in ("own", "why", "worst")) == 1, key
        assert ("by" in entry) != bool(uses_of_sources()[key].methods) or "worst" not in entry, key


def of(key: str) -> tuple[list[re.Pattern[Any]], list[str]]:
    """The patterns of an entry, and the methods by which they are called."""
    entry, use = LISTED[key], uses_of_sources()[key]
    if "in" not in entry:
        return list(use.patterns), list(use.methods or entry["by"])
    module = importlib.import_module("doorward." + key.partition(".py:")[0].replace("/", "."))
    return list(patterns_in(getattr(module, entry["in"]))), entry["by"]


def test_no_text_makes_a_pattern_slow() -> None:
    """Patterns that stood an attack once stand it again, so `make soak` alone repeats all.

    `DOORWARD_ATTACKED=write` notes those of a run that passed.
    """
    known = set() if rounds(2) == 2 else read_attacked()
    attacked = set()
    for key in LINEAR:
        patterns, methods = of(key)
        assert patterns, key
        for pattern in patterns:
            for method in methods:
                attacked.add(digest := digest_of(pattern, method))
                if digest not in known:
                    attack = find_slow(pattern, method)
                    assert attack is None, (key, pattern.pattern, method, attack)
    if os.environ.get("DOORWARD_ATTACKED") == "write":
        write_attacked(attacked)


def test_the_worst_text_takes_time_in_proportion() -> None:
    for key in LINEAR:
        patterns, methods = of(key)
        worst = Attack(*LISTED[key]["worst"])
        for pattern in patterns:
            for method in methods:
                assert not grows_by(pattern, method, worst, 1 << 15), (key, pattern.pattern, method)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r'"(?:[^"\\]|\\.)*+"', "sub"),  # `_QUOTED`, as it once was
        (r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", "fullmatch"),  # `_AMOUNT`, as it once was
        (r"(a+)+\Z", "match"),
        (r"(?:a|a)*b", "match"),
        (r"(?:\w\w?)*,", "match"),
        (r"x*x*x*y", "match"),
        (r"<!--.*?-->", "search"),
        (r"[a-z]+@", "search"),
        (r"\s+\Z", "search"),
        (rb"k(?:ab|abab)*c", "match"),
    ],
)
def test_a_pattern_that_is_not_linear_is_noticed(pattern: str | bytes, method: str) -> None:
    assert find_slow(re.compile(pattern), method)


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"\b[Ww]hat stands (?!for\b)", "hat stands "),
        (r"(?:is|are) no (?!longer\b)\w+", " no "),
        (r"a|b", ""),
        (r"(ab)+c", "c"),
        ("", ""),
    ],
)
def test_a_text_without_the_literal_of_a_pattern_does_not_match(pattern: str, literal: str) -> None:
    assert longest_literal(pattern) == literal


def test_a_new_use_is_seen_wherever_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        "import re\n"
        "def one(text):\n"
        "    return re.sub(r'a+', '', text, flags=re.I)\n"
        "class Two:\n"
        "    def three(self, text):\n"
        "        return re.compile('b').match(text) or re.compile(text)\n"
    )
    actual = uses(tmp_path)
    assert set(actual) == {"new.py:one: 'a+'", "new.py:Two: 'b'", "new.py:Two"}
    assert actual["new.py:one: 'a+'"].patterns == (re.compile("a+", re.IGNORECASE),)
    assert actual["new.py:Two: 'b'"].methods == {"match"}


@pytest.mark.parametrize("line", ["from re import match", "import re as regex"])
def test_a_use_that_could_not_be_seen_is_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / "new.py").write_text(line + "\n")
    with pytest.raises(AssertionError, match="re"):
        uses(tmp_path)
