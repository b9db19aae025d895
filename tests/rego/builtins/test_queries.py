"""The recorded queries that are more than one call, through the engine: relations, `k, v in xs`,
template strings, calls within calls, and what the compiler refuses.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.differences import Difference, load, pin
from tests.rego.builtins.calls import NotACall, parse_call
from tests.rego.builtins.test_golden import (
    PARTS,
    Answer,
    Row,
    covered,
    fault,
    is_refused_before_the_call,
    read_rows,
    show,
)

from doorward.rego import UNDEFINED, Engine, from_python, to_json, to_python
from doorward.rego.builtins import REGISTRY
from doorward.rego.errors import RegoError

QUERY_DIFFERENCES = load("builtin_queries")
OTHERS = {"eq", "meta"}
"""Groups about the compiler's view of built-ins: the conformance tests hold them."""


@cache
def queries() -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in read_rows():
        if row["group"] not in OTHERS and _takes_the_engine(row):
            groups.setdefault(row["group"], []).append(row)
    return groups


def _takes_the_engine(row: Row) -> bool:
    if is_refused_before_the_call(row) or "data" in row or "modules" in row:
        return True
    try:
        return not parse_call(row["query"]).is_declared
    except NotACall:
        return True


def invoke(row: Row) -> Answer:
    strict = bool(row.get("strict"))
    try:
        query = Engine(row.get("modules", {}), row.get("data", {})).prepare(
            row["query"], strict_builtin_errors=strict
        )
        input_ = row.get("input", UNDEFINED)
        results: Any = query.results(input_, now_ns=row.get("now_ns", 0))
        if not query.variables:
            results = [{"": to_python(actual[-1])} for actual in query.rows(input_)]
    except RegoError as error:
        first = error.diagnostics[0]
        return Answer(None, None, first.code, first.message)
    return Answer(to_json(from_python(results)))


def wanted(row: Row, got: Answer) -> Answer:
    if "error" not in row:
        return Answer(to_json(row["result"]))
    errors = [(e.get("code"), e["message"]) for e in row.get("errors", [row["error"]])]
    if (got.code, got.message) in errors:
        return got
    # What the compiler says is for the compiler's own tests; here its code is enough.
    if is_refused_before_the_call(row) and got.code in {code for code, _ in errors}:
        return got
    return Answer(None, None, *errors[0])


@cache
def differing(group: str) -> list[tuple[Row, Answer, Answer]]:
    different = []
    for row in queries()[group]:
        got = invoke(row)
        if got != (want := wanted(row, got)):
            different.append((row, got, want))
    return different


@pytest.mark.parametrize("part", range(PARTS))
def test_queries_answer_as_recorded(part: int) -> None:
    rows = [row for group in sorted(queries())[part::PARTS] for row in differing(group)]
    wrong = [show(*row) for row in rows if not any(covered(d, *row) for d in QUERY_DIFFERENCES)]
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])


def test_every_group_is_about_a_built_in() -> None:
    assert [group for group in queries() if group not in REGISTRY] == []


@pytest.mark.parametrize("difference", QUERY_DIFFERENCES, ids=lambda d: d.groups)
def test_a_declared_difference_is_one_and_excuses_no_other_answer(difference: Difference) -> None:
    group = difference.groups.replace("\\", "")
    rows = [
        (row["id"], fault(got, want))
        for row, got, want in differing(group)
        if covered(difference, row, got, want)
    ]
    assert difference.pinned == {"builtins": pin(rows)}


def test_there_are_recorded_queries() -> None:
    assert len(queries()["walk"]) > 50
