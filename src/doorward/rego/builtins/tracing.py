"""Notes for a trace."""

from __future__ import annotations

from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.signature import boolean, string

__all__: list[str] = []


@builtin("trace", string, returns=boolean)
def trace(note: str) -> bool:
    """Return true. The note is for explanations of a decision."""
    return True
