"""The search itself: both versions decide each candidate, and what is new to either is kept."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import cycle
from random import Random
from typing import Any, Final

from doorward.base.records import mutable, record, replace
from doorward.rego import UNDEFINED, Engine, Query, RegoError, Value, to_json
from doorward.rego.shared import Evaluation
from doorward.rego.tools import Call, Expr, Rule, Scalar, format_tree, path_text, walk
from doorward.replay.causes import Cause, cause_of
from doorward.replay.compare import UNCHANGED, Answer, kind_of
from doorward.replay.deciding import Version
from doorward.replay.events import Event
from doorward.search.candidates import Candidates, Focus
from doorward.search.inversion import Goal, Inversion
from doorward.search.shape import shape_of

__all__ = ["Finding", "Reach", "Search", "entry_points", "search"]

NOW_NS: Final = 1_790_000_000_000_000_000
"""The time at which inputs are decided, in nanoseconds since the epoch."""
SMALLER: Final = 2_000
"""At most this many inputs are tried to make one finding smaller."""
TURN: Final = 0.05
"""The time in seconds for which one document is searched before the next one has its turn."""


@record
class Finding:
    """A request that the two versions decide differently, with the cause."""

    path: str
    input: Any
    kind: str
    old: Answer
    new: Answer
    cause: Cause
    reads_clock: bool = True
    """True if the document or a rule that it uses calls `time.now_ns()`."""


@record
class Reach:
    """An expression that is watched in a search. `holds`, `fails`: True if some request made it
    hold, or fail; `where`: file, row and column.
    """

    where: str
    text: str
    holds: bool = False
    fails: bool = False

    @property
    def is_full(self) -> bool:
        """True if some request made the expression hold, and some made it fail."""
        return self.holds and self.fails


@mutable
class Search:
    """The result of a search. `candidates`: the number of requests that were tried; `different`:
    the number of them that the versions decide differently; `seconds`: the time that the search
    took.
    """

    candidates: int = 0
    different: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    reached: int = 0
    """The number of different rules, expressions, outcomes and orders of counts that were reached
    in either version: a measure of how far the search came.
    """
    reach: tuple[Reach, ...] = ()
    """The reach of each expression in a rule that only one version has, or that was watched."""
    is_equal: bool = False
    """True if the versions have the same rules and data; then no request was tried."""
    not_inverted: frozenset[str] = frozenset()
    """The names of built-ins between the input and a condition for which the search computes no
    operand from a result.
    """


PROPERTY: Final = "never_"
"""The prefix of the names of rules that must never be true."""
_Node = tuple[int | str, bool, int]
"""The id of an expression or definition, its outcome, and the bit length of the count; or the name
of a rule, True, and the number of its definitions that held.
"""
MANY: Final = 15
"""More definitions of a rule that hold than this count as this many."""
_Key = tuple[str, int, int, bool]
"""The position of an expression (file, start, end), and True if it is negated."""
_Outcome = tuple[_Key, bool]
_ANSWER: Final[_Key] = ("", 0, 0, False)
"""The key of the document's own answer, among the keys of expressions."""
_MOST_OUTCOMES: Final = 2_000
"""After this many different sets of outcomes, a new one no longer makes an input urgent."""


