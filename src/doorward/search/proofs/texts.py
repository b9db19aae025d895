"""Conditions on texts in a conjunction: the term, and the texts that are left to it."""

from __future__ import annotations

from doorward.rego.tools import Call, Expr, Scalar, Term
from doorward.search.proofs.conjunction import is_constant, is_open, members_of, term_text, value_of
from doorward.search.proofs.languages import (
    Language,
    UnreadableError,
    complement,
    containing,
    ending,
    from_glob,
    from_pattern,
    one_of,
    starting,
)

__all__ = ["condition_of"]


def condition_of(expr: Expr) -> tuple[str, Language, bool] | None:
    """A term, the texts that an expression leaves to it, and whether it has to be a text."""
    call = expr.term
    if not isinstance(call, Call):
        return None
    negated = expr.negated
    if call.name in ("eq", "equal") and len(call.args) == 2:
        left, right = call.args
        for inner, constant in ((left, right), (right, left)):
            if (
                isinstance(inner, Call)
                and constant in (Scalar(True), Scalar(False))
                and not negated
            ):
                positive = _texts_of(inner)
                if positive is not None:
                    is_true = constant == Scalar(True)
                    language = positive[1] if is_true else complement(positive[1])
                    return positive[0], language, True
    accepted = _texts_of(call)
    if accepted is None:
        return None
    term, language = accepted
    is_unequal = call.name == "neq"
    if negated and is_unequal:
        return None
    return (term, complement(language), False) if negated or is_unequal else (term, language, True)


def _texts_of(call: Call) -> tuple[str, Language] | None:
    """A term and the texts for which a call is true; those that are equal to it for `!=`."""
    args = call.args
    try:
        match call.name, len(args):
            case (("eq" | "equal" | "neq"), 2):
                for term, other in (args, args[::-1]):
                    if is_open(term) and isinstance(other, Scalar) and type(other.value) is str:
                        return term_text(term), one_of([other.value])
            case "internal.member_2", 2 if is_open(args[0]) and is_constant(args[1]):
                members = members_of(value_of(args[1]))
                if all(type(each) is str for each in members):
                    return term_text(args[0]), one_of(map(str, members))
            case (("startswith" | "endswith" | "contains"), 2):
                make = {"startswith": starting, "endswith": ending, "contains": containing}
                if is_open(args[0]) and (text := _text(args[1])) is not None:
                    return term_text(args[0]), make[call.name](text)
            case "glob.match", 3 if is_open(args[2]) and is_constant(args[1]):
                glob, delimiters = _text(args[0]), value_of(args[1])
                if glob is not None and (delimiters is None or isinstance(delimiters, list)):
                    stops = [] if delimiters is None else delimiters or ["."]
                    return term_text(args[2]), from_glob(glob, [str(each) for each in stops])
            case "regex.match", 2 if is_open(args[1]):
                if (pattern := _text(args[0])) is not None:
                    return term_text(args[1]), from_pattern(pattern)
    except UnreadableError:
        pass
    return None


def _text(term: Term) -> str | None:
    is_text = isinstance(term, Scalar) and type(term.value) is str
    return str(term.value) if is_text and isinstance(term, Scalar) else None
