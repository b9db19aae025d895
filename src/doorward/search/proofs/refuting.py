"""Refutes a conjunction of a residual for any input: returns the steps, or None if it cannot.

    conjunction ─Same, Alias, Instance─▶ a stronger one ─Cases, Split─▶ several ─▶ each closed

Every rule may drop expressions: fewer conditions are a weaker conjunction, so its refutation also
refutes the stronger one. An expression that is not understood is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cmp_to_key
from itertools import pairwise, takewhile
from typing import Any, Final

from doorward.base.records import record, replace
from doorward.rego import CompileError, Engine, EvalError, Query, Value, to_rego
from doorward.rego.shared import Source, from_key
from doorward.rego.tools import (
    Array,
    Body,
    Call,
    Every,
    Expr,
    Module,
    Node,
    Ref,
    Rule,
    Scalar,
    Term,
    Var,
    compare,
    format_tree,
    kinds,
    parse_query,
    rewrite,
    walk,
)
from doorward.search.patience import has_result
from doorward.search.proofs.conjunction import (
    PLAIN,
    Conjunction,
    equal_terms,
    equation,
    free_names,
    fresh_name,
    has_scope,
    instantiate,
    is_prefix,
    is_read,
    items_of,
    operands,
    readers_of,
    rename,
    substitute,
)
from doorward.search.proofs.deriving import Deriving
from doorward.search.proofs.ranges import LARGEST, Link, failing
from doorward.search.proofs.steps import (
    Alias,
    Bounds,
    Cases,
    Contradiction,
    Cycle,
    Empty,
    Fails,
    Instance,
    Opposite,
    Same,
    Shape,
    Split,
    Step,
    Texts,
    Undefined,
)
from doorward.search.terms import is_constant, is_open, members_of, term_text, value_of
from doorward.search.texts.conditions import condition_of
from doorward.search.texts.languages import Language, both, is_empty
from doorward.search.who_can import ALL, Unknowns, put

__all__ = ["Refuter"]

VALUES: Final = 256
"""At most this many values of one term are tried."""
TERMS: Final = 3
"""At most this many terms are replaced by values at the same time."""
SPLITS: Final = 3
"""At most this many support rules are replaced by their bodies, one inside another."""
BODIES: Final = 64
"""A support rule with more bodies than this is not replaced by them."""
OPPOSITES: Final = 8
"""A negated membership in more constants than this is not replaced by inequalities."""
MOST: Final = 200
"""Nothing is added to a conjunction that would get more expressions than this."""
WORK: Final = 20_000
"""At most this many steps and evaluations are made for one conjunction."""
EACH: Final = 0.2
"""The time limit of one evaluation, in seconds."""
_WITHIN: Final = frozenset({"time.now_ns", "io.jwt.decode_verify"})
"""Built-ins that are not pure but give the same answer for the same operands within one
evaluation.
"""
QUERIES: Final = 2_000
"""The maximum number of compiled expressions in the cache, which is then cleared."""
SMALL: Final = 2**26
"""Sums and products of integers below this are exact, however the integers are written."""


@record
class _State:
    """A conjunction with its assumptions. `values`: terms with their assumed values, by text;
    `splits`: the number of nested splits; `done`: the changes that must not be made again.
    """

    conjunction: Conjunction
    values: Mapping[str, tuple[Term, Value]]
    splits: int = 0
    done: frozenset[str] = frozenset()


class Refuter:
    """Refutes the conjunctions of one residual. `engine` also has the support modules of the
    residual; `unknowns` are the unknown parts of the input, with the known rest.
    """

    def __init__(self, engine: Engine, support: Sequence[Module], unknowns: Unknowns = ALL) -> None:
        self._engine = engine
        self._support = support
        self._deriving = Deriving(support)
        self._unknowns = unknowns
        self._work = 0
        self._calls: frozenset[str] | None = None
        self._closed: dict[Conjunction, Step | None] = {}
        self._queries: dict[str, Query] = {}

    def refute(self, body: Body) -> Step | None:
        """Return the steps showing that no input makes all expressions of `body` true; None if none
        are found within `WORK` evaluations. Only a checker decides if the steps are a proof.
        """
        self._work = WORK
        self._closed.clear()
        texts = [format_tree((expr,)).strip() for expr in body]
        conjunction = Conjunction.parse(texts, self._engine.registry)
        return self._refute(_State(conjunction, {}))

    def _refute(self, state: _State) -> Step | None:
        """Return the steps that refute a state: one that closes it, or the first change that
        applies to it with the steps after it. None if there are none, if they fail (no other change
        is then tried), or if the work is used up.
        """
        self._work -= 1
        if self._work <= 0:
            return None
        closed = self._close(state)
        if closed is not None:
            return closed
        for change in (
            self._opposite,
            self._same,
            self._alias,
            self._instance,
            self._cases,
            self._split,
        ):
            # A change that applies is final, even if the rest then fails: going back would
            # multiply the work.
            outcome = change(state)
            if outcome is not None:
                return outcome[0]
        return None

    # Properties of expressions

    def _is_pure(self, expr: Expr, allowed: frozenset[str] = frozenset()) -> bool:
        """Return True if all built-ins that an evaluation of an expression may call, also in the
        rules that it reads, are known and pure or among `allowed`.
        """
        builtins = [self._engine.registry.get(name) for name in self._names(expr) - allowed]
        return all(each is not None and each.pure for each in builtins)

    def _is_steady(self, expr: Expr) -> bool:
        """Return True if an expression certainly has a single result in one evaluation; False with
        `with`.
        """
        builtins = [self._engine.registry.get(n.name) for n in walk(expr) if isinstance(n, Call)]
        has_answers = any(each is not None and each.relation for each in builtins)
        return not expr.withs and not has_answers and self._is_pure(expr, _WITHIN)

    def _names(self, expr: Expr) -> frozenset[str]:
        """Return the names of the built-ins that an evaluation of an expression may call: those in
        the expression, and if it reads a rule or calls a function, those in all policies.
        """
        names = {node.name for node in walk(expr) if isinstance(node, Call)}
        reads_rules = any(isinstance(n, Ref) and n.head == Var("data") for n in walk(expr))
        local_names = frozenset(name for name in names if not name.startswith("data."))
        return (
            local_names | self._all_calls() if reads_rules or local_names != names else local_names
        )

    def _all_calls(self) -> frozenset[str]:
        """Return the names of all built-ins that the policies call."""
        if self._calls is None:
            modules = self._engine.policies.program.modules
            calls = [n.name for each in modules for n in walk(each) if isinstance(n, Call)]
            self._calls = frozenset(name for name in calls if not name.startswith("data."))
        return self._calls

    # Steps that close

    def _close(self, state: _State) -> Step | None:
        """Return a step that refutes the state at once, without cases; None if there is none."""
        conjunction = state.conjunction
        if conjunction not in self._closed:
            self._closed[conjunction] = self._close_without_values(conjunction)
        return self._closed[conjunction] or self._fails(state)

    def _close_without_values(self, conjunction: Conjunction) -> Step | None:
        """Return a step that refutes the conjunction whatever values its terms have; None if there
        is none.
        """
        steady = [self._is_steady(expr) for expr in conjunction.exprs]
        comparisons = list(_comparisons(conjunction, steady))
        return (
            _contradiction(conjunction, steady)
            or _cycle(comparisons)
            or _bounds(comparisons)
            or self._deriving.close(conjunction, steady)
            or self._texts(conjunction, steady)
            or _empty(conjunction)
            or _shape(conjunction)
        )

    def _texts(self, conjunction: Conjunction, steady: Sequence[bool]) -> Step | None:
        """Return a step that names the conditions on some term if no text fulfils all of them and
        one of them requires a text; None if there is no such term. Only expressions that are
        `steady` (have a single result in one evaluation) are read.
        """
        about: dict[str, list[tuple[int, Language, bool]]] = {}
        for position, expr in enumerate(conjunction.exprs):
            is_usable = steady[position] and not has_scope(expr)
            condition = condition_of(expr) if is_usable else None
            if condition is not None:
                text, language, needs_text = condition
                about.setdefault(text, []).append((position, language, needs_text))
        for text, limits in about.items():
            # Without a condition that only texts fulfil, the term may be anything else.
            needs_text = any(needed for _, _, needed in limits)
            if needs_text and is_empty(both([language for _, language, _ in limits])):
                return Texts(text, tuple(position for position, _, _ in limits))
        return None

    def _fails(self, state: _State) -> Step | None:
        """Return a step for an expression that is proved to be false or undefined with the assumed
        values. None if there is no such proof, which does not mean that all expressions hold; those
        with `with` are left out.
        """
        for position, expr in enumerate(state.conjunction.exprs):
            if expr.withs:
                continue
            if self._is_pure(expr):
                if self._is_false(expr, state):
                    return Fails(position)
            # The answer of an impure call is not known, but an expression also fails if a call in
            # it has no value for these operands. Behind `not` it would hold.
            elif not expr.negated and not has_scope(expr):
                for call in self._calls_in(expr):
                    if self._has_no_value(call, state):
                        return Undefined(position, term_text(call))
        return None

    def _has_no_value(self, call: Call, state: _State) -> bool:
        """Return True if a call is undefined with the assumed values, for every rest of the input.
        False also if that is not certain.
        """
        builtin = self._engine.registry.get(call.name)
        # Other built-ins may answer for operands of any type, as `json.is_valid` does.
        is_strict = builtin is not None and builtin.name in _WITHIN
        types = builtin.signature.args if builtin is not None and is_strict else ()
        for arg, declared in zip(call.args, types, strict=False):
            known = state.values.get(term_text(arg))
            if known is not None and kinds(declared) == ("string",) and type(known[1]) is not str:
                return True
        is_pure = self._is_pure(Expr(call))
        return is_pure and self._is_false(Expr(equal_terms(_RESULT, call)), state)

    def _calls_in(self, expr: Expr) -> Iterator[Call]:
        """Yield the calls of built-ins in an expression; calls of the policies' functions are left
        out.
        """
        for node in walk(expr):
            if isinstance(node, Call) and not node.name.startswith("data."):
                yield node

    def _is_false(self, expr: Expr, state: _State) -> bool:
        """Return True if an expression reads only known input and terms with assumed values, and
        its evaluation shows that it does not hold. False if that is not known: it reads anything
        else, a body inside may bind variables of the assumed terms, its evaluation fails, or the
        number of evaluations is used up.
        """
        if self._work <= 0 or not self._reads_values_as_they_are(expr, state):
            return False
        if has_scope(expr) and any(free_names(Expr(term)) for term, _ in state.values.values()):
            return False  # a body inside may have names of its own
        document, leaves = self._document(state)
        changed = _put_terms(expr, state)
        if any(not self._is_given(path, leaves) for path in _paths_read(changed)):
            return False
        try:
            query = self._query(format_tree((changed,)).strip())
            paths = [tuple(map(str, path)) for path in query.input_paths]
            if not all(self._is_given(path, leaves) for path in paths):
                return False
            self._work -= 1
            return not has_result(query, document, EACH)
        except (CompileError, EvalError):
            return False  # an error decides nothing

    def _is_given(self, path: tuple[str, ...], leaves: Sequence[tuple[str, ...]]) -> bool:
        """Return True if an input path is known, or is at or below one of `leaves`, the paths of
        terms with an assumed value.
        """
        below = any(path[: len(leaf)] == leaf for leaf in leaves)
        return below or self._unknowns.is_known(path)

    def _query(self, text: str) -> Query:
        """Return the prepared query of a text; it is cached, since conjunctions share
        expressions.
        """
        query = self._queries.get(text)
        if query is None:
            if len(self._queries) >= QUERIES:
                self._queries.clear()
            query = self._queries[text] = self._engine.prepare(text)
        return query

    def _reads_values_as_they_are(self, expr: Expr, state: _State) -> bool:
        """Return True if the result cannot depend on how an assumed number is written (`1` or
        `1.0`): there is none, or all are small integers that are only compared and added.
        """
        values = [value for _, value in state.values.values()]
        numbers = [each for value in values for each in _numbers(value)]
        if not numbers:
            return True
        constants = [node.value for node in walk(expr) if isinstance(node, Scalar)]
        numbers += [each for each in constants if not isinstance(each, (bool, str, type(None)))]
        is_small = all(type(each) is int and abs(each) < SMALL for each in numbers)
        has_operands = any(
            isinstance(node, Ref) and not all(isinstance(arg, Scalar) for arg in node.args)
            for node in walk(expr)
        )
        return is_small and not has_operands and self._names(expr) <= PLAIN

    def _document(self, state: _State) -> tuple[Value, list[tuple[str, ...]]]:
        """Return the known input with the assumed values put in, and their paths. The value of a
        term that is not a part of the input gets a field of its own.
        """
        document, leaves = self._unknowns.input, []
        for number, (term, value) in enumerate(state.values.values()):
            path = _path(term, "input")
            path = (_field(number),) if path is None else path
            document = put(document, path, value)
            leaves.append(path)
        return document, leaves

    # Steps that change

    def _opposite(self, state: _State) -> tuple[Step | None] | None:
        """Add the opposites of negated comparisons (`not a < b` gives `a >= b`) and refute; an
        expression with more than `OPPOSITES` opposites is passed over. Return None if there are
        none or the conjunction would have more than `MOST` expressions; otherwise a tuple with the
        step, or `(None,)` if the rest cannot be refuted.
        """
        positions, added, done = [], [], set(state.done)
        for number, expr in enumerate(state.conjunction.exprs):
            key = f"{number} opposite"
            if key in done or not expr.negated or has_scope(expr) or not self._is_steady(expr):
                continue
            opposites = _opposites(expr)
            if opposites and len(opposites) <= OPPOSITES:
                done.add(key)
                positions.append(number)
                added += opposites
        if not added or len(state.conjunction.exprs) + len(added) > MOST:
            return None
        conjunction = state.conjunction.extend(added)
        then = self._refute(replace(state, conjunction=conjunction, done=frozenset(done)))
        return (None if then is None else Opposite(tuple(positions), then),)

    def _same(self, state: _State) -> tuple[Step | None] | None:
        """Replace variables of an equation by those of another equation with the same call, and
        refute. Return None if there is none; otherwise a tuple with the step, or `(None,)` if the
        rest cannot be refuted.
        """
        known: dict[str, tuple[int, Term]] = {}
        for position, expr in enumerate(state.conjunction.exprs):
            if has_scope(expr) or not self._is_steady(expr):
                continue
            for pattern, call in _patterns(expr):
                text = term_text(call)
                if text not in known:
                    known[text] = position, pattern
                    continue
                first, other = known[text]
                values = _pair(other, pattern)
                if first != position and values:
                    after = state.conjunction.substitute(values)
                    then = self._refute(replace(state, conjunction=after))
                    return (None if then is None else Same(first, position, then),)
        return None

    def _alias(self, state: _State) -> tuple[Step | None] | None:
        """Replace a variable by the term that it equals, and refute the rest.

        Return None if no variable can be replaced; otherwise a tuple with the step, or `(None,)` if
        the rest cannot be refuted.
        """
        for position, expr in enumerate(state.conjunction.exprs):
            for variable, other in equation(expr):
                if not isinstance(variable, Var) or variable.name in ("input", "data"):
                    continue
                if variable.name in free_names(other) or has_scope(Expr(other)):
                    continue
                is_reference = isinstance(other, Ref) and isinstance(other.head, Var)
                is_call = isinstance(other, Call) and self._is_steady(expr)
                if not is_reference and not (is_call and not is_read(variable, state.conjunction)):
                    continue
                after = state.conjunction.substitute({variable.name: other})
                then = self._refute(replace(state, conjunction=after))
                return (None if then is None else Alias(position, then),)
        return None

    def _instance(self, state: _State) -> tuple[Step | None] | None:
        """Add the body of an `every` for an item that another expression reads, and refute. Return
        None if there is none or the conjunction would have more than `MOST` expressions; otherwise
        a tuple with the step, or `(None,)` if the rest cannot be refuted.
        """
        conjunction = state.conjunction
        for number, expr in enumerate(conjunction.exprs):
            every = expr.term
            if expr.negated or expr.withs or not isinstance(every, Every):
                continue
            for position, item in items_of(conjunction, every.domain, number):
                key = f"{number} {term_text(item)}"
                suffix, registry = f"_at{len(conjunction.exprs)}", self._engine.registry
                outer = conjunction.names_outside(number)
                added = instantiate(every, item, outer, suffix, registry)
                if key in state.done or len(conjunction.exprs) + len(added) > MOST:
                    continue
                after = replace(
                    state, conjunction=conjunction.extend(added), done=state.done | {key}
                )
                then = self._refute(after)
                name = term_text(item)
                return (None if then is None else Instance(number, position, name, then),)
        return None

    def _cases(self, state: _State) -> tuple[Step | None] | None:
        """Refute by cases: assume each value that a term can have. Return a tuple with the step;
        None if there is no term all of whose values are refuted, `(None,)` if the work is used up.

        At most `TERMS` terms are assumed at a time; terms with more than `VALUES` + 1 values are
        not refuted.
        """
        if len(state.values) >= TERMS:
            return None
        for number, expr in enumerate(state.conjunction.exprs):
            if has_scope(expr) or not self._is_steady(expr):
                continue
            for term, values, reader in _choices(state.conjunction, number):
                text = term_text(term)
                if text in state.values or self._is_settled(term, state):
                    continue
                cases = []
                for value in values[: VALUES + 1]:
                    then = self._refute(
                        replace(state, values={**state.values, text: (term, value)})
                    )
                    if then is None:
                        break
                    cases.append((value, then))
                if len(cases) == len(values):
                    return (Cases(text, number, tuple(cases), reader),)
                if self._work <= 0:
                    return (None,)
        return None

    def _is_settled(self, term: Term, state: _State) -> bool:
        """Return True if no value may be assumed for a term: for an input path, since it is known
        or overlaps one with an assumed value; for `input` itself, since a value is assumed for any
        other term; for any other term, since a value is assumed for all of `input`.
        """
        path = _path(term, "input")
        others = [_path(other, "input") for other, _ in state.values.values()]
        if path is None or not path:
            # If a value is assumed for `input` itself, no other value can be put into it.
            return () in others if path is None else bool(others)
        meets = any(other is not None and _are_nested(path, other) for other in others)
        return meets or self._unknowns.is_known(path)

    def _split(self, state: _State) -> tuple[Step | None] | None:
        """Refute by cases: each body of a support rule that must hold. Return a tuple with the
        step; None if there is no rule of at most `BODIES` bodies all of which are refuted, or after
        `SPLITS` nested splits.
        """
        if state.splits >= SPLITS:
            return None
        for number, expr in enumerate(state.conjunction.exprs):
            key = f"{number} split"
            if key in state.done:
                continue
            bodies = self._bodies(expr, f"_at{len(state.conjunction.exprs)}")
            if bodies is None or len(bodies) > BODIES:
                continue
            cases = []
            for body in bodies:
                after = replace(
                    state,
                    conjunction=state.conjunction.extend(body),
                    splits=state.splits + 1,
                    done=state.done | {key},
                )
                then = self._refute(after)
                if then is None:
                    break
                cases.append(then)
            if len(cases) == len(bodies):
                return (Split(number, tuple(cases)),)
        return None

    def _bodies(self, expr: Expr, suffix: str) -> list[list[Expr]] | None:
        """Return the bodies of the support rule to which an expression refers, or of the support
        set in which it states a member; one of them holds if the expression does. Their variables
        get new names with `suffix`. None for other expressions, and for rules of another form.
        """
        if expr.negated or expr.withs:
            return None
        rules: list[Rule] | None = None
        key: Term | None = None
        match expr.term:
            case Ref() as ref:
                rules = self._all_rules_at(_path(ref, "data"))
                if rules is None and ref.args:
                    rules = self._all_rules_at(_path(Ref(ref.head, ref.args[:-1]), "data"))
                    key = ref.args[-1]
            case Call(args=(member, Ref() as ref), name="internal.member_2"):
                rules, key = self._all_rules_at(_path(ref, "data")), member
        is_usable = _is_plain if key is None else _is_member_rule
        if rules is None or not all(map(is_usable, rules)):
            return None
        bodies = []
        for rule in rules:
            names = {name for each in rule.body for name in free_names(each)}
            names |= set() if rule.head.key is None else free_names(Expr(rule.head.key))
            values: dict[str, Term] = {name: Var(fresh_name(name, suffix)) for name in names}
            body = [substitute(each, values, self._engine.registry) for each in rule.body]
            if key is not None and rule.head.key is not None:
                head: Any = rename(Expr(rule.head.key), values).term
                body.append(Expr(equal_terms(key, head)))
            bodies.append(body)
        return bodies

    def _all_rules_at(self, path: tuple[str, ...] | None) -> list[Rule] | None:
        """Return the support rules at a path, without defaults that are false; None if there are
        none.
        """
        # A default of any other value stays, so that `_is_plain` refuses to split the rule.
        rules = [
            rule
            for module in self._support
            for rule in module.rules
            if (*module.package.path, *_name(rule.head.ref)) == path
            and not (rule.default and rule.head.value == Scalar(False))
        ]
        return rules or None


_RESULT: Final = Var("doorward_result")
_OPPOSITES: Final = {"lt": ">=", "lte": ">", "gt": "<=", "gte": "<", "neq": "="}


def _opposites(expr: Expr) -> list[Expr]:
    """Return the opposite of a negated comparison (`not a < b` gives `a >= b`), or of a negated
    membership in a constant collection (one `!=` for each member); [] for any other expression.
    `expr` must be negated, which is not checked here.
    """
    match expr.term:
        case Call(args=(left, right), name=name) if name in _OPPOSITES:
            texts = [f"{term_text(left)} {_OPPOSITES[name]} {term_text(right)}"]
        case Call(args=(left, right), name="internal.member_2") if is_constant(right):
            # In Rego's order, which that of a set in memory is not.
            members = sorted(members_of(value_of(right)), key=cmp_to_key(compare))
            texts = [f"{term_text(left)} != {to_rego(each)}" for each in members]
        case _:
            return []
    return [parse_query(Source("", text), v0=False)[0] for text in texts]


# Contradictions


def _contradiction(conjunction: Conjunction, steady: Sequence[bool]) -> Step | None:
    """Return a step if the conjunction has an expression and its negation; None if not. Only
    expressions that are `steady` (have a single result in one evaluation) are compared.
    """
    known = {text: number for number, text in enumerate(conjunction.texts) if steady[number]}
    for text, number in known.items():
        negative = known.get(f"not {text}")
        if negative is not None:
            return Contradiction(number, negative)
    return None


def _empty(conjunction: Conjunction) -> Step | None:
    """Return a step if the conjunction limits the size of a collection, and reads an item beyond
    the limit or states that something is in an empty one; None if not.
    """
    for position, expr in enumerate(conjunction.exprs):
        for collection, size in _most_items(expr):
            for member, item in items_of(conjunction, collection, position):
                if size <= 0 or _is_beyond(item, size):
                    return Empty(position, member)
            for member, other in enumerate(conjunction.exprs) if size <= 0 else ():
                if _has_member(other, collection):
                    return Empty(position, member)
    return None


def _has_member(expr: Expr, collection: Term) -> bool:
    """Return True if an expression states that something is in the collection."""
    match expr:
        case Expr(term=Call(args=(_, container), name="internal.member_2"), negated=False):
            return not expr.withs and container == collection
    return False


def _most_items(expr: Expr) -> Iterator[tuple[Term, int]]:
    """Yield a pair for each collection that an expression bounds: the collection, and the greatest
    number of items that it allows.
    """
    sides = operands(expr)
    if sides is None:
        return
    left, sign, right = sides
    for count, limit, signs in ((left, right, ("=", "<=", "<")), (right, left, ("=", ">=", ">"))):
        if not isinstance(count, Call) or count.name != "count" or len(count.args) != 1:
            continue
        if isinstance(limit, Scalar) and type(limit.value) is int and sign in signs:
            yield count.args[0], limit.value - (sign in ("<", ">"))


def _is_beyond(item: Ref, size: int) -> bool:
    """Return True if the item is of an input array and its index is `size` or more."""
    index = item.args[-1]
    value = index.value if isinstance(index, Scalar) else None
    return item.head == Var("input") and type(value) is int and value >= size


def _shape(conjunction: Conjunction) -> Step | None:
    """Return a step if one expression denies that an input path is an object and another reads a
    field of it; None if there is no such pair.
    """
    for position, expr in enumerate(conjunction.exprs):
        call = expr.term
        if not expr.negated or not isinstance(call, Call) or call.name != "is_object":
            continue
        if expr.withs or _path(call.args[0], "input") is None:
            continue
        for reader, item in items_of(conjunction, call.args[0], position):
            key = item.args[-1]
            # Of JSON, only an object has such a key.
            if isinstance(key, Scalar) and type(key.value) is str:
                return Shape(position, reader)
    return None


@record
class _Link:
    """A comparison of two terms, by their texts: `low` is less than `high`, or less or equal."""

    low: str
    sign: str
    high: str
    position: int | None
    """The position of the expression that is this comparison; None for the order of two constants,
    or of a term and its sum with an integer.
    """


def _comparisons(conjunction: Conjunction, steady: Sequence[bool]) -> Iterator[Link]:
    """Yield the usable comparisons in the conjunction: those without inner bodies whose expression
    is `steady` (has a single result in one evaluation). `>` and `>=` are turned around, so that the
    lower side comes first.
    """
    for position, expr in enumerate(conjunction.exprs):
        sides = operands(expr)
        if sides is None or not steady[position] or has_scope(expr):
            continue
        left, sign, right = sides
        if sign in (">", ">="):
            left, sign, right = right, {">": "<", ">=": "<="}[sign], left
        yield left, sign, right, position


def _bounds(comparisons: Sequence[Link]) -> Step | None:
    """Return a step if the bounds of the other comparisons exclude one of them; None if not."""
    position = failing([each for each in comparisons if each[1] != "!="])
    return None if position is None else Bounds(position)


def _cycle(comparisons: Sequence[Link]) -> Step | None:
    """Return a step if the comparisons form a cycle with a strict one (`a < b`, `b <= a`), or if
    terms that are equal should differ; None if not.
    """
    links = [_Link(term_text(a), sign, term_text(b), n) for a, sign, b, n in comparisons]
    terms = [term for low, _, high, _ in comparisons for term in (low, high)]
    constants = {term_text(each): value_of(each) for each in terms if is_constant(each)}
    links += [*_order(constants), *_order_of_sums(terms)]
    for link in links:
        if link.sign not in ("<", "!="):
            continue
        signs = {"="} if link.sign == "!=" else {"<", "<=", "="}
        way = _shortest_chain(link.high, link.low, [each for each in links if each.sign in signs])
        if way is not None:
            positions = [each.position for each in [link, *way]]
            return Cycle(tuple(each for each in positions if each is not None))
    return None


def _order_of_sums(terms: Sequence[Term]) -> Iterator[_Link]:
    """Yield, as `<=`, the order between a term and its sums with integers below `LARGEST` in size,
    and between such sums, as far as they are among `terms` or in them.
    """
    sums: dict[str, dict[str, int]] = {}
    for term in terms:
        if not isinstance(term, Call) or len(term.args) != 2 or term.name not in ("plus", "minus"):
            continue
        for part, other in (term.args, term.args[::-1]):
            number = other.value if isinstance(other, Scalar) else None
            is_small = type(number) is int and abs(number) < LARGEST
            if (
                is_small
                and isinstance(number, int)
                and (term.name == "plus" or part is term.args[0])
            ):
                added = number if term.name == "plus" else -number
                sums.setdefault(term_text(part), {term_text(part): 0})[term_text(term)] = added
    for each in sums.values():
        for low, high in pairwise(sorted(each, key=each.__getitem__)):
            # `<=` and not `<`: a sum is rounded, and may be equal to the term.
            yield _Link(low, "<=", high, None)


def _order(constants: Mapping[str, Value]) -> Iterator[_Link]:
    """Yield the order of the constants, each linked with the next."""

    def order(one: str, other: str) -> int:
        """Compare two constants, named by their texts, in Rego's order."""
        return compare(constants[one], constants[other])

    texts = sorted(constants, key=cmp_to_key(order))
    for low, high in pairwise(texts):
        sign = "<" if compare(constants[low], constants[high]) else "="
        yield _Link(low, sign, high, None)


