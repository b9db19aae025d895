"""The limits on what the console does at the same time. Used on the loop only."""

from __future__ import annotations

from typing import Final
from weakref import WeakSet

__all__ = ["Slot", "Slots"]


class Slot:
    """A right to one use: a context manager that gives it back at its end. One whose use never
    begins is given back when it is deleted, since `Slots` has weak references.
    """

    def __init__(self, taken: WeakSet[Slot]) -> None:
        self._taken: Final = taken
        taken.add(self)

    def __enter__(self) -> None:
        """Begin the use."""

    def __exit__(self, *_: object) -> None:
        self._taken.discard(self)


class Slots:
    """The uses of one kind, at most `most` at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: WeakSet[Slot] = WeakSet()

    def __len__(self) -> int:
        """Return the number of slots that are taken."""
        return len(self._taken)

    def take(self) -> Slot | None:
        """Return a slot; None if all are taken."""
        return Slot(self._taken) if len(self._taken) < self._most else None
