"""Rules that report to the evaluation's tracer: code does if the engine was made with `traced`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.values import UNDEFINED

__all__ = ["traced"]


def traced(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function for the rules at `name` so that it reports to the evaluation's tracer."""

    def report(ctx: Evaluation, *operands: Any) -> Any:
        """Return the function's answer. The tracer, if there is one, gets `enter` before and
        `leave` after it, with UNDEFINED if an error is raised.
        """
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
