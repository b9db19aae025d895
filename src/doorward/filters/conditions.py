"""Conditions on the fields of rows: what a residual says, without any Rego in it.

A filter is one list of alternatives; each alternative is a list of comparisons that all must hold.
No alternative means no row, an alternative without comparisons every row. For callers in Python a
comparison may as well be one with rows that a relation leads to, or a filter of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from doorward.records import HashedOnce, record
from doorward.rego import CompileError, Diagnostic, Value

__all__ = [
    "Comparison",
    "Condition",
    "Conditions",
    "Field",
    "FilterError",
    "Group",
    "Some",
    "checked_text",
    "comparisons",
    "is_always",
]

FRAGMENT_ERROR: Final = "pe_fragment_error"


class FilterError(CompileError):
    """A policy that cannot be a filter: each diagnostic names an expression and why."""

    def __str__(self) -> str:
        """The diagnostics, then what to write instead."""
        hints = dict.fromkeys(each.hint for each in self.diagnostics if each.hint)
        return "\n".join([super().__str__(), *[f"hint: {hint}" for hint in hints]])


@record(frozen=True)
class Field(HashedOnce):
    """A column of a table, under the names of the policy; `table` "" where the policy has none.

    Inside of `Some`, `table` may also be the name of its row: that of the relation, `#`, a number.
    """

    table: str
    column: str

    @property
    def name(self) -> str:
        table = self.table.partition("#")[0]
        return f"{table}.{self.column}" if table else self.column


@record
class Comparison:
    """`field operator value`, or its opposite where it is `negated`.

    `operator`: eq, ne, lt, lte, gt, gte, in, startswith, endswith or contains; or defined, which
    needs no value. `value`: a scalar, for `in` a list of them, or another field. `text` gives the
    expression as the policy has it.
    """

    field: Field
    operator: str
    value: Value | Field
    negated: bool = False
    text: Callable[[], str] = dataclasses.field(default=str, compare=False)


@record
class Some:
    """A relation of `table` leads to a row that fulfils `conditions`; or, `negated`, to none.

    `table` is a table or the row of another `Some` around this one; `row` is the name of the row in
    `conditions`. `many`: to any number of rows, else to one at most.
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
    """One of `conditions` holds; or, `negated`, none."""

    conditions: Conditions
    negated: bool = False


Condition: TypeAlias = Comparison | Some | Group
Conditions: TypeAlias = tuple[tuple[Condition, ...], ...]


def is_always(conditions: Conditions) -> bool:
    """Whether every row is let through."""
    return any(not body for body in conditions)


def comparisons(body: tuple[Condition, ...]) -> Iterator[Comparison]:
    """The conditions for those who know columns alone; FilterError for one that is more."""
    for each in body:
        if not isinstance(each, Comparison):
            raise fault("relations and rules of their own can only be said in Python")
        yield each


def fault(message: str, hint: str | None = None) -> FilterError:
    """One diagnostic as an error."""
    return FilterError([Diagnostic(FRAGMENT_ERROR, message, hint=hint)])


def checked_text(text: str) -> str:
    """A text that every database takes."""
    if "\0" in text:
        raise fault("a text with a NUL cannot be compared in a database")
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise fault("a text with half a surrogate pair cannot be compared in a database")
    return text
