"""Conditions on texts: what the refuter and the checker say of them is what built-ins say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from random import Random
from typing import Any, Final

import pytest

from doorward.rego import Engine
from doorward.search.proofs import automata
from doorward.search.texts import languages
from doorward.search.texts.languages import Language, UnreadableError

ALPHABET: Final = "abA/.\n-1"
TEXTS: Final = ["".join(each) for size in range(4) for each in product(ALPHABET, repeat=size)]
GLOBS: Final = ("a*", "*", "**", "a/*", "a/**", "*/b", "", "a", "*a*", "a**b", "***", "a*b*", ".*")
STOPS: Final[tuple[Any, ...]] = (None, [], ["/"], ["/", "."], ["a"])
PATTERNS: Final = (
    *("^a", "b$", "^a$", "a", "^[ab]+$", "^[^/]*$", "^a{2}$", "^a{1,2}b?$", "a|b", "^(a|b)/", "^$"),
    *(
        "",
        ".",
        "^.$",
        r"^\d$",
        r"\.",
        r"^\w+$",
        "^(a/)*b$",
        "^a.b$",
        "[a-b]{2,}",
        r"^[\d/]+$",
        "(a)",
    ),
    *("^(?:a|bb?)+$", "A", r"^\s", "-", "^[a-]$"),
)
LETTER: Final = languages.of_length(1, 1)
UNREAD: Final = (
    "a?*",
    "(?i)a",
    "^a|b",
    "a$|b",
    r"\bx",
    "[[:alpha:]]",
    "a**",
    "(a^)",
    "a{,2}",
    "a(",
    "[",
)

Condition = tuple[str, Language, automata.Automaton]


def conditions() -> Iterator[Condition]:
    for text in ("", "a", "ab", "/", "A."):
        for name, make, sides in (
            ("startswith", languages.starting, {"after": True}),
            ("endswith", languages.ending, {"before": True}),
            ("contains", languages.containing, {"before": True, "after": True}),
        ):
            yield f'{name}(input, "{text}")', make(text), automata.of_text(text, **sides)
        yield f'input == "{text}"', languages.literal(text), automata.of_text(text)
    for glob, stops in product(GLOBS, STOPS):
        chars = [] if stops is None else stops or ["."]
        if chars and "***" in glob:
            continue
        literal = "null" if stops is None else str(stops).replace("'", '"')
        text = f'glob.match("{glob}", {literal}, input)'
        yield text, languages.from_glob(glob, chars), automata.of_glob(glob, stops)
    for pattern in PATTERNS:
        text = f"regex.match(`{pattern}`, input)"
        yield text, languages.from_pattern(pattern), automata.of_pattern(pattern)


CONDITIONS: Final = list(conditions())
ENGINE: Final = Engine()


def texts_of(condition: str) -> set[str]:
    query = ENGINE.prepare(condition)
    return {text for text in TEXTS if query.results(text)}


def contains(language: Language, text: str) -> bool:
    return not languages.is_empty(languages.both([language, languages.literal(text)]))


@pytest.mark.parametrize("condition", CONDITIONS, ids=[each[0] for each in CONDITIONS])
def test_both_accept_what_the_built_in_accepts(condition: Condition) -> None:
    text, language, automaton = condition
    accepted = texts_of(text)
    for each in TEXTS[:: max(1, len(TEXTS) // 97)]:
        assert contains(language, each) is (each in accepted), each
        one = [(automaton, True), (automata.of_text(each), True)]
        assert automata.have_no_text(one) is (each not in accepted), each


@pytest.mark.parametrize("seed", range(60))
def test_both_agree_where_no_text_is_left(seed: int) -> None:
    random = Random(seed)
    chosen = [
        (random.choice(CONDITIONS), random.random() < 0.7) for _ in range(random.randint(2, 4))
    ]
    language = languages.both(
        [each[1] if holds else languages.complement(each[1]) for each, holds in chosen]
    )
    is_empty = languages.is_empty(language)
    assert automata.have_no_text([(each[2], holds) for each, holds in chosen]) is is_empty
    if is_empty:
        left = set(TEXTS)
        for each, holds in chosen:
            left = left & texts_of(each[0]) if holds else left - texts_of(each[0])
        assert not left


@pytest.mark.parametrize("read", [languages.from_pattern, automata.of_pattern])
@pytest.mark.parametrize("pattern", UNREAD)
def test_other_patterns_are_not_read(pattern: str, read: Callable[[str], Any]) -> None:
    with pytest.raises((UnreadableError, ValueError)):
        read(pattern)


@pytest.mark.parametrize("glob", ["a?", "[ab]", "{a,b}", "a\\*"])
def test_other_globs_are_not_read(glob: str) -> None:
    with pytest.raises(UnreadableError):
        languages.from_glob(glob, ["/"])
    with pytest.raises(ValueError, match="only globs of plain characters"):
        automata.of_glob(glob, ["/"])


def test_three_stars_with_delimiters_are_not_read() -> None:
    with pytest.raises(UnreadableError):
        languages.from_glob("a***", ["/"])
    with pytest.raises(ValueError, match="with delimiters is not supported"):
        automata.of_glob("a***", ["/"])


def test_an_empty_class_of_delimiters_and_large_patterns_are_refused() -> None:
    with pytest.raises(UnreadableError):
        languages.from_pattern("a" * 1000)
    with pytest.raises(ValueError, match="too many states"):
        automata.of_pattern("(a{1000}){1000}")


@pytest.mark.long
def test_too_many_states_are_not_called_empty() -> None:
    parts = [languages.from_pattern(f"^.*{char}.{{12}}$") for char in "ab"]
    assert not languages.is_empty(languages.both(parts))


@pytest.mark.parametrize(("text", "is_left"), [("role5", False), ("role", True), ("role200", True)])
def test_many_constants_take_few_sets(
    monkeypatch: pytest.MonkeyPatch, text: str, is_left: bool
) -> None:
    """What a wanted text has behind it is not looked at for the others."""
    monkeypatch.setattr(automata, "MAX_SETS", 20)
    others = [(automata.of_text(f"role{number}"), False) for number in range(200)]
    assert automata.have_no_text([(automata.of_text(text), True), *others]) is not is_left


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (languages.literal("ab"), "ab"),
        (languages.both([languages.starting("a"), languages.ending("z")]), "az"),
        (languages.both([languages.ending(".io"), languages.of_length(5, None)]), "aa.io"),
        (languages.both([languages.of_length(2, 3), languages.complement(LETTER)]), "aa"),
        (languages.complement(languages.ANYTHING), None),
    ],
)
def test_a_shortest_text_of_usual_characters_is_returned(
    language: Language, text: str | None
) -> None:
    assert languages.find_text(language) == text


def test_looking_for_a_text_ends() -> None:
    assert languages.find_text(languages.of_length(50, None), most=10) is None


@pytest.mark.parametrize(("least", "most"), [(0, 0), (0, 2), (1, 1), (1, 3), (2, None)])
def test_a_length_accepts_the_texts_that_have_it(least: int, most: int | None) -> None:
    length = languages.of_length(least, most)
    for text in TEXTS:
        is_accepted = not languages.is_empty(languages.both([length, languages.literal(text)]))
        assert is_accepted == (least <= len(text) and (most is None or len(text) <= most))
