"""The names of one Python function: which are taken, and what they stand for."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterable
from typing import Final

from doorward.rego.codegen.emit.ast_nodes import load

__all__ = ["Temporaries"]


MAX_NAME: Final = 30
"""The most characters of the descriptive part of a local name; longer names would be hard to
read.
"""


class Temporaries:
    """Makes the local names of one Python function. Only this file changes its state."""

    __slots__ = ("_numbers", "at_start", "copies", "shared", "taken")

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self.taken: set[str] = set(reserved)
        self._numbers: dict[str, int] = {}
        """The last number that was appended to each name."""
        self.copies: dict[str, str] = {}
        """For each local name that is a copy, the name with the original value."""
        self.shared: set[str] = set()
        """Names that inner functions may assign."""
        self.at_start: dict[str, ast.expr] = {}
        """Names that the function binds first, in this order."""

    def fresh(self, wish: str = "") -> str:
        """Return a new local name: `wish`, or `wish` with a number if that is taken or reserved by
        Python; `_2`, `_3`, … without a wish.
        """
        base = wish or "_"
        if wish and wish not in self.taken and not _is_reserved(wish):
            self.taken.add(wish)
            return wish
        # Continued where the last search ended, so that many names stay linear.
        number = self._numbers.get(base, 1) + 1
        while f"{base}{number}" in self.taken:
            number += 1
        self._numbers[base] = number
        self.taken.add(f"{base}{number}")
        return f"{base}{number}"

    def holding(self, text: str) -> str:
        """Return a new local name that begins with `_` and `text`, such as `_domain`; `_2`, `_3`, …
        if `text` is not an ASCII identifier or is longer than `MAX_NAME`.
        """
        is_name = text.isascii() and text.isidentifier() and len(text) <= MAX_NAME
        return self.fresh(f"_{text}" if is_name else "")

    def fresh_shared(self, wish: str = "") -> str:
        """Return a new name, that of `fresh`, and let inner functions assign it too."""
        name = self.fresh(wish)
        self.share(name)
        return name

    def share(self, name: str) -> None:
        """Let functions inside the function assign `name`."""
        self.shared.add(name)

    def note_copy(self, name: str, original: str) -> None:
        """Record that `name` has the same value as `original`."""
        self.copies[name] = self.original(original)

    def original(self, name: str) -> str:
        """Return the name that `name` is a copy of; `name` itself if it is not a copy."""
        return self.copies.get(name, name)

    def bind_at_start(self, name: str, value: ast.expr) -> ast.Name:
        """Assign `value` to `name` at the start of the function, once; return the name."""
        self.at_start.setdefault(name, value)
        return load(name)


def _is_reserved(name: str) -> bool:
    """Return True if Python does not allow an assignment to `name`."""
    return keyword.iskeyword(name) or name == "__debug__"
