"""The fields of a request of the playground, each read with its bounds; PlaygroundError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.rego import REGISTRY, UNDEFINED, Options, Registry, from_python

__all__ = [
    "DEADLINE",
    "MAX_FILES",
    "MAX_ITEMS",
    "MAX_TEXT",
    "PlaygroundError",
    "file_of",
    "flag",
    "offset_of",
    "options_of",
    "registry",
    "text_of",
    "value_of",
]

DEADLINE: Final = 2.0
"""Seconds of one evaluation."""
MAX_ITEMS: Final = 1_000_000
MAX_FILES: Final = 100
MAX_TEXT: Final = 512 << 10
"""Characters of all policies together."""
_FORBIDDEN: Final = frozenset({"http.send", "net.lookup_ip_addr", "opa.runtime"})
Request = Mapping[str, Any]


class PlaygroundError(ValueError):
    """A request that cannot be understood; the text says why."""


def registry() -> Registry:
    """The built-ins that reach nothing of the world outside."""
    return REGISTRY.restricted({each.name for each in REGISTRY} - _FORBIDDEN)


def options_of(request: Request) -> Options:
    """The options of compilation: `v0` and `strict` are switches of the page."""
    return Options(registry=registry(), v0=flag(request, "v0"), strict=flag(request, "strict"))


def flag(request: Request, name: str) -> bool:
    """A switch that may be missing."""
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise PlaygroundError(f"`{name}` must be true or false")
    return value


def text_of(request: Request, name: str) -> str:
    """A text of at most `MAX_TEXT` characters."""
    value = request.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise PlaygroundError(f"`{name}` must be a text")
    return value


def file_of(files: Mapping[str, str], request: Request) -> str:
    """The name of one of the files."""
    name = text_of(request, "file")
    if name not in files:
        raise PlaygroundError("`file` must be one of `files`")
    return name


def offset_of(request: Request) -> int:
    """A number of characters."""
    offset = request.get("offset")
    if type(offset) is not int or offset < 0:
        raise PlaygroundError("`offset` must be a number of characters")
    return offset


def value_of(request: Request, name: str) -> Any:
    """A document, UNDEFINED where it is missing."""
    return from_python(request[name]) if name in request else UNDEFINED
