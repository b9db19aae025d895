"""The HTTP API as one ASGI application: from a path to its row in the table of routes.

Paths are taken as they were sent, unescaped segment by segment, never normalised: what a router
would rather see is answered with a redirect, as OPA does. What a route is, who may ask there and
what answers stands in `routes`; nothing here knows one of them.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from doorward.config.configuration import Config
from doorward.control.status import Status
from doorward.edge import FAULTS, Edge, Part
from doorward.pdp.pdp import PDP
from doorward.pdp.store import Store
from doorward.rest import authorization
from doorward.rest.answers import (
    NO_ROOM,
    bad_request,
    busy,
    forbidden,
    internal_error,
    no_content,
    not_allowed,
    redirect,
    unknown_path,
)
from doorward.rest.authorization import Access
from doorward.rest.exchange import NUMBER, THREADS, Exchange, Login, Pages, Service, parameters_of
from doorward.rest.memory import NoRoomError
from doorward.rest.request_log import RequestLog
from doorward.rest.requests import BadRequest, segments
from doorward.rest.route import Match, Routes
from doorward.rest.routes import ROUTES
from doorward.rest.short_path import ShortPath
from doorward.rest.workers import CURRENT, AbandonedError
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics
from doorward.telemetry.span_attributes import request_attributes, response_attributes
from doorward.transport.http1.asgi import CANCELLATION
from doorward.transport.http1.connection import Answer
from doorward.transport.pool import Pool

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["Api"]

CLIENT_LEFT: Final = 499
"""The status, in logs and metrics only, of a request whose client left; nginx uses the same."""

_EDGE: Final = Edge("http", "a request failed")
_TEMPLATE: Final = "doorward.route"
"""The key under which the scope of a request has the pattern of its path."""
_ASCII: Final = "".join(map(chr, range(0x20, 0x7F)))
_METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)


class Api:
    """The HTTP API as an ASGI application; with `diagnostic` it serves only health and metrics."""

    def __init__(
        self,
        pdp: PDP,
        config: Config,
        health: Health,
        metrics: Metrics,
        *,
        store: Store | None = None,
        access: Access | None = None,
        diagnostic: bool = False,
        read_only: bool = False,
        status: Status | None = None,
        console: Pages | None = None,
        login: Login | None = None,
        requests: RequestLog | None = None,
        tracer: Tracer | None = None,
        routes: Routes = ROUTES,
    ) -> None:
        """Serve the API of `pdp`. `store` holds what clients may change; without it their changes
        affect only `pdp`.
        `read_only`: clients may change nothing, as in one of several processes. `console` answers
        below `/console`, `login` has the sessions of its browsers. `requests` logs a line for each
        answered request.
        """
        self._requests = requests
        self._tracer = tracer
        self._short_paths: list[ShortPath] = []
        self._access = access or Access()
        self._health = health
        self._diagnostic = diagnostic
        self._routes = routes
        self._login = login
        self._service = Service(
            pdp,
            config,
            health,
            metrics,
            routes,
            store=store or Store(pdp),
            status=status,
            console=console,
            read_only=read_only,
            authorizes=self._access.authorizes,
        )
        self._pools: list[Pool] = []
        if not diagnostic:
            health.parts.add(self._service.workers.part)
            health.parts.add(self._service.changes.part)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request; also count its duration, and log a line for it. Other connections
        are ignored.
        """
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        started = perf_counter()
        number = 0 if self._requests is None else self._requests.number()
        scope[NUMBER] = number
        # For `Workers.run`, which is called deep below and stops the work of a client that left.
        CURRENT.set(scope.get(CANCELLATION))
        # In `path` an escaped `%2F` looks like a separator. ASGI leaves `raw_path` optional.
        raw = scope.get("raw_path") or scope["path"].encode()
        if self._tracer is None:
            name, answer = await self._answer(request, raw)
        else:
            name, answer = await self._trace(self._tracer, request, raw)
        # A client chooses its method: each new one would be a new series of the metric for ever.
        method = request.method.lower() if request.method in _METHODS else "other"
        elapsed = perf_counter() - started
        self._service.metrics.http_request_duration_seconds.labels(
            answer.status_code, name, method
        ).observe(elapsed)
        if self._requests is not None:
            path, client = raw.decode("latin-1"), scope.get("client")
            size = len(getattr(answer, "body", b""))  # a page may be written bit by bit
            status = answer.status_code
            self._requests.note(number, client, request.method, path, status, size, elapsed)
        # After log and metrics: a client that reads slowly must not hold them back.
        await answer(scope, receive, send)

    async def _answer(self, request: Request, raw: bytes) -> tuple[str, Response]:
        """Return the endpoint's name in metrics, and the response; raises nothing that a request
        can cause.

        A fault is reported and becomes 500; 499 if the client left.
        """
        try:
            return await self._route(request, raw)
        except BadRequest as error:
            # Of a path that cannot be split, or a body that the system policy should see: routes
            # answer their own (`_answer_match`).
            return "catchall", bad_request(str(error))
        except NoRoomError:
            return "catchall", busy()
        except AbandonedError:
            return "catchall", no_content(CLIENT_LEFT)
        except FAULTS as fault:
            return "catchall", internal_error(_EDGE.report(fault))

    async def _trace(self, tracer: Tracer, request: Request, raw: bytes) -> tuple[str, Response]:
        """Answer a request in a span that is named after the endpoint, as in OPA; return the
        endpoint's name in metrics and the response. A status from 500 on marks the span as failed.
        """
        path, headers = raw.decode("latin-1"), request.headers
        method = request.method
        scope = request.scope
        attributes = request_attributes(
            method,
            path,
            headers.get,
            scope.get("client"),
            is_encrypted=scope.get("scheme") == "https",
            version=scope.get("http_version", "1.1"),
        )
        with tracer.serve("http", headers.get, attributes) as span:
            name, answer = await self._answer(request, raw)
            size = len(getattr(answer, "body", b""))
            route = scope.get(_TEMPLATE, "")
            span.named(name, response_attributes(answer.status_code, size, route))
            if answer.status_code >= 500:
                span.failed(str(answer.status_code))
            return name, answer

    async def _route(self, request: Request, raw: bytes) -> tuple[str, Response]:
        """Return the name in metrics and the response of a request: a redirect to a cleaner path, a
        refusal of the system policy, 404, or the response of the route that matches. Stores the
        template of that route in the request's scope.
        """
        clean = _clean(raw)
        is_clean = clean == raw
        is_longer = not is_clean and clean == raw.rstrip(b"/")
        if is_longer and self._routes.may_end_in_slash(segments(clean)[1:]):
            return "catchall", self._redirect(request, raw, 301, clean)
        path = segments(raw)[1:]
        # Before authorization, which needs to know whether the route has a body to show.
        match = self._routes.match(path)
        if match is not None:
            request.scope[_TEMPLATE] = match.template
        if self._access.authorizes and not self._is_open(request, path):
            # Before unknown paths are answered: who may not ask learns nothing about routes.
            refusal = await self._authorize(request, match)
            if refusal is not None:
                return "authz", refusal
        if not is_clean and clean != raw.rstrip(b"/"):
            return "catchall", self._redirect(request, raw, 307, clean)
        # As Go's ServeMux: the cleaned path keeps one final slash.
        if raw.endswith(b"//"):
            shorter = clean.rstrip(b"/") + b"/"
            return "catchall", self._redirect(request, raw, 307, shorter)
        # On a diagnostic listener other routes do not exist, rather than being forbidden.
        if match is None or (self._diagnostic and not match.routes[0].access.is_probe):
            return "catchall", unknown_path()
        return match.routes[0].name, await self._answer_match(request, match)

    def _is_open(self, request: Request, path: Sequence[str]) -> bool:
        """Return True if a browser may send this request to the console before its login; False for
        other requests, and if the console has no login.
        """
        login = self._login
        names = tuple(path)
        is_console = login is not None and names[:1] == ("console",)
        return login is not None and is_console and login.is_open(request.method, names[1:])

    async def _answer_match(self, request: Request, match: Match) -> Response:
        """Return the response of a matching route, which is that of its endpoint: 405 if the route
        has no such method, 403 if its access rule forbids the request, 400 if the request is
        malformed, 503 if its memory is not free.

        Refusals have the form of the route. Headers of the request that the route repeats are
        added.
        """
        route = match.route(request.method)
        row = route or match.routes[0]
        exchange = Exchange(self._service, request, row, match.rest)
        refuse = row.refuses
        try:
            # Before the method is looked at: who may not ask learns no methods either.
            if not row.access.allows(exchange):
                answer = (
                    forbidden()
                    if refuse is None
                    else refuse(
                        403, "this server does not serve the document of `authzen.decision`"
                    )
                )
            elif route is None:
                answer = _not_allowed(exchange, match, request.method)
            else:
                answer = await route.endpoint(exchange)
        except BadRequest as error:
            answer = bad_request(str(error)) if refuse is None else refuse(400, str(error))
            answer = exchange.zip(answer)
        except NoRoomError:
            answer = busy() if refuse is None else refuse(503, NO_ROOM)
        for name in row.repeats:
            if (value := request.headers.get(name)) is not None:
                answer.headers[name] = value
        return answer

    async def _authorize(self, request: Request, match: Match | None) -> Response | None:
        """Return the refusal of the system policy, or None if it allows the request.

        A browser without a session is redirected to the login instead; the token of a session is
        stored in the request's scope. If the policy sees bodies, the body is read here.
        """
        service = self._service
        route = None if match is None else match.route(request.method)
        login = None if match is None or match.routes[0].name != "console" else self._login
        if login is not None:
            # For the policy, as if the browser had sent it itself.
            request.scope[authorization.TOKEN] = await login.token(request)
        with service.memory.room() as room:
            body = None
            if match is not None and route is not None:
                body = await Exchange(service, request, route, match.rest).show_body(room)
            refusal = await service.workers.run(
                authorization.authorize,
                service.pdp,
                service.config.default_authorization_decision,
                self._access,
                request,
                parameters_of(request),
                body,
            )
        rest = () if match is None else match.rest
        # A person without a session; a client that shows a token is told that it is refused.
        asks_person = refusal is not None and "authorization" not in request.headers
        if asks_person and login is not None and login.is_page(request.method, rest):
            return Response(b"", 303, {"location": login.login_page(request)})
        if refusal is not None and match is not None:
            if _varies(request, match):
                refusal.headers["vary"] = "Accept-Encoding"
            # AuthZEN asks for this header on a 401; OPA's refusals do not have it.
            if refusal.status_code == 401 and match.routes[0].refuses is not None:
                refusal.headers["www-authenticate"] = "Bearer"
        return refusal

    def _redirect(self, request: Request, raw: bytes, status: int, clean: bytes) -> Response:
        """Return a redirect, with this status, to the path `clean`, without the query; 400 if it
        contains a control character. `raw` is the path of the request.
        """
        # OPA's router unescapes what it redirects to; a control character must not get that far.
        # Nor may it become another host: `//evil` and `/\evil` are read as one.
        location = "/" + "/".join(segments(clean)).lstrip("/\\")
        if not location.isprintable():
            return bad_request("invalid character in path")
        location = quote(location, safe=_ASCII)
        answer = redirect(status, location, request.method)
        match = self._routes.match(segments(raw)[1:])
        if match is not None and _varies(request, match):
            answer.headers["vary"] = "Accept-Encoding"
        return answer

    def short_path(
        self, loop: asyncio.AbstractEventLoop, *, is_encrypted: bool = False
    ) -> Answer | None:
        """Return a function that answers plain requests for documents on `loop`, before this
        application.

        None if requests must be authorized or this listener is for diagnostics. Starts a pool of
        threads, which `close` ends.
        """
        # INVARIANT: the short path asks no system policy, so it must not exist where there is one.
        if self._diagnostic or self._access.authorizes:
            return None
        service = self._service
        part = Part("http-decisions", within=service.workers.part.within)
        self._health.parts.add(part)
        pool = Pool(loop, THREADS, name="http-decisions", part=part)
        self._pools.append(pool)
        short = ShortPath(
            service.pdp,
            service.config,
            service.metrics,
            service.serves,
            pool,
            self._requests,
            self._tracer,
            is_encrypted=is_encrypted,
        )
        self._short_paths.append(short)
        return short.answer

    def follow(self, config: Config) -> None:
        """Use another configuration from now on; its `server` and `authzen` parts are ignored."""
        known = self._service.config
        # Memory limits and routes were made of these at the start.
        followed = replace(config, server=known.server, authzen=known.authzen)
        self._service.config = followed
        for short in self._short_paths:
            short.follow(followed)

    def close(self) -> None:
        """Drop the requests that wait for a thread."""
        for pool in self._pools:
            pool.close()


