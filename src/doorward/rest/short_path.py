"""Plain requests for documents, from bytes to bytes: the short path before the framework.

`POST /v1/data/PATH` and `GET /v1/data/PATH?input=…` as most clients send them cost less to decide
than to bring through a framework. What a request means, and what is answered, is `data.py`'s; here
is only which requests are plain. Everything else is left to the application, which answers plain
requests alike.

A document is decided on the loop once a dozen of its decisions were fast, and in the pool before
that and while they are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from starlette.responses import Response as AsgiResponse

from doorward.base.cancellation import Cancellation
from doorward.config.configuration import Config
from doorward.edge import FAULTS, Edge
from doorward.pdp.decision import RequestContext
from doorward.pdp.pdp import PDP
from doorward.rest.answers import TOO_MANY, busy, gzip_response, internal_error, json_answer
from doorward.rest.body import Body
from doorward.rest.data import ID_HEADER, Answer, get_v1_text, post_v1_text
from doorward.rest.request_log import RequestLog
from doorward.rest.requests import MAX_SEGMENTS, logged_headers, parameters
from doorward.telemetry.metrics import Metrics
from doorward.telemetry.span_attributes import request_attributes, response_attributes
from doorward.transport.http1.connection import LATER, Respond
from doorward.transport.http1.messages import Request, Response
from doorward.transport.pool import Pool
from doorward.transport.slow_calls import SLOW, History

if TYPE_CHECKING:
    from doorward.telemetry.tracing import Tracer

__all__ = ["ShortPath"]

_EDGE: Final = Edge("http-short-path", "a request failed")
_PREFIX: Final = b"/v1/data"
_HEADERS: Final = b"content-type: application/json\r\nvary: Accept-Encoding\r\n"
_HEADERS_WITH_ID: Final = _HEADERS + ID_HEADER.encode() + b": %b\r\n"
_MAX_TARGET: Final = 1_024
"""The longest target in bytes that counts as plain."""
_MAX_ROUTES: Final = 512
"""The number of targets that each of the two generations remembers."""
_NO_PARAMETERS: Final = parameters(b"")


class _Route:
    """A document that clients request, with the durations of its decisions."""

    __slots__ = ("history", "path")

    def __init__(self, path: tuple[str, ...]) -> None:
        self.path = path
        # In the pool until a dozen of its decisions were fast: the first may compile the policy.
        self.history = History(assumed=SLOW)


class ShortPath:
    """Answers plain requests for documents on one loop.

    `serves` says if clients may read a path; slow documents are decided in `pool`.
    """

    def __init__(
        self,
        pdp: PDP,
        config: Config,
        metrics: Metrics,
        serves: Callable[[tuple[str, ...]], bool],
        pool: Pool,
        requests: RequestLog | None = None,
        tracer: Tracer | None = None,
        *,
        is_encrypted: bool = False,
    ) -> None:
        self._pdp = pdp
        self._is_encrypted = is_encrypted
        self._requests = requests
        self._run = self._decide if tracer is None else partial(self._answer_traced, tracer)
        self._server = config.server
        self._logged_headers = config.decision_logs.headers
        self._serves = serves
        self._pool = pool
        self._duration = metrics.http_request_duration_seconds
        self._observe: dict[tuple[bytes, int], Callable[[float], None]] = {}
        self._routes: dict[bytes, _Route] = {}
        self._before: dict[bytes, _Route] = {}

    def follow(self, config: Config) -> None:
        """Log request headers by another configuration from now on; nothing else changes."""
        self._logged_headers = config.decision_logs.headers

    def answer(self, request: Request, respond: Respond) -> Response | None:
        """Return the response to a plain request; `LATER` if a thread decides it and calls
        `respond`, unless `request.cancellation` is cancelled before; None if the request is not
        plain (`_is_plain`) and the framework must answer it. 503 if too many calls wait.
        """
        method = request.method
        target, query = request.target, b""
        if method == b"GET":
            target, _, query = target.partition(b"?")
        elif method != b"POST":
            return None
        # Without the query, which each client chooses: one input each would push out all other
        # routes.
        route = self._routes.get(target) or self._route(target)
        # The route first: it is remembered, and the other test looks at each header.
        if route is None or not _is_plain(request, query):
            return None
        number = 0 if self._requests is None else self._requests.number()
        if not route.history.is_slow:
            begun = route.history.begin()
            response = self._run(route.path, request, query, number)
            self._note(request, target, number, response, route.history.end(begun))
            return response
        started = perf_counter()

        def done(response: Response) -> None:
            self._note(request, target, number, response, perf_counter() - started)
            respond(request, response)

        work = partial(self._run, route.path, request, query, number)
        # Before `submit`: the connection cancels it if the client leaves while the work waits.
        request.cancellation = Cancellation()
        if self._pool.submit(work, done, request.cancellation, route.history):
            return LATER
        response = _convert(busy(TOO_MANY))
        self._note(request, target, number, response, perf_counter() - started)
        return response

    def _note(
        self, request: Request, target: bytes, number: int, response: Response, elapsed: float
    ) -> None:
        """Add an answered request to the request log, if there is one, and `elapsed`, its seconds,
        to the duration metric.
        """
        method, status = request.method, response.status
        if self._requests is not None:
            path, size = target.decode("latin-1"), len(response.body)
            self._requests.note(
                number, request.client, method.decode(), path, status, size, elapsed
            )
        # Bounded by two methods and the statuses of `_decide`; `labels` would take a lock each
        # time.
        observe = self._observe.get((method, status))
        if observe is None:
            labels = self._duration.labels(status, "v1/data", method.decode().lower())
            observe = self._observe[method, status] = labels.observe
        observe(elapsed)

    def _route(self, target: bytes) -> _Route | None:
        """Return the route of a target that is not among the newer cached ones, and cache it; None
        if the target is not plain or its document not served.
        """
        route = self._before.get(target)
        if route is None:
            path = _plain_path(target)
            # INVARIANT: a remembered route is served for good, since `decision_paths` and `secrets`
            # stay as they are until the process ends (`Api.follow`).
            if path is None or not self._serves(path):
                return None
            route = _Route(path)
        if len(self._routes) >= _MAX_ROUTES:
            # Two generations: what is requested again moves to the new one, and the rest is
            # forgotten with the old.
            self._before, self._routes = self._routes, {}
        self._routes[target] = route
        return route

    def _decide(
        self, path: tuple[str, ...], request: Request, query: bytes, number: int
    ) -> Response:
        """Decide on the document at `path` and return the response; a fault is reported and becomes
        a 500. The input is the body of a POST, or the parameter `input` in the `query` of a GET.
        """
        context = self._context(request, number)
        try:
            if request.method == b"POST":
                kind = request.fields.get(b"content-type", b"").decode("latin-1")
                body = Body(request.body, kind)
                answer = post_v1_text(self._pdp, path, _NO_PARAMETERS, body, context)
            else:
                params = parameters(query) if query else _NO_PARAMETERS
                answer = get_v1_text(self._pdp, path, params, context)
            return self._response(request, answer)
        except FAULTS as fault:
            return _convert(internal_error(_EDGE.report(fault)))

    def _answer_traced(
        self, tracer: Tracer, path: tuple[str, ...], request: Request, query: bytes, number: int
    ) -> Response:
        """Decide on a document and return the response, in a span with the attributes of the HTTP
        request. A status from 500 on marks the span as failed.
        """

        def header(name: str) -> str | None:
            value = request.fields.get(name.encode())
            return None if value is None else value.decode("latin-1")

        method, target = request.method.decode(), request.target.partition(b"?")[0]
        target_text = target.decode("latin-1")
        attributes = request_attributes(
            method, target_text, header, request.client, is_encrypted=self._is_encrypted
        )
        with tracer.serve("v1/data", header, attributes) as span:
            response = self._decide(path, request, query, number)
            template = "/v1/data/{path...}" if path else "/v1/data"
            span.note(response_attributes(response.status, len(response.body), template))
            if response.status >= 500:
                span.failed(str(response.status))
            return response

    def _response(self, request: Request, answer: Answer | AsgiResponse) -> Response:
        """Return an answer, or a whole response such as an error, in the transport's form;
        compressed if it is long enough and the client accepts gzip.
        """
        accept = request.fields.get(b"accept-encoding", b"")
        if isinstance(answer, Answer):
            text, decision_id = answer
            body = text.encode("utf-8", errors="replace") + b"\n"
            if len(body) < self._server.gzip_min_length or b"gzip" not in accept:
                if decision_id:
                    return Response(200, _HEADERS_WITH_ID % decision_id.encode(), body)
                return Response(200, _HEADERS, body)
            answer = json_answer(text)
            if decision_id:
                answer.headers[ID_HEADER] = decision_id
        return _convert(gzip_response(answer, accept.decode("latin-1"), self._server))

    def _context(self, request: Request, number: int) -> RequestContext | None:
        """Return the part of a request that its decision is logged with: the configured headers,
        its number and its client; None if decisions are not logged.
        """
        if not self._pdp.logs_decisions:
            return None
        if not self._logged_headers:
            return RequestContext(None, number, request.client)

        def values_of(name: str) -> list[str]:
            value = request.fields.get(name.lower().encode())
            return [] if value is None else [value.decode("latin-1")]

        headers = logged_headers(self._logged_headers, values_of)
        return RequestContext(headers, number, request.client)


def _is_plain(request: Request, query: bytes) -> bool:
    """Return True if a request uses no option of the API: no repeated header, encoding, YAML or
    parameter besides `input`, and no body with GET.
    """
    fields = request.fields
    return (
        # `fields` has the last of equal names: a repeated header would be read differently here.
        len(fields) == len(request.headers)
        and b"content-encoding" not in fields
        and b"yaml" not in fields.get(b"content-type", b"")
        and (not query or (query.startswith(b"input=") and b"&" not in query))
        and (request.method == b"POST" or not request.body)
    )


def _plain_path(target: bytes) -> tuple[str, ...] | None:
    """Return the segments of a `/v1/data` target of at most `_MAX_TARGET` bytes that needs no
    decoding or redirect; None for others.
    """
    rest = target.removeprefix(_PREFIX)
    if (
        len(rest) == len(target)
        or len(target) > _MAX_TARGET
        or target.count(b"/") > MAX_SEGMENTS
        or (rest and not rest.startswith(b"/"))
        or rest.endswith(b"/")
        # llhttp has refused targets that are not ASCII.
        # What `app.py` would unescape, redirect or refuse.
        or any(each in rest for each in (b"%", b"?", b"#", b"//", b"/.", b'"'))
    ):
        return None
    return tuple(rest.decode("ascii").split("/")[1:])


def _convert(response: AsgiResponse) -> Response:
    """Return a response of the framework as one of the short path, which adds `content-length`
    itself.
    """
    lines = [
        b"%s: %s\r\n" % (name, value)
        for name, value in response.raw_headers
        if name != b"content-length"
    ]
    return Response(response.status_code, b"".join(lines), bytes(response.body))
