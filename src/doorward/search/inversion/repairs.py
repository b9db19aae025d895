"""The inputs that follow from an input: a condition that stopped a rule is made to hold, one that
held is made to fail.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeAlias

from doorward.rego import Engine, Query, RegoError, to_json
from doorward.rego.shared import within
from doorward.rego.tools import Rule
from doorward.search.inversion.interpreter import Interpreter, Policy
from doorward.search.inversion.lenses import FALSY, TRUTHY, Lens, is_truthy
from doorward.search.inversion.outcomes import Visit

__all__ = ["Goal", "Inversion"]

EACH: Final = 24
"""At most this many inputs make one definition hold, and as many make it fail."""
FEW: Final = 4
"""At most this many inputs that make a changed definition fail come before those of others."""
MOST: Final = 512
"""At most this many inputs are stored whose repairs were not all tried."""
SEEN: Final = 20_000
"""After this many different inputs, all are forgotten and may be returned again."""
LONGEST: Final = 200_000
"""An input whose JSON has this many characters or more is dropped."""
STEP: Final = 0.1
"""The time limit for making one input, in seconds."""


Rank: TypeAlias = tuple[int, bool]
"""The number of expressions that hold in the changed definition that gets furthest, and True if the
document is true.
"""


class Goal:
    """A document of one version whose answer a search wants to change by changes of the input.
    `changed`: the texts of the definitions, and of their conditions, to try first.
    """

    def __init__(
        self,
        engine: Engine,
        path: str,
        now_ns: int,
        constants: Sequence[Any],
        changed: frozenset[str] = frozenset(),
    ) -> None:
        # Only its evaluations are needed: they give built-ins their context.
        self._query: Query = engine.prepare("true")
        self._path = [*path.split("/")]
        self._now_ns = now_ns
        self._changed = changed
        program = engine.policies.program
        self._policy = Policy(program.root, program.registry, engine.data, constants)
        self.not_inverted: set[str] = set()

    def repairs(self, input: Any) -> tuple[Rank, Iterator[Any], Iterator[Any]]:
        """Evaluate an input. Return its rank, an iterator of inputs that get the changed
        definitions further, and one of inputs that change anything else; the iterators compute when
        they are used. Adds to `not_inverted`.
        """
        evaluation = self._query.evaluation(input, now_ns=self._now_ns)
        interpreter = Interpreter(self._policy, input, evaluation)
        document = interpreter.document(self._path)
        self.not_inverted |= interpreter.not_inverted
        visited = sorted(interpreter.visited, key=lambda each: not self._is_changed(each[0]))
        changed = [each for each in visited[:4] if self._is_changed(each[0])]
        depth = max((attempt.depth for _, attempt in changed), default=0)
        urgent = self._first(document, changed, visited[len(changed) :], input)
        others = self._others(document, visited, input)
        return (depth, is_truthy(document.value)), urgent, others

    def _first(
        self,
        document: Lens,
        changed: Sequence[Visit],
        others: Sequence[Visit],
        input: Any,
    ) -> Iterator[Any]:
        """Yield the most promising inputs, a few for each definition: where a changed definition
        holds, make the document true and its conditions fail; then make other definitions of the
        same rule fail, which hide it. At last make the changed definitions hold or fail.
        """
        solved = [each for each in changed if each[1].solutions]
        if solved and not is_truthy(document.value):
            yield from islice(document.changed(TRUTHY, input), EACH)
        for _, attempt in solved:
            yield from islice(attempt.spoils(input, self._changed), FEW)
        names = {_name(rule) for rule, _ in solved}
        for rule, attempt in others:
            if attempt.solutions and _name(rule) in names:
                yield from islice(attempt.spoils(input), EACH)
        yield from _flip_rules(changed, input)

    def _others(self, document: Lens, visited: Sequence[Visit], input: Any) -> Iterator[Any]:
        """Yield at most `EACH` inputs that make the document true, then as many that make it false,
        then inputs that make any definition hold or fail.
        """
        for want in (TRUTHY, FALSY):
            yield from islice(document.changed(want, input), EACH)
        yield from _flip_rules(visited, input)

    def _is_changed(self, rule: Rule) -> bool:
        return rule.span.text in self._changed


def _name(rule: Rule) -> tuple[str, str]:
    span = rule.head.ref.span
    return span.file, span.text


def _flip_rules(visited: Sequence[Visit], input: Any) -> Iterator[Any]:
    """Yield inputs that make the visited definitions hold, then inputs that make them fail, at most
    `EACH` for each definition.
    """
    for _, attempt in visited:
        yield from islice(attempt.fixes(input), EACH)
    for _, attempt in visited:
        yield from islice(attempt.spoils(input), EACH)


def _all_repairs(goal: Goal, input: Any) -> Iterator[Any]:
    """Yield all repairs of an input for one goal; the input is evaluated when the first one is
    taken.
    """
    _, first, others = goal.repairs(input)
    yield from first
    yield from others


class Inversion:
    """Yields the repairs of all inputs that `begin` has queued: `new` returns the next one, and no
    input twice, as far as `SEEN` inputs are remembered.

    Every second repair is one of an urgent input: first of those that come from an input for which
    the document is true, since they fulfil all its other conditions, then of those that come
    furthest into a changed definition. Every second of the other repairs is one of the newest
    input.
    """

    def __init__(self, goals: Sequence[Goal]) -> None:
        self._goals = goals
        self._running: list[Iterator[Any]] = []
        self._urgent: list[tuple[tuple[bool, Rank], Iterator[Any]]] = []
        """The repairs of urgent inputs with their ranks, sorted; the last one is taken first."""
        self._turn = 0
        self._seen: set[str] = set()
        self.is_of_true = False
        """True if the last input of `new` comes from an input for which the document is true."""

    @property
    def is_idle(self) -> bool:
        """True if no repairs are left; `new` then returns []."""
        return not self._running and not self._urgent

    @property
    def not_inverted(self) -> set[str]:
        """The names of built-ins without an inverse that were called on parts of the input."""
        return {name for goal in self._goals for name in goal.not_inverted}

    def begin(self, input: Any, *, is_urgent: bool = False, is_of_true: bool = False) -> None:
        """Queue, for each goal, the repairs of an input that `new` shall return. Of more than
        `MOST` in a queue, the oldest are dropped; of the urgent ones those with the lowest rank.

        `is_urgent`: the input gets a changed definition further; it is evaluated now, for at most
        `STEP` seconds, and dropped if that fails. `is_of_true`: the document is true for it, or for
        an input that it was made from.
        """
        for goal in self._goals:
            if is_urgent:
                with suppress(RegoError, RecursionError), within(STEP):
                    rank, urgent, others = goal.repairs(input)
                    order = is_of_true, rank
                    insort(self._urgent, (order, urgent), key=lambda each: each[0])
                    self._running.append(others)
            else:
                # To find out what an input leads to costs as much as a hundred decisions: later.
                self._running.append(_all_repairs(goal, input))
        del self._running[:-MOST]
        del self._urgent[:-MOST]

    def new(self) -> list[Any]:
        """Return, in a list, the next repair of a queued input that was not returned before (as far
        as they are remembered); [] if there is none left. Sets `is_of_true` for it. Inputs whose
        computation fails or takes too long are dropped.
        """
        while not self.is_idle:
            self._turn += 1
            self.is_of_true = False
            if self._urgent and (self._turn % 2 or not self._running):
                (self.is_of_true, _), repairs = self._urgent[-1]
                inputs = self._next(repairs)
                if inputs:
                    return inputs
                if inputs is None:
                    self._urgent.pop()
                continue
            # Every second turn of these is that of the newest.
            turn, newest = self._turn // 2, len(self._running) - 1
            index = newest if turn % 2 else turn // 2 % len(self._running)
            inputs = self._next(self._running[index])
            if inputs:
                return inputs
            if inputs is None:
                del self._running[index]
        return []

    def _next(self, repairs: Iterator[Any]) -> list[Any] | None:
        """Take the next input of these repairs and return it in a list; [] if it was returned
        before or is too long, None if there are no more, or if its computation failed or took more
        than `STEP` seconds.
        """
        try:
            with within(STEP):
                input = next(repairs)
                text = to_json(input)
        except (StopIteration, RegoError, RecursionError):
            return None
        if text in self._seen or len(text) >= LONGEST:
            return []
        if len(self._seen) >= SEEN:
            self._seen.clear()
        self._seen.add(text)
        return [input]
