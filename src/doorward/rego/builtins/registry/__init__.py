"""Declarations of built-ins: types of operands, the registry, and what a body may know.

Categories import this; nothing here knows any category.
"""

from doorward.rego.builtins.registry.registry import (
    REGISTRY,
    Builtin,
    Registry,
    builtin,
    check_name,
    operand_error,
    refuse_as_first,
)

__all__ = [
    "REGISTRY",
    "Builtin",
    "Registry",
    "builtin",
    "check_name",
    "operand_error",
    "refuse_as_first",
]
