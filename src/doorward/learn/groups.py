"""Groups of subjects, and whether what they did is spread as it would be if all of them might.

A generalisation says more than the log: all of a group may do what some did. `Groups.spread`
compares how many different subjects did it with how many would have by chance, so that a few
accounts that do one thing often are not taken for their role.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias

from doorward.base.records import mutable
from doorward.learn.access import Attribute, Subject, attribute_text

__all__ = ["Condition", "Groups", "Who", "expected_distinct", "is_unlikely", "who_text"]

MAX_GROUPS: Final = 2_000
UNLIKELY: Final = 0.01
"""A result that chance would bring with a smaller probability than this is not attributed to
chance.
"""

STRAY: Final = 2
"""A narrower group is tried only if at most this many events, or a tenth of all, are outside of
it.
"""


class Condition(NamedTuple):
    """A condition on a subject: an attribute has this value, or is a list that contains it."""

    attribute: Attribute
    value: str

    def text(self) -> str:
        """Return the condition as text for people, such as `dept=sales`."""
        return f"{attribute_text(self.attribute)}={self.value}"


Who: TypeAlias = tuple[Condition, ...]
"""The conditions that a group's members all fulfil; none: everybody who is known."""


def who_text(who: Who) -> str:
    """Return the conditions as text for people; `every subject` for ()."""
    return " and ".join([each.text() for each in who]) or "every subject"


class Weights:
    """How the requests of a group are distributed over its members; members with similar numbers of
    requests form one class.
    """

    def __init__(self, amounts: Iterable[int]) -> None:
        classes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        for amount in amounts:
            entry = classes[amount.bit_length()]
            entry[0] += 1
            entry[1] += amount
        self.total = sum(total for _, total in classes.values())
        self.members = sum(number for number, _ in classes.values())
        self._classes = [classes[each] for each in sorted(classes)]

    def distinct(self, draws: float) -> float:
        """Return how many different members would be expected in `draws` requests, if each came by
        chance from a member in proportion to their activity.
        """
        if not self.total:
            return 0.0
        shares = [(number, total / number / self.total) for number, total in self._classes]
        return sum(
            [
                # `log1p(-1)` has no value: the only member comes with the first draw.
                number * -math.expm1(draws * math.log1p(-share)) if share < 1 else number
                for number, share in shares
            ]
        )


def expected_distinct(amounts: Collection[int], draws: float) -> float:
    """Return the expected number of distinct things with these frequencies in so many events."""
    return Weights(amounts).distinct(draws)


def is_unlikely(seen: int, draws: int, share: float) -> bool:
    """Return True if chance would hardly give `seen` hits, or a number still farther from the
    expected one, in `draws` draws that hit with probability `share`. False without draws; True for
    any other number than the certain one if `share` is 0 or 1.
    """
    if draws <= 0 or not 0 < share < 1:
        return draws > 0 and seen != (draws if share >= 1 else 0)
    expected = draws * share
    lower = seen <= expected
    # The smaller tail of the binomial distribution, from the side that it is short on.
    counts = range(seen + 1) if lower else range(seen, draws + 1)
    total = 0.0
    for count in counts if len(counts) <= 400 else _near(seen, draws, lower=lower):
        total += math.exp(
            math.lgamma(draws + 1)
            - math.lgamma(count + 1)
            - math.lgamma(draws - count + 1)
            + count * math.log(share)
            + (draws - count) * math.log1p(-share)
        )
        if total >= UNLIKELY:
            return False
    return True


def _near(seen: int, draws: int, *, lower: bool) -> range:
    """Return at most 400 numbers of hits next to `seen`, down to 0 (`lower`) or up to `draws`;
    those farther away add almost nothing to the probability.
    """
    return (
        range(seen, max(seen - 400, -1), -1) if lower else range(seen, min(seen + 400, draws + 1))
    )


@mutable
class Groups:
    """All groups of subjects that share a value of an attribute, and the number of events of each
    subject.
    """

    activity: Mapping[Subject, int]
    members: dict[Condition, frozenset[Subject]] = field(default_factory=dict)
    of: dict[Subject, tuple[Condition, ...]] = field(default_factory=dict)
    domains: dict[Attribute, dict[str, set[Subject]]] = field(default_factory=dict)
    """By attribute with one value, the subjects of each value."""
    _weights: dict[Who, Weights] = field(default_factory=dict)
    _matching: dict[Who, frozenset[Subject]] = field(default_factory=dict)

    @classmethod
    def find(cls, activity: Mapping[Subject, int]) -> Groups:
        """Return the groups of active subjects with one value of an attribute; a group has at least
        two names of subjects. If there are more than `MAX_GROUPS`, the largest.
        """
        members: defaultdict[Condition, set[Subject]] = defaultdict(set)
        domains: defaultdict[Attribute, dict[str, set[Subject]]] = defaultdict(dict)
        for subject in activity:
            for attribute, values in subject.values:
                for value in values:
                    members[Condition(attribute, value)].add(subject)
                if attribute not in subject.lists and values:
                    domains[attribute].setdefault(values[0], set()).add(subject)
        shared = {
            condition: frozenset(subjects)
            for condition, subjects in members.items()
            if len({each.name for each in subjects}) >= 2
        }
        largest = sorted(shared, key=lambda each: (-len(shared[each]), each))[:MAX_GROUPS]
        groups = cls(activity, {each: shared[each] for each in largest}, domains=dict(domains))
        by_subject: defaultdict[Subject, list[Condition]] = defaultdict(list)
        for condition in largest:
            for subject in shared[condition]:
                by_subject[subject].append(condition)
        groups.of = {subject: tuple(conditions) for subject, conditions in by_subject.items()}
        return groups

    def matching(self, who: Who) -> frozenset[Subject]:
        """Return the active subjects for whom all conditions hold, all of them for (); cached.
        KeyError for a condition that is not one of the groups.
        """
        known = self._matching.get(who)
        if known is None:
            sets = [self.members[each] for each in who]
            known = frozenset.intersection(*sets) if sets else frozenset(self.activity)
            self._matching[who] = known
        return known

    def weights(self, who: Who) -> Weights:
        """Return how the requests of a group are distributed over its members; cached."""
        known = self._weights.get(who)
        if known is None:
            amounts = [self.activity[each] for each in self.matching(who)]
            known = self._weights[who] = Weights(amounts)
        return known

    def spread(self, who: Who, users: int, events: int) -> float:
        """Return how widely a group did something: the number of users who did it, divided by the
        number that chance would give for so many events; at most 1, and 0.0 for a group without
        activity.
        """
        expected = self.weights(who).distinct(events)
        return min(1.0, users / expected) if expected else 0.0

    def refinement(self, who: Who, events: Mapping[Subject, int]) -> Condition | None:
        """Return a condition that describes those who acted better than the group `who` alone:
        nearly all of them fulfil it, and many of the group do not. None if there is none; the
        smallest group of several. `events`: the number of events of each subject, of which at most
        three count.
        """
        capped: Counter[Condition] = Counter()
        total = 0
        for subject, number in events.items():
            number = min(number, 3)
            total += number
            for condition in self.of.get(subject, ()):
                capped[condition] += number
        base = self.weights(who).total
        best: tuple[int, Condition] | None = None
        for condition, inside in capped.items():
            if condition in who or total - inside > max(STRAY, total / 10):
                continue
            share = self.weights((*who, condition)).total / base if base else 1.0
            if share < 1 and is_unlikely(total - inside, total, 1 - share):
                size = len(self.matching((*who, condition)))
                if best is None or (size, condition) < best:
                    best = size, condition
        return best[1] if best else None
