"""Much JSON that stays in memory, read piece by piece: documents of base data.

    bytes ── window of text ──▶ `json`'s scanner ──▶ objects that share their keys ──▶ value

The text is decoded a window at a time, so it is never there as a whole beside the bytes. Equal
strings and fractions are one, as in `json_text`. Objects with the same keys in the same order share
these: Python does so for the attributes of instances (PEP 412), and the `__dict__` of an instance
is a `dict` like any other, of half the size. An object of three members takes 96 bytes, not 184.

The garbage collector does not track these objects: what was JSON refers to no object around it, so
nothing of it is ever collected, and each full collection would traverse all of it (0.25 s for
50 MB, in which no other thread runs).

What is refused is refused without a reason: `json_text` reads the whole text again and says it.
"""

from __future__ import annotations

import json
import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import Any, Final

from doorward.base.collector import freezes, untracker
from doorward.rego.json_text import Numbers, Strings, refuse_constant, scrub_value
from doorward.rego.numbers import Number, parse_number
from doorward.rego.values import Key, Value

__all__ = ["from_pieces"]

WINDOW: Final = 1 << 20
"""The number of bytes that are decoded at a time, or the rest of the window before if that is
longer.
"""
DEPTH: Final = 8
"""The most nested containers larger than a window that are read member by member; deeper ones are
read as a whole, since each level may read the window once more.
"""
_SEVERAL: Final = 1 << 12
"""Several members are decoded at once if they have at least this many characters."""
_MISSES: Final = 2
"""After this many cuts in the middle of nested members, members are decoded one by one."""

KINDS: Final = 256
"""The most sets of keys that are shared."""
_OFTEN: Final = 32
"""Objects share their keys from this many objects with the same keys on."""
_MOST_KEYS: Final = 30
"""The most keys that Python shares between objects."""
_SAMPLES: Final = 40
"""The number of instances after which Python knows how many attributes they have."""

_TRIED: Final = 1 << 11
"""The number of objects of a kind after which it is known where strings repeat."""
_SELDOM: Final = 32
"""Strings are shared where at least one of this many objects has one that was there before."""

_TAIL: Final = ' \t\r\n"]}'
"""The characters that the end of a member consists of; members inside of it mostly end
differently.
"""
_LONGEST_TAIL: Final = 64
_SPACE: Final = re.compile(r"[ \t\r\n]*+")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def from_pieces(content: bytes) -> Value:
    """Parse a JSON text in UTF-8 piece by piece to the value that `from_json` returns for it.
    ValueError, without a useful reason, if it is invalid or nested too deeply.
    """
    try:
        return _Reader(content).document()
    except (RecursionError, StopIteration):
        raise ValueError("not JSON") from None


class _Objects:
    """Replaces objects by equal ones that take less memory: those with the same keys share them,
    and equal strings are stored once.
    """

    def __init__(self, untrack: Callable[[object], None]) -> None:
        self._strings = Strings()
        self._untrack = untrack
        self._times: dict[tuple[str, ...], int] = {}
        """The number of objects with these keys in this order so far."""
        self._kinds: dict[tuple[str, ...], _Kind] = {}
        """The kinds of objects that came often, by their keys."""

    def share(self, obj: dict[str, Value]) -> dict[str, Value]:
        """Return an object equal to `obj` that takes less memory. Its strings, and those in its
        arrays, are shared with earlier objects; its keys too, if objects with these keys came
        often. It may be `obj` itself, changed. Strings are forgotten when more than `KEPT` are
        remembered.
        """
        keys = tuple(obj)
        kind = self._kinds.get(keys)
        if kind is not None:
            return kind.copy(obj)
        self._count(keys)
        return self._strings.share(obj)

    def share_untracked(self, obj: dict[str, Value]) -> dict[str, Value]:
        """Return an object equal to `obj` that takes less memory and shares strings and keys with
        earlier objects; it may be `obj` itself, changed. It and the arrays directly in it are also
        removed from the garbage collector.
        """
        into = self.share(obj)
        untrack = self._untrack
        for value in into.values():
            if type(value) is list:
                untrack(value)
        untrack(into)
        return into

    def _count(self, keys: tuple[str, ...]) -> None:
        """Count an object with these keys; from `_OFTEN` on they get a kind of their own. Nothing
        is counted for more than `_MOST_KEYS` keys, nor for new keys after `KINDS` others.
        """
        times = self._times.get(keys, 0) + 1
        if len(keys) > _MOST_KEYS or (times == 1 and len(self._times) >= KINDS):
            return
        self._times[keys] = times
        if times == _OFTEN and (new := _class_of(keys)) is not None:
            self._kinds[keys] = _Kind(new, keys, self._strings)


