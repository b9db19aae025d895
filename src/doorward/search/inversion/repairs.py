"""The inputs that an input leads to: what stopped a rule is repaired, what held is made to fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from doorward.rego import Engine, Query, RegoError, to_json, within
from doorward.rego.tools import Rule
from doorward.search.inversion.interpreter import Attempt, Interpreter, Policy
from doorward.search.inversion.lenses import FALSY, TRUTHY

__all__ = ["Goal", "Inversion"]

EACH: Final = 24
"""Inputs from one definition, for each of the two directions."""
MOST: Final = 512
"""Inputs whose repairs are not all made."""
SEEN: Final = 20_000
"""Inputs that are remembered, so that none is made twice."""
LONGEST: Final = 200_000
"""Characters of an input as JSON."""
STEP: Final = 0.1
"""Seconds that one input may take to be made."""


class Goal:
    """A document of one version, to be changed by changing the input. `changed` are the definitions
    to look at first."""

    def __init__(
        self,
        engine: Engine,
        path: str,
        now_ns: int,
        constants: Sequence[Any],
        changed: frozenset[str] = frozenset(),
    ) -> None:
        self._query: Query = engine.prepare("true")
        self._path = [*path.split("/")]
        self._now_ns = now_ns
        self._changed = changed
        program = engine.policies.program
        self._policy = Policy(program.root, program.registry, engine.data, constants)
        self.not_inverted: set[str] = set()

    def repairs(self, input: Any) -> Iterator[Any]:
        """Changed inputs, the most promising first."""
        evaluation = self._query.evaluation(input, now_ns=self._now_ns)
        interpreter = Interpreter(self._policy, input, evaluation)
        document = interpreter.document(self._path)
        self.not_inverted |= interpreter.not_inverted
        visited = sorted(interpreter.visited, key=lambda each: not self._is_changed(each[0]))
        if any(self._is_changed(rule) for rule, _ in visited[:1]):
            yield from _turned(visited[:4], input)
        for want in (TRUTHY, FALSY):
            yield from islice(document.changed(want, input), EACH)
        yield from _turned(visited, input)

    def _is_changed(self, rule: Rule) -> bool:
        return rule.span.text in self._changed


def _turned(visited: Sequence[tuple[Rule, Attempt]], input: Any) -> Iterator[Any]:
    for _, attempt in visited:
        yield from islice(attempt.fixes(input), EACH)
    for _, attempt in visited:
        yield from islice(attempt.spoils(input), EACH)


class Inversion:
    """Repairs of all inputs that were worth it, in turns, the newest first."""

    def __init__(self, goals: Sequence[Goal]) -> None:
        self._goals = goals
        self._running: list[Iterator[Any]] = []
        self._turn = 0
        self._seen: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Return True where everything was made that inputs lead to."""
        return not self._running

    @property
    def not_inverted(self) -> set[str]:
        """Built-ins that have no inverse and stood between the input and a condition."""
        return {name for goal in self._goals for name in goal.not_inverted}

    def begin(self, input: Any) -> None:
        """Let an input lead to others."""
        self._running += [goal.repairs(input) for goal in self._goals]
        del self._running[:-MOST]

    def new(self) -> list[Any]:
        """The next input; none where everything was made."""
        while self._running:
            # Every second turn is that of the newest, which is the furthest on.
            self._turn += 1
            newest = len(self._running) - 1
            index = newest if self._turn % 2 else self._turn // 2 % len(self._running)
            try:
                with within(STEP):
                    input = next(self._running[index])
                    text = to_json(input)
                if text not in self._seen and len(text) < LONGEST:
                    if len(self._seen) >= SEEN:
                        self._seen.clear()
                    self._seen.add(text)
                    return [input]
            except (StopIteration, RegoError, RecursionError):
                del self._running[index]
        return []
