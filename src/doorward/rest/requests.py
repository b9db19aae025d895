"""A request of the API as values: its path, its parameters, its body, read within limits.

Refusals are `BadRequest`, in OPA's words. What the parts mean is for the endpoints.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect, Request

from doorward.base.collector import gc_paused
from doorward.base.digits import parse_digits
from doorward.bundles.loader import LoadError, read_document
from doorward.config.configuration import Server
from doorward.rego import UNDEFINED, Undefined, Value
from doorward.rego.golang import MAX_EXPLAINED, JSONError, read_data, read_json
from doorward.rego.shared import MUCH, Key
from doorward.rest.memory import Room

__all__ = [
    "MAX_SEGMENTS",
    "BadRequest",
    "Parameters",
    "any_body",
    "any_document",
    "fold_fields",
    "go_kind",
    "input_of_parameter",
    "logged_headers",
    "parameters",
    "read_body",
    "segments",
    "unzip",
    "whole_body",
]

BODY_TIMEOUT: Final = 60.0
"""Seconds in which the whole body must arrive."""
GZIP_BASE: Final = 1 << 20
GZIP_RATIO: Final = 64
MAX_MEMBERS: Final = 16
"""The largest number of gzip members in a body: each of them copies the rest of the body."""
_GZIP: Final = b"\x1f\x8b"
MAX_SEGMENTS: Final = 256
"""The largest number of segments in the path of any request."""


class BadRequest(Exception):
    """A request that is refused with 400 `invalid_parameter` and this message."""


class Parameters:
    """The query parameters of a request, as Go reads them."""

    def __init__(self, values: dict[str, list[str]]) -> None:
        self._values = values

    @property
    def names(self) -> list[str]:
        """The names of the parameters, each once."""
        return list(self._values)

    def values(self, name: str) -> list[str]:
        """Return all values of a parameter; [] if it is not given."""
        return self._values.get(name, [])

    def flag(self, name: str) -> bool:
        """Return True if the parameter is given without a value, or with `true` in any case."""
        values = self._values.get(name)
        if values is None:
            return False
        return values == [""] or any(value.lower() == "true" for value in values)


def parameters(query: bytes) -> Parameters:
    """Return the parameters of a query string; as in Go a pair with `;` or a bad escape is
    ignored.
    """
    values: dict[str, list[str]] = {}
    for pair in query.split(b"&"):
        # Go's url.ParseQuery (since 1.17) drops such a pair and reads on.
        if not pair or b";" in pair:
            continue
        name, _, value = pair.partition(b"=")
        try:
            key, text = _unescape(name, plus=True), _unescape(value, plus=True)
        except ValueError:
            continue
        values.setdefault(key, []).append(text)
    return Parameters(values)


def segments(raw_path: bytes) -> tuple[str, ...]:
    """Return the segments of a path, each unescaped alone: `/a%2Fb/c` -> `("", "a/b", "c")`.

    Raise BadRequest for a bad escape or more than `MAX_SEGMENTS` segments.
    """
    if raw_path.count(b"/") > MAX_SEGMENTS:
        raise BadRequest(f"path has more than {MAX_SEGMENTS} segments")
    try:
        return tuple([_unescape(part) for part in raw_path.split(b"/")])
    except ValueError:
        raise BadRequest("invalid URL escape in path") from None


def _unescape(text: bytes, *, plus: bool = False) -> str:
    """Return a text with percent escapes decoded, and `+` as a space if `plus`.

    Raise ValueError for a bad escape; bytes that are not UTF-8 become U+FFFD.
    """
    if plus:
        text = text.replace(b"+", b" ")
    # `unquote_to_bytes` lets bad escapes pass as they are; Go refuses them.
    for part in text.split(b"%")[1:]:
        if len(part) < 2 or not all(c in b"0123456789abcdefABCDEF" for c in part[:2]):
            raise ValueError("invalid URL escape")
    return unquote_to_bytes(text).decode("utf-8", errors="replace")


async def read_body(request: Request, limits: Server, room: Room) -> bytes:
    """Return the whole body as it was sent; its bytes are taken from `room`.

    Raise BadRequest if it is too large, late or cut off, NoRoomError if memory is not free in time.
    """
    length = request.headers.get("content-length", "")
    # By the announced length, before a byte is read; the count below is for bodies without one.
    if (parse_digits(length) or 0) > limits.max_length:
        raise BadRequest("request body too large")
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.max_length:
                    raise BadRequest("request body too large")
                # Before the chunk is kept: what has no room is not held while it waits.
                await room.take(len(chunk))
                chunks.append(chunk)
    except (ClientDisconnect, TimeoutError):
        raise BadRequest("request body ended early") from None
    return b"".join(chunks)


def logged_headers(names: Iterable[str], values_of: Callable[[str], list[str]]) -> Value | None:
    """Return the headers to log as `{"http": {"headers": {name: values}}}`, by the names in
    `names`; None if the request has none of them.
    """
    headers: dict[Key, Value] = {}
    for name in names:
        values: list[Value] = list(values_of(name))
        if values:
            headers[name] = values
    return {"http": {"headers": headers}} if headers else None


def unzip(body: bytes, limits: Server) -> bytes:
    """Return a gzip body decompressed, all its members; raise BadRequest if it is malformed, too
    large, or has more than `MAX_MEMBERS` members.

    The result has at most `GZIP_BASE` + `GZIP_RATIO` times the body's bytes, so that few bytes
    cannot take much memory.
    """
    limit = min(limits.gzip_max_length, GZIP_BASE + GZIP_RATIO * len(body))
    problem = "could not decompress the body: "
    # OPA reads the size of the text from the last four bytes before anything else: in other data it
    # is mostly too large.
    if body[:2] != _GZIP:
        raise BadRequest(problem + ("gzip payload too large" if body else "unexpected EOF"))
    texts: list[bytes] = []
    for _ in range(MAX_MEMBERS):
        # Only gzip, with its checksum: neither the format of zlib nor a raw stream.
        unzip = zlib.decompressobj(wbits=31)
        try:
            # One byte more than allowed is enough to know that it is too much.
            text = unzip.decompress(body, limit + 1)
        except zlib.error:
            raise BadRequest(problem + "gzip: invalid data") from None
        limit -= len(text)
        if limit < 0:
            raise BadRequest(problem + "gzip payload too large")
        if not unzip.eof:
            raise BadRequest(problem + "unexpected EOF")
        texts.append(text)
        body = unzip.unused_data
        if not body:
            return b"".join(texts)
        if body[:2] != _GZIP:
            break
    raise BadRequest(problem + "gzip: invalid header")


def any_body(body: bytes, content_type: str) -> Value | Undefined:
    """Return the first document of a JSON body, or the YAML body if `yaml` is in `content_type`;
    UNDEFINED if the body is empty.

    What follows a JSON document is ignored. Raise BadRequest if it is malformed.
    """
    if not body.strip(b" \t\r\n"):
        return UNDEFINED
    try:
        if "yaml" in content_type:
            return read_document("body", body)
        with gc_paused() if len(body) >= MUCH else nullcontext():
            return read_json(body, trailing=True, most=MAX_EXPLAINED)
    except LoadError as error:
        reason = error.messages[0].removeprefix("body: ")
        raise BadRequest(f"body contains malformed input document: {reason}") from None
    except JSONError as error:
        raise BadRequest(f"body contains malformed input document: {error}") from None


def whole_body(body: bytes, content_type: str) -> Value:
    """Return the only document of a body, which is YAML if `yaml` is in `content_type`, else JSON.
    Raise BadRequest if it is empty, malformed or followed by more.
    """
    try:
        if "yaml" in content_type:
            return read_document("body", body)
        with gc_paused() if len(body) >= MUCH else nullcontext():
            return read_json(body, most=MAX_EXPLAINED)
    except LoadError as error:
        raise BadRequest(error.messages[0].removeprefix("body: ")) from None
    except JSONError as error:
        raise BadRequest(str(error)) from None


def any_document(body: bytes, *, stays: bool = False) -> Value:
    """Return the first JSON value of a body; anything after it is ignored. Raise BadRequest if it
    is malformed. `stays`: the value becomes base data, so it is built in the form in which data is
    stored.
    """
    read = read_data if stays else read_json
    try:
        with gc_paused() if len(body) >= MUCH else nullcontext():
            return read(body, trailing=True, most=MAX_EXPLAINED)
    except JSONError as error:
        raise BadRequest(str(error)) from None


def fold_fields(document: dict[Key, Value], text: bytes) -> dict[str, Value]:
    """Return the members of an object by their names in lower case, since Go matches the names of
    fields in any case. Of names that differ only in case, the last one in `text`, the JSON of the
    object, counts; if `text` is YAML, the last one in alphabetical order.
    """
    fields = {str(key).lower(): value for key, value in document.items()}
    if len(fields) == len(document):
        return fields
    # A second parse, only where names collide: the first has lost the order of equal names.
    keys = _top_keys(text) or sorted(map(str, document))
    return {key.lower(): document[key] for key in keys if key in document}


def _top_keys(text: bytes) -> list[str]:
    """Return the keys of the object in a JSON text in order, with repetitions; [] for YAML."""
    keys: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        keys[:] = [key for key, _ in pairs]  # the outermost object is the last to end

    # `len` in place of `int`, which raises ValueError for more than 4,300 digits; only keys are
    # used.
    reader = json.JSONDecoder(object_pairs_hook=note, parse_int=len, parse_float=len)
    try:
        reader.raw_decode(text.decode("utf-8", errors="replace").lstrip(" \t\r\n"))
    except (ValueError, RecursionError):
        return []
    return keys


def input_of_parameter(values: list[str]) -> Value | Undefined:
    """Parse the last of the values of the parameter `input` as JSON, and return it; UNDEFINED if
    there are none. Raise BadRequest if it is not valid JSON.
    """
    if not values:
        return UNDEFINED
    try:
        return read_json(values[-1], most=MAX_EXPLAINED)
    except JSONError as error:
        raise BadRequest(f"parameter contains malformed input document: {error}") from None


def go_kind(value: Value) -> str:
    """Return the type of a value in the words of Go's JSON decoder: `string`, `number`, …"""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else "number"
