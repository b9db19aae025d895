"""Hints for errors about names, and for paths that lead nowhere.

Looked for where something was refused or undefined, never before. A name is likely the one that is
most like it among those that stand for something at its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from doorward.rego.analysis.documents import Path
from doorward.rego.analysis.resolve import import_name
from doorward.rego.analysis.tree import RuleNode, path_text
from doorward.rego.builtins.registry import Registry
from doorward.rego.errors import Diagnostic, Fix
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Module, Var
from doorward.rego.syntax.walk import walk
from doorward.rego.values import UNDEFINED, Key

__all__ = ["add_hints", "names_of_modules", "near_name", "near_path"]

MAX_NAMES: Final = 5_000
"""An unknown name is compared with at most this many known names."""
MAX_TEXT: Final = 1_000
"""At most this many characters of an expression are searched for a hint."""

_LIKE: Final = 0.75
_CONSTANTS: Final = {
    **dict.fromkeys(("True", "TRUE"), "Rego writes `true`"),
    **dict.fromkeys(("False", "FALSE"), "Rego writes `false`"),
    **dict.fromkeys(("None", "nil", "NULL", "Null", "nullptr"), "Rego writes `null`"),
    "undefined": "Rego has no such value: test for a missing value with `not input.x`",
}
_FUNCTIONS: Final = {
    **dict.fromkeys(("len", "length", "size"), "`count(x)` is the size of a collection or string"),
    **dict.fromkeys(
        ("str", "string", "to_string"), '`sprintf("%v", [x])` converts a value to a string'
    ),
    **dict.fromkeys(
        ("int", "float", "number", "parse_int"), "`to_number(x)` converts a string to a number"
    ),
    **dict.fromkeys(("typeof", "type"), "`type_name(x)` is the type of a value"),
    **dict.fromkeys(
        ("has", "exists", "defined"),
        "write the path as a condition, which holds if it exists: `input.x`",
    ),
    **dict.fromkeys(("filter", "map"), "write a comprehension: `[f(x) | some x in xs; x > 1]`"),
    **dict.fromkeys(("log", "println", "printf", "debug"), "write `print(x)`"),
    **dict.fromkeys(("matches", "match", "regex"), "write `regex.match(pattern, text)`"),
    **dict.fromkeys(("ends_with", "has_suffix"), "write `endswith(text, end)`"),
    **dict.fromkeys(("starts_with", "has_prefix"), "write `startswith(text, beginning)`"),
    **dict.fromkeys(("append", "push", "extend"), "`array.concat(xs, [x])` appends to an array"),
    **dict.fromkeys(("range",), "`numbers.range(a, b)` has all integers from a to b"),
    **dict.fromkeys(("get",), "write `object.get(object, key, default)`"),
    **dict.fromkeys(("now", "time.now"), "`time.now_ns()` is the time in nanoseconds"),
    **dict.fromkeys(("equals", "equal_to"), "compare with `==`"),
}
_MEANT: Final = re.compile(
    r"(?:did you mean|Rego writes) `(?P<name>[^`]+)`"
    r"|write a key with `-` in brackets: `(?P<key>[^`]+)`"
)
_UNSAFE: Final = re.compile(r"var (\S+) is (?:unsafe|undeclared)")
_FUNCTION: Final = re.compile(r"undefined function (\S+)$")

Names = Callable[[Span], Iterable[str]]
"""A function from a position to the names that can be used there: rules of its package, imports,
variables.
"""


def add_hints(errors: Sequence[Diagnostic], names: Names, registry: Registry) -> list[Diagnostic]:
    """Return `errors`, in the same order, with a hint and an edit where a likely cause is known.
    The new hint replaces one that the error already has, except for an unknown function, whose own
    hint stays.
    """
    return [_with_hint(error, names, registry) for error in errors]


def _with_hint(error: Diagnostic, names: Names, registry: Registry) -> Diagnostic:
    """Return the error with a hint for a likely cause and with an edit that applies it, or None;
    they replace its own, but the hint of an undefined function. The error itself if no cause is
    known.
    """
    hint: str | None = None
    fix: Fix | None = None
    if (unsafe := _UNSAFE.match(error.message)) is not None:
        hint = _of_var(unsafe[1], error.span, names)
        fix = _fix(unsafe[1], hint, error.span)
    elif (called := _FUNCTION.match(error.message)) is not None:
        hint = error.hint or _of_function(called[1], error.span, names, registry)
        fix = _fix(called[1], hint, error.span)
    elif error.message.startswith("plus: invalid argument(s)"):
        hint = '`+` adds numbers; join strings with `concat("", [a, b])` or `$"{a}{b}"`'
    elif error.message.endswith(" assigned above"):
        hint = "a variable is assigned only once: use another name"
    return error if hint is None else replace(error, hint=hint, fix=fix)


def _fix(name: str, hint: str | None, span: Span) -> Fix | None:
    """Return the edit that applies a hint: it replaces `name` by the proposed name or, if a key
    with `-` was read as a difference that ends with `name` (`input.user-id`), the difference by the
    key in brackets. Only the first `MAX_TEXT` characters of `span` are searched; None if the hint
    proposes nothing or `name` is not there.
    """
    meant = _MEANT.match(hint or "")
    if meant is None:
        return None
    # A key with `-` was read as a difference, the name is the end of it.
    pattern = rf"[A-Za-z_][\w.]*-{re.escape(name)}\b" if meant["key"] else rf"\b{re.escape(name)}\b"
    # The span may be a whole rule; only its beginning is searched.
    match = re.search(pattern, span.text[:MAX_TEXT])
    if match is None:
        return None
    start = span.start + match.start()
    return Fix(start, span.start + match.end(), meant["key"] or meant["name"])


def _of_var(name: str, span: Span, names: Names) -> str | None:
    """Return the hint for an unsafe variable: a constant of another language, a key with `-`
    written without brackets (searched in the first `MAX_TEXT` characters of `span`), or a similar
    name. None if there is none.
    """
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    key = re.search(rf"([A-Za-z_][\w.]*)\.(\w+)-{re.escape(name)}\b", span.text[:MAX_TEXT])
    if key is not None:
        return f'write a key with `-` in brackets: `{key[1]}["{key[2]}-{name}"]`'
    return _near(name, names(span))


def _of_function(name: str, span: Span, names: Names, registry: Registry) -> str | None:
    """Return the hint for an undefined function: the built-in for a function of another language,
    `f(x)` for `x.f()`, a similar name, or how to load custom functions. None if none of these fits.
    """
    head, _, last = name.rpartition(".")
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if head and last in registry:
        return f"functions take all operands in parentheses: `{last}({head}, …)`"
    near = _near(name, names(span))
    if near is None and head and not name.startswith(("data.", "input.")):
        near = "a function of your own must be loaded with --builtins MODULE:NAME"
    return near


def _near(name: str, names: Iterable[str]) -> str | None:
    """Return the hint "did you mean …?" with the most similar name; None if no name is similar."""
    close = near_name(name, names)
    return f"did you mean `{close}`?" if close is not None else None


def near_name(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar of `names`, other than `name` itself; None if none is similar enough.
    Only the first `MAX_NAMES` names are compared.
    """
    from difflib import get_close_matches  # only who mistypes pays for it

    # difflib compares each name, so their number is bounded.
    known = [each for each, _ in zip(names, range(MAX_NAMES), strict=False) if each != name]
    close = get_close_matches(name, known, 1, _LIKE)
    return close[0] if close else None


