"""The flow denies whatever fails, in each of its parts, and logs each check once."""

from __future__ import annotations

from typing import NoReturn

import pytest
from tests.envoy.deciders import Fixed

from doorward.edge import Edge
from doorward.enforcement.errors import RequestParseError
from doorward.enforcement.flow import CheckFlow, Decider, Denial, Failure, error_code
from doorward.enforcement.http_input import Input
from doorward.pdp.decision import Decision
from doorward.rego import UNDEFINED, Undefined, Value
from doorward.rego.errors import EvalError
from doorward.verdicts import ResultError

EDGE = Edge("test_flow", "a check of a test failed")
INPUT: Input = {"a": 1}


class Text:
    """A protocol of words: a request says in which part it fails."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.failures: list[Failure] = []

    def read(self, request: str) -> Input:
        if request == "unreadable":
            raise RequestParseError("cut off")
        if request == "broken":
            raise RecursionError
        return INPUT

    def write(self, decision: Decision) -> str:
        if decision.result is UNDEFINED:
            raise ResultError("undefined decision")
        if self.fails == "write":
            raise RuntimeError
        return f"allowed: {decision.result}"

    def deny(self, failure: Failure) -> Denial[str]:
        self.failures.append(failure)
        if self.fails == "deny":
            raise RuntimeError
        return Denial(f"denied: {failure.reason}", failure.decision)


def flow_of(codec: Text, pdp: Decider, query: str = "") -> CheckFlow[str, str]:
    return CheckFlow(
        codec,
        pdp,
        "/a/b/",
        edge=EDGE,
        last_resort="denied",
        query=query,
        size_of=len,
    )


def test_a_decision_is_answered_and_logged_with_its_input() -> None:
    pdp = Fixed(True)
    assert flow_of(Text(), pdp).check("x") == "allowed: True"
    assert [(decision.result, input) for decision, input in pdp.logged] == [(True, INPUT)]


@pytest.mark.parametrize(
    ("request_text", "pdp", "reason", "logged"),
    [
        ("unreadable", Fixed(True), "request_parse_error", UNDEFINED),
        ("broken", Fixed(True), "internal_error", UNDEFINED),
        ("x", Fixed(UNDEFINED), "result_error", INPUT),
        (
            "x",
            Fixed(UNDEFINED, EvalError("eval_conflict_error", "two")),
            "eval_conflict_error",
            INPUT,
        ),
        ("x", Fixed(error=RuntimeError()), "eval_error", INPUT),
    ],
)
def test_each_failure_is_denied_with_its_reason_and_logged_once(
    request_text: str, pdp: Fixed, reason: str, logged: object
) -> None:
    codec = Text()
    assert flow_of(codec, pdp).check(request_text) == f"denied: {reason}"
    ((decision, input),) = pdp.logged
    assert decision.error is not None
    assert input == logged
    assert [failure.reason for failure in codec.failures] == [reason]


def test_a_fault_while_the_answer_is_written_is_denied() -> None:
    assert flow_of(Text("write"), Fixed(True)).check("x") == "denied: internal_error"


def test_a_denial_that_fails_is_the_last_resort() -> None:
    assert flow_of(Text("deny"), Fixed(UNDEFINED)).check("x") == "denied"


def test_a_log_that_fails_denies() -> None:
    class Broken(Fixed):
        def record(self, *_: object, **__: object) -> NoReturn:
            raise MemoryError

    assert flow_of(Text(), Broken(True)).check("x") == "denied: internal_error"
    assert flow_of(Text(), Broken(UNDEFINED)).check("x") == "denied: result_error"


class Untimed(Fixed):
    """A decision point whose log does not ask how long a check took."""

    def record(
        self,
        decision: Decision,
        input: Value | Undefined = UNDEFINED,
        /,
        *,
        handler_ns: int | None = None,
        size: int = 0,
    ) -> None:
        self.logged.append((decision, input))


def test_a_request_that_the_adapter_cannot_read_is_logged_without_an_input() -> None:
    pdp = Untimed(True)
    answer = flow_of(Text(), pdp).refuse(RequestParseError("cut off"))
    assert answer == "denied: request_parse_error"
    ((decision, input),) = pdp.logged
    assert (decision.path, str(decision.error), input) == ("a/b", "cut off", UNDEFINED)


def test_a_query_is_logged_in_place_of_the_path() -> None:
    pdp = Fixed(True)
    flow_of(Text(), pdp, "data.a.b == 1").check("unreadable")
    ((decision, _),) = pdp.logged
    assert (decision.path, decision.query) == ("", "data.a.b == 1")


def test_the_code_of_an_error_is_that_of_its_first_diagnostic() -> None:
    assert error_code(EvalError("eval_conflict_error", "two values")) == "eval_conflict_error"
    assert error_code(ValueError()) == "eval_error"
