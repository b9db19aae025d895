"""What a build asks for besides its image: which builder, where results go, whose caches are used.

The Dockerfile is in an archive or behind BuildKit's session: which images it starts from and which
URLs it adds is not in the request, and nothing here knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from doorward.docker.request.images import parse_image
from doorward.docker.request.limits import ulimits_view
from doorward.docker.request.model.table import STRUCTS
from doorward.docker.request.schema import STRING, Array, Map, Struct, Type, canonical, parse_json

__all__ = ["NO_BUILD", "OF_THE_CLIENT", "build_ulimits", "build_view"]

NO_BUILD: Final[dict[str, Any]] = {
    "buildkit": False,
    "session": False,
    "outputs": [],
    "cache_from": [],
}
OF_THE_CLIENT: Final = frozenset({"client-session", "upload-request"})
"""Contexts that BuildKit has from the client: the daemon fetches nothing."""
_ULIMITS: Final = Array(STRUCTS["Ulimit"])
_OUTPUTS: Final = Array(Struct("ImageBuildOutput", {"Type": STRING, "Attrs": Map(STRING)}))


def build_view(query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Of the query of a build; MalformedRequestError for JSON that the daemon would not read."""
    unknown: list[str] = []
    outputs = _document(query, "outputs", _OUTPUTS, unknown)
    caches: list[str] = _document(query, "cachefrom", Array(STRING), [])
    types = [(each or {}).get("Type") or "" for each in outputs]
    return {
        "buildkit": query.get("version", [""])[0] == "2",
        "session": bool(query.get("session", [""])[0]),
        "outputs": types + ["unknown"] * bool(unknown),
        "cache_from": [parse_image(each) for each in caches],
    }


def build_ulimits(query: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Of the query of a build."""
    return ulimits_view(_document(query, "ulimits", _ULIMITS, []))


def _document(
    query: Mapping[str, list[str]], name: str, type_: Type, unknown: list[str]
) -> list[Any]:
    text = query.get(name, [""])[0]
    return canonical(parse_json(text.encode()), type_, unknown, name) or [] if text else []
