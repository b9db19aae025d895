"""Terms, expressions and bodies in their canonical layout.

What is written goes to the end of a `Layout`. A part with a comment that the layout cannot place
there is written as in the source; the methods that do not say so raise UnexpectedComment instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from doorward.rego.numbers import number_text
from doorward.rego.source import Span
from doorward.rego.syntax.layout import Layout, UnexpectedComment, last_row
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.term_order import distinct, last_pairs, rank
from doorward.rego.syntax.walk import Node, rewrite, walk
from doorward.rego.values import to_rego

__all__ = ["MEMBERS", "TermWriter", "in_row", "scalar_text"]

T = TypeVar("T")

_INFIX: Final = {
    "assign": ":=",
    "eq": "=",
    "equal": "==",
    "neq": "!=",
    "lt": "<",
    "gt": ">",
    "lte": "<=",
    "gte": ">=",
    "or": "|",
    "and": "&",
    "plus": "+",
    "minus": "-",
    "mul": "*",
    "div": "/",
    "rem": "%",
}
_LEVELS: Final = {
    **dict.fromkeys(("internal.member_2", "internal.member_3"), 0),
    **dict.fromkeys(("equal", "neq", "lt", "gt", "lte", "gte"), 1),
    "or": 2,
    "and": 3,
    **dict.fromkeys(("plus", "minus"), 4),
    **dict.fromkeys(("mul", "div", "rem"), 5),
}
"""How tightly each infix operator binds; a greater number binds more."""
MEMBERS: Final = {"internal.member_2": 2, "internal.member_3": 3}
"""The built-ins of `in`, with their number of operands."""


class TermWriter:
    """Writes the parts of rules to the end of a layout; names in `keywords` are quoted in
    references if the source quotes them.
    """

    def __init__(self, layout: Layout, keywords: frozenset[str]) -> None:
        self.layout = layout
        self.keywords = keywords
        self._lead = -1
        """The length of the output where an expression below another one begins, or -1: a `-` there
        would continue the line above and needs parentheses.
        """

    # Bodies

    def body(self, body: Body) -> None:
        """Write the expressions of a body, at least one, on lines of their own. Rows between two of
        them in the source, also those of comments, become one blank line.
        """
        self.layout.pass_row(body[0].span.row)
        last: Expr | None = None
        for expr in body:
            if last is not None and _has_rows_between(last, expr):
                self.layout.blank_line()
            self.layout.start_line()
            self.expr_or_as_is(expr, below=last is not None)
            self.layout.end_line()
            last = expr

    def expr_or_as_is(self, expr: Expr, *, below: bool = False) -> None:
        """Write an expression; if a comment in it has no place, write its source text. `below`:
        another expression is on the line above.
        """
        if self.layout.comments:
            with suppress(UnexpectedComment):
                self.layout.pass_row(expr.span.row)
        self.layout.start_line_unless_inline()
        self._lead = self.layout.length if below else -1
        if not self.layout.comments:
            self.expr(expr)
            return
        mark = self.layout.mark()
        try:
            self.expr(expr)
        except UnexpectedComment:
            self.layout.write_as_is(expr.span, mark)

    def expr(self, expr: Expr) -> None:
        """Write an expression with its `not` and `with` at the end of the layout, the comments
        before it above it. UnexpectedComment if a comment in it has no place.
        """
        self.layout.pass_row(expr.span.row)
        self.layout.start_line_unless_inline()
        if expr.negated:
            self.layout.write("not ")
        match expr.term:
            case SomeDecl() as some:
                self.some(some)
            case SomeIn() as some:
                self.layout.pass_row(some.span.row)
                self.layout.write("some ")
                keys = () if some.key is None else (some.key,)
                self.member((*keys, some.value, some.domain))
            case Every() as every:
                self.every(every, expr.span)
            case Not() as negation:
                self.negation(negation, expr.span)
            case And() | Or() as logical:
                self.logical(logical, expr.span)
            case Call() as call:
                self.call_expr(call)
            case term:
                self.term(term)
        self.withs(expr)

    def withs(self, expr: Expr) -> None:
        """Write the `with` modifiers of an expression. The first one stays on the expression's
        line; each other one begins a new, indented line if in the source it is on a later line than
        the one before it.
        """
        level = self.layout.level
        row = expr.withs[0].span.row if expr.withs else 0
        for index, with_ in enumerate(expr.withs):
            below = index > 0 and with_.span.row > row
            if below:
                self.layout.level = level + 1
                self.layout.end_line()
                self.layout.start_line()
            row = with_.span.row
            self.with_(with_, below=below)
        self.layout.level = level

    def with_(self, modifier: With, *, below: bool) -> None:
        """Write one `with target as value`; `below` if it begins a line. A value with a comment
        that has no place is written as in the source.
        """
        self.layout.pass_row(modifier.span.row)
        self.layout.write("with " if below else " with ")
        self.term(modifier.target)
        self.layout.write(" as ")
        with suppress(UnexpectedComment):
            self.term(modifier.value)

    def some(self, some: SomeDecl) -> None:
        """Write `some x, y`, with the line breaks that the source has between the names, and a tab
        before each further line. UnexpectedComment if a comment in it has no place.
        """
        self.layout.pass_row(some.span.row)
        self.layout.write("some ")
        row = some.span.row
        for index, name in enumerate(some.symbols):
            if name.span.row > row:
                self.layout.end_line()
                self.layout.start_line()
                self.layout.write("\t")
                row = name.span.row
            elif index:
                self.layout.write(" ")
            self.term(name)
            if index < len(some.symbols) - 1:
                self.layout.write(",")

    def every(self, every: Every, span: Span) -> None:
        """Write `every k, v in xs { … }`, the comments above it first; `span` is that of the
        expression. UnexpectedComment if a comment in it has no place.
        """
        self.layout.pass_row(span.row)
        self.layout.write("every ")
        if every.key is not None:
            self.term(every.key)
            self.layout.write(", ")
        self.term(every.value)
        self.layout.write(" in ")
        self.term(every.domain)
        self.layout.write(" {")
        close = self.layout.closing_row(span, "{}") if self.layout.spreads else -1
        self.inner_body(every.body, span.row, close)
        if len(every.body) == 1 and every.body[0].span.row == every.span.row:
            self.layout.write(" ")
        self.layout.write("}")

    def negation(self, not_: Not, span: Span) -> None:
        """Write `not` and its operand, in braces if it has them in the source, the comments above
        it first. UnexpectedComment if a comment has no place.
        """
        self.layout.pass_row(span.row)
        self.layout.write("not ")
        self.operand(not_.body, span, braces=not_.braces)

    def logical(self, operation: And | Or, span: Span) -> None:
        """Write `left and right` or `left or right`. An operand gets braces if it needs them to
        keep its meaning: several expressions, a `with`, a declaration or assignment, or variables
        that only an operand in braces may bind; an `or` below an `and` gets parentheses, or keeps
        its braces. UnexpectedComment if a comment has no place.
        """
        for index, body in enumerate((operation.left, operation.right)):
            if index:
                self.layout.write(" and " if isinstance(operation, And) else " or ")
            (first, *rest) = body
            loose = isinstance(operation, And) and isinstance(first.term, Or)
            assigns = isinstance(first.term, Call) and first.term.name in ("assign", "eq")
            declares = isinstance(first.term, SomeDecl | SomeIn)
            # Only an operand in braces may bind variables: without them, `i` of `{ xs[i] } and x`
            # is unsafe.
            binds = operation.braces[index] and _has_index(first)
            braces = bool(rest or first.withs or assigns or declares or binds)
            if loose and not braces and not operation.braces[index]:
                self.layout.write("(")
                self.expr(first)
                self.layout.write(")")
            else:
                self.operand(body, span, braces=braces or loose)

    def operand(self, body: Body, span: Span, *, braces: bool) -> None:
        """Write an operand of `not`, `and` or `or`: with `braces` as a body in braces, otherwise as
        one expression, in parentheses if its text begins with a brace.
        """
        if braces:
            self.layout.write("{")
            self.inner_body(body, span.row, self.layout.closing_row(span, "{}"))
            if body[-1].span.row == span.row:
                self.layout.write(" ")
            self.layout.write("}")
            return
        parens = _begins_with_brace(body[0].term)
        if parens:
            self.layout.write("(")
        self.expr(body[0])
        if parens:
            self.layout.write(")")

    # Terms

    def term(self, term: Term) -> None:
        """Write a term. If a comment in it has no place, write its source text and raise
        UnexpectedComment, so that the caller ends the line.
        """
        if not self.layout.comments:  # most terms: nothing can be unexpected
            self.term_in(term, parens=False)
            return
        mark = self.layout.mark()
        try:
            self.term_in(term, parens=False)
        except UnexpectedComment:
            self.layout.write_as_is(term.span, mark)
            raise

    def plain_text(self, term: Term) -> str:
        """Return a term as OPA shows it in errors and formats an object's key: on one line, strings
        quoted, members sorted, operators as calls, comprehensions formatted. Writes nothing to the
        layout.
        """
        match term:
            case Scalar(value):
                return to_rego(value) if isinstance(value, str) else scalar_text(term)
            case Ref(head, args):
                return self.plain_text(head) + "".join(map(self._plain_operand, args))
            case Call(operator, args) if isinstance(operator, Ref):
                return f"{term.name}({', '.join(map(self.plain_text, args))})"
            case Array(items):
                return f"[{', '.join(map(self.plain_text, items))}]"
            case Set(items) if items:
                return f"{{{', '.join(map(self.plain_text, sorted(items, key=rank)))}}}"
            case Object(items):
                pairs = sorted(items, key=lambda pair: rank(pair[0]))
                texts = [
                    f"{self.plain_text(key)}: {self.plain_text(value)}" for key, value in pairs
                ]
                return f"{{{', '.join(texts)}}}"
            case _:
                row = term.span.row
                return self.term_text(rewrite(term, lambda node: in_row(node, row)))

    def _plain_operand(self, term: Term) -> str:
        """Return a reference's operand on one line, for `plain_text`: `.name`, unless the name
        needs the quotes of the source, or `[term]`.
        """
        match term:
            case Scalar(value=str() as name) if not self.needs_quotes(term, name):
                return f".{name}"
            case _:
                return f"[{self.plain_text(term)}]"

    def term_text(self, term: Term) -> str:
        """Return a term formatted without its comments; writes nothing to the layout."""
        line = Layout(())
        line.inline = True
        start = line.mark()
        TermWriter(line, self.keywords).term(term)
        return line.text_since(start)

    def term_in(self, term: Term, *, parens: bool) -> None:
        """Write a term of any kind. `parens` puts a call of an infix operator in parentheses; a
        number with `-` gets them where the sign would continue the line above. Members that occur
        twice in a set, and pairs of an object that a later one replaces, are written once.
        UnexpectedComment if a comment in it has no place.
        """
        layout = self.layout
        if layout.comments:
            layout.pass_row(term.span.row)
        layout.start_line_unless_inline()
        match term:
            case Scalar():
                text = scalar_text(term)
                parens = text[0] == "-" and self.may_continue_line_above()
                layout.write(f"({text})" if parens else text)
            case Var():
                layout.write("_" if term.is_wildcard else term.name)
            case Ref():
                self.ref(term)
            case Call():
                self.call(term, parens=parens)
            case Array(items=items):
                layout.write("[")
                self.items(items, term.span, layout.closing_row(term.span, "[]"), self.member_term)
                layout.write("]")
            case Set(items=()):
                layout.write("set()")
                layout.pass_row(layout.closing_row(term.span, "()"))
            case Set(items=items):
                layout.write("{")
                close = layout.closing_row(term.span, "{}")
                self.items(distinct(items), term.span, close, self.member_term)
                layout.write("}")
            case Object(items=pairs):
                layout.write("{")
                close = layout.closing_row(term.span, "{}")
                self.items(last_pairs(pairs), term.span, close, self.pair)
                layout.write("}")
            case ArrayComprehension():
                layout.write("[")
                self.comprehension("[]", term.term, term.body, term.span)
                layout.write("]")
            case SetComprehension():
                layout.write("{")
                self.comprehension("{}", term.term, term.body, term.span)
                layout.write("}")
            case ObjectComprehension():
                self.object_comprehension(term)
            case _:
                self.template(term)
        layout.start_line_unless_inline()

    def ref(self, ref: Ref) -> None:
        """Write a reference: its head, then `.name` or `[term]` for each operand. A name that is a
        keyword in the source's quotes keeps them. An operand with a comment that has no place is
        written unchanged.
        """
        in_parens = isinstance(ref.head, Call) and _in_parens(ref.head)
        self.term_in(ref.head, parens=in_parens)
        for arg in ref.args:
            match arg:
                case Scalar(value=str() as name):
                    self.layout.write(
                        f"[{_quote(name)}]" if self.needs_quotes(arg, name) else f".{name}"
                    )
                case Var():
                    self.layout.write(f"[{'_' if arg.is_wildcard else arg.name}]")
                case _:
                    self.layout.write("[")
                    try:
                        self.term(arg)
                    except UnexpectedComment:
                        # The bracket must not become part of the comment.
                        self.layout.write("\n")
                    self.layout.write("]")

    def needs_quotes(self, term: Scalar, name: str) -> bool:
        """Return True if a key must be written as `["name"]`, since it is not a plain name or is a
        quoted keyword.
        """
        # Together these are the names of the grammar: a letter or `_`, then digits as well.
        if not (name.isascii() and name.isidentifier()):
            return True
        return name in self.keywords and term.span.text.startswith('"')

    # Calls

    def call_expr(self, call: Call) -> None:
        """Write a call that is a whole expression: an infix operator without parentheses around it,
        one with a third operand, its result, as `z = x + y`, `in` as a test of membership, and any
        other call as `f(x, y)`. Operands get parentheses where they bind less than the operator.
        UnexpectedComment if a comment has no place.
        """
        if call.name in MEMBERS and len(call.args) == MEMBERS[call.name]:
            self.member(call.args)
            return
        sign = _INFIX.get(call.name)
        if sign is None or call.operator.args or _is_negation(call):
            self.call(call, parens=False)
        elif len(call.args) == 2:
            left, right = call.args
            assigns = call.name in ("assign", "eq")
            # `:=` and `=` bind less than every operator, so their operands need no parentheses.
            self.operand_term(left, parens=not assigns and _is_looser(left, call.name))
            self.layout.write(f" {sign} ")
            self.operand_term(right, parens=not assigns and _is_looser(right, call.name, 1))
        elif len(call.args) == 3:
            left, right, result = call.args
            self.term(result)
            self.layout.write(" = ")
            # OPA writes none of these parentheses, and with them the value of its text.
            self.operand_term(left, parens=_is_looser(left, call.name))
            self.layout.write(f" {sign} ")
            self.operand_term(right, parens=_is_looser(right, call.name, 1))
        else:
            self.plain_call(call)

    def operand_term(self, term: Term, *, parens: bool) -> None:
        """Write an operand of an infix call, with `parens` in parentheses. If a comment in it has
        no place, write its source text and raise UnexpectedComment.
        """
        if not parens:
            self.term(term)
            return
        mark = self.layout.mark()
        try:
            self.term_in(term, parens=True)
        except UnexpectedComment:
            self.layout.write_as_is(term.span, mark)
            raise

    def call(self, call: Call, *, parens: bool) -> None:
        """Write a call inside a term: infix operators with operands in parentheses if these are
        infix too, and with `parens` the whole in parentheses, as `k, v in xs` always is; `0 - x`
        from a sign as `-x`; others as `f(x, y)`. UnexpectedComment if a comment in it has no place.
        """
        if call.name in MEMBERS and len(call.args) == MEMBERS[call.name]:
            # A key needs the parentheses always: in a list its comma would separate items.
            self.write_in_parentheses(parens or len(call.args) == 3, lambda: self.member(call.args))
            return
        if _is_negation(call):
            self.write_in_parentheses(
                self.may_continue_line_above(), lambda: self.negative(call.args[1])
            )
            return
        sign = _INFIX.get(call.name)
        if sign is None or call.operator.args or len(call.args) != 2 or sign in (":=", "="):
            self.plain_call(call)
            return
        left, right = call.args

        def write() -> None:
            """Write the two operands with the operator between them."""
            self.term_in(left, parens=True)
            self.layout.write(f" {sign} ")
            self.term_in(right, parens=True)

        self.write_in_parentheses(parens, write)

    def may_continue_line_above(self) -> bool:
        """Return True if what is written next begins an expression below another one. A leading `-`
        would continue the line above there, so it needs parentheses.
        """
        return self._lead == self.layout.length

    def negative(self, term: Term) -> None:
        """Write `-` and the term, an infix one in parentheses. UnexpectedComment if a comment in it
        has no place.
        """
        self.layout.write("-")
        self.term_in(term, parens=True)

    def write_in_parentheses(self, parens: bool, write: Callable[[], None]) -> None:
        """Call `write`, which writes to the layout, with a parenthesis before and behind if
        `parens`. If it raises, the second one is missing.
        """
        self.layout.write("(" if parens else "")
        write()
        self.layout.write(")" if parens else "")

    def plain_call(self, call: Call) -> None:
        """Write a call as `f(x, y)`, its operands in several lines if they are in the source and
        the layout spreads. UnexpectedComment if a comment in it has no place.
        """
        self.ref(call.operator)
        self.layout.write("(")
        close = self.layout.closing_row(call.span, "()") if self.layout.spreads else -1
        self.items(call.args, call.operator.span, close, self.argument)
        self.layout.write(")")

    def member(self, operands: Sequence[Term]) -> None:
        """Write `x in xs`, or `k, v in xs` for three operands, with infix operands in parentheses;
        the last operand is the collection. UnexpectedComment if a comment in it has no place.
        """
        *keys, domain = operands
        for index, key in enumerate(keys):
            self.layout.write(", " if index else "")
            self.term_in(key, parens=True)
        self.layout.write(" in ")
        self.term_in(domain, parens=True)

    # Lists

    def items(self, items: Sequence[T], span: Span, close: int, write: Callable[[T], None]) -> None:
        """Write items with `write`, separated by commas: on one line if all began on one and no
        comment stands between, otherwise on the lines of the source, each with a comma at its end,
        and begin a new line for the closing bracket. `span` begins at the opening bracket, and
        `close` is the row of the closing one, -1 if unknown; the caller writes both brackets.
        """
        lines = _lines(items)
        if len(lines) < 2 and not (
            self.layout.spreads and self.has_between(items, span.row, close)
        ):
            for line in lines:
                self.line(line, write)
            if self.layout.spreads and self.layout.beside is None:
                self.layout.pass_row(close)
            return
        # A comment beside the bracket stays there if the first item comes below it.
        self.layout.open_lines(
            delay=not (self.layout.spreads and (not items or _row(items[0]) > span.row))
        )
        for line in lines:
            self.layout.start_line()
            self.line(line, write)
            self.layout.write(",")
            self.layout.end_line()
        self.layout.pass_row(close)
        self.layout.level -= 1
        self.layout.start_line()

    def has_between(self, items: Sequence[object], first: int, close: int) -> bool:
        """Return True if a waiting comment is in the rows from `first` to before `close`, and not
        in the row of an item.
        """
        rows = {row for item in items for row in _rows(item)}
        return any(
            first <= c.span.row < close and c.span.row not in rows for c in self.layout.comments
        )

    def line(self, items: Sequence[T], write: Callable[[T], None]) -> None:
        """Write each of `items` by calling `write` with it, `, ` between two; begin no line."""
        for index, item in enumerate(items):
            if index:
                self.layout.write(", ")
            write(item)

    def member_term(self, term: Term) -> None:
        """Write an item of a collection. A union (`a | b`) that was in parentheses, has an infix
        call as its left operand or is generated is put in parentheses, since it would read as a
        comprehension.
        """
        parens = _is_union(term) and (not term.span.text or _gets_parens(term))
        self.write_in_parentheses(parens, lambda: self.term(term))

    def argument(self, term: Term) -> None:
        self.write_in_parentheses(_is_union(term) and _gets_parens(term), lambda: self.term(term))

    def pair(self, pair: tuple[Term, Term]) -> None:
        """Write `key: value` of an object. UnexpectedComment if a comment in it has no place."""
        self.member_term(pair[0])
        self.layout.write(": ")
        self.member_term(pair[1])

    # Comprehensions

    def object_comprehension(self, term: ObjectComprehension) -> None:
        """Write `{key: value | …}`, its body on further lines if it has several expressions or is
        so in the source. UnexpectedComment if a comment in it has no place.
        """
        self.layout.write("{")
        self.member_term(term.key)
        self.layout.write(": ")
        self.comprehension_head(term.value)
        self.inner_body(term.body, term.key.span.row, self.layout.closing_row(term.span, "{}"))
        self.layout.write("}")

    def comprehension(self, pair: str, head: Term, body: Body, span: Span) -> None:
        """Write the inside of an array or set comprehension, `head | body`; its brackets `pair` are
        left to the caller. `span` is that of the whole.
        """
        if head.span.row > span.row:
            self.layout.end_line()
            self.layout.start_line()
        self.comprehension_head(head)
        self.inner_body(body, head.span.row, self.layout.closing_row(span, pair))

    def comprehension_head(self, head: Term) -> None:
        """Write the head and ` |`; a union is put in parentheses, and so is a call that was in
        them.
        """
        parens = isinstance(head, Call) and (_is_union(head) or _in_parens(head))
        self.term_in(head, parens=parens)
        self.layout.write(" |")

    def inner_body(self, body: Body, row: int, close: int) -> None:
        """Write the body of a comprehension or an `every`, or an operand of `not`, `and` or `or`:
        on one line if all its expressions begin in `row`, otherwise on indented lines. `row` is the
        row of what comes before the body, `close` that of the closing bracket.
        """
        if body[0].span.row > row or len(_lines(body)) > 1:
            self.layout.end_line()
            self.layout.level += 1
            self.body(body)
            self.layout.pass_row(close)
            self.layout.level -= 1
            self.layout.start_line()
            return
        self.layout.write(" ")
        for index, expr in enumerate(body):
            if index:
                self.layout.write("; ")
            self.expr(expr)
        self.layout.pass_row(close)

    # Template strings

    def template(self, term: TemplateString) -> None:
        """Write a template string in the quotes that it has, its text and its `{` escaped again,
        the expressions in it in braces, one level deeper. UnexpectedComment if a comment in it has
        no place.
        """
        quote = "`" if term.multi_line else '"'
        self.layout.write(f"${quote}")
        for part in term.parts:
            if isinstance(part, str):
                text = part if term.multi_line else _quote(part)[1:-1]
                self.layout.write(text.replace("{", "\\{"))
            else:
                self.layout.write("{")
                self.layout.level += 1
                self.expr(part)
                self.layout.level -= 1
                self.layout.write("}")
        self.layout.write(quote)


def _has_rows_between(first: Expr, second: Expr) -> bool:
    """Return True if there are rows between the end of one expression and the begin of another."""
    row = second.span.row
    # The row of the end is searched only where the two do not begin in adjacent rows, as most do.
    return row > first.span.row + 1 and row > last_row(first.span) + 1


def _lines(items: Sequence[T]) -> list[list[T]]:
    """Group items into lines: a new one begins with each item in a later row than the item before
    it.
    """
    lines: list[list[T]] = []
    row = 0
    for item in items:
        begins = _row(item)
        if not lines or begins > row:
            lines.append([])
        lines[-1].append(item)
        row = begins
    return lines


def _rows(item: object) -> range:
    """Return the rows of the source that an item or a pair covers; an empty range if its span is
    unknown.
    """
    last = item[-1] if isinstance(item, tuple) else item
    span = getattr(last, "span", None)
    return range(_row(item), last_row(span) + 1 if isinstance(span, Span) else 0)


def _row(item: object) -> int:
    """Return the row of an item, or of a pair's key; 0 if unknown."""
    if isinstance(item, tuple):
        item = item[0]
    span = getattr(item, "span", None)
    return span.row if isinstance(span, Span) else 0