class _Kind:
    """The objects with the same keys in the same order. `copy` returns an object equal to the given
    one that shares its keys with the others of the kind, and strings where they repeat.

    After `_TRIED` objects, strings are looked up only under the keys where they did repeat: names
    and digests that never do would be looked up in vain, which took half of the time.
    """

    def __init__(self, new: type, keys: tuple[str, ...], strings: Strings) -> None:
        self.copy: Callable[[dict[str, Value]], dict[str, Value]] = self._copy_and_count
        self._new = new
        self._strings = strings
        self._repeated = dict.fromkeys(keys, 0)
        """The strings that were there already, by the key under which they stand."""
        self._tried = 0

    def _copy_and_count(self, obj: dict[str, Value]) -> dict[str, Value]:
        """Return a copy of an object that shares its keys with others of this kind, and its strings
        with equal ones; count under which keys strings repeat. After `_TRIED` objects, `copy`
        becomes a function compiled from the counts, in place of this one.
        """
        strings = self._strings
        strings.forget_if_full()
        into: dict[str, Value] = self._new().__dict__
        for key, value in obj.items():
            # One by one: `update` would make room for keys of its own.
            known = len(strings)
            into[key] = shared = strings.share_value(value)
            is_looked_up = type(value) is str or shared is not value
            if is_looked_up and len(strings) == known:
                self._repeated[key] += 1
        self._tried += 1
        if self._tried == _TRIED:
            self.copy = self._compile_copy()
        return into

    def _is_shared(self, key: str) -> bool:
        """Return True if the strings under a key repeat so often that it pays to look them up."""
        return self._repeated[key] * _SELDOM >= _TRIED

    def _compile_copy(self) -> Callable[[dict[str, Value]], dict[str, Value]]:
        """Compile and return a function that copies an object with the keys of this kind,
        assignment by assignment, to a `dict` that shares its keys. Strings are shared with equal
        ones only under the keys where they repeated so far.
        """
        strings = self._strings
        names: dict[str, Any] = {
            "new": self._new,
            "share": strings.share_value,
            "once": strings.setdefault,
            "forget": strings.forget_if_full,
        }
        lines = ["into = new().__dict__"]
        if any(map(self._is_shared, self._repeated)):
            lines.append("forget()")
        for number, key in enumerate(self._repeated):
            # The keys are data: the code holds their numbers.
            names[f"k{number}"] = key
            if self._is_shared(key):
                lines.append(f"value = obj[k{number}]")
                value = "once(value, value) if type(value) is str else share(value)"
            else:
                value = f"obj[k{number}]"
            lines.append(f"into[k{number}] = {value}")
        parameters = ", ".join(["obj", *(f"{name}={name}" for name in names)])
        exec("\n ".join([f"def copy({parameters}):", *lines, "return into"]), names)
        copy: Callable[[dict[str, Value]], dict[str, Value]] = names["copy"]
        return copy


class _Fractions(Numbers):
    """A cache of numbers by their text, which removes each new number from Python's garbage
    collector.
    """

    def __init__(self, untrack: Callable[[object], None]) -> None:
        super().__init__()
        self._untrack = untrack

    def __missing__(self, text: str) -> int | Number:
        number = super().__missing__(text)
        self._untrack(number)
        return number


def _class_of(keys: tuple[str, ...]) -> type | None:
    """Return a class whose instances have exactly these attributes, in a `__dict__` with shared
    keys; None if that does not take less memory than a plain `dict`.
    """
    kind = type("Object", (), {})
    sample: dict[str, None] = {}
    for _ in range(_SAMPLES):
        sample = kind().__dict__
        for key in keys:
            sample[key] = None
    is_smaller = sys.getsizeof(sample) < sys.getsizeof(dict.fromkeys(keys))
    return kind if is_smaller else None


