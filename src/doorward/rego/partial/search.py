"""The search: expressions one after the other, terms made equal, and what is unknown saved.

Every function with several ways to continue is a generator: it yields once for each way, with the
state as that way has it, and undoes its changes before the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from doorward.rego.errors import (
    CANCEL_ERROR,
    CONFLICT_ERROR,
    INTERNAL_ERROR,
    LIMIT_ERROR,
    EvalError,
)
from doorward.rego.partial import documents, functions, negation, replacing
from doorward.rego.partial.conflicts import conflicts_of_unevaluated
from doorward.rego.partial.context import Conflict, PartialTracer, Site, Solutions
from doorward.rego.partial.core import (
    DATA,
    EQUALITY,
    FALSE,
    INPUT,
    Array,
    Body,
    Comprehension,
    Constant,
    Every,
    Expr,
    Object,
    Operator,
    Ref,
    Rule,
    Set,
    Term,
    Var,
    kind_of,
    object_items,
)
from doorward.rego.partial.program import Program, Settings
from doorward.rego.partial.reached import has_body
from doorward.rego.partial.settled import Run, Settled, Step
from doorward.rego.partial.state import (
    Bindings,
    Disabled,
    Names,
    Replaced,
    Saved,
    Support,
    Unknowns,
    apply,
    as_value,
    plug,
)
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.source import NOWHERE, Span
from doorward.rego.values import (
    UNDEFINED,
    Undefined,
    Value,
    equal,
    item_at,
    iterate,
    lookup,
    to_key,
)

__all__ = ["Search"]

_EVALUATED: Final = (Var, Ref, Comprehension)
MAX_FAILURES: Final = 100
"""The most failed comparisons that are recorded in `failures`."""
_TICKS: Final = 256


class Search:
    """One partial evaluation, which can be used once. `evaluation` provides the input, data,
    deadline and what built-ins need. `settled` has the steps of rules that are the same in every
    search with the same unknowns; without it, or with a `tracer`, each expression is evaluated.
    """

    def __init__(
        self,
        program: Program,
        settings: Settings,
        evaluation: Evaluation,
        well_typed: Callable[[Body], Body | None],
        settled: Settled | None = None,
        tracer: PartialTracer | None = None,
    ) -> None:
        self.program = program
        self.settings = settings
        self.evaluation = evaluation
        self.well_typed = well_typed
        input_value = evaluation.input
        self.input: Term | None = None if input_value is UNDEFINED else Constant(input_value)
        self.data: Any = evaluation.data
        self.unknowns = Unknowns(settings.documents)
        self.disabled = Disabled(settings.disabled)
        self.names = Names()
        self.support = Support(settings.namespace)
        self.replaced = Replaced()
        self.saved: list[list[Saved]] = [[]]
        self.root = Bindings(0)
        self.failures: list[tuple[Ref, Span]] = []
        self.numbers = 0
        self.consulted: set[str] = set()
        self.conflicts: list[Conflict] = []
        self.compared: set[object] = set()
        self._ticks = _TICKS
        self._size = 0
        self._generated = 0
        self._reach = documents.Reach(self)
        self._settled = settled if tracer is None else None
        self._tracer = tracer

    # Bodies

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def child(self) -> Bindings:
        """Return empty bindings with a new number, for another evaluation of a rule's body."""
        return Bindings(self.number())

    def rule(self, rule: Rule, own: Bindings) -> Solutions:
        """Yield for each solution of a rule's body in the bindings `own`, without regard to the
        rules before its `else`.
        """
        return self._trace(self._rule(rule, own), rule.span, is_rule=True)

    def _rule(self, rule: Rule, bindings: Bindings) -> Solutions:
        """Yield for each way in which the body of one branch of a rule holds, with its variables in
        `bindings`. The body is taken in the steps that are prepared once for these unknowns, unless
        the search has none (or is traced) or a `with` replaces functions.
        """
        # A built-in that `with` replaces may be evaluated where it would be saved.
        if self._settled is None or self.replaced.functions_number:
            return self.body(rule.body, bindings, bindings.number)
        # The same for every input and data, so computed once for policies and unknowns.
        steps = self._settled.steps(rule)
        first = steps[0]
        if len(steps) == 1 and type(first) is Run:
            return self._save_run(first)
        return self.body(steps, bindings, bindings.number)

    def branch(self, rule: Rule, own: Bindings) -> Solutions:
        """Yield for each solution of a rule's body in `own`; of an `else` branch, only those under
        the condition that no earlier branch holds.
        """
        return negation.in_turn(self, rule, own) if rule.before else self.rule(rule, own)

    def body(self, body: Sequence[Step], bindings: Bindings, number: int) -> Solutions:
        """Yield for each solution of all expressions of `body`, at least one, from left to right
        with backtracking. `number` is that of this evaluation of the body. Comparisons of the input
        that have no solution are recorded in `failures`. Closing the iterator undoes all bindings.
        """
        count = len(body)
        # A list of generators instead of generators in generators: a body may have more expressions
        # than Python's stack has frames.
        solutions: list[Solutions] = []
        has_solution = [False] * count
        try:
            solutions.append(self._part(body[0], 0, bindings, number))
            while solutions:
                index = len(solutions)
                # The list is the default of `next`, since no generator yields it.
                if next(solutions[-1], solutions) is solutions:
                    solutions.pop()
                    if not has_solution[index - 1]:
                        self._note_failure(body[index - 1])
                    continue
                has_solution[index - 1] = True
                if index == count:
                    yield
                else:
                    # The next expression has had no solution yet for these bindings.
                    has_solution[index] = False
                    solutions.append(self._part(body[index], index, bindings, number))
        finally:
            while solutions:
                solutions.pop().close()  # type: ignore[attr-defined] # they are generators

    def _part(self, part: Step, index: int, bindings: Bindings, number: int) -> Solutions:
        """Yield for each way in which one step of a body holds: an expression, or a run of prepared
        ones, which is saved.
        """
        if type(part) is Run:
            return self._save_run(part)
        assert isinstance(part, Expr)
        return self._trace(self.expr(Site(part, index, bindings, number)), part.span)

    def _trace(self, solutions: Solutions, span: Span, *, is_rule: bool = False) -> Solutions:
        """Return the same solutions, which also report to the tracer, if there is one, that the
        evaluation began and each solution; with `is_rule` as those of a rule.
        """
        return solutions if self._tracer is None else _tell(self._tracer, solutions, span, is_rule)

    def _save_run(self, run: Run) -> Solutions:
        """Save prepared expressions in the residual, yield once, and remove them again."""
        count = len(run.saved)
        self._take(count)
        saved = self.saved[-1]
        saved += run.saved
        try:
            yield
        finally:
            del saved[-count:]

    def _note_failure(self, expr: Step) -> None:
        """Record the last reference below `input` among the first two operands of an expression
        without a solution, in `failures`. Nothing after `MAX_FAILURES` of them.
        """
        if type(expr) is not Expr or expr.operator is None or len(self.failures) >= MAX_FAILURES:
            return
        paths = [arg for arg in expr.args[:2] if type(arg) is Ref and arg.parts[0] == INPUT]
        if paths:
            self.failures.append((paths[-1], expr.span))

    def expr(self, site: Site) -> Solutions:
        """Yield for each way in which an expression holds, under its `with`."""
        self._count()
        if site.expr.withs:
            return replacing.under_with(self, site)
        return self.evaluate(site)

    def evaluate(self, site: Site) -> Solutions:
        """Yield once for each way in which the expression at `site` holds, with its variables bound
        until the caller continues; what is unknown is saved in the residual. Its own `with` must be
        in effect already.
        """
        expr, bindings = site.expr, site.bindings
        if expr.negated:
            return negation.negated(self, site)
        if expr.every is not None:
            return self.every(site, expr.every)
        if expr.operator is None:
            return self.truth(site)
        if expr.is_equation:
            left, right = expr.args
            return self.unify(left, right, bindings, bindings, site)
        return functions.call(self, site, expr.operator, expr.args)

    def truth(self, site: Site) -> Solutions:
        """Yield for each value of the single term at `site` other than false, without its `not` and
        `with`; for an unknown one, its expression is saved in the residual and there is one
        solution.
        """
        (term,) = site.expr.args
        # INVARIANT: `documents._is_truth` knows these variables by the beginning of their names.
        result = Var(f"$_term_{site.number}_{site.index}")
        bindings = site.bindings
        for _ in self.unify(term, result, bindings, bindings, site):
            if self.unknowns.has(result, bindings):
                yield from self.save(Expr((result,)), bindings, bindings, site)
            elif plug(result, bindings) != FALSE:
                yield

    def every(self, site: Site, every: Every) -> Solutions:
        """Yield once if the body of an `every` holds for all items of its domain, which is so for
        an empty one. If the domain or body is unknown, save the whole `every` in the residual and
        yield once. No solution if the domain is not a collection.
        """
        bindings = site.bindings
        if self.is_unknown(every.domain, bindings) or any(
            self.is_unknown_expr(expr, bindings) for expr in every.body
        ):
            kept = replace(site.expr, withs=replacing.kept(self, site))
            plugged = self.names.closed_expr(kept, bindings)
            yield from self.save(plugged, None, None, site)
            return
        domain = plug(every.domain, bindings)
        if type(domain) is not Constant or type(domain.value) not in (list, dict, frozenset):
            return
        with self.disabled.suspended():
            for key, value in iterate(domain.value):
                if not self._holds_for(every, Constant(key), Constant(value), bindings, site):
                    return
        yield

    def _holds_for(
        self, every: Every, key: Term, value: Term, bindings: Bindings, site: Site
    ) -> bool:
        """Return True if the body of an `every` holds in some way for the item `value` at `key`,
        which are unified with its variables in `bindings`. All bindings are undone at the end.
        Nothing in the body may be unknown: the caller checks that.
        """
        pairs = (every.key, key), (every.value, value)
        for _ in self._unify_pairs(pairs, bindings, bindings, site):
            for _ in self.body(every.body, bindings, self.number()):
                return True
        return False

    # What is unknown

    def is_unknown(self, term: Term, bindings: Bindings) -> bool:
        """Return True if evaluating `term` would save something."""
        return self._reach.term(term, bindings)

    def is_unknown_expr(self, expr: Expr, bindings: Bindings) -> bool:
        return self._reach.expr(expr, bindings)

    # Saving

    def save(
        self, expr: Expr, left: Bindings | None, right: Bindings | None, site: Site
    ) -> Solutions:
        """Save `expr` in the residual, yield once, and take it out again when the caller continues.
        It is saved under its own `with` if it has one, else under that of the site that replaces
        documents, and under that of functions which it still calls. Its terms are read in the
        bindings `left`, the right side of an equation in `right` unless that is None; with `left`
        None `expr` is final. With `settings.truth`, possible conflicts of the rules in a body
        inside it are added to `conflicts`. EvalError above `settings.max_size`.
        """
        self._take(1)
        if self.settings.truth and has_body(expr):
            self.conflicts += conflicts_of_unevaluated(self, expr)
        withs = expr.withs or replacing.kept(self, site)
        if self.replaced.functions_number:
            withs += replacing.functions_for(self, expr)
        span, location = site.expr.span, expr.location
        if expr.operator == site.expr.operator:
            location = site.expr.location
        saved = Expr(
            expr.args,
            expr.operator,
            expr.negated,
            withs,
            expr.every,
            expr.generated,
            span,
            location,
        )
        self.saved[-1].append(Saved(saved, left, right, site.bindings))
        try:
            yield
        finally:
            self.saved[-1].pop()

    def _take(self, count: int) -> None:
        """Count `count` more saved expressions. EvalError if there are more than
        `settings.max_size`. While something known is evaluated (`disabled` is suspended), nothing
        may be saved, since it would count as true: an internal EvalError.
        """
        if self.disabled.is_suspended:
            text = "something known depends on something unknown"
            raise EvalError(INTERNAL_ERROR, text, NOWHERE)
        self._size += count
        if self._size > self.settings.max_size:
            most = self.settings.max_size
            text = f"partial evaluation makes more than {most} expressions: make more values known"
            raise EvalError(LIMIT_ERROR, text, NOWHERE)

    def save_equation(self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site) -> Solutions:
        """Save `a = b` in the residual and yield once. Variables in `a` and `b` that it would bind
        are unknown until the caller continues.
        """
        count = self.mark_outputs(a, b1) + self.mark_outputs(b, b2)
        try:
            closed = self.names.close(a, b1), self.names.close(b, b2)
            yield from self.save(Expr(closed, EQUALITY), b1, b2, site)
        finally:
            self.unknowns.unmark(count)

    def save_call(
        self, operator: Operator, args: Sequence[Term], arity: int, site: Site
    ) -> Solutions:
        """Save a call in the residual and yield once. Its output, if there is one operand more than
        `arity`, is unknown until the caller continues.
        """
        bindings = site.bindings
        count = self.mark_outputs(args[-1], bindings) if arity == len(args) - 1 else 0
        try:
            yield from self.save(Expr(tuple(args), operator), bindings, None, site)
        finally:
            self.unknowns.unmark(count)

    def mark_outputs(self, term: Term, bindings: Bindings) -> int:
        """Mark the unbound variables that a pattern would bind as unknown. Return the number of
        marks, for `Unknowns.unmark`.
        """
        if type(term) is Var:
            self.unknowns.mark(term, bindings)
            return 1
        count = 0
        for name in dict.fromkeys(_pattern(term)):
            target, where = apply(Var(name), bindings)
            count += self.mark_outputs(target, where)
        return count

    def unknown_names(self) -> set[str]:
        """Return the names, in the residual, of the variables that are unknown at present."""
        names = set()
        for var, bindings in self.unknowns.variables:
            plugged = self.names.plug(var, bindings)
            if type(plugged) is Var:
                names.add(plugged.name)
        return names

    @contextmanager
    def apart(self) -> Iterator[list[Saved]]:
        """Collect the expressions that the block saves in a new list, the value of the context,
        instead of the present residual.
        """
        saved_here: list[Saved] = []
        self.saved.append(saved_here)
        try:
            yield saved_here
        finally:
            self.saved.pop()

    # Unification

    def unify(self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site) -> Solutions:
        """Yield once for each way to make `a`, read in the bindings `b1`, equal to `b`, read in
        `b2`; not at all if they differ. Variables stay bound until the caller continues; an
        equation with something unknown is saved in the residual. References are looked up and
        comprehensions evaluated, whose errors pass through.
        """
        if type(a) is Var:
            a, b1 = apply(a, b1)
        if type(b) is Var:
            b, b2 = apply(b, b2)
        if type(a) in _EVALUATED or type(b) in _EVALUATED:
            if _can_be_equal(a, b) and _can_be_equal(b, a):
                yield from self._unify_evaluated(a, b, b1, b2, site)
        elif type(a) is Constant and type(b) is Constant:
            if a.value is b.value or equal(a.value, b.value):
                yield
        else:
            yield from self._unify_parts(a, b, b1, b2, site)

    def _unify_parts(self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site) -> Solutions:
        """Yield for each way to make two collections equal, of which at least one has parts that
        are not constant; nothing if their kinds, sizes or keys differ. Arrays and values of objects
        are unified pair by pair. Objects with keys that are not known, and sets with unknown
        members, are saved as an equation, in one way; other sets are compared as they are.
        """
        kind = kind_of(a)
        if kind != kind_of(b):
            return
        if kind == "array":
            left, right = array_items(a), array_items(b)
            if len(left) == len(right):
                yield from self._unify_pairs(tuple(zip(left, right, strict=True)), b1, b2, site)
        # Which keys are equal depends on what is unknown.
        elif kind == "object" and (has_open_keys(a, b1) or has_open_keys(b, b2)):
            yield from self.save_equation(a, b, b1, b2, site)
        elif kind == "object":
            ours = {plug(key, b1): value for key, value in object_items(a)}
            others = {plug(key, b2): value for key, value in object_items(b)}
            if ours.keys() == others.keys():
                pairs = tuple([(value, others[key]) for key, value in ours.items()])
                yield from self._unify_pairs(pairs, b1, b2, site)
        elif kind == "set":
            if self.unknowns.inside(a, b1) or self.unknowns.inside(b, b2):
                yield from self.save_equation(a, b, b1, b2, site)
            elif plug(a, b1) == plug(b, b2):
                yield

    def _unify_pairs(
        self, pairs: Sequence[tuple[Term, Term]], b1: Bindings, b2: Bindings, site: Site
    ) -> Solutions:
        """Yield once for each way in which all pairs of terms are equal, the left ones read in the
        bindings `b1`, the right ones in `b2`; once if there are no pairs. Each pair sees what those
        before it bound.
        """
        if not pairs:
            yield
            return
        (left, right), *rest = pairs
        for _ in self.unify(left, right, b1, b2, site):
            yield from self._unify_pairs(rest, b1, b2, site)

    def unify_all(
        self, left: Sequence[Term], right: Sequence[Term], b1: Bindings, b2: Bindings, site: Site
    ) -> Solutions:
        """Yield for each way in which the terms of two sequences of one length are equal, position
        by position: `left` read in the bindings `b1`, `right` in `b2`. Once if they are empty.
        """
        return self._unify_pairs(tuple(zip(left, right, strict=True)), b1, b2, site)

    def _unify_evaluated(
        self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site
    ) -> Solutions:
        """Yield once for each way in which `a` (in the bindings `b1`) equals `b` (in `b2`), one of
        which is a variable, reference or comprehension. A known reference is looked up, and its
        values are tried; if a side is unknown, the equation is saved for the residual and there is
        one way; otherwise a comprehension is evaluated, or a variable is bound until the generator
        goes on.
        """
        unknown = self._is_saved(a, b1)
        if not unknown and type(a) is Ref:
            yield from self.ref(a, b, b1, b2, site)
            return
        other = self._is_saved(b, b2)
        if not other and type(b) is Ref:
            yield from self.ref(b, a, b2, b1, site)
        elif unknown or other:
            yield from self.save_equation(a, b, b1, b2, site)
        elif type(a) is Comprehension or type(b) is Comprehension:
            yield from self._unify_comprehension(a, b, b1, b2, site)
        elif type(a) is Var:
            if a is b or (b1 is b2 and a == b):
                yield
            else:
                yield from _bind(a, b, b1, b2)
        else:
            assert type(b) is Var
            yield from _bind(b, a, b2, b1)

    def _is_saved(self, term: Term, bindings: Bindings) -> bool:
        """Return True if a term is unknown, or a set with something unknown in it, so that an
        equation with it must be saved.
        """
        if type(term) is Set:
            return self.unknowns.inside(term, bindings)
        return self.unknowns.has(term, bindings)

    def _unify_comprehension(
        self, a: Term, b: Term, b1: Bindings, b2: Bindings, site: Site
    ) -> Solutions:
        """Yield for each way in which a comprehension, `a` or `b`, equals the other term. If it
        reads something unknown, the equation is saved in the residual and there is one way;
        otherwise its value is computed, once and even where inlining is disabled, and unified with
        the other term.
        """
        first = type(a) is Comprehension
        closure, where = (a, b1) if first else (b, b2)
        assert type(closure) is Comprehension
        if self.is_unknown(closure, where):
            yield from self.save_equation(a, b, b1, b2, site)
        else:
            with self.disabled.suspended():
                value = Constant(self._comprehend(closure, where))
            other, there = (b, b2) if first else (a, b1)
            yield from self.unify(value, other, where, there, site)

    def _comprehend(self, term: Comprehension, bindings: Bindings) -> Value:
        """Return the value of a comprehension that reads nothing unknown: a list, a frozenset of
        keys, or a dict in key form. Its bindings are undone. EvalError if an object gets two
        different values for a key; errors of its body pass through.
        """
        number = self.number()
        if term.kind == "object":
            assert term.key is not None
            pairs: dict[Any, Value] = {}
            for _ in self.body(term.body, bindings, number):
                key = to_key(as_value(plug(term.key, bindings)))
                value = as_value(plug(term.term, bindings))
                if key in pairs and not equal(pairs[key], value):
                    raise EvalError(CONFLICT_ERROR, "object keys must be unique", NOWHERE)
                pairs[key] = value
            return pairs
        items = []
        for _ in self.body(term.body, bindings, number):
            items.append(as_value(plug(term.term, bindings)))
        return items if term.kind == "array" else frozenset(map(to_key, items))

    # References

    def ref(self, a: Ref, b: Term, b1: Bindings, b2: Bindings, site: Site) -> Solutions:
        """Yield for each document that the known reference `a` leads to, made equal to `b`. No
        solution without an input, or for a head that is not bound.
        """
        head = a.parts[0]
        if head == DATA:
            yield from documents.data(self, a.parts, b, b1, b2, site)
        elif head == INPUT:
            if self.input is not None:
                yield from self.inside(a.parts, 1, b1, self.input, b1, b, b2, site)
        else:
            term, bindings = apply(head, b1)
            if type(term) is not Var or term.name in bindings.unknown:
                yield from self.inside(a.parts, 1, b1, term, bindings, b, b2, site)

    def inside(
        self,
        path: tuple[Term, ...],
        pos: int,
        bindings: Bindings,
        term: Term,
        where: Bindings,
        result: Term,
        b2: Bindings,
        site: Site,
    ) -> Solutions:
        """Yield for each way in which the keys `path[pos:]`, followed inside `term`, lead to
        `result`: an unbound key is bound to each key there in turn. An unknown on the way is saved
        under a new variable, and the solutions are those of the rest of the path from it. `path` is
        read in `bindings`, `term` in `where`, `result` in `b2`.
        """
        while pos < len(path):
            if self.unknowns.has(term, where):
                yield from self._save_inside(path, pos, bindings, term, where, result, b2, site)
                return
            key = plug(path[pos], bindings)
            if type(key) is not Constant or has_open_keys(term, where):
                break
            below = member(term, where, key)
            if below is None:
                return
            term, where = below
            pos += 1
        else:
            yield from self.unify(term, result, where, b2, site)
            return
        # An unbound key: each member is one way, and unification binds the key.
        for item_key, (target, there) in members(term, where):
            self._count()
            for _ in self.unify(item_key, path[pos], where, bindings, site):
                yield from self.inside(path, pos + 1, bindings, target, there, result, b2, site)

    def _save_inside(
        self,
        path: tuple[Term, ...],
        pos: int,
        bindings: Bindings,
        term: Term,
        where: Bindings,
        result: Term,
        b2: Bindings,
        site: Site,
    ) -> Solutions:
        """Bind the unknown `term` to a new variable, and yield for each way to make the rest of the
        path from it equal `result`.
        """
        head = Var(f"$_ref_{self._generated}")
        self._generated += 1
        for _ in self.unify(term, head, where, bindings, site):
            rest = Ref((head, *path[pos:]))
            yield from self.unify(rest, result, bindings, b2, site)

    def leaf(self) -> Var:
        """Return a new variable for one use."""
        self._generated += 1
        return Var(f"$_leaf_{self._generated}")

    def _count(self) -> None:
        """Count a call; after every `_TICKS` calls check the deadline. EvalError (cancelled) if it
        has passed; nothing happens without a deadline.
        """
        self._ticks -= 1
        if self._ticks < 0:
            self._ticks = _TICKS
            deadline = self.evaluation.deadline
            if deadline is not None and time.monotonic() > deadline:
                raise EvalError(CANCEL_ERROR, "caller cancelled query execution", NOWHERE)


