"""What policies call: the registry, and one module per category of OPA's reference.

A category is imported here by name; nothing is found by scanning.
"""

from __future__ import annotations

from doorward.rego.builtins import (
    encoding as encoding,
)
from doorward.rego.builtins.context import Context, Environment
from doorward.rego.builtins.registry import REGISTRY, Builtin, Registry, builtin

__all__ = ["REGISTRY", "Builtin", "Context", "Environment", "Registry", "builtin"]