def _in_parens(term: Term) -> bool:
    return term.span.text.startswith("(")


def _gets_parens(union: Term) -> bool:
    """Return True if OPA's formatter puts a union (`a | b`) in parentheses, now or when it formats
    its own output again: it is written in them, or its left operand is an infix call, which OPA
    puts in parentheses.
    """
    if _in_parens(union):
        return True
    assert isinstance(union, Call), "asked about unions"
    left = union.args[0]
    return isinstance(left, Call) and left.name in _INFIX and not _is_negation(left)


def _is_union(term: Term) -> bool:
    return isinstance(term, Call) and term.name == "or" and len(term.args) == 2


def _is_negation(call: Call) -> bool:
    """Return True for `-x`, which is parsed as `0 - x` with an implied zero."""
    if call.name != "minus" or len(call.args) != 2:
        return False
    zero = call.args[0]
    return zero == Scalar(0) and zero.span.row > 0 and zero.span.start == zero.span.end


def _is_looser(term: Term, name: str, strict: int = 0) -> bool:
    """Return True if `term` needs parentheses as an operand of the operator `name`, since its own
    operator binds less; with `strict` 1 also if both bind alike.
    """
    if not isinstance(term, Call) or term.name not in _LEVELS or _is_negation(term):
        return False
    return _LEVELS[term.name] < _LEVELS[name] + strict


