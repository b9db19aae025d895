"""The rules of a document to one condition: where the decision allows, and nowhere else.

A rule that says `{"allowed": false}` or `"deny"` holds as well as one that says true, and two that
hold with different values are a conflict, which a decision refuses. So each value has its rows, and
those of a value that is allowed are its own without the rows of every other value:

    allow := true if A          allow := false if B          the rows: A and not B
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from doorward.base.records import record
from doorward.filters.bodies import BodyReader
from doorward.filters.comparing import Comparer
from doorward.filters.conditions import Condition, Conditions, Group
from doorward.filters.hints import HEAD
from doorward.filters.scopes import Scope, is_variable
from doorward.rego import REGISTRY, Undefined, Value
from doorward.rego.shared import Branch, Definitions, Key, Outcome, to_key
from doorward.rego.tools import Body, Call, Expr, Object, Ref, Scalar, Term, Var, walk
from doorward.rego.types import boolean
from doorward.verdicts import is_allowed

__all__ = ["allowed_conditions", "check_flat"]

MAX_PAIRS: Final = 10_000
"""At most this many pairs of values of one rule are checked for conflicts."""
_OPPOSITES: Final = {"equal": "neq", "neq": "equal"}
_SUBJECTS: Final = {
    **dict.fromkeys(("startswith", "endswith", "contains"), (0,)),
    "regex.match": (1,),
    "glob.match": (2,),
}
"""The positions of the operands in which a built-in searches, by its name."""
_REFUSED: Final = object()
"""Stands for any value of a column other than true: a filter does not need to know which."""

_Value: TypeAlias = Any


@record
class _Case:
    """A case in which a rule gives a value: the numbers of rule and `else` branch, the value as a
    key, and its conditions.
    """

    rule: int
    branch: int
    outcome: Outcome
    key: _Value
    is_allowed: bool
    conditions: tuple[Condition, ...]


def allowed_conditions(
    definitions: Definitions, reader: BodyReader, comparer: Comparer
) -> Conditions:
    """Return the conditions of the rows for which the document is allowed.

    Errors are recorded in `comparer`; the result is `()` if there are too many values.
    """
    cases = list(_cases(definitions, reader, comparer))
    if sum(1 for each in cases if each.is_allowed) * len(cases) > MAX_PAIRS:
        _refuse_values(definitions, comparer)
        return ()
    bodies = [_body_of(case, cases, definitions) for case in cases if case.is_allowed]
    default = definitions.default
    if not isinstance(default, Undefined) and is_allowed(default):
        # An `else` excludes a row here even out of its turn: such a row has the value of the branch
        # whose turn it is, and is selected by that branch or not at all.
        others = [case.conditions for case in cases if case.key != to_key(default)]
        bodies.append(_without(others))
    return tuple(bodies)


def _body_of(
    case: _Case, cases: Sequence[_Case], definitions: Definitions
) -> tuple[Condition, ...]:
    """Return the conditions of a case that allows, and the conditions that no rule gives a
    different value at the same time.
    """
    before = [each for each in cases if each.rule == case.rule and each.branch < case.branch]
    others = [
        each
        for each in cases
        if each.key != case.key
        # Two branches of one `else` chain never hold at once; two outcomes of one branch may.
        and (each.rule != case.rule or each.branch == case.branch)
        # The two cases of one variable, true and other: with one value they exclude each other.
        and not (each.outcome is case.outcome and case.outcome.is_determined)
        and not definitions.exclude(case.outcome, each.outcome)
    ]
    # An `else` counts only where what is before it does not hold.
    contradicting = [_in_turn(each, cases) for each in others]
    excluded = [each.conditions for each in before] + contradicting
    return (*case.conditions, *_without(excluded))


def _in_turn(case: _Case, cases: Sequence[_Case]) -> tuple[Condition, ...]:
    """Return the conditions of an `else` case: its own, and that no branch before it holds."""
    before = [
        each.conditions for each in cases if each.rule == case.rule and each.branch < case.branch
    ]
    return (*case.conditions, *_without(before))


def _without(bodies: Sequence[tuple[Condition, ...]]) -> tuple[Condition, ...]:
    return (Group(tuple(bodies), negated=True),) if bodies else ()


def _cases(definitions: Definitions, reader: BodyReader, comparer: Comparer) -> Iterator[_Case]:
    """Yield a case for each value that a rule may give, in the order of rules and their `else`
    branches; those whose body never holds are left out. What cannot be translated is left out and
    recorded as an error in `comparer`: the cases count only if there are none.
    """
    for number, rule in enumerate(definitions.rules):
        for position, branch in enumerate(rule):
            for outcome in branch.outcomes:
                for key, allowed, body in _values(outcome, branch, comparer):
                    conditions = reader.body(body, Scope())
                    if conditions is not None:
                        yield _Case(number, position, outcome, key, allowed, conditions)


def _values(
    outcome: Outcome, branch: Branch, comparer: Comparer
) -> Iterator[tuple[_Value, bool, Body]]:
    """Yield each value that a rule may give: the value as a key, True if it allows, and the body
    under which the rule gives it. A value that depends on a condition is yielded as if that is
    true, then as `_REFUSED` for all other cases.

    Nothing after an error: the value is neither a column nor known.
    """
    constant = outcome.constant
    if not isinstance(constant, Undefined):
        yield to_key(constant), is_allowed(constant), outcome.body
        return
    template = _template(outcome.value)
    bodies = None if template is None else _bodies_for(template[0], outcome.body)
    if template is None or bodies is None:
        message = f"the value of the rule {branch.path} is neither a column nor known"
        comparer.fail(branch.span, message, hint=HEAD)
        return
    is_true, is_other = bodies
    yield to_key(template[1]), is_allowed(template[1]), is_true
    if is_other is not None:
        yield _REFUSED, False, is_other


def _template(value: Term) -> tuple[Var, Value] | None:
    """Return the variable on which a value depends, and the value if that variable is true.

    None unless the value is a variable, or an object whose `allowed` is one and whose other fields
    are known.
    """
    if is_variable(value):
        return value, True
    if not isinstance(value, Object):
        return None
    unknown: Var | None = None
    fields: dict[Key, Value] = {}
    for key, item in value.items:
        if not isinstance(key, Scalar) or not isinstance(key.value, str):
            return None
        if key.value == "allowed" and is_variable(item):
            unknown, fields["allowed"] = item, True
        elif isinstance(item, Scalar):
            fields[key.value] = item.value
        else:
            return None
    return None if unknown is None else (unknown, fields)


def _bodies_for(var: Var, body: Body) -> tuple[Body, Body | None] | None:
    """Return the body for the case that the variable is true, and that for other values: None for
    it if there are none. Where the variable has no value, neither holds.

    None unless the variable occurs in exactly one expression, a call without `not` and `with` that
    defines it as its result or by an equation.
    """
    # Any other use would lose the definition, which the bodies below replace by a test.
    uses = [expr for expr in body if any(node == var for node in walk(expr))]
    if len(uses) != 1:
        return None
    (expr,) = uses
    call = expr.term
    if expr.negated or expr.withs or not isinstance(call, Call):
        return None
    rest = tuple([each for each in body if each is not expr])
    if call.name == "eq" and var in call.args:
        (other,) = [arg for arg in call.args if arg != var] or [var]
        if isinstance(other, Ref) and other.head == Var("data"):
            return _when_true_or_not(expr, other, rest)
        return (*body, _compare_with_true(expr, "eq", var)), (
            *body,
            _compare_with_true(expr, "neq", var),
        )
    if call.args[-1] != var:
        return None
    without_result = replace(call, args=call.args[:-1])
    if not _is_boolean(call):
        # As a statement any value holds but false, `0` and `""` too: only true allows.
        return _when_true_or_not(expr, without_result, rest)
    statement = replace(expr, term=without_result)
    if isinstance(call.operator.head, Var) and call.operator.head.name == "data":
        return (*rest, statement), None  # a filter refuses functions with other values than true
    opposite = _OPPOSITES.get(call.name)
    if opposite is not None:
        # The opposite, since `not x == 1` also holds where there is no x.
        other_call = replace(without_result, operator=Ref(Var(opposite), ()))
        return (*rest, statement), (*rest, replace(expr, term=other_call))
    # `not startswith(x, "a")` also holds where x is not a text.
    is_text = [_is_text(expr, arg) for arg in _subjects(without_result)]
    return (*rest, statement), (*rest, *is_text, replace(statement, negated=True))


def _when_true_or_not(like: Expr, term: Term, rest: Body) -> tuple[Body, Body]:
    """Return two bodies: `rest` with the term being true, and with it having another value."""
    is_true = _compare_with_true(like, "equal", term)
    return (*rest, is_true), (*rest, _compare_with_true(like, "neq", term))


def _subjects(call: Call) -> Sequence[Term]:
    """Return the operand that a call searches in, in a tuple; () for other calls."""
    return tuple([call.args[each] for each in _SUBJECTS.get(call.name, ())])


def _is_text(like: Expr, term: Term) -> Expr:
    """Return the expression that a term has a value which is a text."""
    return replace(like, term=Call(Ref(Var("startswith"), ()), (term, Scalar(""))))


def _is_boolean(call: Call) -> bool:
    """Return True for a call whose value can only be a boolean: of a built-in that is declared so,
    or of a policy's function, since a filter refuses those with values other than true.
    """
    if isinstance(call.operator.head, Var) and call.operator.head.name == "data":
        return True
    return call.name in REGISTRY and REGISTRY[call.name].signature.result == boolean


def _compare_with_true(like: Expr, name: str, term: Term) -> Expr:
    return replace(like, term=Call(Ref(Var(name), ()), (term, Scalar(True)), infix=name == "eq"))


def check_flat(definitions: Definitions, comparer: Comparer) -> None:
    """Record an error in `comparer` if one list of queries cannot express the rules: a value that
    is not a boolean, or the first possible conflict. Also if there are too many pairs of values to
    check.
    """
    outcomes = [
        (number, position, branch, outcome)
        for number, rule in enumerate(definitions.rules)
        for position, branch in enumerate(rule)
        for outcome in branch.outcomes
    ]
    for _, _, branch, outcome in outcomes:
        constant = outcome.constant
        if not isinstance(constant, (Undefined, bool)):
            comparer.fail(branch.span, f"the value of the rule {branch.path} is not a boolean")
    if not isinstance(definitions.default, (Undefined, bool)):
        first = definitions.rules[0][0]
        comparer.fail(first.span, f"the default value of {first.path} is not a boolean")
    if comparer.faults:
        return
    if len(outcomes) ** 2 > MAX_PAIRS:
        _refuse_values(definitions, comparer)
        return
    for index, (number, position, branch, outcome) in enumerate(outcomes):
        for other_number, other_position, other, second in outcomes[index + 1 :]:
            # `is`, since both are booleans here.
            is_known = not isinstance(outcome.constant, Undefined)
            if is_known and outcome.constant is second.constant:
                continue
            if number == other_number and position != other_position:
                continue
            if not definitions.exclude(outcome, second):
                comparer.conflict(branch.path, branch.span, other.span)
                return


def _refuse_values(definitions: Definitions, comparer: Comparer) -> None:
    """Record the error that a document has more values than a filter may compare in pairs."""
    first = definitions.rules[0][0]
    comparer.fail(
        first.span,
        f"the document {first.path} has too many rules with different values for a filter",
    )
