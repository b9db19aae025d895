"""The HTTP API as one ASGI application: which request goes to which endpoint.

Paths are taken as they were sent, unescaped segment by segment, never normalised: what a router
would rather see is answered with a redirect, as OPA does. Evaluation happens in worker threads, so
that a slow policy never holds up a health check.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from doorward import __version__
from doorward.edge import FAULTS, Edge, Part
from doorward.pdp.config import Config, Server, active_config
from doorward.pdp.control.status import Status
from doorward.pdp.decision import RequestContext
from doorward.pdp.health import Health
from doorward.pdp.metrics import Metrics
from doorward.pdp.pdp import PDP
from doorward.pdp.sizes import price
from doorward.pdp.span_attributes import request_attributes, response_attributes
from doorward.pdp.store import Store
from doorward.rego import from_python
from doorward.rego.golang import marshal, object_text, ordered_text
from doorward.rest import (
    authorization,
    authzen,
    batch,
    data,
    health,
    policies,
    query,
    writes,
)
from doorward.rest.answers import (
    bad_request,
    busy,
    forbidden,
    internal_error,
    json_answer,
    no_content,
    not_allowed,
    redirect,
    unknown_path,
    zipped,
)
from doorward.rest.authorization import Access
from doorward.rest.body import Body
from doorward.rest.explanation import mode_of
from doorward.rest.memory import UNCOUNTED, Memory, NoRoomError, Room
from doorward.rest.request_log import RequestLog
from doorward.rest.requests import (
    BadRequest,
    Parameters,
    logged_headers,
    parameters,
    read_body,
    segments,
    unzip,
)
from doorward.rest.short_path import ShortPath
from doorward.rest.workers import CURRENT, AbandonedError, Workers
from doorward.transport.http1.asgi import CANCELLATION
from doorward.transport.http1.connection import Answer
from doorward.transport.pool import Pool

if TYPE_CHECKING:
    from doorward.pdp.tracing import Tracer

__all__ = ["Api", "Pages"]

THREADS: Final = 40
"""Requests that are decided at the same time."""
CHANGES: Final = 4
"""Changes of policies and data that are read and compiled at the same time, beside those."""
PROBES: Final = 4
"""Requests to the health of a policy and to metrics at the same time, beside those."""
CLIENT_LEFT: Final = 499
"""The status in logs and metrics of a request whose client left; as in nginx."""
MEMORY: Final = 4
"""What all bodies may take together, as values: so many times what one may have."""

_EDGE: Final = Edge("http", "a request failed")
_ASCII: Final = "".join(map(chr, range(0x20, 0x7F)))
_NUMBER: Final = "doorward.number"
"""Where the scope of a request holds its number in the log of requests."""
_BODY: Final = "doorward.body"
"""Where it holds the body that the system policy was shown."""
_METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)
_TOP: Final = frozenset({"health"})
_BELOW: Final = {
    "v0": frozenset({"data"}),
    "v1": frozenset({"compile", "config", "data", "policies", "query", "status"}),
}
"""The names of endpoints, at the top and below a version."""
_ZIPPED: Final = (b"/v0/data", b"/v1/data", b"/v1/compile")
"""Where answers may be zipped, if the client says so."""
_WRITES: Final = frozenset({"DELETE", "PATCH", "PUT"})
_INDEX: Final = (
    "<!doctype html><title>Doorward</title><h1>Doorward</h1>"
    f"<p>Version {__version__}. Decisions: <code>POST /v1/data/PATH</code> with "
    '<code>{"input": …}</code>. <a href="/health">health</a> <a href="/metrics">metrics</a></p>'
)

Pages: TypeAlias = Callable[[Request, tuple[str, ...]], Awaitable[Response]]
"""What answers a request with the segments of its path below the first."""


class Api:
    """The application. `diagnostic`: only health and metrics."""

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
        requests: RequestLog | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`store`: what clients may change; without it they change what `pdp` alone decides by.

        `read_only`: clients may change nothing, as in one of several processes. `console`: what
        answers requests below `/console`. `requests`: where each answered request is a line.
        """
        self._pdp = pdp
        self._store = store or Store(pdp)
        self._config = config
        self._status = status
        self._console = console
        self._requests = requests
        self._tracer = tracer
        self._short_paths: list[ShortPath] = []
        self._access = access or Access()
        self._health = health
        self._metrics = metrics
        self._diagnostic = diagnostic
        self._read_only = read_only
        served = config.server.decision_paths
        self._served = None if served is None else [tuple(path.split("/")) for path in served]
        self._memory = Memory(MEMORY * config.server.max_length)
        deadline = config.evaluation.deadline
        self._workers = Workers("http-workers", THREADS, deadline=deadline)
        self._pools: list[Pool] = []
        self._changes = Workers("http-changes", CHANGES, deadline=deadline, stops=False)
        self._probes = Workers("http-probes", PROBES, deadline=deadline)
        if not diagnostic:
            health.parts.add(self._workers.part)
            health.parts.add(self._changes.part)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        started = perf_counter()
        number = 0 if self._requests is None else self._requests.number()
        scope[_NUMBER] = number
        CURRENT.set(scope.get(CANCELLATION))
        raw = scope.get("raw_path") or scope["path"].encode()
        if self._tracer is None:
            name, answer = await self._answer(request, raw)
        else:
            name, answer = await self._traced(self._tracer, request, raw)
        method = request.method.lower() if request.method in _METHODS else "other"
        elapsed = perf_counter() - started
        self._metrics.http_request_duration_seconds.labels(
            answer.status_code, name, method
        ).observe(elapsed)
        if self._requests is not None:
            path, client = raw.decode("latin-1"), scope.get("client")
            size = len(getattr(answer, "body", b""))  # a page may be written bit by bit
            status = answer.status_code
            self._requests.note(number, client, request.method, path, status, size, elapsed)
        await answer(scope, receive, send)

    async def _answer(self, request: Request, raw: bytes) -> tuple[str, Response]:
        """The name that metrics know the endpoint by, and its answer, whatever happens."""
        try:
            return await self._route(request, raw)
        except BadRequest as error:
            return "catchall", bad_request(str(error))
        except NoRoomError:
            return "catchall", busy()
        except AbandonedError:
            return "catchall", no_content(CLIENT_LEFT)
        except FAULTS as fault:
            return "catchall", internal_error(_EDGE.report(fault))

    async def _traced(self, tracer: Tracer, request: Request, raw: bytes) -> tuple[str, Response]:
        """The same, in a span that is named after the endpoint, as OPA does."""
        path, headers = raw.decode("latin-1"), request.headers
        method = request.method
        scope = request.scope
        given = request_attributes(
            method,
            path,
            headers.get,
            scope.get("client"),
            is_encrypted=scope.get("scheme") == "https",
            version=scope.get("http_version", "1.1"),
        )
        with tracer.serve("http", headers.get, given) as span:
            name, answer = await self._answer(request, raw)
            size = len(getattr(answer, "body", b""))
            span.named(name, response_attributes(answer.status_code, size))
            if answer.status_code >= 500:
                span.failed(str(answer.status_code))
            return name, answer

    async def _route(self, request: Request, raw: bytes) -> tuple[str, Response]:
        """The name that metrics know the endpoint by, and its answer."""
        clean = _cleaned(raw)
        is_clean = clean == raw
        if not is_clean and clean == raw.rstrip(b"/") and _may_end_in_slash(segments(clean)[1:]):
            return "catchall", self._redirect(request, raw, 301, clean)
        path = segments(raw)[1:]
        if self._access.authorizes:
            refusal = await self._authorize(request, path)
            if refusal is not None:
                return "authz", refusal
        if not is_clean and clean != raw.rstrip(b"/"):
            return "catchall", self._redirect(request, raw, 307, clean)
        if raw.endswith(b"//"):
            return "catchall", self._redirect(request, raw, 307, clean.rstrip(b"/") + b"/")
        match path:
            case ("health", *_) if request.method == "HEAD":
                return "health", no_content(405)
            case ("health", *rest):
                return "health", await self._get(request, self._answer_health, tuple(rest))
            case ("metrics",):
                return "metrics", await self._get(request, self._answer_metrics, ())
            case ("console", *rest) if self._console is not None:
                return "console", await self._console(request, tuple(rest))
            case _ if self._diagnostic:
                return "catchall", unknown_path()
            case ("",):
                return "index", await self._answer_index(request)
            case ("v0" | "v1" as version, "data", *rest):
                name = f"{version}/data"
                writes = version == "v1" and request.method in _WRITES
                if not self._serves(tuple(rest)) or (writes and self._is_fixed):
                    return name, forbidden()
                if writes:
                    return name, await self._write(request, tuple(rest))
                if version == "v1" and not self._may_explain(request):
                    return name, forbidden()
                answer = self._answer_v1 if version == "v1" else self._answer_v0
                return name, await answer(request, tuple(rest))
            case ("v1", "batch", "data", *rest):
                if not (self._serves(tuple(rest)) and self._may_explain(request)):
                    return "v1/batch/data", forbidden()
                return "v1/batch/data", await self._answer_batch(request, tuple(rest))
            case ("access", "v1", "evaluation" | "evaluations" as name):
                return "authzen", await self._answer_authzen(request, many=name == "evaluations")
            case ("access", "v1", "search", "subject" | "resource" | "action" as kind):
                return "authzen", await self._answer_authzen(request, search=kind)
            case (".well-known", "authzen-configuration", *rest):
                return "authzen", await self._get(request, self._answer_metadata, tuple(rest))
            case ("openapi.json",):
                return "openapi", await self._get(request, self._answer_openapi, ())
            case ("v1", "compile", *rest):
                return "v1/compile", await self._answer_compile(request, tuple(rest))
            case ("v1", "policies" | "query" | "config" | "status" as name, *rest):
                handler = f"v1/{name}"
                # A client that brings its own rules could read what it is not shown.
                writes = name == "policies" and request.method in _WRITES
                is_refused = (self._pdp.secrets and (name == "query" or writes)) or (
                    self._read_only and writes
                )
                if self._served is not None or is_refused:
                    return handler, forbidden()
                return handler, await self._answer_other(name, request, "/".join(rest))
        return "catchall", unknown_path()

    def _may_explain(self, request: Request) -> bool:
        """Whether a request wants no explanation, or may have it: it shows policies and data, which
        a policy of authorization that decides by path may keep from a client."""
        is_open = self._served is None and not self._pdp.secrets and not self._access.authorizes
        return is_open or mode_of(_parameters(request)) is None

    async def _authorize(self, request: Request, path: tuple[str, ...]) -> Response | None:
        """The refusal, or None where the system policy allows the request."""
        expects_body = authorization.expects_body(request.method, path)
        with self._memory.room() as room:
            body = await self._read(request, room, unzips=True) if expects_body else None
            request.scope[_BODY] = body
            refusal = await self._workers.run(
                authorization.authorize,
                self._pdp,
                self._config.default_authorization_decision,
                self._access,
                request,
                _parameters(request),
                body,
            )
        if refusal is not None:
            is_zippable = path[:2] in (("v0", "data"), ("v1", "data"), ("v1", "compile"))
            if is_zippable and request.method in ("GET", "POST"):
                refusal.headers["vary"] = "Accept-Encoding"
            if refusal.status_code == 401 and path[:1] == ("access",):
                refusal.headers["www-authenticate"] = "Bearer"
        return refusal

    @property
    def _is_fixed(self) -> bool:
        """Whether clients may not change data."""
        return self._read_only or self._served is not None

    async def _answer_other(self, name: str, request: Request, rest: str) -> Response:
        if name == "policies":
            return await self._answer_policies(request, rest)
        if name == "query":
            return await self._answer_query(request, rest)
        if rest:
            return unknown_path()
        return await self._get(request, self._answer_state, (name,))

    def _redirect(self, request: Request, raw: bytes, status: int, clean: bytes) -> Response:
        # OPA's router unescapes what it redirects to; a control character must not get that far.
        # Nor may it become another host: `//evil` and `/\evil` are read as one.
        location = "/" + "/".join(segments(clean)).lstrip("/\\")
        if not location.isprintable():
            return bad_request("invalid character in path")
        location = quote(location, safe=_ASCII)
        answer = redirect(status, location, request.method)
        if request.method in ("GET", "POST") and raw.startswith(_ZIPPED):
            answer.headers["vary"] = "Accept-Encoding"
        return answer

    async def _get(
        self,
        request: Request,
        answer: Callable[[tuple[str, ...], Parameters], Awaitable[Response]],
        path: tuple[str, ...],
    ) -> Response:
        if request.method not in ("GET", "HEAD"):
            return not_allowed("GET, HEAD")
        return await answer(path, _parameters(request))

    async def _answer_health(self, path: tuple[str, ...], parameters: Parameters) -> Response:
        if path:
            return await self._probes.run(health.get_health_policy, self._pdp, self._health, path)
        return health.get_health(self._health, parameters)

    async def _answer_metrics(self, path: tuple[str, ...], parameters: Parameters) -> Response:
        return await self._probes.run(health.get_metrics, self._metrics, self._health)

    async def _answer_metadata(self, path: tuple[str, ...], parameters: Parameters) -> Response:
        return authzen.get_metadata(self._config.authzen, path)

    async def _answer_authzen(
        self, request: Request, *, many: bool = False, search: str = ""
    ) -> Response:
        answer = await self._decide_authzen(request, many=many, search=search)
        if (request_id := request.headers.get("x-request-id")) is not None:
            answer.headers["x-request-id"] = request_id
        return answer

    async def _decide_authzen(self, request: Request, *, many: bool, search: str) -> Response:
        options = self._config.authzen
        if request.method != "POST":
            return authzen.error(405, "the method must be POST")
        if not self._serves(tuple(options.decision.split("/"))):
            return authzen.error(403, "the decision of the policy is not served")
        context = self._context(request)

        def decide(body: Body) -> Response:
            if search:
                from doorward.rest import authzen_search  # few ask for it

                return authzen_search.post_search(self._pdp, options, search, body, context)
            return authzen.post_evaluation(self._pdp, options, body, context, many=many)

        try:
            return await self._posted(request, decide, None)
        except BadRequest as error:
            return authzen.error(400, str(error))
        except NoRoomError:
            return authzen.error(503, "too many large requests at the same time")

    async def _answer_openapi(self, path: tuple[str, ...], parameters: Parameters) -> Response:
        from doorward.rest import openapi  # few ask for it

        return json_answer(ordered_text(openapi.document()), pretty=parameters.flag("pretty"))

    async def _answer_batch(self, request: Request, path: tuple[str, ...]) -> Response:
        if request.method != "POST":
            return no_content(405)
        accept = _accepted(request)
        params, context = _parameters(request), self._context(request)

        def decide(body: Body) -> Response:
            return batch.post_batch(self._pdp, path, params, body, context)

        try:
            return await self._posted(request, decide, accept)
        except BadRequest as error:
            return self._zipped(bad_request(str(error)), accept)

    async def _answer_state(self, path: tuple[str, ...], parameters: Parameters) -> Response:
        if path == ("status",):
            if self._status is None or not self._status.is_enabled:
                return internal_error("status plugin not enabled")
            status = object_text({"result": marshal(from_python(self._status.document()))})
            return json_answer(status, pretty=parameters.flag("pretty"))
        shown = object_text({"result": marshal(active_config(self._config))})
        return json_answer(shown, pretty=parameters.flag("pretty"))

    async def _answer_policies(self, request: Request, name: str) -> Response:
        store, params = self._store, _parameters(request)
        if not name:
            if request.method == "GET":
                return await self._workers.run(policies.get_policies, store, params)
            return no_content(405)
        match request.method:
            case "GET":
                return await self._workers.run(policies.get_policy, store, name, params)
            case "DELETE":
                return await self._changes.run(policies.delete_policy, store, name, params)
            case "PUT":
                started = perf_counter_ns()

                def put(body: Body) -> Response:
                    elapsed = perf_counter_ns() - started
                    return policies.put_policy(store, name, params, body.text, elapsed)

                return await self._posted(request, put, None, unzips=False, workers=self._changes)
        return no_content(405)

    async def _answer_query(self, request: Request, rest: str) -> Response:
        pdp, params, context = self._pdp, _parameters(request), self._context(request)
        if request.method == "GET" and not rest:
            return await self._workers.run(query.get_query, pdp, params, context)
        if request.method != "POST" or rest:
            return no_content(405)

        def post(body: Body) -> Response:
            return query.post_query(pdp, params, body.text, context)

        return await self._posted(request, post, None, unzips=False)

    async def _answer_compile(self, request: Request, path: tuple[str, ...]) -> Response:
        if request.method not in ("GET", "POST") or (request.method == "GET" and not path):
            return not_allowed("GET, HEAD, POST")
        is_served = self._serves(path) if path else self._served is None
        # What is unknown is said by the client: it could compare secrets with it.
        if not is_served or self._pdp.secrets:
            return forbidden()
        params = _parameters(request)
        accept = _accepted(request) if request.method == "POST" else None
        wanted, context = request.headers.get("accept", ""), self._context(request)

        def post(body: Body) -> Response:
            # Few ask for it, and it loads partial evaluation and filters.
            from doorward.rest import compile, filters

            if not path:
                return compile.post_compile(self._pdp, params, body.text)
            return filters.post_filter(self._pdp, path, params, body.text, wanted, context)

        try:
            return await self._posted(request, post, accept)
        except BadRequest as error:
            return self._zipped(bad_request(str(error)), accept)

    async def _write(self, request: Request, path: tuple[str, ...]) -> Response:
        store, params = self._store, _parameters(request)
        if request.method == "DELETE":
            if not path:
                return no_content(405)
            return await self._changes.run(writes.delete_data, store, path, params)
        only_new = request.headers.get("if-none-match") == "*"

        def write(body: Body) -> Response:
            if request.method == "PATCH":
                return writes.patch_data(store, path, params, body.text, serves=self._serves)
            return writes.put_data(store, path, params, body.text, only_new=only_new)

        return await self._posted(request, write, None, unzips=False, workers=self._changes)

    async def _answer_index(self, request: Request) -> Response:
        if request.method in ("GET", "HEAD"):
            return Response(_INDEX, media_type="text/html; charset=utf-8")
        if request.method != "POST":
            return not_allowed("GET, HEAD, POST")
        path = tuple(self._config.default_decision.split("/"))
        if not self._serves(path):
            return forbidden()
        return await self._decide_v0(request, path, accept=None)

    def _serves(self, path: tuple[str, ...]) -> bool:
        """Whether the document at `path` is one that the configuration lets clients ask for."""
        if any(data.is_below(path, secret) for secret in self._pdp.secrets):
            return False
        served = self._served
        return served is None or any(path[: len(each)] == each for each in served)

    async def _answer_v0(self, request: Request, path: tuple[str, ...]) -> Response:
        if request.method == "POST":
            return await self._decide_v0(request, path, accept=_accepted(request))
        answer = no_content(405)
        return self._zipped(answer, _accepted(request)) if request.method == "GET" else answer

    async def _decide_v0(
        self, request: Request, path: tuple[str, ...], *, accept: str | None
    ) -> Response:
        def decide(body: Body) -> Response:
            context = self._context(request)
            return data.post_v0(self._pdp, path, _parameters(request), body, context)

        try:
            return await self._posted(request, decide, accept)
        except BadRequest as error:
            refusal = bad_request(f"unexpected parse error for input: {error}")
            return self._zipped(refusal, accept)

    async def _answer_v1(self, request: Request, path: tuple[str, ...]) -> Response:
        accept = _accepted(request)
        context = self._context(request)

        def get() -> Response:
            return self._zipped(data.get_v1(self._pdp, path, _parameters(request), context), accept)

        def post(body: Body) -> Response:
            return data.post_v1(self._pdp, path, _parameters(request), body, context)

        if request.method == "GET":
            return await self._workers.run(get)
        if request.method != "POST":
            return no_content(405)
        try:
            return await self._posted(request, post, accept)
        except BadRequest as error:
            return self._zipped(bad_request(str(error)), accept)

    async def _posted(
        self,
        request: Request,
        decide: Callable[[Body], Response],
        accept: str | None,
        *,
        unzips: bool = True,
        workers: Workers | None = None,
    ) -> Response:
        """What `decide` answers to the body of a request, in a worker thread."""
        with self._memory.room() as room:
            body: Body | None = request.scope.get(_BODY)
            if body is None:
                body = await self._read(request, room, unzips=unzips)
            else:
                await room.take(len(body.text) + body.size)
            text = body  # not changed from here on
            workers = workers or self._workers
            return await workers.run(lambda: self._zipped(decide(text), accept))

    async def _read(self, request: Request, room: Room, *, unzips: bool) -> Body:
        """The body of a request; its bytes, and what its values may take, are taken from `room`."""
        limits = self._config.server
        zipped = unzips and _is_zipped(request)
        text = await read_body(request, limits, room)
        if zipped or len(text) > UNCOUNTED:
            text, cost = await self._workers.run(_opened, text, limits, zipped=zipped)
            if cost > self._memory.limit:
                raise BadRequest("request body too large")
            await room.take(cost)
        return Body(text, request.headers.get("content-type", ""))

    def _zipped(self, answer: Response, accept: str | None) -> Response:
        return answer if accept is None else zipped(answer, accept, self._config.server)

    def _context(self, request: Request) -> RequestContext | None:
        """What the decision log shows of a request; None where there is none."""
        if not self._pdp.logs_decisions:
            return None
        headers = logged_headers(self._config.decision_logs.headers, request.headers.getlist)
        return RequestContext(headers, request.scope[_NUMBER], request.scope.get("client"))

    def short_path(
        self, loop: asyncio.AbstractEventLoop, *, is_encrypted: bool = False
    ) -> Answer | None:
        """What answers plain requests for documents on `loop`, before this application is called.

        None where a check comes before the routes: no request may pass it by.
        """
        if self._diagnostic or self._access.authorizes:
            return None
        part = Part("http-decisions", within=self._workers.part.within)
        self._health.parts.add(part)
        pool = Pool(loop, THREADS, name="http-decisions", part=part)
        self._pools.append(pool)
        short = ShortPath(
            self._pdp,
            self._config,
            self._metrics,
            self._serves,
            pool,
            self._requests,
            self._tracer,
            is_encrypted=is_encrypted,
        )
        self._short_paths.append(short)
        return short.answer

    def follow(self, config: Config) -> None:
        """Answer by another configuration from now on: its decisions and what it logs; limits and
        the documents that are served stay."""
        self._config = replace(config, server=self._config.server, authzen=self._config.authzen)
        for short in self._short_paths:
            short.follow(self._config)

    def close(self) -> None:
        """Drop the requests that wait for a thread."""
        for pool in self._pools:
            pool.close()


def _may_end_in_slash(path: tuple[str, ...]) -> bool:
    """Whether a path leads to an endpoint, so that a slash at its end is one too many."""
    top, *rest = path
    return top in _TOP or (bool(rest) and rest[0] in _BELOW.get(top, ()))


def _opened(body: bytes, limits: Server, *, zipped: bool) -> tuple[bytes, int]:
    """The text of a body, and what its values may take."""
    text = unzip(body, limits) if zipped else body
    return text, price(text)


def _accepted(request: Request) -> str:
    return request.headers.get("accept-encoding", "")


def _is_zipped(request: Request) -> bool:
    """Whether OPA would unzip the body: it looks for the word alone."""
    return "gzip" in request.headers.get("content-encoding", "")


def _parameters(request: Request) -> Parameters:
    return parameters(request.scope.get("query_string", b""))


def _cleaned(raw: bytes) -> bytes:
    """The path without `.` and `..`, doubled slashes and a slash at its end."""
    if b"//" not in raw and b"/." not in raw and (raw == b"/" or not raw.endswith(b"/")):
        return raw
    clean = posixpath.normpath(b"/" + raw.lstrip(b"/"))
    return clean if clean.startswith(b"/") else b"/"
