"""The last decisions, in memory: bounded in number and bytes, and never written to disk.

`observe` runs in each request: it only appends and counts. Readers do the expensive work.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from doorward.pdp.decision import Answered, Decision
from doorward.rego import UNDEFINED, Policies, Undefined

__all__ = ["Entry", "Ring", "Second", "Version", "is_refusal"]

DECISIONS: Final = 5_000
"""The most decisions that are kept."""
BYTES: Final = 64 << 20
"""About the most bytes of the inputs that are kept; an input of unknown size counts as `UNKNOWN`.
"""
UNKNOWN: Final = 4 << 10
LARGE: Final = 1 << 20
"""An input of more bytes than this is not kept; its decision is."""
SECONDS: Final = 300
"""The number of seconds whose counts are kept."""

VERSIONS: Final = 16
"""The most versions of policies that are kept, the one in force included."""
TEXTS: Final = 4 << 20
"""The most characters of a version's texts; longer ones are not kept."""
MINUTES: Final = 1_440
"""The most counts by minute and revision that are kept."""


class Entry:
    """A decision that is kept in memory, with the input and the policies, so that it can be
    evaluated again. `has_input` is False if the input was too large to keep; `size` is the number
    of bytes by which it counts for the limit of the ring.
    """

    __slots__ = (
        "decision",
        "handler_ns",
        "has_input",
        "input",
        "number",
        "row",
        "size",
        "snapshot",
        "time_ns",
    )

    def __init__(self, number: int, answered: Answered, size: int, *, has_input: bool) -> None:
        self.number = number
        self.decision = answered.decision
        self.input = answered.input if has_input else UNDEFINED
        self.snapshot = answered.snapshot
        self.time_ns = answered.time_ns
        self.handler_ns = answered.handler_ns
        self.size = size
        self.has_input = has_input
        self.row: dict[str, Any] | None = None
        """The row of the list, as `rows.row_of` makes it at first use; None before."""


class Version(NamedTuple):
    """Policies that decided: their revision, the time of their first decision in milliseconds since
    the epoch, and their texts; {} if these are too long.
    """

    revision: str
    since_ms: int
    files: Mapping[str, str]


class Second:
    """The counts of the decisions of one second; times are of evaluations, in nanoseconds."""

    __slots__ = ("count", "errors", "longest_ns", "refused", "second", "total_ns")

    def __init__(self, second: int) -> None:
        self.second = second
        self.count = 0
        self.refused = 0
        self.errors = 0
        self.total_ns = 0
        self.longest_ns = 0


