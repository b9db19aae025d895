"""Residual queries to conditions: what can be said of columns, and an error for everything else.

An expression is never left out: a filter without it would let through more than the policy does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from doorward.filters.conditions import (
    FRAGMENT_ERROR,
    Comparison,
    Conditions,
    Field,
    FilterError,
)
from doorward.filters.targets import PYTHON, Target, missing_feature, unsupported
from doorward.rego import Diagnostic, Number, Partial, Span, Value
from doorward.rego.tools import (
    Array,
    Body,
    Call,
    Details,
    Every,
    Expr,
    Module,
    Object,
    Ref,
    Scalar,
    Set,
    Term,
    Var,
    format_tree,
    path_text,
    walk,
)

__all__ = ["to_conditions"]

Constant: TypeAlias = tuple[Value]
"""A known value, wrapped: None is one."""

_COMPARISONS: Final = {
    "eq": "eq",
    "equal": "eq",
    "neq": "ne",
    "lt": "lt",
    "lte": "lte",
    "gt": "gt",
    "gte": "gte",
}
_MIRRORED: Final = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}
_TEXTS: Final = frozenset({"startswith", "endswith", "contains"})
_MEMBER: Final = "internal.member_2"


def to_conditions(
    residual: Partial,
    targets: Sequence[Target] = (PYTHON,),
    *,
    shorts: Iterable[str] = (),
) -> Conditions:
    """The conditions that a residual is; FilterError names each expression that cannot be one.

    `shorts`: names below `input` that stand for columns by themselves.
    """
    reader = _Reader(residual.support, targets, frozenset(shorts))
    bodies = [reader.body(query) for query in residual.queries]
    if reader.faults:
        raise FilterError(reader.faults)
    return tuple([body for body in bodies if body is not None])


class _Reader:
    """What is wrong with expressions is collected; so are the conditions that they are."""

    def __init__(
        self, support: Sequence[Module], targets: Sequence[Target], shorts: frozenset[str]
    ) -> None:
        self.faults: list[Diagnostic] = []
        self._support = support
        self._targets = targets
        self._shorts = shorts

    def body(self, body: Body) -> tuple[Comparison, ...] | None:
        """None for a body that never holds."""
        comparisons: list[Comparison] = []
        never = False
        for each in body:
            expr = _without_idle(each)
            count = len(self.faults)
            self._check_call(expr)
            comparison = self._comparison(expr)
            if isinstance(comparison, bool):
                never = never or not comparison
            elif comparison is not None:
                comparisons.append(comparison)
            elif len(self.faults) == count:
                self._fail(expr.span, f'invalid statement "{_text(expr)}"')
        return None if never else tuple(comparisons)

    def _fail(self, span: Span, message: str, details: str = "") -> None:
        more = Details((details,), {"details": details}) if details else None
        fault = Diagnostic(FRAGMENT_ERROR, message, details=more)
        # The query has no location: it is made of a path.
        self.faults.append(replace(fault, span=span) if span.source.name else fault)

    # What an expression is

    def _check_call(self, expr: Expr) -> None:
        is_call = isinstance(expr.term, Call)
        if expr.negated:
            if not is_call:
                self._fail(expr.span, '"not" not permitted')
            elif lacking := missing_feature(self._targets, "not"):
                self._fail(expr.span, f'"not" not permitted: {lacking}')
        elif not is_call:
            self._fail_bare(expr)
            return
        if expr.withs and (expr.negated or is_call):
            self._fail(expr.span, '"with" not permitted')

    def _fail_bare(self, expr: Expr) -> None:
        term = expr.term
        if isinstance(term, Every):
            self._fail(expr.span, '"every" not permitted')
        elif expr.withs:
            self._fail(expr.span, '"with" not permitted')
        elif isinstance(term, Ref) and isinstance(term.head, Var) and term.head.name == "data":
            names = [part.value for part in term.args if isinstance(part, Scalar)]
            if names[:1] == ["partial"]:
                self._fail(term.args[-1].span, self._support_fault(names))
            else:
                shown = f'has rule "{_text(term)}" an `else`?'
                self._fail(expr.span, f'invalid data reference "{_text(expr)}"', shown)
        else:
            statement = _text(expr)
            self._fail(expr.span, f'invalid statement "{statement}"', f"try `{statement} != false`")

    def _support_fault(self, path: Sequence[object]) -> str:
        rules = [
            rule
            for module in self._support
            for rule in module.rules
            if [*module.package.path, *_names(rule.head.ref)] == list(path)
        ]
        name = path_text([str(name) for name in path[1:]])
        if any(rule.default for rule in rules):
            return f"use of default rule in {name}"
        if len(rules) > 1:
            return f"use of multi-value rule in {name}"
        return f"use of a rule in {name}"

    # What a call compares

    def _comparison(self, expr: Expr) -> Comparison | bool | None:
        """The comparison; whether it holds where both sides are known; None after a fault."""
        call = expr.term
        if expr.withs or not isinstance(call, Call):
            return None
        name = call.name
        location = expr.span if name in ("eq", "equal") else call.operator.span
        if not self._is_known(call, expr, location):
            return None
        left, right = call.args
        if any(not self._is_operand(each, name, location) for each in call.args):
            return None
        one, other = self._field(left), self._field(right)
        if one and other and (lacking := missing_feature(self._targets, "field-ref")):
            self._fail(location, f"reference to field: {lacking}")
            return None
        if name in _COMPARISONS:
            return self._compared(expr, call, one, other, location)
        if one is None:
            self._fail(location, f"rhs of {name} must be known")
            return None
        if name == _MEMBER:
            return self._member(expr, call, one, location)
        pattern = _constant(right)
        if pattern is None or not isinstance(pattern[0], str):
            self._fail(location, f"{name}: the operand must be a known string: {_text(right)}")
            return None
        return Comparison(one, name, pattern[0], expr.negated, partial(_text, expr))

    def _is_known(self, call: Call, expr: Expr, location: Span) -> bool:
        """Whether the targets know the built-in."""
        name = call.name
        if name == "internal.member_3":
            self._fail(location, 'invalid use of "... in ..."')
        elif isinstance(call.operator.head, Var) and call.operator.head.name == "data":
            shown = f'has function "{_text(call.operator)}(...)" an `else`?'
            self._fail(expr.span, f'invalid data reference "{_text(expr)}"', shown)
        elif name not in _COMPARISONS and name not in _TEXTS and name != _MEMBER:
            self._fail(location, f"invalid builtin `{name}`")
        elif lacking := unsupported(self._targets, "eq" if name == "equal" else name):
            self._fail(
                location, f"invalid builtin `{'in' if name == _MEMBER else name}`: {lacking}"
            )
        elif len(call.args) != 2:
            self._fail(location, f"{name}: its value cannot be compared: {_text(call)}")
        else:
            return True
        return False

    def _is_operand(self, term: Term, name: str, location: Span) -> bool:
        if isinstance(term, Call):
            self._fail(location, f"{name}: nested call operand: {_text(term)}")
        elif isinstance(term, Ref) and self._field(term) is None:
            self._fail(location, f"{name}: invalid ref operand: {_text(term)}")
        elif isinstance(term, Var) and not self._field(term):
            self._fail(location, f"{name}: invalid ref operand: {term.name}")
        else:
            return True
        return False

    def _field(self, term: Term) -> Field | None:
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

    def _compared(
        self, expr: Expr, call: Call, one: Field | None, other: Field | None, location: Span
    ) -> Comparison | bool | None:
        left, right = call.args
        operator = _COMPARISONS[call.name]
        if one and other:
            return Comparison(one, operator, other, expr.negated, partial(_text, expr))
        known = _constant(left if one is None else right)
        if known is None or isinstance(known[0], (list, dict, frozenset)):
            self._fail(location, "both rhs and lhs non-scalar/non-ground")
            return None
        field = one or other
        if field is None:
            return self._known(expr, known, _constant(right), location)
        if one is None:
            operator = _MIRRORED.get(operator, operator)
        return Comparison(field, operator, known[0], expr.negated, partial(_text, expr))

    def _known(
        self, expr: Expr, left: Constant, right: Constant | None, location: Span
    ) -> bool | None:
        """Whether two known values are equal, which partial evaluation may leave to be seen."""
        name = expr.term.name if isinstance(expr.term, Call) else ""
        if right is None or name not in ("eq", "equal", "neq"):
            self._fail(location, "both rhs and lhs non-scalar/non-ground")
            return None
        same = type(left[0]) is type(right[0]) and left[0] == right[0]
        if not same and _is_number(left[0]) and _is_number(right[0]):
            same = left[0] == right[0]
        return (same == (name != "neq")) != expr.negated

    def _member(self, expr: Expr, call: Call, field: Field, location: Span) -> Comparison | None:
        collection = call.args[1]
        if not isinstance(collection, (Array, Set, Object, Scalar)):
            self._fail(location, f"in: a known collection is needed: {_text(collection)}")
            return None
        items = _members(collection)
        if items is None:
            self._fail(location, f"in: a list of scalars is needed: {_text(collection)}")
            return None
        return Comparison(field, "in", items, expr.negated, partial(_text, expr))


def _without_idle(expr: Expr) -> Expr:
    """`expr` without each `with` that replaces nothing it reads."""
    if not expr.withs:
        return expr
    read = [_path(node) for node in walk(expr.term) if isinstance(node, Ref)]
    calls = any(path[:1] == ("data",) for path in read)
    kept = [item for item in expr.withs if calls or _replaces(item.target, read)]
    return replace(expr, withs=tuple(kept))


def _replaces(target: Term, read: Sequence[tuple[object, ...]]) -> bool:
    path = _path(target)
    return path[0] != "input" or any(
        all(a == b for a, b in zip(path, other, strict=False)) for other in read
    )


def _path(term: Term) -> tuple[object, ...]:
    """The constant beginning of a reference."""
    if not isinstance(term, Ref):
        return (term.name,) if isinstance(term, Var) else ()
    path: list[object] = [term.head.name] if isinstance(term.head, Var) else []
    for part in term.args:
        if not isinstance(part, Scalar):
            break
        path.append(part.value)
    return tuple(path)


def _members(collection: Term) -> list[Value] | None:
    """The scalars in a known collection; none in a scalar."""
    match collection:
        case Array(items) | Set(items):
            terms: Sequence[Term] = items
        case Object(pairs):
            terms = [value for _, value in pairs]
        case _:
            return []
    values = [term.value for term in terms if isinstance(term, Scalar)]
    return list(values) if len(values) == len(terms) else None


def _constant(term: Term) -> Constant | None:
    """A scalar; or an empty list for what is known and not a scalar; None for what is not known."""
    if isinstance(term, Scalar):
        return (term.value,)
    return ([],) if isinstance(term, (Array, Set, Object)) else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, Number)) and not isinstance(value, bool)


def _names(ref: Ref) -> list[object]:
    head = [ref.head.name] if isinstance(ref.head, Var) else []
    return [*head, *[part.value for part in ref.args if isinstance(part, Scalar)]]


def _text(tree: Expr | Term) -> str:
    """As OPA's errors show it: calls by name, not infix."""
    if isinstance(tree, Expr):
        if isinstance(tree.term, Call):
            return _text(tree.term)
        return format_tree((tree,)).strip()
    if isinstance(tree, Call):
        return f"{_text(tree.operator)}({', '.join(map(_text, tree.args))})"
    if isinstance(tree, Ref) and not tree.args:
        return _text(tree.head)
    return format_tree((Expr(tree),)).strip()
