"""Bodies in the order in which they are evaluated: OPA's, of the expressions as they were written.

OPA puts bodies in order when calls inside of terms are expressions of their own (`safe_order`). An
expression as it was written stands where the last of its parts stands. Where another one needs what
an earlier part binds, that part becomes an expression of its own here as well: a head that binds
what its body needs (`p := xs[i] if i > 1`), or a call. What precedes the negation of an expression
goes before it (`negation.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from doorward.base.records import record, replace
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.lifting import Origins
from doorward.rego.analysis.negation import Negations
from doorward.rego.analysis.opa_diagnostics.flat_variables import all_vars
from doorward.rego.analysis.opa_diagnostics.flattening import FlatRule, Flattener
from doorward.rego.analysis.opa_diagnostics.print_variables import (
    undeclared_in_query,
    undeclared_in_rule,
)
from doorward.rego.analysis.opa_diagnostics.unsafe_variables import (
    first_stage,
    query_errors,
    rule_findings,
)
from doorward.rego.analysis.safe_order import Ordered, SafeOrder, Unsafe
from doorward.rego.analysis.scope import source_name
from doorward.rego.analysis.shapes import Shapes
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.analysis.written_order import is_in_order, is_rule_in_order
from doorward.rego.errors import UNSAFE_VAR_ERROR, Diagnostic
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Head,
    Module,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    Scalar,
    Set,
    SetComprehension,
    SomeIn,
    TemplateString,
    Term,
    Var,
    is_ground,
)

__all__ = ["order_modules", "order_query", "order_steps"]

_Part = TypeVar("_Part", bound=Term)


def order_modules(
    modules: Sequence[Module], callees: Callees, shapes: Shapes | None = None
) -> tuple[Sequence[Module], list[Diagnostic]]:
    """Return every module with its bodies in safe order and the parts of negated expressions that
    are evaluated first in `Expr.before`, and the errors for unsafe variables. If there are errors,
    the modules are returned unchanged. Once a rule is found safe as written, later rules with the
    same number in `shapes` count as safe unchecked.
    """
    shapes = shapes or Shapes()
    shapes_in_order: set[int | None] = set()
    orders: dict[int, _Order | None] = {}
    findings = []
    printed = []
    for rule in _branches(rule for module in modules for rule in module.rules):
        printed += undeclared_in_rule(rule, callees)
        shape = shapes.number(rule)
        # Most rules are: flattening them only to find that out would cost most of this pass.
        if shape in shapes_in_order or is_rule_in_order(rule, callees.arity):
            orders[id(rule)] = None
            if shape is not None:
                shapes_in_order.add(shape)
            continue
        order = _Order.of_rule(rule, callees)
        findings.append(rule_findings(order.flat, order.unsafe, order.flattener))
        orders[id(rule)] = order
    errors = printed or first_stage(findings)
    if errors:
        return modules, errors
    negations = Negations(in_query=False)
    try:
        return [
            replace(module, rules=tuple([_rule(rule, orders, negations) for rule in module.rules]))
            for module in modules
        ], []
    except _UnsafeError as error:
        return modules, error.diagnostics


def order_query(body: Body, callees: Callees) -> tuple[Body, list[Diagnostic]]:
    """Return a query's body in safe order, with the parts of negated expressions that are evaluated
    first in `Expr.before`, and the errors for unsafe variables. If there are errors, the body is
    returned unchanged.
    """
    origins = Origins()
    flattener = Flattener(callees.arity, unify_equals=False, origins=origins)
    order = SafeOrder(callees.operands, flattener.templates)
    unsafe = order.body(flattener.body(body), ROOTS)
    errors = undeclared_in_query(body, callees) or query_errors(body, unsafe, flattener, callees)
    if errors:
        return body, errors
    try:
        return _Rebuilding(order, origins, Negations(in_query=True)).body(body), []
    except _UnsafeError as error:
        return body, error.diagnostics


def order_steps(
    body: Body, around: Iterable[str], callees: Callees, negations: Negations
) -> Body | None:
    """Return a body whose calls are separate expressions in safe order, in which each expression
    finds bound what it needs; None if there is no such order. The variables `around` are bound
    before the body; `negations` splits negated expressions.
    """
    if is_in_order(body, around, callees.arity):
        return body
    origins = Origins()
    flattener = Flattener(callees.arity, unify_equals=False, origins=origins)
    order = SafeOrder(callees.operands, flattener.templates)
    if order.body(flattener.body(body), ROOTS.union(around)):
        return None
    try:
        return _Rebuilding(order, origins, negations).body(body)
    except _UnsafeError:
        return None


def _branches(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield each rule, followed by its `else` branches in order."""
    for rule in rules:
        branch: Rule | None = rule
        while branch is not None:
            yield branch
            branch = branch.else_rule