class _Reached:
    """A tracer that counts how often each expression was evaluated and held. The counts are a part
    of `nodes`, so that an input is new if a condition holds for more items than before, or if
    another number of definitions of a rule holds.
    """

    def __init__(self, reach: _ReachOf) -> None:
        self._reach = reach
        self._counts: Counter[tuple[int, bool]] = Counter()
        self._rules: Counter[str] = Counter()
        self.outcomes: set[_Outcome] = set()
        """The outcomes of the watched expressions in this evaluation."""

    def nodes(self) -> set[_Node]:
        """Return each rule and expression that was reached, with its outcome and the size of its
        count: for an expression the number of bits, so that 4 and 7 times are the same, for a rule
        the count itself up to `MANY`.
        """
        nodes: set[_Node] = {
            (node, holds, count.bit_length()) for (node, holds), count in self._counts.items()
        }
        return nodes | {(name, True, min(count, MANY)) for name, count in self._rules.items()}

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """Do nothing: `trace` counts the definitions of rules."""

    def leave(self, name: str, answer: Any) -> None:
        """Do nothing: `trace` counts what holds."""

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Count a rule or an expression that is about to be evaluated (`holds` is False) or that
        holds. The outcome of a watched expression is added to `outcomes`.
        """
        # The traced programs live as long as the search, so no two nodes have the same id.
        self._counts[id(node), holds] += 1
        if not isinstance(node, Rule) and (key := self._reach.note(node, holds=holds)):
            self.outcomes.add((key, holds))
        if isinstance(node, Rule):
            self._rules[node.head.ref.span.text] += holds


class _ReachOf:
    """Collects which of the expressions in `rules` held, and which failed, in any of the
    requests.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        expressions = [each for rule in rules for each in _find_written(rule)]
        self._keys = {_key(each): each for each in expressions if each.span.file}
        self._holds: set[_Key] = set()
        self._fails: set[_Key] = set()
        self._open: set[_Key] = set()

    def note(self, expr: Expr, *, holds: bool) -> _Key | None:
        """Record that an expression is about to be evaluated (`holds` is False) or that it holds.
        An expression that is evaluated once more without having held has failed. Return its key;
        None if it is not watched.
        """
        key = _key(expr)
        if key not in self._keys:
            return None
        if holds:
            self._holds.add(key)
            self._open.discard(key)
        else:
            if key in self._open:
                self._fails.add(key)
            self._open.add(key)
        return key

    def end(self) -> None:
        """End an evaluation: expressions that were evaluated and did not hold count as failed."""
        self._fails |= self._open
        self._open.clear()

    def all(self) -> tuple[Reach, ...]:
        """Return the reach of each expression, in the order of files and positions."""
        return tuple(
            Reach(str(expr.span), expr.span.text, key in self._holds, key in self._fails)
            for key, expr in sorted(self._keys.items(), key=lambda each: each[0])
        )


def _find_written(rule: Rule) -> Iterator[Expr]:
    """Yield the expressions of a rule, without those that the compiler added for a negated one."""
    expressions = [node for node in walk(rule) if isinstance(node, Expr)]
    prepared = {id(each) for expr in expressions for each in expr.before}
    return (each for each in expressions if id(each) not in prepared)


def _together(reach: Iterable[Reach]) -> tuple[Reach, ...]:
    """Merge the reach of the expressions with the same position and text in both versions."""
    known: dict[tuple[str, str], Reach] = {}
    for each in reach:
        other = known.get((each.where, each.text), each)
        holds, fails = each.holds or other.holds, each.fails or other.fails
        known[each.where, each.text] = Reach(each.where, each.text, holds, fails)
    return tuple(known.values())


def _key(expr: Expr) -> _Key:
    # A negated expression has the same span as the expression below its `not`.
    return expr.span.file, expr.span.start, expr.span.end, expr.negated


class _Pair:
    """One document in two versions of the policies: decides an input with both and traces it. A
    version without a rule for the document is not traced.
    """

    def __init__(
        self, old: Version, new: Version, path: str, reach: Mapping[int, _ReachOf]
    ) -> None:
        self.versions = old, new
        self._reach = reach
        self.path = path
        self._trace = [
            (number, query)
            for number, each in enumerate((old, new))
            if (query := _trace(each, path)) is not None
        ]
        self._reads_clock = any(_reads_clock(query) for _, query in self._trace)

    def event(self, input: Any) -> Event:
        return Event("", self.path, "", input, None, False, NOW_NS, (), {}, {})

    def kind(self, input: Any) -> str:
        """Return the kind of difference, a key of `KINDS`, that an input makes. UNCHANGED also if a
        version did not finish in time, or if an answer needs unknown values.
        """
        event = self.event(input)
        old, new = (version.answer(event) for version in self.versions)
        # Which version is late depends on the machine: a difference that may not reproduce.
        if old.is_late or new.is_late:
            return UNCHANGED
        kind = kind_of(old, new)
        return UNCHANGED if kind == "not-replayable" else kind

    def warm(self) -> None:
        """Decide the empty input once with all code that a search runs, so that code is generated
        before its time begins.
        """
        self.kind({})
        for _, query in self._trace:
            evaluation = query.evaluation({}, now_ns=NOW_NS)
            evaluation.tracer = _Reached(_ReachOf(()))
            with suppress(RegoError):
                query.value_of(evaluation)

    def reached(self, input: Any) -> tuple[set[_Node], frozenset[tuple[int, _Outcome]]]:
        """Evaluate an input in both versions with a tracer. Return the rules and expressions that
        were evaluated, and the outcomes of the document and of watched expressions in each version.

        Also adds to the reach of the search. An evaluation error ends a version early.
        """
        nodes: set[_Node] = set()
        outcomes: set[tuple[int, _Outcome]] = set()
        for number, query in self._trace:
            tracer = _Reached(self._reach[number])
            evaluation = query.evaluation(input, now_ns=NOW_NS)
            evaluation.tracer = tracer
            with suppress(RegoError):  # what was reached until then counts
                answer = query.value_of(evaluation)
                outcomes.add((number, (_ANSWER, answer is not UNDEFINED and answer is not False)))
                # Only after an evaluation that ended: after an error, open expressions have
                # neither held nor failed.
                self._reach[number].end()
            nodes |= tracer.nodes()
            outcomes |= {(number, each) for each in tracer.outcomes}
        return nodes, frozenset(outcomes)

    def finding(self, input: Any, kind: str) -> Finding:
        """Return the finding for an input, with both answers and the cause of the difference."""
        event = self.event(input)
        old, new = self.versions
        cause = cause_of(kind, old.trail(event), new.trail(event), old.definitions)
        answers = old.answer(event), new.answer(event)
        return Finding(self.path, input, kind, *answers, cause, self._reads_clock)


