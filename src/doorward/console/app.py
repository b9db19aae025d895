"""The requests of the pages, answered: files of the bundle, decisions as they come, details.

What may be asked is listed in `answer`; who may ask is for the listener to say before. A page of
another site must not read what is here, whatever name its host has: `is_host_allowed`.
"""

from __future__ import annotations

import asyncio
import json
import mimetypes
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import resources
from ipaddress import ip_address
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from doorward import __version__
from doorward.console import views
from doorward.console.audit_tail import AuditTail
from doorward.console.playground import PlaygroundError, answer
from doorward.console.ring import Ring
from doorward.console.traffic import Traffic
from doorward.pdp.health import Health
from doorward.pdp.pdp import PDP
from doorward.rego import from_json, to_python
from doorward.rest.workers import Workers

__all__ = ["Console", "is_host_allowed"]

BODY: Final = 2 << 20
"""Bytes of a request of the playground."""
ROUND: Final = 0.25
"""Seconds between two messages to a page."""
STREAM: Final = 30.0
"""Seconds after which a stream ends; the page asks again from where it was."""
THREADS: Final = 2
"""Explanations and evaluations at the same time."""
STREAMS: Final = 8
"""Pages that are told of decisions at the same time."""
_STATIC: Final = resources.files("doorward.console") / "static"


