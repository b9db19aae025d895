"""Sets of texts as regular expressions with derivatives: they tell if no text is in all of them.

    glob, pattern, prefix … ─▶ Language ─derivatives by representative characters─▶ is_empty

Only forms that mean the same to Go, RE2 and this module are read: other globs and patterns raise
`UnreadableError`. The alphabet is every code point, so that "no text" also holds for JSON's texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from doorward.base.records import record

__all__ = [
    "ANYTHING",
    "LAST",
    "Language",
    "Ranges",
    "UnreadableError",
    "before",
    "both",
    "complement",
    "containing",
    "ending",
    "find_text",
    "from_glob",
    "from_pattern",
    "from_ranges",
    "is_empty",
    "literal",
    "meeting",
    "merged",
    "of_length",
    "one_of",
    "outside",
    "starting",
]

LAST: Final = 0x10FFFF
"""The last code point of Unicode."""
MAX_STATES: Final = 4_000
"""The maximum number of languages that a search for a text visits."""
MAX_PATTERN: Final = 300
"""The maximum number of characters of a pattern or glob; longer ones are not read."""
MAX_REPEAT: Final = 50
"""The maximum number in `{m,n}` of a pattern; larger ones are not read."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]


class UnreadableError(ValueError):
    """A glob or a pattern has a form that this module does not read."""


@record
class Chars:
    """One character out of some ranges; without ranges, no text at all."""

    ranges: Ranges


@record
class Join:
    """The language of a text of one language followed by a text of another."""

    first: Language
    second: Language


@record
class Star:
    """The language of any number of texts of a language, one after the other."""

    inner: Language


@record
class Any_:
    """The union of some languages."""

    options: frozenset[Language]


@record
class All:
    """The intersection of some languages."""

    parts: frozenset[Language]


@record
class Outside:
    """The complement of a language."""

    inner: Language


Language: TypeAlias = Chars | Join | Star | Any_ | All | Outside

NOTHING: Final[Language] = Chars(())
# No repetition of nothing: only the empty text.
EMPTY: Final[Language] = Star(NOTHING)
CHARACTER: Final[Language] = Chars(((0, LAST),))
ANYTHING: Final[Language] = Star(CHARACTER)


# Smart constructors: equal languages mostly get equal trees, so that derivatives are few


def join(first: Language, second: Language) -> Language:
    """Return the language of the texts that are a text of `first` followed by a text of `second`,
    in a simplified form; NOTHING if one of them is NOTHING. It may have no text without being
    NOTHING (`is_empty`).
    """
    if NOTHING in (first, second):
        return NOTHING
    if first == EMPTY:
        return second
    if second == EMPTY:
        return first
    if isinstance(first, Join):
        return Join(first.first, join(first.second, second))
    return Join(first, second)


def either(options: Iterable[Language]) -> Language:
    """Return the union of languages, in a simplified form; NOTHING if there are none."""
    flat: set[Language] = set()
    for each in options:
        flat |= each.options if isinstance(each, Any_) else {each}
    flat.discard(NOTHING)
    if ANYTHING in flat:
        return ANYTHING
    if len(flat) < 2:
        return flat.pop() if flat else NOTHING
    return Any_(frozenset(flat))


def both(parts: Iterable[Language]) -> Language:
    """Return the intersection of languages, in a simplified form; ANYTHING if there are none. It
    may have no text without being NOTHING (`is_empty`).
    """
    flat: set[Language] = set()
    for each in parts:
        flat |= each.parts if isinstance(each, All) else {each}
    flat.discard(ANYTHING)
    if NOTHING in flat or any(complement(each) in flat for each in flat):
        return NOTHING
    if len(flat) < 2:
        return flat.pop() if flat else ANYTHING
    return All(frozenset(flat))


def complement(inner: Language) -> Language:
    """Return the language of the texts that are not in `inner`."""
    if isinstance(inner, Outside):
        return inner.inner
    if inner == NOTHING:
        return ANYTHING
    return NOTHING if inner == ANYTHING else Outside(inner)


def repeat(inner: Language) -> Language:
    """Return the language of any number of texts of a language, one after another; also of none."""
    return inner if isinstance(inner, Star) else Star(inner)


def before(language: Language, origin: Callable[[Ranges], Ranges]) -> Language:
    """Return the language of texts that are in `language` after a replacement of characters.

    `origin` maps ranges to the characters that are replaced by them.
    """
    # Each character becomes exactly one character, so the question which texts become one of a
    # language may be put to each part of its expression, also below a complement.
    match language:
        case Chars(ranges):
            return Chars(origin(ranges))
        case Join(first, second):
            return join(before(first, origin), before(second, origin))
        case Star(inner):
            return repeat(before(inner, origin))
        case Any_(options):
            return either([before(each, origin) for each in options])
        case All(parts):
            return both([before(each, origin) for each in parts])
        case Outside(inner):
            return complement(before(inner, origin))


