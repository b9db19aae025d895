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
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from doorward import __version__
from doorward.console import together, views
from doorward.console.past import SECONDS, PastError, Question, Search
from doorward.console.playground import PlaygroundError, answer
from doorward.console.process import Process
from doorward.console.traffic import document
from doorward.edge import Parts
from doorward.rego import from_json
from doorward.rest.workers import Workers
from doorward.transport.peers import Peers

__all__ = ["Console", "is_host_allowed"]

BODY: Final = 2 << 20
"""Bytes of a request of the playground."""
ROUND: Final = 0.25
"""Seconds between two messages to a page."""
STREAM: Final = 30.0
"""Seconds after which a stream ends; the page asks again from where it was."""
THREADS: Final = 2
"""Explanations and evaluations at the same time."""
PLAYS: Final = 16
"""Requests of playgrounds at the same time, most of which wait."""
STREAMS: Final = 8
"""Pages that are told of decisions at the same time."""
WITHIN: Final = 1.0
"""Seconds in which another worker must have answered."""
EXPLAINING: Final = 6.0
"""The same where it evaluates a decision once more."""
FEWEST: Final = 10
"""Decisions of each worker that a message holds at least."""
T = TypeVar("T")
_STATIC: Final = resources.files("doorward.console") / "static"


class Console:
    """The pages of one decision point."""

    def __init__(
        self,
        process: Process | None = None,
        *,
        peers: Peers | None = None,
        log: Callable[[], list[str]] | None = None,
        files: Mapping[str, str] | None = None,
        data: Any = None,
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        """`process` is what this process knows, None for a playground alone; `peers` are the other
        workers, which `serve` them as well. `log` gives the files of the decision log, the newest
        first. `files` and `data` are what the playground begins with;
        without them, the policies in force. `hosts`: names besides addresses and names without a
        dot that it may be called by.
        """
        self._process = process or Process(None, None, None)
        self._peers = peers
        self._number = 0 if peers is None else peers.number
        self._count = 1 if peers is None else peers.count
        self._log = log
        self._files = files
        self._data = data
        self._hosts = hosts
        self._workers = Workers("console", THREADS, deadline=5.0)
        self._searches = Workers("console-log", 1, deadline=SECONDS)
        self._is_searching = False
        self._streams = 0
        self._plays = 0
        self._closed = False

    def serve(self, parts: Parts) -> None:
        """Answer the other workers as well, until `close`."""
        if self._peers is not None:
            self._peers.serve(self._process.answer, parts)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        if self._peers is not None:
            self._peers.close()

    async def answer(self, request: Request, path: tuple[str, ...]) -> Response:
        """The answer to a request below `/console`."""
        if not is_host_allowed(request.headers.get("host", ""), self._hosts):
            return _refused("the console is not known by this host name")
        match request.method, path:
            case "GET" | "HEAD", () | (
                ("" | "log" | "playground" | "policies" | "revisions" | "shadow"),
            ):
                return self._page("/".join(path))
            case "GET" | "HEAD", ("static", name):
                return _static(name)
            case "GET", ("api", "decisions"):
                return self._stream(request)
            case "GET", ("api", "decisions", decision_id):
                return await self._detail(decision_id)
            case "GET", ("api", "log"):
                return await self._past(dict(request.query_params))
            case "GET", ("api", "state"):
                return await self._state()
            case "GET", ("api", "revisions") if self._process.ring is not None:
                answers = await self._all({"about": "revisions"})
                return _json(views.revisions(together.revisions(answers)))
            case "GET", ("api", "policies"):
                return await self._policies()
            case "GET", ("api", "shadow") if self._process.shadow is not None:
                answers = await self._all({"about": "shadow"})
                return _json(together.shadows(answers, self._count))
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

    async def _all(self, question: Mapping[str, Any]) -> dict[int, Any]:
        """What all processes answer, by their numbers; of others only those that do in time."""
        own, others = await asyncio.gather(
            self._workers.run(self._process.answer, question), self._ask(question)
        )
        return {self._number: own, **others}

    async def _ask(self, question: Mapping[str, Any]) -> dict[int, Any]:
        return {} if self._peers is None else await self._peers.ask(question, WITHIN)

    async def _state(self) -> Response:
        """Which parts of which processes are up, and what is in force."""
        answers = await self._all({"about": "state"})
        return _json(
            {
                "version": __version__,
                "live": self._process.ring is not None,
                "shadow": self._process.shadow is not None,
                "workers": together.states(answers, self._count),
            }
        )

    async def _policies(self) -> Response:
        """The policies in force with what real decisions reached of them."""
        answers = await self._all({"about": "policies"})
        own, pdp = answers[self._number], self._process.pdp
        if own is None or pdp is None:
            return _json({"error": "nothing is decided here"}, 404)
        counts = together.policies(own, answers, self._count)
        missing = counts.pop("missing")
        shown = await self._workers.run(document, pdp.snapshot, **counts)
        return _json(shown | {"missing": missing})

    def _sources(self) -> Response:
        if self._files is not None:
            return _json({"files": dict(self._files), "data": self._data})
        if self._process.pdp is None:
            return _json({"files": {}, "data": {}})
        # Data may hold secrets, and is not shown.
        trees = self._process.pdp.snapshot.engine.trees
        return _json({"files": {name: tree.span.source.text for name, tree in trees.items()}})

    async def _detail(self, decision_id: str) -> Response:
        question = {"about": "decision", "id": decision_id}
        shown = await self._workers.run(self._process.answer, question)
        silent = False
        if shown is None and self._peers is not None:
            shown, all_answered = await self._peers.ask_who_knows(question, EXPLAINING)
            silent = not all_answered
        if shown is None and self._log is not None:
            try:
                shown = await self._searched(lambda search: search.one(decision_id))
            except PastError as error:
                return _json({"error": f"this decision is not kept any more; {error}"}, 404)
        if shown is not None:
            return _json(shown)
        if silent:
            return _json({"error": "not every worker answers: ask again"}, 503)
        return _json({"error": "this decision is not kept any more"}, 404)

    async def _past(self, fields: Mapping[str, str]) -> Response:
        """Decisions in the log."""
        try:
            question = Question.read(fields)
            return _json(await self._searched(lambda search: search.newest(question)))
        except PastError as error:
            return _json({"error": str(error)}, 400)

    async def _searched(self, work: Callable[[Search], T]) -> T:
        """What a search of the log gives; one at a time, and in so many seconds. PastError."""
        if self._log is None:
            raise PastError("nothing is decided here")
        if self._is_searching:
            raise PastError("another search of the log is under way: ask again")
        search = Search(self._log)
        end = asyncio.get_running_loop().call_later(SECONDS, search.stop)
        self._is_searching = True
        try:
            return await self._searches.run(work, search)
        finally:
            self._is_searching = False
            end.cancel()

    def _stream(self, request: Request) -> Response:
        if self._process.ring is None:
            return _json({"error": "nothing is decided here"}, 503)
        if self._streams >= STREAMS:
            return _json({"error": "too many pages"}, 503)
        *after, docker = _numbers(request.headers.get("last-event-id", ""), self._count + 1)
        return StreamingResponse(
            self._events(after, docker), 200, _headers(), "text/event-stream; charset=utf-8"
        )

    async def _events(self, after: list[int], docker: int) -> AsyncIterator[bytes]:
        """Messages with what is new in every process: `after` and `docker` are the numbers of what
        a page has, of each process and of the Docker plugin."""
        loop = asyncio.get_running_loop()
        until = loop.time() + STREAM
        self._streams += 1
        most = views.BATCH if self._count == 1 else max(2 * views.BATCH // self._count, FEWEST)
        try:
            while loop.time() < until and not self._closed:
                question = {"about": "decisions", "after": after, "docker": docker, "most": most}
                others = await self._ask(question)
                answers = {self._number: self._process.answer(question), **others}
                for number, each in answers.items():
                    after[number] = each["last"]
                    docker = each.get("docker_last", docker)
                message = together.batches(answers, self._count, views.BATCH)
                numbers = ".".join(map(str, [*after, docker]))
                yield f"id: {numbers}\ndata: {json.dumps(message)}\n\n".encode()
                await asyncio.sleep(ROUND)
        finally:
            self._streams -= 1

    async def _play(self, request: Request, action: str) -> Response:
        # A form of another site cannot send this type without asking first.
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            return _refused("the body must be application/json", 415)
        if self._plays >= PLAYS:
            return _json({"error": "too many evaluations at the same time: try again"}, 503)
        self._plays += 1
        try:
            body = bytearray()
            async for part in request.stream():
                body += part
                if len(body) > BODY:
                    return _refused(f"the body is larger than {BODY} bytes", 413)
            return _json(await self._workers.run(_played, action, bytes(body)))
        except PlaygroundError as error:
            return _json({"error": str(error)}, 400)
        finally:
            self._plays -= 1


def _numbers(text: str, count: int) -> list[int]:
    """So many numbers that stand between points; from the beginning where it is anything else."""
    parts = text.split(".")
    are_numbers = all(each.isascii() and each.isdecimal() and len(each) < 19 for each in parts)
    return [int(each) for each in parts] if are_numbers and len(parts) == count else [0] * count


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
