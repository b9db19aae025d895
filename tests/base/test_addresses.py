"""IP addresses are told from other texts, and never by an exception."""

from __future__ import annotations

import pytest

from doorward.base.addresses import is_ip_address


@pytest.mark.parametrize("text", ["10.0.0.2", "::1", "2001:DB8:0::1", "::ffff:10.0.0.2"])
def test_an_address_in_any_spelling(text: str) -> None:
    assert is_ip_address(text)


@pytest.mark.parametrize("text", ["", "db", "10.0.0", "010.0.0.2", "fe80::1%eth0", "[::1]", "1"])
def test_other_texts_and_zones(text: str) -> None:
    assert not is_ip_address(text)
