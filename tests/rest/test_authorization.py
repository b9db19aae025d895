"""The system policy stands before every endpoint, and what it cannot decide is refused.

What OPA answers stands in the recorded rows (`test_golden.py`).
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from starlette.requests import Request
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config, Server
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.authorization import Access, authorize, path_of
from doorward.rest.requests import parameters
from doorward.rest.routes import ROUTES
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = """package system.authz

default allow := false

allow if input.identity == "secret"

allow if { input.path == ["v1", "data", "public"]; input.body.input.ok }
"""
TARGETS = [
    ("GET", "/"),
    ("POST", "/"),
    ("GET", "/v1/data"),
    ("POST", "/v1/data/public/x"),
    ("PUT", "/v1/data/x"),
    ("PATCH", "/v1/data/x"),
    ("DELETE", "/v1/data/x"),
    ("POST", "/v0/data/x"),
    ("POST", "/v1/batch/data/public"),
    ("GET", "/v1/policies"),
    ("PUT", "/v1/policies/x"),
    ("POST", "/v1/query"),
    ("GET", "/v1/config"),
    ("GET", "/v1/status"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("POST", "/access/v1/evaluation"),
    ("GET", "/.well-known/authzen-configuration"),
    ("GET", "/v1//data"),
    ("GET", "/nothing"),
]


def api(policy: str = POLICY, *, diagnostic: bool = False, **server: object) -> Api:
    pdp = PDP(build(Loaded({"authz.rego": policy, "p.rego": "package public\n\nx := input\n"})))
    config = Config(server=Server(**server))  # type: ignore[arg-type]
    access = Access("token", authorizes=True)
    return Api(pdp, config, Health(), Metrics("1"), access=access, diagnostic=diagnostic)


def refused(answer: Answer) -> bool:
    return answer.status == 401 and json.loads(answer.body)["code"] == "unauthorized"


@pytest.mark.parametrize(("method", "target"), TARGETS)
def test_every_endpoint_is_behind_the_policy(method: str, target: str) -> None:
    for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "secret"}):
        assert refused(ask(api(), method, target, b"{}", headers))
    assert not refused(ask(api(), method, target, b"{}", {"authorization": "Bearer secret"}))


def test_the_diagnostic_listener_is_behind_it_as_well() -> None:
    for target in ("/health", "/metrics"):
        assert refused(ask(api(diagnostic=True), "GET", target))


def test_nothing_passes_by_the_policy_on_the_short_path() -> None:
    loop = asyncio.new_event_loop()
    assert api().short_path(loop) is None
    loop.close()


def test_a_body_that_the_policy_has_seen_is_decided() -> None:
    for body in (b'{"input": {"ok": true}}', [b'{"input": {"o', b'k": true}}']):
        answer = ask(api(), "POST", "/v1/data/public", body)
        assert answer.body == '{"result":{"x":{"ok":true}}}\n'
    assert refused(ask(api(), "POST", "/v1/data/public", b'{"input": {"ok": false}}'))


@pytest.mark.parametrize("body", [b"{", b'{"input": '])
def test_a_body_that_cannot_be_read_is_refused(body: bytes) -> None:
    answer = ask(api(), "POST", "/v1/data/public", body)
    assert answer.status == 400


def test_a_body_that_is_too_large_is_refused_before_the_policy_is_asked() -> None:
    assert ask(api(max_length=10), "POST", "/v1/data/public", b"x" * 11).status == 400


def test_two_tokens_are_none() -> None:
    scope_headers = [(b"authorization", b"Bearer secret"), (b"authorization", b"Bearer other")]
    assert refused(ask(api(), "GET", "/v1/data", b"", scope_headers))


def test_the_policy_sees_each_value_of_a_header_and_who_the_configuration_says_that_it_is() -> None:
    policy = """package system.authz

default allow := false

allow if { input.headers["X-Role"] == ["a", "b"]; not input.identity }
"""
    access = Access("off", authorizes=True)
    pdp = PDP(build(Loaded({"authz.rego": policy})))
    app = Api(pdp, Config(), Health(), Metrics("1"), access=access)
    roles = [(b"x-role", b"a"), (b"x-role", b"b")]
    token = [(b"authorization", b"Bearer secret")]
    assert ask(app, "GET", "/v1/data", b"", roles).status == 200
    # Without `authentication: token` a bearer token is a header like any other.
    assert ask(app, "GET", "/v1/data", b"", [*roles, *token]).status == 200
    assert refused(ask(app, "GET", "/v1/data", b"", roles[:1]))


@pytest.mark.parametrize("authentication", ["off", "token", "tls"])
def test_a_certificate_is_who_asks_with_tls_only(authentication: Any) -> None:
    policy = """package system.authz

