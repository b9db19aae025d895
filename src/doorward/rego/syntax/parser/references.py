"""References: what follows the head of a term: `.name`, `[operand]`, `(arguments)`."""

from __future__ import annotations

from typing import Final

from doorward.rego.syntax.lexer import IDENT
from doorward.rego.syntax.nodes import Call, Ref, Scalar, Set, TemplateString, Term, Var
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.names import value_name
from doorward.rego.syntax.parser.productions import TermProductions

__all__ = ["SUFFIXES", "parse_ref"]

SUFFIXES: Final = frozenset({"(", ".", "["})
"""The tokens that continue a term if no blank precedes them."""

_NOT_REF_HEADS: Final = (Scalar, TemplateString)
_SET: Final = Var("set")


def parse_ref(cursor: Cursor, terms: TermProductions, head: Term, start: int) -> Term | None:
    """ref = head { "." name | "[" term-infix "]" | call }

    Parses the suffixes after `head`, which begins at `start`, up to a blank or a second call in a
    row (`f(1)(2)`), and leaves the cursor after them. Returns a reference or a call; for a head
    that cannot have suffixes an error is recorded as well. None after recording another error.
    """
    if isinstance(head, _NOT_REF_HEADS):
        cursor.error(f"illegal ref (head cannot be {value_name(head)})", head.span)
    args: list[Term] = []
    depth = cursor.depth
    tight = True
    while tight:
        kind = cursor.kind
        if kind == ".":
            name = _parse_name(cursor)
            if name is None:
                return None
            args.append(name)
        elif kind == "[":
            operand = _parse_operand(cursor, terms)
            if operand is None:
                return None
            args.append(operand)
        elif kind == "(":
            operator = Ref(head, tuple(args), cursor.call_span(head.span, start))
            call = _parse_call(cursor, terms, operator, start)
            if call is None:
                return None
            if not cursor.token.space and cursor.kind in (".", "["):
                # The call becomes the head of the next reference: `f(1).a(2).b(3)` nests three
                # levels deep.
                cursor.enter()
                head, args = call, []
                continue
            cursor.depth = depth
            return call
        else:
            break
        tight = cursor.scan_tight()
    cursor.depth = depth
    return Ref(head, tuple(args), cursor.call_span(head.span, start))


def _parse_name(cursor: Cursor) -> Scalar | None:
    """ "." name

    Leaves the cursor at the name, which may be a keyword. None after recording an error.
    """
    cursor.scan_blank()
    if cursor.kind != IDENT and not cursor.is_ref_keyword(cursor.kind):
        cursor.illegal("expected identifier")
        return None
    return Scalar(cursor.token.text, cursor.here())


def _parse_operand(cursor: Cursor, terms: TermProductions) -> Term | None:
    """ "[" term-infix "]"

    Leaves the cursor at the `]`. None after recording an error.
    """
    cursor.scan()
    operand = terms.parse_infix()
    if operand is None:
        return None
    if cursor.kind != "]":
        cursor.illegal("expected [")
        return None
    return operand


def _parse_call(cursor: Cursor, terms: TermProductions, operator: Ref, start: int) -> Term | None:
    """call = "(" [ term-infix { "," term-infix } [ "," ] ] ")"

    Leaves the cursor after the `)`. `set()` is an empty set. None after recording an error.
    """
    cursor.scan()
    args = terms.parse_list(")", [])
    if args is None:
        return None
    cursor.scan()
    span = cursor.call_span(operator.span, start)
    if not args and operator.args == () and operator.head == _SET:
        return Set((), span)
    return Call(operator, tuple(args), span)
