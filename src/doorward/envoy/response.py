"""A decision becomes a CheckResponse, as opa-envoy-plugin makes it, and so does the lack of one.

    result of the policy -> `to_response` -> wire
    a request that was not decided on -> `to_refusal`, a policy that failed -> `to_denial`

Pure. A result of the wrong shape is a `ResultError` in OPA-Envoy's words, checked in its order and
only where the outcome uses it. INVARIANT: every answer carries a status; Envoy reads none as OK.
"""

from __future__ import annotations

from typing import Any, Final

from envoy.config.core.v3 import base_pb2
from envoy.service.auth.v3 import external_auth_pb2 as auth
from google.protobuf import struct_pb2

from doorward.enforcement.errors import RequestError
from doorward.envoy.request.input import Version
from doorward.rego import Undefined, Value
from doorward.rego.shared import Key, number_text, sorted_values
from doorward.verdicts import (
    FORBIDDEN,
    ResultError,
    failed,
    key_name,
    mismatch,
    object_of,
    read_allowed,
    read_body,
    read_headers,
    read_http_status,
    read_names,
    read_parameters,
)

__all__ = ["ResultError", "to_denial", "to_refusal", "to_response"]

OK: Final = 0
PERMISSION_DENIED: Final = 7
_BAD_REQUEST: Final = 400


def to_response(
    result: Value | Undefined,
    decision_id: str,
    *,
    dry_run: bool = False,
    version: Version = "v3",
    id_header: str = "",
) -> bytes:
    """Return the serialized CheckResponse, in the API `version`, for a policy's result, a boolean
    or an object.

    With `dry_run` a denial is answered as OK. `id_header` names the client's response header with
    the decision id; "" for none. Raise ResultError if the result has the wrong shape or a text that
    cannot be encoded.
    """
    if result is True or result is False:
        encoded = decision_id.encode()
        is_usual = (result or not dry_run) and version == "v3" and not id_header
        # Protobuf writes lengths before texts: only an id of the same length leaves them true.
        if is_usual and len(encoded) == len(_SAMPLE_ID):
            # All but the id was encoded once, with one of the same length.
            before, after = _ALLOWED if result else _DENIED
            return before + encoded + after
        response = _to_boolean(result, decision_id, dry_run=dry_run, version=version)
        return _encode(_with_id(response, id_header, decision_id, version))
    document = object_of(result)
    try:
        response = _to_answer(document, decision_id, dry_run=dry_run, version=version)
        return _encode(_with_id(response, id_header, decision_id, version))
    except UnicodeEncodeError:
        raise ResultError(
            "grpc: error while marshaling: string field contains invalid UTF-8", "INTERNAL"
        ) from None


def _with_id(
    response: auth.CheckResponse, name: str, decision_id: str, version: Version
) -> auth.CheckResponse:
    """Return `response`, changed to carry the decision id in the header `name` of the client's
    response; a denial without an HTTP status also gets 403.

    Nothing changes without name or id, or for an allowed v2 answer, which cannot add response
    headers.
    """
    if not name or not decision_id:
        return response
    header = _to_header(name, decision_id)
    # What goes through unasked in a trial run is a response of the application as well.
    if response.status.code == OK:
        if version == "v3":  # the older API adds headers to requests only
            response.ok_response.response_headers_to_add.append(header)
    else:
        denied = response.denied_response
        denied.headers.append(header)
        # A boolean denial had no `denied_response`; with one it must have a status of its own.
        denied.status.code = denied.status.code or FORBIDDEN
    return response


def to_refusal(
    error: RequestError, decision_id: str = "", *, id_header: str = "", header_id: str = ""
) -> bytes:
    """Return the serialized answer HTTP 400 with the error's code and text as its body.

    `decision_id` goes into the metadata unless it is "", and `header_id` into the header
    `id_header`.
    """
    response = auth.CheckResponse()
    text = f"{error.code}: {error}"
    response.status.code = PERMISSION_DENIED
    response.status.message = text
    response.denied_response.status.code = _BAD_REQUEST
    response.denied_response.body = text
    if decision_id:
        response.dynamic_metadata["decision_id"] = decision_id
    return _encode(_with_id(response, id_header, header_id, "v3"))


def to_denial(
    reason: str, decision_id: str, version: Version = "v3", *, id_header: str = ""
) -> bytes:
    """Return the serialized answer HTTP 403 with an empty body, for a request on which the policy
    could not decide.

    `reason` is in the gRPC status, which only the proxy sees. The decision id is in the metadata
    (v3), and in the client's response header `id_header` unless that is "".
    """
    response = auth.CheckResponse()
    response.status.code = PERMISSION_DENIED
    response.status.message = reason
    response.denied_response.status.code = FORBIDDEN
    if version == "v3":
        response.dynamic_metadata["decision_id"] = decision_id
    return _encode(_with_id(response, id_header, decision_id, version))


def _encode(response: Any) -> bytes:
    encoded: bytes = response.SerializeToString()
    return encoded


_SAMPLE_ID: Final = "00000000-0000-4000-8000-000000000000"


