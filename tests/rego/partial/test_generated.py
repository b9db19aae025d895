"""The property that defines partial evaluation, for random programs.

`DOORWARD_PARTIAL_EXAMPLES` is the number of programs (by default 60).
"""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.rego.partial.programs import UNKNOWNS, document, program

from doorward.rego import UNDEFINED, CompileError, Engine, EvalError, from_python

pytestmark = pytest.mark.long

EXAMPLES: Final = int(os.environ.get("DOORWARD_PARTIAL_EXAMPLES", "30"))
QUERY: Final = "data.a.p = x"


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.integers(0, 2**32))
def test_residuals_of_random_programs_decide_as_the_query_does(seed: int) -> None:
    draw = Random(seed)
    modules = {"a.rego": program(draw)}
    try:
        Engine(modules)
    except CompileError:
        assume(condition=False)
    unknowns: Any = draw.choice(UNKNOWNS)
    data = {"e": draw.choice([1, "a", ["a"]]), "g": {"h": 1, "k": {"m": "a", "x": "a"}}}
    start = {"input": {"u": {"a": 1}, "k": 1}, "data": data}
    known = document(draw, ["input.u", "input.v", "input.k", "data.d"], start)
    engine = Engine(modules, data=from_python(known["data"]))
    shallow = draw.random() < 0.2
    try:
        partial = engine.partial(
            QUERY, unknowns, from_python(known["input"]), shallow=shallow, deadline=20
        )
        support = {f"s{n}.rego": text for n, text in enumerate(partial.support_texts)}
        both = engine.with_modules({**modules, **support})
    except (CompileError, EvalError):
        # A conflict; or a rule of the support is wrong in its types, so that it never holds.
        assume(condition=False)
    for _ in range(6):
        case = document(draw, unknowns, known)
        base, input = from_python(case["data"]), from_python(case["input"])
        try:
            expected = _values(engine.with_data(base), [QUERY], input)
        except EvalError:
            continue  # conflicts are not looked for while something is unknown, as in OPA
        try:
            actual = _values(both.with_data(base), partial.query_texts, input)
        except EvalError as error:
            # The residual looks for it in another order: an error decides nothing.
            if error.code != "eval_conflict_error":
                raise
            continue
        assert actual == expected, (unknowns, case, partial.query_texts, partial.support_texts)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.integers(0, 2**32))
def test_residuals_of_the_truth_hold_where_the_document_is_true(seed: int) -> None:
    draw = Random(seed)
    modules = {"a.rego": program(draw)}
    try:
        Engine(modules)
    except CompileError:
        assume(condition=False)
    unknowns: Any = draw.choice(UNKNOWNS)
    data = {"e": draw.choice([1, "a", ["a"]]), "g": {"h": 1, "k": {"m": "a", "x": "a"}}}
    start = {"input": {"u": {"a": 1}, "k": 1}, "data": data}
    known = document(draw, ["input.u", "input.v", "input.k", "data.d"], start)
    engine = Engine(modules, data=from_python(known["data"]))
    try:
        partial = engine.partial(
            "data.a.p", unknowns, from_python(known["input"]), only_truth=True, deadline=20
        )
        support = {f"s{n}.rego": text for n, text in enumerate(partial.support_texts)}
        both = engine.with_modules({**modules, **support})
    except (CompileError, EvalError):
        assume(condition=False)  # as above
    for _ in range(6):
        case = document(draw, unknowns, known)
        base, input = from_python(case["data"]), from_python(case["input"])
        try:
            value = engine.with_data(base).prepare("data.a.p").answer(input)
        except EvalError:
            continue
        holds = any(_holds(both.with_data(base), text, input) for text in partial.query_texts)
        is_true = value is not UNDEFINED and value is not False
        assert holds is is_true, (unknowns, case, partial.query_texts, partial.support_texts)


def _holds(engine: Engine, query: str, input: Any) -> bool:
    try:
        return not query or bool(engine.prepare(query).results(input))
    except CompileError:
        return False  # it is wrong in its types


def _values(engine: Engine, queries: Any, input: Any) -> set[str]:
    return {
        json.dumps(row["x"], sort_keys=True)
        for text in queries
        for row in _results(engine, text, input)
    }


def _results(engine: Engine, query: str, input: Any) -> list[dict[str, Any]]:
    try:
        return engine.prepare(query).results(input)
    except CompileError as error:
        if {each.code for each in error.diagnostics} != {"rego_type_error"}:
            raise
        # What is wrong in its types never holds: `count(data.partial.a.s, false)`. Behind `not` it
        # always does.
        assume(not query.startswith("not ") and "; not " not in query)
        return []
