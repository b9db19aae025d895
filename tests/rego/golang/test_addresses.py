"""IP addresses, in the forms that Go reads and refuses."""

from __future__ import annotations

import pytest

from doorward.rego.golang.addresses import MAPPED, parse_ip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.0.0.1", MAPPED + 1),
        ("::ffff:0.0.0.1", MAPPED + 1),
        ("::1", 1),
        ("1::", 1 << 112),
        ("", None),
        ("1.2.3", None),
        ("1.2.3.04", None),
        ("1.2.3.4\0", None),
        ("1.2.3.٤", None),
        ("fe80::1%eth0", None),
        ("10.0.0.0/8", None),
    ],
)
def test_an_address_is_a_number(text: str, number: int | None) -> None:
    assert parse_ip(text) == number
