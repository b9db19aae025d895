"""Read the files of a `.tar.gz` or a folder into memory. Nothing is written to disk, and nothing in
the archive is trusted.

A bundle comes from elsewhere. The bytes that are read and unpacked, the number of files, and the
length and depth of names are bounded before the contents are used. Refused are things that a bundle
does not need and an attack does: links, devices and sparse files in an archive, links out of a
folder, names that lead out (`..`), and two files with one name.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final, Self

from doorward.base.os_errors import io_message
from doorward.bundles.loader import Limits

__all__ = ["ArchiveError", "Member", "folder_names", "read_archive", "read_folder", "unpack"]

Member = tuple[str, bytes]
"""The name of a file, from the root of the bundle and without a leading slash, and its bytes."""

MAX_NAME: Final = 4096
HEADER_BYTES: Final = 1 << 20
"""The largest size of the headers of one file, its long name included."""

# What tarfile reads at once: it may read so far beyond a header or content.
_BLOCK: Final = tarfile.RECORDSIZE
_END: Final = (tarfile.EOFHeaderError, tarfile.EmptyHeaderError)  # type: ignore[attr-defined]  # typeshed lacks them
# Headers may lead to headers: the library follows them by recursion.
_BROKEN: Final = (OverflowError, RecursionError, ValueError, tarfile.TarError, zlib.error)


class ArchiveError(Exception):
    """An archive that cannot be read as a bundle, or that exceeds a limit; the message is OPA's if
    OPA has one.
    """


def read_archive(path: str, limits: Limits) -> Iterator[Member]:
    """Yield the files of a `.tar.gz` in the order of the archive. Raise `ArchiveError` if it is
    broken, exceeds a limit or contains what a bundle must not contain, such as a link, a `..` or a
    file twice, and OSError if it cannot be opened.
    """
    with open(path, "rb") as raw:
        size = os.fstat(raw.fileno()).st_size
        if size > limits.archive_bytes:
            raise ArchiveError(
                f"archive is larger than {limits.archive_bytes} bytes: split the bundle"
            )
        yield from unpack(raw, limits)


def unpack(raw: BinaryIO, limits: Limits) -> Iterator[Member]:
    """Yield the files of an open archive. Raise `ArchiveError` if it is broken, exceeds a limit or
    contains what a bundle must not contain, such as a link, a `..` or a file twice; the size of the
    archive itself is not checked.
    """
    with _translate_errors(), gzip.GzipFile(fileobj=raw) as unzipped:
        yield from _members(_Bounded(unzipped, limits.unpacked_bytes), limits)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Context manager that turns errors of gzip and tar into `ArchiveError`, with Go's text."""
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
    """A decompressed stream that raises ArchiveError when more is read from it than `total` bytes,
    or than the last call of `allow` permitted. It limits what a small archive can expand to.
    """

    def __init__(self, stream: gzip.GzipFile, total: int) -> None:
        self._stream = stream
        self._total = self._left = total
        self._limit = total

    def allow(self, size: int) -> None:
        """Permit to read `size` more bytes, and one block of padding, from here on. This replaces
        the earlier permission: bytes of it that were not read do not add up.
        """
        self._left = min(size + _BLOCK, self._total)

    def read(self, size: int) -> bytes:
        """Return up to `size` decompressed bytes, b"" at the end, and subtract them from the
        allowance of the archive and of one header. Raise `ArchiveError` beyond either.
        """
        # The limits are looked at afterwards: the library reads at most `_BLOCK` at once, so no
        # more than that is unpacked too much.
        content = self._stream.read(size)
        self._left -= len(content)
        self._total -= len(content)
        # Before the other check: `allow` never permits more than is left of the total.
        if self._total < 0:
            raise ArchiveError(
                f"archive is larger than {self._limit} bytes when unpacked: split the bundle"
            )
        if self._left < 0:
            raise ArchiveError(
                f"tar headers of one file are larger than {HEADER_BYTES} bytes: shorten its name"
            )
        return content


