"""Envoy's messages of external processing become tuples, and answers become messages.

    ProcessingRequest (bytes) -> `read_message` -> Message        Answer -> `write_*` -> bytes

Nothing here decides. Header values are in `raw_value`; `value` is empty since Envoy 1.27.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from envoy.config.core.v3 import base_pb2
from envoy.extensions.filters.http.ext_proc.v3 import processing_mode_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.message import DecodeError

from doorward.enforcement.http_input import text_of
from doorward.envoy.request.attributes import from_struct_value
from doorward.rego import Value
from doorward.transport.grpc.status import GrpcError, Status

__all__ = [
    "CONTINUE_BODY",
    "CONTINUE_RESPONSE",
    "SERVICE",
    "Headers",
    "Message",
    "Mutation",
    "Phase",
    "read_message",
    "to_headers",
    "write_body",
    "write_denial",
    "write_headers",
    "write_trailers",
    "write_unread",
]

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
_FILTER: Final = "envoy.filters.http.ext_proc"
_Mode: Final = processing_mode_pb2.ProcessingMode
_Option: Final = base_pb2.HeaderValueOption
_NO_METADATA: Final[dict[str, Value]] = {}

Headers: TypeAlias = list[tuple[bytes, bytes]]
Phase: TypeAlias = Literal[
    "request_headers", "response_headers", "request_body", "response_body",
    "request_trailers", "response_trailers", "",
]  # fmt: skip


class Message(NamedTuple):
    """One message of Envoy. `phase` is "" for a kind of message that is not known here."""

    phase: Phase
    headers: Headers
    """The headers or trailers of the message, in order."""
    body: bytes
    ends: bool
    """True if this message ends the request or the response."""
    attributes: dict[str, Value]
    filter_metadata: dict[str, Value]
    modes: tuple[int, int] | None
    """How Envoy sends bodies of requests and of responses; None except in the first message."""
    is_observed: bool
    """True if Envoy ignores the answers (`observability_mode`)."""


class Mutation(NamedTuple):
    """Changes of headers: `set` overwrites, or appends if a name occurs again; `remove` has
    names.
    """

    set: Sequence[tuple[str, str]] = ()
    """Headers to overwrite; a name that occurs again is appended."""
    remove: Iterable[str] = ()


def read_message(message: bytes) -> Message:
    """Return a serialized ProcessingRequest as a Message, with the attributes of the filter
    ext_proc; raise GrpcError (INVALID_ARGUMENT) if it cannot be decoded.
    """
    try:
        request: Any = pb.ProcessingRequest.FromString(message)
    except DecodeError:
        problem = "message is not a ProcessingRequest"
        raise GrpcError(Status.INVALID_ARGUMENT, problem) from None
    phase: Phase = request.WhichOneof("request") or ""
    part: Any = getattr(request, phase) if phase else None
    headers: Headers = []
    body, ends = b"", False
    if phase in ("request_headers", "response_headers"):
        headers = _to_pairs(part.headers)
        ends = part.end_of_stream
    elif phase in ("request_body", "response_body"):
        body, ends = part.body, part.end_of_stream
    elif phase:
        headers, ends = _to_pairs(part.trailers), True
    attributes: dict[str, Value] = {}
    if request.attributes:
        for name, value in request.attributes[_FILTER].fields.items():
            attributes[name] = from_struct_value(value)
    modes = None
    # Only in the first message, and only where a body mode is not NONE.
    if request.HasField("protocol_config"):
        config = request.protocol_config
        modes = config.request_body_mode, config.response_body_mode
    return Message(
        phase,
        headers,
        body,
        ends,
        attributes,
        _to_metadata(request.metadata_context),
        modes,
        request.observability_mode,
    )


def _to_pairs(headers: Any) -> Headers:
    return [(each.key.encode(), each.raw_value or each.value.encode()) for each in headers.headers]


def _to_metadata(metadata: Any) -> dict[str, Value]:
    """Return dynamic metadata as `{filter name: {key: value}}`; {} if there is none."""
    if not metadata.filter_metadata:
        return _NO_METADATA
    return {
        name: {key: from_struct_value(value) for key, value in struct.fields.items()}
        for name, struct in metadata.filter_metadata.items()
    }


def to_headers(pairs: Headers) -> dict[str, str]:
    """Return response headers by lower-case name; values of a repeated name are joined by `, `."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = raw_name.decode("latin-1").lower(), text_of(raw_value)
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _mutate(out: Any, mutation: Mutation) -> None:
    """Add header changes to Envoy's message `out`: the first value of a name overwrites, further
    ones are appended.
    """
    seen: set[str] = set()
    for name, value in mutation.set:
        again = name.lower() in seen
        seen.add(name.lower())
        # Envoy's default appends: the application's own value would stay in front of ours.
        action = "APPEND_IF_EXISTS_OR_ADD" if again else "OVERWRITE_IF_EXISTS_OR_ADD"
        out.set_headers.add(
            header=base_pb2.HeaderValue(key=name, raw_value=value.encode()),
            append_action=_Option.HeaderAppendAction.Value(action),
        )
    out.remove_headers.extend(mutation.remove)