def _boolean_answer(
    code: int, decision_id: str, *, ok_response: bool = False
) -> auth.CheckResponse:
    """Return an answer with a gRPC status and, unless it is "", the decision id.

    `ok_response` adds an empty OkHttpResponse.
    """
    response = auth.CheckResponse()
    response.status.code = code
    # OK is 0, which protobuf does not write: without this the answer would have no status.
    response.status.SetInParent()
    if ok_response:
        response.ok_response.SetInParent()
    if decision_id:
        response.dynamic_metadata["decision_id"] = decision_id
    return response


_ALLOWED: Final = _encode(_boolean_answer(OK, _SAMPLE_ID)).split(_SAMPLE_ID.encode())
_DENIED: Final = _encode(_boolean_answer(PERMISSION_DENIED, _SAMPLE_ID)).split(_SAMPLE_ID.encode())


def _to_boolean(
    allowed: bool, decision_id: str, *, dry_run: bool, version: Version
) -> auth.CheckResponse:
    """Return the answer to a boolean result: OK, or PERMISSION_DENIED unless `dry_run`. For `v2` it
    is without the decision's id, since that version has no metadata.
    """
    if version == "v2":
        # The answer of v2 has no dynamic metadata.
        decision_id = ""
    code = OK if allowed or dry_run else PERMISSION_DENIED
    return _boolean_answer(code, decision_id, ok_response=dry_run and not allowed)


def _to_answer(
    result: dict[Key, Value], decision_id: str, *, dry_run: bool, version: Version
) -> auth.CheckResponse:
    """Return the answer to an object result; raise ResultError if a field that is used is
    malformed.

    With `dry_run` a denial is answered as OK without its body and headers. `v2` has no dynamic
    metadata, and of an allowed result only the headers.
    """
    allowed = read_allowed(result)
    response = auth.CheckResponse()
    headers = [_to_header(*pair) for pair in read_headers(result, "headers", "response headers")]
    _add_metadata(response.dynamic_metadata, result)
    # Cleared for v2, here and below, and not left out: a malformed field is an error there, too.
    if version == "v3":
        response.dynamic_metadata["decision_id"] = decision_id
    else:
        response.ClearField("dynamic_metadata")
    response.status.code = OK if allowed or dry_run else PERMISSION_DENIED
    response.status.SetInParent()
    if allowed:
        _add_changes(response.ok_response, result)
        if version == "v2":
            response.ClearField("ok_response")
        response.ok_response.headers.extend(headers)
        response.ok_response.SetInParent()
    else:
        _add_denial(response.denied_response, result)
        response.denied_response.headers.extend(headers)
    if dry_run and not allowed:
        response.ok_response.SetInParent()
    return response


def _add_metadata(metadata: struct_pb2.Struct, result: dict[Key, Value]) -> None:
    """Add the object `dynamic_metadata` of a policy's result, if it has one, to `metadata`; raise
    ResultError if it is not an object or has a number out of the range of a double.
    """
    if "dynamic_metadata" not in result:
        return
    dynamic_metadata = result["dynamic_metadata"]
    if not isinstance(dynamic_metadata, dict):
        raise mismatch("dynamic metadata", "dynamic_metadata", "object", dynamic_metadata)
    try:
        metadata.update(_to_metadata(dynamic_metadata))
    except OverflowError:
        raise failed(
            "dynamic metadata", "the metadata has a number that is out of the range of a double"
        ) from None


def _to_metadata(value: Value) -> Any:
    """Return a value in the form that `Struct` takes: numbers as doubles, sets as sorted lists,
    keys as texts.

    Raise OverflowError for a number beyond the range of a double.
    """
    if isinstance(value, dict):
        return {key_name(key): _to_metadata(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_metadata(item) for item in value]
    if isinstance(value, frozenset):
        return [_to_metadata(item) for item in sorted_values(value)]
    if value is None or isinstance(value, (bool, str)):
        return value
    double = float(number_text(value))
    if double in (float("inf"), float("-inf")):
        raise OverflowError
    return double


def _add_changes(response: auth.OkHttpResponse, result: dict[Key, Value]) -> None:
    """Add the header and query changes of an allowed request, checked in OPA-Envoy's order.

    Raise ResultError at the first field that is malformed.
    """
    removed = read_names(result, "request_headers_to_remove", "request headers to remove")
    response.headers_to_remove.extend(removed)
    subject = "response headers to send to client"
    added = read_headers(result, "response_headers_to_add", subject)
    response.response_headers_to_add.extend([_to_header(*pair) for pair in added])
    subject = "request query parameters to remove"
    response.query_parameters_to_remove.extend(
        read_names(result, "query_parameters_to_remove", subject)
    )
    for name, value in read_parameters(result):
        response.query_parameters_to_set.add(key=name, value=value)


def _add_denial(response: auth.DeniedHttpResponse, result: dict[Key, Value]) -> None:
    """Add the body and HTTP status of a denial; raise ResultError if one is malformed."""
    response.body = read_body(result)
    response.status.code = read_http_status(result)


def _to_header(name: str, value: str) -> base_pb2.HeaderValueOption:
    return base_pb2.HeaderValueOption(header=base_pb2.HeaderValue(key=name, value=value))
