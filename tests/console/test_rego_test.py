"""A decision becomes a test that passes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.points import PEOPLE, Point

from doorward.bundles.loader import Loaded
from doorward.console.rego_test import write_test
from doorward.testing import Suite, run

GUEST = {"role": "guest", "active": True}


@pytest.mark.parametrize(
    ("input", "path"),
    [
        ({"method": "GET", "user": GUEST}, "app/allow"),
        ({"method": "PUT", "user": GUEST}, "app/allow"),
        ({"method": 'G"E\\T\n', "user": {"a b": [1.5, None]}}, "app/allow"),
        ({"user": {"active": False}}, "app/role"),
        ({"user": GUEST}, "app/role"),
    ],
)
def test_a_decision_is_a_test_that_passes(input: Any, path: str) -> None:
    point = Point(PEOPLE)
    text = write_test(point.decide(input, path))
    suite = Suite(Loaded({**point.texts, "decisions_test.rego": text}))
    assert [each.outcome for each in run(suite, suite.tests)] == ["PASS"]


def test_credentials_are_masked_and_named() -> None:
    text = write_test(Point(PEOPLE).decide({"password": "hunter2", "method": "GET"}))
    assert "hunter2" not in text
    assert "# Left out or masked: /input/password" in text
