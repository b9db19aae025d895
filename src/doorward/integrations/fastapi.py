"""FastAPI: decisions as dependencies.

    Decided = Annotated[Decision, Depends(require("people/allow"))]

    @app.get("/people", responses=DENIALS)
    async def people(decision: Decided): ...

`require` answers a denial itself, `check` passes the decision to the route. The middleware of
`asgi` decides every request; a dependency decides for a route, with an input of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Annotated, Any, Final, TypeAlias

from doorward.base.digits import parse_digits
from doorward.base.exporting import missing, renamed

try:
    from fastapi import Depends, FastAPI, HTTPException
except ModuleNotFoundError as error:
    raise missing("doorward[fastapi]", error) from None
from starlette.requests import HTTPConnection, Request

from doorward.enforcement.check import HttpOptions
from doorward.enforcement.errors import RequestError, RequestParseError
from doorward.enforcement.http_input import to_input
from doorward.enforcement.refusals import REASON_HEADER, log_failure
from doorward.enforcement.rows import conditions_of_rows, masks_of_rows
from doorward.filters import Masks, Nulls
from doorward.integrations.asgi import BODY, below_root, request_of
from doorward.pdp import Decision, DecisionPoint
from doorward.rego import from_python
from doorward.verdicts import ResultError, read_verdict

__all__ = [
    "DENIALS",
    "MakeInput",
    "check",
    "column_masks",
    "get_point",
    "install",
    "require",
    "row_filter",
]

__getattr__ = renamed(__name__, {"filtered": "row_filter", "masked": "column_masks"})

MakeInput: TypeAlias = Callable[[HTTPConnection], Any | Awaitable[Any]]
"""Returns the input of a decision, or an awaitable of it, for a connection."""

DENIALS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "The request can be read in two ways"},
    403: {"description": "The policy denies the request"},
}
"""The value of `responses=` for a route or router that documents denials in OpenAPI. A policy with
other statuses needs other entries.
"""

_DEFAULTS: Final = HttpOptions()


def install(app: FastAPI, point: DecisionPoint) -> None:
    """Set the decision point of the dependencies of `app`. Tests replace it with
    `app.dependency_overrides[get_point]`.
    """
    app.state.doorward = point


def get_point(connection: HTTPConnection) -> DecisionPoint:
    """Return the decision point of the application; raise `LookupError` if `install` was not
    called.
    """
    point = getattr(connection.app.state, "doorward", None)
    if not isinstance(point, DecisionPoint):
        raise LookupError(
            "the application has no decision point: call doorward.integrations.fastapi.install"
        )
    return point


Point = Annotated[DecisionPoint, Depends(get_point)]


def check(
    path: str, *, input: MakeInput | None = None, options: HttpOptions | None = None
) -> Callable[..., Awaitable[Decision]]:
    """Return a dependency whose value is the `Decision` of the document at `path`, allowed or not.

    `input` returns the input; without it, the input is the sidecar's, read with `options`. A
    request that cannot be parsed, or that strict mode refuses, is a decision with an error.
    """

    async def decide(connection: HTTPConnection, point: Point) -> Decision:
        """Return the decision; one with an error for a request that cannot be parsed or that strict
        mode refuses.
        """
        try:
            document = await _input_of(connection, input, options or _DEFAULTS)
        except RequestError as error:
            return Decision("", path, error=error)
        return await point.decide(path, document)

    decide.doorward_decides = True  # type: ignore[attr-defined] # read by doorward.testing
    return decide


def require(
    path: str, *, input: MakeInput | None = None, options: HttpOptions | None = None
) -> Callable[..., Awaitable[Decision]]:
    """Return a dependency that ends the request unless the document at `path` allows it; its value
    is the `Decision`. `input` returns the input; without it, the input is the sidecar's, read with
    `options`.

    The dependency raises HTTPException for a denial, with the policy's `http_status` (403),
    `headers`, and `body` as `detail`; 400 for a request that cannot be parsed or that strict mode
    refuses. With `debug`, a header gives the reason of a failure.
    """
    ask = check(path, input=input, options=options)

    is_debug = (options or _DEFAULTS).debug

    async def decide(connection: HTTPConnection, point: Point) -> Decision:
        """Return the decision if it allows the request; otherwise raise `HTTPException` with the
        policy's status.

        A request that cannot be parsed, or that strict mode refuses, is 400; an error of the
        policy, or a result of a wrong form, is 403.
        """
        decision = await ask(connection, point)
        why = log_failure(decision, point.snapshot)
        headers = {REASON_HEADER: why} if is_debug and why else None
        if isinstance(decision.error, RequestError):
            raise HTTPException(400, f"{decision.error.code}: {decision.error}")
        if decision.error is not None:
            raise HTTPException(403, headers=headers)
        try:
            verdict = read_verdict(decision.result)
        except ResultError as error:
            raise HTTPException(403, headers=headers) from error
        if not verdict.allowed:
            raise HTTPException(verdict.status, verdict.body or None, dict(verdict.headers))
        return decision

    decide.doorward_decides = True  # type: ignore[attr-defined] # read by doorward.testing
    return decide


def row_filter(
    path: str,
    tables: Mapping[str, Any],
    *,
    input: MakeInput,
    nulls: Nulls = "null",
) -> Callable[..., Awaitable[Any]]:
    """Return a dependency whose value is a condition for `select(…).where(…)`: the rows for which
    the document at `path` is true (extra `sqlalchemy`).

    `tables` and `nulls` are those of `doorward.filters.sqlalchemy.where`, the tables by their names
    below `input` in the policy; `input` returns the rest of the input. The dependency raises
    FilterError or RegoError if the policy cannot be a condition.
    """
    unknowns = [f"input.{name}" for name in tables]

    async def clause(connection: HTTPConnection, point: Point) -> Any:
        """Return the condition of the permitted rows, computed in a thread."""
        from doorward.filters.sqlalchemy import where  # the extra is for those who filter

        known = from_python(await _build_input(connection, input), "input")

        def make() -> Any:
            """Evaluate the policy partially and convert the residual to a condition."""
            conditions = conditions_of_rows(
                point.snapshot, point.pdp.build_gate, path, unknowns, known
            )
            return where(conditions, tables, nulls=nulls)

        return await asyncio.to_thread(make)  # it takes milliseconds

    clause.doorward_decides = True  # type: ignore[attr-defined] # read by doorward.testing
    return clause


def column_masks(path: str, *, input: MakeInput) -> Callable[..., Awaitable[Masks]]:
    """Return a dependency whose value is the `Masks`: the columns that the rule at `path` hides
    from a user; none if it is undefined or null.

    `doorward.filters.sqlalchemy.without_masked` leaves these columns in the database, `Masks.drop`
    removes them from a response. The dependency raises FilterError if there is no such rule or its
    value is not a mask, RegoError if its evaluation fails.
    """

    async def masks(connection: HTTPConnection, point: Point) -> Masks:
        """Return the masks of the rule. FilterError if there is no such rule or its value is not a
        mask, RegoError if its evaluation fails.
        """
        known = from_python(await _build_input(connection, input), "input")
        return masks_of_rows(point.snapshot, path, known)

    return masks


async def _build_input(connection: HTTPConnection, make: MakeInput) -> Any:
    """Return the input that `make` returns, awaited if necessary."""
    built = make(connection)
    return await built if isawaitable(built) else built


async def _input_of(
    connection: HTTPConnection, make: MakeInput | None, options: HttpOptions
) -> Any:
    """Return the input of the decision: the value of `make`, or the HTTP request as the sidecar's
    input. Raise RequestError if the request cannot be parsed or strict mode refuses it, and
    RuntimeError if FastAPI has read its body as a form.
    """
    if make is not None:
        return await _build_input(connection, make)
    scope = connection.scope
    body, is_cut = b"", False
    if isinstance(connection, Request) and not options.skip_body:
        body, is_cut = await _body_of(connection, options.max_body)
    if root := scope.get("root_path"):
        scope = below_root(scope, root)
    request, _ = request_of(scope, options, body, is_cut=is_cut)
    return to_input(request, strict=options.strict, skip_body=options.skip_body)


async def _body_of(request: Request, limit: int) -> tuple[bytes, bool]:
    """Read the body; return at most `limit` bytes, and True if it has more.

    A body that is declared longer, or has a `transfer-encoding` and so no declared length, is not
    read at all: the result is one space and True. RequestParseError for a longer body without
    either, as HTTP/2 allows. RuntimeError if FastAPI has read it as a form.
    """
    length = request.headers.get("content-length", "")
    is_long = (parse_digits(length) or 0) > limit
    if is_long or "transfer-encoding" in request.headers:
        return b" ", True  # what is longer than the policy may see is not read for it
    is_cut = False
    try:
        # RFC 9112, section 6.3: a request of HTTP/1 with neither of the two headers has no body.
        is_declared = length or request.scope["http_version"].startswith("1")
        content = await (request.body() if is_declared else _undeclared_body(request, limit))
    except RuntimeError as error:  # FastAPI reads a form, and keeps none of its bytes
        if BODY not in request.scope:
            raise RuntimeError(
                "FastAPI has read the form, so the policy cannot see the body: give the "
                "dependency an `input`, or wrap the application in "
                "doorward.integrations.asgi"
            ) from error
        content, is_cut = request.scope[BODY]
    return content[:limit], is_cut or len(content) > limit


async def _undeclared_body(request: Request, limit: int) -> bytes:
    """Read a body without a declared length, chunk by chunk, and leave it to the route.
    RequestParseError if it is longer than `limit`: what was read of it cannot be put back.
    """
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            message = f"a body of more than {limit} bytes needs a content-length"
            raise RequestParseError(message)
    request._body = bytes(content)  # where Starlette's body() keeps it
    return request._body
