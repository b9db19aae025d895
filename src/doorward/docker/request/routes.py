"""The engine API's routes: method and path to the action that a policy names.

The patterns match the whole decoded path without its version, as the daemon's router does. A route
says what kind of body the daemon acts on, because what the daemon acts on and the plugin is not
shown has to be refused. What no pattern matches is `unknown`.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, cast

from doorward.base.records import record, replace
from doorward.docker.request.model.table import ROUTES as MODEL
from doorward.docker.request.model.table import RouteModel
from doorward.docker.request.schema import LOOSE, Type

__all__ = ["IMPORT", "ROUTES", "UNKNOWN", "Kind", "Route", "find_route"]

Kind: TypeAlias = Literal["none", "json", "optional", "stream", "withheld"]
"""What the daemon reads of the body.

`none`: nothing, but a form in a POST would replace the query. `json`: always JSON. `optional`: JSON
if there is a body. `withheld`: JSON that newer daemons do not show. `stream`: a tar archive or a
connection that is taken over; the plugin is never shown it.
"""


@record
class Route:
    """One action of the engine API: its name, its path, and how its body is read."""

    method: str
    pattern: re.Pattern[str]
    action: str
    kind: Kind
    schema: Type
    model: RouteModel
    """The types of the body's fields."""


_NOTHING: Final = RouteModel("", "", "unknown", "stream", LOOSE, None, None, {})
UNKNOWN: Final = Route("", re.compile(""), "unknown", "stream", LOOSE, _NOTHING)


def _pattern(path: str) -> re.Pattern[str]:
    # Names may have slashes, as those of images do: the order of the routes tells them apart.
    return re.compile(path.replace("{name}", "(?P<name>.+)").replace("{other}", "(?P<other>.+)"))


ROUTES: Final = tuple(
    Route(
        model.method,
        _pattern(model.path),
        model.action,
        cast("Kind", model.kind),
        model.schema,
        model,
    )
    for model in MODEL
)
"""The routes, in the order of the daemon's router for patterns that match the same path."""

_PULL: Final = next(route for route in ROUTES if route.action == "image.pull")
IMPORT: Final = replace(_PULL, action="image.import", kind="stream")
"""The route for creating an image whose query says that it comes from an archive."""

_FIRST: Final = re.compile(r"/[a-z_]+")
"""The first segment of a path, without which no route is. All begin with one that is literal."""


def _index() -> dict[tuple[str, str], tuple[Route, ...]]:
    """Return the routes by method and first segment of their path, in the order of the table."""
    index: dict[tuple[str, str], tuple[Route, ...]] = {}
    for route in ROUTES:
        first = _FIRST.match(route.pattern.pattern)
        assert first is not None
        key = route.method, first[0]
        index[key] = (*index.get(key, ()), route)
    return index


_INDEX: Final = _index()


def _match(method: str, path: str) -> tuple[Route, str]:
    """Return the route of a method and path, `UNKNOWN` if none matches, and the name of the object
    in the path, `""` if it has none.
    """
    first = _FIRST.match(path)
    for route in _INDEX.get((method, first[0] if first else ""), ()):
        match = route.pattern.fullmatch(path)
        if match:
            return route, match.groupdict().get("name") or ""
    return UNKNOWN, ""


_PLAIN: Final = {
    (route.method, path): _match(route.method, path)
    for route in ROUTES
    if re.escape(path := route.pattern.pattern) == path
}
"""The routes of paths that contain no name."""


def find_route(method: str, path: str) -> tuple[Route, str]:
    """Return the route of a decoded path without its version, `UNKNOWN` if none matches, and the
    name in it (`""` if none).
    """
    return _PLAIN.get((method, path)) or _match(method, path)
