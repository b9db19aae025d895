"""Residual queries to conditions: what can be said of columns, and an error for everything else.

An expression is never left out: a filter without it would let through more than the policy does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doorward.filters.bodies import BodyReader, names_of
from doorward.filters.comparing import Comparer, without_idle
from doorward.filters.conditions import (
    Comparison,
    Condition,
    Conditions,
    Field,
    FilterError,
    fault,
)
from doorward.filters.definitions import allowed_conditions, check_flat
from doorward.filters.hints import ELSE, EVERY, RULE, WITH
from doorward.filters.scopes import Scope
from doorward.filters.targets import PYTHON, Target, missing_feature
from doorward.rego import Partial
from doorward.rego.tools import (
    Body,
    Call,
    Every,
    Expr,
    Module,
    Ref,
    Scalar,
    Term,
    Var,
    path_text,
)

__all__ = ["to_conditions"]


def to_conditions(
    residual: Partial,
    targets: Sequence[Target] = (PYTHON,),
    *,
    shorts: Iterable[str] = (),
    now_ns: int | None = None,
) -> Conditions:
    """Return the conditions of the rows for which a residual's document is allowed.

    `now_ns` is the time for policies that compare columns with it; `shorts` are names below `input`
    that are columns. Related rows, `every` and rules behind `not` need the target PYTHON. Raise
    FilterError for a residual without `only_truth`, otherwise naming each expression that cannot be
    a condition, and rules that may contradict each other.
    """
    if not residual.only_truth:
        raise fault(
            "the residual cannot become a filter: evaluate it partially with `only_truth=True`"
        )
    comparer = Comparer(targets, residual.literals)
    definitions = residual.definitions
    bodies: list[tuple[Condition, ...] | None]
    if any(target is not PYTHON for target in targets):
        flat = _Reader(comparer, residual.support, frozenset(shorts))
        bodies = [flat.body(query) for query in residual.queries]
        if definitions is not None and not comparer.faults:
            check_flat(definitions, comparer)
    else:
        # Only for a policy that asks for the time: for others each expression would be looked at in
        # vain.
        clock = now_ns if now_ns is not None and "world" in residual.consulted else None
        reader = BodyReader(comparer, residual.support, residual.kept, now_ns=clock)
        if definitions is None:
            bodies = [reader.body(query, Scope()) for query in residual.queries]
        else:
            bodies = [*allowed_conditions(definitions, reader, comparer)]
    for conflict in residual.conflicts if not comparer.faults else ():
        comparer.conflict(conflict.path, conflict.first, conflict.second)
    if comparer.faults:
        raise FilterError(comparer.faults)
    return tuple([body for body in bodies if body is not None])


class _Reader:
    """Reads bodies for OPA's targets: every expression must compare a column with a known value."""

    def __init__(
        self, comparer: Comparer, support: Sequence[Module], shorts: frozenset[str]
    ) -> None:
        self._comparer = comparer
        self._support = support
        self._shorts = shorts

    def body(self, body: Body) -> tuple[Comparison, ...] | None:
        """Return a body as comparisons that all must hold, () if it always holds; None if it never
        holds. What cannot be translated is left out and recorded in the comparer's `faults`: the
        result counts only if there are none.
        """
        comparisons: list[Comparison] = []
        never = False
        for each in body:
            expr = without_idle(each)
            count = len(self._comparer.faults)
            self._check_call(expr)
            comparison = self._comparer.comparison(expr, self._field)
            if isinstance(comparison, bool):
                never = never or not comparison
            elif comparison is not None:
                comparisons.append(comparison)
            elif len(self._comparer.faults) == count:
                self._comparer.fail(expr.span, f'invalid statement "{self._comparer.text(expr)}"')
        return None if never else tuple(comparisons)

    # What an expression is

    def _check_call(self, expr: Expr) -> None:
        """Record an error for an expression that is not a call, that has a `with`, or that is
        negated where a target has no `not`.
        """
        is_call = isinstance(expr.term, Call)
        if expr.negated:
            if not is_call:
                self._comparer.fail(expr.span, '"not" not permitted', hint=EVERY)
            elif lacking := missing_feature(self._comparer.targets, "not"):
                self._comparer.fail(expr.span, f'"not" not permitted: {lacking}')
        elif not is_call:
            self._fail_bare(expr)
            return
        if expr.withs and (expr.negated or is_call):
            self._comparer.fail(expr.span, '"with" not permitted', hint=WITH)

    def _fail_bare(self, expr: Expr) -> None:
        """Record the error, in OPA's words, for an expression that is not a call and not negated:
        an `every`, a rule that could not be inlined, another path below `data`, or a column or
        value alone.
        """
        term = expr.term
        if isinstance(term, Every):
            self._comparer.fail(expr.span, '"every" not permitted', hint=EVERY)
        elif expr.withs:
            self._comparer.fail(expr.span, '"with" not permitted', hint=WITH)
        elif isinstance(term, Ref) and isinstance(term.head, Var) and term.head.name == "data":
            names = [part.value for part in term.args if isinstance(part, Scalar)]
            # Partial evaluation puts the rules that it keeps below `data.partial`, as OPA's does.
            if names[:1] == ["partial"]:
                self._comparer.fail(term.args[-1].span, self._support_fault(names), hint=RULE)
            else:
                question = f'has rule "{self._comparer.text(term)}" an `else`?'
                self._comparer.fail(
                    expr.span,
                    f'invalid data reference "{self._comparer.text(expr)}"',
                    question,
                    ELSE,
                )
        else:
            statement = self._comparer.text(expr)
            self._comparer.fail(
                expr.span, f'invalid statement "{statement}"', f"try `{statement} != false`"
            )

    def _support_fault(self, path: Sequence[object]) -> str:
        """Return OPA's words for a rule that cannot be inlined."""
        rules = [
            rule
            for module in self._support
            for rule in module.rules
            if [*module.package.path, *names_of(rule.head.ref)] == list(path)
        ]
        name = path_text([str(name) for name in path[1:]])
        if any(rule.default for rule in rules):
            return f"use of default rule in {name}"
        if len(rules) > 1:
            return f"use of multi-value rule in {name}"
        return f"use of a rule in {name}"

    def _field(self, term: Term) -> Field | None:
        """Return the column that `input.table.column` names, or `input.column` for a name in
        `_shorts`; None for other terms.
        """
        if not isinstance(term, Ref) or not isinstance(term.head, Var):
            return None
        names = [part.value for part in term.args if isinstance(part, Scalar)]
        if term.head.name != "input" or len(names) != len(term.args):
            return None
        match names:
            case [str() as table, str() as column]:
                return Field(table, column)
            case [str() as column] if column in self._shorts:
                return Field("", column)
        return None