allow if {
	input.identity == "CN=ann"
	input.client_certificates[0].Subject.CommonName == "ann"
}
"""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ann")])
    now = datetime.now(tz=UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM).decode()
    scope = {
        "type": "http", "method": "GET", "path": "/v1/data", "headers": [], "query_string": b"",
        "extensions": {"tls": {"client_cert_chain": [pem]}},
    }  # fmt: skip
    pdp = PDP(build(Loaded({"authz.rego": policy})))
    access = Access(authentication, authorizes=True)
    request = Request(scope)
    answer = authorize(pdp, "system/authz/allow", access, request, parameters(b""), None)
    assert (answer is None) == (authentication == "tls")
    request = Request(scope | {"extensions": {"tls": {"client_cert_chain": []}}})
    assert authorize(pdp, "system/authz/allow", access, request, parameters(b""), None) is not None


@pytest.mark.parametrize(
    ("policy", "status", "message"),
    [
        ("package other\n", 500, "authorization policy missing or undefined"),
        (
            "package system.authz\n\nallow := true\n\nallow := false\n",
            500,
            "complete rules must not produce multiple outputs",
        ),
        ('package system.authz\n\nallow := "yes"\n', 401, "request rejected"),
        ('package system.authz\n\nallow := {"allowed": "true"}\n', 401, "request rejected"),
        ('package system.authz\n\nallow := {"allow": true}\n', 500, "document missing"),
    ],
)
def test_a_policy_that_does_not_decide_lets_nothing_through(
    policy: str, status: int, message: str
) -> None:
    answer = ask(api(policy), "GET", "/v1/data")
    assert answer.status == status
    assert message in answer.body


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/data/a/b", ["v1", "data", "a", "b"]),
        (b"/v1/data/a%2Fb", ["v1", "data", "a/b"]),
        (b"/v1/data/%2570", ["v1", "data", "%70"]),
        (b"/v1%2fdata/a", ["v1/data", "a"]),
        (b"/v0/data/a%2fb/c", ["v0", "data", "a/b", "c"]),
        (b"/v1/batch/data/a%2fb", ["v1", "batch", "data", "a/b"]),
        (b"/health/a%2Fb", ["health", "a/b"]),
        # An id is one text, and the path of a filter is put together.
        (b"/v1/policies/a%2Fb", ["v1", "policies", "a", "b"]),
        (b"/v1/compile/a%2F%2Fb", ["v1", "compile", "a", "b"]),
        (b"/", [""]),
        (b"*", ["*"]),
    ],
)
def test_the_policy_sees_the_path_that_is_taken(target: bytes, path: list[str]) -> None:
    assert path_of(target) == path


def test_each_endpoint_with_an_open_path_takes_its_segments_as_the_policy_sees_them() -> None:
    opened = {path for row in ROUTES.rows for path in row.paths if "{" in path}
    # Those of `path_of`; and of the console and of metadata nothing is read by an encoded slash.
    assert {path.partition("{")[0] for path in opened} == {
        "/.well-known/authzen-configuration/",
        "/console/",
        "/health/",
        "/v0/data/",
        "/v1/batch/data/",
        "/v1/compile/",
        "/v1/data/",
        "/v1/policies/",
        "/v1/query/",
    }


def test_a_document_whose_name_has_a_slash_is_not_the_one_that_is_allowed() -> None:
    policy = BY_PATH.replace(
        'input.path == ["v1", "data", "public"]',
        'array.slice(input.path, 0, 3) == ["v1", "data", "public"]',
    )
    pdp = PDP(build(Loaded({"authz.rego": policy}, {"public/x": "hunter2", "public": {"x": 1}})))
    app = Api(pdp, Config(), Health(), Metrics("1"), access=Access("off", authorizes=True))
    answers = [ask(app, "GET", f"/v1/data/public{slash}x", b"") for slash in ("/", "%2F", "%252F")]
    assert [answer.status for answer in answers] == [200, 401, 401]


BY_PATH = """package system.authz

default allow := false

allow if input.path == ["v1", "data", "public"]

allow if input.path == ["health"]
"""
PRIVATE = {
    "authz.rego": BY_PATH,
    "public.rego": "package public\n\nx := 1\n",
    "private.rego": 'package private\n\ny := "hunter2"\n',
    "main.rego": 'package system\n\nmain := "hunter2"\n',
}
SPELLINGS = [
    *("/v1/data/private/y", "//v1/data/private/y", "/v1//data/private/y", "/v1/data/private/y/"),
    *("/v1/data/public/../private/y", "/v1/data/public/%2e%2e/private/y", "/v1/data/%70rivate/y"),
    *("/v1/data/public/..%2fprivate/y", "/v1/data/public%2f..%2fprivate/y", "/V1/Data/private/y"),
    *("/v1/data", "/v1/data/", "/", "", "*", "/v0/data/private/y", "/v1/query?q=data.private.y"),
    *("/v1/compile", "/v1/compile/private/y", "/v1/batch/data/private/y", "/v1/batch/data"),
    *("/access/v1/evaluation", "/v1/policies", "/v1/policies/private.rego", "/v1/config"),
    *("/health/../v1/data/private/y", "http://x/v1/data/private/y", "//public/v1/data/private/y"),
    *("/v1/data/public/", "/v1/data/public//x", "/v1/data//public", "/v1/./data/public"),
]


@pytest.mark.parametrize("target", SPELLINGS)
def test_no_spelling_of_a_path_gets_by_the_policy(target: str) -> None:
    pdp = PDP(build(Loaded(PRIVATE, {"base": "hunter2"})))
    access = Access("off", authorizes=True)
    app = Api(pdp, Config(default_decision="private/y"), Health(), Metrics("1"), access=access)
    body = b'{"input": {}, "inputs": {"a": {}}, "query": "data.private.y"}'
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "get", "X"):
        answer = ask(app, method, target, body if method in ("POST", "PUT", "PATCH") else b"")
        assert answer.status in (301, 307, 401), method
        assert "hunter2" not in answer.body
