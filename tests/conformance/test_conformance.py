"""Every case of OPA's own suite, results and errors both."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.suite import KNOWN_FAILURES, fault, parameters
from tests.corpora import SUITE, needs

pytestmark = pytest.mark.long

CASES = parameters()


@pytest.mark.parametrize("case", CASES)
def test_answer_is_the_one_of_the_suite(case: dict[str, Any]) -> None:
    assert fault(case) is None


@needs(SUITE)
def test_known_failures_name_cases() -> None:
    assert KNOWN_FAILURES.keys() <= {case.id for case in CASES}
