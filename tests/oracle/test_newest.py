"""Random programs and mutated policies: Doorward answers as the engine of OPA 1.20.2 does.

The same programs in each run; longer by hand, see fuzz/README.md.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any, Final

import pytest
from tests.differences import FOLDER

from doorward.rego import UNDEFINED, Engine, RegoError, to_json
from fuzz.against_engine import compare
from fuzz.campaign import text_of
from fuzz.compare import RefusedError
from fuzz.newest import program_of
from fuzz.opa_engine import OpaEngine
from fuzz.policies import Policies, read_policies

SEED: Final = 2
SIZE: Final = 20
PROGRAMS: Final = 80

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def policies() -> list[Policies]:
    return read_policies()


@pytest.mark.parametrize("start", range(0, PROGRAMS, SIZE))
def test_answers_are_those_of_the_newest_opa(
    start: int, opa: OpaEngine, policies: list[Policies]
) -> None:
    compared = 0
    for number in range(start, start + SIZE):
        program = program_of(f"{SEED}-{number}", policies)
        try:
            difference = compare(program, opa)
        except RefusedError:
            continue
        compared += 1
        assert difference is None, f"{SEED}-{number}: {difference}\n{text_of(program)}"
    assert compared > SIZE // 4, "most programs are refused: the mutations have gone wrong"


def test_the_engine_that_is_asked_is_opas_own(opa: OpaEngine) -> None:
    modules = {"a.rego": "package a\np := 12345678901234567890123 if input.x"}
    answer = opa.ask({"modules": modules, "data": {}, "query": "y := data.a.p", "input": {"x": 1}})
    assert answer is not None
    assert answer["result"][0]["bindings"] == {"y": {"number": "12345678901234567890123"}}
    refused = opa.ask({"modules": {"a.rego": "package a\np if x"}, "data": {}, "query": "data"})
    assert refused is not None
    assert refused["error"]["code"] == "rego_unsafe_var_error"


DIFFERENCES: Final[list[dict[str, Any]]] = tomllib.loads(
    (FOLDER / "newest.toml").read_text(encoding="utf-8")
)["difference"]
INPUT: Final = {"x": 1}


@pytest.mark.parametrize("entry", DIFFERENCES, ids=lambda entry: entry["text"])
def test_a_listed_difference_is_one(entry: dict[str, Any], opa: OpaEngine) -> None:
    modules = {"t.rego": entry["module"]}
    answer = opa.ask({"modules": modules, "data": {}, "query": "data.t.p", "input": INPUT})
    assert answer is not None
    solutions = answer.get("result")
    values = [json.dumps(solution["expressions"][0]["value"]) for solution in solutions or []]
    theirs = answer["error"]["code"] if "error" in answer else "".join(values) or "undefined"
    try:
        value = Engine(modules).prepare("data.t.p").value(INPUT)
        ours = "undefined" if value is UNDEFINED else to_json(value)
    except RegoError as error:
        ours = error.diagnostics[0].code
    assert (ours, theirs) == (entry["ours"], entry["opa"])
    assert ours != theirs
