"""A policy as a filter of rows, for the playground: SQL, and the rows that it selects.

The rows are `data.rows`: tables by name, each a list of objects. They are put into a database in
memory that can only execute the one query.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from doorward.bundles.loader import Loaded
from doorward.console.play_requests import (
    DEADLINE,
    MAX_ITEMS,
    PlaygroundError,
    Request,
    registry,
    text_of,
    value_of,
)
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rego import RegoError
from doorward.rest.filters import post_filter
from doorward.rest.requests import Parameters

__all__ = ["filter_rows", "rows_of"]

ROWS: Final = 1_000
"""The most rows of one table; the others are left out."""
COLUMNS: Final = 50
STEPS: Final = 10_000_000
"""The most instructions of SQLite for one query; after them it gives no rows."""
_ALLOWED: Final = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION}
_ACCEPT: Final = "application/vnd.opa.sql.sqlite+json"


def filter_rows(files: Mapping[str, str], request: Request) -> dict[str, Any]:
    """Return the SQL of a filter (`sql`: `WHERE …`, "" for all rows, null for none) and the rows of
    each table that it selects (`rows`, within the limits of `rows_of`), or `errors` if the policy
    cannot become a filter. PlaygroundError for an invalid request.
    """
    names = text_of(request, "query").removeprefix("data.").split(".")
    data = value_of(request, "data")
    settings = Settings(deadline=DEADLINE, max_items=MAX_ITEMS, registry=registry())
    try:
        pdp = PDP(build(Loaded(dict(files), data if isinstance(data, dict) else {}), settings))
    except RegoError as error:
        return {"errors": [{"message": str(each)} for each in error.diagnostics]}
    body = {name: request[name] for name in ("input", "unknowns") if name in request}
    response = post_filter(pdp, tuple(names), Parameters({}), json.dumps(body).encode(), _ACCEPT)
    document = json.loads(bytes(response.body))
    if response.status_code != 200:
        return {"errors": [{"message": _problem(document)}]}
    sql = document.get("result", {}).get("query")
    given = request.get("data")
    tables = given.get("rows") if isinstance(given, dict) else None
    return {"sql": sql, "rows": rows_of(sql, tables if isinstance(tables, dict) else {})}


def _problem(document: Any) -> str:
    errors = document.get("errors") or [document]
    return str(errors[0].get("message", "this is not a filter"))


def rows_of(sql: str | None, tables: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the rows of each table for which a condition (`WHERE …`) is true, among its first
    `ROWS` rows and `COLUMNS` columns; [] for a table on which the condition fails. Left out are
    tables that are not lists or have no objects. {} for None, a filter that selects nothing.
    PlaygroundError for a table that SQLite cannot hold.
    """
    rows: dict[str, list[Any]] = {}
    for name, table in tables.items():
        if not isinstance(table, list):
            continue
        objects = [each for each in table if isinstance(each, dict)][:ROWS]
        columns = list(dict.fromkeys(key for each in objects for key in each))[:COLUMNS]
        if sql is not None and columns:
            rows[name] = _select(sql, name, columns, objects)
    return rows


def _select(sql: str, name: str, columns: list[str], objects: list[Any]) -> list[Any]:
    """Return the rows that match a SQL condition, from a SQLite table in memory. Only this table
    may be read, for `STEPS` instructions; an error, such as of a condition on another table, gives
    [].
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _fill(connection, name, columns, objects)
        # After the table is filled: from here on the connection can only read it.
        connection.set_authorizer(lambda action, of, *_: _authorize(action, of, name))
        left = [STEPS // 1_000]

        def count() -> int:
            left[0] -= 1
            return left[0] < 0

        connection.set_progress_handler(count, 1_000)
        try:
            cursor = connection.execute(f"SELECT * FROM {_quote(name)} {sql}")
            return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
        except (sqlite3.Error, UnicodeEncodeError):
            return []  # it is about another table, or compares with text that SQLite does not hold
        finally:
            connection.set_progress_handler(None, 0)


def _fill(
    connection: sqlite3.Connection, name: str, columns: list[str], objects: list[Any]
) -> None:
    """Create a table and insert the objects as its rows; PlaygroundError if SQLite refuses it, such
    as for columns whose names differ in case only.
    """
    table, quoted = _quote(name), ", ".join([_quote(each) for each in columns])
    rows = [[_cell(each.get(column)) for column in columns] for each in objects]
    try:
        connection.execute(f"CREATE TABLE {table} ({quoted})")
        connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})", rows)
    except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
        raise PlaygroundError(
            f"the objects of data.rows.{name} cannot be rows of a SQLite table: {error}"
        ) from None


def _authorize(action: int, of: str | None, table: str) -> int:
    """Return SQLite's permission for an action: the query may read its own table and call
    functions. `table` is the query's own, `of` that of a read.
    """
    is_allowed = action in _ALLOWED or (action == sqlite3.SQLITE_READ and of == table)
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _cell(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else json.dumps(value)
