"""A folder of the user's own in which one run of a command leaves results for the next.

    <folder>/<64 hexadecimal digits>     a SHA-256 of the content, then the content

What is read from it is executed later, as Python's own byte code is. So it is read only from a
folder and from files that belong to the user and that nobody else may write; everything else is
taken for missing. A folder that cannot be used costs the time of compiling and nothing more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["MAX_BYTES", "MAX_ENTRY", "SavedFolder"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all entries together; those that were used longest ago are removed."""
MAX_ENTRY: Final = 64 * 1024 * 1024
"""Bytes of one entry; a larger one is not written."""
_DIGEST: Final = hashlib.sha256().digest_size
_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_NAME_LENGTH: Final = 64


class SavedFolder:
    """Entries by name, each written whole or not at all. Safe in any number of processes."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes

    def read(self, name: str) -> bytes | None:
        """Return the content of an entry; None if there is none that may be used."""
        try:
            with self._opened() as folder:
                return self._content(folder, name)
        except OSError:
            return None

    def write(self, name: str, content: bytes) -> bool:
        """Write an entry; return False where that is not possible or it is too large."""
        if len(content) > min(MAX_ENTRY, self._max_bytes):
            return False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._opened() as folder:
                self._replace(folder, name, hashlib.sha256(content).digest() + content)
                self._remove_oldest(folder)
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the folder for the time of a `with`; OSError if it is not the user's own."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with _closing(os.open(self.path, flags)) as folder:
            if not _is_own(os.fstat(folder)):
                raise PermissionError(self.path)
            yield folder

    def _content(self, folder: int, name: str) -> bytes | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with _closing(os.open(name, flags, dir_fd=folder)) as file:
            status = os.fstat(file)
            if not (stat.S_ISREG(status.st_mode) and _is_own(status)):
                return None
            if status.st_size > MAX_ENTRY + _DIGEST:
                return None
            with open(file, "rb", closefd=False) as stream:
                written = stream.read()
            with contextlib.suppress(OSError):
                os.utime(file)
        digest, content = written[:_DIGEST], written[_DIGEST:]
        return content if hashlib.sha256(content).digest() == digest else None

    def _replace(self, folder: int, name: str, written: bytes) -> None:
        # The process writes a file of its own; the last of several that write one entry wins.
        temporary = f"{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)  # of a process that was killed
        try:
            with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as stream:
                stream.write(written)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _remove_oldest(self, folder: int) -> None:
        entries: list[tuple[float, str, int]] = []
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and _is_name(name):
                    entries.append((status.st_mtime, name, status.st_size))
        total = sum(size for _, _, size in entries)
        for _, name, size in sorted(entries):
            if total <= self._max_bytes:
                break
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            total -= size


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    """Close a file descriptor at the end of a `with`."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_own(status: os.stat_result) -> bool:
    """Return True if a file or folder is this user's and nobody else may write it."""
    return status.st_uid == os.geteuid() and not status.st_mode & _BY_OTHERS


def _is_name(name: str) -> bool:
    """Return True for the names of entries and of the files in which they are written."""
    return len(name.partition(".")[0]) == _NAME_LENGTH
