"""The `plugins.forward_auth` block becomes `Options`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["PLUGIN", "Options", "OptionsError", "from_block"]

PLUGIN: Final = "forward_auth"
MAX_SECRET: Final = 512
_HEADER: Final = re.compile(r"[a-z0-9-]{1,64}")


class OptionsError(ValueError):
    """A key of the block has a wrong type or value; `key` names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message


@dataclass(frozen=True, slots=True)
class Options:
    """Where proxies ask, and how their questions are read."""

    addr: str = "127.0.0.1:9292"
    """`host:port` or `unix:///path`: nobody but proxies may reach it."""
    path: str = "envoy/authz/allow"
    strict: bool = True
    secret: str = ""
    """What proxies send as `x-doorward-secret`; empty: who can connect may ask."""
    response_headers: tuple[str, ...] = ()
    """Headers that proxies copy from an answer into the request: in every answer that allows, empty
    where the policy sets none, so that nothing that a client sent stays."""
    max_body: int = 8192
    skip_body: bool = False


def from_block(block: Mapping[str, object]) -> tuple[Options, tuple[str, ...]]:
    """The options of a configuration block, and the names of its unknown keys.

    OptionsError for the first key that is wrong.
    """
    options: dict[str, Any] = {}
    unknown = []
    for key, value in block.items():
        entry = _READERS.get(key)
        if entry is None:
            unknown.append(str(key))
        else:
            name, read = entry
            options[name] = read(key, value)
    return Options(**options), tuple(unknown)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise OptionsError(key, "must be a text that is not empty")
    return value


def _secret(key: str, value: object) -> str:
    text = _text(key, value)
    if not 16 <= len(text) <= MAX_SECRET or not text.isascii() or not text.isprintable():
        raise OptionsError(key, f"must be 16 to {MAX_SECRET} printable characters of ASCII")
    return text


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionsError(key, "must be true or false")
    return value


def _size(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 2**20:
        raise OptionsError(key, f"must be from 1 to {2**20} bytes")
    return value


def _headers(key: str, value: object) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [None]
    if not all(isinstance(name, str) and _HEADER.fullmatch(name) for name in names):
        raise OptionsError(key, "must be a list of header names in small letters")
    return tuple(names)


_READERS: Final[dict[str, tuple[str, Callable[[str, object], object]]]] = {
    "addr": ("addr", _text),
    "path": ("path", _text),
    "strict": ("strict", _switch),
    "secret": ("secret", _secret),
    "response-headers": ("response_headers", _headers),
    "max-body-size": ("max_body", _size),
    "skip-request-body-parse": ("skip_body", _switch),
}
