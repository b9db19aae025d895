"""Files and folders of decision logs become chunks of complete lines, of bounded size.

A file is plain, compressed by gzip, or Parquet, whatever its name is. It has one event per line or
row, or is one JSON array of events, as OPA uploads them. A plain file is only measured here: the
process that decides a chunk reads it.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from doorward.base.os_errors import describe_os_error

__all__ = ["Chunk", "ReplayError", "chunks_of", "is_compressed", "log_files", "size_of"]

CHUNK: Final = 1 << 20
"""The size of a chunk in bytes; it also has the rest of its last line."""
MAX_LINE: Final = 64 << 20
"""A log with a line of more bytes than this is refused."""
MAX_ARRAY: Final = 256 << 20
"""A file that is one JSON array may have at most this many bytes."""
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"


class ReplayError(Exception):
    """A log cannot be read, or the policies cannot decide it; the message names the file or the
    reason.
    """


class Chunk(NamedTuple):
    """Lines of a log file: `length` bytes from `start` on, or `content` if the file is compressed,
    None for a plain one.
    """

    file: str
    start: int
    length: int
    content: bytes | None
    taken: int
    """The bytes of the file, as it is stored, that were read for these lines."""

    def read(self) -> bytes:
        """Return the lines, from memory or by reading the file, which gives fewer if it has become
        shorter. Raise ReplayError if it cannot be read.
        """
        if self.content is not None:
            return self.content
        try:
            with open(self.file, "rb") as file:
                file.seek(self.start)
                return file.read(self.length)
        except OSError as error:
            raise ReplayError(_why(self.file, error)) from None


def log_files(paths: Sequence[str]) -> list[str]:
    """Return the files that `paths` name; those in folders are sorted by path, hidden ones left
    out.

    Raise ReplayError if a path does not exist or there are no files.
    """
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            inside = [each for each in sorted(Path(path).rglob("*")) if each.is_file()]
            names = [each.relative_to(path).parts for each in inside]
            files += [
                str(each)
                for each, parts in zip(inside, names, strict=True)
                if not any(part.startswith(".") for part in parts)
            ]
        elif os.path.isfile(path):
            files.append(path)
        else:
            raise ReplayError(f"{path}: no such file or folder")
    if not files:
        raise ReplayError(
            f"{', '.join(paths)}: no decision logs: there are no files in these folders, or hidden "
            "ones only"
        )
    return files


def size_of(files: Sequence[str]) -> int:
    """Return the sum of the sizes of all files in bytes, as they are stored; OSError if one cannot
    be read.
    """
    return sum(os.path.getsize(file) for file in files)


def chunks_of(files: Sequence[str], *, size: int = CHUNK) -> Iterator[Chunk]:
    """Yield the lines of all files in order, in chunks of about `size` bytes; a JSON array is one
    chunk, and a Parquet file has its own number of rows in each. ReplayError if a file cannot be
    read or is invalid.
    """
    for path in files:
        try:
            with open(path, "rb") as file:
                start = file.read(4)
                file.seek(0)
                if start == _PARQUET:
                    yield from _parquet(path)
                elif start.startswith(_GZIP):
                    yield from _read_compressed(path, file, size)
                else:
                    yield from _plain(path, file, size)
        except (OSError, EOFError, zlib.error) as error:
            # gzip raises EOFError for a file that is cut off, and zlib.error for a damaged one.
            raise ReplayError(_why(path, error)) from None


def is_compressed(path: str) -> bool:
    """Return True if a file is gzip or Parquet, by its first bytes, so that no part of it can be
    read alone. ReplayError if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ReplayError(_why(path, error)) from None
    return start == _PARQUET or start.startswith(_GZIP)


def _parquet(path: str) -> Iterator[Chunk]:
    """Yield the chunks of a Parquet file as lines of JSON; ReplayError if it is invalid."""
    from doorward.replay.parquet import ParquetError, events_in  # an extra that few need

    taken, total = 0, os.path.getsize(path)
    try:
        for content, share in events_in(path):
            before, taken = taken, round(total * share)
            yield Chunk(path, 0, len(content), content, taken - before)
    except ParquetError as error:
        raise ReplayError(f"{path}: {error}") from None


def _why(path: str, error: Exception) -> str:
    """Return `PATH: REASON` for an error, the reason in lower case."""
    reason = describe_os_error(error) if isinstance(error, OSError) else str(error)
    return f"{path}: {reason.lower()}"


def _plain(path: str, file: BinaryIO, size: int) -> Iterator[Chunk]:
    """Yield the chunks of an uncompressed file: whole lines of about `size` bytes; a JSON array is
    one chunk.

    The lines are read later. Raise ReplayError for a line or array that is too long.
    """
    total = os.fstat(file.fileno()).st_size
    if _is_array(file):
        if total > MAX_ARRAY:
            raise _large_array(path)
        yield Chunk(path, 0, total, None, total)
        return
    start = 0
    # What is appended from now on is not read, except the rest of a line that is being written.
    while start < total:
        file.seek(min(start + size, total))
        rest = file.readline(MAX_LINE)
        if len(rest) == MAX_LINE:
            raise ReplayError(
                f"{path}: a line is longer than {MAX_LINE} bytes: write one event on each line"
            )
        end = file.tell()
        yield Chunk(path, start, end - start, None, end - start)
        start = end


def _large_array(path: str) -> ReplayError:
    limit = f"a JSON array may have at most {MAX_ARRAY} bytes"
    return ReplayError(f"{path}: {limit}: write one event on each line")


def _is_array(file: BinaryIO) -> bool:
    """Return True if the file begins with `[`, apart from white space. The file is at its beginning
    afterwards.
    """
    start = file.read(64).lstrip()
    file.seek(0)
    return start[:1] == b"["


def _read_compressed(path: str, file: BinaryIO, size: int) -> Iterator[Chunk]:
    """Yield the chunks of a gzip file with their content; a JSON array is one chunk.

    Raise ReplayError for a line or array that is too long.
    """
    taken = 0

    def chunk(content: bytes) -> Chunk:
        """Return `content` as a chunk. Its size as stored is the number of compressed bytes that
        were read since the chunk before it.
        """
        nonlocal taken
        before, taken = taken, file.tell()
        return Chunk(path, 0, len(content), content, taken - before)

    with gzip.open(file) as lines:
        first = lines.read(64)
        if first.lstrip()[:1] == b"[":
            content = first + lines.read(MAX_ARRAY)
            if len(content) > MAX_ARRAY:
                raise _large_array(path)
            yield chunk(content)
            return
        yield from map(chunk, _whole_lines(path, first, lines.read, size))


def _whole_lines(
    path: str, rest: bytes, read: Callable[[int], bytes], size: int
) -> Iterator[bytes]:
    """Yield the text of a file in pieces of about `size` bytes, each of which ends at the end of a
    line; only the last one may lack it. The text is `rest`, which was read already, and what `read`
    returns.

    Raise ReplayError when a read brings no end of a line and the unfinished line is longer than
    `MAX_LINE` bytes.
    """
    while piece := read(size):
        content = rest + piece
        end = content.rfind(b"\n") + 1
        if not end and len(content) > MAX_LINE:
            raise ReplayError(
                f"{path}: a line is longer than {MAX_LINE} bytes: write one event on each line"
            )
        if end:
            yield content[:end]
        rest = content[end:]
    if rest:
        yield rest
