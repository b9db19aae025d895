"""Replacements of functions and built-ins under `with`: another function, or a value.

While a replacement runs, all functions are themselves again, so that it may call the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doorward.base.records import record
from doorward.rego.builtins.registry import Builtin
from doorward.rego.runtime.evaluation import Evaluation, Site

__all__ = ["BuiltinMock", "FunctionMock", "ValueMock"]


@record
class ValueMock:
    """A `with` replacement of a function by one value for all operands."""

    value: Any

    def answer(self, state: Evaluation, site: Site, operands: tuple[Any, ...]) -> Any:
        """Return the value, whatever the operands are."""
        return self.value


@record
class FunctionMock:
    """A `with` replacement by a function of the policy."""

    function: Callable[..., Any]

    def answer(self, state: Evaluation, site: Site, operands: tuple[Any, ...]) -> Any:
        """Return the answer of the other function, in an evaluation without replaced functions."""
        return self.function(state.without_mocks(), *operands)


@record
class BuiltinMock:
    """A `with` replacement by another built-in."""

    builtin: Builtin

    def answer(self, state: Evaluation, site: Site, operands: tuple[Any, ...]) -> Any:
        """Return the result of the other built-in for the operands; UNDEFINED if it fails, which is
        recorded in the evaluation's errors under its own name. EvalError if it fails in a strict
        evaluation, or aborts the evaluation.
        """
        arguments = (state, *operands) if self.builtin.context else operands
        return state.call_builtin(Site(self.builtin.name, site.span), self.builtin.call, *arguments)
