"""A policy's result becomes a verdict: allow or deny, with headers, body and status.

    result -> `read_verdict` -> Verdict        a result of the wrong shape -> ResultError

The shapes are those of OPA-Envoy: a boolean, or an object with `allowed`, `headers`, `body`,
`http_status` and so on. They are checked in its order, with its messages, and only if the outcome
uses them. Protocols are not known here. `is_allowed` reads the same shapes without details, for
decisions that are not about a request: a result that no adapter could apply is not allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from doorward.rego import Undefined, Value, to_json
from doorward.rego.golang import parse_int
from doorward.rego.shared import Key, from_key, kind_name, number_text, sorted_keys, sorted_values

__all__ = [
    "FORBIDDEN",
    "STATUS_CODES",
    "Pairs",
    "ResultError",
    "Verdict",
    "check_headers",
    "failed",
    "is_allowed",
    "items",
    "key_name",
    "mismatch",
    "object_of",
    "read_allowed",
    "read_body",
    "read_headers",
    "read_http_status",
    "read_names",
    "read_parameters",
    "read_verdict",
]

FORBIDDEN: Final = 403
STATUS_CODES: Final = frozenset(
    {100, *range(200, 209), 226, *range(300, 306), 307, 308, *range(400, 418), 421, 422, 423, 424}
    | {426, 428, 429, 431, *range(500, 509), 510, 511}
)
"""The allowed values of `http_status`: the codes that Envoy knows."""
_GO_TYPES: Final = {
    "null": "<nil>",
    "boolean": "bool",
    "number": "json.Number",
    "string": "string",
    "array": "[]interface {}",
    "object": "map[string]interface {}",
    "set": "[]interface {}",
}
# RFC 9110, sections 5.6.2 and 5.5. No line break is among them, with which a policy that copies
# from a request would let its sender add headers.
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LONGEST_SHOWN: Final = 60

Pairs = tuple[tuple[str, str], ...]
"""Names and values of headers."""


class ResultError(Exception):
    """A policy's result that cannot become a response. `code` is the gRPC code with which OPA-Envoy
    fails.
    """

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


class Verdict(NamedTuple):
    """The verdict on a request. Header names and values are as HTTP/1.1 allows them."""

    allowed: bool
    status: int = FORBIDDEN
    """The status of a denial."""
    headers: Pairs = ()
    """For a denial the headers of the response; for an allowed request the request headers to
    set.
    """
    body: str = ""
    removed: tuple[str, ...] = ()
    """Request headers to remove from an allowed request, in lower case."""
    response_headers: Pairs = ()
    """Headers to add to the response to an allowed request."""
    decision_id: str = ""
    reason: str = ""
    """The reason code if no policy decided, such as a request that strict mode refused; else ""."""
    result: Value | Undefined = None
    """The policy's result."""


# The constructor of a NamedTuple calls this one.
_to_verdict: Final[Callable[[type[Verdict], tuple[object, ...]], Verdict]] = tuple.__new__


def is_allowed(result: Value | Undefined) -> bool:
    """Return True if a result allows a request: the same test for decisions on requests, objects
    and rows of a list. A result of the wrong shape is False.
    """
    if result is True or result is False:
        return result
    try:
        return read_verdict(result).allowed
    except ResultError:
        return False


def read_verdict(result: Value | Undefined, decision_id: str = "") -> Verdict:
    """Return the verdict of a result.

    Raise ResultError if it is undefined or has the wrong shape, a header that HTTP does not allow
    or a denial's status below 200, or asks for changes of the query, which these adapters do not
    support.
    """
    if result is True or result is False:
        fields = (result, FORBIDDEN, (), "", (), (), decision_id, "", result)
        return _to_verdict(Verdict, fields)
    document = object_of(result)
    allowed = read_allowed(document)
    headers = check_headers(read_headers(document, "headers", "response headers"))
    if not allowed:
        body, status = read_body(document), read_http_status(document)
        # An interim status ends no request: the client would wait for another one.
        if status < 200:
            text = f"HTTP status code {status} ends no request: use one from 200 on"
            raise failed("response http status", text)
        return Verdict(False, status, headers, body, decision_id=decision_id, result=result)
    removed = read_names(document, "request_headers_to_remove", "request headers to remove")
    subject = "response headers to send to client"
    added = check_headers(read_headers(document, "response_headers_to_add", subject))
    subject = "request query parameters to remove"
    if read_names(document, "query_parameters_to_remove", subject) or any(
        read_parameters(document)
    ):
        raise ResultError(
            "`query_parameters_to_set` and `query_parameters_to_remove` are only supported for "
            "Envoy"
        )
    return Verdict(
        True,
        200,
        headers,
        removed=tuple([name.lower() for name in removed]),
        response_headers=added,
        decision_id=decision_id,
        result=result,
    )


