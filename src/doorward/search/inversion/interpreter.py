"""Evaluates the checked tree with one input; each value knows how the input must change for
another.

The interpreter gives the engine's values for the constructs that it knows, and UNDEFINED for others
(`with` on data or functions, references to rules whose path is computed). It is used to find
changes, never to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import reduce
from heapq import heappop, heappush
from itertools import count, islice, takewhile
from typing import Any, Final

from doorward.base.records import record, replace
from doorward.rego import UNDEFINED, EvalError, Registry, to_json, to_rego
from doorward.rego.shared import CALL_ERRORS, Evaluation, to_key
from doorward.rego.tools import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Definition,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Rule,
    RuleNode,
    Scalar,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    TemplateString,
    Term,
    Var,
    equal,
    iterate,
    make_object,
    make_set,
)
from doorward.search.inversion.conjunctions import Conjunctions, Numbers, Text, names_in
from doorward.search.inversion.items import (
    ROWS,
    Paths,
    absent_items,
    all_items,
    array_lens,
    constant_item,
    first_items,
    fit_size,
    is_collection,
    lookup_path,
    object_lens,
    set_lens,
    walk_items,
)
from doorward.search.inversion.lenses import (
    FALSY,
    Lens,
    Want,
    call_lens,
    composite,
    constant,
    item_lens,
    path_lens,
    to_be,
)
from doorward.search.inversion.outcomes import (
    Attempt,
    Env,
    Outcome,
    Visit,
    are_equal,
    compare_values,
    give_value,
    judge,
    make_empty,
    make_equal,
    no_changes,
    repeat_repairs,
)

__all__ = ["Interpreter", "Policy"]

STEPS: Final = 20_000
"""At most this many expressions are evaluated for one input."""
LOCAL: Final = 24
"""At most this many inputs are tried to repair the expressions that read the same value."""
DEPTH: Final = 40
"""At most this many rules and calls may be nested."""
_EQUATIONS: Final = frozenset({"eq", "assign", "equal"})


@record
class Policy:
    """The policies to interpret: the tree of rules, the built-ins, base data, and `constants`,
    values to try at a path of the input if nothing better is known.
    """

    root: RuleNode
    registry: Registry
    data: Any
    constants: Sequence[Any]
    conjunctions: Conjunctions = field(default_factory=Conjunctions, compare=False)


class Interpreter:
    """Evaluates policies with one input, up to `STEPS` expressions. `visited`: the definitions that
    were evaluated, in this order, with their attempts. `not_inverted`: the built-ins without an
    inverse that were called on parts of the input.
    """

    def __init__(self, policy: Policy, input: Any, evaluation: Evaluation) -> None:
        self._policy = policy
        self._evaluation = evaluation
        self._input = path_lens(input, (), ())
        self._raw = input
        self._replaced = False
        self._is_local = False
        self._documents: dict[int, Lens] = {}
        self._left = STEPS
        self._depth = 0
        self.visited: list[Visit] = []
        self.not_inverted: set[str] = set()

    def document(self, path: Sequence[Any]) -> Lens:
        """Return the lens of the document at a path below `data`; a constant UNDEFINED if no rule
        or package is there.
        """
        node = self._policy.root.find(path)
        return constant(UNDEFINED) if node is None else self._node(node)

    # Rules

    def _node(self, node: RuleNode) -> Lens:
        """Return the lens of a rule or package, which is evaluated once. A recursive reference to
        itself is undefined.
        """
        known = self._documents.get(id(node))
        if known is None:
            self._documents[id(node)] = constant(UNDEFINED)  # nothing is known of it in itself
            known = self._documents[id(node)] = self._lens_of_rules(node)
        return known

    def _lens_of_rules(self, node: RuleNode) -> Lens:
        """Evaluate a package, complete rule or partial rule and return its lens; a constant
        UNDEFINED for a function, and for one nested deeper than `DEPTH`. Evaluates each time:
        `_node` does so once.
        """
        if self._depth > DEPTH or node.is_function:
            return constant(UNDEFINED)
        self._depth += 1
        try:
            if not node.definitions:
                return self._lens_of_package(node)
            if node.is_complete:
                return self._lens_of_complete(node.definitions, {})
            return self._lens_of_partial(node)
        finally:
            self._depth -= 1

    def _lens_of_package(self, node: RuleNode) -> Lens:
        """Return the lens of a package: an object of its base data with the values of its rules and
        subpackages; undefined ones are left out.
        """
        items: dict[Any, Lens] = {}
        base = lookup_path(self._policy.data, node.path)
        if isinstance(base, dict):
            items = {key: constant(value) for key, value in base.items()}
        for key, child in node.children.items():
            lens = self._node(child)
            items[key] = lens
        value = {key: lens.value for key, lens in items.items() if lens.value is not UNDEFINED}
        return composite(value, value, items)

    def _lens_of_complete(self, definitions: Sequence[Definition], params: Env) -> Lens:
        """Return the lens of a complete rule or function, all of whose definitions are evaluated:
        the value of the first one that holds, otherwise the default, otherwise UNDEFINED. `params`:
        the operands by position ("0"), {} for a rule. A change goes through the definition that
        holds, or makes definitions hold or fail.
        """
        default: Lens = constant(UNDEFINED)
        tried: list[list[Visit]] = []
        winner: tuple[list[Visit], Lens] | None = None
        for definition in definitions:
            if definition.rule.default:
                default = self._head_value(definition.rule, {})
                continue
            chain, lens = self._chain(definition.rule, params)
            tried.append(chain)
            if lens is not None and winner is None:
                winner = chain, lens
        value = winner[1] if winner is not None else default

        def put(want: Want, input: Any) -> Iterator[Any]:
            """Yield inputs with which the value may be a wanted one: the value of the definition
            that holds is changed, definitions that may give a wanted value are made to hold, and
            others to fail.
            """
            if winner is not None and winner[1].put is not None:
                yield from winner[1].put(want, input)
            for chain in tried:
                for number, (rule, attempt) in enumerate(chain):
                    if attempt.solutions or not self._may_be(rule, want):
                        continue
                    yield from attempt.fixes(input)
                    for _, before in chain[:number]:
                        yield from before.spoils(input)
            if winner is not None and want.accepts(default.value):
                yield from winner[0][-1][1].spoils(input)
            if winner is not None:
                for rule, attempt in winner[0]:
                    if not self._may_be(rule, want):
                        yield from attempt.spoils(input)

        return Lens(value.value, put)

    def _chain(self, rule: Rule, params: Env) -> tuple[list[Visit], Lens | None]:
        """Try a definition and its `else` branches until one holds and has a value; return the
        branches with their attempts, and the value, None if there is none.
        """
        tried = []
        branch: Rule | None = rule
        answer: Lens | None = None
        while branch is not None:
            attempt = self._attempt(branch, params)
            tried.append((branch, attempt))
            if answer is None:
                for env, _ in attempt.solutions:
                    lens = self._head_value(branch, env)
                    if lens.value is not UNDEFINED:
                        answer = lens
                        break
                if answer is not None:
                    return tried, answer
            branch = branch.else_rule
        return tried, answer

    def _attempt(self, rule: Rule, params: Env) -> Attempt:
        """Evaluate the body of one rule with its parameters matched with `params`. The attempt is
        recorded in `visited` and returned; parameters that do not match are a failure in it.
        """
        args = rule.head.args
        attempt = Attempt(names_in((Expr(Array(args)),)) if args else frozenset())
        if args is None:
            self._solve(rule.body, 0, {}, [], None, attempt)
        else:
            matched = self._match_all(list(args), [params[str(n)] for n in range(len(args))], {})
            for env, mismatches in matched:
                if mismatches:
                    expr = Expr(Scalar(False), span=rule.span)
                    fix = make_equal(mismatches)
                    attempt.failures.append((0, Outcome(expr, env, False, fix, no_changes)))
                else:
                    self._solve(rule.body, 0, env, [], None, attempt)
        self.visited.append((rule, attempt))
        return attempt

    def _head_value(self, rule: Rule, env: Env) -> Lens:
        """Return the lens of the value in a rule's head; `true` if the head has no value, UNDEFINED
        if the value is undefined.
        """
        if rule.head.value is None:
            return constant(True)
        return next((lens for lens, _ in self._term(rule.head.value, env)), constant(UNDEFINED))

    def _may_be(self, rule: Rule, want: Want) -> bool:
        """Return True if the rule's value could satisfy `want`; only a constant in its head, or the
        `true` of a head without a value, can rule that out.
        """
        value = rule.head.value
        if value is None:
            return want.accepts(True)
        return want.accepts(value.value) if isinstance(value, Scalar) else True

    def _lens_of_partial(self, node: RuleNode) -> Lens:
        """Return the lens of a partial rule: a set, or an object with the members of all its
        definitions; never UNDEFINED. A change adds wanted members, or makes definitions hold or
        fail. Members below a longer path are {}.
        """
        items: dict[Any, Lens] = {}
        attempts: list[tuple[Definition, Attempt]] = []
        is_set = node.is_set_of_members
        for definition in node.definitions:
            if definition.rule.default:
                continue
            attempt = self._attempt(definition.rule, {})
            attempts.append((definition, attempt))
            for env, _ in attempt.solutions:
                self._add_member(definition, env, items, is_set=is_set)
        value: Any = frozenset(items) if is_set else {k: each.value for k, each in items.items()}

        def grow(key: Any, input: Any) -> Iterator[Any]:
            for definition, attempt in attempts:
                yield from self._grow(definition, attempt, key, input)

        def put(want: Want, input: Any) -> Iterator[Any]:
            """Yield inputs with which the value may come nearer to a wanted one: members of the
            first wanted collection that it lacks are added, then definitions are made to hold or
            fail, to fail first if fewer members are wanted.
            """
            sample = next((each for each in want.samples if is_collection(each)), None)
            if sample is not None:
                for key, _ in islice(iterate(sample), 8):
                    if to_key(key) not in items:
                        yield from islice(grow(key, input), 8)
            fewer = sample is not None and len(sample) < len(items)
            orders = ("spoils", "fixes") if fewer else ("fixes", "spoils")
            for order in orders:
                for _, attempt in attempts:
                    yield from islice(getattr(attempt, order)(input), 16)

        return Lens(value, put, items=items, grow=grow)

    def _add_member(
        self, definition: Definition, env: Env, items: dict[Any, Lens], *, is_set: bool
    ) -> None:
        """Add to `items` the member that a definition contributes with these bindings; nothing if
        its key is undefined. `is_set`: to a set, otherwise to an object. Members below a longer
        path are an empty object.
        """
        key_term = definition.rule.head.key if is_set else definition.tail[0]
        if key_term is None:
            return
        for key, _ in islice(self._term(key_term, env), 1):
            if key.value is UNDEFINED:
                return
            if is_set:
                items[to_key(key.value)] = key
            elif len(definition.tail) == 1 and definition.rule.head.key is None:
                items[to_key(key.value)] = self._head_value(definition.rule, env)
            else:
                items[to_key(key.value)] = constant({})

    def _grow(
        self, definition: Definition, attempt: Attempt, key: Any, input: Any
    ) -> Iterator[Any]:
        """Yield inputs with which a definition of a partial rule may contribute the member `key`:
        its body is repaired, or, for the first four solutions, its key is changed to `key`. Nothing
        if its key is another constant.
        """
        term = definition.rule.head.key or (definition.tail[0] if definition.tail else None)
        if isinstance(term, Scalar) and not equal(term.value, key):
            return
        yield from attempt.fixes(input)
        if term is not None:
            for env, _ in attempt.solutions[:4]:
                for lens, _ in islice(self._term(term, env), 1):
                    yield from islice(lens.changed(to_be(key), input), 4)

    # Bodies

    def _solve(
        self,
        body: Body,
        number: int,
        env: Env,
        behind: list[Outcome],
        soft: Outcome | None,
        attempt: Attempt,
    ) -> None:
        """Evaluate a body from expression `number` on, and add its solutions and failures to
        `attempt`. `behind`: the outcomes that held before; `soft`: the last one that only lacked a
        value, with which the end of the body is a failure, None if there is none.

        Stops without a trace after `STEPS` expressions, and at `ROWS` solutions or failures.
        """
        if self._left < 0 or len(attempt.solutions) >= ROWS or len(attempt.failures) >= ROWS:
            return
        if number == len(body):
            if soft is None:
                attempt.solutions.append((env, behind))
            else:
                attempt.failures.append((number, soft))
            return
        for outcome in self._expr(body[number], env):
            self._left -= 1
            if outcome.holds:
                self._solve(body, number + 1, outcome.env, [*behind, outcome], soft, attempt)
            elif outcome.is_soft:
                self._solve(body, number + 1, outcome.env, behind, outcome, attempt)
            else:
                attempt.failures.append(
                    (number, self._join_repairs(body, number, outcome, attempt))
                )

    def _join_repairs(self, body: Body, number: int, outcome: Outcome, attempt: Attempt) -> Outcome:
        """Return the outcome of the failed expression at `number`, with repairs that also meet the
        other conditions of the body on the same values. The outcome itself if there are no such
        conditions.
        """
        conjunctions = self._policy.conjunctions
        groups = [each for each in conjunctions.of(body) if number in each.exprs]
        connected = () if self._is_local else conjunctions.connected(body, number)
        is_alone = len(connected) < 2 or bool(names_in(connected) & attempt.outer)
        if not groups and is_alone:
            return outcome

        def fix(input: Any) -> Iterator[Any]:
            """Yield inputs that fulfil several conditions at once, mixed with repairs of the one
            expression.
            """
            for group in groups:
                yield from islice(self._together(group, outcome.env, input), 4)
            repairs = outcome.fix(input)
            yield from islice(repairs, 4)
            if not is_alone:
                yield from self._repair_all(connected, input)
            yield from repairs

        return replace(outcome, fix=fix)

    def _repair_all(self, body: Body, input: Any) -> Iterator[Any]:
        """Yield inputs with which all expressions of `body` hold, found by repairing repaired
        inputs.

        A repair may break an expression that held before. Tries at most `LOCAL` inputs, those that
        go deepest into the body first.
        """
        order = count()
        waiting: list[tuple[int, int, Any]] = [(0, next(order), input)]
        seen: set[str] = set()
        for _ in range(LOCAL):
            if not waiting:
                return
            *_, candidate = heappop(waiting)
            inner = Interpreter(self._policy, candidate, self._evaluation)
            # Or each of its repairs would again try to repair all of the body.
            inner._is_local = True
            attempt = inner.attempt_body(body, {})
            # What `inner` evaluated counts for the limit of this one, too.
            self._left -= STEPS - inner._left
            if attempt.solutions:
                yield candidate
                continue
            for repair in islice(attempt.fixes(candidate), 12):
                text = to_json(repair)
                if text not in seen:
                    seen.add(text)
                    heappush(waiting, (-attempt.depth, next(order), repair))

    def _together(self, group: Text | Numbers, env: Env, input: Any) -> Iterator[Any]:
        """Yield inputs that meet all conditions of a group at once: its text or numbers get values
        that were computed from these conditions. Nothing if no such values were found.
        """
        if isinstance(group, Text):
            text = self._policy.conjunctions.text_of(group)
            if text is not None:
                yield from self._first(group.term, env).changed(to_be(text), input)
            return
        for values in self._policy.conjunctions.values_of(group, self._apply):
            pairs = [(self._first(group.leaves[text], env), each) for text, each in values.items()]
            yield from make_equal([(lens, constant(value)) for lens, value in pairs])(input)

    def attempt_body(self, body: Body, env: Env) -> Attempt:
        """Evaluate a body with the bindings `env` and return the attempt."""
        attempt = Attempt(frozenset(env))
        self._solve(body, 0, env, [], None, attempt)
        return attempt

    def _expr(self, expr: Expr, env: Env) -> Iterator[Outcome]:
        """Yield the outcomes of one expression, failed ones too, one for each set of bindings with
        which it can be evaluated. Nothing for `with` on anything but `input`.
        """
        if expr.withs:
            yield from self._under(expr, env)
            return
        if expr.negated:
            yield self._negate(expr, env)
            return
        match expr.term:
            case SomeDecl():
                yield Outcome(expr, env, True, no_changes, no_changes)
            case SomeIn():
                yield from self._some(expr, expr.term, env)
            case Every():
                yield self._every(expr, expr.term, env)
            case Not(body):
                yield self._without(expr, body, env)
            case And(left, right):
                yield self._join(expr, (*left, *right), env)
            case Or(left, right):
                yield self._either(expr, (left, right), env)
            case Call() as call if call.name in _EQUATIONS and len(call.args) == 2:
                yield from self._equation(expr, *call.args, env)
            case Call() as call if call.name == "walk" and len(call.args) == 2:
                domain, pair = call.args
                yield from self._equation(expr, pair, replace(call, args=(domain,)), env)
            case term:
                for lens, bound in self._term(term, env):
                    yield judge(expr, bound, lens)

    def _under(self, expr: Expr, env: Env) -> Iterator[Outcome]:
        """Yield the outcomes of an expression with `with input as`, with the value in place of the
        input; changes go through the value to the real input. Nothing for other targets of `with`,
        and beyond `DEPTH` nested evaluations.
        """
        if any(each.target != Var("input") for each in expr.withs) or self._depth > DEPTH:
            return
        inner = Interpreter(self._policy, None, self._evaluation)
        inner._input = self._first(expr.withs[-1].value, env)
        inner._replaced = True
        # The limits are those of the whole input: expressions inside count there, too.
        inner._left, inner._depth = self._left, self._depth + 1
        yield from inner._expr(replace(expr, withs=()), env)
        self._left = inner._left
        self.visited += inner.visited
        self.not_inverted |= inner.not_inverted

    def _negate(self, expr: Expr, env: Env) -> Outcome:
        """Return the outcome of `not` before one expression."""
        inner = Expr(expr.term, span=expr.span)
        return self._without(expr, (*expr.before, inner), env)

    def _without(self, expr: Expr, body: Body, env: Env) -> Outcome:
        """Return the outcome of a negated body: it holds if the body has no solution, and is fixed
        by making the body fail.
        """
        attempt = self.attempt_body(body, env)
        return Outcome(expr, env, not attempt.solutions, attempt.spoils, attempt.fixes)

    def _join(self, expr: Expr, body: Body, env: Env) -> Outcome:
        """Return the outcome of a body as one expression: it holds if the body has a solution."""
        attempt = self.attempt_body(body, env)
        return Outcome(expr, env, bool(attempt.solutions), attempt.fixes, attempt.spoils)

    def _either(self, expr: Expr, bodies: Sequence[Body], env: Env) -> Outcome:
        """Return the outcome of an `or`: it holds if one of the bodies does. All bodies are
        evaluated, since each can be repaired.
        """
        attempts = [self.attempt_body(body, env) for body in bodies]

        def fix(input: Any) -> Iterator[Any]:
            for attempt in attempts:
                yield from attempt.fixes(input)

        def spoil(input: Any) -> Iterator[Any]:
            for attempt in attempts:
                yield from attempt.spoils(input)

        return Outcome(expr, env, any(each.solutions for each in attempts), fix, spoil)

    def _every(self, expr: Expr, every: Every, env: Env) -> Outcome:
        """Return the outcome of an `every`: it holds if the domain is a collection and the body
        holds for each of its first `ROWS` items. It is fixed by changing failing items or by
        emptying the domain, and spoiled by making items fail or by another domain.
        """
        domain = self._first(every.domain, env)
        tried: list[Attempt] = []
        for key, item, is_real in all_items(domain):
            bound = {**env, every.value.name: item}
            if every.key is not None:
                bound[every.key.name] = key
            attempt = self.attempt_body(every.body, bound)
            if is_real or not tried:
                tried.append(attempt)
        is_known = is_collection(domain.value)
        real = tried[: len(domain.value)] if is_known else []
        failing = [each for each in real if not each.solutions]

        def fix(input: Any) -> Iterator[Any]:
            """Yield inputs with a fitting domain, with failing items changed, or with an empty
            domain.
            """
            if not is_known:
                yield from domain.changed(Want(is_collection, ([], {})), input)
            for attempt in failing:
                yield from attempt.fixes(input)
            yield from domain.changed(Want(lambda v: is_collection(v) and not v, ([], {})), input)

        def spoil(input: Any) -> Iterator[Any]:
            """Yield inputs for which the body fails for an item, or the domain has other items."""
            for attempt in real[:4]:
                yield from islice(attempt.spoils(input), 8)
            if domain.put is not None:
                more: list[Any] = [["a"], [0], [None], [{}]]
                yield from domain.changed(Want(is_collection, more), input)

        return Outcome(expr, env, is_known and not failing, fix, spoil)

    def _some(self, expr: Expr, some: SomeIn, env: Env) -> Iterator[Outcome]:
        """Yield an outcome of `some … in` for each item of the domain, which holds and binds the
        variables if the pattern matches; and one for an item that could be added, which is soft.
        Nothing for a constant that is not a collection.
        """
        domain = self._first(some.domain, env)
        for key, item, is_real in all_items(domain):
            patterns = [some.value] if some.key is None else [some.key, some.value]
            lenses = [item] if some.key is None else [key, item]
            for bound, mismatches in self._match_all(patterns, lenses, env):
                fix = make_equal(mismatches) if mismatches else give_value(item)
                spoil = make_empty(domain)
                holds = is_real and not mismatches
                is_soft = not is_real and not mismatches
                yield Outcome(expr, bound, holds, fix, spoil, is_soft)

    def _equation(self, expr: Expr, left: Term, right: Term, env: Env) -> Iterator[Outcome]:
        """Yield the outcomes of `x := …`, `[a, b] = …` or `x == …`, one for each set of bindings. A
        side with variables that have no value is a pattern and binds them; the left one if both
        are, and the outcome is soft if the other side is undefined. Without such a side the values
        are compared.
        """
        if self._is_open(right, env) and not self._is_open(left, env):
            left, right = right, left
        if not self._is_open(left, env):
            for a, bound in self._term(left, env):
                for b, both in self._term(right, bound):
                    yield compare_values(expr, both, a, b)
            return
        for lens, bound in self._term(right, env):
            for matched, mismatches in self._match(left, lens, bound):
                is_there = lens.value is not UNDEFINED
                fix = make_equal(mismatches) if mismatches else give_value(lens)
                holds = is_there and not mismatches

                def spoil(input: Any, lens: Lens = lens) -> Iterator[Any]:
                    yield from islice(lens.changed(FALSY, input), 2)

                yield Outcome(expr, matched, holds, fix, spoil, not is_there and not mismatches)

    # Patterns

    def _is_open(self, term: Term, env: Env) -> bool:
        """Return True if the term is a pattern: a variable that has no value in `env`, or an array
        or an object's values with such a variable.
        """
        match term:
            case Var(name):
                return name not in env and name not in ("input", "data")
            case Array(items):
                return any(self._is_open(each, env) for each in items)
            case Object(pairs):
                return any(self._is_open(value, env) for _, value in pairs)
        return False

    def _match_all(
        self, patterns: Sequence[Term], lenses: Sequence[Lens], env: Env
    ) -> Iterator[tuple[Env, list[tuple[Lens, Lens]]]]:
        """Match patterns with lenses in pairs. Yield the bindings, and the pairs of values that
        differ; [] if all match.
        """
        if not patterns:
            yield env, []
            return
        for bound, wrong in self._match(patterns[0], lenses[0], env):
            for rest, more in self._match_all(patterns[1:], lenses[1:], bound):
                yield rest, [*wrong, *more]

    def _match(
        self, pattern: Term, lens: Lens, env: Env
    ) -> Iterator[tuple[Env, list[tuple[Lens, Lens]]]]:
        """Match a pattern with the value of a lens. For each way to do so, yield the bindings, and
        the pairs of values that would have to be equal and are not; [] if there are none. Other
        keys of an object are not compared, nor is the kind of the value: a variable for a missing
        item is bound to UNDEFINED.

        For an array of another length than the pattern, such a pair is the array, and the same
        array cut or filled to that length.
        """
        match pattern:
            case Var(name) if self._is_open(pattern, env):
                yield {**env, name: lens}, []
            case Array(items) if self._is_open(pattern, env):
                parts = [item_lens(lens, constant(n)) for n in range(len(items))]
                for bound, wrong in self._match_all(items, parts, env):
                    if not isinstance(lens.value, list) or len(lens.value) == len(items):
                        yield bound, wrong
                        continue
                    for filled in fit_size(lens.value, len(items)):
                        yield bound, [*wrong, (lens, constant(filled))]
            case Object(pairs) if self._is_open(pattern, env):
                keys = [self._first(key, env) for key, _ in pairs]
                parts = [item_lens(lens, key) for key in keys]
                yield from self._match_all([value for _, value in pairs], parts, env)
            case _:
                for other, bound in self._term(pattern, env):
                    is_same = are_equal(other, lens)
                    yield bound, [] if is_same else [(lens, other)]

    # Terms

    def _first(self, term: Any, env: Env) -> Lens:
        """Return the first value of a term; UNDEFINED if it has none."""
        return next((lens for lens, _ in self._term(term, env)), constant(UNDEFINED))

    def _term(self, term: Any, env: Env) -> Iterator[tuple[Lens, Env]]:
        """Yield the possible values of a term, each with the bindings `env` and those that its own
        variables get; mostly one. An undefined value is yielded as UNDEFINED, and so is a kind of
        term that is not known.
        """
        match term:
            case Scalar(value):
                yield constant(value), env
            case Var("input"):
                yield self._input, env
            case Var("data"):
                yield self._node(self._policy.root), env
            case Var(name):
                yield env.get(name, constant(UNDEFINED)), env
            case Ref(head, args):
                yield from self._ref(head, args, env)
            case Call():
                yield from self._call(term, env)
            case Array(items):
                for parts, bound in self._terms(items, env):
                    yield array_lens(parts), bound
            case Set(items):
                for parts, bound in self._terms(items, env):
                    yield set_lens(parts), bound
            case Object(pairs):
                for keys, inner in self._terms([key for key, _ in pairs], env):
                    for values, bound in self._terms([value for _, value in pairs], inner):
                        yield object_lens(keys, values), bound
            case ArrayComprehension(head, body) | SetComprehension(head, body):
                is_set = isinstance(term, SetComprehension)
                yield self._comprehension((head,), body, env, is_set=is_set), env
            case ObjectComprehension(key, value, body):
                yield self._comprehension((key, value), body, env, is_set=False), env
            case TemplateString(parts):
                yield from self._template(parts, env)
            case _:
                yield constant(UNDEFINED), env

    def _terms(self, terms: Sequence[Term], env: Env) -> Iterator[tuple[list[Lens], Env]]:
        """Yield the possible values of several terms together, one list for each combination, with
        the bindings; variables of earlier terms are bound in later ones.
        """
        if not terms:
            yield [], env
            return
        for lens, bound in self._term(terms[0], env):
            for rest, last in self._terms(terms[1:], bound):
                yield [lens, *rest], last

    def _template(self, parts: Sequence[str | Expr], env: Env) -> Iterator[tuple[Lens, Env]]:
        """Yield the value of a template string, with `<undefined>` for values that are undefined.
        Changes go through the inverse of `sprintf`.
        """
        lenses = [
            constant(part) if isinstance(part, str) else self._insert(part, env) for part in parts
        ]

        def text(values: Sequence[Any]) -> str:
            return "".join(map(_write_inserted, values))

        texts = (part.replace("%", "%%") if isinstance(part, str) else "%v" for part in parts)
        template = "".join(texts)
        # A text is the value of its own lens; all others are values in braces.
        values = [lens for lens, part in zip(lenses, parts, strict=True) if part is not lens.value]
        operands = [constant(template), array_lens(values)]
        sprintf = self._policy.registry.get("sprintf")
        lens = call_lens(sprintf, lambda o: self._apply("sprintf", o), operands, ())
        lens.value = text([each.value for each in lenses])
        yield lens, env

    def _insert(self, expr: Expr, env: Env) -> Lens:
        """Return the lens of an expression in braces in a template string; UNDEFINED for `some`,
        `every`, `not`, `and` and `or`.
        """
        is_term = not isinstance(expr.term, (SomeDecl, SomeIn, Every, Not, And, Or))
        return self._first(expr.term, env) if is_term else constant(UNDEFINED)

    def _ref(self, head: Term, args: Sequence[Term], env: Env) -> Iterator[tuple[Lens, Env]]:
        """Yield the possible values of a reference, the keys `args` below `input`, `data` or
        another term, each with the bindings of its variables; UNDEFINED if nothing is there.
        """
        if isinstance(head, Var) and head.name == "input":
            yield from self._below_input((), args, env)
        elif isinstance(head, Var) and head.name == "data":
            yield from self._below_data(self._policy.root, args, env)
        else:
            for lens, bound in self._term(head, env):
                yield from self._below(lens, args, bound)

    def _below_input(
        self, path: tuple[Any, ...], args: Sequence[Term], env: Env
    ) -> Iterator[tuple[Lens, Env]]:
        """Yield the values at the keys `args` below a path of the input, with bindings. Constant
        keys at the beginning of `args` are added to the path.
        """
        written = list(takewhile(lambda arg: isinstance(arg, Scalar), args))
        path = (*path, *[arg.value for arg in written if isinstance(arg, Scalar)])
        yield from self._below(self._path(path), args[len(written) :], env)

    def _path(self, path: tuple[Any, ...]) -> Lens:
        """Return the lens of a path in the input, with a lens for each key below it. Inside `with
        input as x`, return the lens of this path in `x`.
        """
        if self._replaced:
            return reduce(constant_item, path, self._input)
        lens = path_lens(self._raw, path, self._policy.constants)
        lens.items = Paths(lambda key: self._path((*path, key)))
        return lens

    def _below_data(
        self, node: RuleNode, args: Sequence[Term], env: Env
    ) -> Iterator[tuple[Lens, Env]]:
        """Yield the values of a path below `data`, each with its bindings: of the first rule on it,
        of the document of all rules below it, otherwise of base data; UNDEFINED if there is none of
        them.
        """
        for number, arg in enumerate(args):
            child = node.children.get(to_key(arg.value)) if isinstance(arg, Scalar) else None
            if child is None:
                if node.children and not isinstance(arg, Scalar) and not node.definitions:
                    yield from self._below(self._node(node), args[number:], env)
                    return
                base = constant(lookup_path(self._policy.data, node.path))
                owner = self._node(node) if node.definitions else base
                yield from self._below(owner, args[number:], env)
                return
            node = child
            if node.definitions:
                yield from self._below(self._node(node), args[number + 1 :], env)
                return
        yield self._node(node), env

    def _below(self, owner: Lens, args: Sequence[Term], env: Env) -> Iterator[tuple[Lens, Env]]:
        """Yield the values at the keys `args` below a lens, each with its bindings. A key with a
        variable that has no value ranges over all items, also those that could be added; any other
        key yields UNDEFINED if nothing is there.
        """
        if not args:
            yield owner, env
            return
        first, rest = args[0], args[1:]
        if self._is_open(first, env):
            for key, item, _ in all_items(owner):
                for bound, mismatches in self._match(first, key, env):
                    if not mismatches:
                        yield from self._below(item, rest, bound)
            return
        for key, bound in self._term(first, env):
            is_fixed = key.put is None and key.value is not UNDEFINED
            item = constant_item(owner, key.value) if is_fixed else item_lens(owner, key)
            yield from self._below(item, rest, bound)

    # Comprehensions

    def _comprehension(self, head: Sequence[Term], body: Body, env: Env, *, is_set: bool) -> Lens:
        """Return the lens of a comprehension; it is never UNDEFINED. `head` is its term, or its key
        and value; solutions in which it is undefined are left out. `is_set`: of a set, and not of
        an array; ignored for an object.
        """
        attempt = self.attempt_body(body, env)
        rows = [[self._first(term, bound) for term in head] for bound, _ in attempt.solutions]
        rows = [row for row in rows if all(each.value is not UNDEFINED for each in row)]
        values = [row[-1].value for row in rows]
        if len(head) == 2:
            value: Any = make_object([(row[0].value, row[1].value) for row in rows])
            items = {to_key(row[0].value): row[1] for row in rows}
        else:
            value = make_set(values) if is_set else values
            items = {to_key(v) if is_set else n: rows[n][0] for n, v in enumerate(values)}

        def put(want: Want, input: Any) -> Iterator[Any]:
            """Yield inputs with which the members may come nearer to those of a wanted collection:
            solutions are added, removed or changed.
            """
            for sample in want.samples[:8]:
                if not is_collection(sample):
                    continue
                yield from islice(self._with_members(head[-1], attempt, sample, values, input), 4)
                if len(sample) > len(value):
                    yield from repeat_repairs(attempt, len(sample) - len(value), input)
                elif len(sample) < len(value):
                    yield from attempt.spoils(input)
                elif len(sample) == len(value) == 1:
                    (row,) = rows[:1] or [[constant(UNDEFINED)]]
                    item = next(each for _, each in iterate(sample))
                    yield from row[-1].changed(to_be(item), input)
            for row in rows[:4]:
                inner = Want(
                    lambda v: True, [each for s in want.samples[:4] for each in first_items(s)]
                )
                if inner.samples:
                    yield from islice(row[-1].changed(inner, input), 4)
            yield from attempt.fixes(input)
            yield from attempt.spoils(input)

        return Lens(value, put, items=items)

    def _with_members(
        self, head: Term, attempt: Attempt, sample: Any, values: Sequence[Any], input: Any
    ) -> Iterator[Any]:
        """Yield inputs with which the members of `sample` that a comprehension lacks may be among
        its `values`: a failed solution of its body is changed so that its term (`head`) becomes the
        member. Reads the first 16 members and the last four failures.
        """
        members = [item for _, item in islice(iterate(sample), 16)]
        lacking = [item for item in members if not any(equal(item, each) for each in values)]
        for _, outcome in attempt.failures[-4:] if lacking else ():
            lens = self._first(head, outcome.env)
            changed: list[Any] = [input]
            for item in lacking:
                changed = list(islice(lens.changed(to_be(item), changed[0]), 1)) or changed
            if changed[0] is not input:
                yield changed[0]

    # Calls

    def _call(self, call: Call, env: Env) -> Iterator[tuple[Lens, Env]]:
        """Yield the results of a call of a function or built-in, each with its bindings; UNDEFINED
        for an unknown one. A built-in without an inverse is added to `not_inverted` if an operand
        depends on the input.
        """
        name = call.name
        if name.startswith("data."):
            yield from self._function(call, env)
            return
        for operands, bound in self._terms(call.args, env):
            if name == "walk" and len(operands) == 1:
                root = operands[0]
                for each in (*walk_items(root, (), root), *absent_items(root)):
                    yield each, bound
                continue
            builtin = self._policy.registry.get(name)
            if builtin is None:
                yield constant(UNDEFINED), bound
                continue
            if builtin.inverse is None and any(each.put for each in operands):
                self.not_inverted.add(name)
            yield (
                call_lens(
                    builtin,
                    lambda values: self._apply(name, values),
                    operands,
                    self._policy.constants,
                ),
                bound,
            )

    def _function(self, call: Call, env: Env) -> Iterator[tuple[Lens, Env]]:
        """Yield the results of a function that the policies define, each with its bindings;
        UNDEFINED if it is unknown or nested too deeply.
        """
        path = [arg.value for arg in call.operator.args if isinstance(arg, Scalar)]
        node = self._policy.root.find([to_key(part) for part in path])
        for operands, bound in self._terms(call.args, env):
            if node is None or not node.is_function or self._depth > DEPTH:
                yield constant(UNDEFINED), bound
                continue
            self._depth += 1
            params = {str(number): lens for number, lens in enumerate(operands)}
            lens = self._lens_of_complete(node.definitions, params)
            self._depth -= 1
            yield lens, bound

    def _apply(self, name: str, values: Sequence[Any]) -> Any:
        """Return the result of a built-in for these operands; UNDEFINED if one of them is, and if
        the built-in fails, is unknown, or can have several results.
        """
        builtin = self._policy.registry.get(name)
        if builtin is None or builtin.relation or any(each is UNDEFINED for each in values):
            return UNDEFINED
        try:
            if builtin.context:
                return builtin.call(self._evaluation, *values)
            return builtin.call(*values)
        except (*CALL_ERRORS, EvalError):
            return UNDEFINED


def _write_inserted(value: Any) -> str:
    """Return a value as a template string inserts it: a text itself, `<undefined>`, or the value in
    Rego.
    """
    if isinstance(value, str):
        return value
    return "<undefined>" if value is UNDEFINED else to_rego(value)
