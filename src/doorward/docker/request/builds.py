"""The options of a build besides its image: which builder, where results go, whose caches are used.

The Dockerfile is in an archive (`archives`) or behind BuildKit's session: which images it starts
from and which URLs it adds is not in the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.docker.request.archives import NO_FILES
from doorward.docker.request.images import parse_image
from doorward.docker.request.limits import ulimits_view
from doorward.docker.request.model.readers import Notes, Reader
from doorward.docker.request.model.table import read_type
from doorward.docker.request.schema import parse_json
from doorward.docker.request.solves import NOT_SOLVED

__all__ = ["NO_BUILD", "OF_THE_CLIENT", "build_ulimits", "build_view"]

NO_BUILD: Final[dict[str, Any]] = {
    "buildkit": False,
    "session": False,
    "outputs": [],
    "cache_from": [],
    **NOT_SOLVED,
    **NO_FILES,
}
OF_THE_CLIENT: Final = frozenset({"client-session", "upload-request"})
"""Contexts that BuildKit has from the client: the daemon fetches nothing."""
_ULIMITS: Final = read_type("[]Ulimit")[1]
_OUTPUTS: Final = read_type("[]ImageBuildOutput")[1]
_NAMES: Final = read_type("[]own")[1]


def build_view(query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the `build` view for the query of a classic build.

    Raise MalformedRequestError for a parameter with JSON that the daemon would refuse.
    """
    notes = Notes()
    outputs = _document(query, "outputs", _OUTPUTS, notes)
    caches: list[str] = _document(query, "cachefrom", _NAMES, Notes())
    types = [(each or {}).get("Type") or "" for each in outputs]
    return {
        "buildkit": query.get("version", [""])[0] == "2",
        "session": bool(query.get("session", [""])[0]),
        # A field that is not known here could send the result anywhere.
        "outputs": types + ["unknown"] * bool(notes.unknown),
        "cache_from": [parse_image(each) for each in caches],
        **NOT_SOLVED,
        **NO_FILES,
    }


def build_ulimits(query: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Return the `ulimits` view for the query of a build. Raise MalformedRequestError if the
    parameter is JSON that the daemon would refuse.
    """
    return ulimits_view(_document(query, "ulimits", _ULIMITS, Notes()))


def _document(query: Mapping[str, list[str]], name: str, read: Reader, notes: Notes) -> list[Any]:
    text = query.get(name, [""])[0]
    return read(parse_json(text.encode()), notes, name) or [] if text else []
