"""Values of a plugin's block, each read as one type: a wrong one is an error that names its key."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = [
    "MAX_SIZE",
    "OptionsError",
    "read_block",
    "read_buckets",
    "read_header",
    "read_mode",
    "read_name",
    "read_size",
    "read_switch",
    "read_text",
    "read_threads",
]

MAX_SIZE: Final = 2**31 - 1
"""Bytes of a message at most."""
_HEADER: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")


class OptionsError(ValueError):
    """A key of the block has a wrong type or value; `key` names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message


def read_block(
    block: Mapping[str, object], readers: Mapping[str, Callable[[str, object], object]]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values of a block under the names of their fields, and its unknown keys.

    `OptionsError` for the first key that is wrong.
    """
    options: dict[str, Any] = {}
    unknown = []
    for key, value in block.items():
        read = readers.get(key)
        if read is None:
            unknown.append(str(key))
        else:
            options[key.replace("-", "_")] = read(key, value)
    return options, tuple(unknown)


def read_text(key: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise OptionsError(key, "must be a string")
    return value


def read_name(key: str, value: object) -> str:
    """A text that is not empty."""
    if not read_text(key, value).strip():
        raise OptionsError(key, "must not be empty")
    return str(value)


def read_switch(key: str, value: object) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise OptionsError(key, "must be true or false")
    return value


def read_size(key: str, value: object) -> int:
    """A number of bytes."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionsError(key, "must be a whole number of bytes")
    if not 0 < value <= MAX_SIZE:
        raise OptionsError(key, f"must be from 1 to {MAX_SIZE}")
    return value


def read_buckets(key: str, value: object) -> tuple[float, ...]:
    """Bounds of a histogram, in seconds."""
    if not isinstance(value, (list, tuple)) or not value:
        raise OptionsError(key, "must be a list of numbers")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not math.isfinite(item):
            raise OptionsError(key, "must be a list of numbers")
    buckets = tuple(float(item) for item in value)
    if list(buckets) != sorted(set(buckets)):
        raise OptionsError(key, "must rise from each number to the next")
    return buckets


def read_mode(key: str, value: object) -> int:
    """Permission bits."""
    # YAML reads 0660 as the number 432: only a quoted text says what was meant.
    if not isinstance(value, str):
        raise OptionsError(key, 'must be permission bits in quotes, such as "660"')
    try:
        mode = int(value, 8)
    except ValueError:
        raise OptionsError(key, 'must be permission bits in quotes, such as "660"') from None
    if not 0 <= mode <= 0o777:
        raise OptionsError(key, "must be permission bits from 000 to 777")
    return mode


def read_header(key: str, value: object) -> str:
    """The name of a header."""
    if not isinstance(value, str) or _HEADER.fullmatch(value) is None:
        raise OptionsError(key, "must be a header name in small letters")
    return value


def read_threads(key: str, value: object) -> int:
    """A number of threads."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 512:
        raise OptionsError(key, "must be a whole number from 1 to 512")
    return value
