"""`some` and `every`, and the hints for v0 texts that lack the import of their keywords."""

from __future__ import annotations

from doorward.rego.syntax.keywords import V1_KEYWORDS
from doorward.rego.syntax.lexer import IDENT
from doorward.rego.syntax.nodes import Call, Every, Expr, SomeDecl, SomeIn, Term, Var
from doorward.rego.syntax.parser.cursor import Cursor, State
from doorward.rego.syntax.parser.names import is_variable
from doorward.rego.syntax.parser.productions import BodyProductions, TermProductions
from doorward.rego.syntax.parser.terms import parse_var

__all__ = ["hint_every", "parse_every", "parse_some"]


def parse_some(
    cursor: Cursor, terms: TermProductions, bodies: BodyProductions, start: int
) -> Expr | None:
    """some = "some" ( [ relation "," ] relation "in" relation | var { "," var } )

    `start` is the offset of the expression. In v0 a `some … in` without its import adds a hint to
    the next error. None after recording an error.
    """
    state = cursor.save()
    cursor.scan()
    term = terms.parse_infix()
    if isinstance(term, Call):
        if not _is_membership(term):
            cursor.illegal("expected `x in xs` or `x, y in xs` expression")
            return None
        *key, value, domain = term.args
        span = cursor.since(start)
        some = SomeIn(key[0] if key else None, value, domain, span, term.operator)
        return Expr(some, span=span)
    cursor.restore(state)
    if cursor.dialect.v0:
        _hint_some_in(cursor, terms, bodies)
    return _parse_names(cursor, start)


def _is_membership(term: Term) -> bool:
    return isinstance(term, Call) and term.infix and term.name.startswith("internal.member_")


def _parse_names(cursor: Cursor, start: int) -> Expr | None:
    """some = "some" var { "," var }

    The cursor is at the word `some`; `start` is the offset of the expression. None after recording
    an error.
    """
    names: list[Var] = []
    while True:
        cursor.scan()
        if cursor.kind != IDENT:
            cursor.illegal("expected var")
            return None
        names.append(parse_var(cursor))
        cursor.scan()
        if cursor.kind != ",":
            break
    span = cursor.since(start)
    return Expr(SomeDecl(tuple(names), span), span=span)


def parse_every(
    cursor: Cursor, terms: TermProductions, bodies: BodyProductions, start: int
) -> Expr | None:
    """every = "every" [ var "," ] var "in" relation "{" body "}"

    The cursor must be at the keyword, and is left behind the `}`. `start` is the offset of the
    expression. None after recording an error.
    """
    cursor.scan()
    term = terms.parse_infix()
    if term is None:
        return None
    if not (isinstance(term, Call) and _is_membership(term)):
        cursor.illegal("expected `x[, y] in xs { ... }` expression")
        return None
    *keys, value, domain = term.args
    key = keys[0] if keys else None
    if key is not None and not is_variable(key):
        cursor.illegal("expected key to be a variable")
        return None
    if not is_variable(value):
        cursor.illegal("expected value to be a variable")
        return None
    if cursor.kind != "{":
        cursor.illegal("missing body")
        return None
    cursor.scan()
    body = bodies.parse_body("}")
    if body is None:
        return None
    cursor.scan()
    span = cursor.since(start)
    return Expr(Every(key, value, domain, body, span), span=span)


# Hints for v0 texts that lack an import: the words are read as keywords, to see whether that works.


def _hint_some_in(cursor: Cursor, terms: TermProductions, bodies: BodyProductions) -> None:
    """Add a hint about the missing import to the next error if a `some … in …` begins here; the
    cursor is not moved.
    """
    state = cursor.save()
    bodies.forget()
    with cursor.with_keywords(cursor.keywords | V1_KEYWORDS):
        cursor.scan()
        term = terms.parse_infix()
    bodies.forget()
    cursor.restore(state)
    if term is not None and _is_membership(term):
        cursor.hint("`import future.keywords.in` for `some x in xs` expressions")


def hint_every(
    cursor: Cursor, terms: TermProductions, bodies: BodyProductions, state: State
) -> None:
    """Add a hint about the missing import to the next error if an `every` begins at the saved
    position `state`; the cursor is not moved and no error is recorded.
    """
    # A copy: `restore(state)` drops the errors recorded since then, which `now` only counts.
    now, errors = cursor.save(), list(cursor.errors)
    bodies.forget()
    with cursor.with_keywords(cursor.keywords | V1_KEYWORDS):
        cursor.restore(state)
        every = parse_every(cursor, terms, bodies, cursor.token.start)
    bodies.forget()
    cursor.restore(now)
    cursor.errors[:] = errors
    if every is not None:
        cursor.hint("`import future.keywords.every` for `every x in xs { ... }` expressions")
