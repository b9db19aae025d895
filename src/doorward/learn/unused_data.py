"""Members of data that nobody used: grants of a policy that are held in data.

    policy + data + log ─▶ all removable members taken out ─each request puts back what it needs─▶

Which members are removable, so that without them the policy can only deny more, is known from the
rules (`doorward.rego`, `DataUse`). The log is read once: an allowed request that the narrower data
deny puts back as few members as it takes, and of those only the parts that it needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from doorward.learn.observations import LearnError
from doorward.rego.tools import DataMember, DataUse
from doorward.replay.compare import allows
from doorward.replay.deciding import Version
from doorward.replay.events import Event

__all__ = ["Location", "narrow_data", "value_at", "without_inner", "without_members"]

MAX_MEMBERS: Final = 50_000
"""At most this many removable members of data are tried."""
ROUNDS: Final = 10
"""The log is read at most this many times; each pass tries what the one before made needless."""
MAX_LIKELY: Final = 200
"""At most this many members are tried first because a request contains one of their texts."""
MAX_TEXTS: Final = 32
"""At most this many texts of a member are compared with a request."""

Location: TypeAlias = tuple[str | int, ...]
Removed: TypeAlias = dict[Location, DataMember]


def narrow_data(
    version: Version, data: Any, use: DataUse, log: Iterable[Event]
) -> tuple[Location, ...]:
    """Return the locations of members of the data that no allowed event needs, so that all can be
    removed together; after `ROUNDS` rounds others that are not needed may be missing. LearnError if
    more than `MAX_MEMBERS` have to be tried.
    """
    narrowing = _Narrowing(version, data, use)
    if narrowing.removed:
        narrowing.read(log)
        for _ in range(ROUNDS):
            narrowing.shrink()
            if not narrowing.read(log):
                break
    return tuple(narrowing.removed)


class _Narrowing:
    """Removes members of data step by step while the policies decide the log as before."""

    def __init__(self, version: Version, data: Any, use: DataUse) -> None:
        self._version = version
        self._data = data
        self.removed: Removed = {}
        self._needers: dict[Location, Event] = {}
        """Members that were put back, each with an event that needed it."""
        self._by_text: defaultdict[str, set[Location]] = defaultdict(set)
        self._members: Removed = {}
        self._removal = _Removal()
        self._remove_inside(use.root(data))
        self._narrower = self._current()

    def _current(self) -> Version:
        return self._version.with_data(self._removal.prune(self._data))

    def _remove_inside(self, member: DataMember) -> list[Location]:
        """Remove the outermost removable members inside a member, not itself; return their
        locations. LearnError if more than `MAX_MEMBERS` different ones were removed in all.
        """
        inner = list(_outermost(member))
        for each in inner:
            self.removed[each.location] = self._members[each.location] = each
            self._removal.put(each.location, None)
            for text in _texts_of(each):
                self._by_text[text].add(each.location)
        if len(self._members) > MAX_MEMBERS:
            raise LearnError(
                f"more than {MAX_MEMBERS:,} members of the data may be unused: check "
                "a part of the data"
            )
        return [each.location for each in inner]

    def read(self, log: Iterable[Event]) -> bool:
        """Restore the members that events of the log need to stay allowed, as few as possible;
        return True if there were any.
        """
        before = len(self._needers)
        for event in log:
            # In this order, since most events stay allowed and need a single decision.
            if not allows(self._narrower.answer(event)) and allows(self._version.answer(event)):
                self._restore(event)
        return len(self._needers) > before

    def _restore(self, event: Event) -> None:
        """Restore removed members until an event is allowed that the complete data allow, as few as
        are found; then remove again the parts inside them that it does not need. Each restored one
        is recorded as needed by this event.
        """
        order = self._likely(event)
        if not self._is_enough(event, order):
            likely = set(order)
            order += [each for each in self.removed if each not in likely]
        while True:
            inner: list[Location] = []
            for location in self._least_needed(event, order):
                self._needers[location] = event
                self._removal.discard(location)
                inner += self._remove_inside(self.removed.pop(location))
            self._narrower = self._current()
            if allows(self._narrower.answer(event)):
                return
            order = inner  # with all of it, the event was allowed

    def shrink(self) -> None:
        """Remove restored members of the data again if those restored later made them unnecessary:
        if all logged events that needed restored members stay allowed without them.
        """
        empty = {each: self._needers[each] for each in self._needers if self._is_empty(each)}
        if not self._retry(list(empty)):
            for location in empty:
                self._retry([location])
        for location in sorted(self._needers, key=lambda each: (-len(each), str(each))):
            self._retry([location])
        self._narrower = self._current()

    def _is_empty(self, location: Location) -> bool:
        """Return True if a member was restored and everything inside it was removed again."""
        inner = [each.location for each in _outermost(self._members[location])]
        return bool(inner) and all(each in self.removed for each in inner)

    def _retry(self, locations: Sequence[Location]) -> bool:
        """Try to remove again those of `locations` that were restored. Return True if all events
        that needed restored members stay allowed, or if none of `locations` was restored; otherwise
        restore them and return False.
        """
        present = [each for each in locations if each in self._needers]
        if not present:
            return True
        before = [self._removal.put(each, None) for each in present]
        version = self._current()
        first = [self._needers[each] for each in present]
        if all(allows(version.answer(each)) for each in (*first, *self._needers.values())):
            outer = set(present)
            for known in (self.removed, self._needers):
                for each in [n for n in known if any(n[:k] in outer for k in range(1, len(n) + 1))]:
                    del known[each]
            self.removed |= {each: self._members[each] for each in present}
            return True
        for each, inner in zip(present, before, strict=True):
            self._removal.put(each, inner or _Removal())
        return False

    def _least_needed(self, event: Event, order: Sequence[Location]) -> list[Location]:
        """Return a small selection of the removed members in `order` with which the event is
        allowed, found by bisection; earlier ones are preferred.
        """
        needed: list[Location] = []
        end = len(order)
        while not needed or not self._is_enough(event, needed):
            # The shortest beginning of the order that, put back with what is needed, is enough.
            most = _shortest(end, lambda number: self._is_enough(event, [*needed, *order[:number]]))
            if not most:
                break
            needed.append(order[most - 1])
            end = most - 1
        return needed

    def _likely(self, event: Event) -> list[Location]:
        """Return at most `MAX_LIKELY` removed members that an event probably needs, best first:
        those that share most texts with its input. Texts of more than `MAX_LIKELY` members do not
        count.
        """
        scores: Counter[Location] = Counter()
        for text in frozenset(_texts(event.input)):
            locations = self._by_text.get(text, ())
            if len(locations) <= MAX_LIKELY:
                scores.update([each for each in locations if each in self.removed])
        return sorted(scores, key=lambda each: (-scores[each], str(each)))[:MAX_LIKELY]

    def _is_enough(self, event: Event, restored: Iterable[Location]) -> bool:
        """Return True if the event is allowed with these members put back, beside those that are
        not removed. They are only put back to try; locations that are not removed are ignored.
        """
        locations = [each for each in restored if each in self.removed]
        for each in locations:
            self._removal.discard(each)
        version = self._version.with_data(self._removal.prune(self._data))
        for each in locations:
            self._removal.put(each, None)
        return allows(version.answer(event))


def _shortest(end: int, is_enough: Callable[[int], bool]) -> int:
    """Return the least number from 1 on for which `is_enough` holds, or `end`, which is not tried,
    if no smaller one does; small ones are tried first. `is_enough` must hold for all numbers above
    the first for which it does.
    """
    low, high = 0, 1
    while high < end and not is_enough(high):
        low, high = high, high * 2
    high = min(high, end)
    while low + 1 < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def _outermost(member: DataMember) -> Iterator[DataMember]:
    """Yield the outermost removable members inside a member."""
    waiting = member.children()
    while waiting:
        each = waiting.pop()
        if each.is_removable:
            yield each
        else:
            waiting += each.children()


def _texts_of(member: DataMember) -> Iterator[str]:
    yield str(member.location[-1])
    yield from _texts(member.value)


def _texts(value: Any) -> Iterator[str]:
    """Yield the keys and the scalars in a value as Python texts (`True`, `None`), at most
    `MAX_TEXTS` of its scalars, and of each collection only the first `MAX_TEXTS` items.
    """
    waiting, number = [value], 0
    while waiting and number < MAX_TEXTS:
        each = waiting.pop()
        if isinstance(each, dict):
            for key, inner in list(each.items())[:MAX_TEXTS]:
                yield str(key)
                waiting.append(inner)
        elif isinstance(each, list):
            waiting += each[:MAX_TEXTS]
        else:
            number += 1
            yield str(each)


def value_at(data: Any, location: Location) -> Any:
    """Return the member of data at an existing location."""
    value = data
    for key in location:
        value = value[key]
    return value


def without_members(data: Any, locations: Iterable[Location]) -> Any:
    """Return a copy of data without members, which must exist; unchanged parts are shared. The
    indexes of arrays are those of `data`.
    """
    removed = _Removal()
    for location in without_inner(locations):
        removed.put(location, None)
    return removed.prune(data)


def without_inner(locations: Iterable[Location]) -> list[Location]:
    """Return the locations that are not inside another one of them, in their order."""
    ordered = list(dict.fromkeys(locations))
    known = set(ordered)
    return [
        each for each in ordered if not any(each[:size] in known for size in range(1, len(each)))
    ]


class _Removal:
    """What is removed from one collection of the data, with a copy of the collection without it.
    `inner` has by key None for a removed member, or what is removed inside a member.

    A change copies only the collections on the path to it. The order of keys does not matter:
    policies read objects by their sorted keys.
    """

    __slots__ = ("_changed", "_copy", "inner")

    def __init__(self) -> None:
        self.inner: dict[str | int, _Removal | None] = {}
        self._changed: set[str | int] = set()
        self._copy: Any = None

    def put(self, location: Location, inner: _Removal | None) -> _Removal | None:
        """Set what is removed at a location, which must not be inside a removed member: with
        `inner` None the member itself, otherwise the parts inside it. Return what was set there
        before.
        """
        node = self._node_of(location)
        before = node.inner.get(location[-1])
        node.inner[location[-1]] = inner
        return before

    def discard(self, location: Location) -> None:
        """Put a member back."""
        del self._node_of(location).inner[location[-1]]

    def _node_of(self, location: Location) -> _Removal:
        """Return the removals of the collection that has a location as its member, making those
        that are missing; marks the collections on the way as changed.
        """
        node = self
        for key in location[:-1]:
            node._changed.add(key)
            inner = node.inner.get(key)
            if inner is None:
                inner = node.inner[key] = _Removal()
            node = inner
        node._changed.add(location[-1])
        return node

    def prune(self, value: Any) -> Any:
        """Return `value`, the original collection, without the removed members: a copy that shares
        what is unchanged, not to be changed by callers. It is cached and later only updated, so
        each call must pass the same collection.
        """
        if self._copy is None or self._changed:
            if isinstance(value, dict):
                is_first = self._copy is None
                left = dict(value if is_first else self._copy)
                for key in self.inner if is_first else self._changed:
                    if key in self.inner and self.inner[key] is None:
                        left.pop(key, None)
                    else:
                        left[key] = self._member(value, key)
                self._copy = left
            else:
                self._copy = [
                    self._member(value, n)
                    for n in range(len(value))
                    if n not in self.inner or self.inner[n] is not None
                ]
            self._changed.clear()
        return self._copy

    def _member(self, value: Any, key: Any) -> Any:
        inner = self.inner.get(key)
        return value[key] if inner is None or not inner.inner else inner.prune(value[key])
