"""Header compression (RFC 7541): blocks are decoded with a dynamic table, encoded without one.

The encoder is stateless: responses are few and constant, so they are written as literals that the
peer does not index. `Decoder.revision` changes with the dynamic table; between two changes equal
blocks have equal meanings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from doorward.transport.http2 import huffman

__all__ = ["Decoder", "Header", "HpackError", "encode"]

Header: TypeAlias = tuple[bytes, bytes]

ENTRY_OVERHEAD: Final = 32
"""The bytes that RFC 7541 counts for an entry besides its name and value."""
MOST_OVER: Final = 4
"""Decoding stops at this multiple of the list limit: 14 kB of indices can stand for 54 MB of
fields."""
MAX_INTEGER_BYTES: Final = 5
"""The largest number of continuation bytes of an integer: no length or index needs 2**35."""

# fmt: off
STATIC: Final[tuple[Header, ...]] = (
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"),
    (b":path", b"/index.html"), (b":scheme", b"http"), (b":scheme", b"https"),
    (b":status", b"200"), (b":status", b"204"), (b":status", b"206"), (b":status", b"304"),
    (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""),
    (b"accept", b""), (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""),
    (b"authorization", b""), (b"cache-control", b""), (b"content-disposition", b""),
    (b"content-encoding", b""), (b"content-language", b""), (b"content-length", b""),
    (b"content-location", b""), (b"content-range", b""), (b"content-type", b""), (b"cookie", b""),
    (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""),
    (b"if-range", b""), (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""),
    (b"location", b""), (b"max-forwards", b""), (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""), (b"range", b""), (b"referer", b""), (b"refresh", b""),
    (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""),
    (b"strict-transport-security", b""), (b"transfer-encoding", b""), (b"user-agent", b""),
    (b"vary", b""), (b"via", b""), (b"www-authenticate", b""),
)
# fmt: on
"""The static table of RFC 7541, appendix A; its first entry has index 1."""

_STATIC_INDEX: Final = {header: index for index, header in enumerate(STATIC, 1)}
# Reversed, so that the first of several entries with one name wins.
_STATIC_NAME: Final = {name: index for index, (name, _) in reversed([*enumerate(STATIC, 1)])}


class HpackError(ValueError):
    """The block cannot be decoded; the connection's tables no longer agree."""


