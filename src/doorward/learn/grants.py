"""Items become grants: the groups that may do each, with the evidence, and what is not clear.

For each item the group is chosen that explains most of what was done, and that nothing speaks
against: enough events and users, on more than one day, spread over the group; no denied request
that it would allow; no further condition without which nearly nobody did it; and, where the same is
done with own things, not a rare exception from that. What is left is a question for a
person and grants nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from doorward.base.records import mutable
from doorward.learn.access import Attribute, Subject
from doorward.learn.groups import Condition, Groups, Who, expected_distinct
from doorward.learn.observations import Cell, Observations, Parameter
from doorward.learn.segments import Shape, Token, is_typed, type_of
from doorward.learn.templates import (
    Entry,
    Item,
    Limits,
    Part,
    Template,
    Templates,
    Values,
    part_of,
)

__all__ = ["ALLOW", "ASK", "Evidence", "Grant", "Learned", "learn"]

ALLOW: Final = "allow"
ASK: Final = "ask"

BROKEN: Final = 9
"""A grant is marked as an exception if the group did the same with its own things at least this
many times as often.
"""
ROUNDS: Final = 64
OWNED: Final = 0.9
FEW: Final = 5
RAREST: Final = 5
LATE: Final = 0.8
"""A grant first seen after this share of the log's time counts as new."""


@mutable
class Evidence:
    """The counts that support a grant."""

    events: int = 0
    users: int = 0
    days: int = 0
    first: int = 0
    last: int = 0
    example: str = ""
    members: int = 0
    """The number of active subjects of the group."""
    spread: float = 1.0
    share: float = 1.0
    """The share that these requests have in all requests of the group."""
    denied: int = 0


@mutable
class Grant:
    """A grant: a group may do an item. If `proposal` is ask, nobody may until a person
    approves it.
    """

    host: str
    method: str
    parts: Template
    who: Who
    evidence: Evidence
    proposal: str
    reasons: tuple[str, ...] = ()
    """The reasons to ask about the grant, or to review it first."""
    query: tuple[str, ...] = ()
    """The names of query parameters that a request may have."""
    owned: tuple[tuple[Parameter, Attribute], ...] = ()
    """Parameters whose value must be the value of an attribute of the subject."""
    lists: frozenset[Attribute] = frozenset()
    """The attributes in the conditions of the grant whose value is a list."""
    rarest: tuple[str, ...] = ()
    """The words of the grant's sets that the fewest subjects used: an injected word would be among
    them.
    """

    @property
    def score(self) -> float:
        """The weight of a grant in the review: higher ones come first."""
        evidence = self.evidence
        return (
            2 * (1 - evidence.spread)
            + (evidence.users < FEW)
            + (2 * evidence.users < evidence.members)
            + (evidence.share < 0.005)
            + len(self.reasons)
        )


@mutable
class Learned:
    """The result of learning: grants, questions, and what was too rare for either."""

    grants: list[Grant] = field(default_factory=list)
    sets: dict[str, Values] = field(default_factory=dict)
    rare: Counter[str] = field(default_factory=Counter)
    """Events that are too few to ask about, by the name of the subject."""
    rare_values: int = 0
    """Events with a word that is similar to those of a set but was used by one subject only."""


def learn(observations: Observations, limits: Limits) -> Learned:
    """Return the grants and questions that follow from all observations, whose order does not
    matter. Subjects who tried too many different paths are removed from `observations.activity`.
    """
    for subject in observations.searching:
        observations.activity.pop(subject, None)
    groups = Groups.find(observations.activity)
    templates = Templates(groups, limits)
    templates.build(observations.allowed)
    learned = Learned(sets=templates.sets)
    denials = _Denials(templates, observations.denied)
    owned = _Owned(templates.items.values())
    span = observations.first, observations.last
    for key in sorted(templates.items):
        item = templates.items[key]
        _Judge(item, groups, limits, denials.of(key), owned, span).into(learned)
    return learned


