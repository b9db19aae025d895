"""A refusal that no policy meant is one line in the log, and in debug mode a header."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.http_input import HttpRequest
from doorward.enforcement.refusals import REASON_HEADER, failure_of, log_failure
from doorward.pdp import from_modules

POLICY = """package shop

allow if input.ok

both := true if input.a

both := false if input.a

text := "yes"

deep.rule if input.ok
"""


@pytest.mark.parametrize(
    ("path", "input", "reason"),
    [
        ("shop/allow", {"ok": True}, ""),
        ("shop/allow", {}, "the document is undefined for this input"),
        ("shop/alow", {}, "the path names no rule or data: did you mean shop/allow?"),
        ("shop/deep/rul", {}, "the path names no rule or data: did you mean shop/deep/rule?"),
        ("zzz", {}, "the path names no rule or data"),
        ("shop/both", {"a": 1}, "policy.rego:7: eval_conflict_error: "),
        ("shop/text", {}, "the result cannot be used as an answer: failed to get response status"),
        (
            "shop/allow",
            {"ok": object()},
            "the input is not a value of Rego: input.ok is of the class",
        ),
    ],
)
def test_failures_have_a_reason(path: str, input: Any, reason: str) -> None:
    with from_modules({"policy.rego": POLICY}) as point:
        reason_given = failure_of(point.decide_now(path, input), point.snapshot)
    assert reason_given.startswith(reason)
    assert bool(reason_given) is bool(reason)


def test_a_line_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    with from_modules({"policy.rego": POLICY}) as point, caplog.at_level(logging.WARNING):
        decisions = [point.decide_now("shop/alloww", {"secret": "s3cret"}) for _ in range(2)]
        for each in decisions:
            log_failure(each, point.snapshot)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"request refused: decision {decisions[0].decision_id} of shop/alloww: the path names no "
        "rule or data: did you mean shop/allow?"
    )


@pytest.mark.parametrize("debug", [False, True])
def test_debug_mode_says_the_reason_in_a_header(debug: bool) -> None:
    request = HttpRequest("GET", "/", {}, "a.example")
    with from_modules({"policy.rego": POLICY}) as point:
        check = HttpCheck(point.pdp, HttpOptions(path="shop/alow", debug=debug))
        verdict = check.check(request)
    assert not verdict.allowed
    reason = (REASON_HEADER, "the path names no rule or data: did you mean shop/allow?")
    assert verdict.headers == ((reason,) if debug else ())
