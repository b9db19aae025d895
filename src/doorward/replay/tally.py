"""Outcomes of many events, counted in bounded memory: by kind, by group, over time, with examples.

Tallies of consecutive parts of a log are merged into the tally of the complete log. A dimension
(rule, cause, path, user, or a value of the input) has at most `GROUPS` values; events with other
values are counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final

from doorward.base.records import mutable
from doorward.replay.compare import UNCHANGED

__all__ = ["OTHERS", "Example", "Tally", "Timeline"]

GROUPS: Final = 1_000
"""At most this many values are counted in one dimension; others are counted as `OTHERS`."""
EXAMPLES: Final = 3
"""At most this many examples are kept of one kind and cause: the first ones of the log."""
CAUSES: Final = 200
"""At most this many kinds and causes have examples."""
BUCKETS: Final = 240
"""The maximum number of intervals of a timeline; if there would be more, each becomes twice as
long.
"""
OTHERS: Final = "(others)"
"""The group that counts the events of all values beyond `GROUPS`."""


@mutable
class Example:
    """One event whose decision has changed. `target`: its path or query; `before`, `now` and
    `input`: JSON text, None if undefined, `{"characters": …}` for a text that is too long; the
    answers also `{"error": …}`.
    """

    decision_id: str
    time_ns: int | None
    target: str
    before: Any
    now: Any
    input: Any


@mutable
class Timeline:
    """The number of events and of changes over time. `counts`: [events, changes] by the number of
    the interval since the epoch; `width`: the length of an interval in seconds.
    """

    width: int = 1
    counts: dict[int, list[int]] = field(default_factory=dict)

    def add(self, time_ns: int, *, changed: bool) -> None:
        """Count one event, and with `changed` one change, in the interval of `time_ns` (nanoseconds
        since the epoch). May double the width.
        """
        self._add_counts(time_ns // 1_000_000_000 // self.width, 1, int(changed))
        self._limit_buckets()

    def merge(self, other: Timeline) -> None:
        """Add the counts of another timeline, at the greater of both widths. May double the
        width.
        """
        self._coarsen(other.width)
        for number, (events, changes) in other.counts.items():
            self._add_counts(number * other.width // self.width, events, changes)
        self._limit_buckets()

    def _add_counts(self, number: int, events: int, changes: int) -> None:
        """Add events and changes to the interval with this number, which is counted in widths since
        the epoch; a new one is created.
        """
        bucket = self.counts.setdefault(number, [0, 0])
        bucket[0] += events
        bucket[1] += changes

    def _limit_buckets(self) -> None:
        """Double the width until the intervals span at most `BUCKETS`."""
        # INVARIANT: widths are powers of two, so that an interval lies within one interval of any
        # greater width; `_coarsen` relies on it.
        while len(self.counts) > 1 and max(self.counts) - min(self.counts) >= BUCKETS:
            self._coarsen(self.width * 2)

    def _coarsen(self, width: int) -> None:
        """Merge the intervals to a width in seconds; nothing if it is not greater than the present
        one.
        """
        if width <= self.width:
            return
        counts, before, self.width = self.counts, self.width, width
        self.counts = {}
        for number, (events, changes) in counts.items():
            self._add_counts(number * before // width, events, changes)


@mutable
class Tally:
    """The counts of a replay, for a part of a log or for all of it."""

    kinds: Counter[str] = field(default_factory=Counter)
    groups: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    """By dimension and value, the number of events of each kind, without those unchanged."""
    missing: Counter[str] = field(default_factory=Counter)
    """The number of events that cannot be replayed, by reason."""
    examples: dict[tuple[str, str, str], list[Example]] = field(default_factory=dict)
    """Examples of changed events, by kind, rule and cause."""
    times: Timeline = field(default_factory=Timeline)
    no_events: int = 0
    """The number of lines that are not events."""
    of_other_paths: int = 0
    """The number of events that were not decided, because of other documents than asked for."""
    taken: int = 0
    """The bytes of the log that were read, as it is stored."""
    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def events(self) -> int:
        """The number of all events, those that cannot be replayed included."""
        return sum(self.kinds.values())

    @property
    def changes(self) -> int:
        """The number of events that are decided differently now."""
        return self.events - self.kinds[UNCHANGED] - self.kinds["not-replayable"]

    def count(self, kind: str, time_ns: int | None) -> None:
        """Count one event of a kind, and its time (nanoseconds since the epoch) unless that is
        None: in the timeline, and as the first or last. Groups, reasons and examples are added by
        other methods.
        """
        self.kinds[kind] += 1
        if time_ns is None:
            return
        if self.first_ns is None or time_ns < self.first_ns:
            self.first_ns = time_ns
        if self.last_ns is None or time_ns > self.last_ns:
            self.last_ns = time_ns
        self.times.add(time_ns, changed=kind not in (UNCHANGED, "not-replayable"))

    def count_missing(self, reason: str) -> None:
        """Count one event that cannot be replayed, under the reason for this. New reasons are
        counted as `OTHERS` once there are `GROUPS` reasons.
        """
        self.missing[reason if reason in self.missing or self._has_room() else OTHERS] += 1

    def _has_room(self) -> bool:
        return len(self.missing) < GROUPS

    def group(self, dimension: str, value: str, kind: str, number: int = 1) -> None:
        """Count `number` events of `kind` under a value of a dimension, such as a user. New values
        are counted as `OTHERS` once the dimension has `GROUPS` values.
        """
        values = self.groups.setdefault(dimension, {})
        if value not in values and len(values) >= GROUPS:
            value = OTHERS
        values.setdefault(value, Counter())[kind] += number

    def add_examples(self, key: tuple[str, str, str], examples: Iterable[Example]) -> None:
        """Add examples of a change under its key (kind, rule, cause), at most `EXAMPLES` for a key.
        A new key is ignored once there are `CAUSES` keys.
        """
        known_examples = self.examples.get(key)
        if known_examples is None:
            if len(self.examples) >= CAUSES:
                return
            known_examples = self.examples[key] = []
        known_examples += list(examples)[: EXAMPLES - len(known_examples)]

    def wants_example(self, key: tuple[str, str, str]) -> bool:
        """Return True if `add_examples` would take another example under the key (kind, rule,
        cause).
        """
        examples = self.examples.get(key)
        return len(self.examples) < CAUSES if examples is None else len(examples) < EXAMPLES

    def merge(self, other: Tally) -> None:
        """Add the counts and examples of the next part of the log. Of more than `GROUPS` values or
        `EXAMPLES` examples those of this part stay, so that the order of merging matters. `other`
        is not changed.
        """
        self.kinds.update(other.kinds)
        for dimension, values in other.groups.items():
            for value, kinds in values.items():
                for kind, number in kinds.items():
                    self.group(dimension, value, kind, number)
        for reason, number in other.missing.items():
            self.missing[reason if reason in self.missing or self._has_room() else OTHERS] += number
        for key, examples in other.examples.items():
            self.add_examples(key, examples)
        self.times.merge(other.times)
        self.no_events += other.no_events
        self.of_other_paths += other.of_other_paths
        self.taken += other.taken
        times = (self.first_ns, other.first_ns), (self.last_ns, other.last_ns)
        first, last = ([each for each in pair if each is not None] for pair in times)
        self.first_ns, self.last_ns = min(first, default=None), max(last, default=None)
