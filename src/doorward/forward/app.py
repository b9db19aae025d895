"""The endpoints of forward-auth, as an application of ASGI: 200 lets pass, and nothing else.

Every method is taken, since proxies ask with that of the client or with one of their own. A denial
is never sent with a code of success, and what fails is a denial.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from doorward.edge import FAULTS, Edge
from doorward.enforcement.check import HttpCheck, HttpOptions
from doorward.enforcement.errors import RequestError
from doorward.forward.options import Options
from doorward.forward.request import PROXIES, SecretError, proxy_of, read_question
from doorward.pdp.pdp import PDP
from doorward.verdicts import Verdict

__all__ = ["ForwardAuth"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_EDGE: Final = Edge("forward-auth", "a forward-auth request failed")


class ForwardAuth:
    """An ASGI application that answers proxies: 200 allows, any other status denies."""

    def __init__(self, pdp: PDP, options: Options | None = None) -> None:
        self._options = options or Options()
        self._check = HttpCheck(
            pdp,
            HttpOptions(
                path=self._options.path,
                strict=self._options.strict,
                max_body=self._options.max_body,
                skip_body=self._options.skip_body,
                stripped=frozenset(),  # taken out by `read_question`
            ),
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer an HTTP request of a proxy, or ASGI's lifespan events.

        A fault is reported and becomes a denial. Raise ValueError for other kinds of connections.
        """
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] != "http":
            raise ValueError(
                f"ASGI connections of type {scope['type']} are not supported: forward-auth is HTTP"
            )
        name = ""
        try:
            name, verdict = await self._decide(scope, receive)
        except FAULTS as fault:
            verdict = Verdict(False, reason=_EDGE.report(fault))
        await self._answer(scope, send, name, verdict)

    async def _decide(self, scope: Message, receive: Receive) -> tuple[str, Verdict]:
        """Return the proxy's name and the verdict on the client's request that it asks about.

        Name "" and status 404 for an unknown endpoint; a wrong secret gives 403, an unreadable
        request 400.
        """
        raw: bytes = scope["raw_path"]
        query: bytes = scope["query_string"]
        sent = (raw + b"?" + query if query else raw).decode("latin-1")
        name, target = proxy_of(sent)
        if not name:
            return "", Verdict(False, 404, reason="no such endpoint")
        body, is_cut = await self._read(receive)
        try:
            request = read_question(
                name, scope["method"], target, scope["headers"], body, is_cut, self._options
            )
        except SecretError as error:
            return name, self._check.refuse(error)._replace(status=403, body="")
        except RequestError as error:
            return name, self._check.refuse(error)
        return name, await self._check.check_async(request)

    async def _read(self, receive: Receive) -> tuple[bytes, bool]:
        """Return the body, cut to the limit, and True if it was cut or the client disconnected."""
        limit = self._options.max_body
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return body, True
            body += message.get("body", b"")
            if len(body) > limit:
                return body[:limit], True
            if not message.get("more_body", False):
                return body, False

    async def _answer(self, scope: Message, send: Send, name: str, verdict: Verdict) -> None:
        """Send the verdict: 200 with all headers that the proxy copies, or the refusal.

        An allowed request is refused if its changes are more than the proxy can make.
        """
        # A change that the proxy would leave out could be the one on which the permission rests.
        if verdict.allowed and not self._can_do(verdict):
            verdict = Verdict(False, reason="result_error")
        body = b""
        if verdict.allowed:
            status, pairs = 200, self._for_the_proxy(verdict)
        else:
            status, pairs = _code(name, verdict.status), list(verdict.headers)
            body = verdict.body.encode("utf-8", "replace")
            if body and not any(key.lower() == "content-type" for key, _ in pairs):
                pairs.append(("content-type", "text/plain; charset=utf-8"))
        pairs = [pair for pair in pairs if pair[0].lower() != "content-length"]
        pairs.append(("content-length", str(len(body))))
        headers = [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in pairs]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
        )

    def _can_do(self, verdict: Verdict) -> bool:
        """Return True if the proxy can make all changes of a verdict.

        Proxies copy only the request headers in `response-headers`, and change no response.
        """
        named = set(self._options.response_headers)
        changed = {key.lower() for key, _ in verdict.headers} | set(verdict.removed)
        return changed <= named and not verdict.response_headers

    def _for_the_proxy(self, verdict: Verdict) -> list[tuple[str, str]]:
        """Return each header that the proxy copies, once, with its values joined by `,`; with "" if
        the policy does not set it.

        An empty one replaces a header that the client sent.
        """
        values: dict[str, list[str]] = {name: [] for name in self._options.response_headers}
        # INVARIANT: `_can_do` has refused all other names.
        for key, value in verdict.headers:
            values[key.lower()].append(value)
        return [(name, ",".join(lines)) for name, lines in values.items()]


def _code(name: str, status: int) -> int:
    """Return the status of a denial: 403 in place of a 2xx or a status that the proxy does not pass
    on.
    """
    only = PROXIES[name].only if name else ()
    if 200 <= status < 300 or (only and status not in only):
        return 403
    return status
