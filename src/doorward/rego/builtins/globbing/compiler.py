"""A glob becomes a function that tells whether a string fits it.

Common forms are compared as plain strings, all others become an RE2 pattern. A string that fits it
must also be one that OPA's library finds (`search`). A glob is at most `MAX_GLOB` characters, its
braces nest at most `MAX_DEPTH` deep; `CACHED` compiled ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from doorward.base.records import record
from doorward.rego.builtins.globbing.search import FaultError, build_finder
from doorward.rego.builtins.globbing.search import Part as SearchedPart
from doorward.rego.caches import counted
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.octets import to_bytes
from doorward.rego.golang.regexp import matcher, quote_for_class, quote_meta

__all__ = ["CACHED", "MAX_DEPTH", "MAX_GLOB", "Matcher", "compile_glob"]

CACHED: Final = 1024
"""The number of compiled globs that are kept."""
MAX_DEPTH: Final = 100
MAX_GLOB: Final = 4096

Matcher: TypeAlias = Callable[[str], bool]


@counted("glob")
@lru_cache(maxsize=CACHED)
def compile_glob(glob: str, stops: str) -> Matcher:
    """Return a function that returns True if a string matches the glob. `*` and `?` do not match
    the characters in `stops`, the delimiters; with "" they match any character. A glob that is only
    `?` or a negated class also matches the empty string. BuiltinError for an invalid glob,
    LimitError for one that is too long or nested too deeply; the function of a large glob raises
    LimitError for a long string. Results are cached.
    """
    if len(glob) > MAX_GLOB or len(stops) > MAX_GLOB:
        raise LimitError(f"pattern or delimiters are longer than {MAX_GLOB} characters")
    parts = _Parser(glob).parts()
    plain = _plain(parts, stops)
    if plain is not None:
        return plain
    stop = f"[^{quote_for_class(stops)}]" if stops else "."
    expression = "".join([part.expression(stop) for part in parts])
    if len(parts) == 1 and _is_one_of_others(parts[0]):
        # A character of its own that is only said not to be some others may also not be there.
        expression += "?"
    fits: Matcher = matcher(f"(?s)\\A(?:{expression})\\z")
    if _finds_all(parts):
        return fits
    finds_all_ascii = _finds_all(parts, choices=True)
    find = build_finder([part.searched for part in parts], stops)

    def match(value: str) -> bool:
        """Return True if the value matches and OPA's library finds that it does; also where the
        library would end in a fault. LimitError if its search takes too many steps.
        """
        if not fits(value):
            return False
        if finds_all_ascii and value.isascii():
            return True
        try:
            return find(to_bytes(value))
        except FaultError:
            return True

    return match


@record
class _Text:
    """Plain text in a glob."""

    text: str

    def expression(self, _stop: str) -> str:
        return quote_meta(self.text)

    @property
    def searched(self) -> SearchedPart:
        return SearchedPart("text", self.text)


@record
class _Wild:
    """A wildcard in a glob: `*`, `**` or `?`."""

    sign: str

    def expression(self, stop: str) -> str:
        return {"*": f"{stop}*", "**": ".*", "?": stop}[self.sign]

    @property
    def searched(self) -> SearchedPart:
        return SearchedPart(self.sign)


@record
class _Class:
    """A class in a glob, `[abc]` or `[a-z]`: its characters, or the two of a range."""

    characters: str
    is_range: bool
    is_negated: bool

    def expression(self, _stop: str) -> str:
        """Return the class as one of RE2, with its characters quoted; the delimiters do not matter
        to it.
        """
        inside = quote_for_class(self.characters)
        if self.is_range:
            inside = "-".join(map(quote_for_class, self.characters))
        return f"[{'^' if self.is_negated else ''}{inside}]"

    @property
    def searched(self) -> SearchedPart:
        kind = "range" if self.is_range else "list"
        return SearchedPart(kind, self.characters, self.is_negated)


@record
class _Choice:
    """Alternatives in a glob: `{a,b}`."""

    options: tuple[tuple[Part, ...], ...]

    def expression(self, stop: str) -> str:
        texts = ["".join([part.expression(stop) for part in option]) for option in self.options]
        return f"(?:{'|'.join(texts)})"

    @property
    def searched(self) -> SearchedPart:
        options = [tuple([part.searched for part in option]) for option in self.options]
        return SearchedPart("choice", options=tuple(options))


Part: TypeAlias = _Text | _Wild | _Class | _Choice


def _finds_all(parts: Sequence[Part], *, choices: bool = False) -> bool:
    """Return True if OPA's library certainly finds each text that the glob matches: texts with `*`
    or `**` between them, and with `choices` also braces around different texts, if the value is
    ASCII. The library then looks at each place of the longest text or choice, and a part that may
    be empty is next to one that is not.
    """
    for before, part in zip([None, *parts], parts, strict=False):
        if isinstance(part, _Wild):
            if part.sign == "?" or isinstance(before, _Wild):
                return False
        elif isinstance(part, _Choice):
            texts = {option for option in part.options if _is_text(option)}
            if not choices or len(texts) < len(part.options):
                return False
        elif not isinstance(part, _Text):
            return False
    return True


def _is_text(option: Sequence[Part]) -> bool:
    return len(option) == 1 and isinstance(option[0], _Text)


def _is_one_of_others(part: Part) -> bool:
    """Return True for `?` and for a negated class such as `[!abc]`: parts that match one character
    of all but some.
    """
    if isinstance(part, _Class):
        return part.is_negated
    return isinstance(part, _Wild) and part.sign == "?"


class _Parser:
    """A recursive reader of one glob; `at` is the index of the next character."""

    def __init__(self, glob: str) -> None:
        self.glob = glob
        self.at = 0

    def parts(self) -> list[Part]:
        """glob = { text | "*" | "**" | "?" | class | "{" glob { "," glob } "}" }

        Reads the whole glob; braces left open are closed by its end. BuiltinError for a class that
        is empty, invalid or not closed; LimitError above `MAX_DEPTH` levels of braces.
        """
        options: list[list[list[Part]]] = []
        here: list[Part] = []
        while self.at < len(self.glob):
            char = self.glob[self.at]
            self.at += 1
            if char == "{":
                if len(options) == MAX_DEPTH:
                    raise LimitError(f"braces are nested more than {MAX_DEPTH} deep")
                options.append([here])
                here = []
            elif options and char in ",}":
                options[-1].append(here)
                here = []
                if char == "}":
                    outer, *inner = options.pop()
                    here = [*outer, _choice(inner)]
            else:
                part = self.part(char, nested=bool(options))
                if part != _Text(""):  # of a backslash at the end
                    here.append(part)
        while options:  # braces left open are closed by the end
            outer, *inner = options.pop()
            here = [*outer, _choice([*inner, here])]
        return here

    def part(self, char: str, *, nested: bool) -> Part:
        """Parse one part whose first character `char` is already read: `?`, `*`, `**`, a class or
        text. If `nested` (inside braces), text ends at a comma or `}` too. BuiltinError for a class
        that is empty, invalid or not closed.
        """
        if char == "?":
            return _Wild("?")
        if char == "*":
            if self.glob.startswith("*", self.at):
                self.at += 1
                return _Wild("**")
            return _Wild("*")
        if char == "[":
            return self.range()
        self.at -= 1
        return _Text(self.text("?*[{},"[: 6 if nested else 4]))

    def text(self, breakers: str) -> str:
        """Read text up to, not including, one of the characters in `breakers` or the end of the
        glob. A backslash escapes the next character and is left out of the result.
        """
        out: list[str] = []
        while self.at < len(self.glob) and self.glob[self.at] not in breakers:
            if self.glob[self.at] == "\\":
                self.at += 1
            out.append(self.glob[self.at : self.at + 1])
            self.at += 1
        return "".join(out)

    def range(self) -> _Class:
        """Parse the inside of `[...]` and the `]`, after the `[`: a range `a-z`, or listed
        characters; `!` before them negates. BuiltinError for a class that is empty, invalid or not
        closed.
        """
        is_negated = self.glob.startswith("!", self.at)
        self.at += is_negated
        if self.at >= len(self.glob):
            raise BuiltinError("unexpected end of input")
        is_range = self.glob.startswith("-", self.at + 1)
        characters = self.bounds() if is_range else self.text("]")
        if self.at >= len(self.glob):
            raise BuiltinError("unexpected end of input")
        self.at += 1  # over the `]` that both ways of reading stop at
        if not characters:
            raise BuiltinError("could not parse range")
        return _Class(characters, is_range, is_negated)

    def bounds(self) -> str:
        """Parse `low-high` of a range up to, not including, the `]`, and return both characters. ""
        if `low` is a NUL character, which the caller refuses as an empty class. BuiltinError if the
        range is not closed or `high` is before `low`.
        """
        low, high = self.glob[self.at], self.glob[self.at + 2 : self.at + 3]
        self.at += 3
        if not high:
            raise BuiltinError("unexpected end of input")
        if self.at >= len(self.glob):
            raise BuiltinError("unexpected end of input")
        if self.glob[self.at] != "]":
            raise BuiltinError("expected close range character")
        if high < low:
            raise BuiltinError(f"hi character '{high}' should be greater than lo '{low}'")
        return f"{low}{high}" if low != "\0" else ""


def _choice(options: list[list[Part]]) -> _Choice:
    return _Choice(tuple(map(tuple, options)))


def _plain(parts: list[Part], stops: str) -> Matcher | None:
    """Return a matcher without a regular expression, for a glob that is plain text with at most one
    `*` or `**`; None for all other globs. `stops` are the delimiters that `*` does not cross.
    """
    texts = [part.text for part in parts if isinstance(part, _Text)]
    wilds = [part for part in parts if isinstance(part, _Wild) and part.sign != "?"]
    if len(texts) + len(wilds) != len(parts) or len(wilds) > 1:
        return None
    if not wilds:
        literal = "".join(texts)
        return literal.__eq__
    wild_at = parts.index(wilds[0])
    head, tail = "".join(texts[:wild_at]), "".join(texts[wild_at:])
    # Without delimiters a single star matches everything, too.
    if wilds[0].sign == "**" or not stops:
        return _around(head, tail)
    return _around_no(stops, head, tail)


def _around(head: str, tail: str) -> Matcher:
    """Return a matcher for texts that begin with `head` and end with `tail`."""
    least = len(head) + len(tail)

    def match(value: str) -> bool:
        return len(value) >= least and value.startswith(head) and value.endswith(tail)

    return match


def _around_no(stops: str, head: str, tail: str) -> Matcher:
    """Return a function that tests if a text is `head`, then any number of characters outside
    `stops` (delimiters, at least one), then `tail`: the glob `head*tail`.
    """
    start, cut = len(head), len(tail)

    def match_one(value: str) -> bool:
        """Return True if the value matches, where `stops` is a single delimiter: one search in the
        text is enough.
        """
        end = len(value) - cut
        return (
            end >= start
            and value.startswith(head)
            and value.endswith(tail)
            and value.find(stops, start, end) < 0
        )

    def match_many(value: str) -> bool:
        """Return True if the value matches, where `stops` has several delimiters."""
        end = len(value) - cut
        if end < start or not (value.startswith(head) and value.endswith(tail)):
            return False
        return not any([value.find(stop, start, end) >= 0 for stop in stops])

    return match_one if len(stops) == 1 else match_many
