"""What traced code reports while it runs: rules entered and left, expressions asked and found true.

Code reports only if the engine was made with `traced`; who listens is said for each evaluation.
What is made of the reports (explanations, coverage) is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from doorward.rego.values import UNDEFINED

if TYPE_CHECKING:
    from doorward.rego.runtime.evaluation import Evaluation
    from doorward.rego.syntax.nodes import Expr, Rule

__all__ = ["Tracer", "traced"]


class Tracer(Protocol):
    """Listens to one evaluation; called from the thread that evaluates."""

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """The rules at `name` (`data.a.p`) are about to be asked, a function with `operands`."""

    def leave(self, name: str, answer: Any) -> None:
        """They have answered; UNDEFINED also where evaluation stopped."""

    def step(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """`node` is about to be asked, or holds; `bound`: its variables that have a value."""


def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which answers for the rules at `name`, reporting to the evaluation's tracer."""

    def report(ctx: Evaluation, *operands: Any) -> Any:
        tracer = ctx.tracer
        if tracer is None:
            return function(ctx, *operands)
        answer: Any = UNDEFINED
        tracer.enter(ctx, name, operands)
        try:
            answer = function(ctx, *operands)
        finally:
            tracer.leave(name, answer)
        return answer

    return report
