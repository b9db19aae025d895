"""PEM as Go's `encoding/pem` reads and writes it: text becomes labelled bytes.

Knows nothing of what the bytes mean. No header begins as a block does: each of many beginnings
would be followed to the end of the text.
"""

from __future__ import annotations

import binascii
import re
from typing import Final

from doorward.base.records import record

__all__ = ["Block", "decode", "decode_all"]

_BLOCK: Final = re.compile(
    r"(?:^|\n)-----BEGIN ([^\r\n]*?)-----[ \t\r]*\n"
    r"((?:(?!-----)[^\n:]+:[^\n]*\n)*+)"
    r"([A-Za-z0-9+/=\s]*?)"
    r"-----END \1-----[ \t\r]*(?:\n|\Z)"
)


@record
class Block:
    """One PEM block: the type in its label, and its bytes."""

    label: str
    octets: bytes
    headers: str = ""


def decode(text: str, start: int = 0) -> tuple[Block | None, int]:
    """Return the first PEM block from position `start` on, and the position after it. Text around
    blocks, and blocks with invalid base64, are skipped. None, and a position without meaning, if
    there is none.
    """
    while match := _BLOCK.search(text, start):
        label, headers, body = match.groups()
        digits = "".join(body.split())
        try:
            return Block(label, binascii.a2b_base64(digits, strict_mode=True), headers), match.end()
        except binascii.Error:
            start = match.end() - 1
    return None, start


def decode_all(text: str) -> tuple[list[Block], str]:
    """All PEM blocks, and the text after the last one; the text between them is dropped."""
    blocks: list[Block] = []
    end = 0
    while True:
        block, after = decode(text, max(end - 1, 0))
        if block is None:
            return blocks, text[end:]
        blocks.append(block)
        end = after