def _tell(tracer: PartialTracer, solutions: Solutions, span: Span, is_rule: bool) -> Solutions:
    """Yield the solutions and report to the tracer that evaluation began and each time that it
    held. `is_rule`: `span` is that of a rule, otherwise of an expression.
    """
    tracer.note(span, holds=False, is_rule=is_rule)
    try:
        for _ in solutions:
            tracer.note(span, holds=True, is_rule=is_rule)
            yield
    finally:
        solutions.close()  # type: ignore[attr-defined] # they are generators


def _bind(var: Var, term: Term, bindings: Bindings, other: Bindings) -> Solutions:
    """Bind a variable to a term while the generator is suspended at its yield."""
    bindings.values[var.name] = term, other
    try:
        yield
    finally:
        del bindings.values[var.name]


def _can_be_equal(a: Term, b: Term) -> bool:
    """Return False if `a` is a comprehension and `b` is certainly of another kind; otherwise
    True.
    """
    if type(a) is not Comprehension or type(b) in (Var, Ref):
        return True
    return a.kind == (b.kind if type(b) is Comprehension else kind_of(b))


def array_items(term: Term) -> Sequence[Term]:
    """Return the items of an array term or constant as terms."""
    if type(term) is Array:
        return term.items
    value: Any = as_value(term)
    return [Constant(item) for item in value]


