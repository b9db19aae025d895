"""The last decisions, in memory: bounded in number and in bytes, and never written anywhere.

`observe` is on the path of a request: it appends, and counts. All that costs is done by readers.
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
"""Decisions that are kept."""
BYTES: Final = 64 << 20
"""What their inputs may take together, about; the size of one that nobody knows is `UNKNOWN`."""
UNKNOWN: Final = 4 << 10
LARGE: Final = 1 << 20
"""Bytes from which the input of one decision is not kept."""
SECONDS: Final = 300
"""Seconds of counts that are kept."""

VERSIONS: Final = 16
"""Versions of policies whose texts are kept, those in force among them."""
TEXTS: Final = 4 << 20
"""Characters of the texts of one version that is kept."""
MINUTES: Final = 1_440
"""Minutes of counts by revision that are kept, of all revisions together."""


class Entry:
    """One answered decision, with all that is needed to make it again."""

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
        """What lists show of it, once somebody asked (`rows`)."""


class Version(NamedTuple):
    """Policies that decided: their revision, the time of their first decision, and their texts."""

    revision: str
    since_ms: int
    files: Mapping[str, str]


class Second:
    """The decisions of one second."""

    __slots__ = ("count", "errors", "longest_ns", "refused", "second", "total_ns")

    def __init__(self, second: int) -> None:
        self.second = second
        self.count = 0
        self.refused = 0
        self.errors = 0
        self.total_ns = 0
        self.longest_ns = 0


class Ring:
    """Decisions by the number in which they came; safe in any number of threads."""

    def __init__(self, decisions: int = DECISIONS, limit: int = BYTES, *, start: int = 0) -> None:
        """`start`: the number before the first. Of a process that is started again it must be
        larger than what the one before came to: a page goes on from there."""
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
        """Keep one decision; the oldest ones go."""
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
        """Note that other policies decide from now on."""
        snapshot = answered.snapshot
        self._policies = snapshot.engine.policies
        files = {name: each.span.source.text for name, each in self._policies.modules.items()}
        if sum(map(len, files.values())) > TEXTS:
            files = {}
        since_ms = answered.time_ns // 1_000_000
        self._versions.append(Version(snapshot.revision, since_ms, files))

    def versions(self) -> list[Version]:
        """The versions of policies that decided, the newest first."""
        with self._lock:
            return list(reversed(self._versions))

    def _count(self, decision: Decision, second: int) -> None:
        """Add a decision to the counts of its second and of its revision."""
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
        """Add a decision to its revision's counts for the minute; the oldest entry is dropped."""
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
        """Decisions of each revision by the minute, the oldest first: decisions, refused, errors
        and nanoseconds of evaluation in all."""
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
        """The newest `most` decisions after `number`, how many of those are left out, and the
        number of the newest. A number that cannot be of this process is before its first."""
        with self._lock:
            last = self._number
            if not self._start <= number <= last:
                number = self._start
            left = min(last - number, len(self._entries))
            entries = list(self._newest(min(left, most)))
        return entries[::-1], last - number - len(entries), last

    def _newest(self, count: int) -> Iterator[Entry]:
        """Yield at most `count` decisions, the newest first."""
        for entry in reversed(self._entries):
            if count <= 0:
                return
            count -= 1
            yield entry

    def has_path(self, path: str) -> bool:
        """Return True if a decision that is kept is about a path."""
        with self._lock:
            return any(
                each.decision.path == path and each.decision.query is None for each in self._entries
            )

    def newest(self) -> list[Entry]:
        """The decisions that are kept, the newest first."""
        with self._lock:
            return list(reversed(self._entries))

    def get(self, decision_id: str) -> Entry | None:
        """The decision with this id; None if it is no longer kept."""
        with self._lock:
            return self._by_id.get(decision_id)

    def seconds(self) -> list[Second]:
        """Counts by second, the oldest first; the last one may still grow."""
        with self._lock:
            return list(self._seconds)


def is_refusal(decision: Decision) -> bool:
    """Return True for an answer that lets nothing through: neither true nor an object that
    allows."""
    result = decision.result
    if isinstance(result, dict):
        names = [name for name in ("allowed", "allow", "decision") if name in result]
        return bool(names) and not any(result[name] is True for name in names)
    return result is False or (isinstance(result, Undefined) and decision.error is None)
