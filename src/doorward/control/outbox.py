"""Chunks that wait to be sent: in memory, or on disk where it survives the process.

Both are bounded; what is oldest goes first, and is counted. On disk, events stand in a journal
until they are a chunk, and a chunk is a file until it was sent. A process that is killed loses what
the decision log had not passed on (50 ms); what was sent at that moment may be sent again.

Nothing is sent that is not whole: a line of the journal is JSON, a chunk has its checksum. What is
damaged, and what a full disk does not take, is counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import logging
import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from doorward.control.chunks import Chunk

__all__ = ["DiskOutbox", "MemoryOutbox", "Outbox", "SpoolError"]

SLOTS: Final = 64
"""Processes that may share one folder."""
_JOURNAL: Final = "journal.jsonl"
_END: Final = ".json.gz"
_log: Final = logging.getLogger(__name__)
# Numbers are not looked at: none is too long to be one.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_FIELDS: Final = {"plugin": "decision_logs"}


class SpoolError(Exception):
    """A folder that cannot be used."""


class Outbox(Protocol):
    """Chunks that wait. Safe in any number of threads."""

    def note(self, lines: Iterable[bytes]) -> None:
        """Keep events that do not fill a chunk yet."""

    def put(self, chunks: Iterable[Chunk]) -> int:
        """Keep chunks in place of what was noted; the events that had to go for them."""

    def take(self) -> tuple[object, Chunk] | None:
        """The oldest chunk and its key; nobody else gets it until it is given back."""

    def done(self, key: object) -> None:
        """A chunk was sent."""

    def give_back(self, key: object, chunk: Chunk) -> int:
        """A chunk was not sent; the events that had to go for it."""

    def close(self) -> None: ...


class MemoryOutbox:
    """Chunks in memory, with at most `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[Chunk] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def note(self, lines: Iterable[bytes]) -> None:
        """Memory holds them anyway."""

    def put(self, chunks: Iterable[Chunk]) -> int:
        """Add chunks; return how many events were dropped to stay within the limit."""
        with self._lock:
            for chunk in chunks:
                self._chunks.append(chunk)
                self._size += len(chunk.content)
            return self._trim()

    def take(self) -> tuple[object, Chunk] | None:
        """Remove and return the oldest chunk; None if none waits."""
        with self._lock:
            if not self._chunks:
                return None
            chunk = self._chunks.popleft()
            self._size -= len(chunk.content)
            return None, chunk

    def done(self, key: object) -> None:
        """It is gone already."""

    def give_back(self, key: object, chunk: Chunk) -> int:
        """Put a chunk that was not sent back to the front; return how many events were dropped."""
        with self._lock:
            self._chunks.appendleft(chunk)
            self._size += len(chunk.content)
            return self._trim()

    def _trim(self) -> int:
        """Drop the oldest chunks until the rest fits the limit; return their number of events."""
        lost = 0
        # The newest stays, however large it is.
        while self._size > self._limit and len(self._chunks) > 1:
            chunk = self._chunks.popleft()
            self._size -= len(chunk.content)
            lost += chunk.events
        return lost

    def close(self) -> None:
        """Nothing outlives the process."""


class DiskOutbox:
    """Chunks as files, with at most `limit` bytes together.

    Several processes may share `folder`: each has a part of its own, and takes over what processes
    that are gone left.
    """

    def __init__(
        self,
        folder: str,
        limit: int,
        *,
        encode: Callable[[list[bytes]], Iterable[Chunk]],
        on_lost: Callable[[str, int], object] = lambda _reason, _count: None,
    ) -> None:
        """`encode` makes chunks of the events that a process left in its journal; `on_lost` is
        called with a reason and a number of events. SpoolError."""
        self._limit = limit
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: deque[str] = deque()
        self._size = 0
        self._locks: list[int] = []
        self._file = -1
        self._journal_size = 0
        try:
            self._folder = self._lock_part(folder)
            self._journal = self._path(_JOURNAL)
            self._recover(folder, encode)
            self._file = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise SpoolError(f"{folder}: {(error.strerror or 'failed').lower()}") from None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _lock_part(self, folder: str) -> str:
        """Lock and return a numbered folder that no other process uses."""
        for number in range(SLOTS):
            part = os.path.join(folder, str(number))
            os.makedirs(part, mode=0o700, exist_ok=True)
            if self._is_locked(part):
                return part
        raise OSError(None, "more processes write to this folder than it has parts for")

    def _is_locked(self, part: str) -> bool:
        """Lock the folder `part`; return False if another process has it."""
        descriptor = os.open(os.path.join(part, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._locks.append(descriptor)
        return True

    def _recover(self, folder: str, encode: Callable[[list[bytes]], Iterable[Chunk]]) -> None:
        """Take over the chunks and journals that earlier and ended processes left."""
        lock = self._locks[0]
        for name in sorted(os.listdir(folder)):
            part = os.path.join(folder, name)
            if part != self._folder and not (os.path.isdir(part) and self._is_locked(part)):
                continue
            for each in sorted(os.listdir(part)):
                if each.endswith(_END):
                    self._adopt(os.path.join(part, each))
                elif each.endswith(".new"):
                    os.unlink(os.path.join(part, each))
            journal = os.path.join(part, _JOURNAL)
            if os.path.exists(journal):
                with open(journal, "rb") as file:
                    lines = file.read().split(b"\n")
                # Without its end, the last one was being written when the process was killed.
                complete = [line for line in lines[:-1] if _is_json(line)]
                self._count_lost("torn", len([line for line in lines if line]) - len(complete))
                self.put(encode(complete))
                os.unlink(journal)
        for descriptor in self._locks[1:]:
            os.close(descriptor)
        self._locks = [lock]

    def _adopt(self, path: str) -> None:
        """Take over a chunk file that an earlier process left, moving it into the own folder."""
        name = os.path.basename(path)
        if os.path.dirname(path) != self._folder:
            os.replace(path, self._path(name))
        self._waiting.append(name)
        self._size += os.path.getsize(self._path(name))

    def note(self, lines: Iterable[bytes]) -> None:
        """Append events to the journal, so that they survive a crash before they are chunks."""
        content = b"".join([line + b"\n" for line in lines])
        written = 0
        try:
            while written < len(content):
                written += os.write(self._file, content[written:])
        except OSError:
            # The next line must not continue a part of this one.
            self._cut_journal(self._journal_size)
            raise
        self._journal_size += written

    def _cut_journal(self, size: int) -> None:
        """Truncate the journal to `size` bytes; nothing happens if it is closed."""
        if self._file >= 0:
            os.ftruncate(self._file, size)
            os.lseek(self._file, size, os.SEEK_SET)
            self._journal_size = size

    def put(self, chunks: Iterable[Chunk]) -> int:
        """Write chunks to files and empty the journal; return how many events were dropped.

        Only events dropped for space are returned; those that cannot be written are reported as
        lost.
        """
        with self._lock:
            unwritten = 0
            for chunk in chunks:
                self._number += 1
                name = f"{time.time_ns():020d}-{self._number:06d}-{chunk.events}{_END}"
                try:
                    self._write(self._path(name), chunk.content)
                except OSError as error:
                    unwritten += chunk.events
                    _log.error(f"The spool cannot be written: {error.strerror}.", extra=_FIELDS)
                    continue
                self._waiting.append(name)
                self._size += len(chunk.content)
            self._count_lost("write", unwritten)
            # INVARIANT: the journal is emptied only after its events are in files. A crash before
            # this line sends them twice, and loses none.
            self._cut_journal(0)
            return self._trim()

    def _write(self, path: str, content: bytes) -> None:
        """Write a file by renaming a temporary one, so that none is ever incomplete."""
        new = f"{path}.new"
        try:
            with open(new, "wb") as file:
                file.write(content)
            # The rename is atomic: a later run reads a complete chunk or none.
            os.replace(new, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise

    def take(self) -> tuple[object, Chunk] | None:
        """Return the oldest readable chunk with its file name; None if none waits.

        Damaged files are deleted and counted as lost.
        """
        with self._lock:
            while self._waiting:
                name = self._waiting.popleft()
                path = self._path(name)
                content = _content_of(path)
                if content is not None:
                    self._size -= len(content)
                    return name, Chunk(content, _events_of(name))
                _log.error(f"Dropped {path}, which is damaged.", extra=_FIELDS)
                self._count_lost("damaged", _events_of(name))
                with contextlib.suppress(OSError):
                    self._size -= os.path.getsize(path)
                    os.unlink(path)
            return None

    def _count_lost(self, reason: str, events: int) -> None:
        if events:
            self._on_lost(reason, events)

    def done(self, key: object) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(str(key)))

    def give_back(self, key: object, chunk: Chunk) -> int:
        """Put a chunk that was not sent back to the front; return how many events were dropped."""
        with self._lock:
            self._waiting.appendleft(str(key))
            self._size += len(chunk.content)
            return self._trim()

    def _trim(self) -> int:
        """Delete the oldest chunks until the rest fits the limit; return their number of events."""
        lost = 0
        while self._size > self._limit and len(self._waiting) > 1:
            name = self._waiting.popleft()
            path = self._path(name)
            with contextlib.suppress(OSError):
                self._size -= os.path.getsize(path)
                os.unlink(path)
            lost += _events_of(name)
        return lost

    def close(self) -> None:
        """Release the folder; what waits there is sent by the next process.

        Later calls do nothing.
        """
        descriptors = [each for each in (self._file, *self._locks) if each >= 0]
        self._file, self._locks = -1, []
        for descriptor in descriptors:
            os.close(descriptor)


def _is_json(line: bytes) -> bool:
    """Return True if the line is complete JSON; a crash can leave an incomplete one."""
    try:
        _DECODER.decode(line.decode())
    except RecursionError:
        return True  # as deep as no damage makes it
    except ValueError:
        return False
    return True


def _content_of(path: str) -> bytes | None:
    """Read a chunk file; None if it cannot be read or its checksum is wrong."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        return content if gzip.decompress(content) else None
    except (OSError, EOFError, zlib.error):
        return None


def _events_of(name: str) -> int:
    number = name.removesuffix(_END).rpartition("-")[2]
    return int(number) if number.isdigit() else 1
