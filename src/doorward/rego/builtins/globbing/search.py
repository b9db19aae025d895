"""How OPA's library searches for a glob: it misses some texts that the glob matches.

The library makes a tree of matchers of a glob. A tree looks for its middle part from place to
place, and for what is left and right of it around each; a tree as an alternative in braces finds
nothing, and one looks for nothing in an empty rest. So `a{*b,c}` finds no text, and `a***` not `a`.
`compiler` says what a glob matches, this what the library finds. Texts are bytes here: lengths are
those of characters, which the library compares with bytes as well.

A search takes at most `MAX_STEPS` steps; each tree answers once for each part of a text. The tree
of a glob is made in at most `MAX_BUILT` steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, Protocol, TypeAlias

from doorward.base.records import record
from doorward.rego.errors import LimitError

__all__ = ["MAX_STEPS", "FaultError", "Part", "build_finder"]

MAX_STEPS: Final = 20_000
"""The most steps of one search, some 50 milliseconds; more is a LimitError."""

MAX_BUILT: Final = 200_000
"""The most steps to make the matchers of a glob, some 200 milliseconds; more is a LimitError."""

_PLACES: Final = 8
"""How many bytes of a text count as a step where each is a place, and `_COPIED` where it is only
copied.
"""
_COPIED: Final = 4096

_OPEN: Final = -1
"""The length of a matcher of texts of different lengths."""

Span: TypeAlias = "tuple[int, list[int]] | None"
"""Where a matcher begins to match in a text, and the lengths of what it matches there."""


@record
class Part:
    """A part of a glob. `kind` is `text`, `choice`, `list` or `range`, and `*`, `**` or `?`; `text`
    is that of a text, the characters of a list, or the two of a range; `is_negated`: of those.
    `options` are the sequences of parts of a choice.
    """

    kind: str
    text: str = ""
    is_negated: bool = False
    options: tuple[tuple[Part, ...], ...] = ()


class FaultError(Exception):
    """Go's library reads behind the end of a text here, and ends in a fault."""


