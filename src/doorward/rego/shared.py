"""What the other packages of Doorward share of the language: it may change with any version.

Programs import from `doorward.rego`, whose names stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from doorward.base.exporting import exporter as _exporter

if TYPE_CHECKING:
    from doorward.rego.analysis.schemas import Schemas
    from doorward.rego.builtins.http_client.cache import ResponseCache
    from doorward.rego.builtins.http_client.message import HTTPRequest, HTTPResponse
    from doorward.rego.builtins.http_client.sender import default_sender
    from doorward.rego.builtins.jose.jwk import parse_key_set
    from doorward.rego.builtins.jose.token_cache import VerifiedTokens
    from doorward.rego.builtins.registry import builtin
    from doorward.rego.builtins.registry.context import HTTPSender
    from doorward.rego.builtins.registry.foreign import ForeignError, foreign_code
    from doorward.rego.builtins.tokens import verified_token
    from doorward.rego.caches import CacheCounts
    from doorward.rego.capabilities import Capabilities
    from doorward.rego.codegen.marks import Mark, Marks
    from doorward.rego.credential_scan import may_hold_credentials
    from doorward.rego.credentials import (
        MASKED,
        assigns_credential,
        credential_members,
        has_credential_names,
        mask_credentials,
        may_contain_credentials,
        mentions_credential,
        names_all_below,
        names_credential,
    )
    from doorward.rego.errors import (
        CALL_ERRORS,
        CANCEL_ERROR,
        COMPILE_ERROR,
        INTERNAL_ERROR,
        PARSE_ERROR,
        TYPE_ERROR,
        EvaluationAborted,
        Fix,
        InternalError,
        OperandError,
        ParseError,
        render,
        render_all,
    )
    from doorward.rego.explanation import Location, Mask, Recorder, Trail, definition_text, trail_of
    from doorward.rego.explanation.profile import Entry, Profile
    from doorward.rego.json_text import MUCH
    from doorward.rego.modules import parse_modules
    from doorward.rego.numbers import from_fraction, number_text, parse_number
    from doorward.rego.partial.definitions import Branch, Definitions, Outcome
    from doorward.rego.runtime.evaluation import Evaluation, Tracer
    from doorward.rego.source import Source, Span
    from doorward.rego.time_limits import within
    from doorward.rego.timers import Timers
    from doorward.rego.values import (
        Boxed,
        Key,
        from_key,
        json_key,
        kind_name,
        sorted_keys,
        sorted_values,
        to_key,
    )
else:
    __getattr__ = _exporter(
        __name__,
        {
            "analysis.schemas": "Schemas",
            "builtins.http_client.cache": "ResponseCache",
            "builtins.http_client.message": "HTTPRequest HTTPResponse",
            "builtins.http_client.sender": "default_sender",
            "builtins.jose.jwk": "parse_key_set",
            "builtins.jose.token_cache": "VerifiedTokens",
            "builtins.registry": "builtin",
            "builtins.registry.context": "HTTPSender",
            "builtins.registry.foreign": "ForeignError foreign_code",
            "builtins.tokens": "verified_token",
            "caches": "CacheCounts",
            "capabilities": "Capabilities",
            "codegen.marks": "Mark Marks",
            "credential_scan": "may_hold_credentials",
            "credentials": (
                "MASKED assigns_credential credential_members has_credential_names "
                "mask_credentials "
                "may_contain_credentials mentions_credential names_all_below "
                "names_credential"
            ),
            "errors": (
                "CALL_ERRORS CANCEL_ERROR COMPILE_ERROR EvaluationAborted Fix "
                "INTERNAL_ERROR InternalError OperandError PARSE_ERROR ParseError "
                "TYPE_ERROR render render_all"
            ),
            "explanation": "Location Mask Recorder Trail definition_text trail_of",
            "explanation.profile": "Entry Profile",
            "json_text": "MUCH",
            "modules": "parse_modules",
            "numbers": "from_fraction number_text parse_number",
            "partial.definitions": "Branch Definitions Outcome",
            "runtime.evaluation": "Evaluation Tracer",
            "source": "Source Span",
            "time_limits": "within",
            "timers": "Timers",
            "values": "Boxed Key from_key json_key kind_name sorted_keys sorted_values to_key",
        },
        below="doorward.rego",
    )

__all__ = [
    "CALL_ERRORS",
    "CANCEL_ERROR",
    "COMPILE_ERROR",
    "INTERNAL_ERROR",
    "MASKED",
    "MUCH",
    "PARSE_ERROR",
    "TYPE_ERROR",
    "Boxed",
    "Branch",
    "CacheCounts",
    "Capabilities",
    "Definitions",
    "Entry",
    "Evaluation",
    "EvaluationAborted",
    "Fix",
    "ForeignError",
    "HTTPRequest",
    "HTTPResponse",
    "HTTPSender",
    "InternalError",
    "Key",
    "Location",
    "Mark",
    "Marks",
    "Mask",
    "OperandError",
    "Outcome",
    "ParseError",
    "Profile",
    "Recorder",
    "ResponseCache",
    "Schemas",
    "Source",
    "Span",
    "Timers",
    "Tracer",
    "Trail",
    "VerifiedTokens",
    "assigns_credential",
    "builtin",
    "credential_members",
    "default_sender",
    "definition_text",
    "foreign_code",
    "from_fraction",
    "from_key",
    "has_credential_names",
    "json_key",
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
    "render",
    "render_all",
    "sorted_keys",
    "sorted_values",
    "to_key",
    "trail_of",
    "verified_token",
    "within",
]
