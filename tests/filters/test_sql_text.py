"""Clauses with literals: what is escaped, and what is refused."""

from __future__ import annotations

import json

import pytest

from doorward.filters import (
    PYTHON,
    Conditions,
    FilterError,
    Names,
    target_of,
    to_conditions,
    to_sql,
    to_sql_text,
    to_ucast,
)
from doorward.filters.dialects import DIALECTS
from doorward.filters.sql_text import quoted_name
from doorward.rego import Engine


def conditions(body: str, data: object = None, variant: str = "all") -> Conditions:
    engine = Engine({"f.rego": f"package f\n\ninclude if {{\n{body}\n}}\n"}, data=data)
    left = engine.partial("data.f.include", ["input.docs"], {"user": "ann"}, only_truth=True)
    return to_conditions(left, [target_of("ucast", variant)])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text", ["'", "''", "\\", "\\'", "x' OR '1'='1", "'; DROP TABLE docs; --", "N'x'", "%_["]
)
def test_no_text_leaves_its_literal(text: str, dialect: str) -> None:
    clause = to_sql_text(
        conditions("input.docs.name == data.text", {"text": text}), Names({}), dialect
    )
    assert clause is not None
    literal = clause.partition(" = ")[2].lstrip("EN")
    inner = literal[1:-1]
    if dialect in ("mysql", "postgresql"):
        inner = inner.replace("\\\\", "")
    assert "'" not in inner.replace("''", "")
    assert "\\" not in inner or dialect in ("sqlite", "sqlserver")


def test_a_text_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        to_sql_text(conditions('input.docs.name == "a\\u0000b"'), Names({}), "postgresql")


def test_fields_that_a_target_cannot_compare_are_an_error_with_a_hint() -> None:
    with pytest.raises(FilterError) as caught:
        conditions("input.docs.a == input.docs.b", variant="linq")
    message = str(caught.value)
    assert 'reference to field: unsupported feature "field-ref" for UCAST (LINQ)' in message
    assert "hint: compare the field with a known value, or leave out this target" in message


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_are_quoted(dialect: str) -> None:
    clause = to_sql_text(conditions('input.docs["a\\"b`c]d"] == 1'), Names({}), dialect)
    quoted = {"mysql": '`a"b``c]d`', "sqlserver": '[a"b`c]]d]'}.get(dialect, '"a""b`c]d"')
    assert clause == f"WHERE docs.{quoted} = 1"


@pytest.mark.parametrize(
    "body",
    [
        "input.docs[0] == 1",
        "input.docs[true] == 1",
        "input.docs.a.b == 1",
        "input.docs[x] == 1",
        "some x in input.docs.tags; x == 1",
        "count(input.docs.tags) > 1",
        "lower(input.docs.name) == input.user",
        "input.docs.a in input.docs.b",
        "input.docs.a == [1]",
        "every x in input.docs.tags { x == 1 }",
        "not input.docs.a",
        "input.docs.a",
        "regex.match(input.docs.a, input.user)",
    ],
)
@pytest.mark.parametrize("other", ["", "input.docs.z == 9\n"])
def test_what_cannot_be_said_is_an_error_that_names_it(body: str, other: str) -> None:
    with pytest.raises(FilterError) as caught:
        conditions(f"{other}{body}")
    assert caught.value.diagnostics[0].code == "pe_fragment_error"
    assert any(each.span.row > 3 for each in caught.value.diagnostics)


def test_reversed_comparisons_are_mirrored() -> None:
    assert to_ucast(conditions("1 < input.docs.n"), Names({})) == {
        "field": "docs.n",
        "operator": "gt",
        "type": "field",
        "value": 1,
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_patterns_are_escaped(dialect: str) -> None:
    clause = to_sql_text(conditions('contains(input.docs.name, "1%_[a")'), Names({}), dialect)
    pattern = {
        "mysql": r"'%1\\%\\_[a%'",
        "postgresql": r"E'%1\\%\\_[a%'",
        "sqlite": r"'%1\%\_[a%' ESCAPE '\'",
        "sqlserver": r"N'%1\%\_\[a%' ESCAPE N'\'",
    }[dialect]
    assert clause == f"WHERE docs.name LIKE {pattern}"


def test_every_row_and_no_row() -> None:
    assert to_sql_text(conditions("true"), Names({}), "sqlite") == ""
    assert to_sql_text(conditions("false"), Names({}), "sqlite") is None
    assert to_ucast(conditions("true"), Names({})) == {}
    assert to_ucast(conditions("false"), Names({})) is None


def test_all_that_python_callers_get_is_the_default() -> None:
    assert PYTHON.shown == "Python"


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "\x1b[0m", "a\u2028b", "a\u200bb", "\ud800"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_name_that_cannot_be_printed_is_refused(name: str, dialect: str) -> None:
    with pytest.raises(ValueError, match="the name of a column must not be empty"):
        quoted_name(name, dialect)
    assert quoted_name("a b", dialect)[1:-1] == "a b"


@pytest.mark.parametrize("name", ["a\nb", "a\0b"])
def test_a_column_whose_name_cannot_be_printed_is_an_error(name: str) -> None:
    policy = f"package f\n\ninclude if input.docs[{json.dumps(name)}] == 1\n"
    engine = Engine({"f.rego": policy})
    conditions = to_conditions(engine.partial("data.f.include", ["input.docs"], only_truth=True))
    with pytest.raises(ValueError, match="the name of a column must not be empty"):
        to_sql_text(conditions, Names({}), "postgresql")
    with pytest.raises(FilterError, match="the name of a column must not be empty"):
        to_sql(conditions, {"docs": {name: "number"}}, "postgresql")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("value", ["true", "false"])
def test_a_boolean_is_the_one_that_was_compared(value: str, dialect: str) -> None:
    clause = to_sql_text(conditions(f"input.docs.open == {value}"), Names({}), dialect)
    number = {"true": "1", "false": "0"}[value]
    assert clause is not None
    assert clause.endswith(f" = {number if dialect == 'sqlserver' else value.upper()}")
