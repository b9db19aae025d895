"""A number and what it counts, as people write it: `1 decision`, `1,204 decisions`."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and its noun: `counted(1204, "decision")` -> `1,204 decisions`. `many` is the
    plural, by default `one` with an s.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
