"""How much memory this process has, as Linux tells it."""

from __future__ import annotations

import os
from functools import cache
from typing import Final

__all__ = ["resident_memory"]

_STATUS: Final = "/proc/self/statm"


@cache
def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def resident_memory() -> int:
    """Bytes of this process that are in memory now; 0 where nobody tells. A few microseconds."""
    try:
        with open(_STATUS, "rb", buffering=0) as file:
            return int(file.read(128).split()[1]) * _page_size()
    except (OSError, ValueError, IndexError):
        return 0
