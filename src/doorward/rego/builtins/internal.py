"""Built-ins that the compiler writes into a policy: template strings, print, and the cases of a
test.

A policy may call these by name as well, but need not.
"""

from __future__ import annotations

from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, array, set_, string
from doorward.rego.errors import CONFLICT_ERROR, EvaluationAborted
from doorward.rego.values import Value, from_key, to_rego

__all__: list[str] = []


class _ConflictError(EvaluationAborted):
    """Ends an evaluation with OPA's conflict error."""

    code = CONFLICT_ERROR


@builtin("internal.template_string", array(any_), returns=string)
def internal_template_string(parts: list[Value]) -> str:
    """The parts as one text. A set stands for an expression: its one member is written, an empty
    set as `<undefined>`; more members end the evaluation with a conflict error.
    """
    return "".join([part if type(part) is str else _text(part) for part in parts])


def _text(part: Value) -> str:
    """One part of a template string as text. A part that is a set has no member (undefined:
    `<undefined>`) or one; with more members _ConflictError ends the evaluation. Strings are not
    quoted.
    """
    if isinstance(part, frozenset):
        if not part:
            return "<undefined>"
        if len(part) > 1:
            raise _ConflictError("template-strings must not produce multiple outputs")
        (member,) = part
        part = from_key(member)
    return part if isinstance(part, str) else to_rego(part)


@builtin("internal.print", array(set_(any_)), returns=None)
def internal_print(_operands: list[Value]) -> bool:
    """Return true and do nothing else: generated code prints, by `Environment.on_print`."""
    return True


@builtin("print", variadic=any_, returns=None)
def print_(*_operands: Value) -> bool:
    """Return true. The compiler turns calls of `print` into `internal.print`, or removes them."""
    return True


@builtin("internal.test_case", array(any_), returns=None, context=True)
def internal_test_case(context: Context, names: list[Value]) -> bool:
    """Return true. The names go to the test runner by `Environment.on_test_case`."""
    if context.environment.on_test_case is not None:
        context.environment.on_test_case(names)
    return True
