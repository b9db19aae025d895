"""Text and places in it: what every later stage points at when it has to say *where*.

A `Source` is one policy text under the name that errors show; a `Span` is a piece of it.
Nothing here knows what the text means.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from doorward.base.records import record

__all__ = ["NOWHERE", "Source", "Span"]


@record(guarded=False)
class Source:
    """The text of a policy, query or other source: `name` is what errors print (a file name, or ""
    for a query).
    """

    name: str
    text: str = field(repr=False)

    def line(self, row: int) -> str:
        """Return row `row` (from 1) without its line break; "" past the end."""
        lines = self.text.split("\n")
        return lines[row - 1].rstrip("\r") if 0 < row <= len(lines) else ""


@record(guarded=False)
class Span:
    """A part of a source: offsets in characters, with `row` and `col` from 1 as OPA counts them."""

    source: Source = field(repr=False)
    start: int
    end: int
    row: int
    col: int

    @property
    def file(self) -> str:
        return self.source.name

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        """Return `file:row`, or `row:col` without a file name (OPA's form)."""
        return f"{self.file}:{self.row}" if self.file else f"{self.row}:{self.col}"


NOWHERE: Final = Span(Source("", ""), 0, 0, 0, 0)
