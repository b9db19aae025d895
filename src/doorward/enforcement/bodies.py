"""A request's body becomes `parsed_body` and `truncated_body`.

What to read it as is decided by the `content-type` header, case-sensitive and by substring, in
opa-envoy-plugin's order; that an application may see it otherwise is strict mode's business
(`strict`). Nothing is decompressed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from json import JSONDecodeError
from json.scanner import make_scanner
from typing import Final, Literal, NoReturn, Protocol, TypeAlias, cast

from doorward.enforcement.errors import RequestParseError
from doorward.enforcement.multipart import parse_media_type, parse_parts
from doorward.enforcement.paths import parse_query
from doorward.rego import Value, from_json
from doorward.rego.golang import JSONError, parse_int, read_again, to_text
from doorward.rego.shared import Key, parse_number

__all__ = [
    "MAX_DEPTH",
    "GrpcReader",
    "JSONParser",
    "Kind",
    "check_depth",
    "kind_of",
    "parse_body",
    "parse_json",
]


class GrpcReader(Protocol):
    """A reader of gRPC bodies: `read` gets `[service, method]` and the body, and returns the first
    message and True if it is cut off.
    """

    def read(self, path: list[str], body: bytes) -> tuple[Value, bool]: ...


JSONParser: TypeAlias = Callable[["str | bytes"], Value]
Kind: TypeAlias = Literal["json", "grpc", "form", "multipart", ""]

_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("application/json", "json"),
    ("application/grpc", "grpc"),
    ("application/x-www-form-urlencoded", "form"),
    ("multipart/form-data", "multipart"),
)
MAX_DEPTH: Final = 256
"""The deepest nesting of a JSON body. OPA allows 10,000 levels; Python's own limit is lower and
depends on its version and on the caller's stack."""

# Strings whole, so that brackets within them do not count; one without an end takes all the rest,
# or it would be read again from each of its quotes.
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for `NaN`, `Infinity` and `-Infinity`, which Python's scanner accepts."""
    raise ValueError(f"{name} is not JSON")


# The scanner that `from_json` works with, without the layers in front of it: most bodies are one
# value with nothing around it.
_DECODER: Final = json.JSONDecoder(
    parse_int=parse_number, parse_float=parse_number, parse_constant=_refuse_constant
)
# typeshed says that a scanner is made of a scanner; it is made of a decoder.
_scan: Final = make_scanner(_DECODER)  # type: ignore[arg-type]
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def kind_of(content_type: str) -> Kind:
    """Return the kind of body that a content type names, by substring as in OPA-Envoy; "" for
    others.
    """
    for text, kind in _KINDS:
        if text in content_type:
            return kind
    return ""


def parse_body(
    headers: Mapping[str, str],
    body: str,
    raw_body: bytes,
    path: list[str],
    services: GrpcReader | None,
    parser: JSONParser | None = None,
) -> tuple[Value, bool]:
    """Return the value of a body, and True if the body is cut off: Envoy's header says so, a JSON
    body or form that is not empty has fewer bytes than `content-length` announces, or `services`
    finds a gRPC message incomplete.

    The value is None if it is cut off, empty or of a kind that is not parsed, such as gRPC without
    `services`. `parser` reads JSON in place of `parse_json`. Raise RequestParseError if the body is
    malformed.
    """
    if headers.get("x-envoy-auth-partial-body") == "true":
        return None, True
    kind = kind_of(headers.get("content-type", ""))
    if not kind:
        return None, False
    if kind == "grpc":
        return services.read(path, raw_body) if services and raw_body else (None, False)
    if not body and not raw_body:
        return None, False
    if "content-length" in headers and _is_cut(headers["content-length"], body, raw_body):
        return None, True
    if kind == "json":
        return (parser or parse_json)(body or raw_body), False
    if kind == "form":
        return cast(Value, parse_query(body or to_text(raw_body))), False
    content = body.encode() or raw_body
    return _parse_multipart(headers["content-type"], content, parser or parse_json), False


def _is_cut(content_length: str, body: str, raw_body: bytes) -> bool:
    """Return True if `content-length` announces more bytes than arrived.

    Raise RequestParseError if it is not an integer.
    """
    received = len(body.encode()) if body else len(raw_body)
    if content_length == str(received):
        return False
    try:
        return parse_int(content_length) > received
    except ValueError as error:
        raise RequestParseError(str(error)) from None


def parse_json(text: str | bytes) -> Value:
    """Return the value of a JSON text as OPA decodes it; lone surrogates become U+FFFD.

    Raise RequestParseError with Go's message if it is malformed, or if it nests deeper than
    `MAX_DEPTH`.
    """
    decoded = text if isinstance(text, str) else to_text(text)
    check_depth(decoded)
    try:
        value, end = _scan(decoded, 0)
        if end != len(decoded):
            value = from_json(decoded)
    except StopIteration:
        value = _parse_again(text, JSONDecodeError("no value", decoded, 0))
    except ValueError as error:
        value = _parse_again(text, error)
    return _without_surrogates(value) if "\\u" in decoded else value


def check_depth(text: str) -> None:
    """Raise RequestParseError if a JSON text nests deeper than `MAX_DEPTH`; other faults are
    ignored.
    """
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for piece in _BRACKETS.findall(text):
        if piece in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                raise RequestParseError("JSON is nested too deeply")
        elif piece in ("]", "}"):
            depth -= 1


def _parse_again(text: str | bytes, why: ValueError) -> Value:
    """Return Go's value for a text that Python refused, such as one with a `null` behind the value.

    Raise RequestParseError with Go's message if Go refuses it too.
    """
    try:
        return read_again(text if isinstance(text, bytes) else text.encode(), why)
    except JSONError as error:
        raise RequestParseError(str(error)) from None


def _without_surrogates(value: Value) -> Value:
    """Return a value with each lone surrogate replaced by U+FFFD, in texts and keys.

    JSON can escape lone surrogates, but UTF-8 cannot hold them.
    """
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_text_key(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _text_key(key: Key) -> Key:
    return _SURROGATE.sub("\ufffd", key) if isinstance(key, str) else key


def _parse_multipart(content_type: str, body: bytes, parser: JSONParser) -> Value:
    """Return the fields of a multipart form as lists of values, in order; parts of type JSON are
    parsed, others are texts.

    None if the content type has no boundary; parts without a name are left out. Raise
    RequestParseError if the form is malformed.
    """
    try:
        _, parameters = parse_media_type(content_type)
    except ValueError as error:
        raise RequestParseError(str(error)) from None
    boundary = parameters.get("boundary")
    if boundary is None:
        return None
    values: dict[Key, Value] = {}
    for part in parse_parts(body, boundary):
        name = part.name
        if not name:
            continue
        read = values.setdefault(name, [])
        assert isinstance(read, list)
        is_json = "application/json" in part.headers.get("content-type", "")
        read.append(parser(part.content) if is_json else to_text(part.content))
    return values
