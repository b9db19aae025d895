"""Bodies as OPA's checks of safety and of types read them: one call for each expression.

A nested call becomes an expression of its own, whose result goes into a generated variable
(`lifting`). Types are checked when references and comprehensions in operands are bound to variables
as well (`operands`): `count(input.xs) + 1` reads then

    __local2__ = input.xs; count(__local2__, __local0__); plus(__local0__, 1, __local1__)

Each expression stands where the term stood that it was made of: that is what decides where a type
error is reported. The tree that is evaluated stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from doorward.base.records import record, replace
from doorward.rego.analysis.bindings import Arity, as_call, names_function
from doorward.rego.analysis.lifting import Lifting, Origins
from doorward.rego.analysis.operands import Operands, equation, is_print
from doorward.rego.source import NOWHERE, Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Not,
    Or,
    Ref,
    Rule,
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

__all__ = ["FlatRule", "Flattener"]

_TEMPLATE_STRING: Final = Ref(Var("internal"), (Scalar("template_string"),))
_EQUALITIES: Final = frozenset({"eq", "assign"})


@record
class FlatRule:
    """One rule in which each call is an expression of its own. In `head`, variables that the body
    binds stand for the terms that must be computed.
    """

    head: Head
    body: Body
    rule: Rule


class Flattener:
    """Takes terms apart. `arity` tells which values of `with` are functions. `unify_equals`: `==`
    between expressions is read as `=`, as in modules; in queries it can be false. `prefix`: the
    beginning of OPA's names for generated variables, which its errors show. `origins`: records
    which written expressions the flat ones come from. `captured` are the expressions made from the
    parts of template strings; `templates` the comprehensions of these parts and of the operands of
    `print`: their variables must be bound outside of them. `prints` has the latter alone, by
    identity, with the position of the operand. `is_typed`: template strings are calls, as OPA's
    type checker reads them.
    """

    def __init__(
        self,
        arity: Arity,
        *,
        unify_equals: bool,
        is_typed: bool = False,
        prefix: str = "__local",
        origins: Origins | None = None,
    ) -> None:
        self.equalities = _EQUALITIES | ({"equal"} if unify_equals else set())
        self.arity = arity
        self.is_typed = is_typed
        self.prefix = prefix
        self.count = 0
        self.captured: dict[int, Span] = {}
        self.templates: set[int] = set()
        self.prints: dict[int, Span] = {}
        self.expr_span: Span | None = None
        self.origins = origins
        self.lifting = Lifting(self, origins)

    def rule(self, rule: Rule) -> FlatRule:
        """Return one branch of a rule in flat form: calls in it are separate expressions, and those
        of its head follow the body. `else` branches are not included. The steps are recorded in
        `origins`, if there is one.
        """
        out, result = list[Expr](), self.lifting.result
        self.exprs(rule.body, out)
        head = rule.head
        key = None if head.key is None else result(head.key, out)
        value = None if head.value is None else result(head.value, out)
        args = head.args and tuple([result(arg, out) for arg in head.args])
        ref = replace(head.ref, args=tuple([result(arg, out) for arg in head.ref.args]))
        flat = tuple(out)
        if self.origins is not None:
            self.origins.add_body(rule.body, flat)
        return FlatRule(replace(head, ref=ref, args=args, key=key, value=value), flat, rule)

    def body(self, body: Body) -> Body:
        """Return a body whose calls are separate expressions."""
        return self.lifting.body(body)[0]

    def with_operands(self, body: Body) -> Body:
        """Return a flat body with an equation before each expression for each reference or
        comprehension among its operands.
        """
        return Operands(_EQUALITIES, self.local, lambda part: (part,)).body(body)

    def local(self, span: Span) -> Var:
        """Return a new variable for the term at `span`."""
        self.count += 1
        # `@` keeps the name apart from any that a policy can write (`scope.source_name`).
        return Var(f"{self.prefix}{self.count - 1}__@", span)

    # Expressions

    def exprs(self, body: Sequence[Expr], out: list[Expr]) -> None:
        """Append the flat expressions of a body to `out`, those of each expression in its order,
        the span of each noted in `expr_span` meanwhile.
        """
        around = self.expr_span
        for expr in body:
            self.expr_span = expr.span
            self.expr(expr, out)
        self.expr_span = around

    def expr(self, expr: Expr, out: list[Expr]) -> None:
        """Append the flat form of an expression to `out`: what is taken out of the values of its
        `with`, then the steps that it is made of, each under its `with`, and last the one that
        corresponds to it. The steps are recorded in `origins`, if there is one.
        """
        begin = len(out)
        withs = tuple(self._with(item, out) for item in expr.withs)
        first = len(out)
        self._expr(expr, withs, out)
        if withs:  # what is taken out of the expression is evaluated under its `with` as well
            out[first:-1] = [replace(step, withs=(*step.withs, *withs)) for step in out[first:-1]]
        if self.origins is not None:
            self.origins.add_expr(expr, out[begin:])

    def _expr(self, expr: Expr, withs: tuple[With, ...], out: list[Expr]) -> None:
        """Append to `out` the flat form of `expr`: nested calls become equations with generated
        variables before it, each with the given `withs`, and the last expression appended
        corresponds to `expr`. Inner bodies are made flat too; `some … in` becomes an equation with
        a reference, the domain of `every` a variable, and `print` an array of its captured
        operands.
        """
        for before in expr.before:
            self.expr(before, out)
        flat = replace(expr, withs=withs, before=()) if withs or expr.before else expr
        term = expr.term
        match term:
            case SomeDecl():
                out.append(flat)
            case SomeIn(key, value, domain):
                reference = self._member(domain, key)
                self._call(flat, "eq", (value, reference), out)
            case Every(_, _, domain, body):
                local = self.local(domain.span)
                out.append(equation(local, self.lifting.term(domain, out), domain.span))
                every = replace(term, domain=local, body=self.body(body))
                out.append(replace(flat, term=every))
            case Not((inner,), False):
                # Without braces its only expression stands, for OPA, where the `not` does.
                body = self.body((replace(inner, span=expr.span),))
                if self.origins is not None:
                    self.origins.add_body(term.body, body)
                out.append(replace(flat, term=replace(term, body=body)))
            case Not(body):
                out.append(replace(flat, term=replace(term, body=self.body(body))))
            case And(left, right) | Or(left, right):
                both = replace(term, left=self.body(left), right=self.body(right))
                out.append(replace(flat, term=both))
            case Call() if is_print(term):
                parts = tuple(self._capture(arg) for arg in term.args)
                out.append(replace(flat, term=Array(parts, term.span)))
            case Call(operator, args):
                if term.name in self.equalities and len(args) == 2:
                    name = "assign" if term.name == "assign" else "eq"
                    self._call(flat, name, args, out)
                else:
                    operands = self.lifting.terms(args, out)
                    out.append(replace(flat, term=Call(operator, operands, term.span)))
            case _:
                out.append(replace(flat, term=self.lifting.term(term, out)))

    def _call(self, flat: Expr, name: str, args: tuple[Term, ...], out: list[Expr]) -> None:
        """Append to `out` the steps that compute `args`, then the call of `name` with their
        results, which keeps the position, `with` and negation of `flat`.
        """
        lifted = self.lifting.terms(args, out)
        operator = Ref(Var(name, flat.span), (), flat.span)
        out.append(replace(flat, term=Call(operator, lifted, flat.span)))

    def _with(self, item: With, out: list[Expr]) -> With:
        """Return a `with` whose value is a flat term; steps to compute it are appended to `out`.
        The name of a function stays a name.
        """
        value = item.value
        call = as_call(value)
        is_function = call is not None and self.arity(call) is not None
        if names_function(item, self.arity) or (is_function and _is_data(item.target, value)):
            return replace(item, value=Ref(value, ())) if isinstance(value, Var) else item
        if is_function and isinstance(value, Var):
            # The name of a built-in is a reference for OPA, to a variable nobody binds.
            value = Ref(value, (), value.span)
        return replace(item, value=self.lifting.result(value, out))

    def _member(self, domain: Term, key: Term | None) -> Ref:
        """Return the reference to an item of a domain under a key, or under a new variable."""
        index = key if key is not None else self.local(domain.span)
        if isinstance(domain, Ref):
            return Ref(domain.head, (*domain.args, index), domain.span)
        return Ref(domain, (index,), domain.span)

    # What is taken out of terms

    def call(self, call: Call, out: list[Expr]) -> Var:
        """Append a call with an output operand to `out`; return the variable of its result."""
        local = self.local(call.span)
        extended = Call(call.operator, (*call.args, local), call.span)
        out.append(Expr(extended, span=call.span))
        return local

    def template(self, term: TemplateString, out: list[Expr]) -> Var:
        """Append an array of the parts of a template string, each captured in a comprehension, to
        `out`; return a new variable that is equated with a string. With `is_typed`, the array is
        the operand of a call whose result is the variable.
        """
        captured = tuple(
            self._part(self._at_expr(p.term, term.span), p)
            for p in term.parts
            if isinstance(p, Expr)
        )
        if self.is_typed:
            array = Array(captured, term.span)
            return self.call(Call(_TEMPLATE_STRING, (array,), term.span), out)
        out.append(Expr(Array(captured, term.span), span=term.span))
        local = self.local(term.span)
        out.append(equation(local, Scalar("", term.span), term.span))
        return local

    def _part(self, term: object, part: Expr) -> Term:
        """Return a part of a template string as a set of its value, which is empty if the value is
        undefined. For types, a lone variable is in a literal set, as in OPA.
        """
        if self.is_typed and isinstance(term, Var):
            return Set((term,), term.span)
        return self._capture(term, part)

    def _at_expr(self, term: object, span: Span) -> object:
        """Return a lone variable of a template string with the span of the enclosing expression,
        where OPA reports it; other terms unchanged.
        """
        return replace(term, span=self.expr_span or span) if isinstance(term, Var) else term

    def _capture(self, term: object, part: Expr | None = None) -> Term:
        """Return the set comprehension `{x | x = term}` for an operand of `print` or a part of a
        template string, which may be undefined. It is recorded in `templates`; an operand also in
        `prints`, and the expressions of a part that is not a lone variable in `captured`.
        """
        inside: list[Expr] = []
        assert isinstance(term, Term)  # template strings hold nothing else
        span = term.span
        if part is not None and isinstance(term, Call):
            # OPA has no position for a call inside a template string.
            term = replace(term, span=NOWHERE)
        local = self.local(span)
        inside.append(equation(local, self.lifting.term(term, inside), span))
        comprehension = SetComprehension(local, tuple(inside), span)
        if part is None:
            self.prints[id(comprehension)] = span
        elif not isinstance(term, Var):
            self.captured.update((id(expr), term.span) for expr in inside)
        self.templates.add(id(comprehension))
        return comprehension


def _is_data(*terms: Term) -> bool:
    """Return True if all the terms are references below `data`."""
    return all(
        isinstance(t, Ref) and isinstance(t.head, Var) and t.head.name == "data" for t in terms
    )