class _Denials:
    """The numbers of denied requests that a grant of each item would have allowed, by subject."""

    def __init__(
        self, templates: Templates, denied: Mapping[Shape, Mapping[Subject, Cell]]
    ) -> None:
        self._sets = {name: frozenset(each.words) for name, each in templates.sets.items()}
        self._events: dict[object, Counter[Subject]] = defaultdict(Counter)
        index: dict[tuple[str, str, int], list[Item]] = defaultdict(list)
        for item in templates.items.values():
            index[item.host, item.method, len(item.parts)].append(item)
        for (host, method, tokens), cells in denied.items():
            for item in index.get((host, method, len(tokens)), ()):
                for subject, cell in cells.items():
                    if self._fits(item.parts, tokens, subject, cell):
                        self._events[item.key][subject] += cell.count

    def of(self, key: object) -> Counter[Subject]:
        """Return the number of denied events of each subject that an item would allow."""
        return self._events.get(key, Counter())

    def _fits(
        self, parts: Template, tokens: tuple[Token, ...], subject: Subject, cell: Cell
    ) -> bool:
        """Return True if a template matches a denied request of a subject, so that a grant would
        have allowed it. `parts` and `tokens` have the same length. Of a typed segment only the
        values that `cell` sampled are known.
        """
        for position, (part, token) in enumerate(zip(parts, tokens, strict=True)):
            if part.kind == "own":
                if type(token) is not tuple or part.attribute not in token:
                    return False
            elif part.kind in ("type", "prefix"):
                if not _is_of_type(part, token, subject, cell):
                    return False
            else:
                known = self._sets[part.value] if part.kind == "set" else {part.value}
                if known.isdisjoint(_texts(token, position, subject, cell)):
                    return False
        return True


def _is_of_type(part: Part, token: Token, subject: Subject, cell: Cell) -> bool:
    # Any position: only a typed token has sampled values, and this one is not typed.
    kinds = [token] if is_typed(token) else map(type_of, _texts(token, 0, subject, cell))
    return any(kind and part_of(kind) == part for kind in kinds)


def _texts(token: Token, position: int, subject: Subject, cell: Cell) -> set[str]:
    """Return the texts that a token may stand for: the word itself, the sampled values of a typed
    segment at `position`, or the first of the subject's values for each of the token's attributes.
    """
    if type(token) is str:
        return {token}
    if is_typed(token):
        return set((cell.values or {}).get(position, ()))
    return (
        {values[0] for attribute, values in subject.values if attribute in token and values}
        if type(token) is tuple
        else set()
    )


_Key: TypeAlias = tuple[str, str, tuple[object, ...]]


