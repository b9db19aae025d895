"""Chunks that wait to be sent: in memory, or on disk, where they survive the process.

Both are bounded; the oldest chunks are dropped first, and counted. On disk, events are in a journal
until they are in a chunk, and a chunk is a file until it was sent. A process that is killed loses
what the decision log had not passed on (50 ms); a chunk that was being sent may be sent again.

Only complete content is sent: a line of the journal must be JSON, and a chunk has its checksum.
Damaged content, and what does not fit on a full disk, is counted.
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

from doorward.base.digits import parse_digits
from doorward.base.os_errors import describe_os_error
from doorward.control.chunks import Chunk

__all__ = ["DiskOutbox", "MemoryOutbox", "Outbox", "SpoolError"]

SLOTS: Final = 64
"""The most processes that can share one folder."""
_JOURNAL: Final = "journal.jsonl"
_END: Final = ".json.gz"
_log: Final = logging.getLogger(__name__)
# Numbers are not looked at: none is too long to be one.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_FIELDS: Final = {"plugin": "decision_logs"}


class SpoolError(Exception):
    """The folder of a spool cannot be used; the message says why."""


class Outbox(Protocol):
    """Chunks that wait to be sent, the oldest first; thread-safe."""

    def note(self, lines: Iterable[bytes]) -> None:
        """Keep events that do not fill a chunk yet, in case the process ends."""

    def put(self, chunks: Iterable[Chunk]) -> int:
        """Add chunks, which replace the events that were noted; return how many events were dropped
        to stay within the limit.
        """

    def take(self) -> tuple[object, Chunk] | None:
        """Return the key of the oldest chunk, and the chunk; None if none waits. No other thread
        gets it; the caller passes it to `done` or `give_back`.
        """

    def done(self, key: object) -> None:
        """Delete a chunk that was sent."""

    def give_back(self, key: object, chunk: Chunk) -> int:
        """Put back a chunk that was not sent, as the oldest; return how many events were dropped to
        stay within the limit.
        """

    def adopt(self) -> None:
        """Take over what others that share the folder have left since they were closed."""

    def close(self) -> None:
        """Release what the outbox holds; further calls of `close` do nothing."""


class MemoryOutbox:
    """Chunks in memory, of at most `limit` bytes together; the newest stays even if it is
    larger.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[Chunk] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def note(self, lines: Iterable[bytes]) -> None:
        """Do nothing: the encoder holds the events in memory."""

    def put(self, chunks: Iterable[Chunk]) -> int:
        """Add chunks as the newest. Return how many events of the oldest chunks were dropped to
        stay within the limit; the last chunk is never dropped.
        """
        with self._lock:
            for chunk in chunks:
                self._chunks.append(chunk)
                self._size += len(chunk.content)
            return self._trim()

    def take(self) -> tuple[object, Chunk] | None:
        """Remove and return the oldest chunk, with None as its key; None alone if none waits."""
        with self._lock:
            if not self._chunks:
                return None
            chunk = self._chunks.popleft()
            self._size -= len(chunk.content)
            return None, chunk

    def done(self, key: object) -> None:
        """Do nothing: `take` has removed the chunk."""

    def give_back(self, key: object, chunk: Chunk) -> int:
        """Put a chunk that was not sent back to the front; return how many events were dropped.
        Without room it is dropped itself.
        """
        with self._lock:
            self._chunks.appendleft(chunk)
            self._size += len(chunk.content)
            return self._trim()

    def _trim(self) -> int:
        """Drop the oldest chunks, except the newest one, until the rest fits the limit; return the
        number of dropped events.
        """
        lost = 0
        # The newest stays, however large it is.
        while self._size > self._limit and len(self._chunks) > 1:
            chunk = self._chunks.popleft()
            self._size -= len(chunk.content)
            lost += chunk.events
        return lost

    def adopt(self) -> None:
        """Do nothing: nothing is left in memory."""

    def close(self) -> None:
        """Do nothing: memory does not outlive the process."""


