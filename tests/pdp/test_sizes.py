"""What a text costs in memory is known before its values are made."""

from __future__ import annotations

from doorward.pdp.sizes import estimate_memory


def test_small_values_cost_far_more_than_their_text() -> None:
    text = b"[" + b"[]," * 1_000 + b"[]]"
    assert 30 * len(text) < estimate_memory(text) < 60 * len(text)


def test_a_text_without_values_costs_its_length() -> None:
    assert estimate_memory(b"") == 0
    assert estimate_memory(b"x" * 1_000) == 1_000