class Ring:
    """The last decisions, numbered in the order in which they came; thread-safe."""

    def __init__(self, decisions: int = DECISIONS, limit: int = BYTES, *, start: int = 0) -> None:
        """Keep at most `decisions`, whose inputs and results take at most `limit` bytes. `start`:
        the number before the first. In a process that is started again it must be larger
        than any number of the one before, since pages continue from the number that they have.
        """
        self._entries: deque[Entry] = deque()
        self._by_id: dict[str, Entry] = {}
        self._decisions = decisions
        self._limit = limit
        self._bytes = 0
        self._number = self._start = start
        self._seconds: deque[Second] = deque(maxlen=SECONDS)
        self._revisions: dict[tuple[int, str], list[int]] = {}
        self._versions: deque[Version] = deque(maxlen=VERSIONS)
        self._policies: Policies | None = None
        self._lock = threading.Lock()

    def observe(self, answered: Answered) -> None:
        """Number and keep one decision, without its input if that is larger than `LARGE`, and count
        it; the oldest ones are dropped above the limits.
        """
        decision, size = answered.decision, answered.size
        is_large = size > LARGE
        taken = 0 if is_large else size or UNKNOWN
        with self._lock:
            self._number += 1
            if answered.snapshot.engine.policies is not self._policies:
                self._begin(answered)
            entry = Entry(self._number, answered, taken, has_input=not is_large)
            self._entries.append(entry)
            self._by_id[decision.decision_id] = entry
            self._bytes += taken
            while len(self._entries) > self._decisions or self._bytes > self._limit:
                oldest = self._entries.popleft()
                self._bytes -= oldest.size
                self._by_id.pop(oldest.decision.decision_id, None)
            self._count(decision, answered.time_ns // 1_000_000_000)

    def _begin(self, answered: Answered) -> None:
        """Record a new version: other policies decide from this decision on. Their texts are left
        out if they are longer than `TEXTS`; the last `VERSIONS` are kept.
        """
        snapshot = answered.snapshot
        self._policies = snapshot.engine.policies
        files = {name: each.span.source.text for name, each in self._policies.modules.items()}
        # The texts of `VERSIONS` such versions would be a noticeable part of the process's memory.
        if sum(map(len, files.values())) > TEXTS:
            files = {}
        since_ms = answered.time_ns // 1_000_000
        self._versions.append(Version(snapshot.revision, since_ms, files))

    def versions(self) -> list[Version]:
        """Return the versions of policies that decided, the newest first."""
        with self._lock:
            return list(reversed(self._versions))

    def _count(self, decision: Decision, second: int) -> None:
        """Add a decision to the counts of its second and of its revision."""
        # After the clock was set back, decisions count for the newest second until it is reached
        # again.
        if not self._seconds or self._seconds[-1].second < second:
            self._seconds.append(Second(second))
        self._count_revision(decision, second // 60)
        counts = self._seconds[-1]
        counts.count += 1
        counts.errors += decision.error is not None
        counts.refused += is_refusal(decision)
        counts.total_ns += decision.eval_ns
        counts.longest_ns = max(counts.longest_ns, decision.eval_ns)

    def _count_revision(self, decision: Decision, minute: int) -> None:
        """Add a decision to its revision's counts for the minute; above `MINUTES` entries the
        oldest is dropped.
        """
        key = minute, decision.revision
        counts = self._revisions.get(key)
        if counts is None:
            counts = self._revisions[key] = [0, 0, 0, 0]
            if len(self._revisions) > MINUTES:
                del self._revisions[next(iter(self._revisions))]
        counts[0] += 1
        counts[1] += is_refusal(decision)
        counts[2] += decision.error is not None
        counts[3] += decision.eval_ns

    def revisions(self) -> list[tuple[int, str, list[int]]]:
        """Return, for each minute (since the epoch) and revision, the oldest first: the number of
        decisions, refusals and errors, and the sum of evaluation times in nanoseconds.
        """
        with self._lock:
            return [
                (minute, revision, [*counts])
                for (minute, revision), counts in self._revisions.items()
            ]

    @property
    def kept(self) -> int:
        """The number of decisions that are kept."""
        return len(self._entries)

    @property
    def last(self) -> int:
        """The number of the newest decision."""
        return self._number

    def after(self, number: int, most: int) -> tuple[list[Entry], int, int]:
        """Return the newest `most` decisions whose number is greater than `number`, the oldest
        first; how many such decisions are left out; and the number of the newest. If this process
        cannot have given out `number`, as after a restart, all decisions are new.
        """
        with self._lock:
            last = self._number
            if not self._start <= number <= last:
                number = self._start
            left = min(last - number, len(self._entries))
            entries = list(self._newest(min(left, most)))
        return entries[::-1], last - number - len(entries), last

    def _newest(self, count: int) -> Iterator[Entry]:
        """Yield at most `count` kept decisions, the newest first; called with `_lock` held."""
        for entry in reversed(self._entries):
            if count <= 0:
                return
            count -= 1
            yield entry

    def has_path(self, path: str) -> bool:
        """Return True if a kept decision is about a path, not a query."""
        with self._lock:
            return any(
                each.decision.path == path and each.decision.query is None for each in self._entries
            )

    def newest(self) -> list[Entry]:
        """Return the kept decisions, the newest first."""
        with self._lock:
            return list(reversed(self._entries))

    def get(self, decision_id: str) -> Entry | None:
        """Return the decision with this id; None if it is no longer kept."""
        with self._lock:
            return self._by_id.get(decision_id)

    def seconds(self) -> list[Second]:
        """Return the counts by second, the oldest first; seconds without decisions are missing, and
        the last one may still grow.
        """
        with self._lock:
            return list(self._seconds)


def is_refusal(decision: Decision) -> bool:
    """Return True for a result that lets nothing through: false, undefined, or an object that has
    `allowed`, `allow` or `decision`, none of them true. False for an error.
    """
    result = decision.result
    if isinstance(result, dict):
        names = [name for name in ("allowed", "allow", "decision") if name in result]
        return bool(names) and not any(result[name] is True for name in names)
    return result is False or (isinstance(result, Undefined) and decision.error is None)
