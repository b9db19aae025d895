"""What partial rules say of an object, piece by piece: for lookups in one whose rules conflict.

An object with a conflict at one key has all its others. So its rules are asked once more, into a
`Record` that refuses nothing, and a lookup is answered from the pieces that concern it: those at
its path, on the way to it and below it. A conflict among these is an error, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from doorward.rego.runtime.operations import freeze, insert_at, insert_member_at, open_at
from doorward.rego.source import Span
from doorward.rego.values import Key, to_key

__all__ = ["Record"]


class Piece(NamedTuple):
    """One step that makes the object: `put(out, path, *what)`."""

    put: Callable[..., None]
    path: tuple[Any, ...]
    what: tuple[Any, ...]


class Record:
    """Takes what rules put into an object; its methods are those of `operations`."""

    def __init__(self) -> None:
        self._pieces: dict[Key, list[Piece]] = {}

    def insert(self, out: object, key: Any, value: Any, span: Span) -> None:
        self._add(insert_at, (key,), value, span)

    def insert_at(self, out: object, path: Sequence[Any], value: Any, span: Span) -> None:
        self._add(insert_at, path, value, span)

    def insert_member_at(self, out: object, path: Sequence[Any], member: Any, span: Span) -> None:
        self._add(insert_member_at, path, member, span)

    def open_at(self, out: object, path: Sequence[Any], span: Span) -> None:
        self._add(open_at, path, span)

    def _add(self, put: Callable[..., None], path: Sequence[Any], *what: Any) -> None:
        self._pieces.setdefault(to_key(path[0]), []).append(Piece(put, tuple(path), what))

    def part(self, path: Sequence[Any]) -> dict[Key, Any]:
        """The object as far as a lookup at `path` sees it; EvalError where that conflicts."""
        keys = [to_key(key) for key in path]
        out: dict[Key, Any] = {}
        for piece in self._pieces.get(keys[0], ()):
            if all(to_key(a) == b for a, b in zip(piece.path, keys, strict=False)):
                piece.put(out, piece.path, *piece.what)
        return freeze(out)
