"""Automata for the checker of proofs: they tell if no text satisfies some conditions.

This module shares no code with `languages`: patterns are parsed by Python's parser, become automata
with moves that read no character, and are run side by side on sets of states.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final

from doorward.base.records import mutable

__all__ = [
    "TOP",
    "Automaton",
    "have_no_text",
    "of_characters",
    "of_glob",
    "of_pattern",
    "of_text",
    "union",
]

# typeshed has no stubs for them
codes: Final[Any] = importlib.import_module("re._constants")
parser: Final[Any] = importlib.import_module("re._parser")

_UNSUPPORTED: Final = "invalid proof step: the regular expression has a form that is not supported"
TOP: Final = 0x10FFFF
MAX_SETS: Final = 20_000
"""The maximum number of combinations of states that `have_no_text` visits."""
MAX_NODES: Final = 5_000
"""The maximum number of states of one automaton."""
_ALL: Final = ((0, TOP),)
# RE2's classes, which are ASCII and where `\s` has no `\v`; Python's are wider.
_NAMED: Final = {
    codes.CATEGORY_DIGIT: "0123456789",
    codes.CATEGORY_SPACE: "\t\n\f\r ",
    codes.CATEGORY_WORD: "0123456789_" + "".join(map(chr, [*range(65, 91), *range(97, 123)])),
}
_UNSAFE: Final = re.compile(r"\(\?(?!:)|\{,|\[\[|\[:|\\[a-ce-rt-vx-zA-Z0-9]|[*+?}][*+?{]")
"""Forms of patterns that Go and Python read differently, or that are not supported."""


@mutable
class Automaton:
    """A finite automaton that begins in state 0 and accepts a text that leads to state `end`.
    `moves`: for each state, ranges of code points and the state after one of them; `free`: for each
    state, the states reached without reading a character.
    """

    moves: list[list[tuple[tuple[tuple[int, int], ...], int]]] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)
    end: int = 0

    def add(self) -> int:
        """Add a state and return its number; ValueError above `MAX_NODES`."""
        if len(self.moves) >= MAX_NODES:
            raise ValueError("invalid proof step: the automaton of a text has too many states")
        self.moves.append([])
        self.free.append([])
        return len(self.moves) - 1

    def reach(self, states: Iterable[int]) -> frozenset[int]:
        """Return `states` and all states that lead on from them without reading a character."""
        reached, waiting = set(states), list(states)
        while waiting:
            for each in self.free[waiting.pop()]:
                if each not in reached:
                    reached.add(each)
                    waiting.append(each)
        return frozenset(reached)

    def follow(self, states: frozenset[int], char: int) -> frozenset[int]:
        """Return the states reachable from these by reading one character (a code point); an empty
        set if there are none.
        """
        targets = {
            target
            for state in states
            for ranges, target in self.moves[state]
            if any(low <= char <= high for low, high in ranges)
        }
        return self.reach(targets)

    def accepts(self, text: str) -> bool:
        """Return True if the complete text leads from state 0 to the state `end`."""
        states = self.reach([0])
        for char in text:
            states = self.follow(states, ord(char))
        return self.end in states

    def before(self, table: dict[int, int]) -> Automaton:
        """Return the automaton of the texts that this one accepts after `table` has replaced their
        characters. This one is not changed.
        """
        known: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = {}
        for each in self.moves:
            for ranges, _ in each:
                if ranges not in known:
                    known[ranges] = _origin(table, ranges)
        moves = [[(known[ranges], target) for ranges, target in each] for each in self.moves]
        return Automaton(moves, [list(each) for each in self.free], self.end)

    # Building: each method goes on from a state and returns the one where it ends

    def one(self, state: int, ranges: tuple[tuple[int, int], ...]) -> int:
        """Add a move from `state` on any character of the ranges; return the new state. ValueError
        above `MAX_NODES`.
        """
        target = self.add()
        self.moves[state].append((ranges, target))
        return target

    def text(self, state: int, text: str) -> int:
        """Add moves from `state` that read `text`; return the last state. ValueError above
        `MAX_NODES`.
        """
        for char in text:
            state = self.one(state, ((ord(char), ord(char)),))
        return state

    def loop(self, state: int, ranges: tuple[tuple[int, int], ...]) -> int:
        """Add a state, reachable from `state` without a character, that reads any number of
        characters of the ranges; return it. ValueError above `MAX_NODES`.
        """
        target = self.add()
        self.free[state].append(target)
        self.moves[target].append((ranges, target))
        return target


def of_text(text: str, *, before: bool = False, after: bool = False) -> Automaton:
    """Return an automaton for a text; `before` and `after` allow any characters before or after it.
    ValueError above `MAX_NODES` states.
    """
    automaton = Automaton()
    state = automaton.add()
    if before:
        state = automaton.loop(state, _ALL)
    state = automaton.text(state, text)
    automaton.end = automaton.loop(state, _ALL) if after else state
    return automaton


def of_glob(glob: str, delimiters: Sequence[str] | None) -> Automaton:
    """Return an automaton for a glob of plain characters, `*` and `**`. For `delimiters`, [] means
    ".", and with None `*` matches everything, as in OPA. ValueError for other globs, for delimiters
    of several characters, for `***` with delimiters, which OPA does not find in every text, and
    above `MAX_NODES` states.
    """
    if delimiters == []:
        delimiters = ["."]
    if not set(glob).isdisjoint("?[]{}\\!") or any(len(each) != 1 for each in delimiters or ()):
        raise ValueError(
            "invalid proof step: only globs of plain characters, `*` and `**`, with delimiters of "
            "one character, are supported"
        )
    if delimiters and "***" in glob:
        raise ValueError("invalid proof step: `***` with delimiters is not supported")
    automaton = Automaton()
    state = automaton.add()
    for part in re.findall(r"\*\*|\*|[^*]+", glob, re.DOTALL):
        if part == "**" or (part == "*" and delimiters is None):
            state = automaton.loop(state, _ALL)
        elif part == "*":
            state = automaton.loop(state, _except("".join(delimiters or ())))
        else:
            state = automaton.text(state, part)
    automaton.end = state
    return automaton


def of_pattern(pattern: str) -> Automaton:
    """Return an automaton for texts that contain a match of a regular expression; ValueError if its
    form is not supported, and above `MAX_NODES` states.
    """
    if _UNSAFE.search(pattern):
        raise ValueError(_UNSUPPORTED)
    try:
        with warnings.catch_warnings():
            # Python warns of classes whose meaning may change, such as `[a--b]`: they are refused.
            warnings.simplefilter("error")
            items = list(parser.parse(pattern))
    except (re.error, FutureWarning, OverflowError, RecursionError):
        raise ValueError(_UNSUPPORTED) from None
    automaton = Automaton()
    state = automaton.add()
    if items and items[0] == (codes.AT, codes.AT_BEGINNING):
        items = items[1:]
    else:
        state = automaton.loop(state, _ALL)
    ends = bool(items) and items[-1] == (codes.AT, codes.AT_END)
    state = _build(automaton, state, items[:-1] if ends else items)
    automaton.end = state if ends else automaton.loop(state, _ALL)
    return automaton


def _build(automaton: Automaton, state: int, items: Iterable[tuple[Any, Any]]) -> int:
    """Add the moves from `state` that read a match of a regular expression, as Python's parser
    returns it; return the state after it.

    Raise ValueError for a form that is not supported, such as an anchor, a look-ahead or a lazy
    repetition, and above `MAX_NODES` states.
    """
    for code, value in items:
        if code is codes.LITERAL:
            state = automaton.one(state, ((value, value),))
        elif code is codes.NOT_LITERAL:
            state = automaton.one(state, _except(chr(value)))
        elif code is codes.ANY:
            state = automaton.one(state, _except("\n"))
        elif code is codes.IN:
            state = automaton.one(state, _members(value))
        elif code is codes.BRANCH:
            ends = [_build(automaton, state, each) for each in value[1]]
            state = automaton.add()
            for end in ends:
                automaton.free[end].append(state)
        elif code is codes.SUBPATTERN:
            # The items between are flags to set and to clear; `_UNSAFE` lets none through.
            state = _build(automaton, state, value[3])
        elif code is codes.MAX_REPEAT:
            state = _repeat(automaton, state, *value)
        else:
            raise ValueError(_UNSUPPORTED)
    return state


def _repeat(automaton: Automaton, state: int, least: int, most: Any, items: Any) -> int:
    """Add the moves for `least` to `most` repetitions of `items`; return the last state. ValueError
    for a form that is not supported, and above `MAX_NODES` states.
    """
    for _ in range(least):
        state = _build(automaton, state, items)
    if most is codes.MAXREPEAT:
        start = automaton.add()
        automaton.free[state].append(start)
        automaton.free[_build(automaton, start, items)].append(start)
        return start
    exits = [state]
    for _ in range(most - least):
        # Each repetition has states of its own: a loop that ends one must not enter the next.
        state = _build(automaton, state, items)
        exits.append(state)
    end = automaton.add()
    for each in exits:
        automaton.free[each].append(end)
    return end


def _members(items: Sequence[tuple[Any, Any]]) -> tuple[tuple[int, int], ...]:
    r"""Return the ranges (first, last) of the code points that a class `[...]` or `[^...]` matches.
    `items` are its members as Python's `re` parses them: characters, ranges, and `\d`, `\s`, `\w`,
    which are ASCII as in RE2. ValueError for any other member, such as `\D`.
    """
    ranges: list[tuple[int, int]] = []
    negated = items[0] == (codes.NEGATE, None)
    for code, value in items[negated:]:
        if code is codes.LITERAL:
            ranges.append((value, value))
        elif code is codes.RANGE:
            ranges.append(value)
        elif code is codes.CATEGORY and value in _NAMED:
            ranges += [(ord(char), ord(char)) for char in _NAMED[value]]
        else:
            raise ValueError(
                "invalid proof step: a character class of the regular expression has a form that "
                "is not supported"
            )
    return _invert(ranges) if negated else tuple(ranges)


def _origin(
    table: dict[int, int], ranges: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """Return the characters that are in `ranges` after `table` has replaced them."""
    leave = [(char, char) for char in table]
    enter = [(c, c) for c, new in table.items() if any(low <= new <= high for low, high in ranges)]
    # Out of all characters: what is outside the ranges, what leaves; then what enters.
    stay = _invert([*_invert(ranges), *leave])
    return _invert(_invert([*stay, *enter]))


def of_characters(excluded: Iterable[int]) -> Automaton:
    """Return an automaton for the texts without the excluded code points; the empty text is one."""
    automaton = Automaton()
    state = automaton.add()
    automaton.end = automaton.loop(state, _invert([(each, each) for each in excluded]))
    return automaton


def _except(characters: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of all code points except those of `characters`."""
    return _invert([(ord(char), ord(char)) for char in characters])