# Languages of Rego's built-ins


def from_ranges(ranges: Ranges) -> Language:
    """Return the language of the texts, also the empty one, of these characters only."""
    return repeat(Chars(ranges))


def literal(text: str) -> Language:
    """Return the language of a single text."""
    out = EMPTY
    for char in reversed(text):
        out = join(Chars(((ord(char), ord(char)),)), out)
    return out


def one_of(texts: Iterable[str]) -> Language:
    """Return the language of exactly these texts; NOTHING if there are none."""
    return either(map(literal, texts))


def starting(text: str) -> Language:
    """Return the language of the texts that begin with a text."""
    return join(literal(text), ANYTHING)


def ending(text: str) -> Language:
    """Return the language of the texts that end with a text."""
    return join(ANYTHING, literal(text))


def containing(text: str) -> Language:
    """Return the language of the texts that contain a text."""
    return join(ANYTHING, join(literal(text), ANYTHING))


def of_length(least: int, most: int | None) -> Language:
    """Return the language of the texts of at least `least` and at most `most` code points; None for
    no limit.
    """
    out = ANYTHING if most is None else EMPTY
    for _ in range(most - least if most is not None else 0):
        out = either([EMPTY, join(CHARACTER, out)])
    for _ in range(least):
        out = join(CHARACTER, out)
    return out


def from_glob(glob: str, delimiters: Sequence[str]) -> Language:
    """Return the language of a glob with plain text, `*` and `**`; without delimiters `*` means
    `**`. UnreadableError for other globs, one longer than `MAX_PATTERN`, delimiters of several
    characters, and `***` with delimiters, which OPA does not find in every text.
    """
    if len(glob) > MAX_PATTERN or any(char in glob for char in "?[]{}\\!"):
        raise UnreadableError(glob)
    if any(len(each) != 1 for each in delimiters) or (delimiters and "***" in glob):
        raise UnreadableError(glob)
    other = Chars(outside([(ord(each), ord(each)) for each in delimiters]))
    out, at = EMPTY, 0
    while at < len(glob):
        if glob.startswith("**", at):
            out, at = join(out, ANYTHING), at + 2
        elif glob[at] == "*":
            out, at = join(out, repeat(other)), at + 1
        else:
            out, at = join(out, literal(glob[at])), at + 1
    return out


def from_pattern(pattern: str) -> Language:
    """Return the language of the texts that contain a match of a regular expression.
    UnreadableError if it is longer than `MAX_PATTERN` or has a form that is not supported.
    """
    if len(pattern) > MAX_PATTERN:
        raise UnreadableError(pattern)
    return _Reader(pattern).read()


# Go's and RE2's: ASCII only, and `\s` without `\v`.
_CLASSES: Final[dict[str, Ranges]] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 10), (12, 13), (32, 32)),
}


