"""Rego in Python: policies compiled to Python code, decisions in microseconds.

    engine = Engine(modules={"authz.rego": source}, data={"roles": {}})
    engine.prepare("data.envoy.authz.allow").value(input)

The same in steps, where policies outlive their data: `compile(modules, options).bind(data)`.

It knows no socket and no file, and can be used alone.

These names are the public API: they stay, and change only as the changelog announces. `types` has
the types of built-ins. `shared`, `tools` (policies as text and trees) and `golang` (texts as Go
writes them) hold what the other packages of Doorward use; they may change with any version. Nobody
imports from what is below: the import contract refuses that. Names are loaded at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.base.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.rego import golang, shared, tools, types
    from doorward.rego.builtins import REGISTRY, Context, Environment
    from doorward.rego.builtins.registry import Builtin, Registry
    from doorward.rego.conversion import from_python
    from doorward.rego.engine import Engine, parse_term
    from doorward.rego.errors import (
        BuiltinError,
        CompileError,
        Diagnostic,
        EvalError,
        InputError,
        RegoError,
    )
    from doorward.rego.explanation import Explanation, explain
    from doorward.rego.json_text import from_json
    from doorward.rego.numbers import Number
    from doorward.rego.options import Options
    from doorward.rego.partial.evaluate import Partial
    from doorward.rego.partial.options import PartialOptions
    from doorward.rego.policies import Policies, compile
    from doorward.rego.queries import PartialQuery, Query
    from doorward.rego.values import UNDEFINED, Undefined, Value, to_json, to_python, to_rego
else:
    __getattr__ = _exporter(
        __name__,
        {
            "builtins": "Context Environment REGISTRY",
            "builtins.registry": "Builtin Registry",
            "conversion": "from_python",
            "engine": "Engine parse_term",
            "errors": "BuiltinError CompileError Diagnostic EvalError InputError RegoError",
            "explanation": "Explanation explain",
            "json_text": "from_json",
            "numbers": "Number",
            "options": "Options",
            "partial.evaluate": "Partial",
            "partial.options": "PartialOptions",
            "policies": "Policies compile",
            "queries": "PartialQuery Query",
            "values": "UNDEFINED Undefined Value to_json to_python to_rego",
        },
        below="doorward.rego",
        modules=("golang", "shared", "tools", "types"),
        moved="shared",
    )


__all__ = [
    "REGISTRY",
    "UNDEFINED",
    "Builtin",
    "BuiltinError",
    "CompileError",
    "Context",
    "Diagnostic",
    "Engine",
    "Environment",
    "EvalError",
    "Explanation",
    "InputError",
    "Number",
    "Options",
    "Partial",
    "PartialOptions",
    "PartialQuery",
    "Policies",
    "Query",
    "Registry",
    "RegoError",
    "Undefined",
    "Value",
    "compile",
    "explain",
    "from_json",
    "from_python",
    "golang",
    "parse_term",
    "shared",
    "to_json",
    "to_python",
    "to_rego",
    "tools",
    "types",
]