class _Owned:
    """Counts the requests in which a segment of the path is a value of the subject, such as their
    own name; by item without this segment.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._events: dict[_Key, Counter[Subject]] = defaultdict(Counter)
        for item in items:
            for position, part in enumerate(item.parts):
                if part.kind == "own":
                    counts = self._events[_without(item, position)]
                    for entry in item.entries:
                        counts[entry.subject] += entry.cell.count

    def events(self, item: Item, subjects: Iterable[Subject]) -> int:
        """For each segment of the item, count the requests of `subjects` that have one of the
        subject's attributes there, such as its own name, and are otherwise equal to the item.
        Return the largest of these counts.
        """
        chosen = frozenset(subjects)
        most = 0
        for position, part in enumerate(item.parts):
            if part.kind != "own":
                counts = self._events.get(_without(item, position), Counter())
                most = max(most, sum([n for subject, n in counts.items() if subject in chosen]))
        return most


def _without(item: Item, position: int) -> _Key:
    """Return an item's key without the part at a position. All sets count as equal, since their
    words differ from branch to branch.
    """
    parts: list[object] = [("set",) if each.kind == "set" else each for each in item.parts]
    parts[position] = None
    return item.host, item.method, tuple(parts)


class _Judge:
    """Decides which groups of subjects are granted one item, and which become questions."""

    def __init__(
        self,
        item: Item,
        groups: Groups,
        limits: Limits,
        denied: Counter[Subject],
        owned: _Owned,
        span: tuple[int, int],
    ) -> None:
        self._item = item
        self._groups = groups
        self._limits = limits
        self._denied = denied
        self._owned = owned
        self._span = span
        self._entries: dict[Subject, list[Entry]] = defaultdict(list)
        self._events: Counter[Subject] = Counter()
        self._rare_values = 0
        self._is_below_floor = False
        for entry in item.entries:
            if entry.is_rare:
                self._rare_values += entry.cell.count
                continue
            self._is_below_floor |= entry.is_below_floor
            self._entries[entry.subject].append(entry)
            self._events[entry.subject] += entry.cell.count

    def into(self, learned: Learned) -> None:
        """Add this item's grants and questions to `learned`, and the counts of requests too rare to
        ask about.

        Each round grants to the best group and removes its subjects; at most `ROUNDS` rounds.
        """
        learned.rare_values += self._rare_values
        accepted: list[Grant] = []
        left = Counter(self._events)
        for _ in range(ROUNDS):
            grant = self._next(left, learned)
            if grant is None:
                break
            accepted.append(grant)
            for subject in self._groups.matching(grant.who):
                left.pop(subject, None)
        learned.grants += self._fold(accepted, learned)
        self._ask(left, learned)

    def _next(self, left: Counter[Subject], learned: Learned) -> Grant | None:
        """Return a grant for the best group to which there are no objections; with a further
        condition if nearly only those who fulfil it acted. None if there is no such group. `left`
        has the number of requests of each remaining subject.
        """
        for who in self._candidates(left):
            events = self._events_of(who, left)
            if self._objections(who, events):
                continue
            further = self._groups.refinement(who, events)
            if further is None:
                return self._grant(who, events, ALLOW, (), learned)
            narrower = tuple(sorted((*who, further)))
            if len(narrower) > 2:
                continue
            events = self._events_of(narrower, left)
            if self._objections(narrower, events):
                continue
            if self._groups.refinement(narrower, events) is None:
                return self._grant(narrower, events, ALLOW, (), learned)
        return None

    def _candidates(self, left: Counter[Subject]) -> list[Who]:
        """Return the groups with remaining subjects, best first: by their requests, of which at
        most three count for each subject, then the smaller group.
        """
        counts: Counter[Condition] = Counter()
        for subject, number in left.items():
            for condition in self._groups.of.get(subject, ()):
                # Of each subject few, so that one busy account does not choose the group.
                counts[condition] += min(number, 3)
        order = sorted(
            counts,
            key=lambda each: (-counts[each], len(self._groups.members[each]), each),
        )
        return [(each,) for each in order]

    def _events_of(self, who: Who, left: Counter[Subject]) -> Counter[Subject]:
        """Return the remaining events of the subjects in a group."""
        members = self._groups.matching(who)
        return Counter({each: number for each, number in left.items() if each in members})

    def _objections(self, who: Who, events: Counter[Subject]) -> tuple[str, ...]:
        """Return the reasons, as text for people, why the group `who` should not be granted the
        item; () if a grant can be proposed. `events`: the number of requests for it by each subject
        of the group.
        """
        limits = self._limits
        total = sum(events.values())
        users = len({each.name for each in events})
        reasons = []
        if self._is_below_floor:
            reasons.append(f"a varying segment of the path has fewer than {limits.floor} events")
        if total < limits.events:
            reasons.append(f"fewer than {limits.events} events")
        if users < limits.users:
            reasons.append(f"fewer than {limits.users} users")
        if self._days(events) < min(2, self._days_of_log()):
            reasons.append("on one day only")
        spread = self._groups.spread(who, len(events), total)
        if spread < limits.spread:
            reasons.append("only few of the group did this, and often")
        members = self._groups.matching(who)
        denied = sum([n for subject, n in self._denied.items() if subject in members])
        if denied:
            reasons.append(f"would allow {denied} requests that were denied")
        objections = self._owned.events(self._item, members)
        if objections >= BROKEN * total:
            reasons.append("an exception: the group usually does this with its own things only")
        return tuple(reasons)

    def _days(self, subjects: Iterable[Subject]) -> int:
        """Return the number of days (in UTC, at most 64: days 64 apart count as one) on which at
        least one of the subjects made requests for the item.
        """
        days = 0
        for subject in subjects:
            for entry in self._entries[subject]:
                days |= entry.cell.days
        return days.bit_count()

    def _days_of_log(self) -> int:
        first, last = self._span
        return last // 86_400 - first // 86_400 + 1 if first else 0

    def _grant(
        self,
        who: Who,
        events: Counter[Subject],
        proposal: str,
        reasons: tuple[str, ...],
        learned: Learned,
    ) -> Grant:
        """Return a grant (`proposal` allow) or a question (ask) for the group `who` with its
        evidence: the requests of the subjects in `events`, at least one. It is not added to
        `learned`, but new sets are, of words that this group used where it used few of a set. A
        grant first seen late is given a reason to review it.
        """
        cells = [entry.cell for subject in events for entry in self._entries[subject]]
        total = sum(events.values())
        members = self._groups.matching(who)
        did = sum([self._groups.activity[each] for each in members])
        evidence = Evidence(
            events=total,
            users=len({each.name for each in events}),
            days=self._days(events),
            first=min([each.first for each in cells if each.first], default=0),
            last=max([each.last for each in cells]),
            example=min([each.example for each in cells if each.example], default=""),
            members=len({each.name for each in members}),
            spread=round(self._groups.spread(who, len(events), total), 3),
            share=total / did if did else 1.0,
            denied=sum([n for subject, n in self._denied.items() if subject in members]),
        )
        first, last = self._span
        if proposal == ALLOW and last > first and evidence.first > first + LATE * (last - first):
            reasons = (*reasons, "new: first seen near the end of the log")
        parts = self._narrow_sets(events, learned)
        query, owned = self._parameters(events)
        named = {condition.attribute for condition in who}
        lists = frozenset({each for subject in events for each in subject.lists} & named)
        return Grant(
            self._item.host,
            self._item.method,
            parts,
            who,
            evidence,
            proposal,
            reasons,
            query,
            owned,
            lists,
            self._rarest(),
        )

    def _narrow_sets(self, events: Counter[Subject], learned: Learned) -> Template:
        """Return the item's template for a group whose requests are `events`. A set of which the
        group used much fewer words than chance would give is replaced by a new set, added to
        `learned.sets`, of the words that enough of its users used.
        """
        parts = list(self._item.parts)
        for position, part in enumerate(parts):
            if part.kind != "set":
                continue
            known = learned.sets[part.value]
            used: dict[str, set[str]] = defaultdict(set)
            total = 0
            for subject in events:
                for entry in self._entries[subject]:
                    used[entry.words[position]].add(subject.name)
                    total += entry.cell.count
            everywhere = Counter(dict.fromkeys(known.words, 0))
            # Values of an attribute are in the set without a request, so that each is equally
            # likely.
            if known.source.startswith("values of "):
                everywhere = Counter(dict.fromkeys(known.words, 1))
            else:
                for entry in self._item.entries:
                    everywhere[entry.words[position]] += entry.cell.count
            expected = expected_distinct([n for n in everywhere.values() if n], total)
            if len(used) >= self._limits.spread * expected:
                continue
            words = tuple(
                sorted(w for w, users in used.items() if len(users) >= self._limits.users)
            )
            parts[position] = Part("set", _add_set(learned, part.value, words))
        return tuple(parts)

    def _rarest(self) -> tuple[str, ...]:
        """Return at most `RAREST` words of the item's sets, beginning with those that the fewest
        subjects used.
        """
        users: dict[str, set[str]] = defaultdict(set)
        events: Counter[str] = Counter()
        for entry in self._item.entries:
            for word in entry.words.values():
                users[word].add(entry.subject.name)
                events[word] += entry.cell.count
        order = sorted(users, key=lambda each: (len(users[each]), events[each], each))
        return tuple(order[:RAREST])

    def _parameters(
        self, events: Counter[Subject]
    ) -> tuple[tuple[str, ...], tuple[tuple[Parameter, Attribute], ...]]:
        """Return what requests of these subjects for the item had: the names of query parameters
        that enough users used, sorted; and the parameters of query or body whose value nearly
        always (`OWNED`) was the same attribute of the subject, over at least `floor` requests and
        three users.
        """
        users: dict[Parameter, set[str]] = defaultdict(set)
        counts: dict[Parameter, Counter[Attribute | None]] = defaultdict(Counter)
        values: dict[tuple[Parameter, Attribute], set[str]] = defaultdict(set)
        for subject in events:
            for entry in self._entries[subject]:
                for parameter, numbers in (entry.cell.parameters or {}).items():
                    users[parameter].add(subject.name)
                    counts[parameter].update(numbers)
                    for attribute in numbers:
                        if attribute is not None:
                            values[parameter, attribute].add(subject.name)
        names = tuple(
            sorted(
                name
                for (part, name), known in users.items()
                if part == "query" and len(known) >= self._limits.users
            )
        )
        owned = []
        for parameter in sorted(counts):
            numbers = counts[parameter]
            # Under None: how often the parameter was present.
            total = numbers.pop(None)
            if total < self._limits.floor:
                continue
            attributes = [
                attribute
                for attribute, number in numbers.items()
                if number >= OWNED * total
                and attribute is not None
                and len(values[parameter, attribute]) >= 3
            ]
            if attributes:
                owned.append((parameter, min(attributes, key=lambda each: (-numbers[each], each))))
        return names, tuple(owned)

    def _fold(self, grants: list[Grant], learned: Learned) -> list[Grant]:
        """Return one grant to all subjects in place of at least three grants with one template
        whose groups, by one attribute, contain everybody together, if there is no objection; else
        `grants`.
        """
        if len(grants) < 3 or any(len(each.who) != 1 for each in grants):
            return grants
        if (
            len({each.who[0].attribute for each in grants}) > 1
            or len({g.parts for g in grants}) > 1
        ):
            return grants
        covered = frozenset[Subject]().union(*[self._groups.matching(g.who) for g in grants])
        if covered != self._groups.matching(()) or self._objections((), self._events):
            return grants
        return [self._grant((), self._events, ALLOW, (), learned)]

    def _ask(self, left: Counter[Subject], learned: Learned) -> None:
        """Add a question for each of at most `ROUNDS` groups of remaining subjects to `learned`,
        best group first, and remove its subjects from `left`. Groups with too few requests, and
        subjects that remain at the end, are counted as rare instead.
        """
        for _ in range(ROUNDS):
            candidates = self._candidates(left)
            if not candidates:
                break
            who = candidates[0]
            events = self._events_of(who, left)
            for subject in events:
                left.pop(subject, None)
            if sum(events.values()) < self._limits.events:
                skipped = events
                for subject, number in skipped.items():
                    learned.rare[subject.name] += number
                continue
            reasons = self._objections(who, events) or ("a narrower group may explain it",)
            learned.grants.append(self._grant(who, events, ASK, reasons, learned))
        for subject, number in left.items():
            learned.rare[subject.name] += number


def _add_set(learned: Learned, base: str, words: tuple[str, ...]) -> str:
    """Add a set of words under a name derived from `base`; return the name. An equal set whose name
    begins with `base` is reused.
    """
    for name, known in learned.sets.items():
        if known.words == words and name.startswith(base):
            return name
    number = 2
    while f"{base}-{number}" in learned.sets:
        number += 1
    name = f"{base}-{number}"
    learned.sets[name] = Values(name, words, "the words that the group used")
    return name
