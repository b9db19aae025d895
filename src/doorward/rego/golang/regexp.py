"""Regular expressions: RE2, which runs in linear time, spoken to in the dialect of Go's regexp.

RE2 and Go's package are kin: the same syntax but for `\\C`, and other words for what is wrong with
a pattern. A pattern is at most `MAX_PATTERN` characters; RE2 itself bounds the memory of each
(8 MiB), and `CACHED` of them are kept. Linear time is that of the text times, at worst, the size
of the pattern: one that compiles to more than `SMALL` instructions takes texts of `MAX_WORK`
divided by its size. Offsets are of UTF-8 bytes, since RE2 counts those.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import re2

from doorward.rego.caches import counted
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.regexp_literals import literal_matcher

__all__ = [
    "CACHED",
    "MAX_GROUPS",
    "MAX_PATTERN",
    "MAX_WORK",
    "SHORT",
    "SMALL",
    "Pattern",
    "Spans",
    "byte_matcher",
    "matcher",
    "only_small",
    "pattern",
    "quote_for_class",
    "quote_meta",
    "small_matcher",
]

MAX_PATTERN: Final = 1 << 16
"""The most characters of a pattern; more is a LimitError."""
MAX_WORK: Final = 1 << 29
"""The most instructions of a large pattern times bytes of a text; more is a LimitError."""
SMALL: Final = 512
"""A pattern of at most this many instructions of RE2 accepts texts of any length."""
SHORT: Final = 4096
"""A text of at most this many bytes is searched without a check of the deadline."""
MAX_GROUPS: Final = 1000
"""The most groups of a pattern; more is a LimitError. The time of RE2 for one match grows with the
square of their number.
"""
CACHED: Final = 256
"""The number of compiled patterns that are kept."""

Spans: TypeAlias = "list[tuple[int, int]]"
"""The start and end of a match and of its groups; (-1, -1) for a group that did not match."""

# The wrapper's `search` counts characters, which takes seven times as long as the match itself;
# the class below it gives the byte offsets.
_RE2: Final[Any] = re2._re2.RE2
_ANYWHERE: Final = _RE2.Anchor.UNANCHORED
_NOWHERE: Final = (-1, -1)

# RE2's words, and Go's.
_WORDS: Final = (
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid named capture group", "invalid named capture"),
    ("missing ]", "missing closing ]"),
    ("missing )", "missing closing )"),
    ("unexpected )", "unexpected )"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("invalid UTF-8", "invalid UTF-8"),
    ("pattern too large", "expression too large"),
)


@cache
def _options(*, captures: bool) -> Any:
    """Return RE2's options: quiet, and without groups unless `captures`."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures
    return options


