"""Processes of this machine, as `/proc` shows them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["command_line"]


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line, decoded as Python decodes file names; [] if the
    process has ended or cannot be read.
    """
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(word) for word in content.split(b"\0")[:-1]]
