"""Large blocks of memory go back to the system once they are freed.

The C library raises the size from which it does that with each large block that is freed, up to
32 MiB: after a body of a megabyte all the next ones come out of its heap, where what is freed stays
between what is not. A plugin that once read a hundred of them would have that memory for good.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

__all__ = ["return_large_blocks"]

LARGE: Final = 128 * 1024
"""Bytes of an allocation that glibc serves with `mmap` at first."""
_M_MMAP_THRESHOLD: Final = -3


def return_large_blocks() -> None:
    """Set glibc, for this process, to return each freed block of `LARGE` bytes or more to the
    system; do nothing with other C libraries, which have no such setting.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE)