class _Header(tarfile.TarInfo):
    """A header of an archive, of which each fault is an error. The library takes a broken or cut
    header behind the first one for the end of the archive, and what follows would be missing.
    """

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Return the next header. Raise an error of `_END` at the end of the archive, and ReadError
        for a header that is broken, cut, or a single block of zeros.
        """
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            # As in Go, a block of zeros ends an archive only in front of another one.
            if not isinstance(error, _END) or _next_block(archive).strip(b"\0"):
                raise tarfile.ReadError(str(error)) from None
            raise


def _next_block(archive: tarfile.TarFile) -> bytes:
    """Read the next block of an archive; b"" at the end of the file."""
    file: Any = archive.fileobj
    block: bytes = file.read(tarfile.BLOCKSIZE)
    return block


def _members(stream: _Bounded, limits: Limits) -> Iterator[Member]:
    """Yield the files of a tar archive, then read it to its end, which checks the checksum: only
    after the last file is it known that the archive is complete. Raise `ArchiveError` for members
    that a bundle must not contain, for two of one name, for too many members (folders count), and
    for a file above its limit.
    """
    seen: set[str] = set()
    stream.allow(HEADER_BYTES)
    # As a stream, so that nothing is read twice or sought, and all goes through `_Bounded`.
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:  # type: ignore[call-overload]  # read is all that it asks for
        for number, member in enumerate(archive):
            # Folders and links count as well: headers alone cost time and memory.
            if number >= limits.files:
                raise ArchiveError(
                    f"archive contains more than {limits.files} files and folders: split the bundle"
                )
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
    """Read the bytes of a member; raise EOFError if the archive ends before they do, ArchiveError
    beyond its limit.
    """
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
        raise ArchiveError(
            f"{name}: a bundle must contain only plain files and folders (no sparse files)"
        )


def _safe_name(name: str, limits: Limits) -> str:
    """Return a name without slashes in front and without `.`: `/a/./b` -> `a/b`. Raise ArchiveError
    if it is too long or deep, contains `..`, or is not printable.
    """
    # Slashes in front are cut as OPA does: `/a.rego` is a file at the root of the bundle.
    parts = PurePosixPath(name.lstrip("/")).parts
    if len(name) > MAX_NAME:
        raise ArchiveError(f"`{name[:60]}…`: the name is longer than {MAX_NAME} characters")
    if len(parts) > limits.depth:
        raise ArchiveError(f"`{name[:60]}…`: the path has more than {limits.depth} levels")
    if ".." in parts:
        raise ArchiveError(f"`{name}`: a name must not contain `..`, which leads out of the bundle")
    if not name.isprintable():  # control characters, and what is not UTF-8
        raise ArchiveError(
            f"{name!r}: the name of a file in a bundle must not contain characters that "
            "cannot be printed"
        )
    return "/".join(parts)


# Folders


def read_folder(root: str, names: Iterable[str], limits: Limits) -> Iterator[Member]:
    """Yield the files `names` of a bundle's folder in the given order. Raise ArchiveError if a file
    cannot be read or exceeds the limit of its kind, or if all files together exceed the limit of
    the bundle.
    """
    total = 0
    for name in names:
        path = os.path.join(root, name)
        limit = limits.of(name)
        try:
            with open(path, "rb") as file:
                # One byte more shows that the file is too large, whatever its size was a moment
                # ago.
                content = file.read(limit + 1)
        except OSError as error:
            raise ArchiveError(io_message("open", path, error)) from None
        if len(content) > limit:
            raise ArchiveError(
                f"bundle file {name} size exceeds configured size_limit_bytes ({limit} bytes)"
            )
        total += len(content)
        if total > limits.unpacked_bytes:
            raise ArchiveError(
                f"the folder contains more than {limits.unpacked_bytes} bytes: load a smaller one"
            )
        yield name, content


def folder_names(root: str, limits: Limits) -> list[str]:
    """Return the sorted names of all files below `root`, relative to it. Links are followed inside
    of `root`; a link out of it raises ArchiveError, as do an unreadable folder, too many files and
    too deep folders. Left out are broken links, links to a folder above themselves, devices, and
    names that begin with `..`: Kubernetes keeps versions of the files there.
    """
    names: list[str] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(root),))]
    while waiting:
        folder, above = waiting.pop()
        # Links inside of the bundle can make a huge tree of a few folders.
        if len(above) > limits.depth:
            raise ArchiveError(
                f"`{folder[:60]}…`: folders are nested deeper than {limits.depth} levels"
            )
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
                    raise ArchiveError(
                        f"the folder contains more than {limits.files} files: load a smaller one"
                    )
    return sorted(names)


def _names_in(folder: str) -> list[str]:
    """Return the names in a folder, except those that begin with `..`, which are Kubernetes' own.
    Raise ArchiveError if it cannot be read.
    """
    try:
        return [name for name in os.listdir(folder) if not name.startswith("..")]
    except OSError as error:
        raise ArchiveError(io_message("open", folder, error)) from None


def _real(path: str, name: str, above: tuple[str, ...]) -> str:
    """Return the real location of the entry `name` of a folder, at `path`, with a link resolved.
    `above` are the real locations of the folders that contain it: the first is the bundle's root,
    which a link must not leave (ArchiveError), the last the folder itself.
    """
    if not os.path.islink(path):
        return os.path.join(above[-1], name)
    real = os.path.realpath(path)
    if os.path.commonpath([real, above[0]]) != above[0]:
        raise ArchiveError(f"{path}: the symbolic link leads out of the bundle")
    return real
