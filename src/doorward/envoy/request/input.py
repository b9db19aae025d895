"""CheckRequest bytes become the policy's `input`, as opa-envoy-plugin builds it.

Pure: no socket, no policy, no clock. Bytes that are not a CheckRequest raise MalformedRequestError,
a path, query or body that cannot be read RequestParseError, and in strict mode what could be read
in two ways AmbiguousRequestError; the answer to each is up to `envoy.response`.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from envoy.service.auth.v2 import external_auth_pb2 as auth_v2
from google.protobuf.message import DecodeError

from doorward.enforcement.errors import RequestError
from doorward.enforcement.http_input import Input, read_http
from doorward.envoy.options import Options
from doorward.envoy.request import attributes, attributes_v2
from doorward.envoy.request.descriptors import Services
from doorward.envoy.request.messages import parse_check
from doorward.rego import Value

__all__ = ["Input", "MalformedRequestError", "Version", "to_input"]

Version: TypeAlias = Literal["v3", "v2"]

# INVARIANT: shared by every input; a value is never changed.
_VERSION_V3: Final[Value] = {"ext_authz": "v3", "encoding": "protojson"}
_VERSION_V2: Final[Value] = {"ext_authz": "v2", "encoding": "encoding/json"}

_DEFAULTS: Final = Options()
_from_v2: Final = auth_v2.CheckRequest.FromString


class MalformedRequestError(RequestError):
    """The bytes are not a CheckRequest; the messages are grpc-go's."""

    code = "request_malformed"


def to_input(
    request: bytes,
    options: Options = _DEFAULTS,
    services: Services | None = None,
    version: Version = "v3",
) -> Input:
    """Return the policy's `input` for a serialized CheckRequest. `services` describe gRPC bodies;
    None: such a body is not parsed.

    Raise a RequestError: malformed bytes, a path, query or body that cannot be parsed, or with
    `options.strict` a request that could be read in two ways.
    """
    out: Input = {}
    fields: Input = {}
    raw_body = b""
    try:
        if version == "v3":
            context: Any = parse_check(request)
            walk = attributes.to_attributes
        else:
            context = _from_v2(request)
            walk = attributes_v2.to_attributes
        if (walked := walk(context.attributes)) or context.HasField("attributes"):
            out["attributes"] = walked
            source: Any = walked.get("source")
            if source and "principal" in source:
                out["source_principal"] = source["principal"]
            fields = walked.get("request", fields).get("http", fields)  # type: ignore[union-attr, assignment]
            # The bytes, not their base64: the walk has encoded them already.
            if "rawBody" in fields:
                raw_body = context.attributes.request.http.raw_body
    except DecodeError as error:
        raise _malformed_error(error) from None
    out["version"] = _VERSION_V3 if version == "v3" else _VERSION_V2
    read_http(
        out,
        fields,
        raw_body,
        is_strict=options.strict,
        skip_body=options.skip_request_body_parse,
        services=services,
    )
    return out


def _malformed_error(error: DecodeError) -> MalformedRequestError:
    """Return the error for bytes that protobuf cannot decode, in grpc-go's words."""
    if "UTF-8" in str(error):
        reason = "string field contains invalid UTF-8"
    else:
        reason = "proto: cannot parse invalid wire-format data"
    return MalformedRequestError(f"grpc: error unmarshalling request: {reason}")
