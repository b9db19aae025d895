"""Sleep until files may have changed, with Linux's inotify where it can be trusted.

An event only says that something changed; the caller then polls the files by name. Watched are all
folders that contain files, and every name on the way to them, through each symbolic link. So a
folder that is moved away, or a link that is swapped as Kubernetes does with a ConfigMap, is noticed
as well. The kernel only reports changes through this machine's own file systems. For others, and
for too many folders, `FileEvents.watch` returns False, and the caller has to poll at intervals.

The three calls are made through ctypes: libraries for inotify search the C library with the help of
other programs, which a hardened container does not have.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, Final

__all__ = ["FileEvents", "open_events", "watched_names"]

LOCAL: Final = {
    *("bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay"),
    *("ramfs", "reiserfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs"),
}
"""File systems that only this machine's kernel writes to, so that inotify reports each change."""
FOLDERS: Final = 4_096
"""The largest number of folders to watch: a user has 8,192 watches on older kernels."""
_LINKS: Final = 40
"""The largest number of symbolic links on the way to one file, as in the kernel."""
_MOUNTS: Final = "/proc/self/mountinfo"

_CHANGED: Final = 0x2 | 0x4 | 0x8  # written, its attributes changed, closed after writing
_NAMES: Final = 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # moved, created, deleted, itself gone
# IN_ONLYDIR: what was a folder a moment ago may be a file now.
_ONLY_FOLDERS: Final = 0x01000000
_OVERFLOW: Final = 0x4000
_ITSELF: Final = 0x400 | 0x800 | 0x2000 | 0x8000  # deleted, moved, unmounted, no longer watched
_EVENT: Final = struct.Struct("iIII")


