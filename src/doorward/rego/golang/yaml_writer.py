"""YAML events to text, as OPA's YAML library writes them: blocks, and quotes only where needed.

The writer knows the column, and whether the line so far is only indentation, as libyaml does, from
which that library comes: they decide where a line ends and where a long scalar is folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Final

from doorward.base.records import mutable, record

__all__ = ["End", "Event", "Scalar", "Start", "write"]

WIDTH: Final = 80
"""The column behind which a space of a scalar becomes a line break."""
STEP: Final = 2
"""The columns of one level of indentation."""
MAX_SIMPLE_KEY: Final = 128
"""The most bytes of a key that is written without `?`."""

_BREAKS: Final = "\n\r\x85\u2028\u2029"
_BREAK: Final = re.compile(f"[{_BREAKS}]")
_BREAK_SPACE: Final = re.compile(f"[{_BREAKS}] ")
_SPACE_BREAK: Final = re.compile(f" [{_BREAKS}]")
_SPECIAL: Final = re.compile("[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
"""Matches a character that only double quotes can hold."""
_BEGINNING: Final = re.compile(r"""---|\.\.\.|[#,\[\]{}&*!|>'"%@`]|[-?:](?: |\Z)""")
"""Matches the beginning of a text that is not a plain scalar."""
_INDICATOR: Final = re.compile(":(?: |$)|[ \u2028\u2029]#")
"""Matches a part of a text that is not a plain scalar."""
_ESCAPES: Final = {
    "\0": "0", "\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r",
    "\x1b": "e", '"': '"', "\\": "\\", "\x85": "N", "\xa0": "_", "\u2028": "L", "\u2029": "P",
}  # fmt: skip


@record
class Scalar:
    """A scalar and its style: "" for plain, `"` or `|`. Quotes replace a style that cannot hold the
    text.
    """

    text: str
    style: str


@record
class Start:
    """The start of a mapping or sequence. Its nodes follow, those of a mapping are keys, which are
    scalars, and values in turn; then comes an `End`. An empty one has neither.
    """

    is_mapping: bool
    is_empty: bool


@record
class End:
    """The end of a collection that is not empty."""


Event = Scalar | Start | End


def write(events: Iterator[Event]) -> str:
    """Return the text of the document that the events describe."""
    writer = _Writer(events)
    writer.write_node(next(events), is_value=False)
    writer.start_line()
    return "".join(writer.parts)


@mutable(eq=False)
class _Writer:
    """Writes one document. `column` counts characters. `is_spaced`: the last one is white space, or
    may stand before a node like it. `is_indented`: the last line has nothing but spaces, `-`, `?`
    and the `:` of a `?`.
    """

    events: Iterator[Event]
    parts: list[str] = field(default_factory=list)
    column: int = 0
    indent: int = -1
    is_spaced: bool = True
    is_indented: bool = True

    def write_node(self, event: Event, *, is_value: bool) -> None:
        """Write the node that begins with `event`, a scalar or a collection, and take the events of
        a collection up to its End from `events`. `is_value` says that it is the value of a
        mapping's pair: a sequence behind a key on the same line then keeps the indentation of the
        mapping. A collection that is not empty is written as a block, an empty one as `{}` or `[]`.
        """
        if isinstance(event, Scalar):
            self._write_scalar(event, is_simple_key=False)
            return
        assert isinstance(event, Start)
        if event.is_empty:
            self._write_indicator("{}" if event.is_mapping else "[]")
            return
        before = self.indent
        # A sequence behind a plain key is not indented.
        is_flat = is_value and not event.is_mapping and not self.is_indented
        self.indent = max(before, 0) if before < 0 or is_flat else before + STEP
        while not isinstance(child := next(self.events), End):
            self.start_line()
            if event.is_mapping:
                self._write_pair(child)
            else:
                self._write_indicator("-", is_indentation=True)
                self.write_node(child, is_value=False)
        self.indent = before

    def _write_pair(self, key: Event) -> None:
        """Write the key `key`, always a scalar, and its value, which is taken from `events`: as
        `key:` in one line, or as `? key` and `: value` in two if the key has a line break or more
        than `MAX_SIMPLE_KEY` bytes.
        """
        assert isinstance(key, Scalar)
        if len(key.text.encode()) <= MAX_SIMPLE_KEY and not _BREAK.search(key.text):
            self._write_scalar(key, is_simple_key=True)
            self._put(":")
            self.is_spaced = self.is_indented = False
        else:
            self._write_indicator("?", is_indentation=True)
            self._write_scalar(key, is_simple_key=False)
            self.start_line()
            self._write_indicator(":", is_indentation=True)
        self.write_node(next(self.events), is_value=True)

    def start_line(self) -> None:
        """Go to the current indentation: on this line if it has only spaces and the indicators `-`,
        `?` and `:` and is not beyond it (at it, only behind a space), otherwise on a new one.
        """
        indent = max(self.indent, 0)
        if (
            not self.is_indented
            or self.column > indent
            or (self.column == indent and not self.is_spaced)
        ):
            self.parts.append("\n")
            self.column = 0
        self._put(" " * (indent - self.column))
        self.is_spaced = self.is_indented = True

    def _put(self, text: str) -> None:
        """Append a text without line breaks."""
        self.parts.append(text)
        self.column += len(text)

    def _put_break(self, line_break: str = "\n") -> None:
        """Append a line break and set the column to 0; `is_spaced` and `is_indented` are left to
        the caller.
        """
        self.parts.append(line_break)
        self.column = 0

    def _write_indicator(self, indicator: str, *, is_indentation: bool = False) -> None:
        """Write an indicator such as `-` or `[]`, behind a space if the last character is not white
        space. With `is_indentation` (`-`, `?`, and the `:` behind a `?`), a line that has only
        indentation so far still counts as such.
        """
        self._put(indicator if self.is_spaced else f" {indicator}")
        self.is_spaced = False
        self.is_indented = self.is_indented and is_indentation

    # Scalars

    def _write_scalar(self, scalar: Scalar, *, is_simple_key: bool) -> None:
        """Write a scalar in the style that it asks for if its text allows that, otherwise in
        quotes, with its lines indented one step more than the present ones. A text longer than
        `WIDTH` columns is folded at spaces, unless it is a simple key (`key:` in one line), which
        must not contain line breaks.
        """
        text, style = scalar.text, _possible_style(scalar, is_simple_key=is_simple_key)
        before = self.indent
        self.indent = STEP if before < 0 else before + STEP
        width = float("inf") if is_simple_key else WIDTH
        if style == "|":
            self._write_literal(text)
        elif style == '"':
            self._write_double_quoted(text, width)
        elif style == "'":
            self._write_indicator("'")
            self._write_folded(text.replace("'", "''"), width, is_quoted=True)
            self._put("'")
        else:
            if not self.is_spaced:
                self._put(" ")
            self._write_folded(text, width, is_quoted=False)
        if style != "|":
            self.is_spaced = self.is_indented = False
        self.indent = before

    def _write_folded(self, text: str, width: float, *, is_quoted: bool) -> None:
        """Write the text of a plain or single-quoted scalar without its quotes. A space beyond
        column `width` that has no space next to it, and in a quoted text is not the first or last
        character, becomes a line break. A line feed is written with one more before it, if none
        precedes, since one alone would be read as a space.
        """
        was_space = was_break = False
        for at, char in enumerate(text):
            is_break = char in _BREAKS
            if char == " ":
                following = text[at + 1 : at + 2]
                is_inner = not is_quoted or (at > 0 and following)
                if self.column > width and is_inner and not was_space and following != " ":
                    self.start_line()
                else:
                    self._put(char)
                was_space = True
                continue
            if is_break:
                if char == "\n" and not was_break:
                    self._put_break()
                self._put_break(char)
                self.is_indented = True
            else:
                if was_break:
                    self.start_line()
                self._put(char)
                self.is_indented = was_space = False
            was_break = is_break

    def _write_double_quoted(self, text: str, width: float) -> None:
        """Write a text in double quotes, with quotes, backslashes, line breaks and special
        characters escaped (every character, if the text starts with a byte order mark, as the
        library does). A space beyond column `width`, not at either end and not behind another
        space, becomes a line break; a space behind that is escaped with a backslash.
        """
        self._write_indicator('"')
        # The library looks for the mark at the start of the text and not at the character.
        is_escaped = text.startswith("\ufeff")
        was_space = False
        for at, char in enumerate(text):
            if is_escaped or char in '"\\' or char in _BREAKS or _SPECIAL.match(char):
                self._put(_escaped(char))
                was_space = False
            elif char == " " and not was_space and self.column > width and 0 < at < len(text) - 1:
                self.start_line()
                if text[at + 1] == " ":
                    self._put("\\")
                was_space = True
            else:
                self._put(char)
                was_space = char == " "
        self._put('"')

    def _write_literal(self, text: str) -> None:
        """Write `text`, which is not empty, as a literal block scalar: `|`, an indentation
        indicator if it begins with a space or line break, `-` if it does not end with a line break
        or `+` if it ends with more than one (or is only one), then each line at the current
        indentation; empty lines are not indented.
        """
        self._write_indicator("|")
        if text[0] in f" {_BREAKS}":
            self._put(str(STEP))
        if text[-1] not in _BREAKS:
            self._put("-")
        elif len(text) == 1 or text[-2] in _BREAKS:
            self._put("+")
        self._put_break()
        self.is_indented = self.is_spaced = was_break = True
        for char in text:
            if char in _BREAKS:
                self._put_break(char)
                self.is_indented = was_break = True
                continue
            if was_break:
                self.start_line()
            self._put(char)
            self.is_indented = was_break = False


def _possible_style(scalar: Scalar, *, is_simple_key: bool) -> str:
    """Return the style in which a scalar is written, "" for plain: the one it asks for if that can
    hold its text, otherwise `'` or, for text with special characters or spaces next to line breaks,
    `"`. A literal block (`|`) becomes double-quoted also as a simple key or with a space at its
    end. An empty text keeps its style, except that a plain simple key is quoted.
    """
    text, style = scalar.text, scalar.style
    if not text:
        return "'" if is_simple_key and not style else style
    is_special = _SPECIAL.search(text) or _SPACE_BREAK.search(text)
    if style == "|" and (is_special or is_simple_key or text.endswith(" ")):
        return '"'
    if style:
        return style
    if is_special or _BREAK_SPACE.search(text):
        return '"'
    is_quoted = (
        text[0] == " " or text[-1] == " " or _BREAK.search(text) or _BEGINNING.match(text)
    ) or _INDICATOR.search(text)
    return "'" if is_quoted else ""


def _escaped(char: str) -> str:
    r"""Return a character as an escape of YAML's double quotes, a short one such as `\n` if there
    is one.
    """
    if char in _ESCAPES:
        return f"\\{_ESCAPES[char]}"
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
