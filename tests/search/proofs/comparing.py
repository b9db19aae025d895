"""Compares answers about random policies with what the engine decides for all inputs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from random import Random
from typing import Any, Final

from tests.search.proofs.programs import Program, inputs_of, program, rewritten

from doorward.bundles.loader import Loaded
from doorward.rego import REGISTRY, UNDEFINED, Engine, EvalError, Query, RegoError, to_python
from doorward.rego.shared import to_key
from doorward.replay.deciding import Version
from doorward.search import are_same, entry_points, search
from doorward.search.proofs import Verdict, proofs, prove
from doorward.search.proofs.access import Question, answer
from doorward.search.searching import NOW_NS
from doorward.search.who_can import Access, put

__all__ = ["Comparison"]

SEARCHED: Final = 100
"""Readings of the clock of a search, so that it does the same on any machine."""
SEARCHES: Final = 3
"""Searches, which cost most, are compared for one program of so many."""
PATHS: Final = (("a",), ("b",), ("c", "d"))
_CONFLICT = object()


class Comparison:
    """Compares programs, one for each seed. `answers`: how many of each kind there were; `wrong`:
    those that an input contradicts."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []

    def compare(self, seed: int) -> None:
        """Compare the answers about one program."""
        random = Random(seed)
        subject = program(random)
        if subject is None:
            self.answers["not compiled"] += 1
            return
        self.answers["programs"] += 1
        try:
            self._compare(seed, subject, random)
        except RegoError as error:
            self._refuse(seed, f"an error: {error.diagnostics[0].message}", subject.text)

    def _compare(self, seed: int, subject: Program, random: Random) -> None:
        inputs = inputs_of(subject.text, random)
        self._compare_proofs(seed, subject, inputs, random)
        self._compare_access(seed, subject, inputs, random)
        changed = rewritten(subject, random) if seed % SEARCHES == 0 else None
        if changed is not None:
            self._compare_versions(seed, subject, changed, inputs)

    def _refuse(self, seed: int, problem: str, input: Any) -> None:
        self.answers["wrong"] += 1
        text = json.dumps(to_python(input), ensure_ascii=False)
        self.wrong.append(f"seed {seed}: {problem}: {text}")

    def _compare_proofs(
        self, seed: int, subject: Program, inputs: list[Any], random: Random
    ) -> None:
        for verdict in _verdicts(subject, has_search=seed % SEARCHES == 0):
            self.answers[f"prove: {verdict.outcome}"] += 1
            query = subject.engine.prepare(verdict.subject.name)
            breaking = next((each for each in inputs if _is_true(query, each, random)), UNDEFINED)
            if breaking is not UNDEFINED and verdict.outcome == "none exists":
                self._refuse(seed, f"{verdict.subject.name} is proved", breaking)
            if breaking is not UNDEFINED and verdict.outcome == "none found":
                self.answers["prove: none found, and one exists"] += 1
            if verdict.finding is None or _asks_chance(subject):
                continue
            # At the time of the search.
            if not _is_true(query, verdict.finding.input, None):
                self._refuse(seed, f"{verdict.subject.name} is not broken", verdict.finding.input)

    def _compare_access(
        self, seed: int, subject: Program, inputs: list[Any], random: Random
    ) -> None:
        given = random.choice([each for each in inputs if isinstance(each, dict)])
        path = random.choice(PATHS)
        rules = sorted(
            {each.rule for each in subject.parts if each.rule in ("allow", "helper", "multi")}
        )
        name = f"data.p.{random.choice(['never_0', *rules])}"
        access = answer(subject.engine, Question(name, given, [path], (), NOW_NS))
        if access.unknown:
            self.answers["who-can: not certain"] += 1
            return
        kind = "conditions" if access.conditions else "a list" if access.grants else "nobody"
        self.answers[f"who-can: {kind}"] += 1
        query = subject.engine.prepare(name)
        listed = {to_key(each.values[0]) for each in access.grants}
        for each in access.grants:
            if not _holds(query, put(given, path, each.values[0])):
                self._refuse(seed, f"{name} is granted at {path}", given)
        for value in _values_at(inputs, path):
            input = put(given, path, value)
            if to_key(value) in listed or not _holds(query, input):
                continue
            if not self._has_condition(subject, access, input):
                self._refuse(seed, f"{name} holds for nobody else at {path}", input)
                break

    def _has_condition(self, subject: Program, access: Access, input: Any) -> bool:
        """Return False where none of the conditions of others holds for one that is allowed."""
        for condition in access.conditions:
            texts = str(condition.texts)
            if condition.key or "doorward_access" in texts or "not {" in texts:
                return True  # its words are not a query
            rule = f"package shown\nholds if {{ {'; '.join(condition.texts)} }}"
            try:
                engine = Engine({**subject.modules, "shown.rego": rule}, subject.data)
            except RegoError:
                return True
            if _is_true(engine.prepare("data.shown.holds"), input, None):
                return True
        return False

    def _compare_versions(
        self, seed: int, subject: Program, changed: Program, inputs: list[Any]
    ) -> None:
        old, new = (
            Version.compile(Loaded(dict(each.modules), each.data), deadline=0.5)
            for each in (subject, changed)
        )
        paths = entry_points([old, new])
        if not paths or _asks_chance(subject) or _asks_chance(changed):
            return
        pairs = [
            [each.engine.prepare(f"data.{path.replace('/', '.')}") for each in (subject, changed)]
            for path in paths
        ]
        differing = next(
            (i for one, two in pairs for i in inputs if _value(one, i) != _value(two, i)), UNDEFINED
        )
        if are_same(old, new):
            self.answers["diff: equal"] += 1
            if differing is not UNDEFINED:
                self._refuse(seed, "the versions are called equal", differing)
            return
        result = search(old, new, paths, seconds=SEARCHED, clock=_counter())
        for each in result.findings:
            one, two = pairs[paths.index(each.path)]
            if _value(one, each.input) == _value(two, each.input):
                self._refuse(seed, f"{each.path} is called different", each.input)
        if result.findings:
            self.answers["diff: differs"] += 1
        else:
            is_full = bool(result.reach) and all(each.is_full for each in result.reach)
            kind = "none found, reached" if is_full else "not known"
            self.answers[f"diff: {kind}"] += 1
            if differing is not UNDEFINED:
                self.answers[f"diff: {kind}, and there is a difference"] += 1