class _Reader:
    """Parses a pattern with characters, `.`, classes, groups, `|`, `*`, `+`, `?`, `{m,n}`, and
    anchors at the ends. UnreadableError for other syntax.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> Language:
        """Parse the complete pattern and return the language of the texts that contain a match;
        with `^` or `$`, of those that begin or end with one.

        Raise UnreadableError for forms that are not supported.
        """
        starts = self._take("^")
        out = self._choice(top=True)
        if self._at < len(self._pattern) and self._pattern[self._at :] != "$":
            raise UnreadableError(self._pattern)
        ends = self._take("$")
        if (starts or ends) and self._has_top_choice:
            raise UnreadableError(self._pattern)  # the anchor belongs to one alternative only
        out = out if starts else join(ANYTHING, out)
        return out if ends else join(out, ANYTHING)

    _has_top_choice = False

    def _take(self, text: str) -> bool:
        """Read `text` if it comes next; return True if it did."""
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _choice(self, *, top: bool = False) -> Language:
        """choice = sequence { "|" sequence }; `top` if it is the whole pattern, and then
        `_has_top_choice` is set if it has several.
        """
        options = [self._sequence()]
        while self._take("|"):
            self._has_top_choice |= top
            options.append(self._sequence())
        return either(options)

    def _sequence(self) -> Language:
        """sequence = { repeat }, up to `|`, `)`, `$` or the end."""
        out = EMPTY
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)$":
            out = join(out, self._repeat())
        return out

    def _repeat(self) -> Language:
        """repeat = atom [ "*" | "+" | "?" | counts ]; there must be a next character.
        UnreadableError for a count above `MAX_REPEAT`, and for another repetition after it, such
        as `a+?`.
        """
        atom = self._atom()
        char = self._pattern[self._at : self._at + 1]
        if char in ("*", "+", "?"):
            self._at += 1
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        elif char == "{":
            low, high = self._counts()
        else:
            return atom
        if self._pattern[self._at : self._at + 1] in ("?", "*", "+", "{"):
            raise UnreadableError(self._pattern)
        out = EMPTY
        for _ in range(low):
            out = join(out, atom)
        if high is None:
            return join(out, repeat(atom))
        for _ in range(high - low):
            out = join(out, either([EMPTY, atom]))
        return out

    def _counts(self) -> tuple[int, int | None]:
        """counts = "{" number [ "," [ number ] ] "}"; returns the least and the greatest number,
        None for no limit. UnreadableError for another form, and for a number above `MAX_REPEAT`.
        """
        end = self._pattern.find("}", self._at)
        inside = self._pattern[self._at + 1 : end] if end >= 0 else ""
        low, comma, high = inside.partition(",")
        is_number = low.isascii() and low.isdigit()
        if not is_number or (high and not (high.isascii() and high.isdigit())):
            raise UnreadableError(self._pattern)
        self._at = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if least > MAX_REPEAT or (most is not None and not least <= most <= MAX_REPEAT):
            raise UnreadableError(self._pattern)
        return least, most

    def _atom(self) -> Language:
        """atom = "." | "(" [ "?:" ] choice ")" | class | escape | character. UnreadableError for a
        sign that stands for no character here, such as `*`; there must be a next character.
        """
        char = self._pattern[self._at]
        self._at += 1
        match char:
            case ".":
                return Chars(outside([(10, 10)]))
            case "(":
                if self._pattern.startswith("?", self._at) and not self._take("?:"):
                    raise UnreadableError(self._pattern)
                inner = self._choice()
                if not self._take(")"):
                    raise UnreadableError(self._pattern)
                return inner
            case "[":
                return self._class()
            case "\\":
                return Chars(self._escape())
            case "^" | "*" | "+" | "?" | "{" | "}" | "]":
                raise UnreadableError(self._pattern)
        return literal(char)

    def _escape(self) -> Ranges:
        r"""escape = "\\" ( "d" | "w" | "s" | … | punctuation ); returns the characters it
        matches.
        """
        char = self._pattern[self._at : self._at + 1]
        self._at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        # With a letter or digit Go means something else (`\b`, `\x41`, `\pL`).
        if not char or not char.isascii() or char.isalnum() or char == "_":
            raise UnreadableError(self._pattern)
        return ((ord(char), ord(char)),)

    def _class(self) -> Language:
        """class = "[" [ "^" ] range { range } "]", whose first bracket is read already.
        UnreadableError for an empty one.
        """
        negated = self._take("^")
        ranges: list[tuple[int, int]] = []
        while not self._take("]"):
            ranges += self._range()
        if not ranges:
            raise UnreadableError(self._pattern)
        # As in Go, `[^a]` matches a line feed, which `.` does not.
        return Chars(outside(ranges) if negated else merged(ranges))

    def _range(self) -> Ranges:
        """range = escape | character [ "-" character ]; returns the characters it matches. A `-`
        before `]` is a character. UnreadableError for `[`, for a range that falls, and at the end
        of the pattern.
        """
        char = self._pattern[self._at : self._at + 1]
        self._at += 1
        if char in ("", "["):
            raise UnreadableError(self._pattern)
        if char == "\\":
            return self._escape()
        rest = self._pattern[self._at : self._at + 2]
        if rest[:1] != "-" or rest[1:] == "]":
            return ((ord(char), ord(char)),)
        if len(rest) < 2 or rest[1] in "\\[" or rest[1] < char:
            raise UnreadableError(self._pattern)
        self._at += 2
        return ((ord(char), ord(rest[1])),)


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the same characters as sorted ranges that do not touch."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(high, out[-1][1])
        else:
            out.append((low, high))
    return tuple(out)


def outside(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the ranges of all characters that are not in `ranges`."""
    out, at = [], 0
    for low, high in merged(ranges):
        if low > at:
            out.append((at, low - 1))
        at = high + 1
    if at <= LAST:
        out.append((at, LAST))
    return tuple(out)


def meeting(one: Ranges, other: Ranges) -> Ranges:
    """Return the ranges of the characters that are in both."""
    return outside([*outside(one), *outside(other)])


