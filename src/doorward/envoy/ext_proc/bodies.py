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
    """A response body cannot be filtered; `code` is `response_too_large` or
    `response_malformed`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def state_of(status: int, headers: Mapping[str, str], *, has_body: bool) -> State:
    """Return the state of a response body, judged by status and headers alone (names in lower
    case): `none` unless `has_body`, `partial` for a part of a body, `encoded` for an encoding other
    than gzip, `unread` for JSON, which can be read once it arrives, and `opaque` for other types.
    """
    if not has_body:
        return "none"
    # A part of a body has no paths: an item could be cut in the middle of what is to be removed.
    if status == 206 or "content-range" in headers:
        return "partial"
    if headers.get("content-encoding", "").strip().lower() not in _PLAIN | _GZIP:
        return "encoded"
    return "unread" if _JSON.fullmatch(headers.get("content-type", "")) else "opaque"


def parse_body(body: bytes, encoding: str, max_size: int) -> tuple[Value, bytes]:
    """Return the JSON value of a body, and its bytes after decompression. `encoding` is its
    content-encoding: `gzip` or `x-gzip`; with any other text the body is read as it is.

    Raise BodyError if the decompressed body is larger than `max_size` bytes, is malformed gzip, is
    not exactly one JSON value in UTF-8, is nested too deeply, has a key twice or has half a
    surrogate pair.
    """
    if encoding.strip().lower() in _GZIP:
        body = _unzip(body, max_size)
    # `_unzip` has checked a compressed one while it grew; this is for one that came plain.
    if len(body) > max_size:
        raise BodyError("response_too_large", f"response body is larger than {max_size} bytes")
    value = _parse_plain(body)
    return (_parse_exactly(body) if value is _NOT_SURE else value), body


def to_bytes(value: Value) -> bytes:
    """Return the compact JSON text of a value in UTF-8; numbers keep the digits they were read
    with.
    """
    try:
        return orjson.dumps(value, default=_number)
    # orjson writes 64 bits; `parse_body` reads any number of digits, and each of them is kept.
    except orjson.JSONEncodeError:  # integers past 64 bits
        return to_json(value).encode()


def _number(value: object) -> orjson.Fragment:
    """Return the digits of a `Number` for orjson; raise TypeError for any other type."""
    if isinstance(value, Number):
        return orjson.Fragment(number_text(value).encode())
    raise TypeError(type(value).__name__)


def _unzip(body: bytes, max_size: int) -> bytes:
    """Return a gzip body decompressed; raise BodyError if it is malformed or grows past `max_size`
    bytes.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decoded((body,), "gzip"):
            pieces.append(piece)
            size += len(piece)
            # Within the loop: a small body may unpack to a thousand times its size.
            if size > max_size:
                raise BodyError(
                    "response_too_large",
                    f"decompressed response body is larger than {max_size} bytes",
                )
    except DecodingError as error:
        raise BodyError("response_malformed", str(error)) from None
    return b"".join(pieces)


_NOT_SURE: Final[Any] = object()


def _parse_plain(body: bytes) -> Any:
    """Return the value of a body by orjson, or `_NOT_SURE` if an exact parser must read it.

    orjson keeps the last of equal keys and turns numbers into doubles. A value is returned only if
    the text has no key twice, no double, no minus zero and little nesting. Keys are compared by
    number with the places in the text where a key may end, of which there is at least one for each
    key.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _NOT_SURE
    keys = _count_keys(value)
    # A double has lost digits, and deep values would exhaust the recursion of all that walk them.
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
    """Return the number of keys in all objects of a parsed value; -1 if it has a double, or nests
    so deeply that orjson might not write it.
    """
    count = depth = 0
    level = [value]
    while level:
        depth += 1
        # One set of types for a whole level: a level of plain texts is passed without a loop in
        # Python.
        kinds = set(map(type, level))
        # orjson reads 1.10 and 64-bit overflows as doubles: the exact parser keeps their digits.
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
    """Raise ValueError for `NaN`, `Infinity` and `-Infinity`, which Python's scanner accepts."""
    raise ValueError(f"{name} is not JSON")


def _read_object(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return a JSON object from its pairs; raise BodyError if a key occurs twice."""
    result = dict(pairs)
    # RFC 8259, 4: readers differ on the first or the last of equal names.
    if len(result) != len(pairs):
        raise BodyError("response_malformed", "an object in the response body repeats a key")
    return result


# The hook sees all pairs: a dict alone would keep the last of equal keys without a word.
_DECODER: Final = json.JSONDecoder(
    parse_int=parse_number,
    parse_float=parse_number,
    parse_constant=_refuse_constant,
    object_pairs_hook=_read_object,
)
# typeshed says that a scanner is made of a scanner; it is made of a decoder.
_scan: Final = make_scanner(_DECODER)  # type: ignore[arg-type]


def _parse_exactly(body: bytes) -> Value:
    """Return the single JSON value of a body, with all digits of its numbers.

    Raise BodyError for other text, too much nesting, a key twice, bytes that are not UTF-8 or half
    a surrogate pair.
    """
    try:
        text = body.decode()
        # Before the scanner, which recurses, and whose RecursionError depends on the
        # caller's depth.
        check_depth(text)
        value: Value
        value, end = _scan(text.lstrip(" \t\n\r"), 0)
        if text.lstrip(" \t\n\r")[end:].strip(" \t\n\r"):
            raise BodyError("response_malformed", "response body has more than one JSON value")
        if "\\u" in text:
            json.dumps(
                value, ensure_ascii=False
            ).encode()  # there are no bytes for half a surrogate pair
    except UnicodeError:
        raise BodyError("response_malformed", "response body is not JSON in UTF-8") from None
    # StopIteration is what CPython's scanner raises for text that begins no value.
    except (StopIteration, ValueError, RecursionError, RequestParseError):
        raise BodyError("response_malformed", "response body is not JSON") from None
    return value
