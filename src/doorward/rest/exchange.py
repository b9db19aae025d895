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
"""The number of requests that are decided at the same time."""
CHANGES: Final = 4
"""The number of changes of policies and data at the same time, in threads of their own."""
PROBES: Final = 4
"""The number of health and metrics requests at the same time, in threads of their own."""
MEMORY: Final = 4
"""The memory for the values of all bodies together, as a multiple of the largest body."""
NUMBER: Final = "doorward.number"
"""The key under which the scope of a request has its number in the request log."""
_BODY: Final = "doorward.body"
"""The key under which the scope of a request has the body that the system policy saw."""


class Login(Protocol):
    """The sessions of the console's browsers; paths are the segments below `/console`.

    `is_open`: the request needs no session. `is_page`: a browser shows it, so that it may be
    redirected to `login_page`. `token` returns the session's token, "" without one.
    """

    def is_open(self, method: str, path: tuple[str, ...], /) -> bool: ...

    def is_page(self, method: str, path: tuple[str, ...], /) -> bool: ...

    def login_page(self, request: Request, /) -> str: ...

    async def token(self, request: Request, /) -> str: ...


Pages: TypeAlias = Callable[[Request, tuple[str, ...]], Awaitable[Response]]
"""A function that answers a request; it also gets the path's segments after the first."""


class Service:
    """The parts that all requests of a server share: decision point, configuration, threads,
    memory.
    """

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
        """The paths of the documents that clients may read, with everything below them; None for
        all."""
        self.memory = Memory(MEMORY * config.server.max_length)
        deadline = config.evaluation.deadline
        self.workers = Workers("http-workers", THREADS, deadline=deadline)
        # A change that has begun is finished: half of one would be worse than an answer
        # nobody reads.
        self.changes = Workers("http-changes", CHANGES, deadline=deadline, stops=False)
        # Probes of their own: busy workers must not look like a dead server.
        self.probes = Workers("http-probes", PROBES, deadline=deadline)

    def serves(self, path: tuple[str, ...]) -> bool:
        """Return True if clients may read the document at `path`: it is at or below a path that is
        served, and neither a secret nor below one.
        """
        # A path above a secret is served: `Call.decide` takes the secret out of the result.
        if any(is_below(path, secret) for secret in self.pdp.secrets):
            return False
        served = self.served
        # Equal texts only, unlike `is_below`: another spelling of a served index is refused, never
        # the reverse.
        return served is None or any(path[: len(each)] == each for each in served)


class Exchange:
    """One request to a route; `path` has the segments after the fixed part of the route's path."""

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
        """Return the request's part of a decision's log entry; None if decisions are not logged."""
        service, request = self.service, self.request
        if not service.pdp.logs_decisions:
            return None
        names = service.config.decision_logs.headers
        headers = logged_headers(names, request.headers.getlist)
        return RequestContext(headers, request.scope[NUMBER], request.scope.get("client"))

    @property
    def may_explain(self) -> bool:
        """True if the request asks for no explanation, or may have one.

        An explanation shows policies and data, so everything must be served, without secrets and
        without authorization.
        """
        service = self.service
        is_open = service.served is None and not service.pdp.secrets and not service.authorizes
        return is_open or mode_of(self.parameters) is None

    async def run(
        self, function: Callable[[], Response], workers: Workers | None = None
    ) -> Response:
        """Return the response of `function`, run in a worker thread and compressed if the route
        allows it. Raise AbandonedError if the client left before, and what `function` raises.
        `workers`: by default those of the service.
        """
        return await (workers or self.service.workers).run(lambda: self.zip(function()))

    async def read(
        self, function: Callable[[Body], Response], workers: Workers | None = None
    ) -> Response:
        """Return the response of `function` to the request's body, run in a worker thread. Raise
        BadRequest if the body cannot be read, NoRoomError if its memory is not free in time,
        AbandonedError if the client left before, and what `function` raises. `workers`: by default
        those of the service.
        """
        with self.service.memory.room() as room:
            body: Body | None = self.request.scope.get(_BODY)
            if body is None:
                body = await self._read(room)
            else:
                # A body that the policy has seen was read in another room, which has
                # given its memory back.
                await room.take(len(body.text) + body.size)
            text = body  # not changed from here on
            return await self.run(lambda: function(text), workers)

    async def show_body(self, room: Room) -> Body | None:
        """Return the body for the system policy, and keep it for `read`; None if the policy does
        not see bodies. Raise BadRequest if it cannot be read, NoRoomError if its memory is not free
        in time.
        """
        body = None
        if self._route.body is not None and self._route.body.is_authorized:
            body = await self._read(room)
        self.request.scope[_BODY] = body
        return body

    def zip(self, answer: Response) -> Response:
        """Return `answer`, compressed if the route allows it and the client accepts gzip."""
        if not self._route.zips:
            return answer
        accept = self.request.headers.get("accept-encoding", "")
        return gzip_response(answer, accept, self.service.config.server)

    async def _read(self, room: Room) -> Body:
        """Return the body of the request, decompressed if it is gzip and the route allows that. Its
        bytes are taken from `room`, and so is the estimated memory of its value if it was
        compressed or has more than `UNCOUNTED` bytes. Raise BadRequest if it cannot be
        decompressed, or it or its value is too large; NoRoomError if memory is not free in time.
        """
        service, request, expected = self.service, self.request, self._route.body
        limits = service.config.server
        is_zipped = expected is not None and expected.unzips and _is_zipped(request)
        text = await read_body(request, limits, room)
        # A smaller body is not counted, and its price not worth a thread.
        if is_zipped or len(text) > UNCOUNTED:
            text, cost = await service.workers.run(_open, text, limits, is_zipped=is_zipped)
            # More than all there is: it would wait for ever, and a retry would not help.
            if cost > service.memory.limit:
                raise BadRequest("request body too large")
            await room.take(cost)
        return Body(text, request.headers.get("content-type", ""))


def parameters_of(request: Request) -> Parameters:
    """The parameters of a request's query."""
    return parameters(request.scope.get("query_string", b""))


def _open(body: bytes, limits: Server, *, is_zipped: bool) -> tuple[bytes, int]:
    """Return the body's text, decompressed if `is_zipped`, and the memory in bytes that its value
    may take. Raise BadRequest if it cannot be decompressed, or is then too large.
    """
    text = unzip(body, limits) if is_zipped else body
    return text, estimate_memory(text)


def _is_zipped(request: Request) -> bool:
    """Return True if `content-encoding` contains `gzip`, which is all that OPA looks for."""
    return "gzip" in request.headers.get("content-encoding", "")
