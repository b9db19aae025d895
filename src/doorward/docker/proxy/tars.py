"""Tar archives on their way: their entries are read strictly, whatever holds their contents passes.

    bytes -> (gunzipped) -> blocks -> headers -> entries

Nothing is buffered but headers and the contents that are asked for. What the daemon's reader could
take otherwise is a `TarError`: unknown kinds, sparse files, headers of old formats, unknown or
repeated extended attributes, sizes where there is no content, another compression than gzip.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

__all__ = [
    "DEVICES",
    "FILE",
    "FOLDER",
    "LINK",
    "Entry",
    "Gunzip",
    "TarError",
    "TarReader",
    "is_gzip",
]

BLOCK: Final = 512
MOST_EXTENDED: Final = 64 * 1024
"""Bytes of the attributes of an entry, or of its long name."""
PIECE: Final = 256 * 1024
"""Bytes that are decompressed at once."""
GZIP: Final = b"\x1f\x8b\x08"
_GZIP: Final = 31
"""The window of zlib for a gzip file."""
_ZEROS: Final = bytes(BLOCK)
_POSIX: Final = b"ustar\x0000"
_GNU: Final = b"ustar  \x00"
_OCTAL: Final = re.compile(rb"[0-7]{0,12}")
_PADDING: Final = b" \0"
"""Around the digits of a number."""
_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ([^=\n]+)=")
_DIGITS: Final = re.compile(rb"[0-9]{1,15}")
_ATTRIBUTES: Final = frozenset(
    b"atime comment ctime gid gname linkpath mtime path size uid uname".split()
)
_PREFIXES: Final = (b"SCHILY.xattr.", b"LIBARCHIVE.xattr.")
_OTHERS: Final = frozenset(
    [b"LIBARCHIVE.creationtime", b"SCHILY.dev", b"SCHILY.fflags", b"SCHILY.ino", b"SCHILY.nlink"]
)
_CAPABILITY: Final = b"SCHILY.xattr.security.capability"
FILE: Final = b"0"
HARD_LINK: Final = b"1"
LINK: Final = b"2"
DEVICES: Final = (b"3", b"4")
FOLDER: Final = b"5"
_FIFO: Final = b"6"
_EXTENDED: Final = b"x"
_GLOBAL: Final = b"g"
_LONG_NAME: Final = b"L"
_LONG_LINK: Final = b"K"
_EMPTY: Final = frozenset([HARD_LINK, LINK, *DEVICES, FOLDER, _FIFO])
"""Kinds that have no content."""
_PRINTABLE: Final = re.compile(rb"[!-~]{1,4}")
_BZIP2: Final = b"BZh"


class TarError(Exception):
    """An archive that readers could take differently, or something else than an archive."""


class Entry(NamedTuple):
    """One entry of an archive; the name is unchanged, not normalized."""

    name: bytes
    kind: bytes
    """One of `FILE`, `HARD_LINK`, `LINK`, `DEVICES`, `FOLDER`, or a FIFO."""
    link: bytes
    size: int
    mode: int
    has_capabilities: bool


class TarReader:
    """Reads an archive in pieces; `on_entry` says whether the content of an entry is kept."""

    def __init__(self, on_entry: Callable[[Entry], bool]) -> None:
        self._on_entry = on_entry
        self._head = b""
        self._skip = 0
        """Bytes until the next header."""
        self._kept: bytearray | None = None
        self._wanted = 0
        self._of_extension = b""
        self._attributes: dict[bytes, bytes] = {}
        self._long: dict[bytes, bytes] = {}
        self._is_first = True
        self.content = b""
        """The content of the last entry for which `on_entry` returned True."""
        self.ended = False
        """True after the end of the archive, behind which all bytes are ignored."""

    @property
    def may_be_ending(self) -> bool:
        """True if the archive has ended, or if a block that may be its end is not complete."""
        return self.ended or bool(self._head)

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the archive, and call `on_entry` for each entry whose header is
        complete.

        Raise TarError for a malformed archive; errors of `on_entry` pass through. Bytes behind the
        end are ignored.
        """
        at = 0
        while at < len(data) and not self.ended:
            if self._skip:
                at = self._read_content(data, at)
                continue
            take = BLOCK * (2 if self._head[:BLOCK] == _ZEROS else 1) - len(self._head)
            self._head += data[at : at + take]
            at += take
            self._read_block()

    def close(self) -> None:
        """End the archive; raise TarError if an entry is cut, there was no entry, or attributes
        have no entry behind them.
        """
        if self._skip or (self._head and self._head != _ZEROS) or self._is_first:
            raise TarError("archive is cut")
        self._check_end()

    def _read_content(self, data: bytes, at: int) -> int:
        """Skip or store the content of the current entry that `data` has from offset `at` on.
        Return the offset behind it. Complete content becomes `content`, or is read as an extension.
        """
        piece = data[at : at + self._skip] if self._kept is not None else b""
        size = min(self._skip, len(data) - at)
        self._skip -= size
        if self._kept is not None:
            self._kept += piece
            if not self._skip:
                content, self._kept = bytes(self._kept[: self._wanted]), None
                if self._of_extension:
                    self._read_extension(content)
                else:
                    self.content = content
        return at + size

    def _read_block(self) -> None:
        """Handle `_head` if it is a header block or the two empty blocks that end an archive; wait
        for more bytes otherwise. Raise TarError for a malformed header, a single empty block and an
        archive without entries.
        """
        block = self._head
        # The daemon's reader wants two empty blocks at the end.
        if len(block) < BLOCK or (block[:BLOCK] == _ZEROS and len(block) < 2 * BLOCK):
            return
        if len(block) == 2 * BLOCK:
            if block != _ZEROS * 2:
                raise TarError("archive has data after an empty block, which should end it")
            if self._is_first:
                raise TarError("archive has no entries")
            self._check_end()
            self._head = b""
            self.ended = True
            return
        self._head = b""
        self._read_header(block)
        self._is_first = False

    def _check_end(self) -> None:
        """Raise TarError if the archive ends between an entry's attributes and the entry."""
        if self._attributes or self._long:
            raise TarError(
                "archive ends after the attributes (pax or GNU) of an entry, without the entry"
            )

    def _read_header(self, block: bytes) -> None:
        """Read a header block, and begin the entry, or the attributes of the next one, that it
        describes. Raise TarError if its checksum is wrong, or it is malformed, of an old format, or
        the first of the archive and begins like another file format. Errors of `on_entry` pass
        through.
        """
        checksum = block[148:156]
        # POSIX: the sum of all bytes of the header, with blanks in place of the checksum.
        if _octal(checksum) != sum(block) - sum(checksum) + len(checksum) * ord(" "):
            raise TarError("body is not a tar archive, or is compressed by other means than gzip")
        # The daemon tells a compressed archive by its first bytes, which are those of this name.
        if self._is_first:
            start = block[:4].rstrip(b"\0")
            if not _PRINTABLE.fullmatch(start) or start.startswith(_BZIP2):
                raise TarError(
                    "name of the archive's first entry begins like another file format: rename it"
                )
        magic = block[257:265]
        if magic not in (_POSIX, _GNU):
            raise TarError("archive has headers of an old format: write it as ustar, pax or GNU")
        kind = block[156:157]
        if kind == b"\0":
            kind = FILE
        size = _number(block[124:136])
        name, link = _text(block[:100]), _text(block[157:257])
        prefix = block[345:500]
        if magic == _POSIX:
            if _text(prefix):
                name = _text(prefix) + b"/" + name
        # In GNU's format, times and the map of a sparse file stand there.
        elif prefix.strip(b"\0"):
            raise TarError("archive has headers of an old format: write it as ustar, pax or GNU")
        # The mark of star's format, which Go's reader takes apart in another way.
        if block[508:512] == b"tar\0":
            raise TarError("archive has headers of an old format: write it as ustar, pax or GNU")
        if kind in (_EXTENDED, _GLOBAL, _LONG_NAME, _LONG_LINK):
            self._begin_extension(kind, size)
            return
        self._begin_entry(name, kind, link, size, _number(block[100:108]))

    def _begin_extension(self, kind: bytes, size: int) -> None:
        """Prepare to read `size` bytes of content that belong to the next entry, or to all: a long
        name (`L`), a long link (`K`) or pax attributes (`x`, `g`), as `kind` says. Raise TarError
        if they are empty, larger than `MOST_EXTENDED` or repeated for one entry.
        """
        if not 0 < size <= MOST_EXTENDED:
            raise TarError(
                "attributes (pax or GNU) of an archive entry are empty, or larger "
                f"than {MOST_EXTENDED} bytes"
            )
        if kind in self._long or (kind in (_EXTENDED, _GLOBAL) and self._attributes):
            raise TarError("attributes (pax or GNU) of an archive entry are repeated")
        self._of_extension = kind
        self._expect(size, keep=True)

    def _expect(self, size: int, *, keep: bool) -> None:
        """Set that the next `size` bytes, and the padding to whole blocks, are content; `keep` says
        if the content is stored or skipped.
        """
        self._wanted = size
        self._skip = -(-size // BLOCK) * BLOCK
        self._kept = bytearray() if keep and size else None
        if keep and not size:
            self.content = b""

    def _read_extension(self, content: bytes) -> None:
        """Store the long name, long link or pax attributes of the next entry.

        Raise TarError for a NUL within a name, for malformed or unknown attributes, and for global
        attributes other than a comment.
        """
        kind, self._of_extension = self._of_extension, b""
        if kind in (_LONG_NAME, _LONG_LINK):
            # A reader that ends the name at the NUL would see another file.
            if content.find(b"\0") not in (-1, len(content) - 1):
                raise TarError("name of an archive entry has a NUL")
            self._long[kind] = content.rstrip(b"\0")
            return
        attributes = dict(_read_attributes(content))
        if kind == _GLOBAL:
            if self._long or attributes.keys() - {b"comment"}:
                raise TarError("archive has global attributes (pax), which are not supported")
            return
        self._attributes = attributes

    def _begin_entry(self, name: bytes, kind: bytes, link: bytes, size: int, mode: int) -> None:
        """Report an entry to `on_entry`, and prepare to store its content if that returns True,
        else to skip it. Name, link and size of its header are replaced by those of the extensions
        before it.

        Raise TarError if pax and GNU extensions are mixed, for unknown kinds, and for names or
        sizes that readers see differently.
        """
        attributes, self._attributes = self._attributes, {}
        long, self._long = self._long, {}
        # Which of the two names counts depends on the reader.
        if attributes and long:
            raise TarError("archive mixes the GNU and pax formats in one entry")
        name = attributes.get(b"path", long.get(_LONG_NAME, name))
        link = attributes.get(b"linkpath", long.get(_LONG_LINK, link))
        if b"size" in attributes:
            if not _DIGITS.fullmatch(attributes[b"size"]):
                raise TarError("size of an archive entry is not a number")
            size = int(attributes[b"size"])
        if kind != FILE and kind not in _EMPTY:
            raise TarError("archive has an entry that is not a file, folder, link or device")
        # Some readers skip that many bytes, and others read them as the next header.
        if kind in _EMPTY and size:
            raise TarError("archive entry that is a folder, link or device has a size")
        if not name or b"\0" in name or b"\0" in link or (kind == FILE and name.endswith(b"/")):
            raise TarError(
                "archive entry has an empty name, a folder's name, or a NUL in its name or link"
            )
        entry = Entry(name, kind, link, size, mode, _CAPABILITY in attributes)
        self._expect(size, keep=self._on_entry(entry))


def _text(content: bytes) -> bytes:
    """Return the bytes of a header's field before its first NUL."""
    return content.partition(b"\0")[0]


def _number(content: bytes) -> int:
    """Return a number of a header; TarError if it is not octal."""
    number = _octal(content)
    if number is None:
        raise TarError("number in an archive header is not octal")
    return number


def _octal(content: bytes) -> int | None:
    """Return the number in a field of a header, 0 for an empty one; None if it is not octal."""
    digits = content.strip(_PADDING)
    return int(digits or b"0", 8) if _OCTAL.fullmatch(digits) else None


def _read_attributes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and value of each attribute in the content of a pax header. Raise TarError at the
    first one that is malformed, unknown, empty or repeated, or has a NUL where that is not allowed;
    those before it were yielded.
    """
    seen = set()
    while content:
        match = _RECORD.match(content)
        size = int(match[1]) if match else 0
        if match is None or size > len(content) or content[size - 1 : size] != b"\n":
            raise TarError("attributes (pax) of an archive entry cannot be read")
        name, value = match[2], content[match.end() : size - 1]
        is_known = name in _ATTRIBUTES or name in _OTHERS or name.startswith(_PREFIXES)
        if not is_known or name in seen or not value:
            raise TarError("attribute (pax) of an archive entry is unknown, empty or repeated")
        if b"\0" in value and name in _ATTRIBUTES:
            raise TarError("attribute (pax) of an archive entry has a NUL")
        seen.add(name)
        yield name, value
        content = content[size:]


def is_gzip(content: bytes) -> bool:
    """Return True if the daemon takes content that begins so for gzip."""
    return content.startswith(GZIP)


class Gunzip:
    """Decompresses the members of a gzip file in pieces."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._rest = b""
        """Bytes after a gzip member, too few to tell if another member begins."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next data and yield its content, at most `PIECE` bytes each time; several
        gzip members may follow each other. Bytes that may begin another member are kept for the
        next call.

        Raise TarError if the data is not gzip or something else follows.
        """
        data = self._rest + data
        self._rest = b""
        while data:
            if self._member.eof:
                if len(data) < len(GZIP):
                    self._rest = data
                    return
                if not is_gzip(data):
                    raise TarError("data other than gzip follows the gzip archive")
                self._member = zlib.decompressobj(_GZIP)
            try:
                # A bound for each step: a thousandfold of what came must not be in memory at once.
                piece = self._member.decompress(data, PIECE)
            except zlib.error:
                raise TarError("gzip data is damaged") from None
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if piece:
                yield piece

    def close(self) -> None:
        """End the file; raise TarError if it is cut."""
        if not self._member.eof or self._rest:
            raise TarError("gzip is cut")
