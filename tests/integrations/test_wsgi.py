"""Middleware for WSGI: the matrix through a real server, and the corners of the protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import pytest
from tests.integrations.servers import Arrivals, differences, people_point, werkzeug_port
from tests.integrations.test_asgi import NORMALISED, POLICY

from doorward.enforcement.check import HttpOptions
from doorward.enforcement.headers import UNTRUSTED
from doorward.integrations.wsgi import VERDICT, Authorization
from doorward.pdp import DecisionPoint, from_modules

DIFFERENT: Mapping[str, tuple[str, str, str]] = {
    "no Authorization header: CONNECT": ("404", "400", "Envoy has no route; strict mode refuses"),
    "no Authorization header: OPTIONS *": ("404", "403", "Envoy has no route; the policy denies"),
    "paths: POST /people/../admin": ("403", "400", NORMALISED),
    "paths: POST /./people": ("arrives", "400", NORMALISED),
    "paths: POST /x/../people": ("arrives", "400", NORMALISED),
    "paths: POST /%2e/people": ("arrives", "400", NORMALISED),
    "paths: POST /%70eople": ("arrives", "400", NORMALISED),
    "paths: POST /\\people": ("arrives", "400", NORMALISED),
    "paths: POST http://elsewhere/people": ("arrives", "400", "Werkzeug passes on all of it"),
    "paths: GET /people/%2e%2e/admin": ("403", "400", NORMALISED),
    "paths: a header with an underscore": ("400", "arrives", "Werkzeug leaves such headers out"),
}


def test_the_matrix_gets_what_it_gets_through_envoy() -> None:
    arrivals = Arrivals()
    with (
        people_point() as point,
        werkzeug_port(Authorization(arrivals.wsgi, point)) as port,
    ):
        different = differences(port, arrivals)
    assert different == {name: (envoy, ours) for name, (envoy, ours, _) in DIFFERENT.items()}


@pytest.fixture(scope="module")
def point() -> Iterator[DecisionPoint]:
    with from_modules({"p.rego": POLICY}) as opened:
        yield opened


def environ_of(path: str = "/open", body: bytes = b"", **more: Any) -> dict[str, Any]:
    environ = {
        "REQUEST_METHOD": "POST" if body else "GET",
        "PATH_INFO": path,
        "RAW_URI": path,
        "SCRIPT_NAME": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "a.example",
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "REMOTE_ADDR": "192.0.2.1",
        **({"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json"} if body else {}),
    }
    return {key: value for key, value in {**environ, **more}.items() if value is not None}


class Run:
    """One call of the middleware: what the application saw, and what the client got."""

    def __init__(
        self, point: DecisionPoint, environ: dict[str, Any], *, derive: bool = False, **options: Any
    ) -> None:
        self.environ: dict[str, Any] = {}
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        app = Authorization(self._app, point, HttpOptions(**options), derive_target=derive)
        self.answer = b"".join(app(environ, self._start))

    def _start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status, self.headers = int(status[:3]), headers

    def _app(self, environ: Any, start_response: Any) -> list[bytes]:
        self.environ = environ
        start_response("200 OK", [("a", "b")])
        return [environ["wsgi.input"].read()]


def test_the_policy_changes_headers_and_clients_cannot_set_them(point: DecisionPoint) -> None:
    given: dict[str, Any] = {
        "HTTP_X_USER": "eve",
        "HTTP_AUTHORIZATION": "x",
        "HTTP_X_FORWARDED_USER": "eve",
    }
    run = Run(point, environ_of("/changed", **given))
    assert run.environ[VERDICT].allowed
    assert run.environ["HTTP_X_USER"] == "ann"
    assert run.environ["HTTP_X_ROLE"] == "a,b"
    assert not {"HTTP_AUTHORIZATION", "HTTP_X_FORWARDED_USER"} & set(run.environ)
    assert run.headers == [("a", "b"), ("x-decided", "yes")]


def test_a_denial_is_the_policys(point: DecisionPoint) -> None:
    run = Run(point, environ_of("/who"))
    assert (run.status, run.answer, run.environ) == (401, b"who?", {})
    assert ("WWW-Authenticate", "Bearer") in run.headers
    assert ("content-length", "4") in run.headers
    assert Run(point, environ_of("/who", REQUEST_METHOD="HEAD")).answer == b""
    assert Run(point, environ_of("/wrong")).status == 403


@pytest.mark.parametrize("target", ["/x/../open", "/twice%2e", "/other"])
def test_each_verdict_is_in_the_environ(point: DecisionPoint, target: str) -> None:
    """Also one of strict mode, whichever part of it refuses the request."""
    environ = environ_of("/open", RAW_URI=target)
    verdict = Authorization(lambda *_: [], point, HttpOptions()).decide(environ)
    assert environ[VERDICT] is verdict
    assert verdict.status == 400


def test_a_body_is_read_by_both(point: DecisionPoint) -> None:
    assert Run(point, environ_of("/body", b'{"a": 1}')).answer == b'{"a": 1}'
    assert Run(point, environ_of("/body", b'{"a": 2}')).status == 403
    assert Run(point, environ_of("/open", b"{}}"), skip_body=True).answer == b"{}}"


@pytest.mark.parametrize("terminated", [False, True])
def test_a_body_over_the_limit_is_cut_for_the_policy_and_whole_for_the_application(
    point: DecisionPoint, terminated: bool
) -> None:
    body = b"x" * 30
    more: dict[str, Any] = {"CONTENT_TYPE": "text/plain"}
    stream = body
    if terminated:
        more |= {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    else:
        stream += b"of the next request"
    more["wsgi.input"] = BytesIO(stream)
    assert Run(point, environ_of("/", body, **more), max_body=12, strict=False).answer == body
    more["wsgi.input"] = BytesIO(stream)
    assert b"body is cut" in Run(point, environ_of("/", body, **more), max_body=12).answer


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"RAW_URI": None}, "does not pass on the path"),
        ({"RAW_URI": "/other"}, "the path differs from RAW_URI, the path that was sent"),
        (
            {"RAW_URI": None, "REQUEST_URI": "//open"},
            "the path differs from REQUEST_URI, the path that was sent",
        ),
        ({"HTTP_HOST": "a,b"}, "more than one host header"),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, "body of undeclared length"),
        ({"RAW_URI": "/open?a=1&A=2"}, "differ only in case"),
    ],
)
def test_strict_mode_refuses_what_it_would_have_to_guess(
    point: DecisionPoint, change: dict[str, Any], reason: str
) -> None:
    run = Run(point, environ_of(**change))
    assert (run.environ, run.status) == ({}, 400)
    assert reason in run.answer.decode()
    assert Run(point, environ_of(**change), strict=False).status in (200, 403)


def test_a_root_path_is_a_part_of_the_path(point: DecisionPoint) -> None:
    below: dict[str, Any] = {"SCRIPT_NAME": "/open", "RAW_URI": "/open/x?a=1"}
    assert Run(point, environ_of("/x", **below)).status == 200
    # Django's FORCE_SCRIPT_NAME names one that the client does not send.
    assert Run(point, environ_of("/x", **below | {"RAW_URI": "/x?a=1"})).status == 200
    assert Run(point, environ_of("/open", **below | {"RAW_URI": "/open"})).status == 200
    shut: dict[str, Any] = {"SCRIPT_NAME": "/shut", "RAW_URI": "/open/x"}
    assert Run(point, environ_of("/open/x", **shut)).status == 403
    # gunicorn cuts off SCRIPT_NAME wherever it ends; Werkzeug puts a slash before the rest.
    cut = Run(point, environ_of("ed", SCRIPT_NAME="/open", RAW_URI="/opened"))
    assert (cut.status, b"ends within a segment" in cut.answer) == (400, True)


def test_no_header_names_the_root_path(point: DecisionPoint) -> None:
    """gunicorn believes SCRIPT_NAME of a proxy, which may pass on what a client sent."""
    given: dict[str, Any] = {
        "SCRIPT_NAME": "/open",
        "HTTP_SCRIPT_NAME": "/open",
        "RAW_URI": "/open/admin",
    }
    for strict in (True, False):
        run = Run(point, environ_of("/admin", **given), strict=strict)
        assert (run.status, b"sets the root path" in run.answer) == (400, True)
    believed = Run(point, environ_of("/admin", **given), stripped=UNTRUSTED - {"script-name"})
    assert believed.status == 200
    ignored = Run(point, environ_of("/open", HTTP_SCRIPT_NAME="/open"))
    assert (ignored.status, "HTTP_SCRIPT_NAME" in ignored.environ) == (200, False)


def test_headers_with_underscores_say_nothing_of_the_body(point: DecisionPoint) -> None:
    given: dict[str, Any] = {
        "CONTENT_TYPE": None,
        "CONTENT_LENGTH": None,
        "HTTP_CONTENT_TYPE": "application/json",
        "HTTP_CONTENT_LENGTH": "8",
    }
    assert Run(point, environ_of("/body", b'{"a": 1}', **given)).status == 403
    run = Run(point, environ_of("/open", b'{"a": 1}', **given))
    assert (run.status, set(given) & set(run.environ)) == (200, set())


@pytest.mark.parametrize("length", ["2, 2", "٣", "²", "-1"])
def test_a_length_that_is_not_a_number_is_refused(point: DecisionPoint, length: str) -> None:
    run = Run(point, environ_of("/open", b"{}", CONTENT_LENGTH=length), strict=False)
    assert (run.status, run.answer) == (400, b"request_ambiguous: content-length is not a number")


def test_a_target_can_be_made_of_what_the_application_sees(point: DecisionPoint) -> None:
    odd = "/open/é b".encode().decode("latin-1")
    run = Run(point, environ_of("/a", SCRIPT_NAME="/open", RAW_URI=None), derive=True)
    assert run.status == 200
    run = Run(point, environ_of(odd, RAW_URI=None, QUERY_STRING="a=1"), derive=True)
    assert run.status == 200
    run = Run(point, environ_of("/open//b", RAW_URI=None), derive=True)
    assert b"empty segment" in run.answer


def test_a_value_that_is_not_ascii_is_utf_8(point: DecisionPoint) -> None:
    policy = (
        'package envoy.authz\nallow if input.attributes.request.http.headers["x-name"] == "é"\n'
    )
    with from_modules({"p.rego": policy}) as named:
        value = "é".encode().decode("latin-1")
        assert Run(named, environ_of("/", HTTP_X_NAME=value)).status == 200
        assert Run(named, environ_of("/", HTTP_X_NAME="\xe9")).status == 403
