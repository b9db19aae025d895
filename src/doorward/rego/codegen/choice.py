"""The outcome of choosing: which definitions are candidates for which value."""

from __future__ import annotations

from typing import TypeAlias

from doorward.base.records import record
from doorward.rego.values import Key

__all__ = ["Choice", "Source"]

Source: TypeAlias = tuple[str, ...] | int
"""What is looked at: the names of a path below `input`, or the number of a parameter."""


@record
class Choice:
    """Candidates by the value of `source`, as positions in the list of definitions.

    `others`: where the value is none that any definition names, or undefined.
    """

    source: Source
    candidates: dict[Key, tuple[int, ...]]
    others: tuple[int, ...]
