"""Calls that came before, and the inputs that were made of them.

Tools ask the daemon the same again and again: which containers there are, how one is, another one
of an image. Where nothing of the host was asked, an input depends on nothing but the bytes of its
call and the options; it is made in 13 microseconds and found in two. Decisions are always made.

An input is kept when its call comes for the second time. Many never do, and to keep theirs would
make each next one in memory that is not cached, which costs as much as is saved. A call is known by
its digest, since what an input masks is in it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

__all__ = ["KnownCalls"]

LONGEST: Final = 8 * 1024
"""Bytes of the longest call whose input is cached."""
SHORT: Final = 1024
"""The same for a call with a body, which is seldom sent twice: to find that out takes longer with
each of its bytes."""
_BODY: Final = b'"RequestBody":'
MOST_KNOWN: Final = 128
"""Inputs of one generation of the cache. An input unused for two generations is dropped."""
SLOTS: Final = 2 * MOST_KNOWN
"""Calls of which it is known that they came: each replaces the one before in its slot. Inputs of
calls that come again after more others than this would be forgotten before they are used."""


class KnownCalls:
    """A cache of inputs by the bytes of their calls. Safe in threads: a lost race only builds an
    input again.
    """

    def __init__(self) -> None:
        self._now: dict[bytes, dict[str, Any]] = {}
        self._before: dict[bytes, dict[str, Any]] = {}
        self._seen = [0] * SLOTS

    def key(self, call: bytes) -> bytes | None:
        """Return the key under which the input of a call is cached.

        None if the call is longer than `LONGEST`, or than `SHORT` with a body, or if it was not
        seen lately: the first time only marks it.
        """
        if len(call) > SHORT and (len(call) > LONGEST or _BODY in call):
            return None
        # Only a hint, and of this process alone: an attacker who finds equal ones gains nothing,
        # since the input itself is found by its SHA-256.
        mark = hash(call)
        slot = mark % SLOTS
        if self._seen[slot] != mark:
            self._seen[slot] = mark
            return None
        return sha256(call).digest()

    def find(self, key: bytes) -> dict[str, Any] | None:
        """Return the cached input of a call, None if there is none; the caller must not change it.
        An input of the older generation moves to the newer one.
        """
        known = self._now.get(key)
        if known is None and (known := self._before.get(key)) is not None:
            self.add(key, known)
        return known

    def add(self, key: bytes, input: dict[str, Any]) -> None:
        """Store the input of a call under its key; nobody may change the input from now on. Every
        `MOST_KNOWN` additions, inputs that were not used since the last time are dropped.
        """
        if len(self._now) >= MOST_KNOWN:
            # Two generations instead of a list of uses, which each hit would have to change.
            self._before, self._now = self._now, {}
        self._now[key] = input
