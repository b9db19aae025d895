"""Calls that came before, and the inputs that were made of them.

Tools ask the daemon the same again and again: which containers there are, how one is, another one
of an image. Where nothing of the host was asked, an input depends on nothing but the bytes of its
call and the options; it is made in 26 microseconds and found in one. Decisions are always made.

A call is known by its digest, since what an input masks is in it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

__all__ = ["KnownCalls"]

LONGEST: Final = 8 * 1024
"""Bytes of a call whose input is kept."""
MOST_BYTES: Final = 256 * 1024
"""Bytes of the calls of one generation: what has not come for two of them is forgotten."""


class KnownCalls:
    """Inputs by their calls; safe in any number of threads: what a race loses is made again."""

    def __init__(self) -> None:
        self._now: dict[bytes, dict[str, Any]] = {}
        self._before: dict[bytes, dict[str, Any]] = {}
        self._size = 0

    def find(self, call: bytes) -> dict[str, Any] | None:
        """The input of a call that came before, which nobody may change."""
        key = sha256(call).digest()
        known = self._now.get(key)
        if known is None and (known := self._before.get(key)) is not None:
            self._put(key, known, len(call))
        return known

    def add(self, call: bytes, input: dict[str, Any]) -> None:
        """Keep the input of a call, which nobody changes from now on."""
        if len(call) <= LONGEST:
            self._put(sha256(call).digest(), input, len(call))

    def _put(self, key: bytes, input: dict[str, Any], size: int) -> None:
        if self._size + size > MOST_BYTES:
            self._before, self._now, self._size = self._now, {}, 0
        self._now[key] = input
        self._size += size
