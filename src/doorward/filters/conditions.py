"""Conditions on the fields of rows: what a residual says, without any Rego in it.

A filter is one list of alternatives; each alternative is a list of comparisons that all must hold.
No alternative means no row, an alternative without comparisons every row. For callers in Python a
comparison may as well be one with rows that a relation leads to, or a filter of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from doorward.base.records import HashedOnce, record
from doorward.rego import CompileError, Diagnostic, Number
from doorward.rego.shared import Key, parse_number

__all__ = [
    "Comparison",
    "Condition",
    "Conditions",
    "Field",
    "FilterError",
    "Group",
    "Scalar",
    "Some",
    "checked_text",
    "comparisons",
    "fault",
    "is_always",
    "to_scalar",
    "without_relation",
]

FRAGMENT_ERROR: Final = "pe_fragment_error"


class FilterError(CompileError):
    """A policy cannot be translated to a filter; each diagnostic names an expression and the
    reason.
    """

    def __str__(self) -> str:
        """Return the diagnostics, then the hints."""
        hints = dict.fromkeys(each.hint for each in self.diagnostics if each.hint)
        return "\n".join([super().__str__(), *[f"hint: {hint}" for hint in hints]])


@record
class Field(HashedOnce):
    """A column of a table, under the names of the policy; `table` is "" if the policy names none.

    Inside `Some`, `table` may be the name of its row (the relation, `#`, a number), and `column` ""
    stands for the row itself. `path` leads into a JSON document. `function` is a built-in applied
    to the value with `operand`; `default` is the value of `object.get` if the column has none.
    """

    table: str
    column: str
    path: tuple[str, ...] = ()
    function: str = ""
    operand: str = ""
    default: Key = None

    @property
    def name(self) -> str:
        table = self.table.partition("#")[0]
        return f"{table}.{self.column}" if table else self.column


@record
class Comparison:
    """A condition: `field operator value`, or its opposite where it is `negated`.

    `operator`: eq, ne, lt, lte, gt, gte, in, startswith, endswith or contains; or defined or
    collection (an array or relation), which need no value. `value`: a scalar, for `in` a list of
    them, or another field. `text` gives the expression as the policy has it.
    """

    field: Field
    operator: str
    value: Scalar | list[Scalar] | Field
    negated: bool = False
    text: Callable[[], str] = dataclasses.field(default=str, compare=False)


@record
class Some:
    """A condition: a relation of `table` leads to a row that fulfils `conditions`; or, `negated`,
    to none. `table` is a table or the row of another `Some` around this one; `row` is the name of
    the row in `conditions`. `many`: to any number of rows, else to one at most.
    """

    table: str
    relation: str
    row: str
    many: bool
    conditions: Conditions
    negated: bool = False
    text: Callable[[], str] = dataclasses.field(default=str, compare=False)


@record
class Group:
    """A condition: one of `conditions` holds; or, `negated`, none of them."""

    conditions: Conditions
    negated: bool = False


Scalar: TypeAlias = bool | int | Number | str | None
"""A value that a column is compared with. Floats have become a Number (`to_scalar`)."""
Condition: TypeAlias = Comparison | Some | Group
Conditions: TypeAlias = tuple[tuple[Condition, ...], ...]


def is_always(conditions: Conditions) -> bool:
    """Return True if one of the alternatives has no conditions, so that every row is selected."""
    return any(not body for body in conditions)


def comparisons(body: tuple[Condition, ...]) -> Iterator[Comparison]:
    """Yield the conditions of a body as comparisons; raise FilterError for one of another kind."""
    for each in body:
        if not isinstance(each, Comparison):
            raise fault(
                "conditions on relations, or with `or` or `not`, cannot be written as SQL text "
                "or UCAST: use the filters in Python"
            )
        yield each


def without_relation(conditions: Conditions, table: str, relation: str) -> Conditions:
    """Return conditions in which those on the row of a relation to one row refer to `table` itself.

    This serves documents that split the columns of one row into two objects.
    """
    return tuple(
        [tuple([_move_into(each, table, relation) for each in body]) for body in conditions]
    )


def _move_into(condition: Condition, table: str, relation: str) -> Condition:
    """Return a condition on the related row as one on `table`; conditions on other rows
    unchanged.
    """
    match condition:
        case Some(owner, name, row, False, inner, negated) if (owner, name) == (table, relation):
            moved = without_relation(inner, table, relation)
            return Group(
                tuple(
                    [tuple([_rename_table(each, row, table) for each in body]) for body in moved]
                ),
                negated,
            )
        case Some():
            inner = without_relation(condition.conditions, table, relation)
            return dataclasses.replace(condition, conditions=inner)
        case Group(inner, negated):
            return Group(without_relation(inner, table, relation), negated)
        case Comparison(Field(owner, name), operator, value, negated) if (owner, name) == (
            table,
            relation,
        ) and (operator == "defined" or (operator, value) == ("ne", False)):
            return Group(((),), negated)  # the row is there
    return condition


def _rename_table(condition: Condition, row: str, table: str) -> Condition:
    """Return a condition with `table` in place of `row` wherever it or a condition inside it names
    the row. Names are not checked: `row` must not be introduced again inside.
    """

    def rename(field: Field) -> Field:
        return dataclasses.replace(field, table=table) if field.table == row else field

    def inside(conditions: Conditions) -> Conditions:
        """Rename the table in nested conditions."""
        return tuple(
            [tuple([_rename_table(each, row, table) for each in body]) for body in conditions]
        )

    match condition:
        case Comparison(field, _, value):
            other = rename(value) if isinstance(value, Field) else value
            return dataclasses.replace(condition, field=rename(field), value=other)
        case Group(conditions, negated):
            return Group(inside(conditions), negated)
        case Some():
            owner = table if condition.table == row else condition.table
            return dataclasses.replace(
                condition, table=owner, conditions=inside(condition.conditions)
            )


def fault(message: str, hint: str | None = None) -> FilterError:
    """Return a FilterError with a single diagnostic, without a position."""
    return FilterError([Diagnostic(FRAGMENT_ERROR, message, hint=hint)])


def to_scalar(value: object) -> Scalar:
    """Return a Rego scalar as filters represent it: a float becomes a Number.

    Raise AssertionError for other classes, and for floats that are not finite.
    """
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str or kind is Number:
        return value  # type: ignore[return-value]  # of these classes by now
    if kind is float:
        assert math.isfinite(value)  # type: ignore[arg-type]  # a float
        return parse_number(repr(value))
    raise AssertionError(f"{kind.__name__} is not a scalar of Rego")


def checked_text(text: str) -> str:
    """Return `text` unchanged; raise FilterError for NUL and half a surrogate pair, which databases
    refuse.
    """
    if "\0" in text:
        raise fault("a string with a NUL character cannot be compared in a database: remove it")
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise fault(
            "a string with half a surrogate pair cannot be compared in a database: remove it"
        )
    return text
