"""Decision logs as Parquet files become the lines that the same events are as JSON.

A column is a field of an event, by its name. Fields that are JSON in an event (`input`, `result`,
...) are JSON text in a file. A column of structs is refused: it cannot tell null from a missing
member, which differ for a policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import duckdb

__all__ = ["ParquetError", "events_in"]

ROWS: Final = 1_000
"""The number of rows that are read at a time."""
_TEXTS: Final = ("decision_id", "path", "query", "timestamp")
_DOCUMENTS: Final = ("input", "result", "nd_builtin_cache", "custom", "erased", "masked", "error")
_TEXT_TYPES: Final = ("VARCHAR", "UUID", "JSON")
_LISTS: Final = "VARCHAR[]"


class ParquetError(Exception):
    """The file is not a Parquet file, or its columns are not those of a decision log."""


def events_in(path: str) -> Iterator[tuple[bytes, float]]:
    """Yield pairs from a Parquet file: lines of JSON, and the share of the file read so far (0 to
    1).

    Raise ParquetError if it is not a Parquet file or its columns are not those of a decision log.
    """
    connection = duckdb.connect(config={"threads": 1, "memory_limit": "256MB"})
    try:
        yield from _events(connection, path)
    except duckdb.Error as error:
        raise ParquetError(str(error).strip().splitlines()[0]) from None
    finally:
        connection.close()


def _events(connection: Any, path: str) -> Iterator[tuple[bytes, float]]:
    """Yield lines of JSON, and the share of the file read so far (0 to 1), by a DuckDB connection;
    ParquetError for a file without decisions or with a column of another type.
    """
    # Nothing of the file is SQL: its path is a parameter, names of columns are among ours.
    connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path])
    types = {row[0]: row[1] for row in connection.fetchall()}
    if "decision_id" not in types:
        raise ParquetError("the file is not a decision log: it has no column decision_id")
    names = [name for name in (*_TEXTS, *_DOCUMENTS) if name in types]
    columns = ", ".join(_column(name, types[name]) for name in names)
    total = connection.execute("SELECT count(*) FROM read_parquet(?)", [path]).fetchone()[0]
    connection.execute(f"SELECT {columns} FROM read_parquet(?)", [path])
    read = 0
    while rows := connection.fetchmany(ROWS):
        read += len(rows)
        lines = [_line(dict(zip(names, row, strict=True))) for row in rows]
        yield "".join(lines).encode(), read / total


def _column(name: str, type_: str) -> str:
    """Return the SQL that reads a column as text. A document that is not JSON becomes `!`, so that
    its line is not an event. ParquetError for a column of another type.
    """
    quoted = f'"{name}"'
    if name == "timestamp" and type_.startswith("TIMESTAMP"):
        return f"strftime({quoted}::TIMESTAMP, '%Y-%m-%dT%H:%M:%S.%fZ')"
    if name in _TEXTS and type_ in _TEXT_TYPES:
        return f"{quoted}::VARCHAR"
    if name in _DOCUMENTS and type_ in _TEXT_TYPES:
        # A text that is not JSON must not become a part of a line.
        is_right = f"{quoted} IS NULL OR json_valid({quoted})"
        return f"CASE WHEN {is_right} THEN {quoted}::VARCHAR ELSE '!' END"
    if name in ("erased", "masked") and type_ == _LISTS:
        return f"to_json({quoted})::VARCHAR"
    raise ParquetError(
        f"the column {name} of this decision log has the type {type_}: write it as text, "
        "and documents such as `input` as JSON text"
    )


def _line(row: dict[str, Any]) -> str:
    """Return an event as a line of JSON, without fields that are null."""
    fields = [
        f"{json.dumps(name)}:{json.dumps(value) if name in _TEXTS else value}"
        for name, value in row.items()
        if value is not None
    ]
    return "{" + ",".join(fields) + "}\n"
