"""Texts that a glob matches and that OPA's library does not find, and the bounds of the search."""

from __future__ import annotations

from random import Random

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins.globbing.compiler import _finds_all, _Parser, compile_glob
from doorward.rego.builtins.globbing.search import Part, build_finder
from doorward.rego.errors import LimitError
from doorward.rego.golang.octets import to_bytes


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


def random_glob(random: Random, *, choices: bool) -> tuple[str, str]:
    """A glob of texts, wild cards that are not next to each other and, with `choices`, braces
    around different texts; and a text that it matches.
    """
    letters = "ab/c" if choices else "aé/b"
    glob, text, is_wild = "", "", False
    for _ in range(random.randint(1, 7)):
        words = ["".join(random.choices(letters, k=random.randint(1, 3))) for _ in range(3)]
        if not is_wild and random.random() < 0.5:
            sign, is_wild = random.choice(["*", "**"]), True
            glob, text = glob + sign, text + random.choice(["", *words])
            continue
        is_wild = False
        if choices and random.random() < 0.4:
            different = sorted(set(words))
            glob, text = f"{glob}{{{','.join(different)}}}", text + random.choice(different)
        else:
            glob, text = glob + words[0], text + words[0]
    return glob, text


@pytest.mark.parametrize("choices", [False, True])
def test_globs_of_texts_and_wild_cards_need_no_search(choices: bool) -> None:
    random = Random(7)
    for _ in range(2000):
        glob, text = random_glob(random, choices=choices)
        stops = random.choice(["", "/", ":/"])
        parts = _Parser(glob).parts()
        assert _finds_all(parts, choices=True)
        if compile_glob(glob, stops)(text):
            assert build_finder([part.searched for part in parts], stops)(to_bytes(text))
