"""The fields of a request of the playground, each read with its bounds; PlaygroundError for an
invalid one.
"""

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
"""The seconds of one evaluation, after which it ends with an error."""
MAX_ITEMS: Final = 1_000_000
"""The most items of collections in one evaluation, after which it ends with an error."""
MAX_FILES: Final = 100
MAX_TEXT: Final = 512 << 10
"""The most characters of all files together; more are refused."""
# INVARIANT: all that reach the network or show the environment; `policy_texts` has the same names.
_FORBIDDEN: Final = frozenset({"http.send", "net.lookup_ip_addr", "opa.runtime"})
Request = Mapping[str, Any]


class PlaygroundError(ValueError):
    """A request of the playground is invalid; the message says why."""


def registry() -> Registry:
    """Return the built-ins that reach nothing outside of the evaluation."""
    return REGISTRY.restricted({each.name for each in REGISTRY} - _FORBIDDEN)


def options_of(request: Request) -> Options:
    """Return the options for compiling the files: `v0` and `strict` are switches of the page.
    PlaygroundError if one is not a boolean.
    """
    return Options(registry=registry(), v0=flag(request, "v0"), strict=flag(request, "strict"))


def flag(request: Request, name: str) -> bool:
    """Return a boolean field, False if it is missing; PlaygroundError for another value."""
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise PlaygroundError(f"the field `{name}` must be true or false")
    return value


def text_of(request: Request, name: str) -> str:
    """Return a string field of at most `MAX_TEXT` characters; PlaygroundError for another value."""
    value = request.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise PlaygroundError(
            f"the field `{name}` must be a string of at most {MAX_TEXT} characters"
        )
    return value


def file_of(files: Mapping[str, str], request: Request) -> str:
    """Return the field `file`, the name of one of the files; PlaygroundError for another value."""
    name = text_of(request, "file")
    if name not in files:
        raise PlaygroundError("the field `file` must be the name of a file in `files`")
    return name


def offset_of(request: Request) -> int:
    """Return the field `offset`, a number of characters; PlaygroundError for another value."""
    offset = request.get("offset")
    if type(offset) is not int or offset < 0:
        raise PlaygroundError(
            "the field `offset` must be a position in the file's text, in characters"
        )
    return offset


def value_of(request: Request, name: str) -> Any:
    """Return a field as a Rego value, UNDEFINED if it is missing; null is a value. InputError for
    one that is nested too deeply.
    """
    return from_python(request[name]) if name in request else UNDEFINED