class _UnsafeError(Exception):
    """No safe order exists for the expressions as they were written, although one exists for their
    parts.
    """

    def __init__(self, names: AbstractSet[str], span: Span) -> None:
        super().__init__(span)
        self.diagnostics = [
            Diagnostic(UNSAFE_VAR_ERROR, f"var {source_name(name)} is unsafe", span)
            for name in sorted(names)
        ]


@record(guarded=False)
class _Order:
    """A rule without its `else` in flat form (each call is an expression of its own), and the safe
    order of its bodies. `unsafe` has the expressions without an order.
    """

    flat: FlatRule
    flattener: Flattener
    origins: Origins
    order: SafeOrder
    unsafe: Unsafe

    @classmethod
    def of_rule(cls, rule: Rule, callees: Callees) -> _Order:
        """Return one branch of a rule in flat form with the order of its bodies, in all of which
        its parameters are bound. If it has no safe order, `unsafe` is not empty.
        """
        origins = Origins()
        flattener = Flattener(callees.arity, unify_equals=False, origins=origins)
        flat = flattener.rule(rule)
        order = SafeOrder(callees.operands, flattener.templates)
        args = {v.name for arg in flat.head.args or () for v in all_vars(arg)}
        return cls(flat, flattener, origins, order, order.body(flat.body, ROOTS | args))


def _rule(rule: Rule, orders: Mapping[int, _Order | None], negations: Negations) -> Rule:
    """Return a rule and its `else` branches with their bodies in order and their negated
    expressions split; the same object if nothing changes. `orders`: by the `id` of each branch its
    order, or None if the branch is in order as written.
    """
    order = orders[id(rule)]
    if order is None:
        body, head = rule.body, rule.head
        # A rule in written order is not flattened, but its negated expressions still need `before`.
        if any([expr.negated for expr in body]):
            body = tuple([negations.split(e) if e.negated else e for e in body])
    else:
        rebuilding = _Rebuilding(order.order, order.origins, negations)
        body, head = rebuilding.rule_body(rule)
    otherwise = None if rule.else_rule is None else _rule(rule.else_rule, orders, negations)
    if order is not None:
        head = rebuilding.head(head)
    if body is rule.body and head is rule.head and otherwise is rule.else_rule:
        return rule
    return replace(rule, head=head, body=body, else_rule=otherwise)


