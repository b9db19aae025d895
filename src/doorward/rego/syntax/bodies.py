"""Expressions and bodies: what stands between the braces of a rule or a comprehension."""

from __future__ import annotations

from dataclasses import replace

from doorward.rego.source import Source
from doorward.rego.syntax.cursor import V1_KEYWORDS, State
from doorward.rego.syntax.lexer import IDENT
from doorward.rego.syntax.nodes import (
    And,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Or,
    Ref,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.terms import AFTER_TERM, LOGICAL, TermParser, is_variable

__all__ = ["BodyParser"]


class BodyParser(TermParser):
    """The productions of bodies and of the expressions in them."""

    def __init__(self, source: Source, *, v0: bool = False) -> None:
        super().__init__(source, v0=v0)
        self.composite_not = False
        """`future.keywords.not` is imported."""
        self._no_bodies: set[int] = set()
        """Where a `{` was found not to begin an operand of `and` or `or`."""

    def forget(self) -> None:
        super().forget()
        self._no_bodies.clear()

    def parse_body(self, end: str) -> Body | None:
        """body = literal { (";" | newline) literal } end"""
        depth = self.depth
        self.enter()
        body = self._parse_literals(end)
        self.depth = depth
        return body

    def _parse_literals(self, end: str) -> Body | None:
        if self.kind == end:
            self.error("found empty body")
            return None
        exprs = []
        while True:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
            if self.kind == ";":
                self.scan()
                continue
            if self.kind == end:
                return tuple(exprs)
            if not self.token.newline:
                if not self.errors:
                    self.illegal(f"expected \\n or ; or {end}")
                return None

    def parse_query_part(self) -> Body | None:
        """query = literal { ";" literal }"""
        exprs = []
        while True:
            expr = self.parse_literal()
            if expr is None:
                return None
            exprs.append(expr)
            if self.kind != ";":
                return tuple(exprs)
            self.scan()

    def parse_literal(self) -> Expr | None:
        """literal = ( some | disjunction ) { with }"""
        start = self.token.start
        if not self.keywords & LOGICAL:
            expr = self._parse_plain(start)
        else:
            body = self._parse_logical(start, ("or", "and"), left=True)
            expr = body[0] if body else None
        if expr is None or isinstance(expr.term, SomeDecl):
            return expr
        if self.kind != "with":
            return expr
        withs = self._parse_withs()
        return None if withs is None else replace(expr, withs=withs, span=self.since(start))

    def _parse_logical(self, start: int, operators: tuple[str, ...], *, left: bool) -> Body | None:
        """disjunction = conjunction { "or" conjunction }
        conjunction = operand { "and" operand }
        """
        if not operators:
            return self._parse_logical_operand(start, left=left)
        first = self._parse_logical(start, operators[1:], left=left)
        name = operators[0]
        node = And if name == "and" else Or
        depth = self.depth
        while first is not None and self.kind == name:
            self.scan()
            second = self._parse_logical(self.token.start, operators[1:], left=False)
            if second is None:
                return None
            self.enter()
            span = self.since(start)
            first = (Expr(node(first, second, span), span=span),)
        self.depth = depth
        return first

    def _parse_logical_operand(self, start: int, *, left: bool) -> Body | None:
        """operand = [ "not" ] expr | "{" body "}" """
        if self.kind == "{" and start not in self._no_bodies:
            state = self.save()
            self.scan()
            body = self.parse_body("}")
            if body is not None:
                self.scan()
                follows = self.kind in LOGICAL
                if follows or (not left and self.kind not in AFTER_TERM):
                    return body
            self.restore(state)
            self._no_bodies.add(start)
        expr = self._parse_plain(start)
        if expr is None:
            return None
        in_logical = not left or self.kind in LOGICAL
        if in_logical and isinstance(expr.term, Call) and expr.term.name == "assign":
            self.error("unexpected assignment (':=') outside `{ ... }` in `and` or `or`")
            return None
        return (expr,)

    def _parse_plain(self, start: int) -> Expr | None:
        """plain = [ "not" ] ( every | expr )"""
        if self.take_ref_keyword():
            return self._parse_expr_literal(start, negated=False)
        negated = self.kind == "not"
        if negated:
            self.scan()
            if self.composite_not:
                return self._parse_not(start)
        if self.kind in ("some", "every"):
            if negated:
                self.illegal(f"illegal negation of '{self.kind}'")
                return None
            return self._parse_some(start) if self.kind == "some" else self._parse_every(start)
        return self._parse_expr_literal(start, negated=negated)

    def _parse_not(self, start: int) -> Expr | None:
        """not = "not" ( "{" body "}" | expr )"""
        braces = self.kind == "{"
        body: Body | None
        if braces:
            self.scan()
            body = self.parse_body("}")
            if body is not None:
                self.scan()
        else:
            if self.kind in ("some", "every") and not self.take_ref_keyword():
                self.illegal(f"illegal negation of '{self.kind}'")
                return None
            expr = self._parse_expr_literal(self.token.start, negated=False)
            body = None if expr is None else (expr,)
        if body is None:
            return None
        span = self.since(start)
        return Expr(Not(body, braces, span), span=span)

    def _parse_expr_literal(self, start: int, *, negated: bool) -> Expr | None:
        state = self.save()
        term = self._parse_expr()
        if term is None:
            return None
        if self.v0 and isinstance(term, Var) and term.name == "every":
            self._hint_every(state)
        return Expr(term, negated, (), self.since(start))

    def _parse_expr(self) -> Term | None:
        """expr = term-infix [ ( ":=" | "=" ) term-infix ]"""
        start = self.token.start
        left = self.parse_infix()
        if left is None or self.kind not in (":=", "="):
            return left
        name = "assign" if self.kind == ":=" else "eq"
        operator = self.operator(name)
        right = self.parse_infix()
        if right is None:
            return None
        return Call(operator, (left, right), self.place(left, start), infix=True)

    def _parse_withs(self) -> tuple[With, ...] | None:
        """with = "with" target "as" term-infix"""
        withs: list[With] = []
        while self.kind == "with":
            start = self.token.start
            self.scan()
            if self.kind != IDENT:
                self.illegal("expected ident")
                return None
            target = self.parse_term()
            if target is None:
                return None
            if not isinstance(target, Ref | Var):
                self.illegal("expected with target path")
            if self.kind != "as":
                self.illegal("expected as keyword")
                return None
            self.scan()
            value = self.parse_infix()
            if value is None:
                return None
            if isinstance(target, Ref | Var):
                withs.append(With(target, value, self.since(start)))
        return tuple(withs)

    def _parse_some(self, start: int) -> Expr | None:
        """some = "some" ( [ term "," ] term "in" term { with } | var { "," var } )"""
        state = self.save()
        self.scan()
        term = self.parse_infix()
        if isinstance(term, Call):
            if not term.infix or not term.name.startswith("internal.member_"):
                self.illegal("expected `x in xs` or `x, y in xs` expression")
                return None
            *key, value, domain = term.args
            span = self.since(start)
            some = SomeIn(key[0] if key else None, value, domain, span, term.operator)
            return Expr(some, span=span)
        self.restore(state)
        if self.v0:
            self._hint_some_in()
        return self._parse_some_names(start)

    def _parse_some_names(self, start: int) -> Expr | None:
        names: list[Var] = []
        while True:
            self.scan()
            if self.kind != IDENT:
                self.illegal("expected var")
                return None
            names.append(self.parse_var())
            self.scan()
            if self.kind != ",":
                break
        span = self.since(start)
        return Expr(SomeDecl(tuple(names), span), span=span)

    def _parse_every(self, start: int) -> Expr | None:
        """every = "every" [ var "," ] var "in" term "{" body "}" { with }"""
        self.scan()
        term = self.parse_infix()
        if term is None:
            return None
        if not (isinstance(term, Call) and term.infix and term.name.startswith("internal.member_")):
            self.illegal("expected `x[, y] in xs { ... }` expression")
            return None
        *keys, value, domain = term.args
        key = keys[0] if keys else None
        if key is not None and not is_variable(key):
            self.illegal("expected key to be a variable")
            return None
        if not is_variable(value):
            self.illegal("expected value to be a variable")
            return None
        if self.kind != "{":
            self.illegal("missing body")
            return None
        self.scan()
        body = self.parse_body("}")
        if body is None:
            return None
        self.scan()
        span = self.since(start)
        return Expr(Every(key, value, domain, body, span), span=span)

    # Hints for v0 texts that lack an import

    def _hint_some_in(self) -> None:
        state, keywords = self.save(), self.keywords
        self.forget()
        self.keywords = keywords | V1_KEYWORDS
        self.scan()
        term = self.parse_infix()
        self.keywords = keywords
        self.forget()
        self.restore(state)
        if isinstance(term, Call) and term.infix and term.name.startswith("internal.member_"):
            self.hint("`import future.keywords.in` for `some x in xs` expressions")

    def _hint_every(self, state: State) -> None:
        now, keywords = self.save(), self.keywords
        errors = list(self.errors)
        self.forget()
        self.keywords = keywords | V1_KEYWORDS
        self.restore(state)
        every = self._parse_every(self.token.start)
        self.keywords = keywords
        self.forget()
        self.restore(now)
        self.errors = errors
        if every is not None:
            self.hint("`import future.keywords.every` for `every x in xs { ... }` expressions")
