"""Files to which lines are appended, also by a process before."""

from __future__ import annotations

import os
import stat

__all__ = ["is_cut_off"]


def is_cut_off(path: str, fd: int) -> bool:
    """Return True if the last line of the file `path`, open as `fd`, has no end; False if the file
    is empty, is not a regular one, or cannot be read.

    A process that is killed while it writes leaves such a line: the kernel stops between two pages.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return False
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
