"""The endpoints: codes and headers that proxies understand, and options of the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.forward.test_request import FORWARDED, QUESTIONS

from doorward.config.configuration import ConfigError
from doorward.config.schema import read_plain
from doorward.forward.app import ForwardAuth
from doorward.forward.kit import PROXY_FILES, Site, to_files
from doorward.forward.options import Options
from doorward.pdp import DecisionPoint, from_modules

POLICY = """package envoy.authz

http := input.attributes.request.http

default allow := false

allow if http.path == "/open"

allow := {"allowed": true, "headers": {"X-User": "ann", "x-role": ["a", "b"]},
	"request_headers_to_remove": ["x-gone"]} if http.path == "/user"

allow := {"allowed": true, "headers": {"x-other": "1"}} if http.path == "/other"

allow := {"allowed": true, "response_headers_to_add": {"x-user": "1"}} if http.path == "/add"

allow := {"allowed": false, "http_status": 401, "headers": {"www-authenticate": "Bearer"},
	"body": "who?"} if http.path == "/who"

allow := {"allowed": false, "http_status": 200} if http.path == "/denied-with-200"

allow := {"allowed": false, "http_status": 429} if http.path == "/busy"

allow if input.parsed_body.a == 1
"""
COPIED = ("x-user", "x-role", "x-gone")


@pytest.fixture(scope="module")
def point() -> Iterator[DecisionPoint]:
    with from_modules({"p.rego": POLICY}) as opened:
        yield opened


def ask(
    point: DecisionPoint,
    target: str = "/open",
    endpoint: str = "/auth/traefik",
    method: str = "GET",
    body: bytes = b"",
    copied: tuple[str, ...] = COPIED,
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    name = endpoint.split("/")[2]
    question = {**QUESTIONS.get(name, FORWARDED)}
    for key in ("x-forwarded-uri", "x-original-uri"):
        if key in question:
            question[key] = target
    question |= {key.replace("_", "-"): value for key, value in headers.items()}
    path, _, query = endpoint.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(key.encode(), value.encode()) for key, value in question.items()],
    }
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    app = ForwardAuth(point.pdp, Options(response_headers=copied))
    asyncio.run(app(scope, receive, send))
    given = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return sent[0]["status"], given, sent[1]["body"]


def test_what_is_allowed_is_200_with_every_header_that_proxies_copy(point: DecisionPoint) -> None:
    empty = {"x-user": "", "x-role": "", "x-gone": "", "content-length": "0"}
    assert ask(point) == (200, empty, b"")
    assert ask(point, "/user") == (200, {**empty, "x-user": "ann", "x-role": "a,b"}, b"")
    assert ask(point, endpoint="/auth/envoy/open")[0] == 200
    assert ask(point, endpoint="/auth/nginx")[0] == 200


def test_headers_are_set_as_oauth2_proxy_sets_them() -> None:
    names = ("x-auth-request-user", "x-auth-request-email", "x-auth-request-groups")
    policy = """package envoy.authz

allow := {"allowed": true, "headers": {
	"x-auth-request-user": "ann",
	"x-auth-request-groups": concat(",", ["staff", "admins"]),
}} if input.attributes.request.http.path == "/open"
"""
    with from_modules({"p.rego": policy}) as point:
        status, headers, _ = ask(point, copied=names)
        assert status == 200
        assert [headers[name] for name in names] == ["ann", "", "staff,admins"]
        for name in names:
            forged: Any = {name.replace("-", "_"): "root"}
            assert ask(point, copied=names, **forged)[0] == 400


@pytest.mark.parametrize("path", ["/other", "/add", "/elsewhere", "/denied-with-200"])
def test_what_a_proxy_cannot_do_is_denied(point: DecisionPoint, path: str) -> None:
    assert ask(point, path)[0] == 403


def test_denials_are_the_policys_where_the_proxy_hands_them_on(point: DecisionPoint) -> None:
    status, headers, body = ask(point, "/who")
    assert (status, headers["www-authenticate"], body) == (401, "Bearer", b"who?")
    assert ask(point, "/busy")[0] == 429
    assert ask(point, "/who", "/auth/nginx")[0] == 401
    assert ask(point, "/busy", "/auth/nginx")[0] == 403
    assert ask(point, "/a//b")[0] == 400
    assert ask(point, "/a//b", "/auth/nginx")[0] == 403
    assert ask(point, "/who", method="HEAD")[2] == b""


def test_other_paths_and_odd_questions_are_refused(point: DecisionPoint) -> None:
    assert ask(point, endpoint="/auth/other")[0] == 404
    assert ask(point, x_original_url="/open")[0] == 400
    assert ask(point, x_forwarded_proto="")[0] == 400


def test_bodies_that_proxies_send_are_read(point: DecisionPoint) -> None:
    json: Any = {"content_type": "application/json", "content_length": "8"}
    post: Any = {"x_forwarded_method": "POST", **json}
    assert ask(point, "/body", body=b'{"a": 1}', **post)[0] == 200
    assert ask(point, "/body", body=b'{"a": 2}', **post)[0] == 403
    assert ask(point, "/body", body=b'{"a": 1' + b" " * 9000 + b"}", **post)[0] == 400


def test_a_fault_is_a_denial(point: DecisionPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("doorward.forward.app.read_question", fail)
    assert ask(point)[0] == 403


def test_options_come_from_the_configuration() -> None:
    options, unknown = read_plain(
        Options,
        {
            "addr": "unix:///run/doorward.sock",
            "path": "a/b",
            "strict": False,
            "secret": "s" * 16,
            "response-headers": ["x-user"],
            "max-body-size": 100,
            "skip-request-body-parse": True,
            "other": 1,
        },
    )
    expected = Options("unix:///run/doorward.sock", "a/b", False, "s" * 16, ("x-user",), 100, True)
    assert (options, unknown) == (expected, ("other: unknown key, ignored",))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("addr", ""),
        ("strict", "yes"),
        ("secret", "short"),
        ("secret", "with\nbreaks and more"),
        ("response-headers", "x-user"),
        ("response-headers", ["X-User"]),
        ("max-body-size", 0),
        ("max-body-size", True),
    ],
)
def test_a_wrong_option_is_named(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"^{key} must "):
        read_plain(Options, {key: value})


@pytest.mark.parametrize(
    "wrong",
    [
        {"listen": "127.0.0.1"},
        {"upstream": "a b:1"},
        {"pdp": "x:1;}"},
        {"secret": "short"},
        {"secret": 'quote"quote"quote"'},
        {"response_headers": ("X-User",)},
    ],
)
def test_what_a_configuration_cannot_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|not "):
        Site(**wrong)


@pytest.mark.parametrize("name", PROXY_FILES)
def test_the_files_without_a_secret_still_take_away_what_is_forged(name: str) -> None:
    text = "".join(to_files(name, Site()).values()).lower()
    for header in ("x-forwarded-user", "x-rewrite-url", "x-doorward-secret"):
        assert header in text
