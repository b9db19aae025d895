"""Shapes become templates: segments that vary are types, attributes of the subject or closed sets.

    /customers/c-1/orders/7 of c-1 ─▶ /customers/{=sub}/orders/{int}
    /products/red-lamp             ─▶ /products/{products}          one of the words that were seen

Words are never replaced by "any word". They are one set if they are values of an attribute of other
subjects, or if at least `words` of them are used by the same groups in the same way: a word that
is used by others (`/products/export`) stays a word.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias

from doorward.base.records import mutable, record
from doorward.learn.access import Attribute, Subject, attribute_text, subject_key
from doorward.learn.groups import Condition, Groups, is_unlikely
from doorward.learn.observations import Cell
from doorward.learn.segments import (
    TYPES,
    Kind,
    Numbered,
    Shape,
    Token,
    is_typed,
    sort_key,
    type_of,
)

__all__ = ["Entry", "Item", "Limits", "Part", "Templates", "Values", "part_of", "path_text"]

MAX_SET: Final = 5_000
ROUNDS: Final = 3
WORD_USERS: Final = 3
"""A word needs at least this many users to be in a set of similar words."""
VARYING: Final = 8
"""A typed segment varies from this many values on, or three of each subject if there are few."""
OF_GROUP: Final = 0.9
"""A set is taken for the values of one group if at least this share of its words are."""
DISTINCT: Final = 3
"""At least this many different values make a segment of the subject's own, or a set."""


@record
class Limits:
    """The thresholds for a generalisation; docs/learn.md explains each."""

    floor: int = 20
    """The least number of events of a segment that varies."""
    words: int = 12
    """The least number of words of a closed set."""
    events: int = 5
    """The least number of events of a rule."""
    users: int = 2
    spread: float = 0.5
    """The least share of the users (or words) that chance would have brought."""


class Part(NamedTuple):
    """A segment of a template. `kind`: word, type, prefix, own or set. `value`: the word, the name
    of the type or set, or the letters before a number; for `own` it is "", and `attribute` names
    the attribute whose value the segment is.
    """

    kind: str
    value: str
    attribute: Attribute = ()

    def text(self) -> str:
        """Return the part as text for people: the word, `{int}` for a type, `{products}` for a set,
        `{INV-#}` for a prefix, or `{=sub}` for the subject's own value.
        """
        if self.kind == "word":
            return self.value
        if self.kind == "prefix":
            return f"{{{self.value}#}}"
        return (
            f"{{={attribute_text(self.attribute)}}}" if self.kind == "own" else f"{{{self.value}}}"
        )


Template: TypeAlias = tuple[Part, ...]


def part_of(kind: Kind) -> Part:
    """Return the part for all values of a type."""
    return Part("prefix", kind.prefix) if type(kind) is Numbered else Part("type", TYPES[kind])  # type: ignore[index]


def path_text(parts: Iterable[Part]) -> str:
    """Return a template as text for people, such as `/customers/{=sub}/orders/{int}`."""
    return "/" + "/".join([each.text() for each in parts])


class Values(NamedTuple):
    """A closed set of words. `source`: the reason why its words are one set."""

    name: str
    words: tuple[str, ...]
    source: str


@mutable
class Entry:
    """The requests of one subject in one shape, while they are assigned to a template."""

    host: str
    method: str
    tokens: tuple[Token, ...]
    subject: Subject
    cell: Cell
    parts: list[Part] = field(default_factory=list)
    words: dict[int, str] = field(default_factory=dict)
    """The words of the requests at the positions of sets."""
    is_rare: bool = False
    """True if one of its words is similar to those of a set but was used by one subject only."""
    is_below_floor: bool = False


@mutable
class Item:
    """All requests with one method and one template."""

    host: str
    method: str
    parts: Template
    entries: list[Entry] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, Template]:
        return self.host, self.method, self.parts

    def text(self) -> str:
        """Return the item as text for people: `GET example.com/orders/{int}`."""
        return f"{self.method} {self.host}{path_text(self.parts)}"


