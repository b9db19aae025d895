"""A test says what `eval` says: an error of the fast code is looked at again for each caller."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import language
from tests.corpora import GOLDEN
from tests.oracle.recorded import sample

import doorward
from doorward.bundles.loader import Loaded
from doorward.rego import UNDEFINED, Engine, EvalError, Query, RegoError, Value
from doorward.rego.shared import Key
from doorward.rego.tools import path_text
from doorward.testing import Suite, run
from doorward.testing.bench import Measured, measure
from doorward.testing.coverage import Coverage
from doorward.testing.parallel import run_parallel

CONFLICTS = """package names

all["x"] := 1

all["x"] := 2

b := 2

found[k] := v if {
	some k in ["p", "q"]
	some v in [1, 2]
	k == "q"
}

found["z"] := 5
"""
REPLACED = """package p

allow if data.roles.admin == "bob"

config := data.config
"""
TESTS = """package t

test_beside_a_conflict if data.names.b == 2

test_beside_another_key if data.names.found.z == 5

test_cases[name] if {
	some name in ["one"]
	data.names.found.z == 5
}

test_replaced if data.p.allow with data.roles as {"admin": "bob"} with data.config.now as 1
"""
DATA: dict[Key, Value] = {"roles": {"admin": "eve", "viewer": "joe"}, "config": {"x": {"old": 0}}}
MODULES = {"names.rego": CONFLICTS, "p.rego": REPLACED, "t.rego": TESTS}


@pytest.fixture
def suite() -> Suite:
    return Suite(Loaded(dict(MODULES), dict(DATA)))


def test_what_is_an_error_to_the_fast_code_alone_passes(suite: Suite) -> None:
    answer = Engine(MODULES, DATA).prepare("data.t").value({})
    assert [each for each in answer if answer[each] is True or answer[each] == {"one": True}] == [
        test.name for test in suite.tests
    ]
    for results in (
        run(suite),
        run_parallel(suite, suite.tests, 1),
        run_parallel(suite, suite.tests, 1, coverage=Coverage()),
    ):
        assert [result.outcome for result in results] == ["PASS"] * 4
    assert all(isinstance(each, Measured) for each in measure(suite, suite.tests, seconds=0.001))


@cache
def recorded() -> list[dict[str, Any]]:
    return [row for name in ("heads", "with") for row in sample(language.rows(name), "id", 3)]


@pytest.mark.long
def test_a_document_is_what_a_query_for_it_gives() -> None:
    assert len(recorded()) > 400
    assert (GOLDEN / "with.jsonl.gz").is_file()
    different = []
    compared = 0
    for row in recorded():
        try:
            engine = Engine(row.get("modules", {}), row.get("data", {}), v0=bool(row.get("v0")))
        except RegoError:
            continue
        under = engine.prepare("true")
        for node in engine.policies.program.root.walk():
            if node.definitions and not node.is_function:
                path = path_text(node.path)
                compared += 1
                if value_of(engine, path, row) != document(under, node.path, row):
                    different.append(f"{row['id']} {path}")
    assert compared > 1000
    assert not different


def value_of(engine: Engine, path: str, row: dict[str, Any]) -> Any:
    try:
        return engine.prepare(path).value(row.get("input", UNDEFINED))
    except EvalError as error:
        return error.diagnostics


def document(query: Query, path: Sequence[Key], row: dict[str, Any]) -> Any:
    try:
        return query.document_of(query.evaluation(row.get("input", UNDEFINED)), path)
    except EvalError as error:
        return error.diagnostics


def test_nobody_asks_past_the_function_that_evaluates() -> None:
    source = Path(doorward.__file__).parent
    asking = [
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if ".document_at(" in path.read_text(encoding="utf-8")
    ]
    assert asking == ["rego/queries.py"]
