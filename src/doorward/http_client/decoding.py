"""Decode bodies of responses in steps of a bounded size.

Libraries decode each received piece as a whole: 64 kB of gzip may become 66 MB, and nested
encodings multiply this. Here a step returns at most `STEP` bytes, so that a caller that counts them
can stop in time, and a response may have only one encoding.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Protocol

__all__ = ["MAX_MEMBERS", "STEP", "DecodingError", "Response", "decoded", "decoded_body"]

STEP: Final = 1 << 18
MAX_MEMBERS: Final = 10_000
"""The largest number of gzip members in a body: many without content would take much time."""
_SLICE: Final = 1 << 16
# The `wbits` of zlib: 31 stands for the header of gzip, 15 for that of zlib.
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class DecodingError(Exception):
    """A body that is not in the encoding that its header names, or in an unsupported one."""


class Response(Protocol):
    """The part of httpx's response that decoding needs."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...

    is_stream_consumed: bool

    def iter_raw(self) -> Iterator[bytes]: ...


def decoded_body(response: Response) -> Iterator[bytes]:
    """Return an iterator over the decoded body of a response. It raises DecodingError if the
    content encoding is not supported, or the body is invalid or truncated. A body that httpx has
    already read is returned in one piece, as httpx decoded it.
    """
    if response.is_stream_consumed:  # a transport without a network has read it
        return iter((response.content,))
    return decoded(response.iter_raw(), response.headers.get("content-encoding", ""))


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the body without its content encoding, in pieces of at most `STEP` bytes if it was
    compressed. Raise DecodingError if the encoding is unknown, or the body is invalid, truncated or
    gzip of more than `MAX_MEMBERS` members. What follows the data of `deflate` is ignored.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        yield from pieces
        return
    if name not in _WINDOWS:
        raise DecodingError(
            f"the response has the content encoding `{name[:40]}`, which is neither gzip nor "
            "deflate"
        )
    rest = iter(pieces)
    # Two bytes tell the formats of `deflate` apart; a server may send the first one alone.
    begin = b""
    while len(begin) < 2 and (piece := next(rest, None)) is not None:
        begin += piece
    if not begin:
        return
    # RFC 9110, 8.4.1.2: some servers send `deflate` without the zlib wrapper.
    is_raw = name == "deflate" and not _has_header(begin)
    unzip = zlib.decompressobj(-15 if is_raw else _WINDOWS[name])
    members = 1
    for piece in _slices(chain((begin,), rest)):
        while piece:
            if unzip.eof:
                if name == "deflate":
                    return
                # RFC 1952, 2.2: a gzip file is a series of members, which are one text.
                members += 1
                if members > MAX_MEMBERS:
                    raise DecodingError(f"the response body has more than {MAX_MEMBERS} members")
                unzip = zlib.decompressobj(_WINDOWS[name])
            yield from _steps(unzip, piece, name)
            piece = unzip.unused_data
    if not unzip.eof:
        raise DecodingError("unexpected EOF")


def _slices(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes in pieces of at most `_SLICE` bytes: zlib copies what it has not used."""
    for piece in pieces:
        for at in range(0, len(piece), _SLICE):
            yield piece[at : at + _SLICE]


def _has_header(piece: bytes) -> bool:
    """Return True if a body of `deflate`, by its first bytes, is in zlib's format, as RFC 9110
    requires; some servers send it raw.
    """
    return piece[0] & 0x0F == 8 and int.from_bytes(piece[:2].ljust(2, b"\0")) % 31 == 0


def _steps(unzip: zlib._Decompress, piece: bytes, name: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a piece, at most `STEP` at once; bytes behind the end of the
    compressed data are left in `unzip.unused_data`. DecodingError if the data are not valid in the
    encoding `name`.
    """
    while not unzip.eof:
        try:
            content = unzip.decompress(piece, STEP)
        except zlib.error:
            raise DecodingError(
                f"the response body cannot be decompressed: it is not valid {name} data"
            ) from None
        if content:
            yield content
        piece = unzip.unconsumed_tail
        # After a full step there may be more output, even without more input.
        if not piece and len(content) < STEP:
            return