class Templates:
    """Finds the template of each allowed request, and collects the requests with one template as an
    item.
    """

    def __init__(self, groups: Groups, limits: Limits) -> None:
        self._groups = groups
        self._limits = limits
        self.items: dict[tuple[str, str, Template], Item] = {}
        self.sets: dict[str, Values] = {}

    def build(self, cells: Mapping[Shape, Mapping[Subject, Cell]]) -> None:
        """Find the template of each cell, and store the items in `items` and the sets in `sets`."""
        by_host: defaultdict[str, list[Entry]] = defaultdict(list)
        for shape in sorted(cells, key=sort_key):
            by_subject = cells[shape]
            by_host[shape[0]] += [
                Entry(*shape, subject, by_subject[subject])
                for subject in sorted(by_subject, key=subject_key)
            ]
        for host in sorted(by_host):
            self._descend(by_host[host], 0)

    def _descend(self, entries: list[Entry], position: int) -> None:
        """Append a part to the entries' templates for each segment from `position` on, and finish
        each entry after its last one. Entries whose part differs are treated apart from there on.
        """
        # One after the other, and not a call for each level of each branch.
        pending = [(entries, position)]
        while pending:
            entries, position = pending.pop()
            deeper: list[Entry] = []
            for entry in entries:
                if len(entry.tokens) == position:
                    self._finish(entry)
                else:
                    deeper.append(entry)
            if deeper:
                pending += [(each, position + 1) for each in self._split_by_part(deeper, position)]

    def _finish(self, entry: Entry) -> None:
        """Add an entry to the item for its template."""
        key = entry.host, entry.method, tuple(entry.parts)
        item = self.items.get(key)
        if item is None:
            item = self.items[key] = Item(*key)
        item.entries.append(entry)

    def _split_by_part(self, entries: list[Entry], position: int) -> Iterator[list[Entry]]:
        """Append a part to each entry's template for the segment at `position`, which all entries
        have; yield the groups of entries with the same part. A segment that repeats an attribute by
        chance counts as a word, or by its type, and its value is then set in the cell's `values`.
        """
        words: defaultdict[str, list[Entry]] = defaultdict(list)
        typed: defaultdict[Kind, list[Entry]] = defaultdict(list)
        owned: list[Entry] = []
        for entry in entries:
            token = entry.tokens[position]
            if type(token) is str:
                words[token].append(entry)
            elif is_typed(token):
                typed[token].append(entry)
            else:
                owned.append(entry)
        for attribute, group in self._split_by_owner(owned, position):
            if attribute:
                yield _with_part(group, Part("own", "", attribute))
                continue
            for entry in group:
                value = _value(entry, position)
                kind = type_of(value)
                if kind:
                    earlier = entry.cell.values or {}
                    entry.cell.values = {**earlier, position: (value,)}
                    typed[kind].append(entry)
                else:
                    words[value].append(entry)
        for kind in sorted(typed, key=str):
            yield self._match_kind(typed[kind], position, kind)
        yield from self._words(words, position)

    def _split_by_owner(
        self, entries: list[Entry], position: int
    ) -> Iterator[tuple[Attribute, list[Entry]]]:
        """Split entries by the attribute whose value the segment at `position` repeats, most events
        first. An attribute with fewer than `DISTINCT` different values repeats it by chance: its
        group is yielded with `()` in place of the attribute.
        """
        while entries:
            events: Counter[Attribute] = Counter()
            for entry in entries:
                for attribute in _attributes(entry, position):
                    events[attribute] += entry.cell.count
            best = min(events, key=lambda each: (-events[each], each))
            group = [each for each in entries if best in _attributes(each, position)]
            entries = [each for each in entries if best not in _attributes(each, position)]
            values = {_value_of(each.subject, best) for each in group}
            yield (best if len(values) >= DISTINCT else ()), group

    def _match_kind(self, entries: list[Entry], position: int, kind: Kind) -> list[Entry]:
        """Append the part for segments of the type `kind` to the entries' templates, and return the
        entries: the type, or the exact values if they are few.

        With the type, entries are marked `is_below_floor` if together they have too few events;
        with exact values, those that have none of them are marked `is_rare`.
        """
        users: defaultdict[str, set[str]] = defaultdict(set)
        for entry in entries:
            for value in (entry.cell.values or {}).get(position, ()):
                users[value].add(entry.subject.name)
        number_of_users = len({entry.subject.name for entry in entries})
        # One subject shows three values at most: alone it makes no segment vary for others.
        if len(users) < min(VARYING, DISTINCT * number_of_users):
            return self._exact(entries, position, users)
        if sum([each.cell.count for each in entries]) < self._limits.floor:
            for entry in entries:
                entry.is_below_floor = True
        return _with_part(entries, part_of(kind))

    def _exact(
        self, entries: list[Entry], position: int, users: Mapping[str, set[str]]
    ) -> list[Entry]:
        """Append a word or a set of exact values to the entries' templates, and return the entries.
        The values are those that at least two users have, or else the first of all in sorted
        order; entries with other values only are marked rare.
        """
        shared = sorted([value for value, names in users.items() if len(names) >= 2])
        values = shared or sorted(users)[:1]
        for entry in entries:
            seen = [v for v in (entry.cell.values or {}).get(position, ()) if v in values]
            entry.words[position] = min(seen, default="")
            entry.is_rare |= not seen
        if len(values) == 1:
            return _with_part(entries, Part("word", values[0]))
        name = self._name_set(entries[0], position, values, "the only values")
        return _with_part(entries, Part("set", name))

    # Words.

    def _words(self, words: dict[str, list[Entry]], position: int) -> Iterator[list[Entry]]:
        """Append a set or a word to the templates of entries by their words at a position; yield
        the groups with the same part, sets first. The words of sets are removed from `words`.
        """
        for values, source in self._find_sets(words):
            group = [entry for word in values for entry in words.get(word, ())]
            name = self._name_set(group[0], position, values, source)
            for word in values:
                for entry in words.pop(word, ()):
                    entry.words[position] = word
            yield _with_part(group, Part("set", name))
        for word in sorted(words):
            yield _with_part(words[word], Part("word", word))

    def _find_sets(self, words: dict[str, list[Entry]]) -> Iterator[tuple[list[str], str]]:
        """Yield lists of words that become one set, each with the reason (`Values.source`): the
        values of an attribute, which may contain more than these words, then words that the same
        groups used. The caller removes the words of a set from `words` before it takes the next.
        """
        if len(words) < DISTINCT:
            return
        domain = self._domain(words)
        if domain is not None:
            yield domain
        if len(words) >= self._limits.words:
            cluster = self._cluster(words)
            if cluster:
                yield cluster, "used by the same groups in the same way"

    def _domain(self, words: Mapping[str, list[Entry]]) -> tuple[list[str], str] | None:
        """Return the values of the attribute that has most of the words among its values, as a set
        with the reason for it. If one group has nearly all of the words, only the values of this
        group.

        None if no attribute has `DISTINCT` of the words, if the words or their events are too few,
        or if there are more than `MAX_SET` values.
        """
        best: tuple[int, Attribute] | None = None
        for attribute, values in self._groups.domains.items():
            number = sum([word in values for word in words])
            if number >= DISTINCT and (best is None or (-number, attribute) < best):
                best = -number, attribute
        if best is None:
            return None
        attribute = best[1]
        values = self._groups.domains[attribute]
        inside = [word for word in words if word in values]
        events = sum([entry.cell.count for word in inside for entry in words[word]])
        condition, members = self._owners(values, inside)
        of_all = sorted(members)
        enough = len(inside) >= self._limits.words or 2 * len(inside) >= len(of_all)
        if events < self._limits.floor or not enough or len(of_all) > MAX_SET:
            return None
        of = f" of subjects with {condition.text()}" if condition else ""
        return of_all, f"values of {attribute_text(attribute)}{of}"

    def _owners(
        self, values: Mapping[str, set[Subject]], inside: list[str]
    ) -> tuple[Condition | None, set[str]]:
        """Return the narrowest group whose values include nearly all the words, and its values.
        None, and all values, if no group has fewer values.
        """
        owners: Counter[Condition] = Counter()
        for word in inside:
            owners.update(
                {each for owner in values[word] for each in self._groups.of.get(owner, ())}
            )
        best: tuple[int, Condition, set[str]] | None = None
        for condition, number in owners.items():
            if number < OF_GROUP * len(inside):
                continue
            members = self._groups.members[condition]
            values_of_group = {value for value, of in values.items() if not of.isdisjoint(members)}
            if best is None or (len(values_of_group), condition) < best[:2]:
                best = len(values_of_group), condition, values_of_group
        if best is None or best[0] == len(values):
            return None, set(values)
        return best[1], best[2]

    def _cluster(self, words: Mapping[str, list[Entry]]) -> list[str]:
        """Return the words that are used alike, by the same groups and in the same requests; [] if
        they are too few, too many, or have too few events. Entries of words with a similar use but
        too few users are marked rare.
        """
        uses = {word: _Use.of(entries, self._groups) for word, entries in words.items()}
        alike = [word for word in sorted(words) if uses[word].users >= WORD_USERS]
        pooled: dict[object, float] = {}
        for _ in range(ROUNDS):
            if len(alike) < self._limits.words:
                return []
            pooled = _pool([uses[word] for word in alike])
            # Words that differ have changed the pool, so it is made again without them.
            common = [word for word in alike if uses[word].is_like(pooled)]
            if common == alike:
                break
            alike = common
        if not self._limits.words <= len(alike) <= MAX_SET:
            return []
        if sum([uses[word].events for word in alike]) < self._limits.floor:
            return []
        chosen = set(alike)
        for word, entries in words.items():
            if word not in chosen and uses[word].is_like(pooled):
                for entry in entries:
                    entry.is_rare = True
        return alike

    def _name_set(self, entry: Entry, position: int, words: Iterable[str], source: str) -> str:
        """Store a set and return its new name, made of the last word before it, or "values"."""
        before = [part.value for part in entry.parts[:position] if part.kind == "word"]
        plain = "".join(
            [
                each if each.isalnum() and each.isascii() else "-"
                for each in (before or [""])[-1][:40]
            ]
        )
        base = plain.strip("-").lower() or "values"
        values = tuple(sorted(words))
        number = 1
        name = base
        while name in self.sets or name in TYPES.values():
            number += 1
            name = f"{base}-{number}"
        self.sets[name] = Values(name, values, source)
        return name


