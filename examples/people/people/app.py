"""HTTP requests become calls of a `PeopleStore`, its answers become JSON.

| method | path | answer |
|---|---|---|
| GET | /people | 200, an array of up to 1,000 people; `?after=ID` gives those that follow |
| POST | /people | 200, the person with its new id |
| DELETE | /people?id=ID | 204; without an id it is an error, never "everybody" |
| GET | /people/ID | 200, one person |
| DELETE | /people/ID | 204 |

Errors are `{"error": "…"}` with 400, 404, 405 (with Allow), 413, 415 or 503.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Final, TextIO

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from people.person import MAX_BODY, BadBody, parse_person
from people.store import PAGE, PeopleStore, is_id

COLLECTION: Final = ("GET", "POST", "DELETE")
ITEM: Final = ("GET", "DELETE")


def create_app(store: PeopleStore, access_log: TextIO | None = None) -> ASGIApp:
    """The service over a store, which it closes when it ends; one access log line a request."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        store.close()

    people = _People(store)
    app = Starlette(
        routes=[
            Route("/people", people.collection, methods=COLLECTION),
            Route("/people/{id}", people.item, methods=ITEM),
        ],
        exception_handlers={
            HTTPException: _to_error,
            OperationalError: _to_unavailable,
            PoolTimeout: _to_unavailable,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # /people/ is not another name of /people
    return AccessLog(app, access_log or sys.stderr)


class _People:
    """The endpoints."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    async def collection(self, request: Request) -> Response:
        match request.method:
            case "POST":
                return await self._add(request)
            case "DELETE":
                return await self._delete(_read_parameter(request, "id"))
            case _:
                return await self._list(request)

    async def item(self, request: Request) -> Response:
        person_id = str(request.path_params["id"])
        if request.method == "DELETE":
            return await self._delete(person_id)
        person = await run_in_threadpool(self._store.find, person_id)
        if person is None:
            raise _not_found()
        return JSONResponse(asdict(person))

    async def _list(self, request: Request) -> Response:
        after = _read_parameter(request, "after") if "after" in request.query_params else "0"
        if after != "0" and not is_id(after):
            raise HTTPException(400, "`after` must be the id of a person")
        people = await run_in_threadpool(self._store.list_people, after=after)
        headers = {}
        if len(people) == PAGE:
            headers["link"] = f'</people?after={people[-1].id}>; rel="next"'
        return JSONResponse([asdict(person) for person in people], headers=headers)

    async def _add(self, request: Request) -> Response:
        _check_type(request.headers)
        try:
            person = parse_person(await _read_body(request))
        except BadBody as error:
            raise HTTPException(400, str(error)) from error
        return JSONResponse(asdict(await run_in_threadpool(self._store.add, person)))

    async def _delete(self, person_id: str) -> Response:
        if not await run_in_threadpool(self._store.delete, person_id):
            raise _not_found()
        return Response(status_code=204)


def _read_parameter(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise HTTPException(400, f"the query parameter `{name}` must be given once")
    return str(values[0])


def _check_type(headers: Mapping[str, str]) -> None:
    media_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if media_type.strip().lower() != "application/json" or charset not in {"", "charset=utf-8"}:
        raise HTTPException(415, "the content type must be application/json in UTF-8")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "the body must not be compressed")


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"the body must not exceed {MAX_BODY} bytes")
    return bytes(body)


def _not_found() -> HTTPException:
    return HTTPException(404, "there is no such person")


async def _to_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _to_unavailable(_request: Request, _error: Exception) -> Response:
    # What the driver says may hold host names and statements; the client needs neither.
    return JSONResponse({"error": "the database does not answer"}, 503, {"retry-after": "1"})


class AccessLog:
    """Writes `METHOD TARGET STATUS MILLISECONDS` before an answer leaves.

    A client that holds the answer can therefore find its line, and a request without a line has
    not arrived. Targets are logged as sent, percent-encoded, so that a line is a line.
    """

    def __init__(
        self, app: ASGIApp, log: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._log = log
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = self._clock()
        logged = False

        def write(status: str) -> None:
            nonlocal logged
            logged = True
            elapsed = (self._clock() - begin) * 1000
            print(
                scope["method"], _target(scope), status, f"{elapsed:.1f}",
                file=self._log, flush=True,
            )  # fmt: skip

        async def send_logged(message: Message) -> None:
            if message["type"] == "http.response.start":
                write(str(message["status"]))
            await send(message)

        try:
            await self._app(scope, receive, send_logged)
        finally:
            if not logged:
                write("-")


def _target(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or str(scope["path"]).encode()
    query: bytes = scope.get("query_string", b"")
    target = (raw + b"?" + query if query else raw).decode("latin-1")
    return target.encode("unicode_escape").decode("ascii").replace(" ", "\\x20")
