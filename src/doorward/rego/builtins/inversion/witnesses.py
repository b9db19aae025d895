"""Texts that match a pattern, and texts that nearly do."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["glob_witnesses", "group_witnesses", "instances_of", "regex_witnesses"]

_parser: Final[Any] = importlib.import_module("re._parser")  # typeshed has no stub for it

LONGEST: Final = 200
"""The most characters of a witness, and the most items of an instance."""
ALTERNATIVES: Final = 8
"""The most alternatives of a glob or of a schema that are tried."""
DEPTH: Final = 12
"""Schemas nested deeper than this are not followed; an arbitrary value stands for them."""
_BRACES: Final = re.compile(r"\{([^{},]{0,64})(?:,[^{}]{0,200})?\}")
_CLASS: Final = re.compile(r"\[!?([^\][])[^\][]{0,64}\]")


def glob_witnesses(pattern: str) -> list[str]:
    """Texts that should match a glob: its first alternative with nothing, a short text, and texts
    with delimiters in place of its stars, and each further alternative with the short text; last,
    two texts that may not match. [] for a glob longer than `LONGEST`.
    """
    if len(pattern) > LONGEST:
        return []
    *others, first = reversed(_alternatives(pattern))
    texts = _without_stars(first)
    more = [text for each in reversed(others) for text in _without_stars(each)[1:2]]
    return list(dict.fromkeys([*texts, *more, f"{texts[1]}/x", f"x{texts[1]}"]))


def _alternatives(pattern: str) -> list[str]:
    """Return globs without braces, one for each alternative in them, at most `ALTERNATIVES`:
    `a{b,c}` -> `ab`, `ac`.
    """
    patterns = [pattern]
    while len(patterns) < ALTERNATIVES and (match := _BRACES.search(patterns[0])):
        start, end = match.span()
        options = match[0][1:-1].split(",")[:ALTERNATIVES]
        patterns = [
            each[:start] + option + each[end:] for each in patterns[:1] for option in options
        ] + patterns[1:]
    return [_BRACES.sub(r"\1", each) for each in patterns[:ALTERNATIVES]]


def _without_stars(pattern: str) -> list[str]:
    plain = _CLASS.sub(r"\1", pattern).replace("?", "q")
    return [plain.replace("**", "a/b").replace("*", star) for star in ("", "a", "a/b", "a.b")]


def regex_witnesses(pattern: str) -> list[str]:
    """Texts that match a regular expression: a short one and a longer one, both cut to `LONGEST`
    characters; then two that only contain a match. [] for a pattern that Python cannot parse or
    that is longer than `LONGEST`.
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


def group_witnesses(pattern: str, groups: list[Any]) -> list[str]:
    """Texts that match a regular expression, with the strings in `groups` as the texts of groups 1,
    2, …; a group may have any text where `groups` has another kind of value. [] for a pattern that
    Python cannot parse or that is longer than `LONGEST`; texts are cut to that length.
    """
    if len(pattern) > LONGEST:
        return []
    text_of_group = {number: text for number, text in enumerate(groups, 1) if isinstance(text, str)}
    try:
        with warnings.catch_warnings(action="ignore"):
            tree: Any = _parser.parse(pattern)
        return list(
            dict.fromkeys("".join(_text(tree, more, text_of_group))[:LONGEST] for more in (0, 1))
        )
    except (re.error, RecursionError, OverflowError, KeyError):
        return []


def _text(tree: Any, more: int, groups: Mapping[int, str] = {}) -> Iterator[str]:
    """Yield the pieces of a text that a parsed pattern matches. Each repetition occurs `more` times
    above its minimum, but at most `LONGEST` times; `more` also chooses the alternative. `groups`
    has texts for groups by number. Anchors and look-arounds are ignored.
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
                yield from _text(branches[min(more, len(branches) - 1)], more, groups)
            case "SUBPATTERN" if operand[0] in groups:
                yield groups[operand[0]]
            case "SUBPATTERN":
                yield from _text(operand[-1], more, groups)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = operand
                for _ in range(min(least + more, most, LONGEST)):
                    yield from _text(inner, more, groups)


def _member(items: Any) -> str:
    """A character of a class: its first one, "1" for digits, a space for white space; `~` for a
    negated class, and "a" for all others.
    """
    operator, operand = items[0]
    match str(operator):
        case "NEGATE":
            return "~"
        case "LITERAL":
            return chr(operand)
        case "RANGE":
            return chr(operand[0])
    return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}.get(str(operand), "a")


def instances_of(schema: Any, depth: int = 0) -> list[Any]:
    """Documents that a JSON schema may accept: the smallest, and those of its first `ALTERNATIVES`
    alternatives. `depth` is the number of schemas around this one; nested more than `DEPTH` deep,
    and for a value that is not a schema, there is one arbitrary document.
    """
    if depth > DEPTH or not isinstance(schema, dict):
        return [{}] if depth == 0 else ["a"]
    if "const" in schema:
        return [schema["const"]]
    if isinstance(schema.get("enum"), list):
        return [*schema["enum"][:ALTERNATIVES]]
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(name), list):
            rest = {key: value for key, value in schema.items() if key != name}
            merged = [{**rest, **each} for each in schema[name] if isinstance(each, dict)]
            return [one for each in merged[:ALTERNATIVES] for one in instances_of(each, depth + 1)]
    is_object = depth == 0 or "properties" in schema or "required" in schema
    kind = schema.get("type", "object" if is_object else "string")
    kinds = kind if isinstance(kind, list) else [kind]
    return [one for each in kinds[:ALTERNATIVES] for one in _instances_of_kind(each, schema, depth)]


def _instances_of_kind(kind: Any, schema: dict[Any, Any], depth: int) -> list[Any]:
    """Return values of a JSON type that keep the first `LONGEST` required names, minimal sizes up
    to `LONGEST`, bounds or pattern of a schema. A kind that is not known counts as string.
    """
    match kind:
        case "object":
            fields = schema.get("properties")
            fields = fields if isinstance(fields, dict) else {}
            names = schema.get("required") or []
            document = {
                name: instances_of(fields.get(name, {"type": "string"}), depth + 1)[0]
                for name in [*names][:LONGEST]
            }
            return [document]
        case "array":
            item = instances_of(schema.get("items", {"type": "string"}), depth + 1)[:1]
            return [item * min(_size(schema, "minItems"), LONGEST)]
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum"))
            most = schema.get("maximum", schema.get("exclusiveMaximum"))
            start = least if least is not None else most if most is not None else 1
            return [start, start + 1, start - 1]
        case "boolean":
            return [True, False]
        case "null":
            return [None]
    pattern = schema.get("pattern")
    texts = regex_witnesses(pattern) if isinstance(pattern, str) else ["a"]
    return [each.ljust(min(_size(schema, "minLength"), LONGEST), "a") for each in texts] or ["a"]


def _size(schema: dict[Any, Any], name: str) -> int:
    """The number under a keyword such as `minLength`; 0 if it is absent, negative or not an
    integer.
    """
    size = schema.get(name, 0)
    return size if type(size) is int and size >= 0 else 0
