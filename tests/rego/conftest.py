"""What tests of the language share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture
def quiet() -> None:
    """What other tests left behind is not collected on the time of this one, nor visited again."""
    gc.collect()
    gc.freeze()
