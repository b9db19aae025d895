"""What policies call: the registry, and one module per category of OPA's reference.

A category is imported here by name; nothing is found by scanning. Importing it declares its
built-ins.
"""

from __future__ import annotations

from doorward.rego.builtins import (  # noqa: F401  # imported for what they declare
    aggregates,
    arrays,
    aws,
    bits,
    comparison,
    conversions,
    crypto,
    encoding,
    globs,
    graphql,
    graphs,
    http,
    internal,
    net,
    numbers,
    objects,
    opa,
    regex,
    rego,
    semver,
    sets,
    strings,
    time,
    tokens,
    tracing,
    types,
    units,
    uuid,
)
from doorward.rego.builtins.registry import REGISTRY, Builtin, Registry, builtin
from doorward.rego.builtins.registry.context import Context, Environment

__all__ = ["REGISTRY", "Builtin", "Context", "Environment", "Registry", "builtin"]
