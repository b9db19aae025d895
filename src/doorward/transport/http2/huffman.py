"""The Huffman code of RFC 7541, appendix B, decoded four bits at a time.

The code is canonical: the lengths of the 257 codes determine it. The decoder is a table of states,
one for each inner node of the code's tree, with sixteen transitions each. It is built when the
first encoded string arrives.
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

__all__ = ["HuffmanError", "decode"]

# fmt: off
LENGTHS: Final = bytes((
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
))
# fmt: on
"""The number of bits in the code of each octet, and of the end-of-string symbol (256)."""

EOS: Final = 256
# RFC 7541, 5.2: longer padding is an error, since it could hide an octet.
_MAX_PADDING: Final = 7

Transition: TypeAlias = tuple[int, bytes]
"""The next state, and the octets that the four bits complete; a negative state is an error."""


class HuffmanError(ValueError):
    """Bits that are not a string of the Huffman code."""


def decode(data: bytes) -> bytes:
    """Return the bytes that `data` encodes in HPACK's Huffman code (RFC 7541, appendix B). Raise
    HuffmanError if it contains the end-of-string symbol, or the bits after the last symbol are more
    than seven or not all ones.
    """
    states, accepted = _table()
    state = 0
    octets: list[bytes] = []
    for byte in data:
        state, octet = states[state][byte >> 4]
        if octet:
            octets.append(octet)
        # A state of -1 or less must not be an index: Python would count it from the end.
        if state >= 0:
            state, octet = states[state][byte & 15]
            if octet:
                octets.append(octet)
        if state < 0:
            raise HuffmanError("Huffman-coded string contains the end-of-string symbol")
    if state not in accepted:
        raise HuffmanError(
            "padding of a Huffman-coded string is not a prefix of the end-of-string symbol"
        )
    return b"".join(octets)


@cache
def _table() -> tuple[list[list[Transition]], frozenset[int]]:
    """Return for each state its sixteen transitions, by the value of four bits, and the states in
    which a string may end.
    """
    left, right, padding = _tree()
    branches = (left, right)
    states: list[list[Transition]] = []
    for state in range(len(left)):
        row: list[Transition] = []
        for nibble in range(16):
            node, octets = state, b""
            for shift in (3, 2, 1, 0):
                node = branches[nibble >> shift & 1][node]
                if node < 0:
                    symbol = -node - 1
                    # RFC 7541, 5.2: the whole EOS in a string is an error; `node` stays
                    # negative to say so.
                    if symbol == EOS:
                        break
                    octets += bytes((symbol,))
                    node = 0
            row.append((node, octets))
        states.append(row)
    return states, padding


def _tree() -> tuple[list[int], list[int], frozenset[int]]:
    """Return the left and right children of the inner nodes, and the nodes that padding leads to.

    A leaf is `-1 - symbol`.
    """
    left, right = [0], [0]
    code = length = 0
    # The order of a canonical code: by length, then by symbol.
    for symbol in sorted(range(len(LENGTHS)), key=lambda each: (LENGTHS[each], each)):
        code <<= LENGTHS[symbol] - length
        length = LENGTHS[symbol]
        node = 0
        for shift in range(length - 1, 0, -1):
            branch = right if code >> shift & 1 else left
            # 0 means no child: the root is nobody's child.
            if branch[node] == 0:
                branch[node] = len(left)
                left.append(0)
                right.append(0)
            node = branch[node]
        (right if code & 1 else left)[node] = -symbol - 1
        code += 1
    # EOS is all ones, and so are its prefixes, which are the padding.
    padding, node = [0], 0
    for _ in range(_MAX_PADDING):
        node = right[node]
        padding.append(node)
    return left, right, frozenset(padding)
