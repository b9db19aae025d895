"""OPA's newest engine, which the tests of this folder ask."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import pytest

from fuzz.opa_engine import OpaEngine, library


@pytest.fixture(scope="session")
def opa() -> Iterator[OpaEngine]:
    if platform.system() != "Linux" or platform.machine() not in {"x86_64", "aarch64"}:
        pytest.skip("the package of OPA's engine is for Linux on x86-64 and ARM")
    engine = OpaEngine(library())
    yield engine
    engine.close()
