"""Ray for the tests that use it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture(scope="session")
def clusters() -> Any:
    """`tests.replay.clusters`, imported by the first test that asks for it: it takes half a second,
    and Ray starts threads."""
    return import_module("tests.replay.clusters")
