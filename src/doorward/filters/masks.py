"""Columns that a user may not see: the value of a mask rule, for queries and for answers.

    masks.docs.salary := {"replace": {"value": null}} if not input.user.manager

The shape is that of `maskRule` over HTTP: a table, a column, and `replace` where the column is
masked; `{}` says that it is not. Anything else is an error, since a mask that cannot be read would
show what it was to hide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from doorward.base.records import record
from doorward.filters.conditions import fault
from doorward.filters.hints import MASKS
from doorward.rego import UNDEFINED

__all__ = ["Masks", "read_masks"]


@record
class Masks:
    """The masked columns of each table, by the names that the policy uses."""

    columns: Mapping[str, frozenset[str]]

    def of(self, table: str) -> frozenset[str]:
        """Return the masked columns of a table; empty if it has none."""
        return self.columns.get(table, frozenset())

    def drop(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of a row without its masked columns."""
        masked = self.of(table)
        return {name: value for name, value in row.items() if name not in masked}

    def drop_all(self, table: str, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return copies of rows without their masked columns."""
        return [self.drop(table, row) for row in rows]


def read_masks(value: Any) -> Masks:
    """Return the masks in the value of a mask rule, `{TABLE: {COLUMN: {"replace": …}}}`, in which
    `{}` stands for a column that is not masked; undefined and null mask nothing.

    Raise FilterError for a value of another shape.
    """
    if value is UNDEFINED or value is None:
        return Masks({})
    tables: dict[str, frozenset[str]] = {}
    for table, columns in _object(value).items():
        masks = _object(columns)
        masked = {name for name in masks if _is_masked(masks[name], f"{table}.{name}")}
        tables[table] = frozenset(masked)
    return Masks(tables)


def _object(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object with text keys; raise FilterError otherwise."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise fault("the mask rule must be an object of tables, each an object of columns", MASKS)
    return value


def _is_masked(mask: Any, column: str) -> bool:
    """Return True if the mask of `column` replaces its value, False for `{}`; raise FilterError for
    others.
    """
    # A misspelled mask would show what it was to hide.
    if not isinstance(mask, dict) or mask.keys() - {"replace"}:
        raise fault(f"the mask of {column} must be `{{}}` or an object with only `replace`", MASKS)
    return bool(mask)
