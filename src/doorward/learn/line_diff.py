"""A unified diff of a text and what is left of it, in a time that grows with the text.

Lines of the text are left out, or lose their last comma. `difflib` looks for the longest common
parts, which takes the square of the lines where many are left out; here each line that is left is
the first one that it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

__all__ = ["diff_of_cut"]

CONTEXT: Final = 3
Edit: TypeAlias = tuple[int, int, int, int]
"""Lines of a text that are replaced: first and end line, and first and end of the new lines in the
other text.
"""


def diff_of_cut(before: Sequence[str], after: Sequence[str], name: str) -> Iterator[str] | None:
    """Yield the lines of a unified diff; None if `after` is not `before` without some lines, and
    without the commas at the end of others. Nothing for equal texts.
    """
    edits = _edits(before, after)
    return None if edits is None else _diff_lines(before, after, edits, name)


def _edits(before: Sequence[str], after: Sequence[str]) -> list[Edit] | None:
    """Return the ranges of lines that were removed, or that lost a comma at their end; None if
    there are other differences.
    """
    edits: list[Edit] = []
    position = 0
    start: tuple[int, int] | None = None
    for number, line in enumerate(before):
        is_left = position < len(after) and line == after[position]
        if is_left and start is not None:
            edits.append((start[0], number, start[1], position))
            start = None
        elif not is_left and start is None:
            start = number, position
        if is_left or (position < len(after) and _without_comma(line) == after[position]):
            position += 1
    if start is not None:
        edits.append((start[0], len(before), start[1], position))
    return edits if position == len(after) else None


def _without_comma(line: str) -> str:
    text = line.rstrip("\r\n")
    return text.removesuffix(",") + line[len(text) :]


def _diff_lines(
    before: Sequence[str], after: Sequence[str], edits: Sequence[Edit], name: str
) -> Iterator[str]:
    """Yield the lines of the unified diff that replaces `edits`, with up to `CONTEXT` lines around
    each, for a file `name`; nothing if there are no edits.
    """
    if edits:
        yield f"--- a/{name}\n"
        yield f"+++ b/{name}\n"
    for hunk in _hunks(edits):
        first, last = hunk[0], hunk[-1]
        above = min(CONTEXT, first[0])
        below = min(CONTEXT, len(before) - last[1])
        old = _range(first[0] - above, last[1] + below)
        new = _range(first[2] - above, last[3] + below)
        yield f"@@ -{old} +{new} @@\n"
        yield from (f" {line}" for line in before[first[0] - above : first[0]])
        for number, (start, end, start_after, end_after) in enumerate(hunk):
            yield from (f"-{line}" for line in before[start:end])
            yield from (f"+{line}" for line in after[start_after:end_after])
            stop = hunk[number + 1][0] if number + 1 < len(hunk) else end + below
            yield from (f" {line}" for line in before[end:stop])


def _hunks(edits: Sequence[Edit]) -> Iterator[list[Edit]]:
    """Yield the edits in groups; edits at most `2 * CONTEXT` lines apart are in one group. Nothing
    for no edits.
    """
    hunk = list(edits[:1])
    for one, other in pairwise(edits):
        if other[0] - one[1] > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(other)
    if hunk:
        yield hunk


def _range(start: int, end: int) -> str:
    """Return a range of lines as unified diffs write it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
