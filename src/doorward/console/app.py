"""The HTTP requests of the console's pages: static files, the stream of decisions, details,
searches.

`_route` lists all requests; the listener authorizes them before. `is_host_allowed` keeps a page of
another site, whatever its host name resolves to, from reading the console.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, TypeVar
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from doorward import __version__
from doorward.console import together, views
from doorward.console.help_pages import has_help, help_page
from doorward.console.log_query import SECONDS, LogQueryError, Question, Search
from doorward.console.oidc import COOKIE as OIDC_COOKIE
from doorward.console.oidc import SECONDS as SECONDS_OF_LOGIN
from doorward.console.oidc import OidcError, OidcLogin
from doorward.console.pages import (
    PAGES,
    compress,
    headers,
    json_response,
    notice,
    page,
    redirect,
    refuse,
    static,
    to_bytes,
)
from doorward.console.pasted import PastedError
from doorward.console.playground import PlaygroundError, answer
from doorward.console.process import Process
from doorward.console.reasons import short_names
from doorward.console.selection import GROUPS, MOST, Filter, FilterError
from doorward.console.sessions import COOKIE, digest_of, is_same_origin, set_cookie
from doorward.console.sessions import LONGEST as LONGEST_TOKEN
from doorward.console.sessions import SECONDS as SECONDS_OF_SESSION
from doorward.console.slots import Slot, Slots
from doorward.console.traffic import document
from doorward.edge import Parts
from doorward.pdp.issuer_documents import WITHIN as SECONDS_AT_ISSUER
from doorward.rego import from_json
from doorward.rest.workers import Workers
from doorward.transport.peers import Peers

__all__ = ["Console", "is_host_allowed"]

BODY: Final = 2 << 20
"""The most bytes of a request's body; more is refused with 413."""
ROUND: Final = 0.25
"""The seconds between two messages of a stream."""
STREAM: Final = 30.0
"""The seconds after which a stream ends; the page then requests it again from its last event."""
THREADS: Final = 2
"""The most explanations and evaluations at the same time; others wait."""
PLAYS: Final = 16
"""The most requests of playgrounds at the same time, most of which wait; more are refused with 503.
"""
SEARCHES: Final = 8
"""The most searches of the log at the same time, of which one runs; more are refused."""
STREAMS: Final = 8
"""The most streams of decisions at the same time; more are refused with 503."""
WITHIN: Final = 1.0
"""The seconds within which another worker must answer; otherwise it counts as silent."""
EXPLAINING: Final = 6.0
"""The seconds within which another worker must answer if it evaluates a decision again."""
SEARCHING: Final = 2.0
"""The seconds that another worker gets in addition for a search."""
LOGIN_THREADS: Final = 2
"""The most requests to issuers at the same time; others wait."""
MOST_LOGINS: Final = 16
"""The most logins that run or wait for an issuer at the same time; more are refused."""
LONGEST_ADDRESS: Final = 2_000
"""The most characters of a page's address to which a login returns; a longer one is dropped."""
_COOKIE: Final = 200
"""The most characters of a session's cookie; a longer one is ignored."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
FEWEST: Final = 10
"""The decisions of each worker that fit into a message at least, however many workers there are."""
T = TypeVar("T")


class RefusedError(Exception):
    """A request is refused before it is processed; `status` is that of the response."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class _EventStream(StreamingResponse):
    """A response of server-sent events, which has `slot` until it ends. One that is never sent has
    it until it is deleted.
    """

    def __init__(self, events: AsyncIterator[bytes], slot: Slot) -> None:
        super().__init__(events, 200, headers(), "text/event-stream; charset=utf-8")
        # Taken before it is sent: other requests are answered while a client reads the head.
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; the client may leave before the first one."""
        with self._slot:
            await super().__call__(scope, receive, send)


class Console:
    """The web console of one decision point: answers the requests of its pages. Answers come from
    this process and, where there are several workers, from the others.
    """

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
        """Take what the console shows: `process` has the decisions of this process, None for a
        playground alone; `peers` are the other workers. `log` returns the files of the decision
        log, the newest first; None: there is none. `files` and `data` are the first content of the
        playground; None: the policies in force. `hosts`: host names that the console may have,
        besides addresses and names without a dot.
        """
        self._is_alone = process is None
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
        self._search_slots = Slots(SEARCHES)
        self._search_turn = asyncio.Lock()
        # Issuers may be slow: nothing else waits for them.
        self._logins = Workers("console-login", LOGIN_THREADS, deadline=2 * SECONDS_AT_ISSUER)
        self._login_slots = Slots(MOST_LOGINS)
        self._changing = asyncio.Semaphore(1)
        self.check: Callable[[str], bool] | None = None
        """Returns True if a token may open the console; None if browsers need no session."""
        self.issuers: Mapping[str, OidcLogin] = {}
        """The issuers at which users can log in instead of typing a token, by name."""
        self._stream_slots = Slots(STREAMS)
        self._play_slots = Slots(PLAYS)
        self._closed = False

    def serve(self, parts: Parts) -> None:
        """Answer the questions of the other workers until `close`; does nothing without peers."""
        if self._peers is not None:
            self._peers.serve(self._process.answer, parts)

    def close(self) -> None:
        """End all streams at their next round, and stop answering the other workers."""
        self._closed = True
        if self._peers is not None:
            self._peers.close()

    async def answer(self, request: Request, path: tuple[str, ...]) -> Response:
        """Return the response to a request; `path` are the segments below `/console`. 403 for a
        host name that is not allowed; a RefusedError becomes its status.
        """
        if not is_host_allowed(request.headers.get("host", ""), self._hosts):
            return refuse(
                "the console is not served under this host name: use an IP address, or the host of "
                "the configured `console_url`"
            )
        try:
            return await self._route(request, path)
        except RefusedError as error:
            return refuse(str(error), error.status)

    async def _route(self, request: Request, path: tuple[str, ...]) -> Response:
        """Return the response to a request by its method and `path`, the segments below `/console`;
        404 for any other, and for an endpoint of a part that this console does not have.
        Authorization has happened before. RefusedError for a body that cannot be accepted.
        """
        match request.method, path:
            case "GET" | "HEAD", ():
                return page(has_help=has_help(), is_alone=self._is_alone)
            case "GET" | "HEAD", ("help", *names) if not any(names) and not has_help():
                return page(has_help=False, is_alone=self._is_alone)
            case "GET" | "HEAD", ("help", *names):
                answer = help_page(tuple(names))
                return compress(answer, request.headers.get("accept-encoding", ""))
            case "GET" | "HEAD", (name,) if name in PAGES:
                return page(has_help=has_help(), is_alone=self._is_alone)
            case "GET" | "HEAD", (name,) if name != "api":
                # The page says that there is no such view, and leads to those there are.
                return page(has_help=has_help(), is_alone=self._is_alone, status=404)
            case "GET" | "HEAD", ("static", name):
                return compress(static(name), request.headers.get("accept-encoding", ""))
            case "GET", ("api", "decisions"):
                return self._stream(request)
            case "GET", ("api", "decisions", decision_id):
                return await self._detail(decision_id)
            case "POST", ("api", "decisions", decision_id, "change"):
                return await self._change(request, decision_id)
            case "GET", ("api", "search"):
                return await self._search(dict(request.query_params))
            case "GET", ("api", "versions") if self._process.ring is not None:
                answers = await self._all({"about": "versions"})
                return json_response(together.versions(answers))
            case "POST", ("api", "request"):
                return await self._decide_pasted(request)
            case "POST", ("api", "tests"):
                # Read for its checks alone: a form of another site must not start the tests.
                await self._body(request)
                async with self._changing:
                    return json_response(await self._workers.run(self._process.tests))
            case "POST", ("api", "compare"):
                return await self._compare(request)
            case "GET", ("api", "session"):
                return json_response({"login": self.check is not None})
            case "GET", ("api", "login") if self.check is not None:
                return json_response({"issuers": sorted(self.issuers)})
            case "GET", ("oidc", name) if name in self.issuers:
                return await self._begin_at(self.issuers[name])
            case "GET", ("oidc", name, "callback") if name in self.issuers:
                return await self._finish_at(self.issuers[name], request)
            case "POST", ("api", "login") if self.check is not None:
                return await self._login(request)
            case "POST", ("api", "logout") if self.check is not None:
                return await self._logout(request)
            case "GET", ("api", "log"):
                return await self._query_log(dict(request.query_params))
            case "GET", ("api", "state"):
                return await self._state()
            case "GET", ("api", "revisions") if self._process.ring is not None:
                answers = await self._all({"about": "revisions"})
                return json_response(views.revisions(together.revisions(answers)))
            case "GET", ("api", "policies"):
                return await self._policies()
            case "GET", ("api", "shadow") if self._process.shadow is None:
                return json_response({"candidate": None})
            case "GET", ("api", "shadow"):
                answers = await self._all({"about": "shadow"})
                return json_response(together.shadows(answers, self._count))
            case "GET", ("api", "files"):
                return await self._workers.run(self._sources)
            case "POST", ("api", "playground", action):
                return await self._play(request, action)
        return PlainTextResponse("404 page not found\n", 404, headers())

    async def _all(self, question: Mapping[str, Any], within: float = WITHIN) -> dict[int, Any]:
        """Return the answers of all processes to a question, by their numbers. A worker that does
        not answer within `within` seconds is left out.
        """
        answer, others = await asyncio.gather(
            self._workers.run(self._process.answer, question), self._ask(question, within)
        )
        return {self._number: answer, **others}

    async def _ask(self, question: Mapping[str, Any], within: float = WITHIN) -> dict[int, Any]:
        """Ask the other workers, and return the answers that arrive within `within` seconds, by the
        workers' numbers; {} without peers.
        """
        return {} if self._peers is None else await self._peers.ask(question, within)

    async def _state(self) -> Response:
        """Return the version, if this process keeps decisions (`live`) and tries a candidate
        (`shadow`), and the state of each worker; one that did not answer is marked.
        """
        answers = await self._all({"about": "state"})
        return json_response(
            {
                "version": __version__,
                "live": self._process.ring is not None,
                "shadow": self._process.shadow is not None,
                "workers": together.states(answers, self._count),
            }
        )

    async def _policies(self) -> Response:
        """Return the policies in force, with the number of decisions that reached each definition
        in all workers; 404 if there is no decision point.
        """
        answers = await self._all({"about": "policies"})
        answer, pdp = answers[self._number], self._process.pdp
        if answer is None or pdp is None:
            return json_response({"error": "this process has no decision point"}, 404)
        counts = together.policies(answer, answers, self._count)
        missing = counts.pop("missing")
        page = await self._workers.run(document, pdp.snapshot, **counts)
        return json_response(page | {"missing": missing})

    def _sources(self) -> Response:
        """Return the first content of the playground: its files with data, or the policies in force
        without data, which may contain secrets; no files if there is no decision point.
        """
        if self._files is not None:
            return json_response({"files": dict(self._files), "data": self._data})
        if self._process.pdp is None:
            return json_response({"files": {}, "data": {}})
        # Data may hold secrets, and is not shown.
        trees = self._process.pdp.snapshot.engine.trees
        names = short_names(self._process.pdp.snapshot.engine.policies)
        files = {names[name]: tree.span.source.text for name, tree in trees.items()}
        return json_response({"files": files})

    async def _detail(self, decision_id: str) -> Response:
        """Return the details of a decision from this process, another worker or the log. If none
        has it: 503 if a worker did not answer within `EXPLAINING` seconds, otherwise 404, also if
        the log cannot be searched.
        """
        question = {"about": "decision", "id": decision_id}
        detail = await self._workers.run(self._process.answer, question)
        silent = False
        if detail is None and self._peers is not None:
            detail, all_answered = await self._peers.ask_who_knows(question, EXPLAINING)
            silent = not all_answered
        if detail is None and self._log is not None:
            try:
                detail = await self._run_search(lambda search: search.one(decision_id))
            except LogQueryError as error:
                return json_response({"error": f"this decision is no longer kept; {error}"}, 404)
        if detail is not None:
            return json_response(detail)
        if silent:
            return json_response(
                {"error": "a worker did not respond, and may have this decision: try again"}, 503
            )
        return json_response({"error": "this decision is no longer kept"}, 404)

    async def _search(self, fields: dict[str, str]) -> Response:
        """Return one page of at most `MOST` kept decisions that match a filter, of the processes
        that answer in time. Of the query's parameters, in `fields`, `before`, `limit` and `group`
        are about the page and are removed, all others are the filter; 400 for an invalid one.
        """
        try:
            before = _cursor(fields.pop("before", ""))
            limit = _number(fields.pop("limit", ""), MOST)
            group = fields.pop("group", "")
            if group not in ("", *GROUPS):
                raise FilterError(
                    f"the query parameter `group` must be absent or one of {', '.join(GROUPS)}"
                )
            filter = Filter.read(fields)
        except FilterError as error:
            return json_response({"error": str(error)}, 400)
        question: dict[str, Any] = {"about": "search", "filter": asdict(filter)}
        question |= {"before": before, "most": limit, "group": group}
        answers = await self._all(question, WITHIN + SEARCHING)
        return json_response(together.selections(answers, self._count, limit))

    async def _change(self, request: Request, decision_id: str) -> Response:
        """Return the smallest change of a decision's input with which it would be true. 404 if the
        decision is no longer kept, or the worker that has it does not answer within `EXPLAINING`
        seconds. One at a time: others wait.
        """
        await self._body(request)
        question = {"about": "change", "id": decision_id}
        async with self._changing:
            document = await self._workers.run(self._process.answer, question)
            if document is None and self._peers is not None:
                document, _ = await self._peers.ask_who_knows(question, EXPLAINING)
        if document is None:
            return json_response({"error": "this decision is no longer kept"}, 404)
        return json_response(document)

    async def _decide_pasted(self, request: Request) -> Response:
        """Return the decision on a pasted request, explained, as `Process.try_text` makes it from
        `text`, `path`, `user` and `changes` in the JSON body; 400 if one of them has a wrong type
        or the text cannot be decided on. RefusedError for a body that cannot be accepted.
        """
        body = await self._body(request)
        text, path, user = body.get("text"), body.get("path"), body.get("user", "")
        changes = body.get("changes", False)
        if not (isinstance(text, str) and isinstance(path, str) and isinstance(user, str)):
            return json_response({"error": "`text`, `path` and `user` must be texts"}, 400)
        if not isinstance(changes, bool):
            return json_response({"error": "`changes` must be true or false"}, 400)
        work = partial(self._process.try_text, text, path, user, changes=changes)
        try:
            async with self._changing:
                return json_response(await self._workers.run(work))
        except PastedError as error:
            return json_response({"error": str(error)}, 400)

    async def _compare(self, request: Request) -> Response:
        """Return the changes of the policies in force since a `revision`; 400 without one, 404 if
        it is no longer kept.
        """
        revision = (await self._body(request)).get("revision")
        if not isinstance(revision, str):
            return json_response({"error": "`revision` must be a text"}, 400)
        async with self._changing:
            document = await self._workers.run(self._process.compare, revision)
        if document is None:
            return json_response({"error": "this revision is no longer kept"}, 404)
        return json_response(document)

    def is_open(self, method: str, path: tuple[str, ...]) -> bool:
        """Return True for requests below `/console` that are answered without a session: those of
        the login and the static files. False for all if browsers need no session.
        """
        # INVARIANT: the system policy is not asked for these requests (`Api._is_open`): nothing
        # here may show a decision or change anything but the caller's own login.
        if self.check is None:
            return False
        if path == ("api", "login"):
            return method in ("GET", "POST")
        if path[:1] == ("oidc",):
            is_of_login = len(path) == 2 or path[2:] == ("callback",)
            return method == "GET" and is_of_login and path[1] in self.issuers
        is_page = path == ("login",) or (len(path) == 2 and path[0] == "static")
        return method in ("GET", "HEAD") and is_page

    def is_page(self, method: str, path: tuple[str, ...]) -> bool:
        """Return True for a request of a page that leads to the login without a session; False for
        all if browsers need no session.
        """
        is_view = not path or path[0] == "help" or (len(path) == 1 and path[0] in PAGES)
        return self.check is not None and method in ("GET", "HEAD") and is_view

    def login_page(self, request: Request) -> str:
        """Return the address of the login page, with the requested page as `next`; the first page,
        and one of more than `LONGEST_ADDRESS` characters, are dropped.
        """
        wanted, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
        wanted += f"?{query}" if query else ""
        is_first = wanted in ("/console", "/console/")
        is_long = len(wanted) > LONGEST_ADDRESS
        return "/console/login" + ("" if is_first or is_long else f"?next={quote(wanted, safe='')}")

    async def token(self, request: Request) -> str:
        """Return the token of the request's session, also of one that another worker began; ""
        without a valid session, or if that worker does not answer within `WITHIN` seconds. A
        request that changes something must come from a page of this server (`Origin`), or it has no
        session.
        """
        name = request.cookies.get(COOKIE, "")
        if self.check is None or not name or len(name) > _COOKIE:
            return ""
        if request.method not in ("GET", "HEAD") and not self._is_own_page(request):
            return ""
        question = {"about": "session", "digest": digest_of(name)}
        token = self._process.sessions.token(question["digest"])
        if token is None and self._peers is not None:
            token, _ = await self._peers.ask_who_knows(question, WITHIN)
        return token or ""

    async def _login(self, request: Request) -> Response:
        """Begin a session for the `token` in the body and set its cookie. 400 without a token; 403
        if the system policy does not allow it, or the request comes from another site.
        """
        if not self._is_own_page(request):
            return refuse("a login must come from a page of this server")
        token = (await self._body(request)).get("token")
        if not isinstance(token, str) or not 0 < len(token) <= LONGEST_TOKEN:
            return json_response({"error": "`token` must be a text"}, 400)
        assert self.check is not None
        async with self._changing:
            is_allowed = await self._workers.run(self.check, token)
        if not is_allowed:
            return json_response(
                {"error": "the policy does not allow this token to open the console"}, 403
            )
        answer = json_response({"seconds": SECONDS_OF_SESSION})
        return set_cookie(answer, request, self._process.sessions.begin(token))

    async def _begin_at(self, login: OidcLogin) -> Response:
        """Redirect the browser to an issuer, with a cookie that binds the login to it; 502 if the
        issuer cannot be used.
        """
        try:
            begun = await self._run_at_issuer(login.begin)
        except OidcError as error:
            return notice(str(error), 502)
        answer = redirect(begun.url)
        # Lax: the issuer's redirect back is a navigation from another site.
        answer.set_cookie(
            OIDC_COOKIE,
            begun.cookie,
            max_age=SECONDS_OF_LOGIN,
            path="/console/oidc",
            secure=login.redirect_url.startswith("https:"),
            httponly=True,
            samesite="lax",
        )
        return answer

    async def _run_at_issuer(self, work: Callable[[], T]) -> T:
        """Run `work`, a function that waits for a response of an issuer, in one of the few threads
        for logins, and return its result. Raise OidcError if `MOST_LOGINS` wait already; errors of
        `work` pass through.
        """
        slot = self._login_slots.take()
        if slot is None:
            raise OidcError("too many people log in at the same time: try again")
        with slot:
            return await self._logins.run(work)

    async def _finish_at(self, login: OidcLogin, request: Request) -> Response:
        """Begin a session for a person whom the issuer has sent back and the system policy allows,
        and return a page that opens the console. 400 if the login fails, 403 if the policy refuses.
        """
        # RFC 6749, section 3.1: no parameter may occur twice; readers would take different ones.
        parameters = dict(request.query_params)
        if len(parameters) != len(request.query_params.multi_items()):
            return notice("the issuer's response has a parameter twice: log in again", 400)
        cookie = request.cookies.get(OIDC_COOKIE, "")
        assert self.check is not None
        try:
            token = await self._run_at_issuer(partial(login.finish, parameters, cookie))
            async with self._changing:
                is_allowed = await self._workers.run(self.check, token)
        except OidcError as error:
            return notice(str(error), 400)
        if not is_allowed:
            return notice("the policy does not allow you to open this console", 403)
        # A page, and no redirect: a cookie for the same site is not sent in a chain of redirects
        # that another site began.
        answer = notice("Logged in.", 200, goes_on=True)
        answer.delete_cookie(OIDC_COOKIE, path="/console/oidc")
        name = self._process.sessions.begin(token)
        return set_cookie(
            answer, request, name, is_encrypted=login.redirect_url.startswith("https:")
        )

    def _is_own_page(self, request: Request) -> bool:
        """Return True if the `Origin` of a request is that of a page of the console."""
        issuers = self.issuers.values()
        return is_same_origin(request, [login.origin for login in issuers])

    async def _logout(self, request: Request) -> Response:
        """End a session in every worker and remove its cookie; 403 for a request of another
        site.
        """
        if not self._is_own_page(request):
            return refuse("a logout must come from a page of this server")
        digest = digest_of(request.cookies.get(COOKIE, ""))
        # The session is in the worker that began it, which need not be this one.
        await self._all({"about": "end session", "digest": digest})
        return set_cookie(json_response({}), request, "")

    async def _body(self, request: Request) -> dict[str, Any]:
        """Read the body and return its JSON object. RefusedError for another content type (415),
        more than `BODY` bytes (413), and anything but a JSON object (400).
        """
        _check_kind(request)
        body = bytearray()
        # Piece by piece, so that a body that is too large is not in memory as a whole.
        async for part in request.stream():
            body += part
            if len(body) > BODY:
                raise RefusedError(f"the request body is larger than {BODY} bytes", 413)
        try:
            document = from_json(bytes(body))
        except ValueError as error:
            raise RefusedError(f"the request body is not JSON: {error}", 400) from None
        if not isinstance(document, dict):
            raise RefusedError("the request body must be a JSON object", 400)
        return {str(name): value for name, value in document.items()}

    async def _query_log(self, fields: Mapping[str, str]) -> Response:
        """Return the newest decisions of the log that match the parameters; 400 if the search is
        not possible.
        """
        try:
            question = Question.read(fields)
            return json_response(await self._run_search(lambda search: search.newest(question)))
        except LogQueryError as error:
            return json_response({"error": str(error)}, 400)

    async def _run_search(self, work: Callable[[Search], T]) -> T:
        """Search the log and return the result, after the searches that wait already.

        A search ends after `SECONDS` with the rows read so far; waiting does not count. Raise
        LogQueryError if there is no log, or if `SEARCHES` run or wait.
        """
        if self._log is None:
            raise LogQueryError(
                "this process makes no decisions, so it has no decision log to search"
            )
        # A page asks again before it has its answer, when its reader goes back or types quickly:
        # the second search waits for the first one.
        slot = self._search_slots.take()
        if slot is None:
            raise LogQueryError("too many searches of the log at the same time: try again later")
        with slot:
            async with self._search_turn:
                search = Search(self._log)
                end = asyncio.get_running_loop().call_later(SECONDS, search.stop)
                try:
                    return await self._searches.run(work, search)
                finally:
                    end.cancel()

    def _stream(self, request: Request) -> Response:
        """Return the stream of new decisions that match a filter, as server-sent events, from the
        `Last-Event-ID` of the page on. 400 for an invalid filter, 503 without a decision point or
        for more than `STREAMS` pages.
        """
        if self._process.ring is None:
            return json_response({"error": "this process has no decision point"}, 503)
        try:
            fields = dict(request.query_params)
            limit = _number(fields.pop("limit", ""), views.BATCH)
            filter = Filter.read(fields)
        except FilterError as error:
            return json_response({"error": str(error)}, 400)
        slot = self._stream_slots.take()
        if slot is None:
            return json_response(
                {"error": "too many pages of the console are open: close one"}, 503
            )
        *after, docker = _numbers(request.headers.get("last-event-id", ""), self._count + 1)
        return _EventStream(self._events(after, docker, filter, limit), slot)

    async def _events(
        self, after: list[int], docker: int, filter: Filter, limit: int
    ) -> AsyncIterator[bytes]:
        """Yield a message every `ROUND` seconds, with the new decisions of the processes that
        answered in time, at most the newest `limit`, for `STREAM` seconds or until `close`. `after`
        has the number of the last decision that the page has of each process, and is updated;
        `docker` is that of the Docker plugin. Each message's id has the new numbers.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + STREAM
        most = views.BATCH if self._count == 1 else max(2 * views.BATCH // self._count, FEWEST)
        most = min(most, limit)
        while loop.time() < until and not self._closed:
            question = {"about": "decisions", "after": after, "docker": docker, "most": most}
            if filter != Filter():
                question["filter"] = asdict(filter)
            others = await self._ask(question)
            answers = {self._number: self._process.answer(question), **others}
            for number, each in answers.items():
                after[number] = each["last"]
                docker = each.get("docker_last", docker)
            message = together.batches(answers, self._count, limit)
            numbers = ".".join(map(str, [*after, docker]))
            yield b"id: %b\ndata: %b\n\n" % (numbers.encode(), to_bytes(message))
            await asyncio.sleep(ROUND)

    async def _play(self, request: Request, action: str) -> Response:
        """Run an action of the playground in a thread and return its result. 400 for an invalid
        request; 503 if `PLAYS` run or wait already.
        """
        slot = self._play_slots.take()
        if slot is None:
            return json_response({"error": "too many evaluations at the same time: try again"}, 503)
        with slot:
            try:
                body = await self._body(request)
                return json_response(await self._workers.run(answer, action, body))
            except PlaygroundError as error:
                return json_response({"error": str(error)}, 400)


def _numbers(text: str, count: int) -> list[int]:
    """Parse `count` numbers separated by points, the id of an event; zeros if the text is anything
    else.
    """
    parts = text.split(".")
    are_numbers = all(each.isascii() and each.isdecimal() and len(each) < 19 for each in parts)
    return [int(each) for each in parts] if are_numbers and len(parts) == count else [0] * count


def _check_kind(request: Request) -> None:
    """Raise RefusedError (415) unless the content type is JSON: forms of other sites cannot send
    that without permission.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise RefusedError("the request's content type must be application/json", 415)


def _cursor(text: str) -> list[int] | None:
    """Return the cursor of a page as a list: time in milliseconds, worker and number, which points
    separate in `text`; None for "". FilterError if it is invalid.
    """
    if not text:
        return None
    parts = text.split(".")
    if len(parts) != 3 or not all(_INTEGER.fullmatch(each) for each in parts):
        raise FilterError(
            "the query parameter `before` must be a cursor of a previous page, TIME.WORKER.NUMBER"
        )
    return [int(each) for each in parts]


def _number(text: str, most: int) -> int:
    """Parse a number of rows; `most` for "" and for larger numbers. FilterError unless it has only
    digits, at most 5.
    """
    if not text:
        return most
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise FilterError(
            "the query parameter `limit` must be a number of rows, of at most 5 digits"
        )
    return min(int(text), most)


def is_host_allowed(host: str, names: frozenset[str]) -> bool:
    """Return True if the console may have this `Host`: an address, a name without a dot, or one of
    `names`, with any port. Another name could be that of a foreign page, pointed here (DNS
    rebinding).
    """
    # `[::1]` has no port: its last colon belongs to the address.
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    name = name.strip("[]").lower()
    if name in names or (name and "." not in name and ":" not in name):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
