"""A `.tar.gz` or a folder to its files, in memory: nothing is unpacked, and nothing is trusted.

A bundle comes from elsewhere. Bounded, before any of it is believed, are the bytes that are read
and unpacked, the number of files, and the length and depth of names. Refused is what a bundle has
no use for and an attack has: links, devices and sparse files in an archive, links out of a folder,
names that lead out (`..`), and one name for two files.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import BinaryIO, Final

from doorward.bundles.loader import Limits, io_message

__all__ = ["ArchiveError", "Member", "folder_names", "read_archive", "read_folder", "unpack"]

Member = tuple[str, bytes]
"""The name of a file, from the root of the bundle and without a slash before it, and its bytes."""

MAX_NAME: Final = 4096
HEADER_BYTES: Final = 1 << 20
"""What the headers of one file may hold, its long name included."""

_BLOCK: Final = tarfile.RECORDSIZE
# Headers may lead to headers: the library follows them by recursion.
_BROKEN: Final = (OverflowError, RecursionError, ValueError, tarfile.TarError, zlib.error)


class ArchiveError(Exception):
    """An archive that cannot be read as a bundle; the text is OPA's where OPA has one."""


def read_archive(path: str, limits: Limits) -> Iterator[Member]:
    """Read the files of a `.tar.gz` in order; raise `ArchiveError` if it is broken or too large."""
    with open(path, "rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        if size > limits.archive_bytes:
            raise ArchiveError(f"archive is larger than {limits.archive_bytes} bytes")
        yield from unpack(raw, limits)


def unpack(raw: BinaryIO, limits: Limits) -> Iterator[Member]:
    """The same for an open archive, whose size is known to be bounded."""
    with _translate_errors(), gzip.GzipFile(fileobj=raw) as unzipped:
        yield from _members(_Bounded(unzipped, limits.unpacked_bytes), limits)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Context manager: turn errors of reading into `ArchiveError`, in Go's words if known."""
    try:
        yield
    except gzip.BadGzipFile as error:
        part = "checksum" if "check" in str(error) else "header"
        raise ArchiveError(f"archive read failed: gzip: invalid {part}") from None
    except EOFError:
        raise ArchiveError("archive read failed: unexpected EOF") from None
    except _BROKEN:
        raise ArchiveError("archive read failed: archive/tar: invalid tar header") from None


class _Bounded:
    """Reads no more than it was allowed, and never more than `total`."""

    def __init__(self, stream: gzip.GzipFile, total: int) -> None:
        self._stream = stream
        self._total = self._left = total
        self._limit = total

    def allow(self, size: int) -> None:
        """Allow the same number of bytes again; the blocks of the archive are filled up."""
        self._left = min(size + _BLOCK, self._total)

    def read(self, size: int) -> bytes:
        """Read decompressed bytes.

        Raise `ArchiveError` beyond the limit of the archive or of one header.
        """
        content = self._stream.read(size)
        self._left -= len(content)
        self._total -= len(content)
        if self._total < 0:
            raise ArchiveError(f"archive contains more than {self._limit} bytes")
        if self._left < 0:
            raise ArchiveError(f"a file's headers are larger than {HEADER_BYTES} bytes")
        return content


def _members(stream: _Bounded, limits: Limits) -> Iterator[Member]:
    """Yield the files of a tar archive; raise `ArchiveError` for what a bundle must not contain."""
    seen: set[str] = set()
    stream.allow(HEADER_BYTES)
    with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]  # read is all that it asks for
        for number, member in enumerate(archive):
            if number >= limits.files:
                raise ArchiveError(f"archive contains more than {limits.files} files")
            name = _safe_name(member.name, limits)
            if member.isdir():
                continue
            _check_kind(name, member)
            # With two files of one name, verification and compilation could read different ones.
            if name in seen:
                raise ArchiveError(f"{name}: the archive contains this file twice")
            seen.add(name)
            limit = limits.of(name)
            # Before anything is read: the header says the size, and decompression can multiply it.
            if member.size > limit:
                raise ArchiveError(
                    f"bundle file {name} size ({member.size} bytes) exceeds configured "
                    f"size_limit_bytes ({limit} bytes)"
                )
            yield name, _content(archive, member, stream)
            stream.allow(HEADER_BYTES)
    while stream.read(_BLOCK):  # to the end, where the checksum stands
        stream.allow(HEADER_BYTES)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, stream: _Bounded) -> bytes:
    """Read the bytes of a member; raise EOFError if the archive ends before."""
    stream.allow(member.size + HEADER_BYTES)
    file = archive.extractfile(member)
    content = file.read() if file is not None else b""
    if len(content) != member.size:
        raise EOFError
    return content


