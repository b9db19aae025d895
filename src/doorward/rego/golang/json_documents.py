"""JSON as Go's `encoding/json` has it: refused in its words, written in its order of fields.

The words themselves are `json_decoder`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from doorward.rego.golang.json import marshal, quote
from doorward.rego.golang.json_decoder import JSONError, read_again
from doorward.rego.golang.octets import to_bytes, to_text
from doorward.rego.json_text import MUCH, from_json
from doorward.rego.values import Value

__all__ = ["JSONError", "object_text", "ordered_text", "read_data", "read_json"]

MAX_FILE: Final = 1 << 20
"""The most bytes of an invalid file whose error is located; more than for a client's text, since
clients cannot send many files.
"""

_SPACE: Final = " \t\r\n"


def read_json(text: str | bytes, *, trailing: bool = False, most: int = MAX_FILE) -> Value:
    """Parse a JSON text. JSONError, in Go's words, if it is invalid or (JSONLimitError) exceeds a
    limit. With `trailing`, text after the first value is ignored, as Go's decoder does; otherwise
    only one `null` may follow. `most` is the greatest length, in bytes, of an invalid text whose
    error is located; that of a longer one says only `invalid JSON`. Bytes that are not UTF-8 become
    U+FFFD.
    """
    decoded = text if isinstance(text, str) else to_text(text)
    try:
        return from_json(decoded)
    except ValueError as error:
        why = error
    if trailing and (end := _end_of_value(decoded)):
        return read_json(decoded[:end], most=most)
    encoded = text if isinstance(text, bytes) else to_bytes(text)
    return read_again(encoded, why, first=trailing, most=most)


def read_data(content: bytes, *, trailing: bool = False, most: int = MAX_FILE) -> Value:
    """Parse a JSON document that stays in memory. JSONError, in Go's words, if it is invalid or
    (JSONLimitError) exceeds a limit. With `trailing`, text after the first value is ignored;
    otherwise only one `null` may follow. `most`: the greatest length, in bytes, of an invalid text
    whose error is located. A document of `json_pieces.MUCH` bytes or more is parsed piece by piece,
    and equal strings in it are stored once.
    """
    if len(content) >= MUCH:
        from doorward.rego.json_pieces import from_pieces  # few have so much

        try:
            return from_pieces(content)
        except ValueError:
            pass  # what is wrong is found, and said, below
    return read_json(content, trailing=trailing, most=most)


def object_text(fields: Mapping[str, str]) -> str:
    """Return the JSON of an object with its fields in this order; names are quoted here, the values
    must be JSON texts already.
    """
    members = [
        # A name of letters alone is written as it is.
        f'"{name}":{value}' if name.isidentifier() else f"{quote(name)}:{value}"
        for name, value in fields.items()
    ]
    return "{" + ",".join(members) + "}"


def ordered_text(value: object, *, sort_keys: bool = False) -> str:
    """Return plain Python data as JSON on one line, scalars as Go writes them. Keys keep their
    order at all depths, or are sorted with `sort_keys`; keys that are not texts are made texts.
    """
    if isinstance(value, Mapping):
        keys = sorted(value) if sort_keys else value
        return object_text({str(k): ordered_text(value[k], sort_keys=sort_keys) for k in keys})
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([ordered_text(each, sort_keys=sort_keys) for each in value]) + "]"
    plain: Any = value
    return marshal(plain)


def _end_of_value(text: str) -> int:
    """Return the index after the first value in `text`; 0 if there is no valid one."""
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return 0