class _Rebuilding:
    """Rebuilds the tree as it was written, with its bodies in the order of their flat form."""

    def __init__(self, order: SafeOrder, origins: Origins, negations: Negations) -> None:
        self.order = order
        self.origins = origins
        self.negations = negations

    def rule_body(self, rule: Rule) -> tuple[Body, Head]:
        """Return a rule's body in order, inner bodies included, and its head, parts of which may
        have moved into the body. Comprehensions in the head stay as they are: see `head`. Raise
        _UnsafeError if no order exists.
        """
        head = rule.head
        heads = [t for t in (*head.ref.args, head.key, head.value) if t is not None]
        body, moved = self._in_order(rule.body, heads, heads)
        args = [moved.get(id(arg), arg) for arg in head.ref.args]
        if moved:
            head = replace(
                head,
                ref=replace(head.ref, args=tuple(args)),
                key=moved.get(id(head.key), head.key),
                value=moved.get(id(head.value), head.value),
            )
        return tuple([self.expr(expr) for expr in body]), head

    def head(self, head: Head) -> Head:
        """Return a rule's head with the bodies of the comprehensions in its reference, key and
        value in order; parameters stay.
        """
        ref = self.term(head.ref)
        key = None if head.key is None else self.term(head.key)
        value = None if head.value is None else self.term(head.value)
        return replace(head, ref=ref, key=key, value=value)

    def body(self, body: Body) -> Body:
        """Return a body in safe order, with the bodies inside it in order."""
        return self._order_comprehension(body, ())[0]

    def _order_comprehension(
        self, body: Body, heads: tuple[Term, ...]
    ) -> tuple[Body, tuple[Term, ...]]:
        """Return a comprehension's body in order, and its head terms; a variable stands for a head
        term that had to become an expression of the body.
        """
        ordered, moved = self._in_order(body, heads)
        heads = tuple([moved.get(id(head), head) for head in heads])
        return tuple([self.expr(e) for e in ordered]), tuple([self.term(h) for h in heads])

    def expr(self, expr: Expr) -> Expr:
        """Return an expression with its inner bodies (`every`, `not`, `and`, `or`, comprehensions;
        in `with` too) in the order in which they are evaluated. A negated one that has no `before`
        (expressions evaluated first) yet also gets its calls and references moved there, so that
        only its last step is negated.
        """
        term = expr.term
        if isinstance(term, SomeIn):
            term = replace(term, domain=self.term(term.domain))
        elif isinstance(term, Every):
            body = self.body(term.body)
            term = replace(term, domain=self.term(term.domain), body=body)
        elif isinstance(term, Not):
            term = replace(term, body=self.body(term.body))
        elif isinstance(term, (And, Or)):
            left = self.body(term.left)
            term = replace(term, left=left, right=self.body(term.right))
        elif isinstance(term, Term):
            term = self.term(term)
        withs = tuple([replace(item, value=self.term(item.value)) for item in expr.withs])
        expr = replace(expr, term=term, withs=withs)
        # A body in steps may hold what was taken apart before: parts of template strings.
        is_apart = expr.negated and not expr.before
        return self.negations.split(expr) if is_apart else expr

    def term(self, term: _Part) -> _Part:
        """Return a term with the bodies of all comprehensions and template strings in it put in the
        order in which they are evaluated. A head of a comprehension may be replaced by a variable
        that its body then binds. A ground term (without variables) is returned unchanged.
        """
        new: Term = term
        if is_ground(term):
            return term
        match term:
            case Ref(head, args):
                head = self.term(head)
                new = replace(term, head=head, args=tuple([self.term(arg) for arg in args]))
            case Call(_, args):
                new = replace(term, args=tuple([self.term(arg) for arg in args]))
            case Array(items) | Set(items):
                new = replace(term, items=tuple([self.term(item) for item in items]))
            case Object(items):
                new = replace(term, items=tuple([(self.term(k), self.term(v)) for k, v in items]))
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                ordered, heads = self._order_comprehension(body, (inner,))
                new = replace(term, term=heads[0], body=ordered)
            case ObjectComprehension(key, value, body):
                ordered, heads = self._order_comprehension(body, (key, value))
                new = replace(term, key=heads[0], value=heads[1], body=ordered)
            case TemplateString(parts):
                inside = [part if isinstance(part, str) else self.expr(part) for part in parts]
                new = replace(term, parts=tuple(inside))
        return new  # type: ignore[return-value]  # it has the class of `term`

    # The order of one body

    def _in_order(
        self, body: Body, heads: Sequence[Term], read: Sequence[Term] = ()
    ) -> tuple[Sequence[Expr], dict[int, Var]]:
        """Return the expressions of a body in order. A term of `heads` that had to become an
        expression of the body is replaced by a variable: these are returned by the `id` of the
        term. `read`: further head terms, whose variables must be bound at the end. Raise
        _UnsafeError if no order exists.
        """
        flat = self.origins.flat(body)
        if flat is None:  # a part of an expression that was taken apart
            known = self.order.orders.get(id(body))
            return body if known is None else known.exprs, {}
        order = self.order.orders[id(flat)]
        if order.is_as_written and not read:
            return body, {}
        return _Sequence(order, self.order, self.origins, heads, read).exprs()


