"""Expressions that may have several answers: computed once, before any code is written.

A body walks where an operand of a reference is still open when its turn comes, at `some … in` and
`every`, and at a built-in that is a relation. What does not walk has at most one answer, so that
code generation may return it where it is; what walks needs a loop that its first success
ends, or an answer that is compared with those that come later.

The order in which the parts of an expression are computed decides which variables are open. It is
said here once, in the functions that code generation takes it from (`is_known`, `is_open`,
`in_order`), and followed here without writing code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Final, get_args

from doorward.rego.analysis.bindings import (
    Arity,
    Binding,
    equations,
    in_key_order,
    names_function,
)
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.analysis.variables import ROOTS, body_vars, term_vars
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
    is_ground,
)
from doorward.rego.values import to_key

__all__ = [
    "Multiplicity",
    "closure_outer",
    "in_order",
    "is_folder",
    "is_known",
    "is_open",
    "is_pattern",
    "multiplicity_of_query",
    "multiplicity_of_rules",
    "open_names",
    "ready_equations",
]


class Multiplicity:
    """The rules, expressions and bodies that may have several answers, since something in them
    iterates.
    """

    __slots__ = ("_outer", "_several")

    def __init__(self) -> None:
        self._several: set[int] = set()
        self._outer: dict[int, frozenset[str]] = {}
        """The variables that occur outside closures, by the `id` of the body."""

    def note(self, node: Rule | Expr | Body) -> None:
        """Record that `node` may have several answers."""
        self._several.add(id(node))

    def may_have_several(self, node: Rule | Expr | Body) -> bool:
        """Return True if `node`, an object that was analysed, may have several answers. Nodes are
        compared by identity.
        """
        return id(node) in self._several

    def outer(self, node: Rule | Body, heads: tuple[Term, ...] = ()) -> frozenset[str]:
        """Return the variables of a rule or inner body, without those that occur only in bodies
        inside it; computed once for each. `heads` are the head terms of a comprehension.
        """
        names = self._outer.get(id(node))
        if names is None:
            if isinstance(node, Rule):
                head = node.head
                parts = (*head.ref.args, head.key, head.value, *(head.args or ()))
                names = closure_outer(node.body, tuple([t for t in parts if t is not None]))
            else:
                names = closure_outer(node, heads)
            self._outer[id(node)] = names
        return names


def multiplicity_of_rules(
    definitions: Iterable[Definition],
    callees: Callees,
    *,
    prints: bool,
    bound: frozenset[str] = frozenset(),
) -> Multiplicity:
    """Find the rules, `else` branches, inner bodies and negated expressions that may have several
    answers. `bound`: variables that have values before a rule begins. With `prints`, the operands
    of `print` are analysed, too.
    """
    walk = _Walk(callees, prints=prints, bound=bound)
    for definition in definitions:
        rule: Rule | None = definition.rule
        while rule is not None:
            walk.rule(rule, definition.tail)
            rule = rule.else_rule
    return walk.multiplicity


def multiplicity_of_query(
    body: Body, outer: frozenset[str], callees: Callees, *, prints: bool
) -> Multiplicity:
    """Find the inner bodies and negated expressions of a query that may have several answers.
    `outer`: the query's variables that occur outside its inner bodies. With `prints`, the operands
    of `print` are analysed, too.
    """
    walk = _Walk(callees, prints=prints)
    walk.outer = outer
    walk.body(body)
    return walk.multiplicity


# The order in which parts of an expression are computed


# INVARIANT: `codegen` computes parts in the order of these functions (`terms`, `patterns`,
# `lookups`). If the two differed, code could return the first answer of a body that has more.
def is_known(term: Term, bound: AbstractSet[str], outer: AbstractSet[str], arity: Arity) -> bool:
    """Return True if `term` can be computed from the variables in `bound` alone. `outer`: the
    variables that occur outside inner bodies.
    """
    if _is_plainly_known(term, bound):
        return True
    if isinstance(term, Var):
        return False
    probe = Binding(bound, outer, arity)
    probe.value(term)
    return not probe.missing()


def _is_plainly_known(term: Term, bound: AbstractSet[str]) -> bool:
    """Return True if a quick check shows that all variables of `term` are bound; otherwise False,
    also for some terms whose variables are bound.
    """
    if is_ground(term):
        return True
    match term:
        case Var(name):
            return name in bound or name in ROOTS
        case Ref(head, args):
            return _is_plainly_known(head, bound) and all(
                isinstance(arg, Scalar) or _is_plainly_known(arg, bound) for arg in args
            )
        case Call(operator, args):
            return not _has_open_part(operator, bound) and all(
                _is_plainly_known(arg, bound) for arg in args
            )
        case Array(items) | Set(items):
            return all(_is_plainly_known(item, bound) for item in items)
    return False


def _has_open_part(operator: Ref, bound: AbstractSet[str]) -> bool:
    """Return False if a quick check shows that all operands of a reference are bound; otherwise
    True, also for some references whose operands are bound.
    """
    return not all(
        isinstance(arg, Scalar) or _is_plainly_known(arg, bound) for arg in operator.args
    )


def is_pattern(term: Term, bound: AbstractSet[str], outer: AbstractSet[str], arity: Arity) -> bool:
    """Return True if `term` can be matched with a value now: those of its parts that must be
    evaluated, such as the keys of objects, need only variables in `bound`. The match itself binds
    the others.
    """
    match term:
        case Scalar() | Var():
            return True
    probe = Binding(bound, outer, arity)
    probe.pattern(term)
    return not probe.missing()


def is_open(operand: Term, bound: AbstractSet[str]) -> bool:
    """Return True if an operand of a reference has variables that iteration must bind; only those
    are considered that stand alone, in arrays or in values of objects.
    """
    match operand:
        case Var(name):
            return name not in bound and name not in ROOTS
        case Array(items):
            return any(is_open(item, bound) for item in items)
        case Object(pairs):
            return any(is_open(value, bound) for _, value in pairs)
    return False


def open_names(term: Term, bound: AbstractSet[str]) -> set[str]:
    """Return the variables of a term outside its closures that are not in `bound`."""
    return {var.name for var in term_vars(term, closures=False)} - bound - ROOTS


def in_order(
    terms: Sequence[Term], bound: AbstractSet[str], outer: AbstractSet[str], arity: Arity
) -> Iterator[int]:
    """Yield the positions of `terms` in the order of computation: always the first term that is
    known, or the first one left if none is. Known: computable from the variables in `bound`
    (`is_known`); `outer` are the variables that occur outside closures. The caller adds the
    variables that a term binds to `bound` before it asks for the next.
    """
    waiting = list(range(len(terms)))
    while len(waiting) > 1:
        known = (n for n in waiting if is_known(terms[n], bound, outer, arity))
        n = next(known, waiting[0])
        waiting.remove(n)
        yield n
    yield from waiting


def ready_equations(
    left: Term, right: Term, bound: AbstractSet[str], outer: AbstractSet[str], arity: Arity
) -> Iterator[tuple[Term, Term]]:
    """Yield the equations of `left = right` as pairs of a pattern and a known value, in the order
    in which they become ready. If both sides are known, the left is the value, as in OPA, so that
    its error is not hidden by an undefined right side. The caller adds the variables that a pair
    binds to `bound` before it asks for the next. A variable that only a set or key with itself in
    it would bind never has a value (`x = {x}`, `[x] = input[{y}]`): then the side with that set or
    key is given as a value, which it is not. AssertionError for an unsafe equation.
    """
    waiting = list(equations(left, right))
    while waiting:
        pair = next((p for p in waiting if any(is_known(t, bound, outer, arity) for t in p)), None)
        if pair is None:
            itself = (p for p in waiting if not all(isinstance(side, Var) for side in p))
            pair = next(itself, None)
            assert pair is not None, "unsafe equation"
            a, b = sorted(pair, key=_lack_of_value)
        else:
            a, b = pair
            a, b = (b, a) if is_known(a, bound, outer, arity) else (a, b)
        waiting.remove(pair)
        yield a, b


def _lack_of_value(term: Term) -> int:
    """Return 0 for a variable, 1 for an array or object of variables, 2 for any other term: how
    surely a term of an equation that nothing binds is the one that never has a value.
    """
    return 0 if isinstance(term, Var) else 1 if isinstance(term, Array | Object) else 2


def is_folder(root: RuleNode, term: Term) -> bool:
    """Return True if a term is `data` or a constant path below it, with rules below it but none at
    or above it.
    """
    head, operands = (term.head, term.args) if isinstance(term, Ref) else (term, ())
    if not (isinstance(head, Var) and head.name == "data"):
        return False
    node: RuleNode | None = root
    for operand in operands:
        if node is None or node.definitions or not isinstance(operand, Scalar):
            return False
        node = node.children.get(to_key(operand.value))
    return node is not None and not node.definitions and bool(node.children)


def closure_outer(body: Body, heads: tuple[Term, ...]) -> frozenset[str]:
    """Return the variables of a body and of its head terms `heads`, without those that occur only
    in bodies inside them, such as those of comprehensions and `every`.
    """
    names = {v.name for v in body_vars(body, closures=False)}
    for head in heads:
        names.update(v.name for v in term_vars(head, closures=False))
    return frozenset(names)


class _Walk:
    """Follows rules in the order in which code generation evaluates them. To analyse a node is to
    add the variables that it binds to `bound`, and its iterations to the number `walks`; a node
    during which `walks` grows may have several answers.
    """

    def __init__(
        self, callees: Callees, *, prints: bool, bound: frozenset[str] = frozenset()
    ) -> None:
        self.callees = callees
        self.prints = prints
        self.bound_before = bound
        self.bound: set[str] = set()
        self.outer: frozenset[str] = frozenset()
        self.walks = 0
        self.multiplicity = Multiplicity()

    def rule(self, rule: Rule, tail: Sequence[Term]) -> None:
        """Analyse one branch of a rule: parameters, body and head; of a default rule, only the
        value. If anything in it iterates, the rule is recorded as one that may have several
        answers, unless it is a default rule. `tail` are the operands of its reference from the
        first variable on: `[x].r` of `p[x].r`.
        """
        head = rule.head
        if rule.default:
            self.bound, self.outer = set(), frozenset()
            if head.value is not None:
                self.term(head.value)
            return
        args = head.args or ()
        self.bound = set(self.bound_before)
        self.outer = self.multiplicity.outer(rule)
        before = self.walks
        for parameter in args:
            self.match(parameter)
        self.body(rule.body)
        for term in (*tail, head.key, head.value):
            if term is not None:
                self.term(term)
        if self.walks != before:
            self.multiplicity.note(rule)

    @contextmanager
    def scope(self, outer: frozenset[str] | None = None) -> Iterator[None]:
        """Context at whose end the variables bound inside are dropped. `outer` are the variables of
        an inner body outside its closures; None keeps those of the enclosing body.
        """
        saved = self.bound, self.outer
        self.bound = set(self.bound)
        if outer is not None:
            self.outer = outer
        yield
        self.bound, self.outer = saved

    # Bodies

    def body(self, body: Body) -> None:
        for expr in body:
            self.expression(expr)

    def expression(self, expr: Expr) -> None:
        """Analyse an expression of a body: the values of its `with`, then its term, or if it is
        negated what `negated` reads. Its own value is not used.
        """
        for item in expr.withs:
            self.replacement(item)
        if expr.negated:
            self.negated(expr)
        else:
            self.holds(expr.term)

    def value(self, expr: Expr) -> None:
        """Analyse an expression whose value is used: what precedes it, its `with` and its term, as
        in `holds`, whose variables become bound and whose iterations count. It must be a single
        term.
        """
        self.body(expr.before)
        for item in expr.withs:
            self.replacement(item)
        assert isinstance(expr.term, _TERMS)
        self.term(expr.term)

    def replacement(self, item: With) -> None:
        """Analyse the value of a `with`, unless it is the name of a function."""
        if not names_function(item, self.callees.arity):
            self.term(item.value)

    def negated(self, expr: Expr) -> None:
        """Analyse the terms that are evaluated before a negated expression, then the expression. If
        this last step iterates, the expression is recorded as one that may have several answers.
        """
        waiting = [each.term for each in expr.before]
        while waiting:
            ready = (t for t in waiting if isinstance(t, Call) and self.is_known(t.args[1]))
            term = next(ready, waiting[0])
            assert isinstance(term, Call)
            waiting.remove(term)
            local, value = term.args
            self.term(value)
            self.match(local)
        # Recorded for the negated expression: a loop inside needs only its first success.
        self.closure((Expr(expr.term, False, (), expr.span),), expr, self.outer)

    def closure(self, body: Body, node: Expr | Body, outer: frozenset[str]) -> None:
        """Analyse an inner body of which only the existence of a solution matters, such as that of
        `not`: its variables are dropped at its end. If it iterates, `node` is recorded as one that
        may have several answers.
        """
        before = self.walks
        with self.scope(outer):
            self.body(body)
        if self.walks != before:
            self.multiplicity.note(node)

    def test(self, body: Body) -> None:
        """Analyse the body of an `every`, `not`, `and` or `or`."""
        self.closure(body, body, self.outer | self.multiplicity.outer(body))

    def holds(self, term: Term | SomeDecl | SomeIn | Every | Not | And | Or) -> None:
        """Analyse the term of an expression that must hold: the variables that it binds are added
        to `bound`, and its iterations to `walks`. The two sides of an equation are taken in the
        order in which code computes them; `not`, `and` and `or` bind nothing outside; operands of
        `print` count only if `prints`; `some x` does nothing.
        """
        match term:
            case SomeDecl():
                return
            case SomeIn():
                self.some_in(term)
            case Every():
                self.every(term)
            case Not():
                self.test(term.body)
            case And() | Or():
                self.test(term.left)
                self.test(term.right)
            case Call(_, (left, right)) if term.name in ("eq", "assign"):
                ready = ready_equations(left, right, self.bound, self.outer, self.callees.arity)
                for pattern, value in ready:
                    self.term(value)
                    self.match(pattern)
            case Call() if term.name in ("print", "internal.print"):
                if self.prints:
                    for arg in term.args:
                        with self.scope():
                            self.term(arg)
            case Call() if self.has_output(term):
                self.call(term, term.args[:-1])
                self.match(term.args[-1])
            case _:
                self.term(term)

    def has_output(self, term: Call) -> bool:
        """Return True if a call has one operand more than its function declares."""
        arity = self.callees.arity(term)
        return arity is not None and len(term.args) == arity + 1

    def some_in(self, term: SomeIn) -> None:
        """Analyse `some … in`: count an iteration in `walks` and mark its variables as bound. Over
        a folder of rules it has an operand for each key instead, so it counts as an iteration only
        if that is open. Patterns that are taken apart (not plain new variables) are analysed last.
        """
        if is_folder(self.callees.root, term.domain):
            # The members of the folder are its operands.
            if isinstance(term.domain, Ref):
                self.operands(term.domain.args)
            self.operands((term.key or Var("$some", term.span),))
            self.match(term.value)
            return
        self.term(term.domain)
        self.walks += 1
        # In the order of code: the loop binds both names before what is taken apart is matched.
        taken_apart = [
            part
            for part in (term.key, term.value)
            if part is not None and not self.bind_target(part)
        ]
        for part in taken_apart:
            self.match(part)

    def every(self, term: Every) -> None:
        """Analyse an `every`: its domain as a term, and one iteration, added to `walks`. Its
        variables and those of its body are bound only inside of it.
        """
        self.term(term.domain)
        self.walks += 1
        with self.scope():
            for variable in (term.value, term.key):
                if variable is not None:
                    self.bind_target(variable)
            self.test(term.body)

    # Terms

    def is_known(self, term: Term) -> bool:
        return is_known(term, self.bound, self.outer, self.callees.arity)

    def term(self, term: Term) -> None:
        """Analyse a term whose value is needed: add the variables that it binds (open operands of
        references) to `bound`, and its iterations to `walks`. A set or object with unbound
        variables is not iterated, its variables only become bound. The inside of comprehensions and
        template strings counts for itself.
        """
        if is_ground(term):
            return
        match term:
            case Set() | Object() if not self.is_known(term):
                self.bound |= open_names(term, self.bound)
            case Ref(head, args):
                self.term(head)
                self.operands(args)
            case Call():
                self.call(term, term.args)
            case Array(items) | Set(items):
                self.terms(items)
            case Object(pairs):
                self.terms([part for pair in pairs for part in pair])
            case ArrayComprehension(inner, body) | SetComprehension(inner, body):
                self.comprehension(body, (inner,))
            case ObjectComprehension(key, value, body):
                self.comprehension(body, (key, value))
            case TemplateString(parts):
                for part in parts:
                    if not isinstance(part, str):
                        with self.scope():
                            self.value(part)

    def terms(self, terms: Sequence[Term]) -> None:
        for n in in_order(terms, self.bound, self.outer, self.callees.arity):
            self.term(terms[n])

    def call(self, term: Call, args: Sequence[Term]) -> None:
        """Analyse the operands `args` of a call, which are those of `term` without one for the
        result; a relation counts as an iteration. Nothing is done for an unknown function, or if
        the number of operands is not the declared one.
        """
        callee = self.callees.find(term)
        if callee is None or callee.arity not in (None, len(args)):
            return
        self.terms(args)
        if callee.builtin is not None and callee.builtin.relation:
            self.walks += 1

    def comprehension(self, body: Body, heads: tuple[Term, ...]) -> None:
        """Analyse a comprehension: its variables are bound only inside of it, and its iterations
        are not counted, since it has a single value.
        """
        before = self.walks
        with self.scope(self.outer | self.multiplicity.outer(body, heads)):
            self.body(body)
            self.terms(heads)
        # Whatever loops inside, the comprehension has one value.
        self.walks = before

    def operands(self, operands: Sequence[Term]) -> None:
        """Analyse the operands of a reference in their order: an open one (with an unbound
        variable) counts as an iteration in `walks`, and its variables become bound; others are
        analysed as terms.
        """
        for operand in operands:
            if not is_open(operand, self.bound):
                self.term(operand)
            else:
                self.walks += 1
                if not self.bind_target(operand):
                    self.match(operand)

    # Patterns

    def bind_target(self, pattern: Term) -> bool:
        """Bind `pattern` and return True if it is a single unbound variable (a wildcard stays
        unbound); do nothing and return False for any other pattern.
        """
        if not isinstance(pattern, Var) or not is_open(pattern, self.bound):
            return False
        if not pattern.is_wildcard:
            self.bound.add(pattern.name)
        return True

    def match(self, pattern: Term) -> None:
        """Analyse a pattern that is matched with a value: its unbound variables become bound, its
        known parts are analysed as terms. In an object with unbound keys, all variables become
        bound, and no part is analysed.
        """
        match pattern:
            case Var():
                self.bind_target(pattern)
            # A known pattern is compared as a whole, and binds nothing.
            case Array(items) if not self.is_known(pattern):
                for item in items:
                    self.match(item)
            case Object(pairs) if not self.is_known(pattern):
                if not all([self.is_known(key) for key, _ in pairs]):
                    self.bound |= open_names(pattern, self.bound)
                    return
                for key, value in in_key_order(pairs):
                    self.term(key)
                    self.match(value)
            case _:
                self.term(pattern)


_TERMS: Final = get_args(Term)
