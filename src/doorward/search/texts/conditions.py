"""Conditions on texts in a conjunction: the term, and the language of the texts that it may be.

`lower` and `upper` change one character at a time, so that a condition on `lower(x)` is one on `x`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from doorward.base.records import record
from doorward.rego import Engine
from doorward.rego.tools import Call, Expr, Scalar, Term
from doorward.search.terms import is_constant, is_open, members_of, term_text, value_of
from doorward.search.texts.languages import (
    LAST,
    Language,
    Ranges,
    UnreadableError,
    before,
    complement,
    containing,
    ending,
    from_glob,
    from_pattern,
    from_ranges,
    meeting,
    merged,
    one_of,
    outside,
    starting,
)

__all__ = ["condition_of"]

_SURROGATES: Final = range(0xD800, 0xE000)
_CASES: Final = ("lower", "upper")
_TOTAL: Final = ("eq", "equal", "neq", "internal.member_2")
"""Calls that are true or false for operands of any type."""


def condition_of(expr: Expr) -> tuple[str, Language, bool] | None:
    """Return a term's text, the language that an expression, negated or not, limits it to, and True
    if the expression only holds for texts. False means that the term may also be undefined or
    another value. None for expressions that do not test a text. `expr` must have no `with`.
    """
    call = expr.term
    if not isinstance(call, Call):
        return None
    compared = None if expr.negated else _compared_with_boolean(call)
    call, answer = compared or (call, not expr.negated)
    test = _test_of(call)
    if test is None:
        return None
    language = test.language if answer else complement(test.language)
    # A negated expression also holds if the call has no value.
    return test.term, language, not expr.negated and test.others is not answer


@record
class _Test:
    """A call that tests a text, such as `startswith(x, "a")`. `term`: the tested term, in Rego;
    `language`: the texts for which the call is true; `others`: the result for a value that is not a
    text, None if the call is then undefined.
    """

    term: str
    language: Language
    others: bool | None


def _compared_with_boolean(call: Call) -> tuple[Call, bool] | None:
    """Return the call and the boolean that a call compares as equal, `f(x) == true`; None for
    other calls.
    """
    if call.name not in ("eq", "equal") or len(call.args) != 2:
        return None
    for inner, constant in (call.args, call.args[::-1]):
        value = constant.value if isinstance(constant, Scalar) else None
        if isinstance(inner, Call) and isinstance(value, bool):
            return inner, value
    return None


def _test_of(call: Call) -> _Test | None:
    """Return the test of a text that a call makes. For a test of `lower(x)` or `upper(x)` the term
    is `x`. None if the call or its pattern is not supported.
    """
    try:
        accepted = _accepted_by(call)
    except UnreadableError:
        return None
    if accepted is None:
        return None
    term, language = accepted
    # Comparisons have a value for all operands, the other tests and changes of case for texts.
    changes_case = any(_case_of(arg) is not None for arg in call.args)
    is_total = call.name in _TOTAL and not changes_case
    while (name := _case_of(term)) is not None:
        language = before(language, lambda ranges, name=name: _origin(name, ranges))  # type: ignore[misc]
        term = term.args[0]  # type: ignore[union-attr] # a call of `lower` or `upper`
    is_unequal = call.name == "neq"
    language = complement(language) if is_unequal else language
    return _Test(term_text(term), language, is_unequal if is_total else None)


def _accepted_by(call: Call) -> tuple[Term, Language] | None:
    """Return the term that a call tests, and the language of the texts for which the call is true.
    For `!=` it is the language of the texts that are equal.

    None if the call is not supported; UnreadableError for a glob or a pattern that `languages` does
    not read.
    """
    args = call.args
    match call.name, len(args):
        case (("eq" | "equal" | "neq"), 2):
            for term, other in (args, args[::-1]):
                if is_open(term) and isinstance(other, Scalar) and type(other.value) is str:
                    return term, one_of([other.value])
                name = _case_of(term)
                if name is not None and term.args[0] == other:  # type: ignore[union-attr]
                    # `lower(x) == x` holds if `x` has no character that `lower` changes.
                    return other, from_ranges(_outside_of(_changes(name)))
        case "internal.member_2", 2 if is_open(args[0]) and is_constant(args[1]):
            members = members_of(value_of(args[1]))
            if all(type(each) is str for each in members):
                return args[0], one_of(map(str, members))
        case (("startswith" | "endswith" | "contains"), 2):
            make = {"startswith": starting, "endswith": ending, "contains": containing}
            if is_open(args[0]) and (text := _text(args[1])) is not None:
                return args[0], make[call.name](text)
        case "glob.match", 3 if is_open(args[2]) and is_constant(args[1]):
            glob, delimiters = _text(args[0]), value_of(args[1])
            if glob is not None and (delimiters is None or isinstance(delimiters, list)):
                # As in OPA: null means no delimiters, an empty array the usual one.
                stops = [] if delimiters is None else delimiters or ["."]
                return args[2], from_glob(glob, [str(each) for each in stops])
        case "regex.match", 2 if is_open(args[1]):
            if (pattern := _text(args[0])) is not None:
                return args[1], from_pattern(pattern)
    return None


def _case_of(term: Term) -> str | None:
    """Return `lower` or `upper` if the term is a call of it; None for other terms."""
    is_case = isinstance(term, Call) and term.name in _CASES and len(term.args) == 1
    return term.name if is_case and isinstance(term, Call) else None


@cache
def _changes(name: str) -> Mapping[int, int]:
    """Return the code points that `lower` or `upper` changes, with their replacements. Cached,
    since the built-in is called for every character that there is.
    """
    points = [each for each in range(LAST + 1) if each not in _SURROGATES]
    text = "".join(map(chr, points))
    changed: str = Engine().prepare(f"{name}(input)").answer(text)
    # INVARIANT: one character becomes one character; `before` in `languages` relies on it.
    assert len(changed) == len(points)
    pairs = zip(points, map(ord, changed), strict=True)
    return {point: other for point, other in pairs if point != other}


def _origin(name: str, ranges: Ranges) -> Ranges:
    """Return the characters that `lower` or `upper` turns into one of `ranges`."""
    changes = _changes(name)
    added = [
        (point, point)
        for point, other in changes.items()
        if any(low <= other <= high for low, high in ranges)
    ]
    unchanged = meeting(ranges, _outside_of(changes))
    return merged([*unchanged, *added])


def _outside_of(changes: Mapping[int, int]) -> Ranges:
    return outside([(point, point) for point in changes])


def _text(term: Term) -> str | None:
    """Return the value of a constant text; None for other terms."""
    is_text = isinstance(term, Scalar) and type(term.value) is str
    return str(term.value) if is_text and isinstance(term, Scalar) else None