class _Search:
    """One search: counts its steps, and keeps the answers of trees."""

    def __init__(self) -> None:
        self.steps = 0
        self.known: dict[tuple[int, bytes], bool] = {}
        """What each tree, by its id, answered for a text."""

    def step(self, count: int = 1) -> None:
        """Count `count` steps (1 by default) of this search; LimitError above `MAX_STEPS`."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise LimitError(f"glob takes more than {MAX_STEPS} steps to match")


class Matcher(Protocol):
    """What a part of a glob becomes. `length` is how many characters it matches."""

    @property
    def length(self) -> int:
        """How many characters it matches, or `_OPEN`."""

    @abstractmethod
    def matches(self, text: bytes, search: _Search) -> bool:
        """Return True if all of the text matches."""

    @abstractmethod
    def find(self, text: bytes, search: _Search) -> Span:
        """Return where in the text a match begins; None if none does."""


def build_finder(parts: Sequence[Part], delimiters: str) -> Callable[[bytes], bool]:
    """Return a function that returns True if the library finds that a text matches a glob. It
    raises LimitError for more than `MAX_STEPS` steps, and FaultError for a fault of the library.
    LimitError for a glob of too many parts.
    """
    matcher = _Builder(tuple(map(str.encode, delimiters))).sequence(parts)
    return lambda text: matcher.matches(text, _Search())


# Characters of a text


def _ends(text: bytes) -> list[int]:
    """Return the offset behind each character of UTF-8 bytes, in ascending order; [] for an empty
    text. Bytes that continue no character count with the one before.
    """
    if text.isascii():
        return list(range(1, len(text) + 1))
    return [*[at for at in range(1, len(text)) if text[at] & 0xC0 != 0x80], len(text)][: len(text)]


def _characters(text: bytes) -> list[bytes]:
    ends = _ends(text)
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _first_of(text: bytes, stops: Sequence[bytes]) -> int:
    """Return the offset of the first one of the characters that occurs, in their order; -1 if none
    does.
    """
    return next((at for stop in stops if (at := text.find(stop)) >= 0), -1)


# Matchers


@record
class _Text:
    """A text."""

    text: bytes

    @property
    def length(self) -> int:
        return len(_ends(self.text))

    def matches(self, text: bytes, search: _Search) -> bool:
        return text == self.text

    def find(self, text: bytes, search: _Search) -> Span:
        at = text.find(self.text)
        return None if at < 0 else (at, [len(self.text)])


@record
class _Nothing:
    """The empty text."""

    length: int = 0

    def matches(self, text: bytes, search: _Search) -> bool:
        return not text

    def find(self, text: bytes, search: _Search) -> Span:
        return 0, [0]


@record
class _Any:
    """Any characters but some."""

    stops: tuple[bytes, ...]
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        return _first_of(text, self.stops) < 0

    def find(self, text: bytes, search: _Search) -> Span:
        at = _first_of(text, self.stops)
        return 0, [0, *_ends(text if at < 0 else text[:at])]


@record
class _Character:
    """One character: of some, between two, or with `is_negated` another one. As in Go, what is not
    there is another one.
    """

    characters: tuple[bytes, ...]
    is_range: bool
    is_negated: bool
    length: int = 1

    def has(self, character: bytes) -> bool:
        """Return True if a character is one of those listed or in the range, or is not if
        `is_negated`; b"" stands for a missing one, which compares as U+FFFD. Characters are
        compared as bytes of UTF-8.
        """
        value = character or "\ufffd".encode()
        if self.is_range:
            low, high = self.characters
            return (low <= value <= high) != self.is_negated
        return (value in self.characters) != self.is_negated

    def matches(self, text: bytes, search: _Search) -> bool:
        return len(_ends(text)) <= 1 and self.has(text)

    def find(self, text: bytes, search: _Search) -> Span:
        """Return where the first character that fits begins, and its length in bytes; None without
        one.
        """
        at = 0
        for character in _characters(text):
            if self.has(character):
                return at, [len(character)]
            at += len(character)
        return None


@record
class _Contains:
    """Texts without another one in them."""

    text: bytes
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        return self.text not in text

    def find(self, text: bytes, search: _Search) -> Span:
        at = text.find(self.text)
        return 0, [0, *_ends(text if at < 0 else text[:at])]


@record
class _Holding:
    """Texts with another one in them."""

    text: bytes
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        return self.text in text

    def find(self, text: bytes, search: _Search) -> Span:
        """Return 0 and the lengths of all beginnings of `text`, in whole characters, that hold this
        matcher's text, in ascending order; None if it does not occur.
        """
        at = text.find(self.text)
        if at < 0:
            return None
        end = at + len(self.text)
        return 0, [end, *[end + each for each in _ends(text[end:])]]


@record
class _Least:
    """Texts of so many characters or more."""

    limit: int
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        return len(_ends(text)) >= self.limit

    def find(self, text: bytes, search: _Search) -> Span:
        # `limit` is at least 1: wild cards without a `?` become an `_Any`.
        ends = _ends(text)[self.limit - 1 :]
        return (0, ends) if ends else None


@record
class _Most:
    """Texts of so many characters or fewer."""

    limit: int
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        return len(_ends(text)) <= self.limit

    def find(self, text: bytes, search: _Search) -> Span:
        return 0, [0, *_ends(text)[: self.limit]]


@record
class _Around:
    """A text, any characters but `stops`, and a text; one of the two texts is empty then. With
    `stops` None these are any characters at all, and before and behind may overlap.
    """

    before: bytes
    stops: tuple[bytes, ...] | None
    behind: bytes
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        """Return True if the text begins and ends with the two texts, which may overlap, and the
        part between has none of `stops`.
        """
        if not text.startswith(self.before) or not text.endswith(self.behind):
            return False
        inner = text[len(self.before) : len(text) - len(self.behind)]
        return self.stops is None or _first_of(inner, self.stops) < 0

    def find(self, text: bytes, search: _Search) -> Span:
        """Return the first place of `before`, and the lengths of the matches there in ascending
        order: up to each character if `behind` is empty, otherwise up to the end of each `behind`,
        looked for from the right. Without `before` the match begins at 0 and ends with the first
        `behind`. None if one of the texts is missing. With `stops` see `_find_between`.
        """
        if self.stops is not None:
            return self._find_between(text, self.stops)
        start = text.find(self.before)
        if start < 0:
            return None
        if not self.behind:
            size = len(self.before)
            return start, [size, *[size + end for end in _ends(text[start + size :])]]
        if not self.before:
            at = text.find(self.behind)
            return None if at < 0 else (0, [at + len(self.behind)])
        segments: list[int] = []
        rest = text[start:]
        while (at := rest.rfind(self.behind)) >= 0:
            segments.insert(0, at + len(self.behind))
            rest = rest[:at]
        return (start, segments) if segments else None

    def _find_between(self, text: bytes, stops: Sequence[bytes]) -> Span:
        """Find this matcher in `text` as `find` does, if `before` or `behind` is empty: return the
        offset where the leftmost match begins and the lengths that it may have, in ascending order;
        None if there is no match. `stops` are the characters that the part between must not
        contain. With `behind`, only its first occurrence counts, and the match begins behind the
        last stop before it.
        """
        if self.behind:
            at = text.find(self.behind)
            if at < 0:
                return None
            last = next((n for stop in stops if (n := text[:at].rfind(stop)) >= 0), -1) + 1
            return last, [at + len(self.behind) - last]
        start = text.find(self.before)
        if start < 0:
            return None
        size = len(self.before)
        rest = text[start + size :]
        at = _first_of(rest, stops)
        ends = _ends(rest if at < 0 else rest[:at])
        return start, [size, *[size + end for end in ends]]


@record
class _Every:
    """Texts that match each of several."""

    matchers: tuple[Matcher, ...]
    length: int = _OPEN

    def matches(self, text: bytes, search: _Search) -> bool:
        return all(each.matches(text, search) for each in self.matchers)

    def find(self, text: bytes, search: _Search) -> Span:
        """Return 0 and the lengths that the matches of all matchers, each at the start, have in
        common; None if there are none or one finds nothing.
        """
        segments: list[int] | None = None
        for each in self.matchers:  # which all begin at the start
            span = each.find(text, search)
            if span is None:
                return None
            segments = span[1] if segments is None else [n for n in segments if n in span[1]]
            if not segments:
                return None
        return 0, segments or []


@record
class _Row:
    """Matchers of known lengths in order; `length` is the sum of these."""

    matchers: tuple[Matcher, ...]
    length: int

    def _matches_at(self, text: bytes, start: int, search: _Search) -> bool:
        """Return True if the matchers in turn match the parts of `text` from `start` on, each as
        many characters as its `length`; in ASCII one of length 0 takes all the rest. In other texts
        a last character of several bytes is cut behind its first byte, as the library does. What is
        left behind the last matcher is not looked at. FaultError for a matcher of length 0 at the
        end; LimitError after too many steps.
        """
        at = start
        is_ascii = text.isascii()
        for each in self.matchers:
            search.step(1 if is_ascii else 1 + (len(text) - at) // _PLACES)
            wanted = each.length
            if wanted == 0 and at >= len(text):
                raise FaultError
            if is_ascii:
                end = at + wanted if wanted else len(text)
                if end > len(text):
                    return False
            else:
                starts = [0, *_ends(text[at:])[:-1]] if at < len(text) else []
                if len(starts) < wanted:
                    return False
                # A character of several bytes at the end is cut behind its first one.
                end = at + starts[wanted - 1] + 1
            if not each.matches(text[at:end], search):
                return False
            at = end
        return True

    def matches(self, text: bytes, search: _Search) -> bool:
        return len(_ends(text)) == self.length and self._matches_at(text, 0, search)

    def find(self, text: bytes, search: _Search) -> Span:
        """Return the first place at which all matchers match in turn, with their length in
        characters, as the library does; None without one. FaultError and LimitError as in
        `_matches_at`.
        """
        for at in [0, *_ends(text)[:-1]] if text else []:
            if len(text) - at < self.length:
                break
            if self._matches_at(text, at, search):
                return at, [self.length]
        return None


@record
class _Choice:
    """Texts that match one of several, `length` characters if they all have as many."""

    matchers: tuple[Matcher, ...]
    length: int

    def matches(self, text: bytes, search: _Search) -> bool:
        search.step(1 + len(self.matchers) // _PLACES)
        return any(each.matches(text, search) for each in self.matchers)

    def find(self, text: bytes, search: _Search) -> Span:
        """Return the first place at which one of the matchers matches, and the lengths of all that
        match there; None without one.
        """
        search.step(len(self.matchers))
        spans = [each.find(text, search) for each in self.matchers]
        start = min([each[0] for each in spans if each is not None], default=-1)
        if start < 0:
            return None
        return start, sorted({n for each in spans if each and each[0] == start for n in each[1]})


@record
class _Tree:
    """A matcher and what is left and right of it; None for nothing. `length` is the sum of theirs,
    if all are known.
    """

    middle: Matcher
    left: Matcher | None
    right: Matcher | None
    length: int

    def find(self, text: bytes, search: _Search) -> Span:
        return None

    def matches(self, text: bytes, search: _Search) -> bool:
        """Return True if all of the text matches; `search` keeps the answer for each text.
        LimitError after too many steps.
        """
        search.step(len(text) // _COPIED)
        key = id(self), text
        if key not in search.known:
            search.known[key] = self._matches(text, search)
        return search.known[key]

    def _matches(self, text: bytes, search: _Search) -> bool:
        """Return True if the middle is found at a place for which what is left and right of it
        match the rest, the longest match of the middle first. False for a text with fewer bytes
        than `length`. LimitError after too many steps.
        """
        if self.length > len(text):
            return False
        at = max(self.left.length, 0) if self.left else 0
        end = len(text) - (max(self.right.length, 0) if self.right else 0)
        while at < end:
            bytes_of_step = _COPIED if isinstance(self.middle, _Text) else _PLACES
            search.step(1 + (end - at) // bytes_of_step)
            span = self.middle.find(text[at:end], search)
            if span is None:
                return False
            start = at + span[0]
            if _is_side(self.left, text[:start], search):
                for size in reversed(span[1]):
                    search.step()
                    if _is_side(self.right, text[start + size :], search):
                        return True
            # On by one character, which has at most 4 bytes; 0 at the end of the text ends the
            # loop.
            at = start + (_ends(text[start : start + 4]) or [0])[0]
        return False


def _is_side(side: Matcher | None, text: bytes, search: _Search) -> bool:
    return not text if side is None else side.matches(text, search)


# From parts to matchers


class _Builder:
    """Makes the matchers of a glob as the library does; counts the steps that this takes."""

    def __init__(self, stops: tuple[bytes, ...]) -> None:
        self._stops = stops
        self._steps = 0

    def _step(self, count: int) -> None:
        """Count `count` steps of making this glob's matchers; LimitError above `MAX_BUILT`."""
        self._steps += count
        if self._steps > MAX_BUILT:
            raise LimitError(f"glob takes more than {MAX_BUILT} steps to compile")

    def sequence(self, parts: Sequence[Part]) -> Matcher:
        """Return one matcher for parts of a glob in order; for none, one that matches the empty
        text. LimitError after too many steps.
        """
        if not parts:
            return _Nothing()
        return self._unite([self._compile(part) for part in parts])

    def _unite(self, matchers: list[Matcher]) -> Matcher:
        return _optimize(self._join(self._shorten(matchers)))

    def _compile(self, part: Part) -> Matcher:
        """Return the matcher of one part. A list of one character that is not negated is a text.
        LimitError after too many steps.
        """
        self._step(1)
        characters = tuple(map(str.encode, part.text))
        match part.kind:
            case "text":
                return _Text(part.text.encode())
            case "*":
                return _Any(self._stops)
            case "**":
                return _Any(())
            case "?":
                return _Character(self._stops, is_range=False, is_negated=True)
            case "choice":
                return self._choice(part.options)
            case "list" if len(characters) == 1 and not part.is_negated:
                return _Text(characters[0])
        return _Character(characters, part.kind == "range", part.is_negated)

    def _choice(self, options: Sequence[Sequence[Part]]) -> Matcher:
        """Return the matcher of alternatives, each a sequence of parts. Parts that all begin or end
        with are matched once, around a choice of the different rests; if one rest is empty, its
        alternative matches the empty text. A single alternative is its sequence. LimitError after
        too many steps.
        """
        start, end = self._common(options)
        if not start and not end:
            matchers = [self.sequence(option) for option in options]
            return matchers[0] if len(matchers) == 1 else _make_choice(matchers)
        rests = list(
            dict.fromkeys([tuple(option[start : len(option) - end]) for option in options])
        )
        before, behind = options[0][:start], options[0][len(options[0]) - end :]
        sequence: list[Matcher] = [self.sequence(before)] if start else []
        if len(rests) == 1:
            sequence += [self.sequence(rest) for rest in rests if rest]
        elif all(rests):
            sequence.append(self._choice(rests))
        else:
            sequence.append(_make_choice([self.sequence(rest) for rest in rests]))
        if end:
            sequence.append(self.sequence(behind))
        return self._unite(sequence)

    def _common(self, options: Sequence[Sequence[Part]]) -> tuple[int, int]:
        """Return how many parts all alternatives have in common at their start and at their end, as
        the library counts: both runs grow in turn and together have at most as many parts as the
        shortest alternative. (0, 0) for fewer than two alternatives. LimitError after too many
        steps.
        """
        if len(options) <= 1:
            return 0, 0
        shortest = min(options, key=len)
        others = [option for option in options if option is not shortest]
        size = len(shortest)
        start = end = 0
        is_left = is_right = True
        for at in range(size):
            back = size - 1 - at
            if start + end >= size or not (is_left or is_right):
                break
            self._step(len(others))
            for other in others:
                if not is_left and not is_right:
                    break
                is_left = is_left and shortest[at] == other[at]
                # Where the two runs meet, the part belongs to the left one.
                is_right = is_right and not (is_left and back <= at)
                is_right = is_right and shortest[back] == other[len(other) - 1 - at]
            start += is_left
            end += is_right
        return start, end

    def _join(self, matchers: Sequence[Matcher]) -> Matcher:
        """Return one matcher of several in order, at least one: a special one if they fit it,
        otherwise a tree whose middle is the last of the longest ones of known length (or the first
        one, if no length is known), with trees of those before and behind. LimitError after too
        many steps.
        """
        self._step(len(matchers))
        if len(matchers) == 1:
            return matchers[0]
        glued = _glue(matchers)
        if glued is not None:
            return glued
        longest = max(each.length for each in matchers)
        if longest == _OPEN:
            return _make_tree(matchers[0], None, self._join(matchers[1:]))
        at = max(n for n, each in enumerate(matchers) if each.length == longest)
        left, right = matchers[:at], matchers[at + 1 :]
        return _make_tree(
            matchers[at], self._join(left) if left else None, self._join(right) if right else None
        )

    def _shorten(self, matchers: list[Matcher]) -> list[Matcher]:
        """Return the matchers with neighbors that can be one as one, the most of them first."""
        while (run := self._longest_run(matchers)) is not None:
            start, end = run
            glued = _glue(matchers[start:end])
            assert glued is not None
            matchers = [*matchers[:start], glued, *matchers[end:]]
        return matchers

    def _longest_run(self, matchers: Sequence[Matcher]) -> tuple[int, int] | None:
        """Return the start and the end of the neighbours, two or more, that the library makes one
        matcher: those of known lengths, or wild cards with the same stops. The run with the most of
        them wins, or one of known lengths with a greater length. None if there are none. LimitError
        after too many steps.
        """
        size = len(matchers)
        self._step(size)
        # From each start only the most neighbors count: fewer of them have no greater length.
        runs: list[tuple[int, int, int]] = []
        known_end, wild_end = size, size
        stops_behind: tuple[bytes, ...] | None = None
        for start in reversed(range(size)):
            known_end = start if matchers[start].length == _OPEN else known_end
            stops = _stops_of(matchers[start])
            if stops is None or stops != stops_behind:
                wild_end = start if stops is None else start + 1
            stops_behind = stops
            runs.append((start, known_end, wild_end))
        totals = [0, *accumulate(max(each.length, 0) for each in matchers)]
        best: tuple[int, int] | None = None
        best_length = _OPEN
        for start, known_end, wild_end in reversed(runs):
            end = max(known_end, wild_end)
            if end - start < 2:
                continue
            length = _OPEN if end == wild_end else totals[end] - totals[start]
            if best is None or best[1] - best[0] < end - start or _OPEN < best_length < length:
                best, best_length = (start, end), length
        return best


