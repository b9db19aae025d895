"""Profiles: each expression with its own time, and how often it was asked."""

from __future__ import annotations

from itertools import count

from doorward.rego import Engine
from doorward.rego.explanation.profile import Profile

POLICY = """package a

p if {
    some x in input
    q(x)
}

q(x) if x > 1
"""


def test_each_expression_has_its_own_time_and_counts() -> None:
    query = Engine({"a.rego": POLICY}, traced=True).prepare("data.a.p")
    evaluation = query.evaluation([1, 2, 3])
    ticks = count()
    evaluation.tracer = profile = Profile(clock=lambda: next(ticks))
    query.value_of(evaluation)
    actual = {(each.span.row, each.span.text): each for each in profile.entries()}
    question = actual[5, "q(x)"]
    assert (question.evaluated, question.succeeded) == (2, 1)
    inner = actual[8, "x > 1"]
    assert (inner.evaluated, inner.succeeded) == (2, 1)
    assert all(each.total_ns > 0 for each in actual.values())
    times = [each.total_ns for each in profile.entries()]
    assert times == sorted(times, reverse=True)
