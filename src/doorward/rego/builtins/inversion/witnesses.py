"""Texts that match a pattern, and texts that nearly do."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["glob_witnesses", "regex_witnesses"]

_parser: Final[Any] = importlib.import_module("re._parser")  # typeshed has no stub for it

LONGEST: Final = 200
"""Characters of a witness."""
_BRACES: Final = re.compile(r"\{([^{},]{0,64})(?:,[^{}]{0,200})?\}")
_CLASS: Final = re.compile(r"\[!?([^\][])[^\][]{0,64}\]")


def glob_witnesses(pattern: str) -> list[str]:
    """Texts that match a glob: with its stars matching nothing, a short text, and text with
    delimiters.
    """
    if len(pattern) > LONGEST:
        return []
    plain = _CLASS.sub(r"\1", _BRACES.sub(r"\1", pattern)).replace("?", "q")
    texts = [plain.replace("**", "a/b").replace("*", star) for star in ("", "a", "a/b", "a.b")]
    return list(dict.fromkeys([*texts, f"{texts[1]}/x", f"x{texts[1]}"]))


def regex_witnesses(pattern: str) -> list[str]:
    """Texts that match a regular expression: the shortest, a longer one, and both with text around
    them. [] for a pattern that Python does not read as RE2 does.
    """
    if len(pattern) > LONGEST:
        return []
    try:
        with warnings.catch_warnings(action="ignore"):  # of what Python may read otherwise one day
            tree: Any = _parser.parse(pattern)
        texts = ["".join(_text(tree, more))[:LONGEST] for more in (0, 1)]
    except (re.error, RecursionError, OverflowError, KeyError):
        return []
    return list(dict.fromkeys([*texts, f"{texts[0]}x", f"x{texts[0]}"]))


def _text(tree: Any, more: int) -> Iterator[str]:
    """The pieces of a text that a parsed pattern matches, each repetition `more` times above its
    minimum.
    """
    for operator, operand in tree:
        match str(operator):
            case "LITERAL":
                yield chr(operand)
            case "ANY":
                yield "a"
            case "NOT_LITERAL":
                yield "b" if chr(operand) == "a" else "a"
            case "IN":
                yield _member(operand)
            case "BRANCH":
                branches = operand[1]
                yield from _text(branches[min(more, len(branches) - 1)], more)
            case "SUBPATTERN":
                yield from _text(operand[-1], more)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = operand
                for _ in range(min(least + more, most, LONGEST)):
                    yield from _text(inner, more)


def _member(items: Any) -> str:
    """A character in a class; for a negated class, a character that classes seldom list."""
    operator, operand = items[0]
    match str(operator):
        case "NEGATE":
            return "~"
        case "LITERAL":
            return chr(operand)
        case "RANGE":
            return chr(operand[0])
    return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}.get(str(operand), "a")