def _glue(matchers: Sequence[Matcher]) -> Matcher | None:
    """Return one matcher for several in a row that needs no tree of them: for wild cards with the
    same stops, or for matchers that all have known lengths. None for fewer than two, and for
    others.
    """
    if len(matchers) <= 1:
        return None
    every = _glue_wild(matchers)
    if every is not None:
        return every
    if any(each.length == _OPEN for each in matchers):
        return None
    return _Row(tuple(matchers), sum(each.length for each in matchers))


def _make_choice(matchers: Sequence[Matcher]) -> _Choice:
    """Return a choice; its length is open if lengths differ, but not as long as only the first
    ones are open.
    """
    length = _OPEN
    for each in matchers:
        if length == _OPEN:
            length = each.length
        elif each.length != length:
            return _Choice(tuple(matchers), _OPEN)
    return _Choice(tuple(matchers), length)


def _make_tree(middle: Matcher, left: Matcher | None, right: Matcher | None) -> _Tree:
    """Return a tree, whose length is the sum of the others, or open if one of these is."""
    lengths = [each.length for each in (left, middle, right) if each is not None]
    return _Tree(middle, left, right, _OPEN if _OPEN in lengths else sum(lengths))


def _stops_of(matcher: Matcher) -> tuple[bytes, ...] | None:
    """Return the characters at which a wild card (`?`, `*`, `**`) stops, () for none; None for a
    matcher that is not a wild card.
    """
    if isinstance(matcher, _Character) and matcher.is_negated and not matcher.is_range:
        return matcher.characters
    return matcher.stops if isinstance(matcher, _Any) else None