class DiskOutbox:
    """Chunks as files, of at most `limit` bytes together. Several outboxes, of one or several
    processes, may share `folder`: each has a numbered part of its own, and takes over the parts of
    those that were closed or whose processes have ended.
    """

    def __init__(
        self,
        folder: str,
        limit: int,
        *,
        encode: Callable[[list[bytes]], Iterable[Chunk]],
        on_lost: Callable[[str, int], object] = lambda _reason, _count: None,
    ) -> None:
        """Lock a part of the folder and take over what ended processes left. `encode` makes chunks
        of the events in their journals; `on_lost` is called with a reason and a number of lost
        events. SpoolError if the folder cannot be used.
        """
        self._root = folder
        self._limit = limit
        self._encode = encode
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
            self._recover()
            # Only after `_recover`: O_TRUNC would empty the journal that an ended process left in
            # this part.
            self._file = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise SpoolError(f"{folder}: {describe_os_error(error)}") from None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _lock_part(self, folder: str) -> str:
        """Create, lock and return a numbered folder that no other process uses. OSError if all
        `SLOTS` are in use.
        """
        for number in range(SLOTS):
            part = os.path.join(folder, str(number))
            os.makedirs(part, mode=0o700, exist_ok=True)
            if self._try_lock(part):
                return part
        raise OSError(
            None,
            f"more than {SLOTS} processes write to this spool folder: configure "
            "another folder for some of them",
        )

    def _try_lock(self, part: str) -> bool:
        """Try to lock the folder `part`. Return True if this object now holds the lock, False if
        another holds it; raise OSError if its lock file cannot be opened.
        """
        # The kernel frees the lock however the process ends. The file is never deleted: otherwise
        # one process could lock the deleted file, and another a new one of its name.
        descriptor = os.open(os.path.join(part, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._locks.append(descriptor)
        return True

    def adopt(self) -> None:
        """Take over what others that share the folder have left since they were closed; a failure
        is logged. Does nothing after `close`. The caller encodes nothing meanwhile.
        """
        if self._file < 0:
            return
        try:
            self._recover()
        except OSError as error:
            _log.error(
                f"The spool folder {self._folder} of the decision log cannot be read: "
                f"{describe_os_error(error)}.",
                extra=_FIELDS,
            )

    def _recover(self) -> None:
        """Take over the chunks and journals in the folder that closed outboxes or ended processes
        left; parts in use are skipped. At the start, before the journal is open, this outbox's own
        part is taken over too. Lost events are counted. OSError if a file cannot be read or moved.
        """
        lock = self._locks[0]
        try:
            for name in sorted(os.listdir(self._root)):
                part = os.path.join(self._root, name)
                if part == self._folder:
                    if self._file < 0:
                        self._take_over(part)
                elif os.path.isdir(part) and os.listdir(part) != ["lock"] and self._try_lock(part):
                    self._take_over(part)
        finally:
            for descriptor in self._locks[1:]:
                os.close(descriptor)
            self._locks = [lock]

    def _take_over(self, part: str) -> None:
        """Move the chunks of a part that another process left to this outbox's part, and encode the
        events of its journal into chunks. Unfinished chunk files are deleted, torn lines are
        counted as lost, and the journal is deleted.
        """
        for name in sorted(os.listdir(part)):
            if name.endswith(_END):
                self._adopt(os.path.join(part, name))
            elif name.endswith(".new"):
                os.unlink(os.path.join(part, name))
        journal = os.path.join(part, _JOURNAL)
        if os.path.exists(journal):
            with open(journal, "rb") as file:
                lines = file.read().split(b"\n")
            # Without its end, the last one was being written when the process was killed.
            complete = [line for line in lines[:-1] if _is_json(line)]
            self._count_lost("torn", len([line for line in lines if line]) - len(complete))
            # INVARIANT: `encode` returns the events that it held before, too. They are in this
            # outbox's own journal, which `put` empties.
            dropped = self.put(self._encode(complete))
            self._count_lost("buffer_size_limit_bytes_exceeded", dropped)
            # Last: a crash before it sends these events twice, and loses none.
            os.unlink(journal)

    def _adopt(self, path: str) -> None:
        """Append a chunk file that an ended process left to the queue, and add its size; the file
        is moved into this outbox's part first, unless it is there. The limit is not applied here.
        OSError if it cannot be moved.
        """
        name = os.path.basename(path)
        with self._lock:
            if os.path.dirname(path) != self._folder:
                os.replace(path, self._path(name))
            self._waiting.append(name)
            self._size += os.path.getsize(self._path(name))

    def note(self, lines: Iterable[bytes]) -> None:
        """Append events to the journal, so that they survive the process. OSError if that fails;
        the journal is then as before.
        """
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
        """Truncate the journal to `size` bytes; does nothing after `close`."""
        if self._file >= 0:
            os.ftruncate(self._file, size)
            os.lseek(self._file, size, os.SEEK_SET)
            self._journal_size = size

    def put(self, chunks: Iterable[Chunk]) -> int:
        """Write each chunk to a file and queue it, then empty the journal, whose events must be in
        the chunks. Return how many events of the oldest chunks were dropped to stay within the
        limit. A chunk that cannot be written is logged, and its events are reported to `on_lost`.
        """
        with self._lock:
            unwritten = 0
            for chunk in chunks:
                self._number += 1
                # Names in order are chunks in order of age; with the number of events, a damaged or
                # dropped file need not be read to count them.
                name = f"{time.time_ns():020d}-{self._number:06d}-{chunk.events}{_END}"
                try:
                    self._write(self._path(name), chunk.content)
                except OSError as error:
                    unwritten += chunk.events
                    _log.error(
                        f"The spool folder {self._folder} of the decision log cannot be written: "
                        f"{describe_os_error(error)}.",
                        extra=_FIELDS,
                    )
                    continue
                self._waiting.append(name)
                self._size += len(chunk.content)
            self._count_lost("write", unwritten)
            # INVARIANT: the journal is emptied only after its events are in files. A crash before
            # this line sends them twice, and loses none.
            self._cut_journal(0)
            return self._trim()

    def _write(self, path: str, content: bytes) -> None:
        """Write a file under a temporary name and rename it, so that it is never incomplete;
        OSError if that fails.
        """
        new = f"{path}.new"
        try:
            # Without `fsync`: the file outlives a killed process all the same, and after a power
            # cut its checksum tells.
            with open(new, "wb") as file:
                file.write(content)
            # The rename is atomic: a later run reads a complete chunk or none.
            os.replace(new, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise

    def take(self) -> tuple[object, Chunk] | None:
        """Remove the oldest readable chunk from the queue, and return its file name and content;
        None if none waits, or after `close`. The file stays until `done`. Damaged files are deleted
        and counted as lost.
        """
        with self._lock:
            # After `close` the files may be another's.
            while self._waiting and self._file >= 0:
                name = self._waiting.popleft()
                path = self._path(name)
                content = _content_of(path)
                if content is not None:
                    self._size -= len(content)
                    return name, Chunk(content, _events_of(name))
                _log.error(f"Dropped {path}, which is damaged: its events are lost.", extra=_FIELDS)
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
        """Put a chunk that was not sent back to the front; return how many events were dropped.
        Without room it is dropped itself, with its file.
        """
        with self._lock:
            self._waiting.appendleft(str(key))
            self._size += len(chunk.content)
            return self._trim()

    def _trim(self) -> int:
        """Delete the oldest chunks, except the newest one, until the rest fits the limit; return
        the number of dropped events.
        """
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
        """Release the folder, whose chunks the next process sends. Further calls of `close` do
        nothing.
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
    """Return the bytes of a chunk file; None if it cannot be read or its checksum is wrong."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        return content if gzip.decompress(content) else None
    except (OSError, EOFError, zlib.error):
        return None


def _events_of(name: str) -> int:
    """The number of events in a chunk file, from its name; 1 if the name has none."""
    number = name.removesuffix(_END).rpartition("-")[2]
    parsed = parse_digits(number)
    return 1 if parsed is None else parsed