def _reads_clock(query: Query) -> bool:
    """Return True if a rule that the query reads, directly or through others, calls
    `time.now_ns`.
    """
    rules = [each.rule for node in query.rules_read for each in node.definitions]
    calls = [node for rule in rules for node in walk(rule) if isinstance(node, Call)]
    return any(call.name == "time.now_ns" for call in calls)


def _trace(version: Version, path: str) -> Query | None:
    """Return the query of the document in code that traces, with its code generated; None if no
    rule defines it.
    """
    engine = version.snapshot.engine
    document: Any = version.snapshot.document(path)
    if not isinstance(document, Query):
        return None
    # Generating code must count neither as search nor for the deadline of a request.
    document.warm()
    traced = engine.policies.traced().bind(engine.data, is_parsed=True)
    query = traced.prepare(document.text, deadline=document.deadline)
    query.warm()
    return query


def search(
    old: Version,
    new: Version,
    paths: Sequence[str],
    *,
    seconds: float = 2.0,
    seed: int = 0,
    most: int = 10,
    guided: bool = True,
    watched: Container[str] = (),
    is_enough: Callable[[Search], bool] = lambda _search: False,
    clock: Callable[[], float] = time.monotonic,
) -> Search:
    """Search for requests that `old` and `new` decide differently, for the documents at `paths` in
    turns. It ends after `seconds` of `clock`, or when `is_enough(result)` is True after a
    difference. The time begins when all code is generated; making a difference smaller may exceed
    it. At most `most` findings with different causes are kept; later differences are only counted.
    `guided=False` disables guidance by constants and reached rules, for comparison. The result has
    the reach of changed definitions and of the `watched` rules; `Search.is_equal` is left to the
    caller.
    """
    result = Search()
    material = shape_of([version.snapshot.engine for version in (old, new)])
    if not guided:
        material.examples.clear()
        for _, each in material.shape.locations():
            each.values.clear()
            each.peers.clear()
    reached: set[_Node] = set()
    # Everything up to `began` compiles: it must not use up the time of the search.
    changed = changed_definitions(old, new)
    reach = {
        number: _ReachOf(
            rule
            for rule in _rules(version)
            if rule.span.text in changed or str(rule.head.ref.span.text) in watched
        )
        for number, version in enumerate((old, new))
    }
    focus = _constants_of_changes(old, new)
    hunts = [
        _Hunt(
            _Pair(old, new, path, reach),
            Candidates(material, Random(seed), focus if guided else Focus()),
            _inversion((old, new), path, material.constants, changed) if guided else Inversion([]),
            reached,
            guided=guided,
        )
        for path in paths
    ]
    for hunt in hunts:
        hunt.pair.warm()
    causes: set[tuple[str, str, Cause]] = set()
    began = clock()
    until = began + seconds
    # In turns, so that a longer search goes further in each document.
    for hunt in cycle(hunts):
        for input, kind in hunt.differences(min(clock() + TURN, until), clock, result):
            if len(result.findings) < most:
                _add_finding(hunt.pair, input, kind, causes, result)
            if is_enough(result):
                break
        if is_enough(result) or clock() >= until:
            break
    result.reached = len(reached)
    result.reach = _together([*reach[0].all(), *reach[1].all()])
    result.not_inverted = frozenset(name for hunt in hunts for name in hunt.inversion.not_inverted)
    result.seconds = clock() - began
    return result


def _add_finding(
    pair: _Pair, input: Any, kind: str, causes: set[tuple[str, str, Cause]], result: Search
) -> None:
    """Reduce an input, and add its finding to `result` and the finding's cause to `causes`; nothing
    if the cause is in `causes` or if the reduced input makes another difference.
    """
    small = _smaller(pair, input, kind)
    finding = pair.finding(small, kind)
    key = pair.path, kind, finding.cause
    # Both versions decide it once more: a finding that does not reproduce is never reported.
    if key not in causes and pair.kind(small) == kind:
        causes.add(key)
        result.findings.append(finding)


