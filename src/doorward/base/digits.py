"""Numbers in texts from outside. Python takes digits of all scripts for digits, `int` refuses some
of them and texts of thousands of digits, and protocols know only the ten of ASCII.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LARGEST", "parse_digits"]

LARGEST: Final = 10**18
"""The number for every text whose number is larger."""


def parse_digits(text: str) -> int | None:
    """Return the number that a text of ASCII digits stands for, `LARGEST` for a larger one; None
    for any other text, such as "".
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0")
    return min(int(digits or "0"), LARGEST) if len(digits) < 20 else LARGEST