class Pattern:
    """A compiled pattern with its groups. BuiltinError, in Go's words, if it is invalid; LimitError
    if it is too large or has too many groups. `max_bytes` is the length of the longest text that it
    is applied to.
    """

    __slots__ = ("_match", "max_bytes", "names", "text")

    def __init__(self, text: str) -> None:
        compiled = _compile(text, captures=True)
        self.text = text
        self._match = compiled.Match
        self.max_bytes = _max_bytes(compiled)
        groups = compiled.NumberOfCapturingGroups()
        if groups > MAX_GROUPS:
            raise LimitError(f"pattern has more than {MAX_GROUPS} groups")
        self.names: list[str] = [""] * (groups + 1)
        """The name of each group, "" for one without a name; number 0 is the whole match."""
        for name, number in compiled.NamedCapturingGroups():
            self.names[number] = name.decode()

    def every(
        self, data: bytes, limit: int, check: Callable[[], None] = lambda: None
    ) -> Iterator[Spans]:
        """Yield the spans of the matches of Go's `FindAll`, at most `limit` or with -1 all: an
        empty match directly after another match is left out. `check` is called between searches in
        a long text. LimitError for a text that is too long for the pattern.
        """
        size = len(data)
        if size > self.max_bytes:
            raise _too_long(self.max_bytes)
        match, is_long = self._match, size > SHORT
        at, previous, count = 0, -1, 0
        while count != limit and at <= size:
            if is_long:
                check()
            spans: Spans = match(_ANYWHERE, data, at, size)
            start, end = spans[0]
            if start < 0:
                return
            if end > at:
                at = end
            else:
                # An empty match: the search must go on, and not inside of a character.
                at = next_character(data, at)
                if start == previous:
                    previous = end
                    continue
            previous = end
            count += 1
            yield spans

    def replace(
        self,
        data: bytes,
        template: Sequence[bytes | int],
        most: int,
        check: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Return `data` with the template in place of each match, as Go replaces all. `template`
        holds texts and numbers of groups; a group that did not match is empty. LimitError if the
        inserted text is longer than `most` bytes, or the text too long for the pattern. `check` is
        called between searches in a long text.
        """
        size = len(data)
        if size > self.max_bytes:
            raise _too_long(self.max_bytes)
        match, is_long = self._match, size > SHORT
        same = [part for part in template if type(part) is bytes]
        fixed = b"".join(same) if len(same) == len(template) else None
        out: list[bytes] = []
        written = at = copied = 0
        while at <= size:
            if is_long:
                check()
            spans: Spans = match(_ANYWHERE, data, at, size)
            start, end = spans[0]
            if start < 0:
                break
            out.append(data[copied:start])
            # Not for an empty match right after another one.
            if end > copied or start == 0:
                if fixed is not None:
                    part = fixed
                else:
                    parts = [
                        each if isinstance(each, bytes) else data[slice(*spans[each])]
                        for each in template
                    ]
                    part = b"".join(parts)
                out.append(part)
                written += len(part)
                if written > most:
                    raise LimitError(f"result is longer than {most} characters")
            copied = end
            at = end if end > at else next_character(data, at)
        out.append(data[copied:])
        return b"".join(out)


def next_character(data: bytes, at: int) -> int:
    """Return the byte offset of the character after the one at `at` in valid UTF-8; `len(data) + 1`
    if `at` is the end of the data.
    """
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


@counted("regex")
@lru_cache(maxsize=CACHED)
def pattern(text: str) -> Pattern:
    """Return the compiled pattern, from a cache if it was used recently. BuiltinError, in Go's
    words, if it is invalid; LimitError if it is too large or has too many groups.
    """
    return Pattern(text)


@counted("regex")
@lru_cache(maxsize=CACHED)
def matcher(text: str) -> Any:
    """Return a predicate for strings that contain a match, from a cache if it was used recently.
    BuiltinError, in Go's words, for an invalid pattern, LimitError for one that is too large. The
    predicate of a pattern of more than `SMALL` instructions raises LimitError for long texts.
    """
    # Also where plain texts replace it below: RE2 is what says whether a pattern is valid.
    compiled = _compile(text, captures=False)
    literal = literal_matcher(text)
    if literal is not None:
        return literal
    if compiled.ProgramSize() > SMALL:
        return _Large(compiled)
    match = compiled.Match

    def matches(value: str) -> bool:
        data = value.encode("utf-8", "surrogatepass")
        return match(_ANYWHERE, data, 0, len(data))[0] != _NOWHERE  # type: ignore[no-any-return] # a bool

    return matches


def byte_matcher(text: str) -> Callable[[bytes], bool]:
    """Return a predicate for UTF-8 bytes that contain a match. For patterns in our code, which are
    small: texts may have any length.
    """
    match = _compile(text, captures=False).Match

    def matches(data: bytes) -> bool:
        return match(_ANYWHERE, data, 0, len(data))[0] != _NOWHERE  # type: ignore[no-any-return] # a bool

    return matches


def small_matcher(text: str) -> Any:
    """Return the `matcher` of a pattern that accepts texts of any length. LimitError for a larger
    pattern, BuiltinError for an invalid one.
    """
    return only_small(matcher(text))


def only_small(match: Any) -> Any:
    """Return `match`, a predicate of `matcher`, itself; LimitError if its pattern has more than
    `SMALL` instructions, so that it refuses long texts.
    """
    if type(match) is _Large:
        raise LimitError("the pattern is too large: use a shorter one")
    return match


# INVARIANT: `only_small` tells the predicates of large patterns by this class.
class _Large:
    """A predicate for strings that contain a match of a large pattern. LimitError for a text that
    is longer than `max_bytes`.
    """

    def __init__(self, compiled: Any) -> None:
        self._match = compiled.Match
        self.max_bytes = _max_bytes(compiled)

    def __call__(self, value: str) -> bool:
        data = value.encode("utf-8", "surrogatepass")
        if len(data) > self.max_bytes:
            raise _too_long(self.max_bytes)
        return self._match(_ANYWHERE, data, 0, len(data))[0] != _NOWHERE  # type: ignore[no-any-return] # a bool


def _max_bytes(compiled: Any) -> int:
    """Return the length in bytes of the longest text that the pattern is applied to; `sys.maxsize`
    (no limit) for a pattern of at most `SMALL` instructions.
    """
    size: int = compiled.ProgramSize()
    return MAX_WORK // size if size > SMALL else sys.maxsize


def _too_long(limit: int) -> LimitError:
    return LimitError(f"text is longer than {limit} bytes, which are the most for this pattern")


def _compile(text: str, *, captures: bool) -> Any:
    """Compile a pattern with RE2; without `captures` its groups are not reported, which is faster.
    BuiltinError, in Go's words, if it is invalid; LimitError if it is too large.
    """
    if len(text) > MAX_PATTERN:
        raise LimitError(f"pattern is longer than {MAX_PATTERN} characters")
    compiled = _RE2(text.encode("utf-8", "surrogatepass"), _options(captures=captures))
    if not compiled.ok():
        error = compiled.error().decode("utf-8", "replace")
        # RE2 takes less memory for a pattern than Go does.
        kind = LimitError if error.startswith("pattern too large") else BuiltinError
        raise kind(_explain(error, text))
    if not text.isascii() and "<" in text:
        _check_names(text)
    if "\\C" in text and _has_byte_escape(text):
        raise BuiltinError("error parsing regexp: invalid escape sequence: `\\C`")
    return compiled


def _check_names(text: str) -> None:
    """Raise BuiltinError if a group of the pattern, which RE2 accepts, has a name outside ASCII: Go
    allows none.
    """
    groups = _RE2(text.encode("utf-8", "surrogatepass"), _options(captures=True))
    for name, _ in groups.NamedCapturingGroups():
        if not name.isascii():
            raise BuiltinError(
                f"error parsing regexp: invalid named capture: `(?P<{name.decode()}>`"
            )


def _explain(error: str, text: str) -> str:
    """Return RE2's error for the pattern `text` in Go's words, `error parsing regexp: …`, with the
    part of the pattern that Go names; an error that is not in the table keeps its text.
    """
    if error.startswith("invalid perl operator: "):
        operator = error.removeprefix("invalid perl operator: ")
        if operator in {"(?<=", "(?<!"}:
            rest = text[text.find(operator) :]
            return f"error parsing regexp: invalid named capture: `{rest}`"
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{operator[:3]}`"
    for theirs, ours in _WORDS:
        if error == theirs or error.startswith(theirs + ": "):
            message = error.removeprefix(theirs).removeprefix(": ")
            if theirs in {"missing )", "unexpected )"}:
                message = text
            elif ours == "missing argument to repetition operator":
                message = message[:1]
            return f"error parsing regexp: {ours}: `{message}`"
    return f"error parsing regexp: {error}"


def _has_byte_escape(text: str) -> bool:
    r"""Return True if the pattern uses `\C`, which Go does not have; quoted text (`\Q…\E`) and an
    escaped backslash before a `C` do not count.
    """
    at = 0
    while at < len(text):
        if text.startswith("\\Q", at):
            end = text.find("\\E", at)
            at = len(text) if end < 0 else end + 2
        elif text[at] == "\\":
            if text.startswith("\\C", at):
                return True
            at += 2
        else:
            at += 1
    return False


_META: Final = frozenset("\\.+*?()|[]{}^$")


def quote_meta(text: str) -> str:
    """Return a pattern that matches exactly `text`, as Go's regexp.QuoteMeta writes it."""
    return "".join([f"\\{char}" if char in _META else char for char in text])


def quote_for_class(characters: str) -> str:
    """Return the characters as members of a class in a pattern: `a]` -> `\\x{61}\\x{5d}`."""
    return "".join([f"\\x{{{ord(char):x}}}" for char in characters])
