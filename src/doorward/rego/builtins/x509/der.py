"""DER, read only: bytes become elements that keep their own bytes.

Lengths must be definite, minimal, and fit; nothing is decoded that is not asked for. `Reader` reads
elements one after the other and each only in its canonical form, as certificates are read.
ValueError for what is not DER.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final, TypeAlias

from doorward.base.records import record

__all__ = ["Element", "Oid", "Reader", "read", "read_all"]

Oid: TypeAlias = tuple[int, ...]

BOOLEAN: Final = 0x01
INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31
"""Tags, with the bit of constructed elements."""


OID_BITS: Final = 31
"""The most bits of one number in an object identifier, but for those of policies."""


@record
class Element:
    """One DER element: its tag with class and form, its content, and all its bytes."""

    tag: int
    content: bytes
    raw: bytes

    def children(self) -> list[Element]:
        """The elements in the content of a constructed element; ValueError if it is not DER."""
        return list(read_all(self.content))

    def oid(self) -> Oid:
        """The numbers of the object identifier in this element: `(2, 5, 4, 3)`. ValueError if it is
        malformed, or a number has more than 31 bits.
        """
        numbers = oid_numbers(self.content, OID_BITS)
        if numbers is None:
            raise ValueError("malformed object identifier")
        return numbers


class Reader:
    """Reads the elements in some bytes, each with the tag that is expected. Each method raises
    ValueError, with the message that it is given, if the next element is another or malformed.
    """

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._offset = 0

    @property
    def is_empty(self) -> bool:
        return self._offset >= len(self._octets)

    def peek(self, tag: int) -> bool:
        """Return True if the next element has this tag."""
        return not self.is_empty and self._octets[self._offset] == tag

    def any(self, fault: str) -> Element:
        """Read and return the next element, whatever its tag; ValueError with the text `fault` if
        it is malformed or missing.
        """
        try:
            element = _element(self._octets, self._offset)
        except ValueError:
            raise ValueError(fault) from None
        self._offset += len(element.raw)
        return element

    def element(self, tag: int, fault: str) -> Element:
        """Read the next element, which must have this tag, and return it. ValueError with the
        message `fault` if it has another one, is malformed, or is not there.
        """
        if not self.peek(tag):
            raise ValueError(fault)
        return self.any(fault)

    def optional(self, tag: int, fault: str) -> Element | None:
        """Read and return the next element if it has this tag; else return None."""
        return self.any(fault) if self.peek(tag) else None

    def inside(self, tag: int, fault: str) -> Reader:
        """Read the next element, which must have this tag; return a reader of its content.
        ValueError with the message `fault` if it has another one, is malformed, or is not there.
        """
        return Reader(self.element(tag, fault).content)

    def integer(self, fault: str, tag: int = INTEGER) -> int:
        """Read the next element, which must be an integer of the tag `tag`, written with as few
        bytes as possible, and return it; it may be negative. ValueError with the message `fault`
        otherwise.
        """
        content = self.element(tag, fault).content
        # A first byte of sign bits alone is one too many if the next one begins with that bit.
        padded = len(content) > 1 and content[0] in (0, 0xFF)
        if not content or (padded and (content[0] ^ content[1]) < 0x80):
            raise ValueError(fault)
        return int.from_bytes(content, "big", signed=True)

    def small_integer(self, fault: str, tag: int = INTEGER) -> int:
        """Read the next element, which must be an integer of the tag `tag`, written with as few
        bytes as possible and of at most 64 bits, and return it. ValueError with the message `fault`
        otherwise.
        """
        number = self.integer(fault, tag)
        if not -(1 << 63) <= number < 1 << 63:
            raise ValueError(fault)
        return number

    def boolean(self, fault: str) -> bool:
        """Read the next element, which must be a boolean, and return True for 0xFF and False for
        0x00. ValueError with the message `fault` for another value or element.
        """
        content = self.element(BOOLEAN, fault).content
        if content not in (b"\x00", b"\xff"):
            raise ValueError(fault)
        return content == b"\xff"

    def bits(self, fault: str) -> tuple[bytes, int]:
        """Read the next element, a bit string; return its bytes, and how many bits at the end of
        the last one are unused (0 to 7); these bits must be 0. ValueError with the message `fault`
        otherwise.
        """
        content = self.element(BIT_STRING, fault).content
        if not content:
            raise ValueError(fault)
        unused, octets = content[0], content[1:]
        if unused > 7 or (unused and (not octets or octets[-1] & ((1 << unused) - 1))):
            raise ValueError(fault)
        return octets, unused

    def oid(self, fault: str) -> Oid:
        """Read the next object identifier and return its numbers, each minimal and of at most 31
        bits. ValueError with the text `fault` if there is none.
        """
        numbers = oid_numbers(self.element(OBJECT_IDENTIFIER, fault).content, OID_BITS)
        if numbers is None:
            raise ValueError(fault)
        return numbers

    def time(self, fault: str) -> datetime:
        """Read and return the next time, in its own zone: UTCTime, with seconds or without, or
        GeneralizedTime. ValueError with the text `fault` if there is none, or if it would be
        written in another way.
        """
        tag = UTC_TIME if self.peek(UTC_TIME) else GENERALIZED_TIME
        content = self.element(tag, fault).content
        moment = _read_time(content, tag)
        if moment is None:
            raise ValueError(fault)
        return moment


def oid_numbers(content: bytes, bits: int | None = None) -> Oid | None:
    """Return the numbers in the content of an object identifier; None if it is empty or cut off, if
    a number is not minimal, or if one has more than `bits` bits (None: any number of them).
    """
    numbers: list[int] = []
    value, is_first = 0, True
    for octet in content:
        if is_first and octet == 0x80:
            return None
        value = value << 7 | octet & 0x7F
        is_first = octet < 0x80
        if bits is not None and value >> bits:
            return None
        if is_first:
            numbers.append(value)
            value = 0
    if not numbers or not is_first:
        return None
    # The first number stands for two: 40 times 0, 1 or 2, and the second.
    first = min(numbers[0] // 40, 2)
    return (first, numbers[0] - 40 * first, *numbers[1:])


_UTC_FORM: Final = re.compile(rb"(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?(Z|[+-]\d\d\d\d)")
_GENERALIZED_FORM: Final = re.compile(rb"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(Z|[+-]\d\d\d\d)")


def _read_time(content: bytes, tag: int) -> datetime | None:
    """Return the time in the content of an element of the kind `tag`, UTC_TIME (years 1950 to 2049)
    or else a generalized time; None for another form, a date or time that does not exist, a zone of
    +0000, or a year that Python does not know.
    """
    if tag == UTC_TIME:
        match = _UTC_FORM.fullmatch(content)
    else:
        match = _GENERALIZED_FORM.fullmatch(content)
    if match is None:
        return None
    year, month, day, hour, minute, second = [int(part or 0) for part in match.groups()[:6]]
    if tag == UTC_TIME:
        year += 2000 if year < 50 else 1900
    zone = match[7].decode()
    offset = timedelta()
    if zone != "Z":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:]))
        if not offset or int(zone[3:]) > 59 or offset >= timedelta(hours=24):
            return None
        offset = -offset if zone[0] == "-" else offset
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError:
        return None


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
    """Return the DER element that begins at `start`, with its tag, content and all of its bytes;
    what follows it is not looked at. ValueError if it is truncated, has a tag of several bytes, or
    a length that is indefinite, not minimal or of more than four bytes.
    """
    if start + 2 > len(octets) or octets[start] & 0x1F == 0x1F:
        raise ValueError("truncated tag or length")
    length, offset = octets[start + 1], start + 2
    if length >= 0x80:
        size = length & 0x7F
        if not 0 < size <= 4 or offset + size > len(octets):
            raise ValueError("truncated tag or length")
        length = int.from_bytes(octets[offset : offset + size], "big")
        if length < 0x80 or not octets[offset]:
            raise ValueError("non-minimal length")
        offset += size
    end = offset + length
    if end > len(octets):
        raise ValueError("data truncated")
    return Element(octets[start], octets[offset:end], octets[start:end])
