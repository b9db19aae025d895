"""Calls of built-ins to comparisons of columns, and what is wrong with those that are none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from doorward.filters.columns import decides
from doorward.filters.conditions import FRAGMENT_ERROR, Comparison, Field, to_scalar
from doorward.filters.conditions import Scalar as Known
from doorward.filters.hints import (
    COLUMN,
    COLUMN_FIRST,
    ELSE,
    EXCLUSIVE,
    INDEX,
    KNOWN_TEXT,
    KNOWN_VALUE,
    OWN_CONDITION,
    ROWS,
    SCALAR,
    VARIABLE,
    builtin_hint,
)
from doorward.filters.targets import PYTHON, Target, missing_feature, unsupported
from doorward.rego import Diagnostic, Number
from doorward.rego.shared import Key, Span, to_key
from doorward.rego.tools import (
    Array,
    Call,
    Details,
    Expr,
    Object,
    Ref,
    Scalar,
    Set,
    Term,
    Var,
    format_tree,
    walk,
)

__all__ = [
    "COMPARISONS",
    "MEMBER",
    "MIRRORED",
    "Comparer",
    "Fields",
    "is_comparing",
    "text_of",
    "without_idle",
]

Constant: TypeAlias = tuple[Known | list[Known]]
"""A known scalar in a tuple, since None is a value too. An empty list in it: the term is known, but
is not a scalar.
"""
Fields: TypeAlias = Callable[[Term], Field | None]
"""Gives the column that a term refers to, or None if it refers to none."""

COMPARISONS: Final = {
    "eq": "eq",
    "equal": "eq",
    "neq": "ne",
    "lt": "lt",
    "lte": "lte",
    "gt": "gt",
    "gte": "gte",
}
MIRRORED: Final = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}
_TEXTS: Final = frozenset({"startswith", "endswith", "contains"})
_ORDERS: Final = frozenset(MIRRORED)
MEMBER: Final = "internal.member_2"


def is_comparing(name: str) -> bool:
    """Return True for a built-in whose call can be a condition: a comparison, a search in a text,
    or `in`.
    """
    return name in COMPARISONS or name in _TEXTS or name == MEMBER


class Comparer:
    """Reads calls as comparisons of columns; errors are collected in `faults`.

    `literals` are the scalars that error messages may show; None shows all.
    """

    def __init__(self, targets: Sequence[Target], literals: Container[Key] | None = None) -> None:
        self.faults: list[Diagnostic] = []
        self.targets = targets
        self._unsupported: dict[str, str] = {}
        self._literals = literals
        self._has_orders = all(target is PYTHON for target in targets)

    def text(self, tree: Expr | Term) -> str:
        """Return the text of an expression for errors, without values of the input and of data."""
        return text_of(tree, self._literals)

    def _writer(self, expr: Expr) -> Callable[[], str]:
        return partial(text_of, expr, self._literals)

    def fail(self, span: Span, message: str, details: str = "", hint: str | None = None) -> None:
        """Record an error in `faults`; the caller of the comparer refuses the filter if there are
        any. `details` is an explanation, `hint` says what to write instead. The position is left
        out if it is in no file, as that of a query that is a path.
        """
        more = Details((details,), {"details": details}) if details else None
        fault = Diagnostic(FRAGMENT_ERROR, message, hint=hint, details=more)
        # The query has no location: it is made of a path.
        self.faults.append(replace(fault, span=span) if span.source.name else fault)

    def conflict(self, path: str, first: Span, second: Span) -> None:
        """Record the error that two rules may give a document different values, which a decision
        refuses.
        """
        first, second = sorted((first, second), key=lambda span: (span.file, span.row))
        lines = f"{_place(first)} and {_place(second)}"
        if first == second:
            lines = f"{_place(first)} by itself"
        message = f"the rules of {path} may give different values at once: {lines}"
        self.fail(first, message, hint=EXCLUSIVE)

    def comparison(self, expr: Expr, field: Fields) -> Comparison | bool | None:
        """Return an expression as the comparison of a column, negated if it is, or its outcome as a
        boolean if both operands are known. `field` returns the column that a term stands for, or
        None.

        None after an error, which is recorded, such as for a built-in that one of `targets` does
        not support. None, without an error, for an expression with `with` or one that is not a
        call.
        """
        call = expr.term
        if expr.withs or not isinstance(call, Call):
            return None
        name = call.name
        location = expr.span if name in ("eq", "equal") else call.operator.span
        if not self._is_supported(call, expr, location):
            return None
        left, right = call.args
        one, other = field(left), field(right)
        for term, column in ((left, one), (right, other)):
            if column is None and not self._is_operand(term, name, location):
                return None
        if one and other and (lacking := missing_feature(self.targets, "field-ref")):
            self.fail(location, f"reference to field: {lacking}", hint=KNOWN_VALUE)
            return None
        if name in COMPARISONS:
            return self._compare(expr, call, one, other, location)
        if one is None:
            self.fail(location, f"rhs of {name} must be known", hint=COLUMN_FIRST)
            return None
        if name == MEMBER:
            return self._member(expr, call, one, location)
        pattern = _constant(right)
        if pattern is None or not isinstance(pattern[0], str):
            message = f"{name}: the operand must be a known string: {self.text(right)}"
            self.fail(location, message, hint=KNOWN_TEXT)
            return None
        return Comparison(one, name, pattern[0], expr.negated, self._writer(expr))

    def _is_supported(self, call: Call, expr: Expr, location: Span) -> bool:
        """Return True if a call is a comparison, a search in a text or `in`, has two operands, and
        all targets support its built-in; else record an error, mostly at `location`, and return
        False.
        """
        name = call.name
        if name == "internal.member_3":
            self.fail(location, 'invalid use of "... in ..."', hint=INDEX)
        elif isinstance(call.operator.head, Var) and call.operator.head.name == "data":
            message = f'has function "{self.text(call.operator)}(...)" an `else`?'
            self.fail(expr.span, f'invalid data reference "{self.text(expr)}"', message, ELSE)
        elif not is_comparing(name):
            self.fail(location, f"invalid builtin `{name}`", hint=builtin_hint(name))
        elif lacking := self._lacking(name):
            self.fail(location, f"invalid builtin `{'in' if name == MEMBER else name}`: {lacking}")
        elif len(call.args) != 2:
            message = f"{name}: its result cannot be used as a value: {self.text(call)}"
            self.fail(location, message, hint=OWN_CONDITION)
        else:
            return True
        return False

    def _lacking(self, name: str) -> str:
        """Return the targets that do not support a built-in, as text; "" if all do."""
        lacking = self._unsupported.get(name)
        if lacking is None:
            builtin = "eq" if name == "equal" else name
            lacking = self._unsupported[name] = unsupported(self.targets, builtin)
        return lacking

    def _is_operand(self, term: Term, name: str, location: Span) -> bool:
        """Return True if a term that is not a column can be an operand of the built-in `name`;
        record an error for a call, a reference and a variable.
        """
        if isinstance(term, Call):
            message = f"{name}: nested call operand: {self.text(term)}"
            self.fail(location, message, hint=builtin_hint(term.name))
        elif isinstance(term, Ref):
            self.fail(location, f"{name}: invalid ref operand: {self.text(term)}", hint=COLUMN)
        elif isinstance(term, Var):
            self.fail(location, f"{name}: invalid ref operand: {term.name}", hint=VARIABLE)
        else:
            return True
        return False

    def _compare(
        self, expr: Expr, call: Call, one: Field | None, other: Field | None, location: Span
    ) -> Comparison | bool | None:
        """Return the comparison of two operands, a boolean if both are known, or None after an
        error. `one` and `other` are the fields that the operands name, None for an operand that
        names none.
        """
        left, right = call.args
        operator = COMPARISONS[call.name]
        if one and other:
            return Comparison(one, operator, other, expr.negated, self._writer(expr))
        known = _constant(left if one is None else right)
        if known is None or isinstance(known[0], (list, dict, frozenset)):
            self.fail(location, "both rhs and lhs non-scalar/non-ground", hint=SCALAR)
            return None
        field = one or other
        if field is None:
            return self._compare_constants(expr, known, _constant(right), location)
        if one is None:
            # The column stands first in a comparison: `1 < x` is `x > 1`.
            operator = MIRRORED.get(operator, operator)
        return Comparison(field, operator, known[0], expr.negated, self._writer(expr))

    def _compare_constants(
        self, expr: Expr, left: Constant, right: Constant | None, location: Span
    ) -> bool | None:
        """Return the outcome of a comparison of two known values, `not` included, which partial
        evaluation may leave. `left` is a scalar; `right` is None if it is not known.

        None after an error, which is recorded: for `right` None, for an order with a collection,
        and for any order if a target is one of OPA's.
        """
        name = expr.term.name if isinstance(expr.term, Call) else ""
        if right is not None and self._has_orders and name in _ORDERS:
            first, second = left[0], right[0]
            if not (isinstance(first, list) or isinstance(second, list)):
                return decides(first, COMPARISONS[name], second) != expr.negated
        if right is None or name not in ("eq", "equal", "neq"):
            self.fail(location, "both rhs and lhs non-scalar/non-ground", hint=SCALAR)
            return None
        # By type: to Python True equals 1.
        same = type(left[0]) is type(right[0]) and left[0] == right[0]
        if not same and _is_number(left[0]) and _is_number(right[0]):
            same = left[0] == right[0]
        return (same == (name != "neq")) != expr.negated

    def _member(self, expr: Expr, call: Call, field: Field, location: Span) -> Comparison | None:
        """Return the comparison that a column is one of the scalars in the known collection of a
        call of `in`, negated if `expr` is; for an object its values, for a scalar none. None after
        an error, which is recorded.
        """
        collection = call.args[1]
        if not isinstance(collection, (Array, Set, Object, Scalar)):
            message = f"in: a known collection is needed: {self.text(collection)}"
            self.fail(location, message, hint=ROWS)
            return None
        items = _members(collection)
        if items is None:
            message = f"in: a list of scalars is needed: {self.text(collection)}"
            self.fail(location, message, hint=SCALAR)
            return None
        return Comparison(field, "in", items, expr.negated, self._writer(expr))


def _place(span: Span) -> str:
    return f"{span.file}:{span.row}"


def _members(collection: Term) -> list[Known] | None:
    """Return the scalars in a known collection, for an object its values; None if it has values
    that are not scalars, [] for a term that is not a collection.
    """
    match collection:
        case Array(items) | Set(items):
            terms: Sequence[Term] = items
        case Object(pairs):
            terms = [value for _, value in pairs]
        case _:
            return []
    values = [to_scalar(term.value) for term in terms if isinstance(term, Scalar)]
    return values if len(values) == len(terms) else None


def _constant(term: Term) -> Constant | None:
    """Return the value of a known term in a tuple, `([],)` for any collection; None for a term that
    is not known.
    """
    if isinstance(term, Scalar):
        return (to_scalar(term.value),)
    return ([],) if isinstance(term, (Array, Set, Object)) else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, Number)) and not isinstance(value, bool)


def text_of(tree: Expr | Term, literals: Container[Key] | None = None) -> str:
    """Return the text of an expression as OPA's errors show it, with calls by name.

    Numbers and strings that are not in `literals` come from input or data, may be secret and are
    shown as `…`, except in references below `data`; None shows all.
    """
    if literals is not None:
        tree = _without_values(tree, literals)
    if isinstance(tree, Expr):
        if isinstance(tree.term, Call):
            return text_of(tree.term)
        return format_tree((tree,)).strip()
    if isinstance(tree, Call):
        return f"{text_of(tree.operator)}({', '.join(map(text_of, tree.args))})"
    if isinstance(tree, Ref) and not tree.args:
        return text_of(tree.head)
    return format_tree((Expr(tree),)).strip()


def _without_values(tree: Any, literals: Container[Key]) -> Any:
    """Return a copy of an expression, a term or a tuple of them for the text of an error: numbers
    and strings that are not in `literals`, which may be secret, become the variable `…`. Booleans,
    null, the operators of calls and references below `data` stay.
    """
    if isinstance(tree, Scalar):
        value = tree.value
        is_public = value is None or isinstance(value, bool) or to_key(value) in literals
        return tree if is_public else _HIDDEN
    if isinstance(tree, tuple):
        return tuple([_without_values(each, literals) for each in tree])
    if isinstance(tree, Ref) and tree.head == Var("data"):
        return tree  # names of rules, some of which are made by the evaluation
    if isinstance(tree, Call):
        return replace(tree, args=_without_values(tree.args, literals))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, (type, Span)):
        parts = {each.name: getattr(tree, each.name) for each in dataclasses.fields(tree)}
        inside = {
            name: _without_values(part, literals)
            for name, part in parts.items()
            if isinstance(part, tuple) or dataclasses.is_dataclass(part)
        }
        return replace(tree, **inside)
    return tree


_HIDDEN: Final = Var("…")


def without_idle(expr: Expr) -> Expr:
    """Return an expression without each `with` of a part of `input` that the expression does not
    read. One with a value that is not known stays: where its value is undefined, so is the
    expression. All stay if the expression refers to `data`, whose rules may read anything.
    """
    if not expr.withs:
        return expr
    read = [_path(node) for node in walk(expr.term) if isinstance(node, Ref)]
    calls = any(path[:1] == ("data",) for path in read)
    remaining = [
        item for item in expr.withs if calls or _is_open(item.value) or _replaces(item.target, read)
    ]
    return replace(expr, withs=tuple(remaining))


def _is_open(value: Term) -> bool:
    return any(isinstance(node, (Ref, Var)) for node in walk(value))


def _replaces(target: Term, read: Sequence[tuple[object, ...]]) -> bool:
    """Return True if a `with` target overlaps one of the paths that are read, or is not below
    `input`.
    """
    path = _path(target)
    return path[0] != "input" or any(
        all(a == b for a, b in zip(path, other, strict=False)) for other in read
    )


def _path(term: Term) -> tuple[object, ...]:
    """Return the head and the constant keys at the beginning of a reference, the name of a variable
    alone, or () for any other term.
    """
    if not isinstance(term, Ref):
        return (term.name,) if isinstance(term, Var) else ()
    path: list[object] = [term.head.name] if isinstance(term.head, Var) else []
    for part in term.args:
        if not isinstance(part, Scalar):
            break
        path.append(part.value)
    return tuple(path)