def _not_allowed(exchange: Exchange, match: Match, method: str) -> Response:
    """Return 405: in the route's own form if it has one, with the methods in `allow`, as OPA's
    router writes it, if the route says so, and otherwise without a body.
    """
    row = match.routes[0]
    methods = {method for each in match.routes for method in each.methods}
    if row.refuses is not None:
        return row.refuses(405, f"the method must be {' or '.join(sorted(methods))}")
    if row.says_methods and method != "HEAD":
        return not_allowed(", ".join(sorted(methods | {"HEAD"})))
    answer = no_content(405)
    return exchange.zip(answer) if method == "GET" else answer


def _varies(request: Request, match: Match) -> bool:
    """Return True if a response to this request could be compressed."""
    return request.method in ("GET", "POST") and any(each.zips for each in match.routes)


def _clean(raw: bytes) -> bytes:
    """Return a path without `.`, `..`, doubled slashes and final slash: `/a//b/` -> `/a/b`."""
    if b"//" not in raw and b"/." not in raw and (raw == b"/" or not raw.endswith(b"/")):
        return raw
    # `normpath` keeps exactly two leading slashes, to which POSIX gives a meaning.
    clean = posixpath.normpath(b"/" + raw.lstrip(b"/"))
    return clean if clean.startswith(b"/") else b"/"
