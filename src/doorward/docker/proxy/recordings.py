"""Recordings of `exec` and `attach`, written to a file before it is passed on.

A stream is decided once, when it begins; a recording says what was done with it. Where it cannot be
written, no stream begins, and one that is under way ends: nothing passes unrecorded. Files are
root's and hold whatever was typed, passwords included.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from doorward.base.os_errors import describe_folder_error, describe_os_error

__all__ = ["LARGEST", "RECORDED", "Recording", "RecordingError", "Recordings"]

RECORDED: Final = frozenset({"container.attach", "exec.start"})
"""The actions whose streams are recorded, if recording is on."""
LARGEST: Final = 1 << 30
"""Bytes of one file; a stream that needs more ends."""
_THREADS: Final = 4


class RecordingError(Exception):
    """A recording that cannot be written; the message says why."""


class Recording:
    """One file: a line of JSON about the stream, then a line for each piece. Safe in threads."""

    def __init__(self, path: str, largest: int, about: Mapping[str, Any]) -> None:
        """Create the file at `path`, which must not exist, and write `about` as its first line.

        `largest` limits the file's size in bytes. Raise RecordingError if the file cannot be
        created or written.
        """
        self._lock = threading.Lock()
        self._left = largest
        self._began = time.monotonic()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise RecordingError(describe_os_error(error)) from None
        try:
            self._append(about)
        except RecordingError:
            self.close()
            raise

    def write(self, source: str, piece: bytes) -> None:
        """Append a piece of `source`, which is `client` or `daemon`. Raise RecordingError if the
        file becomes too large or cannot be written.
        """
        at = round(time.monotonic() - self._began, 6)
        self._append({"at": at, "from": source, "data": base64.b64encode(piece).decode()})

    def _append(self, document: Mapping[str, Any]) -> None:
        """Append a JSON line to the file. Raise RecordingError if the file would exceed its limit,
        or the line cannot be written completely; the session that is recorded must then end.
        """
        line = json.dumps(document).encode() + b"\n"
        with self._lock:
            if len(line) > self._left:
                raise RecordingError(
                    "the recording has reached its maximum size (--record-limit), which "
                    "ends the session"
                )
            try:
                written = os.write(self._fd, line)
            except OSError as error:
                raise RecordingError(describe_os_error(error)) from None
            self._left -= written
            # A short write is a full disk: the rest of the line would be missing from the record.
            if written != len(line):
                raise RecordingError("the disk of the recordings (--record) is full")

    def close(self) -> None:
        """Close the file. Further calls do nothing; pieces that are written later raise
        RecordingError.
        """
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


class Recordings:
    """The folder of recordings. `threads`: where they are written, since a disk may be slow."""

    def __init__(self, folder: str, largest: int = LARGEST) -> None:
        """Create the folder for recordings, readable for this user only, and the threads that
        write.

        `largest` is the limit of one recording in bytes. Raise RecordingError if the folder cannot
        be created.
        """
        self._folder = folder
        self._largest = largest
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="docker-proxy-record")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(folder, 0o700)
        except OSError as error:
            raise RecordingError(f"{folder}: {describe_folder_error(error)}") from None

    def begin(self, decision_id: str, about: Mapping[str, Any]) -> Recording:
        """Return a new recording of a decided stream, with `about` in its first line; raise
        RecordingError if its file cannot be created or written.
        """
        now = time.gmtime()
        # A decision point elsewhere may have chosen the identifier: no path may come of it.
        name = "".join([c if c.isalnum() or c == "-" else "_" for c in decision_id[:64]])
        path = f"{self._folder}/{time.strftime('%Y%m%dT%H%M%SZ', now)}-{name}.jsonl"
        begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", now)
        return Recording(path, self._largest, {**about, "time": begun, "decision_id": decision_id})

    def close(self) -> None:
        """Accept no more pieces. Those under way are still written; this does not wait for them."""
        self.threads.shutdown(wait=False)