class _Reader:
    """Reads one text; `_at` is the position in the window."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._read = 0
        self._decoder = getincrementaldecoder("utf-8")()
        untrack = untracker()
        objects = _Objects(untrack)
        # What is frozen is not traversed, and a quarter of the time is saved.
        is_frozen = freezes()
        decoder: Any = json.JSONDecoder(
            parse_int=parse_number,
            parse_float=(Numbers() if is_frozen else _Fractions(untrack)).__getitem__,
            parse_constant=refuse_constant,
            object_hook=objects.share if is_frozen else objects.share_untracked,
        )
        self._scan = decoder.scan_once
        self._has_surrogates = _SURROGATE.search(content) is not None
        self._text, self._at = "", 0
        self._last = ""
        """The last characters of the value that was read last."""
        self._is_last = False
        """True if the window reaches to the end of the text."""

    def document(self) -> Value:
        """Return the only value of the text. ValueError or StopIteration if it is not valid JSON or
        more follows.
        """
        value = self._value(0)
        if self._following():
            raise ValueError("the text has more than one JSON value")
        return value

    def _extend(self) -> None:
        """Decode more of the text into the window, and drop from it the part that was read.
        `_is_last` becomes True at the end of the text.
        """
        left = self._text[self._at :]
        piece = self._content[self._read : self._read + max(WINDOW, len(left))]
        self._read += len(piece)
        self._is_last = self._read >= len(self._content)
        self._text, self._at = left + self._decoder.decode(piece, self._is_last), 0

    def _following(self) -> str:
        """Move past white space, decoding more text if needed, and return the next character
        without moving past it; "" at the end.
        """
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or self._is_last:
                return self._text[self._at : self._at + 1]
            self._extend()

    def _take_token(self) -> str:
        """Return the next character that is not white space and move past it; "" at the end."""
        character = self._following()
        self._at += 1
        return character

    def _value(self, depth: int) -> Value:
        """Parse the value at the position, go behind it, and return it; the window is extended as
        far as needed. An object or array that does not fit into a window is parsed member by
        member, at most `DEPTH` levels deep; `depth` is the number of those around. StopIteration or
        ValueError for invalid JSON.
        """
        while True:
            first = self._following()
            try:
                value, end = self._scan(self._text, self._at)
                # A number may go on behind the window: `1` of `1e+5`.
                if len(self._text) - end > 2 or self._is_last:
                    self._last = self._text[max(self._at, end - _LONGEST_TAIL) : end]
                    self._at = end
                    return self._scrub(value)
            except (StopIteration, ValueError):
                if self._is_last:
                    raise
            if len(self._text) - self._at >= WINDOW and depth < DEPTH:
                if first == "{":
                    return self._object(depth + 1)
                if first == "[":
                    return self._array(depth + 1)
            self._extend()

    def _object(self, depth: int) -> Value:
        """Parse an object, the position being at its `{`, and go behind its `}`. Members are parsed
        one by one, or many at once where the window can be cut. Of equal keys the last counts.
        `depth`: the number of open containers, this one included. StopIteration or ValueError for
        invalid JSON.
        """
        result: dict[Key, Value] = {}
        cuts = _Cuts()
        self._at += 1
        if self._following() == "}":
            self._at += 1
            return result
        while True:
            if (several := self._several("{", "}", cuts)) is not None:
                result.update(several)
            else:
                if self._following() != '"':
                    raise ValueError("no key")
                key: Any = self._value(depth)
                if self._take_token() != ":":
                    raise ValueError("no value")
                result[key] = self._value(depth)
                cuts.note(self._last)
            if self._take_end_or_comma("}"):
                return result

    def _array(self, depth: int) -> Value:
        """Parse an array, the position being at its `[`, and go behind its `]`. Items are parsed
        one by one, or many at once where the window can be cut. `depth`: the number of open
        containers, this one included. StopIteration or ValueError for invalid JSON.
        """
        result: list[Value] = []
        cuts = _Cuts()
        self._at += 1
        if self._following() == "]":
            self._at += 1
            return result
        while True:
            if (several := self._several("[", "]", cuts)) is not None:
                result += several
            else:
                result.append(self._value(depth))
                cuts.note(self._last)
            if self._take_end_or_comma("]"):
                return result

    def _take_end_or_comma(self, closing: str) -> bool:
        """Move past the next character. Return True if it is `closing`, so that the container ends;
        False for a comma, after which another member follows. ValueError for anything else.
        """
        character = self._take_token()
        if character not in (closing, ","):
            raise ValueError(
                "the JSON text has neither another item nor the end of the array or object"
            )
        self._last = character
        return character == closing

    def _several(self, opening: str, closing: str, cuts: _Cuts) -> Any:
        """Parse the members in the window up to the last cut at once, as one container between
        `opening` and `closing`, and return it. None, with nothing consumed, if there are too few,
        or if they cannot be cut safely, which `cuts` counts: after `_MISSES` times none is tried.
        """
        if cuts.misses >= _MISSES or not cuts.mark:
            return None
        end = self._text.rfind(cuts.mark, self._at) + len(cuts.mark) - 1
        if end - self._at < _SEVERAL:
            return None
        text = f"{opening}{self._text[self._at : end]}{closing}"
        try:
            value, length = self._scan(text, 0)
        except (StopIteration, ValueError):
            length = 0
        # The last mark in the window was inside a nested member: the text is not a complete
        # container.
        if length != len(text):
            cuts.misses += 1
            return None
        self._at = end
        return self._scrub(value)

    def _scrub(self, value: Value) -> Value:
        return scrub_value(value) if self._has_surrogates else value


class _Cuts:
    """The positions at which the text between the members of one container can be cut."""

    __slots__ = ("mark", "misses")

    def __init__(self) -> None:
        self.mark = ""
        """The characters that end a member, with the comma; empty before the first member."""
        self.misses = 0
        """The number of cuts that were in the middle of a member."""

    def note(self, last: str) -> None:
        """Record how a member ended: the blanks, quotes and closing brackets at the end of `last`,
        its text or the end of it. The next members are cut where a comma follows the same
        characters.
        """
        self.mark = last[len(last.rstrip(_TAIL)) :] + ","
