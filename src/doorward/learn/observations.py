"""Accesses are counted in bounded memory, whatever their order.

A cell is a subject and a shape (host, method, tokens): how often, on which days, when first and
last, with the id of one decision. Counts of parts of a log merge into the counts of the whole, in
any order. A subject that asks for more than `MAX_SHAPES` shapes is searching: nothing is
learned from it. More than `MAX_CELLS` cells end the run, since leaving some out would make the
result depend on their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Final, TypeAlias
from zlib import crc32

from doorward.base.records import mutable
from doorward.learn.access import ALLOWED, DENIED, ENVOY, Access, Attribute, Location, Subject
from doorward.learn.segments import Numbered, Shape, owners_in, tokens_of

__all__ = ["Cell", "LearnError", "Observations", "Parameter"]

MAX_CELLS: Final = 400_000
MAX_SHAPES: Final = 5_000
"""At most this many different shapes of requests are kept for one subject."""
MAX_SUBJECTS: Final = 200_000
MAX_REASONS: Final = 100
SAMPLE: Final = 3
"""At most this many values of a typed segment are kept for each cell; a smaller number is an exact
count.
"""
_DAY: Final = 86_400
_TYPED: Final = frozenset({int, Numbered})
# The days of a longer log share bits: it may count fewer days than there were, never more.
_DAYS: Final = 64

Parameter: TypeAlias = tuple[str, str]
"""A parameter: `query` or `body`, and its name."""


@lru_cache(maxsize=4_096)
def _seed_of(subject: Subject) -> int:
    # Not `hash`, which differs between processes: samples must not depend on who read a line.
    return crc32(subject.name.encode("utf-8", "surrogatepass"))


class LearnError(Exception):
    """Nothing can be learned from the log; the message says what to do."""


@mutable
class Cell:
    """The requests of one subject in one shape. `days`: the days with a request, as bits by the
    number of the day modulo 64.
    """

    count: int = 0
    days: int = 0
    first: int = 0
    last: int = 0
    example: str = ""
    values: dict[int, tuple[str, ...]] | None = None
    """By position of a typed segment, a sample of its values: the first in an order that depends on
    the subject, so that several subjects' samples are not the same values.
    """
    seed: int = 0
    parameters: dict[Parameter, Counter[Attribute | None]] | None = None
    """By parameter, how often it was present (key None), and how often its value was that of an
    attribute.
    """

    def add(self, seconds: int, example: str) -> None:
        """Count an access at a time in seconds since the epoch, 0 if it is not known; the lowest
        decision id other than "" is kept as the example, whatever the order.
        """
        self.count += 1
        if seconds:
            self.days |= 1 << (seconds // _DAY % _DAYS)
            if seconds < self.first or not self.first:
                self.first = seconds
            if seconds > self.last:
                self.last = seconds
        if example and (not self.example or example < self.example):
            self.example = example

    def add_values(self, shape: Shape, segments: Sequence[str]) -> None:
        """Add the values of the segments that have a type, such as numbers, to the sample of each
        position; a full sample keeps the values of the lowest rank (`_keep_lowest`).
        """
        known = self.values
        if known is None:
            known = self.values = {}
        for position, token in enumerate(shape[2]):
            if token.__class__ in _TYPED:
                self._keep_lowest(known, position, segments[position])

    def _keep_lowest(self, known: dict[int, tuple[str, ...]], position: int, value: str) -> None:
        """Add a value to the sample at a position, which has the `SAMPLE` values of the lowest
        rank. The rank is a hash, so that the sample is fair and the same in any order.
        """
        before = known.get(position, ())
        if value in before:
            return
        if len(before) < SAMPLE or self._rank(value) < self._rank(before[-1]):
            known[position] = tuple(sorted([*before, value], key=self._rank)[:SAMPLE])

    def _rank(self, value: str) -> tuple[int, str]:
        return crc32(value.encode("utf-8", "surrogatepass"), self.seed), value

    def add_parameters(
        self, parameters: Mapping[Parameter, str], owners: Mapping[str, tuple[Attribute, ...]]
    ) -> None:
        """Count each parameter, and how often its value was that of an attribute of the subject.
        `owners` has the attributes by value.
        """
        if self.parameters is None:
            self.parameters = {}
        for parameter, value in parameters.items():
            counts = self.parameters.setdefault(parameter, Counter())
            counts[None] += 1
            counts.update(owners.get(value, ()))

    def merge(self, other: Cell) -> None:
        """Add the requests of another cell, which is not changed. The result is the same in any
        order of merging, except that samples are those of the lowest rank by this cell's seed.
        """
        self.count += other.count
        self.days |= other.days
        self.first = min([each for each in (self.first, other.first) if each], default=0)
        self.last = max(self.last, other.last)
        self.example = min([each for each in (self.example, other.example) if each], default="")
        if other.values is not None:
            self.values = {} if self.values is None else self.values
            for position, values in other.values.items():
                for value in values:
                    self._keep_lowest(self.values, position, value)
        if other.parameters is not None:
            self.parameters = {} if self.parameters is None else self.parameters
            for parameter, counts in other.parameters.items():
                self.parameters.setdefault(parameter, Counter()).update(counts)


Cells: TypeAlias = dict[Shape, dict[Subject, Cell]]


@mutable
class Observations:
    """The observations of a log: allowed and denied cells, and counts of the events that were left
    out.
    """

    allowed: Cells = field(default_factory=dict)
    denied: Cells = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of events and lines that nothing is learned from, by reason."""
    activity: Counter[Subject] = field(default_factory=Counter)
    """The number of allowed events of each subject."""
    shapes: Counter[Subject] = field(default_factory=Counter)
    searching: Counter[Subject] = field(default_factory=Counter)
    """The number of events of subjects with too many shapes."""
    cells: int = 0
    events: int = 0
    taken: int = 0
    """The bytes of the log that were read, as it is stored."""
    first: int = 0
    last: int = 0
    _owners: dict[Subject, dict[str, tuple[Attribute, ...]]] = field(default_factory=dict)

    def skip(self, reason: str, number: int = 1) -> None:
        """Count lines that are not used, by reason; beyond `MAX_REASONS` reasons, as "other
        reasons".
        """
        known = reason in self.skipped or len(self.skipped) < MAX_REASONS
        self.skipped[reason if known else "other reasons"] += number

    def add(self, access: Access) -> None:
        """Count one access, as allowed or denied; one with another outcome as skipped. The cells of
        a subject with more than `MAX_SHAPES` shapes are dropped, and its accesses then count in
        `searching`. Raise LearnError if there are more than `MAX_CELLS` cells in all.
        """
        self.events += 1
        subject, seconds = access.subject, access.seconds
        if seconds:
            self.first = min(self.first or seconds, seconds)
            self.last = max(self.last, seconds)
        if access.outcome not in (ALLOWED, DENIED):
            self.skip("not successful")
            return
        owners = self._owners.get(subject)
        if owners is None:
            owners = self._owners[subject] = owners_in(subject)
        shape = access.host, access.method, tokens_of(access.segments, owners)
        if access.outcome == DENIED:
            self._count(self.denied, shape, subject, access)
            return
        self.activity[subject] += 1
        cell = self._count(self.allowed, shape, subject, access)
        if cell is not None and access.parameters:
            cell.add_parameters(access.parameters, owners)

    def _count(self, cells: Cells, shape: Shape, subject: Subject, access: Access) -> Cell | None:
        """Count an access in its cell and return that; None for a subject that already tried too
        many paths, whose accesses are only counted in `searching`. Raise LearnError if there are
        too many cells in all.
        """
        if subject in self.searching:
            self.searching[subject] += 1
            return None
        by_subject = cells.get(shape)
        if by_subject is None:
            by_subject = cells[shape] = {}
        cell = by_subject.get(subject)
        is_new = cell is None
        if cell is None:
            cell = by_subject[subject] = Cell(seed=_seed_of(subject))
        cell.add(access.seconds, access.decision_id)
        cell.add_values(shape, access.segments)
        if is_new:
            self._count_cell(subject)
        return cell

    def _count_cell(self, subject: Subject) -> None:
        """Count a new cell. If the subject has more than `MAX_SHAPES` now, its cells are removed
        and the sum of their counts goes to `searching`; otherwise raise LearnError if there are
        more than `MAX_CELLS` in all.
        """
        self.cells += 1
        self.shapes[subject] += 1
        if self.shapes[subject] > MAX_SHAPES:
            self._give_up(subject)
        elif self.cells > MAX_CELLS:
            self._refuse()

    def merge(self, other: Observations) -> None:
        """Add the observations of another part of the log; its cells may become part of this, so
        that it must not be used afterwards. A subject that either part has given up keeps no cells.
        Raise LearnError if there are more than `MAX_CELLS` cells.
        """
        self.events += other.events
        self.taken += other.taken
        self.first = min([each for each in (self.first, other.first) if each], default=0)
        self.last = max(self.last, other.last)
        self.activity.update(other.activity)
        for reason, number in other.skipped.items():
            self.skip(reason, number)
        # Before the cells are merged: a subject that either part has given up keeps none of them.
        for subject in [*other.searching, *self.searching]:
            self._give_up(subject)
        for subject, number in other.searching.items():
            self.searching[subject] += number
        for mine, theirs in ((self.allowed, other.allowed), (self.denied, other.denied)):
            for shape, cells in theirs.items():
                self._merge_cells(mine, shape, cells.items())

    def _merge_cells(
        self, mine: Cells, shape: Shape, cells: Iterable[tuple[Subject, Cell]]
    ) -> None:
        """Merge the cells of one shape into `mine`, which may store these objects themselves; cells
        of subjects that search only count. Raise LearnError above `MAX_CELLS` cells.
        """
        known = mine.setdefault(shape, {})
        for subject, cell in cells:
            if subject in self.searching:
                self.searching[subject] += cell.count
            elif subject in known:
                known[subject].merge(cell)
            else:
                known[subject] = cell
                self._count_cell(subject)

    def choose_location(self) -> tuple[str, Location]:
        """Return the form of most requests and the location of their claims. Requests of another
        form, or with claims at another location, are dropped here and counted as skipped. `(ENVOY,
        ())` without allowed requests.
        """
        events: Counter[tuple[str, Location]] = Counter()
        for subject, number in self.activity.items():
            events[subject.form, subject.location] += number
        if not events:
            return ENVOY, ()
        best = min(events, key=lambda each: (-events[each], each))
        for cells in (self.allowed, self.denied):
            for by_subject in cells.values():
                for subject in [s for s in by_subject if (s.form, s.location) != best]:
                    cell = by_subject.pop(subject)
                    self.skip(
                        "the form of the input, or the place of its claims, is not the usual one",
                        cell.count,
                    )
        for subject in [s for s in self.activity if (s.form, s.location) != best]:
            del self.activity[subject]
        return best

    def _give_up(self, subject: Subject) -> None:
        """Remove all cells of a subject and list the subject in `searching` with the sum of their
        counts; do nothing if it is listed.
        """
        if subject in self.searching:
            return
        number = 0
        for cells in (self.allowed, self.denied):
            for by_subject in cells.values():
                cell = by_subject.pop(subject, None)
                if cell is not None:
                    number += cell.count
                    self.cells -= 1
        self.searching[subject] = number

    def _refuse(self) -> None:
        """Raise LearnError: for too many subjects if there are more than `MAX_SUBJECTS`, else for
        too many combinations.
        """
        if len(self.activity) > MAX_SUBJECTS:
            raise LearnError(
                f"the log has more than {MAX_SUBJECTS:,} subjects: learn from the log of one "
                "service, or from a shorter one"
            )
        raise LearnError(
            f"the log has more than {MAX_CELLS:,} combinations of a subject, a method and a path: "
            "leave paths of free text out with --ignore, or learn from a shorter log"
        )