class _Use(NamedTuple):
    """How a word is used: the number of its users and events, and in `counts` the number of users
    by group, and by method with the segments after the word.
    """

    users: int
    events: int
    counts: Counter[object]

    @classmethod
    def of(cls, entries: list[Entry], groups: Groups) -> _Use:
        """Return the use of the word that these entries have."""
        uses: defaultdict[object, set[str]] = defaultdict(set)
        for entry in entries:
            name = entry.subject.name
            for condition in groups.of.get(entry.subject, ()):
                uses[condition].add(name)
            uses[entry.method, entry.tokens[len(entry.parts) + 1 :]].add(name)
        users = len({entry.subject.name for entry in entries})
        events = sum([entry.cell.count for entry in entries])
        return cls(users, events, Counter({way: len(names) for way, names in uses.items()}))

    def is_like(self, pooled: Mapping[object, float]) -> bool:
        """Return True if this use agrees with `pooled`, the shares of users in the common use of
        several words: no count is very unlikely, and no group or request is missing there.
        """
        return not any(
            is_unlikely(self.counts[way], self.users, share)
            for way, share in pooled.items()
            # Where few users are expected, that there are none says nothing.
            if share < 1 and (way in self.counts or share * self.users > 3)
        ) and all(way in pooled for way in self.counts)


def _pool(uses: list[_Use]) -> dict[object, float]:
    """Return the common use of several words: the share of their users for each key of `counts`."""
    counts: Counter[object] = Counter()
    for use in uses:
        counts.update(use.counts)
    users = sum([use.users for use in uses])
    return {way: number / users for way, number in counts.items()}


def _with_part(entries: list[Entry], part: Part) -> list[Entry]:
    """Append a part to each entry's template; return the entries."""
    for entry in entries:
        entry.parts.append(part)
    return entries


def _attributes(entry: Entry, position: int) -> tuple[Attribute, ...]:
    """Return the attributes of the subject whose value the segment at `position` is; its token must
    be one of attributes.
    """
    token = entry.tokens[position]
    assert isinstance(token, tuple)
    assert not isinstance(token, Numbered)
    return token


def _value(entry: Entry, position: int) -> str:
    return _value_of(entry.subject, _attributes(entry, position)[0])


def _value_of(subject: Subject, attribute: Attribute) -> str:
    return next((values[0] for known, values in subject.values if known == attribute), "")
