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
"""What answers a request that its rule allows."""

_OPTIONAL: Final = "[/{"


@record
class Rule:
    """A rule of access to a route, beside the system policy."""

    text: str
    """For the documentation, such as `where everything is served`."""
    allows: Callable[[Exchange], bool]
    is_probe: bool = False
    """Whether listeners for diagnostics alone have the route as well."""


@record
class RequestBody:
    """The body that a route reads."""

    schema: Mapping[str, Any] = field(default_factory=dict)
    media_type: str = "application/json"
    unzips: bool = True
    """Whether it may be sent as gzip."""
    is_authorized: bool = False
    """Whether the system policy sees it."""


@record(kw_only=True)
class Route:
    """One route. Without `access` there is none: a new route is closed until someone opens it."""

    path: str
    """Such as `/v1/data[/{path}]`: a last part in braces takes whatever follows, one in brackets is
    there or not."""
    methods: tuple[str, ...]
    endpoint: Endpoint
    name: str
    """By which metrics and spans know it; all rows of one path have the same."""
    access: Rule
    body: RequestBody | None
    summary: str
    """For the documentation; "" for pages and paths that are not part of the API."""
    flags: tuple[str, ...] = ()
    """Parameters that are true or false."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameters with values, each with what it is."""
    answers: tuple[str, ...] = ("200",)
    """Statuses that it answers with, beside those of every route."""
    zips: bool = False
    """Whether answers are zipped for clients that accept it."""
    says_methods: bool = False
    """Whether the answer to another method names those that it has."""
    refuses: Callable[[int, str], Response] | None = None
    """How refusals are written, of a status and a message, where that is not OPA's way."""
    repeats: tuple[str, ...] = ()
    """Headers of a request that its answer has as well."""
    is_literal: bool = False
    """Whether slashes at the end of a path mean something to the endpoint."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths with braces alone: two where the last part may be missing."""
        if _OPTIONAL not in self.path:
            return (self.path,)
        start = self.path.partition(_OPTIONAL)[0]
        return start, self.path.replace("[", "").replace("]", "")

    @property
    def parameter(self) -> str:
        """The name of the last part, where that takes what follows."""
        return self.path.rpartition("{")[2].rstrip("}]") if "{" in self.path else ""


@record
class Match:
    """The rows of a path, and what of the path follows their fixed part."""

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
        """The row for a method; None where none has it."""
        return next((each for each in self.routes if method in each.methods), None)


class Routes:
    """Rows, found by the segments of a path: an exact one before one that takes what follows."""

    def __init__(self, rows: Sequence[Route]) -> None:
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
        """The routes of a path; None if no route has it."""
        if path in self._exact:
            return Match(self._exact[path], ())
        for length in range(len(path) - 1, 0, -1):
            if path[:length] in self._open:
                return Match(self._open[path[:length]], path[length:])
        return None

    def may_end_in_slash(self, path: tuple[str, ...]) -> bool:
        """Return True if a path leads to an endpoint, so that a slash at its end is one too
        many."""
        for length in range(len(path), 0, -1):
            rows = self._exact.get(path[:length], ()) + self._open.get(path[:length], ())
            if rows:
                return not any(row.is_literal for row in rows)
        return False


def _check(row: Route, others: Sequence[Route]) -> None:
    """Raise ValueError if rows of one path share a method or differ in name."""
    for other in others:
        if set(row.methods) & set(other.methods):
            raise ValueError(f"{row.path}: two rows have the same method")
        if row.name != other.name:
            raise ValueError(f"{row.path}: two rows have different names")