def _glue_wild(matchers: Sequence[Matcher]) -> Matcher | None:
    """Return one matcher for wild cards in a row (`?`, `*`, `**`) that all stop at the same
    characters: it limits how many characters there are, and with stop characters which ones; None
    if one is something else or has other stops. `matchers` is not empty.
    """
    least = 0
    is_open = False
    stops: tuple[bytes, ...] | None = None
    for each in matchers:
        own = _stops_of(each)
        if own is None or (stops is not None and own != stops):
            return None
        stops = own
        least += isinstance(each, _Character)
        is_open = is_open or isinstance(each, _Any)
    assert stops is not None
    if not least:
        return _Any(stops)
    if is_open and not stops:
        return _Least(least)
    every: list[Matcher] = [_Least(least)]
    if not is_open:
        every.append(_Most(least))
    if stops:
        every.append(_Contains(b"".join(stops)))
    return _Every(tuple(every))


def _optimize(matcher: Matcher) -> Matcher:
    """Return the matcher with each tree in it of a text between two wild cards or nothing replaced
    by the special matcher that the library has for it, from the leaves up; others stay.
    """
    if not isinstance(matcher, _Tree):
        return matcher
    left = _optimize(matcher.left) if matcher.left else None
    right = _optimize(matcher.right) if matcher.right else None
    if isinstance(matcher.middle, _Text):
        joined = _join_text(matcher.middle.text, left, right)
        if joined is not None:
            return joined
    return _make_tree(matcher.middle, left, right)


def _join_text(text: bytes, left: Matcher | None, right: Matcher | None) -> Matcher | None:
    """Return one matcher for a text between two others, None where there is nothing, if the library
    has a special one for them: with `*` on one side or both. None if it has to be a tree.
    """
    match left, right:
        case None, None:
            return _Text(text)
        case _Any(()), _Any(()):
            return _Holding(text)
        case _Any(()), None:
            return _Around(b"", None, text)
        case None, _Any(()):
            return _Around(text, None, b"")
        case None, _Around(b"", None, behind):
            return _Around(text, None, behind)
        case _Around(before, None, b""), None:
            return _Around(before, None, text)
        case _Any(stops), None:
            return _Around(b"", stops, text)
        case None, _Any(stops):
            return _Around(text, stops, b"")
    return None
