"""Bodies of responses: which are read, and the one value that every reader makes of one.

    status, headers -> `state_of` -> State        bytes -> `parse_body` -> value, plain bytes

A body is read where it is whole JSON in UTF-8. A text that two readers may understand in two ways
(a key twice, half a surrogate pair, more than one value) is a `BodyError`: who filters one reading
would let the other one through. Numbers keep their digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from json.scanner import make_scanner
from typing import Any, Final, Literal, NoReturn, TypeAlias

import orjson

from doorward.enforcement.bodies import MAX_DEPTH, check_depth
from doorward.enforcement.errors import RequestParseError
from doorward.http_client.decoding import DecodingError, decoded
from doorward.rego import Number, Value, to_json
from doorward.rego.shared import number_text, parse_number

__all__ = ["BodyError", "State", "parse_body", "state_of", "to_bytes"]

State: TypeAlias = Literal["none", "unread", "parsed", "opaque", "encoded", "partial"]
"""`none`: there is no body. `unread`: JSON that has not arrived. `parsed`: the input holds it.
`opaque`: not JSON. `encoded`: compressed in a way that is not read. `partial`: a part of a body."""

_JSON: Final = re.compile(
    r"\s*application/(?:[a-z0-9!#$&^_.+-]+\+)?json\s*"
    r"(?:;\s*(?!charset)[a-z0-9_.-]+=(?:[a-z0-9_.:/+-]+|\"[^\"\\]*\")\s*"
    r"|;\s*charset=\"?utf-8\"?\s*)*",
    re.IGNORECASE,
)
_PLAIN: Final = frozenset({"", "identity"})
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_KEY_END: Final = re.compile(rb'"[ \t\n\r]*:')
_MINUS_ZERO: Final = re.compile(rb"-0(?<![0-9A-Za-z]-0)(?=[,\]}\s]|\Z)")


class BodyError(Exception):
    """A body that cannot be filtered; `code` is the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def state_of(status: int, headers: Mapping[str, str], *, has_body: bool) -> State:
    """Return the state of a body as far as it is known before it arrives."""
    if not has_body:
        return "none"
    if status == 206 or "content-range" in headers:
        return "partial"
    if headers.get("content-encoding", "").strip().lower() not in _PLAIN | _GZIP:
        return "encoded"
    return "unread" if _JSON.fullmatch(headers.get("content-type", "")) else "opaque"


def parse_body(body: bytes, encoding: str, max_size: int) -> tuple[Value, bytes]:
    """The value of a body, and its bytes without their encoding; BodyError."""
    if encoding.strip().lower() in _GZIP:
        body = _unzip(body, max_size)
    if len(body) > max_size:
        raise BodyError("response_too_large", f"body is larger than {max_size} bytes")
    value = _parse_plain(body)
    return (_parse_exactly(body) if value is _NOT_SURE else value), body


def to_bytes(value: Value) -> bytes:
    """The JSON text of a value: numbers have the digits that they came with."""
    try:
        return orjson.dumps(value, default=_number)
    except orjson.JSONEncodeError:  # integers past 64 bits
        return to_json(value).encode()


def _number(value: object) -> orjson.Fragment:
    if isinstance(value, Number):
        return orjson.Fragment(number_text(value).encode())
    raise TypeError(type(value).__name__)


def _unzip(body: bytes, max_size: int) -> bytes:
    """Return a decompressed body; BodyError if it is malformed or larger than `max_size`."""
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decoded((body,), "gzip"):
            pieces.append(piece)
            size += len(piece)
            if size > max_size:
                raise BodyError("response_too_large", f"body is larger than {max_size} bytes")
    except DecodingError as error:
        raise BodyError("response_malformed", str(error)) from None
    return b"".join(pieces)


_NOT_SURE: Final[Any] = object()


def _parse_plain(body: bytes) -> Any:
    """The value, by orjson, where that is all there is in the text: else `_NOT_SURE`.

    orjson takes the last of equal keys, and makes doubles of numbers. So the keys of the value are
    counted and compared with what may end a key in the text, of which there is at least one for
    each key; and a value with a double is read exactly.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _NOT_SURE
    keys = _count_keys(value)
    if keys < 0:
        return _NOT_SURE
    # A text that is written again is all that was read. Most have no blanks, or these. To delete
    # blanks makes no other text equal: one within a string would be missing there.
    compact = orjson.dumps(value)
    if body == compact or body.replace(b'": ', b'":').replace(b", ", b",") == compact:
        return value
    if b"-0" in body and _MINUS_ZERO.search(body):  # it is written as 0
        return _NOT_SURE
    return value if keys == len(_KEY_END.findall(body)) else _NOT_SURE


def _count_keys(value: Any) -> int:
    """The keys of all objects; -1 where there is a double, or too much nesting."""
    count = depth = 0
    level = [value]
    while level:
        depth += 1
        kinds = set(map(type, level))
        if float in kinds:
            return -1
        below: list[Any] = []
        if dict in kinds or list in kinds:
            for each in level:
                kind = type(each)
                if kind is dict:
                    count += len(each)
                    below += each.values()
                elif kind is list:
                    below += each
        level = below
        if depth > MAX_DEPTH - 8:  # orjson writes less than it reads
            return -1
    return count


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _read_object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise BodyError("response_malformed", "an object has a key twice")
    return result


_DECODER: Final = json.JSONDecoder(
    parse_int=parse_number,
    parse_float=parse_number,
    parse_constant=_refuse_constant,
    object_pairs_hook=_read_object,
)
# typeshed says that a scanner is made of a scanner; it is made of a decoder.
_scan: Final = make_scanner(_DECODER)  # type: ignore[arg-type]


def _parse_exactly(body: bytes) -> Value:
    """Return the single JSON value of a body; BodyError for anything else."""
    try:
        text = body.decode()
        check_depth(text)
        value: Value
        value, end = _scan(text.lstrip(" \t\n\r"), 0)
        if text.lstrip(" \t\n\r")[end:].strip(" \t\n\r"):
            raise BodyError("response_malformed", "more than one JSON value")
        if "\\u" in text:
            json.dumps(
                value, ensure_ascii=False
            ).encode()  # there are no bytes for half a surrogate pair
    except UnicodeError:
        raise BodyError("response_malformed", "JSON is not in UTF-8") from None
    except (StopIteration, ValueError, RecursionError, RequestParseError):
        raise BodyError("response_malformed", "body is not JSON") from None
    return value
