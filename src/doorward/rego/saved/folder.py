"""A folder of the user's own in which one run of a command leaves results for the next.

    <folder>/<64 hexadecimal digits>.saved     a SHA-256 of name and content, then the content

What is read from it is executed later, as Python's own byte code is. So it is read only from a
folder and from files that belong to the user and that nobody else may write, below folders whose
names nobody else may change; everything else is taken for missing. A folder that cannot be used
costs the time of compiling and nothing more.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import hashlib
import os
import pwd
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["MAX_BYTES", "MAX_ENTRY", "SavedFolder"]

MAX_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of all entries together; beyond it the least recently used ones are removed."""
MAX_ENTRY: Final = 64 * 1024 * 1024
"""The most bytes of one entry; a larger one is not written."""
MAX_LINKS: Final = 40
"""The most symbolic links that a path may lead through, as in the kernel."""
_DIGEST: Final = hashlib.sha256().digest_size
_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_SUFFIX: Final = ".saved"
_FILE: Final = re.compile(r"[0-9a-f]{64}\.saved(?:\.[0-9a-f]+)?")
"""Matches the names of entries, and of the temporary files in which they are written."""


class SavedFolder:
    """Entries by name, each written completely or not at all; safe for use by several processes."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes

    def read(self, name: str) -> bytes | None:
        """Return the content of an entry and update its time of use. None if it is missing,
        damaged, too large or cannot be read, or if another user could have changed it or the
        folder.
        """
        try:
            with self._open() as folder:
                return self._content(folder, name)
        except OSError:
            return None

    def write(self, name: str, content: bytes) -> bool:
        """Write an entry and return True, creating the folder if needed. Return False if that
        fails, the folder could be changed by another user, or the entry is too large. If the folder
        exceeds its size, the least recently used entries are removed.
        """
        if len(content) > min(MAX_ENTRY, self._max_bytes):
            return False
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._open() as folder:
                self._replace(folder, name + _SUFFIX, _digest_of(name, content) + content)
                self._remove_oldest(folder)
        except OSError:
            return False
        return True

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        """Return a context with the descriptor of the open folder. OSError if it is missing or
        cannot be opened, or if the folder or one above it could be changed by another user.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        # Before it is opened: in folders where nobody else may rename, what was found stays so.
        if not all(map(_is_safe_parent, _parents(self.path))):
            raise PermissionError(self.path)
        with _closing(os.open(self.path, flags)) as folder:
            # Of the open descriptor: the path might lead elsewhere by now.
            if not _is_own(os.fstat(folder)):
                raise PermissionError(self.path)
            yield folder

    def _content(self, folder: int, name: str) -> bytes | None:
        """Return an entry's content and update its time of use. None if the file is not the user's
        own, is too large, or does not match its digest; OSError if it is missing.
        """
        # O_NONBLOCK: opening a FIFO that somebody put there must not wait.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with _closing(os.open(name + _SUFFIX, flags, dir_fd=folder)) as file:
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
        return content if _digest_of(name, content) == digest else None

    def _replace(self, folder: int, name: str, written: bytes) -> None:
        """Write the bytes `written` to a temporary file in the open folder and rename it to `name`,
        in place of an older entry: a reader sees one or the other. OSError on failure; the
        temporary file is then removed.
        """
        # Each writes a file of its own, as process numbers are equal in two containers; the last
        # of several that write one entry wins. That of a process that was killed grows old.
        temporary = f"{name}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as stream:
                stream.write(written)
            # Atomic: a reader sees the old entry or the new one, never a part.
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def _remove_oldest(self, folder: int) -> None:
        """Remove the entries with the oldest time of use until all together are within the folder's
        size. Temporary files that interrupted writes left count as entries. Files with other names
        are neither counted nor removed.
        """
        entries: list[tuple[float, str, int]] = []
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and _FILE.fullmatch(name):
                    entries.append((status.st_mtime, name, status.st_size))
        total = sum(size for _, _, size in entries)
        for _, name, size in sorted(entries):
            if total <= self._max_bytes:
                break
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                pass  # another process removed it
            except OSError:
                continue  # it still takes its place
            total -= size


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    """Context that closes a file descriptor at its end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_own(status: os.stat_result) -> bool:
    """Return True if the file or folder belongs to this user, and neither its group nor others may
    write to it.
    """
    return status.st_uid == os.geteuid() and not status.st_mode & _BY_OTHERS


def _digest_of(name: str, content: bytes) -> bytes:
    """Return the SHA-256 of an entry's name and content, with which its file begins. An entry under
    another name does not match.
    """
    return hashlib.sha256(name.encode() + content).digest()


def _parents(path: Path) -> Iterator[Path]:
    """Yield the folders and symbolic links through which `path` is resolved, from the root on,
    without its last part unless that is a link. OSError for more than `MAX_LINKS` links.
    """
    at = Path("/")
    rest = [*reversed(Path(os.path.abspath(path)).parts[1:])]
    links = 0
    while rest:
        yield at
        at /= rest.pop()
        if at.is_symlink():
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            yield at
            rest += reversed(Path(os.readlink(at)).parts)
            at = at.parent


def _is_safe_parent(path: Path) -> bool:
    """Return True if the folder or link belongs to the user or root, and nobody else can replace an
    entry in it: others and its group may not write to it, unless it has the sticky bit, as /tmp, or
    the group is the user's own.
    """
    status = path.lstat()
    if status.st_uid not in (0, os.geteuid()):
        return False
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return True
    if status.st_mode & stat.S_IWOTH:
        return False
    return not status.st_mode & stat.S_IWGRP or _is_private_group(status.st_gid)


def _is_private_group(gid: int) -> bool:
    """Return True for the group that many systems create for each user: the user's primary group,
    of the user's name and without other members. False if the user or group is not known.
    """
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    is_own = gid == user.pw_gid and group.gr_name == user.pw_name
    return is_own and set(group.gr_mem) <= {user.pw_name}
