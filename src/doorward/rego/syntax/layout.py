"""Lines, indentation and comments: the output of the formatter.

Comments are written where their rows are: those above a part before it, the one beside it at the
end of the line. A line can take one such comment. Where a second one would come, or one is where
there will be no line, `UnexpectedComment` is raised, and the source text is better left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from doorward.base.records import record
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Comment

__all__ = ["Layout", "Mark", "UnexpectedComment", "closing_row", "first_row", "last_row"]

_INDENT = "\t"


class UnexpectedComment(Exception):
    """A comment is at a place where the formatted text cannot have one."""


@record
class Mark:
    """A state of the layout to which `back` returns."""

    length: int
    level: int
    inline: bool
    comments: tuple[Comment, ...]
    beside: Comment | None


class Layout:
    """The output so far, and the comments that are still to be written, in order. `level` is the
    indentation in tabs.
    """

    def __init__(self, comments: Iterable[Comment]) -> None:
        self.comments: tuple[Comment, ...] = tuple(comments)
        self.level = 0
        self.inline = False
        """True if the current line has text."""
        self.beside: Comment | None = None
        """The comment that is to be written at the end of the current line; None if there is none.
        """
        self.spreads = False
        """True if a collection with a comment inside is written with one line for each of its
        source lines.
        """
        self.keep_final_comment = False
        """True if a comment beside the last row of a part that is written unchanged is written with
        it.
        """
        self._out: list[str] = []

    def text(self) -> str:
        """Return the output; several line breaks at its end become one."""
        written = "".join(self._out)
        return written.rstrip("\n") + "\n" if written.endswith("\n") else written

    # Going back

    @property
    def length(self) -> int:
        """The number of texts written so far: it grows with each one, and `back` shortens it."""
        return len(self._out)

    def mark(self) -> Mark:
        """Return the present state (output, indentation, waiting comments), to which `back` returns
        and from which `text_since` reads.
        """
        return Mark(len(self._out), self.level, self.inline, self.comments, self.beside)

    def back(self, mark: Mark) -> None:
        """Go back to a mark: drop the output since, and restore the comments of that time."""
        del self._out[mark.length :]
        self.level, self.inline = mark.level, mark.inline
        self.comments, self.beside = mark.comments, mark.beside

    def text_since(self, mark: Mark) -> str:
        """Return the output since `mark`."""
        return "".join(self._out[mark.length :])

    # Lines

    def write(self, text: str) -> None:
        if text:
            self._out.append(text)

    def start_line(self) -> None:
        """Begin a line with its indentation."""
        self.inline = True
        self.write(_INDENT * self.level)

    def start_line_unless_inline(self) -> None:
        if not self.inline:
            self.start_line()

    def end_line(self, *, delay: bool = False) -> None:
        """End the line, with the comment `beside` it if there is one, unless `delay` keeps that for
        the next line.
        """
        self.inline = False
        if self.beside is not None and not delay:
            self._out.append(f" #{self.beside.text}")
            self.beside = None
        self._out.append("\n")

    def blank_line(self) -> None:
        """End the line if one is begun, and add an empty line."""
        if self.inline:
            self.end_line()
        self._out.append("\n")

    def write_line(self, text: str) -> None:
        """Write a text on a line of its own, or at the end of a begun line."""
        self.start_line_unless_inline()
        self.write(text)
        self.end_line()

    def open_lines(self, *, delay: bool) -> None:
        """End the line and indent the following ones by one level more; with `delay`, the comment
        `beside` it ends the first of them.
        """
        self.end_line(delay=delay)
        self.level += 1

    # Comments

    def pass_row(self, row: int) -> None:
        """Take the waiting comments up to `row`: those above it are written on lines of their own,
        with a blank line behind if the source has one, and the one in `row` becomes `beside`, to be
        written at the end of the line. UnexpectedComment if `beside` has one already.
        """
        if not self.comments or self.comments[0].span.row > row:  # they are in order
            return
        before = tuple(c for c in self.comments if c.span.row < row)
        at = [c for c in self.comments if c.span.row == row]
        self.comments = tuple(c for c in self.comments if c.span.row > row)
        self.write_comments(before)
        if before and row - before[-1].span.row > 1:
            self.blank_line()
        if not at:
            return
        if self.beside is not None:
            raise UnexpectedComment
        self.beside = at[-1]

    def closing_row(self, span: Span, pair: str, skip: str = "") -> int:
        """Return the row of the bracket that closes the first one of `pair` in the span's text,
        after the pair `skip` if that is given; -1 if there is none. -1 also, without a search, if
        no waiting comment is above or in the last row of the span, since only comments need the
        row.
        """
        if not self.comments or self.comments[0].span.row > span.row + span.text.count("\n"):
            return -1
        return closing_row(span, pair, skip)

    def write_comments(self, comments: Iterable[Comment]) -> None:
        """Write comments on their own lines, with a blank line where the source has a gap and
        between two METADATA blocks.
        """
        last: Comment | None = None
        in_metadata = False
        for comment in comments:
            is_metadata = comment.text.strip() == "METADATA"
            if last is not None:
                distance = _distance(last, comment)
                if distance > 1:
                    self.blank_line()
                    in_metadata = False
                elif distance == 1 and in_metadata and is_metadata:
                    self.blank_line()
            in_metadata = in_metadata or is_metadata
            self.write_line(f"#{comment.text}")
            last = comment

    def take_comments(self, span: Span) -> list[Comment]:
        """Remove the waiting comments in the rows of a span, and return them."""
        taken: list[Comment] = []
        left: list[Comment] = []
        for comment in self.comments:
            inside = span.row <= comment.span.row <= last_row(span)
            (taken if inside else left).append(comment)
        self.comments = tuple(left)
        return taken

    @contextmanager
    def without_comments(self) -> Iterator[None]:
        """Return a context manager in whose body the waiting comments are hidden; they wait again
        afterwards, but not after an exception.
        """
        # The tuple is replaced and never changed, so a `Mark` keeps the comments of its time for
        # free.
        waiting, self.comments = self.comments, ()
        yield
        # Not in a `finally`: after an `UnexpectedComment` this layout is not written on any more.
        self.comments = waiting

    def write_as_is(self, span: Span, mark: Mark) -> None:
        """Undo what was written since `mark`, and write the source text of the span instead; the
        comments inside it count as written. With `keep_final_comment`, one beside its last row is
        written as well, unless `beside` has one.
        """
        self.back(mark)
        start, end = first_row(span), last_row(span)
        if self.beside is not None and start <= self.beside.span.row <= end:
            self.beside = None
        self.write(span.text)
        left = []
        for comment in self.comments:
            if self.keep_final_comment and comment.span.row == end and self.beside is None:
                self.write(f" #{comment.text}")
            elif comment.span.row >= end or comment.span.row < start:
                left.append(comment)
        self.comments = tuple(left)


def _distance(first: Comment, second: Comment) -> int:
    """Return the number of rows from the first comment to the second; in the same row, that of
    columns.
    """
    rows = second.span.row - first.span.row
    return rows or second.span.col - first.span.col


def first_row(span: Span) -> int:
    """Return the row in which a span's text begins. For a term in parentheses that is the row of
    the `(`, while `span.row` is that of the term inside.
    """
    if not span.text.startswith("("):
        return span.row
    return span.source.text.count("\n", 0, span.start) + 1


def last_row(span: Span) -> int:
    """Return the row in which a span's text ends."""
    return first_row(span) + span.text.count("\n")


def closing_row(span: Span, pair: str, skip: str = "") -> int:
    """Return the row of the bracket that closes the first one of `pair` in the span's text; -1 if
    there is none. `skip` is a pair to step over first, such as a head's parentheses. As in OPA only
    the lines between the brackets are counted, so the row is too small if lines precede them.
    """
    text = span.text
    start = lines = 0
    if skip:
        start = _closing(text, skip, 0)
        if start < 0:
            return -1
        lines = text.count("\n", text.find(skip[0]), start)
    end = _closing(text, pair, start)
    if end < 0:
        return -1
    return span.row + lines + text.count("\n", text.find(pair[0], start), end)


def _closing(text: str, pair: str, start: int) -> int:
    """Return the offset of the bracket that closes the first one from `start` on; -1 if there is
    none. Brackets in strings and comments count too.
    """
    at = text.find(pair[0], start)
    depth = 0
    while 0 <= at < len(text):
        if text[at] == pair[0]:
            depth += 1
        elif text[at] == pair[1]:
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return -1