def _has_index(expr: Expr) -> bool:
    """Return True if an expression has, at any depth, a variable as an operand of a reference,
    which it may bind.
    """
    refs = (node for node in walk(expr) if isinstance(node, Ref))
    return any(isinstance(arg, Var) for ref in refs for arg in ref.args)


def _begins_with_brace(term: object) -> bool:
    """Return True if the text of a term begins with `{`, also as the head of a reference or the
    left side of an operator.
    """
    match term:
        case Set(items=items):
            return bool(items)
        case Object() | SetComprehension() | ObjectComprehension():
            return True
        case Ref(head=head):
            return _begins_with_brace(head)
        case Call(args=(first, _)) if term.name in _INFIX:
            return _begins_with_brace(first)
        case _:
            return False


def scalar_text(term: Scalar) -> str:
    """Return a scalar as text: a string as it was written, if that is known, otherwise quoted; a
    number with its own digits.
    """
    match term.value:
        case None:
            return "null"
        case bool() as truth:
            return "true" if truth else "false"
        case str() as text:
            written = term.span.text
            return written if written[:1] in ('"', "`") and written else _quote(text)
        case number:
            return number_text(number)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def in_row(node: Node, row: int) -> Node:
    """Return a copy of `node` whose span begins in `row`; the node itself if its row is unknown."""
    return replace(node, span=replace(node.span, row=row)) if node.span.row else node
