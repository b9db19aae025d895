"""Built-ins of a module that a test names before it is imported."""

from __future__ import annotations

from tests.rego.builtins.registry.test_registry import LATE

from doorward.rego.builtins.registry.signature import number


@LATE[0].builtin("late.one", returns=number)
def late_one() -> int:
    """One."""
    return 1


@LATE[0].builtin("late.two", returns=number)
def late_two() -> int:
    """Two."""
    return 2
