"""Rego in Python: policies compiled to Python code, decisions in microseconds.

    engine = Engine(modules={"authz.rego": source}, data={"roles": {}})
    engine.prepare("data.envoy.authz.allow").value(input)

Knows no socket and no file. Usable alone.
"""

from doorward.rego import types
from doorward.rego.builtins import REGISTRY, Builtin, Context, Environment, Registry
from doorward.rego.capabilities import Capabilities
from doorward.rego.engine import Engine, Query, parse_term
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
from doorward.rego.numbers import Number
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
    "ParseError",
    "Query",
    "Registry",
    "RegoError",
    "Source",
    "Span",
    "Value",
    "from_json",
    "from_python",
    "parse_term",
    "to_json",
    "to_python",
    "to_rego",
    "types",
]
