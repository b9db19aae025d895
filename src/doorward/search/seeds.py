"""Inputs of the tests of policies, whatever term constructs them.

A test is evaluated, and the input that a `with` sets is recorded when a rule is evaluated with it.
So the tracer sees a union of objects or the parameter of a helper just as an input that is written
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic, thread_time
from typing import Any, Final

from doorward.rego import Engine, RegoError, Value, to_json
from doorward.rego.shared import Evaluation
from doorward.rego.tools import Expr, Rule, path_text

__all__ = ["inputs_of_tests"]

MOST: Final = 400
"""At most this many inputs of tests are recorded."""
SECONDS: Final = 2.0
"""The limit of all tests together, in seconds of processor time."""
LONGEST: Final = 10.0
"""The limit of all tests together in seconds of the clock, for a busy machine."""
EACH: Final = 1.0
"""The limit of one test, in seconds."""


class _Inputs:
    """A tracer that records the inputs with which rules are evaluated."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] = {}
        self._last: Any = None

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """Record the input with which a rule is evaluated, if it is an object, up to `MOST`
        different ones.
        """
        input = evaluation.input
        if input is not self._last and isinstance(input, dict) and len(self.noted) < MOST:
            self._last = input
            self.noted.setdefault(to_json(input), input)

    def leave(self, name: str, answer: Any) -> None:
        """Do nothing: the inputs are recorded when a rule begins."""

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Ignore expressions: they are evaluated with the input of their rule."""


def inputs_of_tests(engine: Engine, known: set[str] | None = None) -> list[Any]:
    """Evaluate the tests among an engine's policies and return the different inputs that they use,
    except `{}`, at most `MOST`. A test that fails or takes too long contributes its inputs until
    then; all tests together have `SECONDS`. `known` holds the sources of tests of other versions:
    tests with a known source are skipped ([]), a new source is added to it.
    """
    known = set() if known is None else known
    tests = [
        node.path
        for node in engine.policies.program.root.walk()
        if node.definitions
        and str(node.path[-1]).startswith("test_")
        and not node.definitions[0].is_function
    ]
    if not tests:
        return []
    source = _source_of(engine, {path[:-1] for path in tests})
    if source in known:
        return []
    known.add(source)
    inputs = _Inputs()
    traced = engine.policies.traced().bind(engine.data, is_parsed=True)
    until, latest = thread_time() + SECONDS, monotonic() + LONGEST
    for path in tests:
        if thread_time() > until or monotonic() > latest or len(inputs.noted) >= MOST:
            break
        try:
            query = traced.prepare(path_text(path), deadline=EACH)
            evaluation = query.evaluation({})
            evaluation.tracer = inputs
            query.value_of(evaluation)
        except RegoError:
            continue  # what was noted until then is of use
    inputs.noted.pop("{}", None)
    return list(inputs.noted.values())


def _source_of(engine: Engine, packages: set[tuple[Any, ...]]) -> str:
    """Return the rules of these packages and all data, which the inputs of tests may depend on, as
    one text.
    """
    texts: list[Value] = [
        definition.rule.span.text
        for node in engine.policies.program.root.walk()
        if node.path[:-1] in packages
        for definition in node.definitions
    ]
    return to_json([texts, engine.data])
