"""The types that custom built-ins are declared with: `types.array(types.string)`."""

from __future__ import annotations

from doorward.rego.builtins.registry.signature import (
    Type,
    any_,
    any_of,
    array,
    boolean,
    null,
    number,
    object_,
    set_,
    string,
    tuple_,
)

__all__ = [
    "Type",
    "any_",
    "any_of",
    "array",
    "boolean",
    "null",
    "number",
    "object_",
    "set_",
    "string",
    "tuple_",
]
