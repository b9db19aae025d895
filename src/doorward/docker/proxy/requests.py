"""The head of a client's request becomes what is decided, and that becomes what the daemon gets.

    RequestHead -> Reading -> AuthzRequest -> (decided) -> bytes for the daemon

What the daemon gets has one spelling: the decoded path and query encoded again, the headers of
`_PASSED` with their judged values, and the JSON that was read into the types of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

from doorward.docker.proxy.answers import View, narrow
from doorward.docker.proxy.messages import Fields, RequestHead, write_head
from doorward.docker.request.call import AuthzRequest, Caller, Target, parse_target
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import Draft
from doorward.docker.request.routes import UNKNOWN, Kind, find_route
from doorward.rego import to_json

__all__ = ["Reading", "UpstreamHead", "read_request", "to_authz", "write_request"]

_PASSED: Final = frozenset(
    {"accept", "user-agent", "x-registry-auth", "x-registry-config", "traceparent", "tracestate"}
)
"""Headers that are passed on from any request: the daemon decides nothing of the host by them."""
_OF_SESSIONS: Final = (
    "x-docker-expose-session-uuid",
    "x-docker-expose-session-name",
    "x-docker-expose-session-sharedkey",
    "x-docker-expose-session-grpc-method",
)
_OF_SOCKETS: Final = ("sec-websocket-key", "sec-websocket-version", "sec-websocket-protocol")
_TAKEN_OVER: Final[Mapping[str, frozenset[str]]] = {
    "container.attach": frozenset({"tcp", "websocket"}),
    "exec.start": frozenset({"tcp"}),
    "build.session": frozenset({"h2c"}),
    "build.grpc": frozenset({"h2c"}),
}
"""The protocols that may follow an answer, by the action of the request."""
SHORT: Final = 512
"""Characters of a target that is remembered."""
_WEBSOCKET: Final = "/attach/ws"


class Reading(NamedTuple):
    """A request as far as its head tells, before its body is read and anything is decided."""

    head: RequestHead
    action: str
    kind: Kind
    upgrade: str
    """The protocol that takes over, if the daemon agrees; "" for none."""
    is_taken_over: bool
    """Whether the connection may be taken over: with an upgrade, or as old clients do without."""


class UpstreamHead(NamedTuple):
    """The head for the daemon, and the JSON that follows it, if any does."""

    head: bytes
    body: bytes


def read_request(head: RequestHead) -> Reading:
    """Find the route of a request and how its body is read; the action is `unknown` if there is no
    route.

    An `Upgrade` header counts only if the action permits it.
    """
    find = _known_route if len(head.target) <= SHORT else _find_route
    action, kind, route = find(head.method, head.target)
    upgrade = head.upgrade
    # `attach/ws` is the only route that speaks WebSocket, and it speaks nothing else.
    if upgrade not in _TAKEN_OVER.get(action, ()) or (
        (upgrade == "websocket") is not route.endswith(_WEBSOCKET)
    ):
        upgrade = ""
    is_taken_over = (action in _TAKEN_OVER and not route.endswith(_WEBSOCKET)) or bool(upgrade)
    return Reading(head, action, kind, upgrade, is_taken_over)


def _find_route(method: str, uri: str) -> tuple[str, Kind, str]:
    """Return the action of a request, the kind of its body (`stream` for the import of an image),
    and its path without the API version; `unknown`, `none` and "" for a malformed target.
    """
    try:
        target = parse_target(uri)
    except RequestError:
        return UNKNOWN.action, "none", ""
    route, _ = find_route(method, target.route)
    kind = route.kind
    query = target.query
    if route.action == "image.pull" and not query.get("fromImage", [""])[0]:
        kind = "stream" if query.get("fromSrc", [""])[0] else kind
    return route.action, kind, target.route


_known_route: Final = lru_cache(1024)(_find_route)


def to_authz(reading: Reading, caller: Caller, body: bytes | None) -> AuthzRequest:
    """Return the request to decide. It has the headers that are passed on to the daemon and, unless
    the body is a stream, one that says that it has a JSON body or none.

    `body` is the JSON content; None if there is none, or if the body is the stream of an archive.
    """
    head = reading.head
    headers = {name: value for name, value in head.fields if name in _PASSED}
    if body:
        headers["content-type"] = "application/json"
    # Says to `_check_body` that there is no body, and so no form that replaces the query.
    elif reading.kind != "stream":
        headers["content-length"] = "0"
    return AuthzRequest(
        head.method, head.target, caller.name, caller.method, headers, body or None, caller=caller
    )


def write_request(
    reading: Reading, draft: Draft | None, body: bytes | None, view: View
) -> UpstreamHead:
    """Return the request for the daemon, written from the parsed request and not from its bytes.

    Path, query and body come from `draft` if there is one, and the query is narrowed to the view's
    owner. Only known headers are copied. Raise ViewError if the `filters` cannot be read.
    """
    head = reading.head
    if view.owner:
        target = parse_target(head.target) if draft is None else draft.target
        uri = _uri(narrow(reading.action, target, view))
    else:
        uri = _canonical(head.target) if draft is None else _uri(draft.target)
    content = b""
    if body:
        # What was read into its types; without a draft, which is kept for requests with a body only
        # where they were read, there is nothing to send.
        assert draft is not None
        content = to_json(draft.body).encode()
    fields: Fields = [("Host", "docker")]
    fields += [pair for pair in head.fields if pair[0] in _PASSED]
    if reading.action == "build.session":
        fields += [pair for pair in head.fields if pair[0] in _OF_SESSIONS]
    if reading.upgrade:
        if reading.upgrade == "websocket":
            fields += [pair for pair in head.fields if pair[0] in _OF_SOCKETS]
        fields += [("Connection", "Upgrade"), ("Upgrade", reading.upgrade)]
    fields += _framing(reading, content)
    return UpstreamHead(write_head(f"{head.method} {uri} HTTP/1.1", fields), content)


def _framing(reading: Reading, content: bytes) -> Fields:
    """Return the header fields that describe the body. `content`: the JSON, which is described by
    its length; `b""` if there is no body or it is a stream. A stream is a tar, of the length that
    the client gave or chunked. Without a body: `Content-Length: 0`, nothing for GET, HEAD and
    DELETE.
    """
    if content:
        return [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
    if reading.kind == "stream" and not reading.is_taken_over and reading.head.length:
        length = reading.head.length
        sized = ("Transfer-Encoding", "chunked") if length < 0 else ("Content-Length", str(length))
        # Whatever type the client gave: the daemon would take the fields of a form for the query.
        return [("Content-Type", "application/x-tar"), sized]
    # RFC 9110, 8.6: no length where the method gives a body no meaning.
    if reading.head.method in ("GET", "HEAD", "DELETE"):
        return []
    return [("Content-Length", "0")]


def _canonical(uri: str) -> str:
    """Return a request target as it is sent to the daemon; short ones are cached. RequestError if
    the daemon could not read it, or not in one way only.
    """
    return _rewrite_uri(uri) if len(uri) <= SHORT else _uri(parse_target(uri))


@lru_cache(1024)
def _rewrite_uri(uri: str) -> str:
    return _uri(parse_target(uri))


def _uri(target: Target) -> str:
    """Return the target as text for the daemon; equal targets give equal texts."""
    path = quote(target.path, safe="/:")
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}"
        for name, values in target.query.items()
        for value in values
    )
    return f"{path}?{query}" if query else path