def _invert(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of all characters that are not in `ranges`."""
    edges, at = [], 0
    for low, high in sorted(ranges):
        if at < low:
            edges.append((at, low - 1))
        at = max(at, high + 1)
    return (*edges, (at, TOP)) if at <= TOP else tuple(edges)


def union(automata: Sequence[Automaton]) -> Automaton:
    """Return an automaton that accepts the texts that at least one of these accepts; no text if
    there are none.

    Raise ValueError above `MAX_NODES` states.
    """
    automaton = Automaton()
    start, automaton.end = automaton.add(), automaton.add()
    for each in automata:
        first = len(automaton.moves)
        for moves, free in zip(each.moves, each.free, strict=True):
            state = automaton.add()
            automaton.moves[state] = [(ranges, target + first) for ranges, target in moves]
            automaton.free[state] = [target + first for target in free]
        automaton.free[start].append(first)
        automaton.free[first + each.end].append(automaton.end)
    return automaton


def have_no_text(conditions: Sequence[tuple[Automaton, bool]]) -> bool:
    """Return True if no text is accepted by every automaton paired with True and by none paired
    with False. Raise ValueError if that takes more than `MAX_SETS` sets of states.
    """
    # The automata read the text side by side, each with the set of all states it may be in. Only
    # with the whole set is it known that an automaton refuses a text.
    start = tuple(automaton.reach([0]) for automaton, _ in conditions)
    seen, waiting = {start}, [start]
    while waiting:
        sets = waiting.pop()
        if all(
            (a.end in s) is is_accepted
            for s, (a, is_accepted) in zip(sets, conditions, strict=True)
        ):
            return False
        for char in _letters(sets, conditions):
            after = tuple(
                a.follow(s, char) if s else s for s, (a, _) in zip(sets, conditions, strict=True)
            )
            # An automaton without a state accepts no text with this beginning.
            can_be = all(
                s or not is_accepted for s, (_, is_accepted) in zip(after, conditions, strict=True)
            )
            if can_be and after not in seen:
                if len(seen) >= MAX_SETS:
                    raise ValueError("too many texts")
                seen.add(after)
                waiting.append(after)
    return True


def _letters(
    sets: Sequence[frozenset[int]], conditions: Sequence[tuple[Automaton, bool]]
) -> list[int]:
    """Return one character for each class of characters that lead from these states to the same
    states.
    """
    edges = {0}
    for states, (automaton, _) in zip(sets, conditions, strict=True):
        for state in states:
            for ranges, _ in automaton.moves[state]:
                for low, high in ranges:
                    edges |= {low, high + 1}
    return [edge for edge in edges if edge <= TOP]
