"""Tests written in Rego: found in policies, run, and reported.

    suite = Suite(load(["policy.rego", "policy_test.rego"]))
    results = run(suite)
    print(pretty(results))

Policies and data come in as loaded, results go out as values and text. What runs the tests (the
command, the pytest plugin) is not known here.
"""

from __future__ import annotations

from doorward.testing.cases import Case
from doorward.testing.coverage import Coverage
from doorward.testing.runner import Result, Suite, Test, run, why

__all__ = ["Case", "Coverage", "Result", "Suite", "Test", "run", "why"]