class Decoder:
    """The decoder of one connection with its dynamic table; `revision` changes when the table
    does.
    """

    __slots__ = ("_entries", "_limit", "_max_size", "_size", "revision")

    def __init__(self, max_size: int) -> None:
        """Begin with an empty table of at most `max_size` bytes, the size that we announced; the
        peer may make it smaller.
        """
        self._entries: list[Header] = []
        self._size = 0
        self._limit = max_size
        self._max_size = max_size
        self.revision = 0

    def decode(self, block: bytes, max_list_size: int) -> tuple[list[Header], int]:
        """Return the fields of a block, and the size of the list as RFC 7541 counts it.

        Fields past `max_list_size` are left out, though the table still learns them: a larger size
        means that the list is incomplete. Raise HpackError if the block is malformed or the list
        far too large.
        """
        headers: list[Header] = []
        size = position = 0
        may_resize = True
        end = len(block)
        while position < end:
            first = block[position]
            # RFC 7541, 6: the leading bits are 1 (indexed), 01 (literal, into the table), 001 (size
            # update), and 0000 or 0001 (literal, not or never into it).
            if first & 0x80:
                index, position = _integer(block, position, 0x7F)
                header = self._entry(index)
            elif first & 0x60 == 0x20:
                # A size update stands only at the beginning of a block (RFC 7541, section 4.2).
                if not may_resize:
                    raise HpackError("table size update after a header field")
                new, position = _integer(block, position, 0x1F)
                self._resize(new)
                continue
            else:
                header, position = self._literal(block, position, first)
            may_resize = False
            # Indexed fields count in full as well: a byte may stand for 4 kB.
            size += len(header[0]) + len(header[1]) + ENTRY_OVERHEAD
            if size <= max_list_size:
                headers.append(header)
            elif size > MOST_OVER * max_list_size:
                raise HpackError("header list is far too large")
        return headers, size

    def _literal(self, block: bytes, position: int, first: int) -> tuple[Header, int]:
        """Return the literal field at `position`, whose first byte is `first`, and the position
        after it (RFC 7541, 6.2). The field is added to the dynamic table if its first byte says so.
        Raise HpackError if it is malformed or its name refers to no entry.
        """
        indexed = first & 0x40
        # Never indexed reads like not indexed: it binds who encodes a field again (RFC
        # 7541, 6.2.3).
        index, position = _integer(block, position, 0x3F if indexed else 0x0F)
        # The name is read before `_add`, which may evict its entry (RFC 7541, 4.4).
        if index:
            name = self._entry(index)[0]
        else:
            name, position = _string(block, position)
        value, position = _string(block, position)
        if indexed:
            self._add((name, value))
        return (name, value), position

    def _entry(self, index: int) -> Header:
        """Return an entry of the static or dynamic table; HpackError if there is none (RFC 7541,
        2.3.3).
        """
        if 0 < index <= len(STATIC):
            return STATIC[index - 1]
        if 0 < index <= len(STATIC) + len(self._entries):
            return self._entries[index - len(STATIC) - 1]
        raise HpackError(f"header table has no entry {index}")

    def _add(self, header: Header) -> None:
        """Add a field to the front of the table, evicting old ones; one larger than the table
        empties it (section 4.4).
        """
        self.revision += 1
        self._size += len(header[0]) + len(header[1]) + ENTRY_OVERHEAD
        # A list will do: an entry counts 32 bytes, so the table has 128 of them at most.
        self._entries.insert(0, header)
        self._evict()

    def _resize(self, size: int) -> None:
        """Apply the peer's update of the dynamic table's size to `size` bytes (RFC 7541, 6.3), and
        evict the oldest entries that no longer fit. Raise HpackError if it is larger than the size
        that we announced.
        """
        # The setting is ours and never changes, so an update above it is an attack or a fault.
        if size > self._limit:
            raise HpackError("table size update above SETTINGS_HEADER_TABLE_SIZE")
        if size != self._max_size:
            self.revision += 1
            self._max_size = size
            self._evict()

    def _evict(self) -> None:
        """Remove the oldest entries of the dynamic table until it is within its size (RFC 7541,
        section 4.3).
        """
        while self._size > self._max_size:
            name, value = self._entries.pop()
            self._size -= len(name) + len(value) + ENTRY_OVERHEAD


def _integer(block: bytes, position: int, prefix: int) -> tuple[int, int]:
    """Return an integer and the position after it (RFC 7541, 5.1).

    `prefix` masks the integer's bits in the first byte. Raise HpackError if it is cut off or too
    large.
    """
    value = block[position] & prefix
    position += 1
    if value < prefix:
        return value, position
    shift = 0
    # The slice ends the loop at the end of the block, too, which is the same error.
    for byte in block[position : position + MAX_INTEGER_BYTES]:
        position += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise HpackError("header block has an integer that is cut off or too large")


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    """Return the string at `position`, Huffman-decoded if it is marked so, and the position after
    it (RFC 7541, 5.2). Raise HpackError if it is cut off or its Huffman code is malformed.
    """
    if position >= len(block):
        raise HpackError("string is cut")
    encoded = block[position] & 0x80
    length, position = _integer(block, position, 0x7F)
    end = position + length
    if end > len(block):
        raise HpackError("string is cut")
    text = block[position:end]
    if encoded:
        try:
            return huffman.decode(text), end
        except huffman.HuffmanError as error:
            raise HpackError(str(error)) from None
    return text, end


def encode(headers: Iterable[Header]) -> bytes:
    """Return a header block that needs no dynamic table and does not change the peer's."""
    block = bytearray()
    for name, value in headers:
        index = _STATIC_INDEX.get((name, value))
        if index is not None:
            block += _encode_integer(index, 0x7F, 0x80)
            continue
        index = _STATIC_NAME.get(name, 0)
        block += _encode_integer(index, 0x0F, 0x00)
        if not index:
            block += _encode_integer(len(name), 0x7F, 0x00) + name
        block += _encode_integer(len(value), 0x7F, 0x00) + value
    return bytes(block)


def _encode_integer(value: int, prefix: int, pattern: int) -> bytes:
    """Return an integer in HPACK's form, with the bits `pattern` before the prefix (RFC 7541,
    5.1).
    """
    if value < prefix:
        return bytes((pattern | value,))
    encoded = bytearray((pattern | prefix,))
    value -= prefix
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