class _Hunt:
    """The search for differences in one document, which can be interrupted and continued."""

    def __init__(
        self,
        pair: _Pair,
        candidates: Candidates,
        inversion: Inversion,
        reached: set[_Node],
        *,
        guided: bool,
    ) -> None:
        self.pair = pair
        self._candidates = candidates
        self.inversion = inversion
        self._seconds = {False: 0.0, True: 0.0}
        self._reached = reached
        self._outcomes: set[tuple[bool, frozenset[tuple[int, _Outcome]]]] = set()
        self._is_guided = guided
        self._random = Random(0)
        self._waiting = list(candidates.corpus)

    def differences(
        self, until: float, clock: Callable[[], float], result: Search
    ) -> Iterator[tuple[Any, str]]:
        """Try inputs until `clock` reaches `until`, at least one; yield those that make a
        difference, each with its kind. A further call goes on from there. Inputs are counted in
        `result`; in a guided search those that reach something new become the basis of later ones.
        """
        began = clock()
        while True:
            # Half of the time each: an inverted candidate costs many times what a random one does.
            is_inverted = self._seconds[True] <= self._seconds[False]
            is_first = bool(self._waiting)
            if is_inverted and not is_first and self._is_guided and self.inversion.is_idle:
                self.inversion.begin(self._candidates.new())
            inverted = self.inversion.new() if is_inverted and not is_first else []
            if inverted:
                input = inverted[0]
            else:
                input = self._waiting.pop() if is_first else self._candidates.new()
            result.candidates += 1
            kind = self.pair.kind(input)
            if kind != UNCHANGED:
                result.different += 1
                yield input, kind
            # Tracing costs a multiple of deciding, so only every other random input is traced.
            if self._is_guided and (is_first or inverted or self._random.random() < 0.5):
                nodes, outcomes = self.pair.reached(input)
                is_true = any(key == _ANSWER and holds for _, (key, holds) in outcomes)
                is_of_true = is_true or (bool(inverted) and self.inversion.is_of_true)
                progress = is_of_true, outcomes
                is_urgent = progress not in self._outcomes and len(self._outcomes) < _MOST_OUTCOMES
                if is_urgent:
                    self._outcomes.add(progress)
                if is_urgent or not nodes <= self._reached:
                    self._reached |= nodes
                    self._candidates.keep(input)
                    self.inversion.begin(input, is_urgent=is_urgent, is_of_true=is_of_true)
            now = clock()
            self._seconds[is_inverted] += now - began
            began = now
            if now >= until:
                return


def changed_definitions(old: Version, new: Version) -> frozenset[str]:
    """Return the texts of the definitions that only one of the versions has."""
    texts = [{rule.span.text for rule in _rules(version)} for version in (old, new)]
    return frozenset(texts[0] ^ texts[1])


def _changed_conditions(versions: Sequence[Version], changed: frozenset[str]) -> frozenset[str]:
    """Return the texts of the conditions, in changed definitions, that only one version has."""
    texts = [
        {
            expr.span.text
            for rule in _rules(version)
            if rule.span.text in changed
            for expr in _find_written(rule)
        }
        for version in versions
    ]
    return frozenset(texts[0] ^ texts[1])


def _constants_of_changes(old: Version, new: Version) -> Focus:
    """Return the constants that only one version has in the definitions of a rule; if there are
    none, all constants of the changed definitions. `beside` of the result: all constants of the
    rules in which one was found.
    """
    known = [_constants_by_rule(version) for version in (old, new)]
    apart: dict[str, Value] = {}
    beside: dict[str, Value] = {}
    for path in known[0].keys() | known[1].keys():
        one, other = (each.get(path, {}) for each in known)
        values = {**one, **other}
        changed = {text: values[text] for text in one.keys() ^ other.keys()}
        apart |= changed
        if changed:
            beside |= values
    if not apart:
        changed_texts = changed_definitions(old, new)
        rules = [rule for version in (old, new) for rule in _rules(version)]
        for rule in rules:
            if rule.span.text in changed_texts:
                apart |= _constants_of(rule)
        beside = apart
    return Focus(tuple(apart[text] for text in sorted(apart)), frozenset(beside))


def _constants_by_rule(version: Version) -> dict[tuple[Any, ...], dict[str, Value]]:
    """Return the constants in each rule: by the rule's path, then by their JSON text."""
    constants: dict[tuple[Any, ...], dict[str, Value]] = {}
    for node in version.snapshot.engine.policies.program.root.walk():
        for definition in node.definitions:
            constants.setdefault(node.path, {}).update(_constants_of(definition.rule))
    return constants