def names_of_modules(modules: Sequence[Module], span: Span) -> Iterator[str]:
    """Yield the names that are visible at `span`: `input`, `data`, imports, rules of the package,
    and variables of the rule around it. Nothing if no module has this source. A name may come
    several times, and misspelt names are among them.
    """
    module_of_error = next((each for each in modules if each.span.source is span.source), None)
    if module_of_error is None:
        return
    yield from ("input", "data")
    yield from (name for item in module_of_error.imports if (name := import_name(item)))
    for module in modules:
        if module.package.path == module_of_error.package.path:
            heads = (rule.head.ref.head for rule in module.rules)
            yield from (head.name for head in heads if isinstance(head, Var))
    for rule in module_of_error.rules:
        if rule.span.start <= span.start <= rule.span.end:
            # The name that stands for nothing is among them: as often as it was written wrong.
            yield from (node.name for node in walk(rule) if isinstance(node, Var))


# Paths


def near_path(path: Path, root: RuleNode, data: Any) -> str | None:
    """Return the path of the existing document most similar to `path`, whose first part is `data`,
    as text. Only the first key that does not exist is replaced, and the path ends there. None if
    `path` exists, leads into a rule, or the key is not a string or similar to none.
    """
    node: RuleNode | None = root
    base = data
    for at, key in enumerate(path[1:], start=1):
        names = list(_names(node, base))
        if key not in names:
            close = near_name(key, names) if isinstance(key, str) else None
            return path_text((*path[1:at], close)) if close is not None else None
        node = node.children.get(key) if node is not None else None
        base = base.get(key, UNDEFINED) if isinstance(base, dict) else UNDEFINED
        if node is not None and node.definitions:
            return None
    return None


def _names(node: RuleNode | None, base: Any) -> Iterator[str]:
    """Yield the string keys of rules and base data below a node, at most `MAX_NAMES`. `node` None:
    there are no rules.
    """
    keys: dict[Key, None] = dict.fromkeys(node.children if node is not None else ())
    if isinstance(base, dict):
        keys |= dict.fromkeys(base)
    for key, _ in zip(keys, range(MAX_NAMES), strict=False):
        if isinstance(key, str):
            yield key
