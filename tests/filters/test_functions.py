"""Functions of columns and of values in documents: a row is listed where it is allowed.

Above all where a function has no value, and behind `not`, where such rows would be selected.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final

import pytest
from tests.filters.test_definitions import allowed_rows, conditions

from doorward.filters import Column, FilterError, to_sql

COLUMNS: Final[Any] = {
    "doc": {"a": "number", "s": "text", "ok": "boolean", "c": "text", "m": "json"}
}
VALUES: Final[list[Any]] = ["a", "A", " b ", "", "5", 5, True, None, [], ["a"], {}, {"k": "A"}]
LISTS: Final[list[Any]] = ["A", [], ["A", 5], [[], ""], [["A"]], [{}], {"x": "A", "y": 1}]
DOCUMENTS: Final[list[Any]] = [
    {},
    *[{"k": each} for each in VALUES],
    *[{"l": each} for each in LISTS],
    {"l": [{"k": "A"}, {"k": 5}]},
    *("A", "", ["A"], [], 5),
]
ROWS: Final[list[dict[str, Any]]] = [
    *[{"m": each, "s": "A", "a": 1, "ok": True, "c": "a"} for each in DOCUMENTS],
    {"m": None, "s": None, "a": None, "ok": None, "c": None},
    {"m": {"k": "A"}, "s": "b", "a": 2, "ok": False, "c": None},
]


def listed(text: str, nulls: Any, columns: Any = COLUMNS) -> list[int]:
    clause = to_sql(conditions(text, {"empty": ""}), columns, "sqlite", nulls=nulls)
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "create table doc (id integer, m text, s text, a integer, ok boolean, c text)"
    )
    for number, row in enumerate(ROWS):
        document = None if row["m"] is None else json.dumps(row["m"])
        cells = (number, document, row["s"], row["a"], row["ok"], row["c"])
        connection.execute("insert into doc values (?, ?, ?, ?, ?, ?)", cells)
    selected = connection.execute(f"select id from doc where {clause.text}", clause.parameters)
    numbers = sorted(number for (number,) in selected)
    connection.close()
    return numbers


@pytest.mark.parametrize("nulls", ["null", "undefined"])
@pytest.mark.parametrize(
    "body",
    [
        "not lower(input.doc.m.k)",
        "not lower(input.doc.m.l.x)",
        'not trim(input.doc.s, "a")',
        "not lower(input.doc.a)",
        "not count(input.doc.m.k)",
        "not count(input.doc.m.k, 0)",
        'not lower(input.doc.m.k, "a")',
        'not trim(input.doc.m.k, "a", "")',
        "x := input.doc.m.k\n\tnot lower(x)",
        "some row in input.doc.m.l\n\tlower(row)",
        "some row in input.doc.m.l\n\tnot lower(row)",
        "some row in input.doc.m.l\n\tnot lower(row.k)",
        'some row in input.doc.m.l\n\tx := lower(row)\n\tnot x == "b"',
        "some row in input.doc.m.l\n\tcount(row)",
        "some row in input.doc.m.l\n\tnot count(row)",
        "some row in input.doc.m.l\n\tcount(row) == 0",
        "some row in input.doc.m.l\n\tcount(row) > 0",
        "some row in input.doc.m.l\n\tnot count(row) > 0",
        "every row in input.doc.m.l { count(row) < 1 }",
        'every row in input.doc.m.l { not lower(row) == "a" }',
        "every row in input.doc.m.l { lower(row) }",
        'not lower(input.doc.m.k) == "a"',
        'lower(input.doc.m.k) != "a"',
        'lower(input.doc.m.k) in ["5", 5, null]',
        'not lower(input.doc.m.k) in ["5", 5, null]',
        'not startswith(trim_space(input.doc.m.k), "b")',
        'not startswith(input.doc.a, "1")',
    ],
)
def test_a_function_holds_only_where_it_has_a_value(body: str, nulls: str) -> None:
    text = f"allow if {{\n\t{body}\n}}"
    assert listed(text, nulls) == allowed_rows(text, nulls, {}, ROWS)


@pytest.mark.parametrize("nulls", ["null", "undefined"])
@pytest.mark.parametrize("operand", ["input.doc.m.k", "input.doc.m.l.x", "input.doc.s"])
@pytest.mark.parametrize(
    "test", ['lower(x) == "a"', 'trim(x, " ") == "b"', "not lower(x)", "lower(x)", "x"]
)
def test_a_function_of_a_missing_value_is_not_false(test: str, operand: str, nulls: str) -> None:
    text = f"allow if not check({operand})\n\ncheck(x) if {test}"
    assert listed(text, nulls) == allowed_rows(text, nulls, {}, ROWS)


@pytest.mark.parametrize("nulls", ["null", "undefined"])
@pytest.mark.parametrize(
    "value",
    [
        "lower(input.doc.m.k)",
        "lower(input.doc.s)",
        "lower(input.doc.a)",
        "count(input.doc.m.k)",
        'startswith(input.doc.m.k, "a")',
        'startswith(lower(input.doc.m.k), "a")',
        'contains(input.doc.s, "A")',
        'endswith(input.doc.a, "1")',
        'regex.match("^a", input.doc.m.k)',
        'glob.match("**a", [], input.doc.s)',
        'lower(input.doc.m.k) == "a"',
        'lower(input.doc.m.k) in ["a"]',
        'object.get(input.doc, "ok", 5)',
        "input.doc.m.k",
        "input.doc.m.k == 5",
        "input.doc.m.k < 5",
        '"A" in input.doc.m.l',
        "check(input.doc.a)",
        "known",
        "either",
    ],
)
def test_a_value_contradicts_another_only_where_there_is_one(value: str, nulls: str) -> None:
    text = f"""
        allow := true if input.doc.a in [1, 2]

        allow := {value} if input.doc.c == "a"

        check(x) if x == 2

        known if input.doc.m.k == "a"

        default either := false

        either if input.doc.m.k == "a"
    """
    assert listed(text, nulls) == allowed_rows(text, nulls, {}, ROWS)


@pytest.mark.parametrize(
    "body",
    [
        'input.doc[""]',
        "input.doc[input.empty]",
        'not input.doc[""] == 5',
        'input.doc.m[""] != 5',
        'some row in input.doc.m.l\n\trow[""]',
        'some row in input.doc.m[""]\n\trow == 1',
        "input.doc.m.l[_][input.empty] != 5",
    ],
)
def test_a_name_that_is_empty_is_refused(body: str) -> None:
    """Such a name would stand for the row, document or element itself."""
    with pytest.raises(FilterError):
        listed(f"allow if {{\n\t{body}\n}}", "null")


def test_letters_of_an_element_are_not_counted() -> None:
    columns: Any = {"doc": {"g": Column("array", item=Column("text"))}}
    count = conditions("allow if {\n\tsome each in input.doc.g\n\tcount(each) > 0\n}", {})
    with pytest.raises(FilterError, match="not a collection"):
        to_sql(count, columns, "postgresql")