def _shortest_chain(start: str, end: str, links: Sequence[_Link]) -> list[_Link] | None:
    """Return the shortest chain of comparisons from the term `start` up to `end`, both texts; an
    equation leads both ways. [] if they are the same, None if there is no chain. Signs are not
    compared.
    """
    after: dict[str, list[tuple[str, _Link]]] = {}
    for link in links:
        after.setdefault(link.low, []).append((link.high, link))
        if link.sign == "=":
            after.setdefault(link.high, []).append((link.low, link))
    came: dict[str, tuple[str, _Link] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        if here == end:
            way: list[_Link] = []
            while (before := came[here]) is not None:
                here, link = before
                way.append(link)
            return way[::-1]
        for target, link in after.get(here, ()):
            if target not in came:
                came[target] = here, link
                waiting.append(target)
    return None


# Terms


def _patterns(expr: Expr) -> Iterator[tuple[Term, Term]]:
    """Yield the side of an equation that is a variable or an array, with the call on its other
    side; nothing for other expressions.
    """
    for pattern, other in equation(expr):
        if isinstance(pattern, (Var, Array)) and isinstance(other, Call):
            yield pattern, other


def _pair(one: Term, other: Term) -> dict[str, Term]:
    """Return variables of the pattern `other`, each with the different variable at the same
    position of `one`; each variable is paired at most once. {} if there are none.
    """
    pairs: list[tuple[Term, Term]] = [(one, other)]
    if isinstance(one, Array) and isinstance(other, Array) and len(one.items) == len(other.items):
        pairs = list(zip(one.items, other.items, strict=True))
    values: dict[str, Term] = {}
    for first, second in pairs:
        if isinstance(first, Var) and isinstance(second, Var) and first != second:
            targets = {each.name for each in values.values() if isinstance(each, Var)}
            # No variable is both replaced and put in: the order of replacements must not matter.
            if (
                second.name not in values
                and second.name not in targets
                and first.name not in values
            ):
                values[second.name] = first
    return values


def _choices(
    conjunction: Conjunction, number: int
) -> Iterator[tuple[Term, list[Value], int | None]]:
    """Yield terms of the expression at position `number` that it limits to some values, with these
    values: `x == 1` to one, `x in {1, 2}` to two, `not x` to false.

    The third item is the position of an expression that proves the term to be defined, None if this
    expression proves it.
    """
    expr = conjunction.exprs[number]
    for term, other in equation(expr):
        if is_open(term) and is_constant(other):
            yield term, [value_of(other)], None
    call = expr.term
    if expr.withs:
        return
    match call:
        case Call(args=(term, collection), name="internal.member_2") if not expr.negated:
            if is_open(term) and is_constant(collection):
                yield term, members_of(value_of(collection)), None
    if expr.negated and isinstance(call, Ref) and is_open(call):
        for reader in readers_of(conjunction, call, number):
            yield call, [False], reader
            return


def _numbers(value: Value) -> Iterator[Value]:
    """Yield all numbers in a value, each as often as it occurs, those in keys too; booleans are not
    numbers.
    """
    match value:
        case bool() | str() | None:
            return
        case list(items):
            for each in items:
                yield from _numbers(each)
        case frozenset() as members:
            for key in members:
                yield from _numbers(from_key(key))
        case dict(fields):
            for key, each in fields.items():
                yield from _numbers(from_key(key))
                yield from _numbers(each)
        case _:
            yield value


def _put_terms(expr: Expr, state: _State) -> Expr:
    """Return an expression that reads fields of the input in place of terms with assumed values."""
    others = [
        (number, term)
        for number, (term, _) in enumerate(state.values.values())
        if _path(term, "input") is None
    ]

    def change(node: Node) -> Node:
        """Replace a term that has an assumed value, or a reference into it."""
        for number, term in others:
            if not is_prefix(term, node):
                continue
            rest = (
                node.args[len(term.args) :]
                if isinstance(term, Ref) and isinstance(node, Ref)
                else ()
            )
            return Ref(Var("input"), (Scalar(_field(number)), *rest))
        if isinstance(node, Ref) and isinstance(node.head, Ref):
            return Ref(node.head.head, (*node.head.args, *node.args))
        return node

    changed: Expr = rewrite(expr, change)
    return changed


def _paths_read(expr: Expr) -> Iterator[tuple[str, ...]]:
    """Yield the input paths that an expression reads, each up to its first variable key:
    `input.a[x].b` -> `("a",)`.
    """
    for node in walk(expr):
        if isinstance(node, Ref) and node.head == Var("input") and node.args:
            names = takewhile(lambda arg: isinstance(arg, Scalar), node.args)
            yield tuple(str(arg.value) for arg in names if isinstance(arg, Scalar))


def _field(number: int) -> str:
    return f"doorward term {number}"


def _are_nested(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return True if one path is equal to or above the other."""
    size = min(len(one), len(other))
    return one[:size] == other[:size]


def _is_plain(rule: Rule) -> bool:
    """Return True if the rule is `true` if its body holds, without parameters, key, `else` or
    `default`.
    """
    head = rule.head
    is_true = head.value is None or head.value == Scalar(True)
    is_alone = rule.else_rule is None and not rule.default
    return is_true and is_alone and head.args is None and head.key is None


def _is_member_rule(rule: Rule) -> bool:
    """Return True if a rule adds a member to a set, without parameters, `else` or `default`."""
    head = rule.head
    is_alone = rule.else_rule is None and not rule.default
    return is_alone and head.key is not None and head.value is None and head.args is None


def _name(ref: Ref) -> tuple[str, ...]:
    first = (ref.head.name,) if isinstance(ref.head, Var) else ()
    return (*first, *[str(arg.value) for arg in ref.args if isinstance(arg, Scalar)])


def _path(term: Term, root: str) -> tuple[str, ...] | None:
    """Return the names of a path below `root` (`input` or `data`), () for `root` alone; None for
    other terms, such as a path with a key that is not a constant text.
    """
    if term == Var(root):
        return ()
    if not isinstance(term, Ref) or term.head != Var(root):
        return None
    names = [arg.value for arg in term.args if isinstance(arg, Scalar)]
    if len(names) != len(term.args) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(str(name) for name in names)
