"""What tests of the language share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """What other tests left behind is not collected on the time of this one."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
