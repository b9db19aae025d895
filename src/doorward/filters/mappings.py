"""Names of the policy to names of the database: `{"fruits": {"$self": "f", "name": "n"}}`.

`$self` renames a table, `$table` says which table a name below `input` is a column of; other keys
rename columns. A mapping may be for one target (`sql`) or dialect (`mysql`) alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doorward.filters.conditions import Field
from doorward.filters.targets import Target

__all__ = ["Names", "names_for", "short_names"]


class Names:
    """The names of tables and columns in one database, by the names of the policy."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        """`tables` has a mapping for each table; one that is not an object is ignored."""
        self._tables = {k: v for k, v in tables.items() if isinstance(v, Mapping)}

    def of(self, field: Field) -> tuple[str, ...]:
        """Return the names of table and column in the database: `("f", "n")`; only the column if
        neither the policy nor the mapping names a table.

        Raise ValueError if a name in the mapping is not a text.
        """
        first, column = (field.table, field.column) if field.table else (field.column, "")
        if not column and (short := self._name(first, "$table", "")):
            column, first = first, short
        table = self._name(first, "$self", first)
        return (table, self._name(first, column, column)) if column else (table,)

    def table(self, name: str) -> tuple[str]:
        """Return the name of a table in the database, as a tuple of one. Raise ValueError if it is
        not a text in the mapping.
        """
        return (self._name(name, "$self", name),)

    def _name(self, table: str, key: str, default: str) -> str:
        """Return the name mapped for a key of a table, or the default; ValueError if it is not a
        text.
        """
        name = self._tables.get(table, {}).get(key, default)
        if not isinstance(name, str):
            message = f"invalid mappings: {table}.{key}: expected string, got {_kind(name)}"
            raise ValueError(message)
        return name


def _kind(value: object) -> str:
    """Return the name in Go of the type of a JSON value that is not a text; `int` for each
    number.
    """
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list):
        return "[]interface {}"
    return "map[string]interface {}" if isinstance(value, Mapping) else "int"


def names_for(mappings: Mapping[str, Any] | None, target: Target) -> Names:
    """Return the names for a target: its dialect's mapping, else its kind's, else the common one.
    None maps no name.

    Raise ValueError if that mapping is not an object.
    """
    chosen = mappings or {}
    for setting, key in (("dialect", target.variant), ("target", target.kind)):
        mapping = chosen.get(key)
        if mapping is not None:
            if not isinstance(mapping, Mapping):
                raise ValueError(f"invalid mappings for {setting} {key}")
            return Names(mapping)
    return Names(chosen)


def short_names(mappings: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names below `input` that `mappings` declares as columns, by `$table` in the
    mapping of a target or dialect; in the common mapping `$table` declares nothing.
    """
    return frozenset(
        name
        for tables in (mappings or {}).values()
        if isinstance(tables, Mapping)
        for name, columns in tables.items()
        if isinstance(columns, Mapping) and "$table" in columns
    )
