"""The core and the package `h2` agree on random sequences of frames."""

from __future__ import annotations

import pytest
from tests.transport.http2.differential import compare


@pytest.mark.parametrize("start", range(0, 4000, 500))
def test_random_sequences_end_as_in_h2(start: int) -> None:
    differences = [compare(seed) for seed in range(start, start + 500)]
    assert [each for each in differences if each is not None] == []
