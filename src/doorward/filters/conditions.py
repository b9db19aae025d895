"""Conditions on the fields of rows: what a residual says, without any Rego in it.

A filter is one list of alternatives; each alternative is a list of comparisons that all must hold.
No alternative means no row, an alternative without comparisons every row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from doorward.records import record
from doorward.rego import CompileError, Diagnostic, Value

__all__ = ["Comparison", "Conditions", "Field", "FilterError", "is_always", "tables"]

FRAGMENT_ERROR: Final = "pe_fragment_error"


class FilterError(CompileError):
    """A policy that cannot be a filter: each diagnostic names an expression and why."""


@record(frozen=True)
class Field:
    """A column of a table, under the names of the policy; `table` "" where the policy has none."""

    table: str
    column: str

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}" if self.table else self.column


@record(frozen=True)
class Comparison:
    """`field operator value`, or its opposite where it is `negated`.

    `operator`: eq, ne, lt, lte, gt, gte, in, startswith, endswith or contains. `value`: a scalar,
    for `in` a list of them, or another field. `text` gives the expression as the policy has it.
    """

    field: Field
    operator: str
    value: Value | Field
    negated: bool = False
    text: Callable[[], str] = dataclasses.field(default=str, compare=False)


Conditions: TypeAlias = tuple[tuple[Comparison, ...], ...]


def is_always(conditions: Conditions) -> bool:
    """Whether every row is let through."""
    return any(not body for body in conditions)


def tables(conditions: Iterable[Iterable[Comparison]]) -> list[str]:
    """The names of the tables that are requested, sorted."""
    fields = [each.field for body in conditions for each in body]
    fields += [e.value for body in conditions for e in body if isinstance(e.value, Field)]
    return sorted({field.table for field in fields})


def fault(message: str, diagnostic: Diagnostic | None = None) -> FilterError:
    """One diagnostic as an error."""
    return FilterError([diagnostic or Diagnostic(FRAGMENT_ERROR, message)])