def _verdicts(subject: Program, *, has_search: bool) -> Iterable[Verdict]:
    if not has_search:
        return proofs(subject.engine)
    loaded = Loaded(dict(subject.modules), subject.data)
    version = Version.compile(loaded, deadline=0.5)
    return prove(loaded, version, seconds=SEARCHED, v0=False, registry=REGISTRY, clock=_counter())


def _asks_chance(subject: Program) -> bool:
    """Return True if the same input may have another answer the next time."""
    return "rand." in subject.text


def _counter() -> Callable[[], float]:
    """A clock that counts how often it is read."""
    readings: Iterator[int] = count()
    return lambda: float(next(readings))


def _is_true(query: Query, input: Any, random: Random | None) -> bool:
    # A proof is about any time.
    now_ns = NOW_NS if random is None else random.choice([NOW_NS, 0, 2 * NOW_NS])
    try:
        return query.answer(input, now_ns=now_ns) is True
    except EvalError:
        return False


def _holds(query: Query, input: Any) -> bool:
    try:
        return query.answer(input, now_ns=NOW_NS) not in (UNDEFINED, False)
    except EvalError:
        return False


def _value(query: Query, input: Any) -> Any:
    try:
        value = query.answer(input, now_ns=NOW_NS)
    except EvalError:
        return _CONFLICT
    return value if value is UNDEFINED else to_key(value)


def _values_at(inputs: list[Any], path: tuple[str, ...]) -> list[Any]:
    """The values that inputs have at a path, each once."""
    values: dict[str, Any] = {}
    for document in inputs:
        value = document
        for name in path:
            value = value.get(name, UNDEFINED) if isinstance(value, dict) else UNDEFINED
        if value is not UNDEFINED:
            values.setdefault(json.dumps(value), value)
    return list(values.values())
