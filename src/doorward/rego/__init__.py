"""Rego in Python: policies compiled to Python code, decisions in microseconds.

    engine = Engine(modules={"authz.rego": source}, data={"roles": {}})
    engine.prepare("data.envoy.authz.allow").value(input)

The same in steps, where policies outlive their data: `compile(modules, options).bind(data)`.

Knows no socket and no file. Usable alone.
"""

from doorward.rego import types
from doorward.rego.builtins import REGISTRY, Builtin, Context, Environment, Registry
from doorward.rego.capabilities import Capabilities
from doorward.rego.engine import Engine, Policies, Query, compile, parse_term
from doorward.rego.errors import (
    BuiltinError,
    CompileError,
    Diagnostic,
    EvalError,
    HaltError,
    InputError,
    InternalError,
    OperandError,
    ParseError,
    RegoError,
)
from doorward.rego.json_text import from_json
from doorward.rego.modules import parse_modules
from doorward.rego.numbers import Number
from doorward.rego.options import Options
from doorward.rego.source import Source, Span
from doorward.rego.values import UNDEFINED, Value, from_python, to_json, to_python, to_rego

__all__ = [
    "REGISTRY",
    "UNDEFINED",
    "Builtin",
    "BuiltinError",
    "Capabilities",
    "CompileError",
    "Context",
    "Diagnostic",
    "Engine",
    "Environment",
    "EvalError",
    "HaltError",
    "InputError",
    "InternalError",
    "Number",
    "OperandError",
    "Options",
    "ParseError",
    "Policies",
    "Query",
    "Registry",
    "RegoError",
    "Source",
    "Span",
    "Value",
    "compile",
    "from_json",
    "from_python",
    "parse_modules",
    "parse_term",
    "to_json",
    "to_python",
    "to_rego",
    "types",
]