def _check_kind(name: str, member: tarfile.TarInfo) -> None:
    """Raise `ArchiveError` unless the member is a plain file: no link, device or sparse file."""
    if member.issym() or member.islnk():
        raise ArchiveError(f"{name}: a bundle must not contain links")
    # A sparse file can declare terabytes of zeros in a few bytes.
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None:
        raise ArchiveError(f"{name}: a bundle must contain only files and folders")


def _safe_name(name: str, limits: Limits) -> str:
    """`/a/./b` -> `a/b`."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if len(name) > MAX_NAME or len(parts) > limits.depth:
        raise ArchiveError(f"`{name[:60]}…`: a name is longer or deeper than is allowed")
    if ".." in parts:
        raise ArchiveError(f"`{name}`: a name leads out of the bundle")
    if not name.isprintable():  # control characters, and what is not UTF-8
        raise ArchiveError(f"{name!r}: a name contains characters that cannot be printed")
    return "/".join(parts)


# Folders


def read_folder(root: str, names: Iterable[str], limits: Limits) -> Iterator[Member]:
    """The files of a bundle's folder, by name."""
    total = 0
    for name in names:
        path = os.path.join(root, name)
        limit = limits.of(name)
        try:
            with open(path, "rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            raise ArchiveError(io_message("open", path, error)) from None
        if len(content) > limit:
            raise ArchiveError(
                f"bundle file {name} size exceeds configured size_limit_bytes ({limit} bytes)"
            )
        total += len(content)
        if total > limits.unpacked_bytes:
            raise ArchiveError(f"the folder contains more than {limits.unpacked_bytes} bytes")
        yield name, content


def folder_names(root: str, limits: Limits) -> list[str]:
    """The names of the files below `root`. Links are followed inside of it only.

    Names that begin with `..` are passed over: what Kubernetes keeps there shows up once more.
    """
    names: list[str] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(root),))]
    while waiting:
        folder, above = waiting.pop()
        if len(above) > limits.depth:
            raise ArchiveError(f"folders are nested deeper than {limits.depth}")
        for name in _names_in(os.path.join(root, folder)):
            inner = f"{folder}/{name}" if folder else name
            path = os.path.join(root, inner)
            real = _real(path, name, above)
            if os.path.isdir(path):
                if real not in above:  # else a link to a folder that it lies in
                    waiting.append((inner, (*above, real)))
            elif os.path.isfile(path):
                names.append(inner)
                if len(names) > limits.files:
                    raise ArchiveError(f"the folder contains more than {limits.files} files")
    return sorted(names)


def _names_in(folder: str) -> list[str]:
    """The names in a folder; those that begin with `..` are Kubernetes' own and are left out."""
    try:
        return [name for name in os.listdir(folder) if not name.startswith("..")]
    except OSError as error:
        raise ArchiveError(io_message("open", folder, error)) from None


def _real(path: str, name: str, above: tuple[str, ...]) -> str:
    """The real location of `path`; `above` are the folders that it lies in, the bundle's first."""
    if not os.path.islink(path):
        return os.path.join(above[-1], name)
    real = os.path.realpath(path)
    if os.path.commonpath([real, above[0]]) != above[0]:
        raise ArchiveError(f"{path}: a link leads out of the bundle")
    return real