# Emptiness


def is_empty(language: Language) -> bool:
    """Return True if the language has no text. False if it has one, and also after `MAX_STATES`
    states without a result.
    """
    # The method is that of Brzozowski: a text is in a language if the derivative by its characters
    # contains the empty text. Characters that no range of the expression tells apart have the same
    # derivative, so one of each class is enough.
    characters = _representatives(language)
    seen, waiting = {language}, [language]
    while waiting:
        state = waiting.pop()
        if _has_empty_text(state):
            return False
        for char in characters:
            following = _derive(state, char)
            if following not in seen:
                if len(seen) >= MAX_STATES:
                    return False
                seen.add(following)
                waiting.append(following)
    return True


def find_text(language: Language, most: int = MAX_STATES) -> str | None:
    """Return a shortest text of a language; where it has a choice, of characters in `_USUAL`, then
    of other printable ones.

    None if it has no text, or if more than `most` states do not lead to one.
    """
    characters = sorted(map(_usual_character, *_classes(language)), key=_rank)
    parents: dict[Language, tuple[Language, int] | None] = {language: None}
    waiting = deque([language])
    while waiting:
        state = waiting.popleft()
        if _has_empty_text(state):
            return _text_to(state, parents)
        for char in characters:
            following = _derive(state, char)
            if following != NOTHING and following not in parents:
                if len(parents) >= most:
                    return None
                parents[following] = state, char
                waiting.append(following)
    return None


def _text_to(state: Language, parents: Mapping[Language, tuple[Language, int] | None]) -> str:
    """Return the text that leads from the first language to `state`, by the moves in `parents`."""
    text = ""
    while (move := parents[state]) is not None:
        state, char = move
        text = chr(char) + text
    return text


def _classes(language: Language) -> tuple[list[int], list[int]]:
    """Return the first and the last character of each class of characters that the language treats
    alike, in order.
    """
    starts = _representatives(language)
    return starts, [*[each - 1 for each in starts[1:]], LAST]


_USUAL: Final = "ab0-_./ "


def _usual_character(first: int, last: int) -> int:
    """Return a character from `first` to `last`: one of `_USUAL` if possible, otherwise a printable
    ASCII character, otherwise `first`.
    """
    usual = (ord(char) for char in _USUAL)
    printable = range(max(first, 33), min(last, 126) + 1)
    return next(
        (each for each in usual if first <= each <= last), printable[0] if printable else first
    )


def _rank(char: int) -> int:
    """Return the order of a character in attempts: those of `_USUAL` first, then all others."""
    # The -1 of all others becomes 98, which is behind each of `_USUAL`.
    return _USUAL.find(chr(char)) % 99


def _representatives(language: Language) -> list[int]:
    """Return the first character of each class of characters that the language treats alike,
    sorted.
    """
    starts = {0}
    for ranges in _all_ranges(language):
        for low, high in ranges:
            starts |= {low, high + 1}
    return sorted(each for each in starts if each <= LAST)


def _all_ranges(language: Language) -> Iterator[Ranges]:
    """Yield the character ranges written in the expression of a language, also inside a
    complement.
    """
    match language:
        case Chars(ranges):
            yield ranges
        case Join(first, second):
            yield from _all_ranges(first)
            yield from _all_ranges(second)
        case Star(inner) | Outside(inner):
            yield from _all_ranges(inner)
        case Any_(options=parts) | All(parts=parts):
            for each in parts:
                yield from _all_ranges(each)


def _has_empty_text(language: Language) -> bool:
    """Return True if the empty text is in the language."""
    match language:
        case Chars():
            return False
        case Star():
            return True
        case Join(first, second):
            return _has_empty_text(first) and _has_empty_text(second)
        case Any_(options):
            return any(map(_has_empty_text, options))
        case All(parts):
            return all(map(_has_empty_text, parts))
        case Outside(inner):
            return not _has_empty_text(inner)


def _derive(language: Language, char: int) -> Language:
    """Return the language of what follows `char` in the texts that begin with it (the
    derivative).
    """
    match language:
        case Chars(ranges):
            return EMPTY if any(low <= char <= high for low, high in ranges) else NOTHING
        case Star(inner):
            return join(_derive(inner, char), language)
        case Join(first, second):
            after = join(_derive(first, char), second)
            return either([after, _derive(second, char)]) if _has_empty_text(first) else after
        case Any_(options):
            return either([_derive(each, char) for each in options])
        case All(parts):
            return both([_derive(each, char) for each in parts])
        case Outside(inner):
            return complement(_derive(inner, char))
