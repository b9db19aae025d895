"""Decision logs in a file, one event a line, with rotation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from doorward.config.upload_options import FileOptions

__all__ = ["LogFile"]


class LogFile:
    """Writes lines. When the file is full it becomes `path.1`, and that `path.2`, and so on.

    A file that somebody else moved away or removed is made again. For one thread.
    """

    def __init__(self, options: FileOptions) -> None:
        """OSError where the file cannot be written."""
        self._options = options
        self._open()

    def _open(self) -> None:
        """Open the file for appending, readable by its owner only; note its size and identity."""
        descriptor = os.open(self._options.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        status = os.fstat(descriptor)
        self._size = status.st_size
        self._identity = status.st_dev, status.st_ino

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, rotating the file when it is full; raise OSError if that fails."""
        content = b"".join([line + b"\n" for line in lines])
        if self._is_elsewhere():
            self._file.close()
            self._open()
        elif self._size and self._size + len(content) > self._options.max_bytes:
            self._rotate()
        self._file.write(content)
        self._size += len(content)

    def _is_elsewhere(self) -> bool:
        """Return True if the path names another file now, as after a rotation by others."""
        try:
            status = os.stat(self._options.path)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _rotate(self) -> None:
        """Rename the file to `.1` and each older one to the next number, and open a new file.

        The oldest is overwritten; without files to keep the log is deleted.
        """
        path, keep = self._options.path, self._options.keep
        self._file.close()
        # From the oldest on, so that each file has moved before another takes its name.
        for number in range(keep, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}.{number - 1}", f"{path}.{number}")
        if keep:
            os.replace(path, f"{path}.1")
        else:
            os.unlink(path)
        self._open()

    def close(self) -> None:
        self._file.close()