def has_open_keys(term: Term, where: Bindings) -> bool:
    """Return True if a key of an object or a member of a set is not constant in these bindings;
    False for other terms.
    """
    if type(term) is Object:
        return any(type(plug(key, where)) is not Constant for key, _ in term.items)
    return type(term) is Set and any(type(plug(each, where)) is not Constant for each in term.items)


def member(term: Term, where: Bindings, key: Constant) -> tuple[Term, Bindings] | None:
    """Return the value under `key` in a term, read in the bindings `where`, with the bindings in
    which to read the value; None if there is none, and for other terms. The member of a set is its
    own value. Keys of a collection must be known.
    """
    if type(term) is Constant:
        target = lookup(term.value, key.value)
        return None if target is UNDEFINED else (Constant(target), where)
    if type(term) is Array:
        item = item_at(term.items, key.value)
        if not isinstance(item, Undefined):
            return apply(item, where)
    elif type(term) is Object:
        for key_of_item, value in term.items:
            if plug(key_of_item, where) == key:
                return apply(value, where)
    elif type(term) is Set and any(plug(item, where) == key for item in term.items):
        return key, where
    return None


def members(term: Term, where: Bindings) -> Iterator[tuple[Term, tuple[Term, Bindings]]]:
    """Yield each key in a collection with the value under it and that value's bindings; nothing for
    other terms. The members of a set are keys and values.
    """
    if type(term) is Constant:
        for known, item in iterate(term.value):
            yield Constant(known), (Constant(item), where)
    elif type(term) is Array:
        for index, each in enumerate(term.items):
            yield Constant(index), apply(each, where)
    elif type(term) is Object:
        for key, value in term.items:
            yield key, apply(value, where)
    elif type(term) is Set:
        for each in term.items:
            yield each, apply(each, where)


def _pattern(term: Term) -> Iterator[str]:
    """Yield the variables of a term, once for each occurrence, but not those in comprehensions and
    calls, nor the heads of references.
    """
    match term:
        case Var(name):
            yield name
        case Ref(items):
            for item in items[1:]:
                yield from _pattern(item)
        case Array(items) | Set(items):
            for item in items:
                yield from _pattern(item)
        case Object(pairs):
            for key, value in pairs:
                yield from _pattern(key)
                yield from _pattern(value)
