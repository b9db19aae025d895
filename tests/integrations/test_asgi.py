"""Middleware for ASGI: the matrix through a real server, and the corners of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.integrations.servers import TOKENS, Arrivals, differences, people_point, uvicorn_port

from doorward.enforcement.check import HttpOptions
from doorward.integrations.asgi import VERDICT, Authorization
from doorward.pdp import DecisionPoint, from_modules

NORMALISED = "Envoy normalises the path; strict mode refuses what is not normal"
DIFFERENT: Mapping[str, tuple[str, str, str]] = {
    "no Authorization header: CONNECT": ("404", "400", "Envoy has no route; strict mode refuses"),
    "no Authorization header: OPTIONS *": ("404", "403", "Envoy has no route; the policy denies"),
    "paths: POST /people?": ("403", "arrives", "ASGI has no empty query: nobody sees the mark"),
    "paths: POST /people#x": ("400", "arrives", "uvicorn cuts the fragment off for everybody"),
    "paths: POST /people/../admin": ("403", "400", NORMALISED),
    "paths: POST //people": ("arrives", "400", NORMALISED),
    "paths: POST /./people": ("arrives", "400", NORMALISED),
    "paths: POST /x/../people": ("arrives", "400", NORMALISED),
    "paths: POST /%2e/people": ("arrives", "400", NORMALISED),
    "paths: POST /%70eople": ("arrives", "400", NORMALISED),
    "paths: POST /\\people": ("arrives", "400", NORMALISED),
    "paths: GET //people": ("arrives", "400", NORMALISED),
    "paths: GET /people/%2e%2e/admin": ("403", "400", NORMALISED),
}


def test_the_matrix_gets_what_it_gets_through_envoy() -> None:
    arrivals = Arrivals()
    with (
        people_point() as point,
        uvicorn_port(Authorization(arrivals.asgi, point)) as port,
    ):
        different = differences(port, arrivals)
    assert different == {name: (envoy, ours) for name, (envoy, ours, _) in DIFFERENT.items()}


POLICY = """package envoy.authz

http := input.attributes.request.http

default allow := false

allow if startswith(http.path, "/open")

allow := {
	"allowed": true,
	"headers": {"X-User": "ann", "x-role": ["a", "b"]},
	"request_headers_to_remove": ["Authorization"],
	"response_headers_to_add": {"x-decided": "yes"},
} if http.path == "/changed"

allow := {
	"allowed": false,
	"http_status": 401,
	"headers": {"WWW-Authenticate": "Bearer"},
	"body": "who?",
} if http.path == "/who"

allow := {"allowed": false, "headers": {"x": "a\\r\\nb"}} if http.path == "/split"

allow := {"allowed": true, "query_parameters_to_set": {"a": "b"}} if http.path == "/query"

allow := {"allowed": "yes"} if http.path == "/wrong"

allow := true if http.path == "/body" == (input.parsed_body.a == 1)

