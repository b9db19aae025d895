"""One request and its answer, as endpoints see them: what was asked, and by what it is answered.

A `Service` is what all requests share; an `Exchange` is one of them. Evaluation happens in worker
threads, so that a slow policy never holds up a health check.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from doorward.config.configuration import Config, Server
from doorward.pdp.decision import RequestContext
from doorward.pdp.pdp import PDP
from doorward.pdp.sizes import estimate_memory
from doorward.pdp.store import Store
from doorward.rest.answers import gzip_response
from doorward.rest.body import Body
from doorward.rest.data import is_below
from doorward.rest.explanation import mode_of
from doorward.rest.memory import UNCOUNTED, Memory, Room
from doorward.rest.requests import (
    BadRequest,
    Parameters,
    logged_headers,
    parameters,
    read_body,
    unzip,
)
from doorward.rest.workers import Workers
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from doorward.control.status import Status
    from doorward.rest.route import Route, Routes

__all__ = [
    "MEMORY",
    "NUMBER",
    "THREADS",
    "Exchange",
    "Login",
    "Pages",
    "Service",
    "parameters_of",
]

THREADS: Final = 40
"""Requests that are decided at the same time."""
CHANGES: Final = 4
"""Changes of policies and data that are read and compiled at the same time, beside those."""
PROBES: Final = 4
"""Requests to the health of a policy and to metrics at the same time, beside those."""
MEMORY: Final = 4
"""What all bodies may take together, as values: so many times what one may have."""
NUMBER: Final = "doorward.number"
"""Where the scope of a request holds its number in the log of requests."""
_BODY: Final = "doorward.body"
"""Where it holds the body that the system policy was shown."""


class Login(Protocol):
    """The sessions of browsers; paths are below `/console`."""

    def is_open(self, method: str, path: tuple[str, ...], /) -> bool: ...

    def is_page(self, method: str, path: tuple[str, ...], /) -> bool: ...

    def login_page(self, request: Request, /) -> str: ...

    async def token(self, request: Request, /) -> str: ...


Pages: TypeAlias = Callable[[Request, tuple[str, ...]], Awaitable[Response]]
"""What answers a request with the segments of its path below the first."""


class Service:
    """The parts of the server that requests are answered by."""

    def __init__(
        self,
        pdp: PDP,
        config: Config,
        health: Health,
        metrics: Metrics,
        routes: Routes,
        *,
        store: Store,
        status: Status | None,
        console: Pages | None,
        read_only: bool,
        authorizes: bool,
    ) -> None:
        self.pdp = pdp
        self.config = config
        self.health = health
        self.metrics = metrics
        self.routes = routes
        self.store = store
        self.status = status
        self.console = console
        self.read_only = read_only
        self.authorizes = authorizes
        served = config.server.decision_paths
        self.served = None if served is None else [tuple(path.split("/")) for path in served]
        """The documents that clients may ask for, with what is below them; None: all."""
        self.memory = Memory(MEMORY * config.server.max_length)
        deadline = config.evaluation.deadline
        self.workers = Workers("http-workers", THREADS, deadline=deadline)
        self.changes = Workers("http-changes", CHANGES, deadline=deadline, stops=False)
        self.probes = Workers("http-probes", PROBES, deadline=deadline)

    def serves(self, path: tuple[str, ...]) -> bool:
        """Return True if the configuration lets clients read the document at `path`."""
        if any(is_below(path, secret) for secret in self.pdp.secrets):
            return False
        served = self.served
        return served is None or any(path[: len(each)] == each for each in served)


class Exchange:
    """One request to a route; `path` are the segments behind its fixed part."""

    def __init__(
        self, service: Service, request: Request, route: Route, path: tuple[str, ...]
    ) -> None:
        self.service = service
        self.request = request
        self.path = path
        self._route = route

    @property
    def parameters(self) -> Parameters:
        return parameters_of(self.request)

    def context(self) -> RequestContext | None:
        """Return the request's part of the decision log; None where there is none."""
        service, request = self.service, self.request
        if not service.pdp.logs_decisions:
            return None
        names = service.config.decision_logs.headers
        headers = logged_headers(names, request.headers.getlist)
        return RequestContext(headers, request.scope[NUMBER], request.scope.get("client"))

    @property
    def may_explain(self) -> bool:
        """True if the request wants no explanation, or may have it: it shows policies and data,
        which a policy of authorization that decides by path may keep from a client."""
        service = self.service
        is_open = service.served is None and not service.pdp.secrets and not service.authorizes
        return is_open or mode_of(self.parameters) is None

    async def run(
        self, function: Callable[[], Response], workers: Workers | None = None
    ) -> Response:
        """The answer of `function`, in a worker thread."""
        return await (workers or self.service.workers).run(lambda: self.zip(function()))

    async def read(
        self, function: Callable[[Body], Response], workers: Workers | None = None
    ) -> Response:
        """The answer of `function` to the body of the request, in a worker thread."""
        with self.service.memory.room() as room:
            body: Body | None = self.request.scope.get(_BODY)
            if body is None:
                body = await self._read(room)
            else:
                await room.take(len(body.text) + body.size)
            text = body  # not changed from here on
            return await self.run(lambda: function(text), workers)

    async def show_body(self, room: Room) -> Body | None:
        """Read the body for the system policy; None if that policy does not see bodies."""
        body = None
        if self._route.body is not None and self._route.body.is_authorized:
            body = await self._read(room)
        self.request.scope[_BODY] = body
        return body

    def zip(self, answer: Response) -> Response:
        """Compress the answer if the route allows that and the client accepts it."""
        if not self._route.zips:
            return answer
        accept = self.request.headers.get("accept-encoding", "")
        return gzip_response(answer, accept, self.service.config.server)

    async def _read(self, room: Room) -> Body:
        """The body of a request; its bytes, and what its values may take, are taken from `room`."""
        service, request, expected = self.service, self.request, self._route.body
        limits = service.config.server
        is_zipped = expected is not None and expected.unzips and _is_zipped(request)
        text = await read_body(request, limits, room)
        if is_zipped or len(text) > UNCOUNTED:
            text, cost = await service.workers.run(_open, text, limits, is_zipped=is_zipped)
            if cost > service.memory.limit:
                raise BadRequest("request body too large")
            await room.take(cost)
        return Body(text, request.headers.get("content-type", ""))


def parameters_of(request: Request) -> Parameters:
    """The parameters of a request's query."""
    return parameters(request.scope.get("query_string", b""))


def _open(body: bytes, limits: Server, *, is_zipped: bool) -> tuple[bytes, int]:
    """Decompress a body; return its text, and the memory that its values may take."""
    text = unzip(body, limits) if is_zipped else body
    return text, estimate_memory(text)


def _is_zipped(request: Request) -> bool:
    """Return True if OPA would unzip the body: it looks for the word alone."""
    return "gzip" in request.headers.get("content-encoding", "")
