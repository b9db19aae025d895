"""Compare the lists of an application with the decisions about each row of its tests.

    def test_lists(assert_filter_matches, session):
        rows = session.scalars(select(Doc)).all()
        assert_filter_matches(point, rows, [{"user": "ann"}], path="docs/read", table="docs")

Rows are those of SQLAlchemy (instances in a session), of Django (instances), or mappings, which are
put into SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from doorward.enforcement.rows import conditions_of_rows
from doorward.filters import Conditions, Kind, Nulls, to_sql
from doorward.pdp import DecisionPoint, from_modules
from doorward.rego import InputError, from_python

__all__ = ["assert_filter_matches"]

Select = Callable[[Conditions], set[int]]
"""A function that returns the indexes of the rows that fulfil conditions."""
_MOST_ROWS: Final = 5


def assert_filter_matches(
    policy: DecisionPoint | str,
    rows: Iterable[Any],
    inputs: Iterable[Mapping[str, Any]],
    *,
    path: str,
    table: str,
    nulls: Nulls = "null",
) -> list[int]:
    """Compare a filter with decisions row by row, for each input, and return how many rows each
    filter lists. `policy` is a decision point or the text of a module; the document at `path` reads
    a row as `input.TABLE`, with NULL as `nulls` says.

    AssertionError names the input and the rows that differ, and is raised without rows.
    CompileError if the module is wrong, FilterError if the policy cannot become a filter,
    InputError for a value without a form in Rego.
    """
    if isinstance(policy, str):
        with from_modules({"policy.rego": policy}) as point:
            return assert_filter_matches(point, rows, inputs, path=path, table=table, nulls=nulls)
    known_rows = list(rows)
    assert known_rows, "rows must not be empty"
    documents, select = _source(known_rows, table, nulls)
    counts = []
    for number, each in enumerate(inputs):
        known = from_python(dict(each), "input", copy=True)
        assert isinstance(known, dict)
        unknowns = [f"input.{table}"]
        listed = select(
            conditions_of_rows(policy.snapshot, policy.pdp.build_gate, path, unknowns, known)
        )
        allowed = {
            index
            for index, document in enumerate(documents)
            if policy.decide_now(path, {**known, table: document}, is_parsed=True).allowed
        }
        _check(number, known_rows, listed - allowed, "listed and refused")
        _check(number, known_rows, allowed - listed, "allowed and not listed")
        counts.append(len(listed))
    return counts


def _check(number: int, rows: Sequence[Any], wrong: set[int], what: str) -> None:
    """Raise AssertionError, naming at most `_MOST_ROWS` of the rows, if the indexes in `wrong` are
    not empty; `what` says what is wrong with them.
    """
    texts = [repr(rows[index]) for index in sorted(wrong)[:_MOST_ROWS]]
    assert not wrong, f"input {number}: {len(wrong)} rows are {what}: {', '.join(texts)}"


def _source(rows: Sequence[Any], table: str, nulls: Nulls) -> tuple[list[Any], Select]:
    """Return the rows as the policy sees them, and a function that returns the indexes of the rows
    that conditions select, for mappings, Django or SQLAlchemy by the first row.
    """
    first = rows[0]
    if isinstance(first, Mapping):
        return _of_mappings(rows, table, nulls)
    if hasattr(first, "_meta"):
        return _of_django(rows, table, nulls)
    return _of_sqlalchemy(rows, table, nulls)


def _document(fields: Mapping[str, Any], nulls: Nulls) -> dict[Any, Any]:
    """Return the columns of a row as a policy sees them. Columns with a value that Rego cannot
    represent are left out, since filters cannot compare them; with `nulls` "undefined" also those
    that are None.
    """
    document: dict[Any, Any] = {}
    for name, value in fields.items():
        if value is None and nulls == "undefined":
            continue
        try:
            document[name] = from_python(value, name, copy=True)
        except InputError:
            continue
    return document


def _of_django(rows: Sequence[Any], table: str, nulls: Nulls) -> tuple[list[Any], Select]:
    """Return instances of a Django model as documents, and a function that returns the indexes of
    those that conditions select in the database, found by primary key.
    """
    from doorward.filters.django import document_of, to_q

    model = type(rows[0])
    numbers = {row.pk: index for index, row in enumerate(rows)}

    def select(conditions: Conditions) -> set[int]:
        """Return the indexes of the rows that the conditions select."""
        condition = to_q(conditions, model, {table: ""}, nulls=nulls)
        # Not the default manager, which may leave out rows.
        keys = model._base_manager.filter(condition).values_list("pk", flat=True)
        return {numbers[key] for key in keys if key in numbers}

    return [document_of(each, nulls=nulls) for each in rows], select


def _of_sqlalchemy(rows: Sequence[Any], table: str, nulls: Nulls) -> tuple[list[Any], Select]:
    """Return mapped instances of one class and one session, at least one, as documents, and a
    function that returns the indexes of those that conditions select in that session, which is
    flushed. AssertionError if the first has no session, or two have equal first columns of their
    primary keys.
    """
    from sqlalchemy import inspect, select
    from sqlalchemy.orm import object_session

    from doorward.filters.sqlalchemy import document_of, where

    model, session = type(rows[0]), object_session(rows[0])
    assert session is not None, "the rows must belong to a session of SQLAlchemy"
    mapper: Any = inspect(model)
    session.flush()
    numbers = {mapper.primary_key_from_instance(row)[0]: n for n, row in enumerate(rows)}
    assert len(numbers) == len(rows), (
        "two rows have the same value in the first column of their primary key"
    )

    def selected(conditions: Conditions) -> set[int]:
        """Return the indexes of the rows that the conditions select."""
        clause = where(conditions, {table: model}, nulls=nulls)
        keys = session.scalars(select(mapper.primary_key[0]).where(clause))
        return {numbers[key] for key in keys if key in numbers}

    return [document_of(each, nulls=nulls) for each in rows], selected


def _of_mappings(rows: Sequence[Any], table: str, nulls: Nulls) -> tuple[list[Any], Select]:
    """Return the mappings as documents, and a function that returns the indexes of those that
    conditions select, by SQL in a new SQLite table in memory. A missing value is None. A column is
    in the table only if its values other than None are all texts, all numbers or all booleans.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: kind for name in names if (kind := _kind(rows, name)) is not None}

    def select(conditions: Conditions) -> set[int]:
        """Return the indexes of the rows that the conditions select."""
        clause = to_sql(conditions, {table: columns}, "sqlite", nulls=nulls)
        connection = sqlite3.connect(":memory:")
        # SQLite takes names that differ only in case for the same column.
        number = "row"
        while number in {name.lower() for name in columns}:
            number += "_"
        into, quoted = _quote(table), [_quote(name) for name in (number, *columns)]
        connection.execute(f"create table {into} ({', '.join(quoted)})")
        marks = ", ".join("?" * (len(columns) + 1))
        stored = [
            (n, *[_to_stored(row.get(name)) for name in columns]) for n, row in enumerate(rows)
        ]
        connection.executemany(f"insert into {into} values ({marks})", stored)
        text = f"select {_quote(number)} from {into} where {clause.text}"
        numbers = {index for (index,) in connection.execute(text, clause.parameters)}
        connection.close()
        return numbers

    row_documents = [{name: row.get(name) for name in names} for row in rows]
    return [_document(each, nulls) for each in row_documents], select


def _quote(name: str) -> str:
    """Return any name as SQL quotes it: `a"b` -> `"a""b"`. Rows may have members that
    `quoted_name` refuses, since no condition can name them.
    """
    return '"' + name.replace('"', '""') + '"'


def _to_stored(value: Any) -> Any:
    # SQLite's driver takes no Decimal.
    return float(value) if isinstance(value, Decimal) else value


def _kind(rows: Sequence[Any], name: str) -> Kind | None:
    kinds: set[Kind | None] = {_kind_of(row[name]) for row in rows if row.get(name) is not None}
    return kinds.pop() if len(kinds) == 1 else None


def _kind_of(value: object) -> Kind | None:
    """Return the kind of column for a value; None for a value without one."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float, Decimal)):
        return "number"
    return "text" if isinstance(value, str) else None