def check_headers(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Return the pairs as a tuple; raise ResultError for a name or value that HTTP/1.1 does not
    allow.
    """
    checked = tuple(pairs)
    for name, value in checked:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            shown = json.dumps(name[:_LONGEST_SHOWN])
            raise failed("headers", f"header {shown} has a name or value that HTTP does not allow")
    return checked


def object_of(result: Value | Undefined) -> dict[Key, Value]:
    """Return a result that is an object; raise ResultError if it is undefined or another value."""
    if isinstance(result, Undefined):
        raise ResultError("undefined decision")
    if not isinstance(result, dict):
        raise failed(
            "response status", f"illegal value for policy evaluation result: {_go_type(result)}"
        )
    return result


def failed(what: str, why: str) -> ResultError:
    """Return a ResultError with OPA-Envoy's text: `failed to get WHAT: WHY`."""
    return ResultError(f"failed to get {what}: {why}")


def mismatch(what: str, name: str, expected: str, value: Value) -> ResultError:
    """Return a ResultError with OPA-Envoy's text for a field of the wrong type."""
    text = f"type assertion error, expected {name} to be of type '{expected}' but got"
    return failed(what, f"{text} '{_go_type(value)}'")


def _go_type(value: Value) -> str:
    return _GO_TYPES[kind_name(value)]


def read_allowed(result: dict[Key, Value]) -> bool:
    """Return the field `allowed`; raise ResultError if it is missing or not a boolean."""
    if "allowed" not in result:
        raise failed(
            "response status", 'unable to determine evaluation result due to missing "allowed" key'
        )
    allowed = result["allowed"]
    if not isinstance(allowed, bool):
        raise mismatch("response status", "allowed", "boolean", allowed)
    return allowed


def read_body(result: dict[Key, Value]) -> str:
    """Return the field `body`, "" if it is missing; raise ResultError if it is not a string."""
    body = result.get("body", "")
    if not isinstance(body, str):
        raise mismatch("response body", "body", "string", body)
    return body


def read_http_status(result: dict[Key, Value]) -> int:
    """Return the field `http_status`, 403 if it is missing; raise ResultError if it is not an
    integer in `STATUS_CODES`.
    """
    if "http_status" not in result:
        return FORBIDDEN
    status = result["http_status"]
    # `True` is an `int` in Python, and a boolean in Rego.
    if isinstance(status, bool) or not isinstance(status, (int, float)):
        raise mismatch("response http status", "http_status", "number", status)
    try:
        code = parse_int(number_text(status))
    except ValueError as error:
        text = f"error converting JSON number to int: {error}"
        raise failed("response http status", text) from None
    if code not in STATUS_CODES:
        raise failed("response http status", f"Invalid HTTP status code {code}")
    return code


def key_name(key: Key) -> str:
    """Return the key of an object as a name; keys that are not strings as JSON."""
    return key if isinstance(key, str) else to_json(from_key(key))


def items(value: list[Value] | frozenset[Key]) -> Iterable[Value]:
    """Return the items of an array, or those of a set in Rego's order."""
    return sorted_values(value) if isinstance(value, frozenset) else value


def read_headers(result: dict[Key, Value], name: str, what: str) -> Iterator[tuple[str, str]]:
    """Yield the headers in the field `name` of a result, an object or a collection of objects;
    several values of a name are several pairs. Nothing if the field is missing. Raise ResultError
    ("failed to get WHAT: …") for another shape.
    """
    if name not in result:
        return
    headers_value = result[name]
    for headers in (
        items(headers_value) if isinstance(headers_value, (list, frozenset)) else [headers_value]
    ):
        if not isinstance(headers, dict):
            raise mismatch(what, "headers", "object", headers)
        for key in sorted_keys(headers):
            for value in _read_header(key_name(key), headers[key], what):
                yield key_name(key), value


def _read_header(name: str, given: Value, what: str) -> list[str]:
    """Return the values of a header, given as a string or a collection of strings; raise
    ResultError ("failed to get WHAT: …") for any other value.
    """
    if isinstance(given, str):
        return [given]
    if not isinstance(given, (list, frozenset)):
        raise failed(what, f"type assertion error for header '{name}'")
    values = []
    for value in items(given):
        if not isinstance(value, str):
            raise failed(what, f"invalid value type {_go_type(value)} for header '{name}'")
        values.append(value)
    return values


def read_names(result: dict[Key, Value], name: str, what: str) -> list[str]:
    """Return the strings in the field `name` of a result, [] if it is missing; raise ResultError
    ("failed to get WHAT: …") if it is not a collection of strings.
    """
    if name not in result:
        return []
    names_value = result[name]
    if not isinstance(names_value, (list, frozenset)):
        raise mismatch(what, name, "[]string", names_value)
    names = []
    for value in items(names_value):
        if not isinstance(value, str):
            raise mismatch(what, f"{name} value", "string", value)
        names.append(value)
    return names


def read_parameters(result: dict[Key, Value]) -> Iterator[tuple[str, str]]:
    """Yield a name and a value for each value in `query_parameters_to_set`, by sorted name; nothing
    if it is missing. Raise ResultError, maybe after some pairs, if it is not an object of strings
    or collections of strings.
    """
    message_field, name = "request query parameters to set", "query_parameters_to_set"
    if name not in result:
        return
    parameters = result[name]
    if not isinstance(parameters, dict):
        text = f"type assertion error, expected {name} to be a map but got '{_go_type(parameters)}'"
        raise failed(message_field, text)
    for key in sorted_keys(parameters):
        value = parameters[key]
        for item in items(value) if isinstance(value, (list, frozenset)) else [value]:
            if not isinstance(item, str):
                raise failed(
                    message_field,
                    "type assertion error, expected value to be string or array but got "
                    f"'{_go_type(item)}'",
                )
            yield key_name(key), item