def _constants_of(rule: Rule) -> dict[str, Value]:
    values = [node.value for node in walk(rule) if isinstance(node, Scalar)]
    return {to_json(value): value for value in values}


def _rules(version: Version) -> Iterator[Rule]:
    """Yield the rules of all definitions of a version."""
    for node in version.snapshot.engine.policies.program.root.walk():
        for definition in node.definitions:
            yield definition.rule


def _inversion(
    versions: Sequence[Version], path: str, constants: Sequence[Any], changed: frozenset[str]
) -> Inversion:
    """Return the inversion for a document of both versions; the new version is inverted first."""
    # The new version first: what was added is reached by its conditions.
    engines = [version.snapshot.engine for version in reversed(versions)]
    texts = changed | _changed_conditions(versions, changed)
    return Inversion([Goal(engine, path, NOW_NS, constants, texts) for engine in engines])


def _smaller(pair: _Pair, input: Any, kind: str) -> Any:
    """Simplify an input step by step while the versions still differ in the same `kind`, and return
    the simplest input that was reached so. Decides at most `SMALLER` inputs.
    """
    left = SMALLER
    is_smaller = True
    while is_smaller and left > 0:
        is_smaller = False
        for simpler in _simpler(input):
            left -= 1
            if left <= 0:
                break
            if pair.kind(simpler) == kind:
                input, is_smaller = simpler, True
                break
    return input


def _simpler(value: Any) -> Iterator[Any]:
    """Yield variants of a value that are one step simpler: an empty collection, then each with a
    part removed, then each with a part made simpler; "a" for a longer text, 0 and 1 for another
    number. Nothing if there is none.
    """
    if isinstance(value, dict):
        if value:
            yield {}
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            for simpler in _simpler(item):
                yield {**value, key: simpler}
    elif isinstance(value, list):
        if value:
            yield []
        for number in range(len(value)):
            yield [*value[:number], *value[number + 1 :]]
        for number, item in enumerate(value):
            for simpler in _simpler(item):
                yield [*value[:number], simpler, *value[number + 1 :]]
    elif isinstance(value, str) and len(value) > 1:
        yield "a"
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value not in (0, 1):
        yield 0
        yield 1


def _is_of_tests(path: Sequence[str]) -> bool:
    """Return True if the path names a test or a property (`never_`), or anything below a package
    whose name ends in `_test`.
    """
    *packages, name = path
    is_test = name.startswith(("test_", "todo_test_", PROPERTY))
    return is_test or any(package.endswith("_test") for package in packages)


def are_same(old: Version, new: Version) -> bool:
    """Return True if two versions have the same data and the same rules, apart from layout and from
    comments that no policy reads. False does not prove that they decide anything differently.
    """
    engines = [version.snapshot.engine for version in (old, new)]
    if to_json(engines[0].data) != to_json(engines[1].data):
        return False
    texts = [_texts_of(engine) for engine in engines]
    return texts[0] == texts[1]


def _texts_of(engine: Engine) -> Counter[tuple[str, ...]]:
    """Count the rules of an engine by Rego version and text, with package and imports but without
    layout and comments. If a policy reads `rego.metadata`, the texts of the files are included,
    since comments then count.
    """
    texts: Counter[tuple[str, ...]] = Counter()
    trees = engine.trees.values()
    reads_metadata = any("rego.metadata" in tree.span.source.text for tree in trees)
    for tree in trees:
        if reads_metadata:
            texts[tree.span.source.text,] += 1
        for rule in tree.rules:
            texts[str(tree.v1), format_tree(replace(tree, rules=(rule,), comments=()))] += 1
    return texts


def entry_points(versions: Iterable[Version]) -> list[str]:
    """Return the documents (such as `app/allow`), sorted, that every version has and to which no
    other rule refers; references in tests and properties do not count. Functions, tests and
    properties are not listed.
    """
    entries: list[set[str]] = []
    for version in versions:
        engine = version.snapshot.engine
        rules = {
            tuple(str(key) for key in node.path)
            for node in engine.policies.program.root.walk()
            if node.definitions and all(rule.rule.head.args is None for rule in node.definitions)
        }
        rules = {path for path in rules if not _is_of_tests(path)}
        read: set[tuple[str, ...]] = set()
        for path in rules:
            query = path_text(path)
            documents = engine.documents(query).virtual
            read |= {tuple(map(str, each[1:])) for each in documents} - {path}
        entries.append({"/".join(path) for path in rules - read})
    return sorted(set.intersection(*entries)) if entries else []