def _to_bytes(response: Any) -> bytes:
    encoded: bytes = response.SerializeToString()
    return encoded


def write_headers(phase: Literal["request_headers", "response_headers"], change: Mutation) -> bytes:
    """Return the answer to request or response headers that continues with changed headers."""
    response = pb.ProcessingResponse()
    common = getattr(response, phase).response
    common.SetInParent()
    _mutate(common.header_mutation, change)
    return _to_bytes(response)


def write_unread(change: Mutation) -> bytes:
    """Return the answer to response headers that also tells Envoy not to send body and trailers."""
    response = pb.ProcessingResponse()
    common = response.response_headers.response
    common.SetInParent()
    _mutate(common.header_mutation, change)
    # Each field is given: the filter compares it with the modes that it allows.
    response.mode_override.CopyFrom(
        _Mode(
            request_header_mode=_Mode.SEND,
            response_header_mode=_Mode.SEND,
            request_body_mode=_Mode.NONE,
            response_body_mode=_Mode.NONE,
            request_trailer_mode=_Mode.SKIP,
            response_trailer_mode=_Mode.SKIP,
        )
    )
    return _to_bytes(response)


def write_body(change: Mutation, body: bytes | None) -> bytes:
    """Return the answer to a response body: changed headers, and another body unless `body` is
    None.
    """
    response = pb.ProcessingResponse()
    common = response.response_body.response
    _mutate(common.header_mutation, change)
    if body is not None:
        common.body_mutation.body = body
    return _to_bytes(response)


def write_trailers(names: Iterable[str]) -> bytes:
    """Return the answer to response trailers that removes the trailers `names`."""
    response = pb.ProcessingResponse()
    mutation = response.response_trailers.header_mutation
    mutation.SetInParent()
    mutation.remove_headers.extend(names)
    return _to_bytes(response)


def write_denial(status: int, headers: Sequence[tuple[str, str]], body: str, details: str) -> bytes:
    """Return the answer that sends another response to the client in place of the application's.

    `details` appears as Envoy's response code details in its access log. `status` must not be 200.
    """
    response = pb.ProcessingResponse()
    immediate = response.immediate_response
    # INVARIANT: an answer carries a status; Envoy takes none for 200.
    immediate.status.code = status
    _mutate(immediate.headers, Mutation(headers))
    immediate.body = body.encode()
    immediate.details = details
    return _to_bytes(response)


def _continue_body() -> bytes:
    """Return the serialized answer that lets a part of a response body pass unchanged."""
    response = pb.ProcessingResponse()
    response.response_body.response.SetInParent()
    return _to_bytes(response)


CONTINUE_RESPONSE: Final = write_headers("response_headers", Mutation())
"""The answer to response headers that asks for the body."""
CONTINUE_BODY: Final = _continue_body()
"""The answer to a response body that leaves it unchanged."""
