"""The outcome of choosing: which definitions are candidates for which value."""

from __future__ import annotations

from typing import TypeAlias

from doorward.base.records import record
from doorward.rego.values import Key

__all__ = ["Choice", "Source"]

Source: TypeAlias = tuple[str, ...] | int
"""The value that a table tests: the names of a path below `input`, or the number of a parameter."""


@record
class Choice:
    """A table of the definitions that can apply for each value of `source`, a path below `input` or
    a parameter by its number. Definitions are given as positions in a list. `others`: those for a
    value that no definition names, and for no value.
    """

    source: Source
    candidates: dict[Key, tuple[int, ...]]
    others: tuple[int, ...]
