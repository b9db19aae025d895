"""One row of the table of routes: a path, who may ask there, and what answers.

A row says everything that is known of a route. The dispatcher, redirects of slashes, metrics,
zipped answers, authorization, the OpenAPI document and the pages made from it read rows, and
nothing else: there is no second list to keep.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from doorward.base.records import record

if TYPE_CHECKING:
    from starlette.responses import Response

    from doorward.rest.exchange import Exchange

__all__ = ["Endpoint", "Match", "RequestBody", "Route", "Routes", "Rule"]

Endpoint: TypeAlias = "Callable[[Exchange], Awaitable[Response]]"
"""The function that answers a request which the access rule of its route allows."""

_OPTIONAL: Final = "[/{"


@record
class Rule:
    """A rule of access to a route, which applies besides the system policy."""

    text: str
    """The rule in words, for the documentation, to be read after "available": `to everybody`."""
    allows: Callable[[Exchange], bool]
    is_probe: bool = False
    """True if listeners for diagnostics serve the route as well."""


@record
class RequestBody:
    """The body that a route reads: its JSON schema, and how it may be sent."""

    schema: Mapping[str, Any] = field(default_factory=dict)
    media_type: str = "application/json"
    unzips: bool = True
    """True if the body may be sent as gzip."""
    is_authorized: bool = False
    """True if the system policy sees the body."""


@record(kw_only=True)
class Route:
    """One row of the table of routes. It cannot be made without `access`, so no route is open by
    default.
    """

    path: str
    """The path, such as `/v1/data[/{path}]`: a last part in braces takes everything that follows,
    one in brackets is optional."""
    methods: tuple[str, ...]
    endpoint: Endpoint
    name: str
    """The name of the route in metrics and spans; all rows of one path have the same."""
    access: Rule
    body: RequestBody | None
    summary: str
    """The summary for the documentation; "" leaves the route out of it."""
    flags: tuple[str, ...] = ()
    """The query parameters that are flags."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The query parameters with values, and the description of each."""
    answers: tuple[str, ...] = ("200",)
    """The statuses of its responses, besides those that every route has."""
    zips: bool = False
    """True if responses are compressed for clients that accept gzip."""
    says_methods: bool = False
    """True if the response to another method (405) names the methods in `allow`."""
    refuses: Callable[[int, str], Response] | None = None
    """Makes the response of a refusal from status and message; None writes it as OPA does."""
    repeats: tuple[str, ...] = ()
    """Request headers that are copied into the response."""
    is_literal: bool = False
    """True if the endpoint gives a meaning to slashes at the end of the path."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths with braces only: `/a[/{b}]` -> `("/a", "/a/{b}")`."""
        if _OPTIONAL not in self.path:
            return (self.path,)
        start = self.path.partition(_OPTIONAL)[0]
        return start, self.path.replace("[", "").replace("]", "")

    @property
    def parameter(self) -> str:
        """The name of the last part if it is a parameter: `/a[/{b}]` -> `b`; "" otherwise."""
        return self.path.rpartition("{")[2].rstrip("}]") if "{" in self.path else ""


@record
class Match:
    """The rows of a path, one or more for its methods, and the segments after their fixed part."""

    routes: tuple[Route, ...]
    rest: tuple[str, ...]

    @property
    def template(self) -> str:
        """The path as a pattern of Go's router, as spans name it: `/v1/data/{path...}`."""
        path = self.routes[0].path
        if self.rest:
            return path.replace("[", "").replace("]", "").replace("}", "...}")
        return path.partition(_OPTIONAL)[0] or path

    def route(self, method: str) -> Route | None:
        """Return the row that has a method; None if no row has it."""
        return next((each for each in self.routes if method in each.methods), None)


class Routes:
    """The table of routes. An exact path is preferred to one with a parameter, a longer one to a
    shorter.
    """

    def __init__(self, rows: Sequence[Route]) -> None:
        """Index the rows by path; raise ValueError if rows of one path share a method or differ in
        name.
        """
        self.rows = tuple(rows)
        self._exact: dict[tuple[str, ...], tuple[Route, ...]] = {}
        self._open: dict[tuple[str, ...], tuple[Route, ...]] = {}
        for row in self.rows:
            for path in row.paths:
                *fixed, last = path[1:].split("/")
                known = self._open if last.startswith("{") else self._exact
                key = tuple(fixed) if last.startswith("{") else (*fixed, last)
                _check(row, known.get(key, ()))
                known[key] = (*known.get(key, ()), row)

    def match(self, path: tuple[str, ...]) -> Match | None:
        """Return the routes of exactly this path, or else of its longest beginning that any
        segments may follow, with these segments; None if there is neither.
        """
        if path in self._exact:
            return Match(self._exact[path], ())
        # The longest fixed part first: the more specific route wins.
        for length in range(len(path) - 1, 0, -1):
            if path[:length] in self._open:
                return Match(self._open[path[:length]], path[length:])
        return None

    def may_end_in_slash(self, path: tuple[str, ...]) -> bool:
        """Return True if slashes at the end of this path have no meaning, so that a client can be
        redirected to the path without them: a route serves the path or one above it, and the
        nearest of these does not take its path literally.
        """
        for length in range(len(path), 0, -1):
            rows = self._exact.get(path[:length], ()) + self._open.get(path[:length], ())
            if rows:
                return not any(row.is_literal for row in rows)
        return False


def _check(row: Route, others: Sequence[Route]) -> None:
    """Raise ValueError if `row` has a method in common with one of `others`, the earlier rows of
    its path, or another name than they have.
    """
    for other in others:
        if set(row.methods) & set(other.methods):
            raise ValueError(f"{row.path}: two rows of the route table have the same method")
        if row.name != other.name:
            raise ValueError(
                f"{row.path}: two rows of the route table have different route names "
                "(metrics use one per path)"
            )
