"""Members of data that nobody used: grants of a policy that are held in data.

    policy + data + log ─▶ all removable members taken out ─each request puts back what it needs─▶

Which members are removable, so that without them the policy can only deny more, is known from the
rules (`doorward.rego`, `DataUse`). The log is read once: an allowed request that the narrower data
deny puts back as few members as it takes, and of those only the parts that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from doorward.learn.observations import LearnError
from doorward.rego.tools import DataMember, DataUse
from doorward.replay.compare import allows
from doorward.replay.deciding import Version
from doorward.replay.events import Event

__all__ = ["Location", "narrow_data", "value_at", "without_members"]

MAX_MEMBERS: Final = 50_000
"""Removable members that are tried."""
ROUNDS: Final = 10
"""Readings of the log, each for what the one before made needless."""
MAX_TEXTS: Final = 32
"""Texts of a member by which it is compared with a request."""

Location: TypeAlias = tuple[str | int, ...]
Removed: TypeAlias = dict[Location, DataMember]


def narrow_data(
    version: Version, data: Any, use: DataUse, log: Iterable[Event]
) -> tuple[Location, ...]:
    """The members without which all allowed events are still allowed. LearnError."""
    narrowing = _Narrowing(version, data, use)
    if narrowing.removed:
        narrowing.read(log)
        for _ in range(ROUNDS):
            narrowing.shrink()
            if not narrowing.read(log):
                break
    return tuple(narrowing.removed)


class _Narrowing:
    """The members removed from data so far."""

    def __init__(self, version: Version, data: Any, use: DataUse) -> None:
        self._version = version
        self._data = data
        self.removed: Removed = {}
        self._needers: dict[Location, Event] = {}
        """Members that were put back, with an event that needed each."""
        self._texts: dict[Location, frozenset[str]] = {}
        self._members: Removed = {}
        self._take_out(use.root(data))
        self._narrower = self._without(self.removed)

    def _take_out(self, member: DataMember) -> None:
        for each in _outermost(member):
            self.removed[each.location] = self._members[each.location] = each
            self._texts[each.location] = frozenset(_texts_of(each))
        if len(self._members) > MAX_MEMBERS:
            raise LearnError(
                f"more than {MAX_MEMBERS:,} members of data may be unused: check a part of the data"
            )

    def _without(self, locations: Iterable[Location]) -> Version:
        return self._version.with_data(without_members(self._data, locations))

    def read(self, log: Iterable[Event]) -> bool:
        """Put back what events need, and of it no more than they need; False for nothing."""
        before = len(self._needers)
        for event in log:
            if not allows(self._narrower.answer(event)) and allows(self._version.answer(event)):
                self._restore(event)
        return len(self._needers) > before

    def _restore(self, event: Event) -> None:
        while True:
            for location in self._needed(event):
                self._needers[location] = event
                self._take_out(self.removed.pop(location))
            self._narrower = self._without(self.removed)
            if allows(self._narrower.answer(event)):
                return

    def shrink(self) -> None:
        """Take out again what other members that were put back later made needless."""
        empty = {each: self._needers[each] for each in self._needers if self._is_empty(each)}
        if not self._retry(list(empty)):
            for location in empty:
                self._retry([location])
        for location in sorted(self._needers, key=lambda each: (-len(each), str(each))):
            self._retry([location])
        self._narrower = self._without(self.removed)

    def _is_empty(self, location: Location) -> bool:
        """Return True if a member was put back and all that is inside it was taken out again."""
        inner = [each.location for each in _outermost(self._members[location])]
        return bool(inner) and all(each in self.removed for each in inner)

    def _retry(self, locations: Sequence[Location]) -> bool:
        """Take out members if all events that needed something are allowed without them."""
        present = [each for each in locations if each in self._needers]
        if not present:
            return True
        removed = {
            each: member
            for each, member in self.removed.items()
            if not any(each[: len(outer)] == outer for outer in present)
        } | {each: self._members[each] for each in present}
        version = self._without(removed)
        first = [self._needers[each] for each in present]
        if all(allows(version.answer(each)) for each in (*first, *self._needers.values())):
            self.removed = removed
            for each in [n for n in self._needers if any(n[: len(o)] == o for o in present)]:
                del self._needers[each]
            return True
        return False

    def _needed(self, event: Event) -> list[Location]:
        """Return as few removed members as make the event allowed, by halving."""
        words = frozenset(_texts(event.input))
        order = sorted(self.removed, key=lambda each: -len(self._texts[each] & words))
        needed: list[Location] = []
        end = len(order)
        while not needed or not self._allows(event, set(order).difference(needed)):
            # The shortest beginning of the order that, put back with what is needed, is enough.
            most = _shortest(
                end,
                lambda number: self._allows(event, set(order[number:]).difference(needed)),
            )
            if not most:
                break
            needed.append(order[most - 1])
            end = most - 1
        return needed

    def _allows(self, event: Event, locations: Iterable[Location]) -> bool:
        return allows(self._without(locations).answer(event))


def _shortest(end: int, is_enough: Callable[[int], bool]) -> int:
    """The least number for which `is_enough` holds, as it does for `end`; small ones are cheap."""
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
    """Some texts inside a value."""
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
    """The member of data at a location that it has."""
    value = data
    for key in location:
        value = value[key]
    return value


def without_members(data: Any, locations: Iterable[Location]) -> Any:
    """A copy of data without members; what is not changed is shared."""
    tree: dict[Any, Any] = {}
    for location in locations:
        inner = tree
        for key in location[:-1]:
            inner = inner.setdefault(key, {})
        inner[location[-1]] = None
    return _pruned(data, tree)


def _pruned(value: Any, tree: dict[Any, Any] | None) -> Any:
    if not tree:
        return value
    items: Sequence[tuple[Any, Any]]
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    kept = [(k, _pruned(v, tree.get(k))) for k, v in items if tree.get(k, tree) is not None]
    return dict(kept) if isinstance(value, dict) else [inner for _, inner in kept]