allow if input.truncated_body
"""


@pytest.fixture(scope="module")
def point() -> Iterator[DecisionPoint]:
    with from_modules({"p.rego": POLICY}) as opened:
        yield opened


def scope_of(path: str = "/open", **more: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"a.example")],
        "http_version": "1.1",
        "scheme": "http",
        **more,
    }


class Run:
    """One call of the middleware: what the application saw, and what the client got."""

    def __init__(
        self,
        point: DecisionPoint,
        scope: dict[str, Any],
        *messages: dict[str, Any],
        **options: Any,
    ) -> None:
        self.scope: dict[str, Any] | None = None
        self.body = b""
        self.received = 0
        self.sent: list[dict[str, Any]] = []
        self._messages = iter(messages)
        app = Authorization(self._app, point, HttpOptions(**options))
        asyncio.run(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        return next(self._messages)

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = dict(scope)
        has_more = scope["method"] == "POST"
        while has_more:
            message = await receive()
            self.received += 1
            self.body += message["body"]
            has_more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status


def chunk(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def post(path: str, length: int | None, kind: bytes = b"application/json") -> dict[str, Any]:
    headers = [(b"content-type", kind)]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return scope_of(path, method="POST", headers=headers)


def test_an_allowed_request_is_handed_on_with_its_verdict(point: DecisionPoint) -> None:
    run = Run(point, scope_of())
    assert run.scope is not None
    assert run.scope[VERDICT].allowed
    assert run.scope[VERDICT].decision_id
    assert run.status == 200


def test_the_policy_changes_headers_and_clients_cannot_set_them(point: DecisionPoint) -> None:
    given = [
        (b"X-User", b"eve"),
        (b"authorization", b"x"),
        (b"x-forwarded-user", b"eve"),
        (b"b", b"1"),
    ]
    run = Run(point, scope_of("/changed", headers=given))
    assert run.scope is not None
    assert run.scope["headers"] == [
        (b"b", b"1"), (b"x-user", b"ann"), (b"x-role", b"a"), (b"x-role", b"b"),
    ]  # fmt: skip
    assert run.sent[0]["headers"] == [(b"a", b"b"), (b"x-decided", b"yes")]


def test_a_denial_is_the_policys(point: DecisionPoint) -> None:
    run = Run(point, scope_of("/who"))
    assert run.scope is None
    assert run.status == 401
    assert (b"www-authenticate", b"Bearer") in run.sent[0]["headers"]
    assert (b"content-length", b"4") in run.sent[0]["headers"]
    assert run.sent[1]["body"] == b"who?"
    assert Run(point, scope_of("/who", method="HEAD")).sent[1]["body"] == b""


@pytest.mark.parametrize("path", ["/elsewhere", "/split", "/query", "/wrong"])
def test_what_the_policy_cannot_mean_is_denied(point: DecisionPoint, path: str) -> None:
    run = Run(point, scope_of(path))
    assert run.scope is None
    assert (run.status, run.sent[1]["body"]) == (403, b"")


def test_a_body_is_read_by_both(point: DecisionPoint) -> None:
    run = Run(point, post("/body", 8), chunk(b'{"a"', True), chunk(b": 1}"))
    assert run.body == b'{"a": 1}'
    assert Run(point, post("/body", 8), chunk(b'{"a": 2}')).scope is None


def test_a_body_over_the_limit_is_cut_for_the_policy_and_whole_for_the_application(
    point: DecisionPoint,
) -> None:
    parts = chunk(b"x" * 10, True), chunk(b"y" * 10, True), chunk(b"z")
    run = Run(point, post("/", 21, b"text/plain"), *parts, max_body=12, strict=False)
    assert run.body == b"x" * 10 + b"y" * 10 + b"z"
    strict = Run(point, post("/", 21, b"text/plain"), *parts, max_body=12)
    assert strict.scope is None
    assert strict.sent[1]["body"] == b"request_ambiguous: body is cut"


def test_a_body_of_http_2_needs_no_head(point: DecisionPoint) -> None:
    scope = {**post("/open", None), "http_version": "2"}
    run = Run(point, scope, chunk(b"{}"))
    assert b"body of undeclared length" in run.sent[1]["body"]
    assert Run(point, scope, chunk(b"{}"), strict=False).body == b"{}"


def test_bodies_can_be_left_alone(point: DecisionPoint) -> None:
    assert Run(point, post("/open", 3), chunk(b"{}}"), skip_body=True).body == b"{}}"


def test_a_client_that_leaves_is_not_decided_on(point: DecisionPoint) -> None:
    run = Run(point, post("/open", 9), chunk(b"{", True), {"type": "http.disconnect"})
    assert run.scope is None
    assert run.sent == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"raw_path": None}, "does not pass on the path"),
        ({"raw_path": b"/other"}, "the path differs from `raw_path`, the path that was sent"),
        ({"headers": [(b"x_user", b"a")]}, "underscore in a header name"),
        ({"headers": [(b"host", b"a"), (b"host", b"b")]}, "more than one host header"),
        ({"headers": [(b"Host", b"a"), (b"hOST", b"b")]}, "more than one host header"),
        ({"query_string": b"a=1&A=2"}, "differ only in case"),
    ],
)
def test_strict_mode_refuses_what_it_would_have_to_guess(
    point: DecisionPoint, change: dict[str, Any], reason: str
) -> None:
    run = Run(point, scope_of(**change))
    assert (run.scope, run.status) == (None, 400)
    assert reason in run.sent[1]["body"].decode()
    assert Run(point, scope_of(**change), strict=False).status in (200, 403)


@pytest.mark.parametrize("root", ["/open", "/open/"])
@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/x", "/open/x"),  # hypercorn, daphne and granian leave the root path out
        ("/open/x", "/open/x"),  # uvicorn has it in front
        ("/open", "/open"),
        ("/opened", "/open/opened"),
        ("/x/open/y", "/open/x/open/y"),
    ],
)
def test_below_a_root_path_policy_and_application_see_the_path_with_it(
    point: DecisionPoint, root: str, path: str, seen: str
) -> None:
    run = Run(point, scope_of(path, root_path=root))
    assert run.scope is not None
    assert (run.scope["path"], run.scope["raw_path"]) == (seen, seen.encode())
    assert run.scope["root_path"] == (root if seen == path else "/open")
    assert Run(point, scope_of(path, root_path="/shut")).status == 403


def test_what_is_no_path_stays_what_it_is_below_a_root_path(point: DecisionPoint) -> None:
    for path in ("*", "http://a.example/open", "open"):
        assert Run(point, scope_of(path, root_path="/open")).status == 400


def test_parts_of_a_body_without_bytes_are_not_kept(point: DecisionPoint) -> None:
    parts = [chunk(b"", True)] * 10_000
    run = Run(point, post("/body", 8), *parts, chunk(b'{"a": 1}', True), *parts, chunk(b""))
    assert (run.body, run.received) == (b'{"a": 1}', 2)


def test_a_path_that_is_not_known_raw_is_encoded_again(point: DecisionPoint) -> None:
    run = Run(point, scope_of("/open/é ü", raw_path=None), strict=False)
    assert run.scope is not None


def test_a_websocket_is_decided_on_before_its_handshake(point: DecisionPoint) -> None:
    scope = scope_of("/who", type="websocket", scheme="ws")
    del scope["method"]
    run = Run(point, scope, {"type": "websocket.connect"})
    assert run.scope is None
    assert run.sent == [{"type": "websocket.close", "code": 1008, "reason": "Unauthorized"}]
    scope["extensions"] = {"websocket.http.response": {}}
    run = Run(point, scope, {"type": "websocket.connect"})
    assert (run.sent[0]["type"], run.sent[0]["status"]) == ("websocket.http.response.start", 401)
    assert Run(point, scope, {"type": "websocket.disconnect"}).sent == []


def test_other_connections_are_refused_and_the_lifespan_is_not(point: DecisionPoint) -> None:
    with pytest.raises(ValueError, match="no policy decides on ASGI connections of type raw"):
        Run(point, scope_of(type="raw"))
    run = Run(point, {"type": "lifespan", "method": ""})
    assert run.scope == {"type": "lifespan", "method": ""}


def test_a_fault_denies(point: DecisionPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("doorward.enforcement.check.to_input", fail)
    run = Run(point, scope_of())
    assert (run.scope, run.status) == (None, 403)


def test_the_log_holds_refusals_and_decisions(point: DecisionPoint) -> None:
    lines: list[bytes] = []
    with from_modules({"p.rego": POLICY}, log=lines.append) as logged:
        Run(logged, scope_of())
        Run(logged, scope_of("/wrong"))
        Run(logged, scope_of("/a//b"))
    text = b"".join(lines).decode()
    assert text.count('"decision_id"') == 3
    assert "empty segment" in text
    assert "type assertion error" in text
    assert TOKENS["admin"] not in text
