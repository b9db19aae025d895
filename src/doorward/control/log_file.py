"""Decision logs in a file, one event a line, with rotation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from doorward.base.line_files import is_cut_off
from doorward.config.upload_options import FileOptions

__all__ = ["LogFile"]


class LogFile:
    """Appends lines to a file. A full file becomes `path.1`, that becomes `path.2`, and so on. If
    another program moves or removes the file, it is created again. Not thread-safe.
    """

    def __init__(self, options: FileOptions) -> None:
        """Open the file; OSError if it cannot be written."""
        self._options = options
        self._identity: tuple[int, int] | None = None
        self._open()

    def _open(self) -> None:
        """Open the file for appending, created readable by its owner only; record its size, its
        identity and whether its last line is cut off.
        """
        descriptor = os.open(self._options.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        status = os.fstat(descriptor)
        self._size = status.st_size
        self._identity = status.st_dev, status.st_ino
        self._torn = is_cut_off(self._options.path, descriptor)

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, after rotating the file if they would exceed `max_bytes`, or opening it
        again if another program has moved it. OSError if that fails: some of the lines may be in
        the file then, and the last of these cut off.
        """
        content = b"".join([line + b"\n" for line in lines])
        # logrotate and the like move the file: the next lines belong to the new one.
        if self._is_elsewhere():
            self._reopen()
        elif self._size and self._size + self._torn + len(content) > self._options.max_bytes:
            self._rotate()
        # After a line that was cut off, at a full disk, the next begins on its own.
        content = b"\n" + content if self._torn else content
        written = 0
        try:
            # A full disk takes a part, and says why only when it is asked to take the rest.
            while written < len(content):
                written += os.write(self._file.fileno(), content[written:])
        finally:
            self._size += written
            if written:
                self._torn = content[written - 1 : written] != b"\n"

    def _is_elsewhere(self) -> bool:
        """Return True if the path is another file now, or none, as after a rotation by another
        program.
        """
        try:
            status = os.stat(self._options.path)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _rotate(self) -> None:
        """Rename the file to `.1` and each older one to the next number, and open a new file. The
        oldest is overwritten; if none is to be kept, the file is deleted.
        """
        path, keep = self._options.path, self._options.keep
        # From the oldest on, so that each file has moved before another takes its name.
        for number in range(keep, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}.{number - 1}", f"{path}.{number}")
        if keep:
            os.replace(path, f"{path}.1")
        else:
            os.unlink(path)
        # Not before the file is moved: if that fails, lines that fit still go to it.
        self._reopen()

    def _reopen(self) -> None:
        """Close the file and open the one at the path; OSError if that fails: then no file is open,
        and the next write tries again.
        """
        self._file.close()
        self._identity = None
        self._open()

    def close(self) -> None:
        self._file.close()
