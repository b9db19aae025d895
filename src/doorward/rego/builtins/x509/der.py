"""DER, read only: bytes become elements that keep their own bytes.

Lengths must be definite and fit; nothing is decoded that is not asked for. ValueError for what
is not DER.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from doorward.base.records import record

__all__ = ["Element", "read", "read_all"]


_OID_BITS: Final = 128
"""The most bits of one number in an object identifier: those of a UUID. More is a ValueError."""


@record
class Element:
    """One DER element: its tag with class and form, its content, and all its bytes. Its methods
    read the content as one type without a check of the tag; ValueError or IndexError if it is
    malformed.
    """

    tag: int
    content: bytes
    raw: bytes

    def children(self) -> list[Element]:
        """The elements in the content of a constructed element; ValueError if it is not DER."""
        return list(read_all(self.content))

    def integer(self) -> int:
        return int.from_bytes(self.content, "big", signed=True)

    def oid(self) -> tuple[int, ...]:
        """The numbers of the object identifier in this element: `(2, 5, 4, 3)`. ValueError if it is
        truncated or a number has more than `_OID_BITS` bits.
        """
        numbers: list[int] = []
        value = 0
        for octet in self.content:
            value = value << 7 | octet & 0x7F
            if value >> _OID_BITS:
                raise ValueError("DER object identifier is too large")
            if octet < 0x80:
                numbers.append(value)
                value = 0
        if not numbers or self.content[-1] >= 0x80:
            raise ValueError("DER object identifier is cut off")
        first = min(numbers[0] // 40, 2)
        return (first, numbers[0] - 40 * first, *numbers[1:])

    def bits(self) -> bytes:
        """The bytes of a bit string, without the first one, which counts unused bits."""
        return self.content[1:]

    def text(self) -> str:
        """The text of a string element, in the encoding of its tag, UTF-8 by default;
        UnicodeDecodeError if it is not in that encoding.
        """
        if self.tag == 0x1E:
            return self.content.decode("utf-16-be")
        if self.tag == 0x1C:
            return self.content.decode("utf-32-be")
        if self.tag == 0x14:
            return self.content.decode("latin-1")
        return self.content.decode("utf-8")

    def time(self) -> datetime:
        """The time, in UTC, in a UTCTime or GeneralizedTime element. Years of two digits are 1950
        to 2049. ValueError for another form.
        """
        text = self.content.decode("ascii")
        if self.tag == 0x17:
            text = ("19" if text[:2] >= "50" else "20") + text
        form = "%Y%m%d%H%M%SZ" if len(text) == 15 else "%Y%m%d%H%MZ"
        return datetime.strptime(text, form).replace(tzinfo=UTC)


def read(octets: bytes) -> Element:
    """Parse bytes that are exactly one DER element; ValueError if they are not."""
    elements = list(read_all(octets))
    if len(elements) != 1:
        raise ValueError("the DER data must contain exactly one element")
    return elements[0]


def read_all(octets: bytes) -> Iterator[Element]:
    """Yield the DER elements that follow one another in the bytes; ValueError, when it is reached,
    for an invalid one.
    """
    offset = 0
    while offset < len(octets):
        element = _element(octets, offset)
        yield element
        offset += len(element.raw)


def _element(octets: bytes, start: int) -> Element:
    """Parse the element that begins at `start`. ValueError if it is truncated, has a tag of several
    bytes, or an indefinite length.
    """
    if start + 2 > len(octets) or octets[start] & 0x1F == 0x1F:
        raise ValueError("truncated tag or length")
    length, offset = octets[start + 1], start + 2
    if length >= 0x80:
        size = length & 0x7F
        if not 0 < size <= 4 or offset + size > len(octets):
            raise ValueError("truncated tag or length")
        length = int.from_bytes(octets[offset : offset + size], "big")
        offset += size
    end = offset + length
    if end > len(octets):
        raise ValueError("data truncated")
    return Element(octets[start], octets[offset:end], octets[start:end])