class Console:
    """The pages of one decision point; `ring` is None for a playground alone."""

    def __init__(
        self,
        pdp: PDP | None = None,
        ring: Ring | None = None,
        health: Health | None = None,
        *,
        traffic: Traffic | None = None,
        shadow: Callable[[], dict[str, Any]] | None = None,
        docker: AuditTail | None = None,
        status: Callable[[], dict[str, Any]] | None = None,
        files: Mapping[str, str] | None = None,
        data: Any = None,
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        """`shadow` gives what a candidate decides otherwise, `status` what `/v1/status` shows,
        `docker` the decisions of the Docker plugin. `files` and `data` are what the playground
        begins with; without them, the policies in force. `hosts`: names besides addresses and
        names without a dot that it may be called by.
        """
        self._pdp = pdp
        self._ring = ring
        self._health = health
        self._traffic, self._shadow = traffic, shadow
        self._docker, self._status = docker, status
        self._files = files
        self._data = data
        self._hosts = hosts
        self._workers = Workers("console", THREADS, deadline=5.0)
        self._streams = 0
        self._closed = False

    def close(self) -> None:
        """End all streams."""
        self._closed = True

    async def answer(self, request: Request, path: tuple[str, ...]) -> Response:
        """The answer to a request below `/console`."""
        if not is_host_allowed(request.headers.get("host", ""), self._hosts):
            return _refused("the console is not known by this host name")
        match request.method, path:
            case "GET" | "HEAD", () | ("" | "playground" | "policies" | "revisions" | "shadow",):
                return self._page("/".join(path))
            case "GET" | "HEAD", ("static", name):
                return _static(name)
            case "GET", ("api", "decisions"):
                return self._stream(request)
            case "GET", ("api", "decisions", decision_id):
                return await self._detail(decision_id)
            case "GET", ("api", "state"):
                return self._state()
            case "GET", ("api", "revisions") if self._ring is not None:
                return _json(views.revisions(self._ring))
            case "GET", ("api", "policies"):
                return await self._workers.run(self._policies)
            case "GET", ("api", "shadow") if self._shadow is not None:
                return _json(self._shadow())
            case "GET", ("api", "files"):
                return await self._workers.run(self._sources)
            case "POST", ("api", "playground", action):
                return await self._play(request, action)
        return PlainTextResponse("404 page not found\n", 404, _headers())

    def _page(self, path: str) -> Response:
        """The page; what it shows is for its script to say. Its styles carry a nonce."""
        if not _STATIC.joinpath("console.js").is_file():
            return _refused("the console was not built: `make console` builds it", 503)
        nonce = secrets.token_urlsafe(16)
        text = _PAGE.replace("NONCE", nonce).replace("VERSION", __version__)
        policy = _POLICY.replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
        return Response(text, 200, _headers(policy), "text/html; charset=utf-8")

    def _state(self) -> Response:
        """Which parts are up, and what is in force."""
        health, pdp = self._health, self._pdp
        return _json(
            {
                "version": __version__,
                "live": self._ring is not None,
                "revision": pdp.snapshot.revision if pdp is not None else "",
                "bundles": to_python(pdp.snapshot.bundles) if pdp is not None else {},
                "parts": {} if health is None else {k: v.value for k, v in health.states.items()},
                "threads": {} if health is None else health.parts.problems,
                "shadow": self._shadow is not None,
                "status": {} if self._status is None else self._status(),
            }
        )

    def _policies(self) -> Response:
        """The policies in force with what real decisions reached of them."""
        if self._traffic is None or self._pdp is None:
            return _json({"error": "nothing is decided here"}, 404)
        return _json(self._traffic.document(self._pdp.snapshot))

    def _sources(self) -> Response:
        if self._files is not None:
            return _json({"files": dict(self._files), "data": self._data})
        if self._pdp is None:
            return _json({"files": {}, "data": {}})
        # Data may hold secrets, and is not shown.
        trees = self._pdp.snapshot.engine.trees
        return _json({"files": {name: tree.span.source.text for name, tree in trees.items()}})

    async def _detail(self, decision_id: str) -> Response:
        entry = self._ring.get(decision_id) if self._ring is not None else None
        if entry is None and self._docker is not None:
            document = self._docker.get(decision_id)
            if document is not None:
                return _json(document)
        if entry is None:
            return _json({"error": "this decision is not kept any more"}, 404)
        return _json(await self._workers.run(views.detail, entry))

    def _stream(self, request: Request) -> Response:
        ring = self._ring
        if ring is None or self._streams >= STREAMS:
            return _json({"error": "too many pages" if ring else "nothing is decided here"}, 503)
        given, _, docker = request.headers.get("last-event-id", "").partition(".")
        return StreamingResponse(
            self._events(ring, _number(given), _number(docker)),
            200,
            _headers(),
            "text/event-stream; charset=utf-8",
        )

    async def _events(self, ring: Ring, number: int, docker: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        until = loop.time() + STREAM
        self._streams += 1
        # A number of another process would be in the future.
        number = number if number <= ring.last else 0
        try:
            while loop.time() < until and not self._closed:
                document = views.batch(ring, number)
                number = document["last"]
                if self._docker is not None:
                    docker = docker if docker <= self._docker.last else 0
                    document["docker"] = self._docker.after(docker, views.BATCH)
                    docker = self._docker.last
                yield f"id: {number}.{docker}\ndata: {json.dumps(document)}\n\n".encode()
                await asyncio.sleep(ROUND)
        finally:
            self._streams -= 1

    async def _play(self, request: Request, action: str) -> Response:
        # A form of another site cannot send this type without asking first.
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            return _refused("the body must be application/json", 415)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > BODY:
                return _refused(f"the body is larger than {BODY} bytes", 413)
        try:
            return _json(await self._workers.run(_played, action, bytes(body)))
        except PlaygroundError as error:
            return _json({"error": str(error)}, 400)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _played(action: str, body: bytes) -> dict[str, Any]:
    try:
        request = from_json(body)
    except ValueError as error:
        raise PlaygroundError(f"the body is not JSON: {error}") from None
    return answer(action, request)


def is_host_allowed(host: str, names: frozenset[str]) -> bool:
    """Whether a page may be called by a host: by an address, by a name without a dot, or by one of
    `names`. A name that somebody else may point here would let his pages read ours."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name in names or (name and "." not in name and ":" not in name):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="nonce" content="NONCE">
<title>Doorward</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/console/static/console.css">
<script type="module" src="/console/static/console.js"></script>
</head>
<body data-version="VERSION"><main id="app"><p class="quiet">Loading…</p></main></body>
</html>
"""


def _headers(policy: str = _POLICY) -> dict[str, str]:
    return {
        "content-security-policy": policy,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }


def _static(name: str) -> Response:
    # Only names that are there: nothing of a request becomes part of a path.
    file = next((each for each in _STATIC.iterdir() if each.name == name), None)
    if file is None:
        return PlainTextResponse("404 page not found\n", 404, _headers())
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(file.read_bytes(), 200, _headers(), kind)


def _json(document: Any, status: int = 200) -> Response:
    return JSONResponse(document, status, _headers())


def _refused(text: str, status: int = 403) -> Response:
    return PlainTextResponse(f"{text}\n", status, _headers())
