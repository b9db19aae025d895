"""Numbers in texts: ASCII digits only, and never an exception."""

from __future__ import annotations

import pytest

from doorward.base.digits import LARGEST, parse_digits


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("007", 7), ("8080", 8080), ("0" * 9000 + "5", 5)),
        *((str(LARGEST - 1), LARGEST - 1), (str(LARGEST), LARGEST), (str(LARGEST + 1), LARGEST)),
        *(("1" * 19, LARGEST), ("1" * 20, LARGEST), ("9" * 9000, LARGEST)),
        *((text, None) for text in ("", "-1", "+1", "1 ", "1_0", "1.0", "²", "٣", "1٣", "0x1")),
    ],
)
def test_digits_are_a_number(text: str, number: int | None) -> None:
    assert parse_digits(text) == number
