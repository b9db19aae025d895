"""Conflicts that are not known: rules that may give one document two values at once.

A decision that meets one is an error. A residual has no word for that, since each of its queries is
about one value: its reader, a filter, is told which rules may contradict each other. Bodies
that exclude each other (`x == 1` and `x == 2`, `x` and `not x`) do not conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from typing import Final, TypeAlias

from doorward.base.records import record
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.context import Conflict, SearchContext, Solutions
from doorward.rego.partial.core import (
    EQUALITY,
    Body,
    Comprehension,
    Constant,
    Expr,
    Rule,
    Term,
    Var,
    equation,
    inner_terms,
    is_path,
    map_parts,
    variables,
    with_args,
)
from doorward.rego.partial.propagation import Propagation
from doorward.rego.partial.reached import data_references, reached
from doorward.rego.partial.state import Bindings, body_of
from doorward.rego.values import Value, compare, operand_text, to_key

__all__ = [
    "conflicts_of_branches",
    "conflicts_of_unevaluated",
    "exclude_each_other",
    "find_conflict",
    "is_determined",
    "path_of_rule",
]

MAX_PAIRS: Final = 10_000
"""The most pairs of outcomes that are compared; further rules count as conflicting."""

_OPPOSITES: Final = {
    "gt": "lte",
    "gte": "lt",
    "lt": "gte",
    "lte": "gt",
    "neq": EQUALITY,
    EQUALITY: "neq",
}
_MIRRORED: Final = {"gt": "lt", "gte": "lte", "lt": "gt", "lte": "gte"}
_VALUE: Final = Var("__value__")


def path_of_rule(rule: Rule) -> str:
    """Return the reference in a rule's head as text, beginning with `data`; a variable operand
    becomes `_`, as in `data.p.q[_]`.
    """
    parts = [part.value if type(part) is Constant else "_" for part in rule.path[1:]]
    return "data" + "".join(map(operand_text, parts))


@record
class _Outcome:
    """One solution of a rule: its value, the conditions that are left, and `keys`, the operands of
    its reference from the index `start` of `find_conflict` on.
    """

    rule: Rule
    keys: tuple[Term, ...]
    value: Term
    body: Body


def find_conflict(
    search: SearchContext,
    rules: Sequence[Rule],
    solutions: Callable[[Rule, Bindings], Solutions],
    start: int | None = None,
) -> Conflict | None:
    """Return the first two of `rules`, at least one, that may both hold with different values, or
    one rule twice if it alone may give several values; None if there is no such pair.

    `solutions` yields once for each solution of a rule and leaves its conditions in `search.saved`.
    From index `start` on, the operands of the references are keys: two outcomes with different
    constant keys do not conflict. Above `MAX_PAIRS` comparisons the next pair is returned as a
    conflict.
    """
    if _have_one_value(rules):
        return None
    # Before `_outcomes`: variables that are unknown now are bound outside of all the rules'
    # bodies.
    around = search.unknown_names()
    outcomes = list(_outcomes(search, rules, solutions, start))
    for outcome in outcomes:
        if not is_determined(search, outcome.value, outcome.body, around):
            return Conflict(path_of_rule(outcome.rule), outcome.rule.span, outcome.rule.span)
    for count, (one, other) in enumerate(_pairs(outcomes, around)):
        # Fail closed: what was not compared counts as a conflict, which the reader of a filter
        # refuses.
        if count >= MAX_PAIRS or _may_conflict(search, one, other, around):
            return Conflict(path_of_rule(one.rule), one.rule.span, other.rule.span)
    return None


def conflicts_of_branches(rules: Sequence[Rule]) -> list[Conflict]:
    """Return a list of one possible conflict, or [] if there is none, for rules with `else`. Bodies
    are not compared: two or more rules conflict unless all branches have the same constant value.
    """
    branches = [branch for rule in rules for branch in rule.branches()]
    if len(rules) < 2 or _have_one_value(branches):
        return []
    return [Conflict(path_of_rule(rules[0]), rules[0].span, rules[1].span)]


def conflicts_of_unevaluated(search: SearchContext, expr: Expr) -> list[Conflict]:
    """Return the possible conflicts of the rules that an expression with a body inside it may lead
    to: it is saved as it is, and its rules are not evaluated. Bodies are not compared: rules for
    one document conflict unless all have the same constant value, and one rule by itself does
    unless its value is determined. [] also for references that were looked at before.
    """
    references = frozenset(data_references(expr))
    if not references or references in search.compared:
        return []
    search.compared.add(references)
    documents: dict[str, list[Rule]] = {}
    for each in reached(search.program, expr):
        if type(each) is Rule and not each.is_set and not each.default:
            documents.setdefault(path_of_rule(each), []).append(each)
    conflicts: list[Conflict] = []
    for path, rules in documents.items():
        branches = [branch for rule in rules for branch in rule.branches()]
        if _have_one_value(branches):
            continue
        if len(rules) > 1:
            conflicts.append(Conflict(path, rules[0].span, rules[1].span))
        elif not all(_is_determined_alone(search, branch) for branch in branches):
            conflicts.append(Conflict(path, rules[0].span, rules[0].span))
    return conflicts


def _is_determined_alone(search: SearchContext, rule: Rule) -> bool:
    """Return True if a rule has one value for given operands and keys."""
    assert rule.value is not None
    outer = {name for term in (*rule.path[1:], *(rule.args or ())) for name in variables(term)}
    return is_determined(search, rule.value, rule.body, outer)


def _have_one_value(rules: Sequence[Rule]) -> bool:
    """Return True if all rules have the same constant value, or if there are none: a function may
    have nothing but a default.
    """
    if not rules:
        return True
    value = rules[0].value
    return type(value) is Constant and all(rule.value == value for rule in rules)


def _outcomes(
    search: SearchContext,
    rules: Sequence[Rule],
    solutions: Callable[[Rule, Bindings], Solutions],
    start: int | None,
) -> Iterator[_Outcome]:
    """Yield one outcome for each solution of the rules; its `body` has the conditions that depend
    on something unknown. They are not added to the residual that is being built. `start`: where the
    keys begin in the path of each rule, None for no keys.
    """
    for rule in rules:
        bindings = search.child()
        with search.apart() as saved:
            for _ in solutions(rule, bindings):
                assert rule.value is not None
                value = search.names.plug(rule.value, bindings)
                rest = () if start is None else rule.path[start:]
                keys = tuple([search.names.plug(part, bindings) for part in rest])
                yield _Outcome(rule, keys, value, body_of(saved, search.names))


def is_determined(
    search: SearchContext, value: Term, body: Body, around: Collection[str] = ()
) -> bool:
    """Return True if `value`, which `body` computes, has exactly one value for any given input and
    data: it is constant, a single path, or the result of a call with such operands. The variables
    in `around` count as single values, since they are bound outside the body.
    """
    single = frozenset(around) | ROOTS
    if type(value) is Constant:
        return True
    body = (*body, equation(_VALUE, value))
    simple = Propagation(search.program, {_VALUE.name, *around}, whole=True).apply(body)
    for expr in simple:
        if _gives(search, expr, _VALUE, single):
            return True
        if expr.is_equation and _VALUE in expr.args:
            (term,) = [arg for arg in expr.args if arg != _VALUE] or [_VALUE]
            return _is_closed(term, single) or any(
                _gives(search, each, term, single) for each in simple
            )
    return False


def _is_closed(term: Term, single: Container[str]) -> bool:
    """Return True if all variables in the term are in `single`."""
    return all(type(each) is not Var or each.name in single for each in inner_terms((term,)))


def _gives(search: SearchContext, expr: Expr, value: Term, single: Container[str]) -> bool:
    """Return True if `expr` is a call of a built-in whose last operand is its result `value`, and
    which has exactly one result because all variables of the other operands are in `single`. False
    for a negated call, for an equation and for relations such as `walk`, which may have several
    results.
    """
    if expr.negated or type(expr.operator) is not str or expr.is_equation:
        return False
    declared = search.program.builtin(expr.operator)
    if declared is None or declared.relation or not expr.args or expr.args[-1] != value:
        return False
    return all(_is_closed(arg, single) for arg in expr.args[:-1])


def _pairs(
    outcomes: Sequence[_Outcome], around: Container[str]
) -> Iterator[tuple[_Outcome, _Outcome]]:
    """Yield the pairs of outcomes that have to be compared. Pairs with the same constant value are
    left out, and pairs whose bodies equate one path, or one variable in `around`, with different
    constants.
    """
    groups = _apart(outcomes, around)
    for group in groups:
        # Each outcome is compared only with later ones; `is_determined` has looked at it alone.
        for number, one in enumerate(group):
            for other in group[number + 1 :]:
                if type(one.value) is not Constant or one.value != other.value:
                    yield one, other


def _apart(outcomes: Sequence[_Outcome], around: Container[str]) -> list[list[_Outcome]]:
    """Group the outcomes by the constant that their bodies equate with one common path, or one
    variable in `around`; outcomes of different groups never hold together. There is one group if
    there are fewer than three outcomes or nothing common. Of several, the path or variable with the
    most different constants is chosen.
    """
    if len(outcomes) < 3:
        return [list(outcomes)]
    # A variable of a body may be another item of a collection in each outcome.
    equal_to = [
        {
            term: to_key(value)
            for term, value in _equations(outcome.body)
            if type(term) is not Var or term.name in around
        }
        for outcome in outcomes
    ]
    common = set(equal_to[0]).intersection(*equal_to)
    if not common:
        return [list(outcomes)]
    # The one with the most different constants makes the smallest groups.
    term = max(common, key=lambda each: len({tests[each] for tests in equal_to}))
    groups: dict[object, list[_Outcome]] = {}
    for outcome, tests in zip(outcomes, equal_to, strict=True):
        groups.setdefault(tests[term], []).append(outcome)
    return list(groups.values())


def _equations(body: Body) -> Iterator[tuple[Term, Value]]:
    """Yield each variable and path that the body equates to a constant, with the constant."""
    for expr in body:
        test = _test(expr)
        if test is not None and test[1] == EQUALITY and test[3]:
            yield test[0], test[2]


def _may_conflict(
    search: SearchContext, one: _Outcome, other: _Outcome, around: Collection[str]
) -> bool:
    """Return True if two outcomes may hold for the same keys with different values; False if their
    keys or bodies exclude each other, or one is an `else` of the other. Variables in `around` are
    the same in both outcomes, all others are not.
    """
    keys = _rename(other.keys, around)
    if one.rule is not other.rule and one.rule.first is other.rule.first:
        return False  # an `else` holds where those before it do not
    (value,) = _rename((other.value,), around)
    count = min(len(one.keys), len(keys))
    same = [equation(a, b) for a, b in zip(one.keys[:count], keys[:count], strict=True)]
    for expr in same:
        left, right = expr.args
        if type(left) is Constant and type(right) is Constant and left != right:
            return False
    # With fewer keys, one gives a whole value where the other one adds a part to it: that is a
    # conflict whatever the values are.
    if len(one.keys) == len(keys) and (
        type(one.value) is not Constant or type(value) is not Constant
    ):
        same.append(Expr((one.value, value), "neq"))
    return not exclude_each_other(search, (*one.body, *same), other.body, around)


def exclude_each_other(
    search: SearchContext, one: Body, other: Body, around: Collection[str] = ()
) -> bool:
    """Return True only if the two bodies certainly never hold for the same documents; False means
    that they may. `around`: variables bound outside, common to both. Other variables of `other` are
    renamed, as by `_rename`; `one` may refer to them by the new names.
    """
    known = [renamed for expr in other if (renamed := _rename_expr(expr, around)) is not None]
    # Types may already exclude them: `x = 1` and `startswith(x, "a")`.
    typed = search.well_typed((*one, *known))
    if typed is None:
        return True
    return _contradicts(Propagation(search.program, around, whole=True).apply(typed))


def _rename(terms: Sequence[Term], around: Collection[str]) -> tuple[Term, ...]:
    """Return `terms` with the suffix `__other__` on each variable outside comprehensions that is
    neither a document nor in `around`. Two solutions of one rule use the same names for different
    values.
    """

    def rename(term: Term) -> Term:
        """Return a term with each variable that is neither a document nor in `around` renamed, so
        that it differs from those of another body; comprehensions are left unchanged.
        """
        if type(term) is not Var:
            return map_parts(term, rename)
        is_shared = term.name in ROOTS or term.name in around
        return term if is_shared else Var(f"{term.name}__other__")

    return tuple(map(rename, terms))


def _rename_expr(expr: Expr, around: Collection[str]) -> Expr | None:
    """Return the expression with its variables renamed as by `_rename`; None for an expression with
    `every`, `with` or a comprehension, which proves no contradiction.
    """
    if expr.every is not None or expr.withs:
        return None
    if any(type(term) is Comprehension for term in inner_terms(expr.args)):
        return None
    return with_args(expr, _rename(expr.args, around))


# Contradictions


def _contradicts(body: Body) -> bool:
    """Return True if the body certainly never holds: it has an expression and its negation, `x !=
    x`, or comparisons of one term with constants that no value satisfies. Expressions with `with`
    or `every` do not count. False means that it may hold.
    """
    exprs = [expr for expr in body if not expr.withs and expr.every is None]
    # What is under `with` says nothing about the document outside of it.
    positive = {_key(expr) for expr in exprs if not expr.negated}
    if any(expr.negated and _key(expr) in positive for expr in exprs):
        return True
    tests: dict[Term, list[_Test]] = {}
    for expr in exprs:
        # With an output, as in `neq(x, x, false)`, it may hold.
        is_test = expr.operator == "neq" and not expr.negated and len(expr.args) == 2
        if is_test and expr.args[0] == expr.args[1]:
            return True
        test = _test(expr)
        if test is not None:
            tests.setdefault(test[0], []).append(test)
    return any(map(_have_no_value, tests.values()))


def _key(expr: Expr) -> tuple[object, ...]:
    """Return a hashable key that is equal for equal expressions, `not` ignored: `1 = x` has the key
    of `x = 1`.
    """
    args = expr.args
    if expr.is_equation and type(args[0]) is Constant:
        args = args[::-1]
    return expr.operator, args


_Test: TypeAlias = tuple[Term, str, Value, bool]
"""A comparison of a reference with a constant, and True if it also says that the reference has a
value; behind `not` it holds only for the value, if there is one.
"""


def _test(expr: Expr) -> _Test | None:
    """Return an expression as a `_Test`, the constant always on the right: `3 < x` is `(x, "gt", 3,
    True)`, `not x < 3` is `(x, "gte", 3, False)`, and `x` alone is `(x, "neq", False, True)`.
    Return None if the expression has `with` or is not a comparison of a single variable or path
    with a constant.
    """
    if expr.withs or expr.every is not None:
        return None
    if expr.operator is None:
        (term,) = expr.args
        # A term alone must not be false, and behind `not` it must be false or undefined.
        operator = EQUALITY if expr.negated else "neq"
        return (term, operator, False, not expr.negated) if _is_single(term) else None
    name = expr.operator
    if not isinstance(name, str) or name not in _OPPOSITES or len(expr.args) != 2:
        return None
    left, right = expr.args
    if type(left) is Constant:
        left, right, name = right, left, _MIRRORED.get(name, name)
    if type(right) is not Constant or not _is_single(left):
        return None
    return left, _OPPOSITES[name] if expr.negated else name, right.value, not expr.negated


def _is_single(term: Term) -> bool:
    """Return True for a variable or a path below `input` or `data`, which have one value wherever
    they stand in a body.
    """
    return type(term) is Var or is_path(term)


def _have_no_value(tests: Sequence[_Test]) -> bool:
    """Return True if no value satisfies all of the tests (comparisons of one term with constants):
    an equality contradicts another test, or a lower bound is above an upper one. False if none of
    them requires a value, since an undefined term satisfies those, and where it cannot be told.
    """
    if not any(has_value for _, _, _, has_value in tests):
        return False
    for _, operator, value, _ in tests:
        if operator == EQUALITY and not all(_holds(value, each) for each in tests):
            return True
    lower = [(value, operator) for _, operator, value, _ in tests if operator in ("gt", "gte")]
    upper = [(value, operator) for _, operator, value, _ in tests if operator in ("lt", "lte")]
    # Every lower bound against every upper bound; bodies have only a few of each.
    for low, over in lower:
        for high, under in upper:
            order = compare(low, high)
            if order > 0 or (order == 0 and (over == "gt" or under == "lt")):
                return True
    return False


def _holds(value: Value, test: _Test) -> bool:
    """Return True if the value satisfies the test."""
    order = compare(value, test[2])
    return {
        EQUALITY: order == 0,
        "neq": order != 0,
        "lt": order < 0,
        "lte": order <= 0,
        "gt": order > 0,
        "gte": order >= 0,
    }[test[1]]