class FileEvents:
    """Waits for changes of files by the kernel's events, with one inotify instance: call `watch`,
    then `wait`. Only `wake` may be called from another thread. The constructor raises OSError if
    the system has no inotify or refuses another instance.
    """

    def __init__(self) -> None:
        """Open inotify and a pipe for `wake`; raise OSError if the system has no inotify or no
        instance is left.
        """
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        try:
            self._fd = self._call(self._libc.inotify_init1, os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            raise OSError("no inotify in the C library") from None
        self._waker, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(self._waker, select.POLLIN)
        self._names: dict[int, frozenset[str] | None] = {}
        """The names that matter in each watched folder, by the number of the watch; None for all
        names.
        """

    def watch(self, names: dict[str, frozenset[str] | None]) -> bool:
        """Watch exactly these folders, each for the given names or, with None, for everything in
        it. Return False, and do not rely on events, if there are more than `FOLDERS`, one is on a
        file system that others can write to, or the kernel refuses one.
        """
        # Too many, or changes that the kernel does not see: half a watch would be trusted wrongly.
        if len(names) > FOLDERS or not _are_local(names):
            return False
        numbers: dict[int, frozenset[str] | None] = {}
        try:
            for folder, inside in names.items():
                mask = _ONLY_FOLDERS | _NAMES | (_CHANGED if inside is None else 0)
                number = self._call(
                    self._libc.inotify_add_watch, self._fd, os.fsencode(folder), mask
                )
                # Two names of one folder have the same watch: the kernel counts by inode.
                before = numbers.get(number, frozenset())
                numbers[number] = None if before is None or inside is None else before | inside
        except OSError:
            return False
        # Old watches go after the new ones are there, so that no change in between is lost.
        for number in set(self._names) - set(numbers):
            self._libc.inotify_rm_watch(self._fd, number)
        self._names = numbers
        return True

    def fileno(self) -> int:
        """Return the descriptor of inotify, for `poll`; it is readable when there are events to
        `drain`.
        """
        return self._fd

    def wait(self, seconds: float) -> bool:
        """Wait for a change of a watched name, a `wake` or the end of `seconds`. Return True only
        if a change was reported.
        """
        until = monotonic() + seconds
        while ready := dict(self._poll.poll(max(0.0, until - monotonic()) * 1000)):
            if self._waker in ready:
                os.read(self._waker, 64)
                return self.drain()
            if self.drain():
                return True
        return False

    def drain(self) -> bool:
        """Read all pending events without waiting; return True if one of them is about a watched
        name.
        """
        matters = False
        while True:
            try:
                content = os.read(self._fd, 65_536)
            except BlockingIOError:
                return matters
            matters = matters or any(map(self._matters, _events(content)))

    def _matters(self, event: tuple[int, int, str]) -> bool:
        """Return True if an event is about a watched name (any name in a folder whose names are all
        watched), a watched folder itself, or lost events.
        """
        number, mask, name = event
        # After an overflow nobody knows what changed, and so everything may have.
        if mask & (_ITSELF | _OVERFLOW):
            return True
        inside = self._names.get(number, frozenset())
        return inside is None or name in inside

    def wake(self) -> None:
        """End the `wait` of another thread, or the next one."""
        try:
            os.write(self._wake, b"\0")
        except BlockingIOError:
            return  # it is about to wake up

    def close(self) -> None:
        """Close inotify and the pipe of `wake`; no other method may be called afterwards."""
        for descriptor in (self._fd, self._waker, self._wake):
            os.close(descriptor)

    @staticmethod
    def _call(function: Any, *arguments: Any) -> int:
        """Call a function of the C library; OSError if it returns a negative number."""
        number: int = function(*arguments)
        if number < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return number


def open_events() -> FileEvents | None:
    """Open inotify; return None if the system has none, or the user has no instance left."""
    try:
        return FileEvents()
    except (OSError, AttributeError, TypeError):
        return None


def _events(content: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the events in the bytes that inotify wrote: number of the watch, mask, and name in the
    folder ("" for the folder itself).
    """
    position = 0
    while position < len(content):
        number, mask, _, length = _EVENT.unpack_from(content, position)
        position += _EVENT.size + length
        yield number, mask, os.fsdecode(content[position - length : position].rstrip(b"\0"))


def watched_names(roots: Iterable[str], files: Iterable[str]) -> dict[str, frozenset[str] | None]:
    """Return the folders to watch for all changes to `files` and below `roots`, each with the names
    that matter in it, or None for everything. Folders that do not exist are left out.
    """
    by_folder: dict[str, set[str]] = {}
    inside: set[str] = set()
    for root in roots:
        inside.update(_folders(_absolute(root), by_folder))
    for file in files:
        path = _absolute(file)
        folder = os.path.dirname(path)
        if folder not in inside:
            inside.add(folder)
            _add_names(folder, by_folder)
        if os.path.islink(path):
            _add_names(path, by_folder)
    # What a link leads to is watched by the name that it has there.
    names: dict[str, frozenset[str] | None] = {
        folder: frozenset(items) for folder, items in by_folder.items() if os.path.isdir(folder)
    }
    return names | {folder: None for folder in inside if os.path.isdir(folder)}


def _absolute(path: str) -> str:
    """Return `path` made absolute, but not normalised: `..` stays, since the name before it may be
    a symbolic link.
    """
    return os.path.join(os.getcwd(), path)


def _folders(root: str, by_folder: dict[str, set[str]]) -> Iterator[str]:
    """Yield `root` and every folder below it, each once even if several links lead to it; nothing
    if `root` is not a folder. Adds to `by_folder` each name that leads to `root` or is a link below
    it, under its folder. Skips what is below a folder that cannot be read, and stops after
    `FOLDERS` folders.
    """
    _add_names(root, by_folder)
    if not os.path.isdir(root):
        return
    seen = {os.path.realpath(root)}
    waiting = [root]
    while waiting and len(seen) <= FOLDERS:
        folder = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                inner = [entry for entry in entries if entry.is_dir()]
        except OSError:
            continue
        for entry in inner:
            real = os.path.realpath(entry.path)
            if real not in seen:
                seen.add(real)
                waiting.append(entry.path)
                if entry.is_symlink():
                    _add_names(entry.path, by_folder)


def _add_names(path: str, by_folder: dict[str, set[str]]) -> None:
    """Add to `by_folder` every name that the system looks up to reach `path`, under its folder:
    `/a/b` adds `a` to `/` and `b` to `/a`. Symbolic links are followed, up to `_LINKS`.
    """
    links = 0
    rest = path.split("/")[:0:-1]
    folder = "/"
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            folder = os.path.dirname(folder)
            continue
        by_folder.setdefault(folder, set()).add(name)
        inner = os.path.join(folder, name)
        if os.path.islink(inner) and links < _LINKS:
            links += 1
            try:
                target = os.readlink(inner)
            except OSError:
                return
            if target.startswith("/"):
                folder = "/"
            rest += target.split("/")[::-1]
        else:
            folder = inner


def _are_local(folders: Iterable[str]) -> bool:
    """Return True if only this machine's kernel writes to the file systems of `folders`, so that it
    reports every change. False if the mounts cannot be read.
    """
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = dict(_mounts(file))
    except OSError:
        return False
    known: dict[str, bool] = {}
    return all(_is_local(os.path.realpath(folder), mounts, known) for folder in folders)


def _mounts(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield mount point and file system type of each line of `mountinfo`, in order; of several
    entries for one point the last counts.
    """
    for line in lines:
        fields, dash, rest = line.partition(" - ")
        if dash:
            point = fields.split(" ")[4]
            # proc(5) writes blanks and backslashes of a mount point in octal; the backslash comes
            # last, or its result could look like an escape.
            yield point.replace("\\040", " ").replace("\\134", "\\"), rest.split(" ")[0]


def _is_local(folder: str, mounts: dict[str, str], known: dict[str, bool]) -> bool:
    """Return True if the file system of a folder is one of `LOCAL`. `known` caches the result of
    each folder and its parents.
    """
    if folder not in known:
        kind = mounts.get(folder)
        if kind is not None or folder == "/":
            known[folder] = kind in LOCAL
        else:
            known[folder] = _is_local(os.path.dirname(folder), mounts, known)
    return known[folder]