class _Sequence:
    """The order of one body. Several flat expressions may come from one written expression, which
    is placed where the last of them is.
    """

    def __init__(
        self,
        ordered: Ordered,
        order: SafeOrder,
        origins: Origins,
        heads: Sequence[Term],
        read: Sequence[Term],
    ) -> None:
        self.ordered = ordered
        self.order = order
        self.origins = origins
        self.heads = {id(head) for head in heads}
        self.read = read
        self.parts: dict[int, list[Expr]] = {}
        for step in ordered.exprs:
            self.parts.setdefault(id(origins.part_of(step)), []).append(step)
        self.here = {name for step in ordered.exprs for name in order.names(step)} - ordered.around
        self.moved: dict[int, Var] = {}
        """The variables that replace terms of the head, by the `id` of the term; the terms are
        computed in the body.
        """
        self.apart: set[int] = set()
        """The identities of the expressions that were split into their flat expressions."""

    def exprs(self) -> tuple[Sequence[Expr], dict[int, Var]]:
        """Return the expressions in order, and by `id` the variables for the head terms that became
        expressions of the body. A part is taken apart only if no order exists otherwise; raise
        _UnsafeError if a variable stays unbound even then.
        """
        # Ends: each round takes one more part apart, and a part is taken apart once.
        while True:
            groups = list(self._groups())
            missing, part = self._missing(groups)
            if not missing:
                return [expr for expr, _ in groups], self.moved
            if not self._take_apart(missing, part):
                raise _UnsafeError(missing, part.span)

    def _groups(self) -> Iterator[tuple[Expr, list[Expr]]]:
        """Yield each written expression, in order, with the flat expressions (one call each) that
        it consists of; it stands where the last of these stands. Of an expression that was taken
        apart each flat one is yielded alone.
        """
        for step in self.ordered.exprs:
            part = self.origins.part_of(step)
            if id(part) in self.apart:
                yield step, [step]
                continue
            group = self._steps_of(part)
            if step is not group[-1]:
                continue
            if isinstance(part, Expr):
                yield part, group
            elif id(part) in self.moved:
                yield self._equation(part), group

    def _steps_of(self, part: Expr | Term) -> list[Expr]:
        """Return the flat expressions of a written expression or head, in order; [] if it has
        none.
        """
        return self.parts.get(id(part), [])

    def _equation(self, head: Term) -> Expr:
        """Return `variable = head` for a head that has moved into the body."""
        operator = Ref(Var("eq", head.span), (), head.span)
        call = Call(operator, (self.moved[id(head)], head), head.span, infix=True)
        return Expr(call, span=head.span)

    def _missing(self, groups: Sequence[tuple[Expr, list[Expr]]]) -> tuple[set[str], Expr | Term]:
        """Find the first expression that is evaluated before all of its variables are bound, or
        else the first term of `self.read` with a variable that stays unbound. Return the variables
        that it lacks, and the expression or term; an empty set and a placeholder if no variable is
        missing. `groups`: the expressions in order, each with its flat expressions.
        """
        bound = set(self.ordered.around)
        for expr, steps in groups:
            missing = self._bind(steps, bound)
            if missing:
                return missing, expr
        for head in self.read:
            missing = set()
            if id(head) not in self.moved:
                missing = self._bind(self._steps_of(head), bound)
                missing |= {v.name for v in all_vars(head) if v.name in self.here} - bound
            if missing:
                return missing, head
        return set(), Scalar(None)

    def _bind(self, steps: Iterable[Expr], bound: set[str]) -> set[str]:
        """Go through `steps` in order (as written, if one is of a template string) and add the
        variables that each binds to `bound`. Stop at the first step that needs a variable that is
        not bound yet, and return the variables it lacks; an empty set if there is no such step.
        """
        steps = list(steps)
        if any(map(self.order.is_template, steps)):
            # What is in a template string is read before the string is anything.
            steps = [step for step in self.ordered.body if step in steps]
        for step in steps:
            missing = self.order.lacking(step, bound, self.here)
            if missing:
                return missing
            bound |= self.order.outputs(step, bound)
        return set()

    def _take_apart(self, missing: AbstractSet[str], lacking: Expr | Term) -> bool:
        """Take apart the first part that binds one of `missing`, so that it is available earlier:
        an expression is split into its flat ones (`apart`), a head term becomes an expression of
        the body (`moved`). Return False if there is none besides `lacking`, the part that needs the
        variables, expressions with template strings, and parts that were taken apart before.
        """
        bound = set(self.ordered.around)
        for step in self.ordered.exprs:
            outputs = self.order.outputs(step, bound)
            bound |= outputs
            part = self.origins.part_of(step)
            if outputs.isdisjoint(missing) or id(part) in self.moved or id(part) in self.apart:
                continue
            if isinstance(part, Expr):
                if part is lacking or any(map(self.order.is_template, self._steps_of(part))):
                    continue
                self.apart.add(id(part))
            elif id(part) in self.heads:
                self.moved[id(part)] = Var(f"head@@{part.span.start}", part.span)
            else:
                continue
            return True
        return False
