"""Host paths whose links are followed by what the kernel has in memory, so that nobody waits.

A path may lead to a host that is away, and a caller that follows it waits. The kernel can be told
not to: what it does not know without a disk or a network is left to a thread. So are paths that do
not exist, links of `/proc` that are not paths (`/proc/PID/root`), and kernels before 5.12.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final

from doorward.docker.request.errors import WaitError

__all__ = ["resolve_cached"]

_OPENAT2: Final = 437
_AT_FDCWD: Final = ctypes.c_int(-100)
_CACHED: Final = 0x20 | 0x02
"""RESOLVE_CACHED and RESOLVE_NO_MAGICLINKS."""
_HOW: Final = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _CACHED)
_SIZE: Final = ctypes.c_size_t(len(_HOW))
_syscall: Final = ctypes.CDLL(None).syscall


def resolve_cached(path: str) -> str:
    """Return an absolute path with its links followed, if the kernel can do so from its cache.

    Raise WaitError if it would have to read the disk, or if the path does not exist, was deleted or
    has a NUL; the caller then asks again in a thread.
    """
    if "\x00" in path:
        raise WaitError
    descriptor = _syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), _HOW, _SIZE)
    if descriptor < 0:
        raise WaitError
    try:
        resolved = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        raise WaitError from None
    finally:
        os.close(descriptor)
    # The kernel marks a removed file so, and a file may really be called so: a thread finds out.
    if not resolved.startswith("/") or resolved.endswith(" (deleted)"):
        raise WaitError
    return resolved
