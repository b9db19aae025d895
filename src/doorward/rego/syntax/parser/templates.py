"""Template strings: text with expressions in braces, `$"…{expr}…"`."""

from __future__ import annotations

from doorward.rego.syntax.lexer import END, ILLEGAL, RAW_END, RAW_PART
from doorward.rego.syntax.nodes import Call, Every, Expr, Not, SomeDecl, SomeIn, TemplateString
from doorward.rego.syntax.parser.cursor import Cursor
from doorward.rego.syntax.parser.literals import plain_text
from doorward.rego.syntax.parser.productions import BodyProductions

__all__ = ["parse_template"]


def parse_template(cursor: Cursor, bodies: BodyProductions) -> TemplateString | None:
    """template = "$" ( '"' | "`" ) { text | "{" literal "}" } ( '"' | "`" )

    Leaves the cursor at the last part. None after recording an error, always in v0.
    """
    start = cursor.token.start
    raw = cursor.kind in (RAW_PART, RAW_END)
    if cursor.dialect.v0:
        cursor.error("template strings are not supported by current capabilities")
        return None
    parts: list[str | Expr] = []
    # `Terms.parse_term`, which calls this, restores the depth.
    cursor.enter()
    while True:
        text = _parse_text(cursor, raw=raw)
        if text is None:
            return None
        if text:
            parts.append(text)
        if cursor.kind in (END, RAW_END):
            break
        cursor.scan()
        expr = _parse_expr(cursor, bodies)
        if expr is None:
            return None
        parts.append(expr)
        cursor.end = cursor.token.end
        cursor.move_to(cursor.lexer.template_rest(cursor.token.end, raw=raw))
        if cursor.kind == ILLEGAL:
            cursor.error("expected template-string part")
            return None
    return TemplateString(tuple(parts), cursor.through(start), multi_line=raw)


def _parse_text(cursor: Cursor, *, raw: bool) -> str | None:
    """Decode the text part at the cursor; `raw`: between backquotes, without escapes. None after
    recording an error for an invalid escape.
    """
    token = cursor.token
    literal = cursor.source.text[token.start : token.end].removeprefix("$")
    return plain_text(cursor, token.text, "template-string part", literal, raw=raw)


def _parse_expr(cursor: Cursor, bodies: BodyProductions) -> Expr | None:
    """ "{" literal "}"

    The expression in a template string, after the `{`; leaves the cursor at the `}`. None after
    recording an error, also for an expression that is not allowed there.
    """
    expr = bodies.parse_literal()
    if expr is None:
        cursor.error("invalid template-string expression")
        return None
    fault = _fault_of(expr)
    if fault:
        cursor.error(f"unexpected {fault} in template-string expression", expr.span)
        return None
    if cursor.kind != "}":
        cursor.error("expected } to end template string expression")
        return None
    return expr


def _fault_of(expr: Expr) -> str | None:
    """Return OPA's name for the kind of an expression that a template string must not contain; None
    if it is allowed.
    """
    match expr.term:
        case Not():
            return "negation ('not')"
        case _ if expr.negated:
            return "negation ('not')"
        case Call(infix=True) if expr.term.name == "eq":
            return "unification ('=')"
        case Call(infix=True) if expr.term.name == "assign":
            return "assignment (':=')"
        case Every():
            return "'every'"
        case SomeDecl() | SomeIn():
            return "'some'"
        case _:
            return None
