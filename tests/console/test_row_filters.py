"""A policy as a filter of rows, in the playground: SQL, the rows, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.console import row_filters
from doorward.console.play_requests import PlaygroundError
from doorward.console.playground import answer
from doorward.console.row_filters import rows_of

POLICY = """package posts

# METADATA
# scope: document
# compile:
#   unknowns: [input.posts]
include if input.posts.owner == input.user

include if input.posts.title == "it's; DROP TABLE posts"
"""
ROWS = [{"id": 1, "owner": "ann"}, {"id": 2, "owner": "bob"}]


def ask(**fields: Any) -> dict[str, Any]:
    request = {"files": {"p.rego": POLICY}, "query": "data.posts.include", **fields}
    return answer("filter", request)


def test_rows_are_those_that_the_policy_leaves() -> None:
    shown = ask(input={"user": "bob"}, data={"rows": {"posts": [*ROWS, {"title": "x"}]}})
    assert "posts.owner = 'bob'" in shown["sql"]
    assert [each["id"] for each in shown["rows"]["posts"]] == [2]


def test_a_rule_that_is_no_filter_says_why() -> None:
    assert ask(query="data.posts.nothing")["sql"] is None
    text = "package a\n\n# METADATA\n# compile:\n#   unknowns: [input.t]\nx if count(input.t.y) > 1"
    shown = answer("filter", {"files": {"p.rego": text}, "query": "data.a.x"})
    assert shown["errors"][0]["message"]


@pytest.mark.parametrize(
    "sql",
    [
        "; DROP TABLE posts",
        "UNION SELECT sql, 1 FROM sqlite_master --",
        "WHERE load_extension('x')",
        "WHERE (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT sum(x) FROM c)",
        "WHERE no_such.column = 1",
    ],
)
def test_a_database_answers_the_one_query_only(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_filters, "STEPS", 100_000)
    rows = rows_of(sql, {"posts": ROWS, "odd": [1, "x"]})
    assert all("CREATE" not in str(row) for row in rows.get("posts", []))
    assert len(rows.get("posts", [])) <= len(ROWS) + 1


def test_names_of_tables_and_columns_are_quoted() -> None:
    rows = rows_of("", {'a"; DROP TABLE x; --': [{'b"': 1, "c": [1]}]})
    assert list(rows.values()) == [[{'b"': 1, "c": "[1]"}]]


@pytest.mark.parametrize(
    "table", [[{"a": 1, "A": 2}], [{"a": 1 << 70}], [{"a": "\ud800"}], [{"\ud800": 1}]], ids=repr
)
def test_a_table_that_sqlite_cannot_hold_is_refused(table: Any) -> None:
    with pytest.raises(PlaygroundError, match=r"^the objects of data\.rows\.t cannot be rows of"):
        rows_of("", {"t": table})


@pytest.mark.parametrize("table", [None, 7, "text", {"id": 1}], ids=repr)
def test_what_is_no_list_is_no_table(table: Any) -> None:
    assert rows_of("", {"t": table, "posts": ROWS}) == {"posts": ROWS}
