"""Several tracers on one evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doorward.rego.shared import Evaluation, Profile, Span, Tracer
from doorward.rego.tools import Expr, Rule
from doorward.testing.coverage import Coverage

__all__ = ["Both", "BothPartial"]


class Both:
    """A tracer that passes every event to all of `tracers`, in their order."""

    def __init__(self, tracers: Sequence[Tracer]) -> None:
        self.tracers = tracers

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        for tracer in self.tracers:
            tracer.enter(evaluation, name, operands)

    def leave(self, name: str, answer: Any) -> None:
        for tracer in self.tracers:
            tracer.leave(name, answer)

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Tell all tracers that `node` is about to be evaluated or, with `holds`, that it holds;
        `bound` are its variables with values.
        """
        for tracer in self.tracers:
            tracer.trace(evaluation, node, holds, bound)


class BothPartial:
    """A tracer of partial evaluation that passes every event to all of `tracers`, in their
    order.
    """

    def __init__(self, tracers: Sequence[Coverage | Profile]) -> None:
        self.tracers = tracers

    def note(self, span: Span, *, holds: bool, is_rule: bool) -> None:
        for tracer in self.tracers:
            tracer.note(span, holds=holds, is_rule=is_rule)
