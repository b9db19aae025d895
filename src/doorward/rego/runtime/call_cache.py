"""Answers of functions in one evaluation: equal operands are not evaluated twice, as in OPA.

Without it `f_i(x) := f_{i-1}(x) + f_{i-1}(x)` takes 2^n calls. But looking an answer up costs more
than most functions do, and most are called with other operands each time. So the cache adapts:

- it is off until an evaluation has made some steps (`Evaluation._check_deadline` switches it on);
- a function whose calls find no answers is evaluated without it for a while, then twice as long;
- where no function's calls find any, it is off again, eight times as long as it took to see that.

Operands are the same if they are equal as values (`1` and `1.0` are). Scalars are looked up by
their key; collections by a sketch, which shows a few of their parts, and then compared.

The answers of a function that prints are always cached, since one sees how often it is evaluated;
what is undefined is evaluated again, as in OPA. For other functions it is cached too.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Any, Final

from doorward.rego.runtime.operations import MISSING
from doorward.rego.values import UNDEFINED, equal, to_key

__all__ = ["CachedCall", "CallCache"]

MAX_CALLS: Final = 100_000
"""The most calls whose answers one evaluation caches; further calls are evaluated each time."""

MAX_ALIKE: Final = 8
"""The most cached calls of one function whose operands have the same sketch."""

TRIAL: Final = 16
"""After this many calls without an answer in the cache, the use of the cache for the function is
judged.
"""

WORTH: Final = 8
"""A function stays cached if there is at least one hit for this many misses."""

FIRST_PAUSE: Final = 1_024
"""The number of calls of a function that skip the cache after it was of no use for the first
time.
"""

SKETCHED: Final = 4
"""The most parts of a collection that are in its sketch."""


class CachedCall:
    """One call of a function, with its answer once it is known."""

    __slots__ = ("answer", "keeps_undefined", "operands")

    def __init__(self, operands: tuple[Any, ...], *, keeps_undefined: bool) -> None:
        self.operands = operands
        self.answer: Any = MISSING
        self.keeps_undefined = keeps_undefined

    def keep(self, answer: Any) -> Any:
        """Store `answer` for this and every equal call, and return it. UNDEFINED is only stored
        with `keeps_undefined`.
        """
        if answer is not UNDEFINED or self.keeps_undefined:
            self.answer = answer
        return answer


class _Function:
    """The cached calls of one function, by the sketch of their operands, and how often answers were
    found in them.
    """

    __slots__ = ("calls", "hits", "misses", "next_pause", "paused")

    def __init__(self) -> None:
        self.calls: dict[Hashable, list[CachedCall]] = {}
        self.hits = 0
        self.misses = 0
        self.paused = 0
        """The number of further calls that do not use the cache."""
        self.next_pause = FIRST_PAUSE


class CallCache:
    """The cached calls of one evaluation by function; a `with` has its own cache."""

    __slots__ = ("_functions", "_left", "is_useful")

    def __init__(self) -> None:
        self._functions: dict[int, _Function] = {}
        self._left = MAX_CALLS
        self.is_useful = True
        """False once the cache of a function was paused while no call of any function had found an
        answer.
        """

    def find(
        self, slot: int, operands: tuple[Any, ...], *, always: bool, keeps_undefined: bool
    ) -> CachedCall | None:
        """Return the cached call of the function at `slot` with equal operands, or a new one to be
        filled by `CachedCall.keep`; its answer is MISSING until then. None: evaluate the function
        and store nothing, since caching is paused for it, the cache is full, or `MAX_ALIKE` similar
        calls are cached.

        `always`: cache even if few answers are found again, or many calls are similar.
        `keeps_undefined`: UNDEFINED is stored as an answer too.
        """
        function = self._functions.get(slot)
        if function is None:
            function = self._functions[slot] = _Function()
        elif function.paused:
            function.paused -= 1
            return None
        sketch = _sketch_all(operands)
        alike = function.calls.get(sketch)
        if alike is not None:
            for known in alike:
                if all(map(equal, known.operands, operands)):
                    # MISSING: it is being evaluated further out, or was undefined and not stored.
                    function.hits += known.answer is not MISSING
                    return known
        function.misses += 1
        if not always and function.misses >= TRIAL and self._pause(function):
            return None
        # Many alike calls would be compared one by one, so their number is bounded.
        if self._left <= 0 or (alike is not None and len(alike) >= MAX_ALIKE and not always):
            return None
        self._left -= 1
        call = CachedCall(operands, keeps_undefined=keeps_undefined)
        if alike is None:
            function.calls[sketch] = [call]
        else:
            alike.append(call)
        return call

    def _pause(self, function: _Function) -> bool:
        """Return True if too few calls of a function found their answer. Then its cached calls are
        dropped, its next calls skip the cache, twice as many each time, and `is_useful` is False if
        no function has found answers. In both cases its counts start again.
        """
        is_worth_it = function.hits * WORTH >= function.misses
        if is_worth_it:
            function.hits = function.misses = 0
            function.next_pause = FIRST_PAUSE
            return False
        # Before the counts of this function are reset: its own hits are use, too.
        self.is_useful = any(each.hits for each in self._functions.values())
        # The dropped calls make room again.
        self._left += sum(map(len, function.calls.values()))
        function.calls.clear()
        function.paused = function.next_pause
        function.next_pause *= 2
        function.hits = function.misses = 0
        return True


def _sketch_all(operands: tuple[Any, ...]) -> Hashable:
    """Return a cheap key for the operands of a call, which other operands may share: equal operands
    have equal keys.
    """
    if len(operands) == 1:
        return _sketch(operands[0])
    return tuple([_sketch(operand) for operand in operands])


def _sketch(value: Any) -> Hashable:
    """Return a key that is mostly equal for equal values and different for others, at bounded cost.
    Equal objects with more than `SKETCHED` keys have different keys if these come in another order.
    """
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is list:
        return len(value), *[_sketch_part(part) for part in value[:SKETCHED]]
    if kind is dict:
        parts = [(key, _sketch_part(part)) for key, part in islice(value.items(), SKETCHED)]
        # Equal objects may hold their keys in another order: then they are not found.
        return len(value), frozenset(parts)
    if kind is frozenset:
        # A frozenset remembers its hash, so that a sketch costs the members' hashes only once.
        return len(value), value
    return to_key(value)


def _sketch_part(value: Any) -> Hashable:
    """Return a cheap key for an item of a collection: for an inner collection only its kind and
    size.
    """
    kind = type(value)
    if kind is list or kind is dict or kind is frozenset:
        return kind, len(value)
    return value if kind is str else to_key(value)
