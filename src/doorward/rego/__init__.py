"""Rego in Python: policies compiled to Python code, decisions in microseconds.

    engine = Engine(modules={"authz.rego": source}, data={"roles": {}})
    engine.prepare("data.envoy.authz.allow").value(input)

The same in steps, where policies outlive their data: `compile(modules, options).bind(data)`.

It knows no socket and no file, and can be used alone.

This is the façade. Other packages, and users, import from here, from `types` (types of built-ins),
from `tools` (policies as text and trees) and from `golang` (texts as Go writes them), and from
nothing below; the import contract refuses the rest. A name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.rego import golang, tools, types
    from doorward.rego.analysis.schemas import Schemas
    from doorward.rego.builtins import REGISTRY, Context, Environment
    from doorward.rego.builtins.http_client.cache import ResponseCache
    from doorward.rego.builtins.http_client.message import HTTPRequest, HTTPResponse
    from doorward.rego.builtins.http_client.sender import default_sender
    from doorward.rego.builtins.jose.jwk import parse_key_set
    from doorward.rego.builtins.jose.token_cache import VerifiedTokens
    from doorward.rego.builtins.registry import Builtin, Registry, builtin
    from doorward.rego.builtins.registry.context import HTTPSender
    from doorward.rego.builtins.registry.foreign import ForeignError, foreign_code
    from doorward.rego.builtins.tokens import verified_token
    from doorward.rego.caches import CacheCounts
    from doorward.rego.capabilities import Capabilities
    from doorward.rego.codegen.marks import Mark, Marks
    from doorward.rego.collector import gc_paused
    from doorward.rego.conversion import from_python
    from doorward.rego.credential_scan import may_hold_credentials
    from doorward.rego.credentials import (
        MASKED,
        assigns_credential,
        has_credential_names,
        mask_credentials,
        may_contain_credentials,
        mentions_credential,
        names_all_below,
        names_credential,
    )
    from doorward.rego.engine import (
        Engine,
        PartialQuery,
        Policies,
        Query,
        compile,
        parse_term,
        within,
    )
    from doorward.rego.errors import (
        CALL_ERRORS,
        CANCEL_ERROR,
        COMPILE_ERROR,
        INTERNAL_ERROR,
        PARSE_ERROR,
        TYPE_ERROR,
        BuiltinError,
        CompileError,
        Diagnostic,
        EvalError,
        EvaluationAborted,
        Fix,
        InputError,
        InternalError,
        OperandError,
        ParseError,
        RegoError,
        render,
        render_all,
    )
    from doorward.rego.explanation import (
        Explanation,
        Location,
        Mask,
        Recorder,
        Trail,
        definition_text,
        explain,
        trail_of,
    )
    from doorward.rego.explanation.profile import Entry, Profile
    from doorward.rego.json_text import MUCH, from_json
    from doorward.rego.modules import parse_modules
    from doorward.rego.numbers import Number, from_fraction, number_text, parse_number
    from doorward.rego.options import Options
    from doorward.rego.partial.definitions import Branch, Definitions, Outcome
    from doorward.rego.partial.evaluate import Partial
    from doorward.rego.partial.options import PartialOptions
    from doorward.rego.runtime.evaluation import Evaluation, Tracer
    from doorward.rego.source import Source, Span
    from doorward.rego.timers import Timers
    from doorward.rego.values import (
        UNDEFINED,
        Boxed,
        Key,
        Undefined,
        Value,
        from_key,
        kind_name,
        sorted_keys,
        sorted_values,
        to_json,
        to_key,
        to_python,
        to_rego,
    )
else:
    __getattr__ = _exporter(
        __name__,
        {
            "analysis.schemas": "Schemas",
            "builtins": "REGISTRY Context Environment",
            "builtins.http_client.cache": "ResponseCache",
            "builtins.http_client.message": "HTTPRequest HTTPResponse",
            "builtins.http_client.sender": "default_sender",
            "builtins.jose.jwk": "parse_key_set",
            "builtins.jose.token_cache": "VerifiedTokens",
            "builtins.registry": "Builtin Registry builtin",
            "builtins.registry.context": "HTTPSender",
            "builtins.registry.foreign": "ForeignError foreign_code",
            "builtins.tokens": "verified_token",
            "caches": "CacheCounts",
            "capabilities": "Capabilities",
            "codegen.marks": "Mark Marks",
            "collector": "gc_paused",
            "conversion": "from_python",
            "credential_scan": "may_hold_credentials",
            "credentials": (
                "MASKED assigns_credential has_credential_names mask_credentials"
                " may_contain_credentials mentions_credential names_all_below names_credential"
            ),
            "engine": "Engine PartialQuery Policies Query compile parse_term within",
            "errors": (
                "CALL_ERRORS CANCEL_ERROR COMPILE_ERROR INTERNAL_ERROR PARSE_ERROR TYPE_ERROR "
                "BuiltinError CompileError Diagnostic EvalError Fix EvaluationAborted InputError "
                "InternalError OperandError ParseError RegoError render render_all"
            ),
            "explanation": (
                "Explanation Location Mask Recorder Trail definition_text explain trail_of"
            ),
            "explanation.profile": "Entry Profile",
            "json_text": "MUCH from_json",
            "modules": "parse_modules",
            "numbers": "Number from_fraction number_text parse_number",
            "options": "Options",
            "partial.definitions": "Branch Definitions Outcome",
            "partial.evaluate": "Partial",
            "partial.options": "PartialOptions",
            "runtime.evaluation": "Evaluation Tracer",
            "source": "Source Span",
            "timers": "Timers",
            "values": (
                "UNDEFINED Boxed Key Undefined Value from_key kind_name "
                "sorted_keys sorted_values to_json to_key to_python to_rego"
            ),
        },
        below="doorward.rego",
        modules=("golang", "tools", "types"),
    )

__all__ = [
    "CALL_ERRORS",
    "CANCEL_ERROR",
    "COMPILE_ERROR",
    "INTERNAL_ERROR",
    "MASKED",
    "MUCH",
    "PARSE_ERROR",
    "REGISTRY",
    "TYPE_ERROR",
    "UNDEFINED",
    "Boxed",
    "Branch",
    "Builtin",
    "BuiltinError",
    "CacheCounts",
    "Capabilities",
    "CompileError",
    "Context",
    "Definitions",
    "Diagnostic",
    "Engine",
    "Entry",
    "Environment",
    "EvalError",
    "Evaluation",
    "EvaluationAborted",
    "Explanation",
    "Fix",
    "ForeignError",
    "HTTPRequest",
    "HTTPResponse",
    "HTTPSender",
    "InputError",
    "InternalError",
    "Key",
    "Location",
    "Mark",
    "Marks",
    "Mask",
    "Number",
    "OperandError",
    "Options",
    "Outcome",
    "ParseError",
    "Partial",
    "PartialOptions",
    "PartialQuery",
    "Policies",
    "Profile",
    "Query",
    "Recorder",
    "Registry",
    "RegoError",
    "ResponseCache",
    "Schemas",
    "Source",
    "Span",
    "Timers",
    "Tracer",
    "Trail",
    "Undefined",
    "Value",
    "VerifiedTokens",
    "assigns_credential",
    "builtin",
    "compile",
    "default_sender",
    "definition_text",
    "explain",
    "foreign_code",
    "from_fraction",
    "from_json",
    "from_key",
    "from_python",
    "gc_paused",
    "golang",
    "has_credential_names",
    "kind_name",
    "mask_credentials",
    "may_contain_credentials",
    "may_hold_credentials",
    "mentions_credential",
    "names_all_below",
    "names_credential",
    "number_text",
    "parse_key_set",
    "parse_modules",
    "parse_number",
    "parse_term",
    "render",
    "render_all",
    "sorted_keys",
    "sorted_values",
    "to_json",
    "to_key",
    "to_python",
    "to_rego",
    "tools",
    "trail_of",
    "types",
    "verified_token",
    "within",
]
