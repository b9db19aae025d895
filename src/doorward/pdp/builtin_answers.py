"""The answers of impure built-ins in a decision, for `nd_builtin_cache` in its event.

Built-ins of a registry that `noting` returned store their answers in the evaluation, if it has room
for them. In other evaluations (a policy that masks, a test) they only answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from doorward.rego import UNDEFINED, Builtin, Context, Registry, to_json

__all__ = ["MAX_ANSWERS", "TIME_ALONE", "noting"]

MAX_ANSWERS: Final = 1_000
"""Limit of noted answers of one built-in in one decision; later answers are not noted."""

TIME_ALONE: Final = frozenset(
    {
        "crypto.x509.parse_and_verify_certificates",
        "crypto.x509.parse_and_verify_certificates_with_options",
    }
)
"""Impure built-ins that depend on nothing but the time; OPA does not note them either."""


def noting(registry: Registry) -> Registry:
    """Return a registry whose impure built-ins also store their answers in the evaluation, for the
    decision log. Pure built-ins, and those that depend only on the time (`TIME_ALONE`), are
    unchanged.
    """
    asking = [each for each in registry if not each.pure and each.name not in TIME_ALONE]
    recorded = {each.name for each in registry}.difference(each.name for each in asking)
    return registry.restricted(recorded, map(_note_answers, asking))


def _note_answers(builtin: Builtin) -> Builtin:
    return builtin.answered_by(_recording(builtin), context=True)


def _recording(builtin: Builtin) -> Callable[..., Any]:
    """Return code for a built-in that calls it and stores its answer in the evaluation by the
    operands, for the decision log. At most `MAX_ANSWERS` of each built-in are stored, undefined
    ones are not, and none if the evaluation does not record answers. The first operand is always
    the context.
    """
    name, ask, takes_context = builtin.name, builtin.call, builtin.context

    def answer(context: Context, *operands: Any) -> Any:
        """Call the built-in and return its value, which is stored under the operands as JSON if the
        evaluation records answers and has fewer than `MAX_ANSWERS` of this built-in. Errors pass
        through; neither they nor undefined answers are stored, as in OPA.
        """
        value = ask(context, *operands) if takes_context else ask(*operands)
        # A `with` evaluates in a context of its own, and its answers belong to the same decision.
        notes = (context.origin or context).answered
        if notes is not None and value is not UNDEFINED:
            of_this = notes.setdefault(name, {})
            if len(of_this) < MAX_ANSWERS:
                of_this[to_json(list(operands))] = value
        return value

    return answer
