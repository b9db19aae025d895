"""Which requests the console answers without a session, and which session a request has.

The console and its decision point are in this process; those of `test_sessions.py` are not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from tests.console.test_oidc import CLIENT, ISSUER, Fake, parts

from doorward.bundles.loader import Loaded
from doorward.config.configuration import Config
from doorward.config.identity_options import Issuer
from doorward.console import app
from doorward.console.app import Console, is_host_allowed
from doorward.console.oidc import COOKIE as OIDC_COOKIE
from doorward.console.oidc import OidcError, OidcLogin
from doorward.console.process import Process
from doorward.console.ring import Ring
from doorward.console.sessions import COOKIE, LONGEST
from doorward.console.slots import Slots
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rest.app import Api
from doorward.rest.authorization import Access
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = """package system.authz

default allow := false

allow if input.identity == "let-me-in"

allow if startswith(input.identity, "ey")
"""
ORIGIN = "http://localhost"
OWN = {"origin": ORIGIN}
LOCATION = "/console/login"


class Site:
    """A decision point whose diagnostic listener wants a token, and what browsers ask it."""

    def __init__(self) -> None:
        health = Health()
        pdp = PDP(build(Loaded({"authz.rego": POLICY})))
        self.console = Console(Process(pdp, Ring(), health))
        self.console.check = lambda token: token == "let-me-in" or token.startswith("ey")
        self.issuer = Fake()
        self.console.issuers = {"main": self.issuer.login()}
        access = Access(authentication="token", authorizes=True)
        self.api = Api(
            pdp,
            Config(),
            health,
            Metrics("test"),
            access=access,
            diagnostic=True,
            console=self.console.answer,
            login=self.console,
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        cookies: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.api)
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                client.cookies.update(cookies or {})
                return await client.request(method, path, json=body, headers=headers)

        return asyncio.run(ask())

    def log_in(self, token: Any = "let-me-in", **headers: str) -> httpx.Response:
        return self.ask("POST", "/console/api/login", {"token": token}, headers=OWN | headers)

    def session(self) -> dict[str, str]:
        answer = self.log_in()
        assert answer.status_code == 200
        return {COOKIE: answer.cookies[COOKIE]}


@pytest.fixture
def site() -> Site:
    return Site()


PATHS = [
    ("GET", "/console/login", 200),
    ("POST", "/console/login", 401),
    ("GET", "/console/api/login", 200),
    ("PUT", "/console/api/login", 401),
    ("GET", "/console/static/nothing", 404),
    ("POST", "/console/static/nothing", 401),
    ("GET", "/console/static/a/b", 401),
    ("GET", "/console/static", 401),
    ("GET", "/console/oidc/none", 401),
    ("GET", "/console/oidc/main/callback", 400),
    ("GET", "/console/oidc/main/other", 401),
    ("GET", "/console/oidc/none/callback", 401),
    ("POST", "/console/oidc/main", 401),
    ("GET", "/console/oidc", 401),
    ("GET", "/console", 303),
    ("GET", "/console/decisions", 303),
    ("GET", "/console/help", 303),
    ("GET", "/console/help/a/b.html", 303),
    ("POST", "/console/decisions", 401),
    ("GET", "/console/decisions/x", 401),
    ("GET", "/console/nowhere", 401),
    ("GET", "/console/api", 401),
    ("GET", "/console/api/session", 401),
    ("GET", "/console/api/state", 401),
    ("GET", "/console/api/files", 401),
    ("POST", "/console/api/logout", 401),
    ("POST", "/console/api/playground/evaluate", 401),
    ("GET", "/v1/data", 401),
    ("GET", "/metrics", 401),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "status"), PATHS)
def test_without_a_session_there_is_the_login_alone(
    site: Site, method: str, path: str, status: int
) -> None:
    answer = site.ask(method, path, {} if method == "POST" else None, headers=OWN)
    assert answer.status_code == status
    assert COOKIE not in answer.cookies


def test_nothing_is_open_where_browsers_need_no_session(site: Site) -> None:
    site.console.check = None
    for method, path, _ in PATHS:
        names = tuple(path.split("/")[2:])
        assert not site.console.is_open(method, names)
        assert not site.console.is_page(method, names)
    assert site.ask("GET", "/console/login").status_code == 401


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/console", LOCATION),
        ("/console/", LOCATION),
        ("/console?a=b", f"{LOCATION}?next=%2Fconsole%3Fa%3Db"),
        ("/console/log?text=a+b", f"{LOCATION}?next=%2Fconsole%2Flog%3Ftext%3Da%2Bb"),
        ("/console/log?" + "a" * 1_987, f"{LOCATION}?next=%2Fconsole%2Flog%3F{'a' * 1_987}"),
        ("/console/log?" + "a" * 1_988, LOCATION),
    ],
)
def test_a_login_knows_the_page_that_was_wanted(site: Site, path: str, location: str) -> None:
    answer = site.ask("GET", path)
    assert (answer.status_code, answer.headers["location"]) == (303, location)


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        ("wrong", {}, 403),
        ("", {}, 400),
        (7, {}, 400),
        (None, {}, 400),
        ("ey" + "x" * (LONGEST - 2), {}, 200),
        ("ey" + "x" * (LONGEST - 1), {}, 400),
        ("let-me-in", {"origin": "http://evil.example"}, 403),
        ("let-me-in", {"origin": "https://localhost"}, 403),
        ("let-me-in", {"origin": ""}, 403),
        ("let-me-in", {"origin": f"http://localhost.{'a' * 1_000}"}, 403),
        ("let-me-in", {"origin": "https://console.example"}, 200),
        ("let-me-in", {"content-type": "text/plain"}, 415),
    ],
)
def test_a_session_begins_for_a_token_that_may_open_the_console(
    site: Site, token: Any, headers: dict[str, str], status: int
) -> None:
    answer = site.log_in(token, **headers)
    assert answer.status_code == status
    assert (COOKIE in answer.cookies) is (status == 200)


@pytest.mark.parametrize("body", [[], "x", None, 1])
def test_a_login_is_an_object(site: Site, body: Any) -> None:
    answer = site.ask("POST", "/console/api/login", body, headers=OWN)
    assert answer.status_code in (400, 415)


def test_a_session_is_for_this_console_and_ends_with_a_logout(site: Site) -> None:
    cookies = site.session()
    assert site.ask("GET", "/console/api/state", cookies=cookies).status_code == 200
    assert site.ask("GET", "/console", cookies=cookies).status_code == 200
    assert site.ask("GET", "/console/api/session", cookies=cookies).json() == {"login": True}
    assert site.ask("GET", "/metrics", cookies=cookies).status_code == 401
    assert site.ask("GET", "/v1/data", cookies=cookies).status_code == 401
    for other in ({COOKIE: ""}, {COOKIE: "x" * 43}, {COOKIE: "x" * 300}, {"other": "x"}):
        assert site.ask("GET", "/console/api/state", cookies=other).status_code == 401
    logout = site.ask("POST", "/console/api/logout", {}, cookies=cookies, headers=OWN)
    assert logout.status_code == 200
    assert "max-age=0" in logout.headers["set-cookie"].lower()
    assert site.ask("GET", "/console/api/state", cookies=cookies).status_code == 401


@pytest.mark.parametrize("headers", [{}, {"origin": "http://evil.example"}, {"origin": "null"}])
def test_a_session_changes_nothing_for_another_site(site: Site, headers: dict[str, str]) -> None:
    cookies = site.session()
    for path in ("playground/evaluate", "logout", "tests"):
        answer = site.ask("POST", f"/console/api/{path}", {}, cookies=cookies, headers=headers)
        assert answer.status_code == 401
    # One who shows a token may ask from anywhere, but ends no session of a browser.
    bearer = {"authorization": "Bearer let-me-in", **headers}
    refused = site.ask("POST", "/console/api/logout", {}, cookies=cookies, headers=bearer)
    assert refused.status_code == 403
    assert site.ask("GET", "/console/api/state", cookies=cookies).status_code == 200


def test_what_the_policy_no_longer_allows_a_session_may_not(site: Site) -> None:
    cookies = site.session()
    site.console._process.pdp.replace(  # type: ignore[union-attr]
        build(Loaded({"authz.rego": POLICY.replace("let-me-in", "another")}))
    )
    assert site.ask("GET", "/console/api/state", cookies=cookies).status_code == 401


class OtherWorkers:
    """Workers that know sessions by their digests."""

    number, count = 0, 2

    def __init__(self) -> None:
        self.questions: list[Mapping[str, Any]] = []
        self.token: str | None = "let-me-in"

    async def ask(self, question: Mapping[str, Any], within: float) -> dict[int, Any]:
        self.questions.append(question)
        return {1: None}

    async def ask_who_knows(
        self, question: Mapping[str, Any], within: float
    ) -> tuple[str | None, bool]:
        self.questions.append(question)
        return self.token, True


def test_a_session_of_another_worker_is_asked_for(site: Site) -> None:
    workers: Any = OtherWorkers()
    site.console._peers = workers
    cookies = {COOKIE: "x" * 43}
    assert site.ask("GET", "/console/static/x", cookies=cookies).status_code == 404
    assert workers.questions == []
    assert site.ask("GET", "/console/nowhere", cookies=cookies).status_code == 404
    (question,) = workers.questions
    assert question["about"] == "session"
    assert "x" * 43 not in json.dumps(question)
    workers.token = None
    assert site.ask("GET", "/console/nowhere", cookies=cookies).status_code == 401


def at_issuer(site: Site) -> tuple[dict[str, str], dict[str, str]]:
    """The parameters with which the issuer sends a browser back, and the browser's cookies."""
    begun = site.ask("GET", "/console/oidc/main")
    assert begun.status_code == 303
    cookie = begun.headers["set-cookie"].lower()
    assert {"httponly", "secure", "samesite=lax", "path=/console/oidc"} <= set(cookie.split("; "))
    wanted = parts(begun.headers["location"])
    token = site.issuer.id_token(nonce=wanted["nonce"])
    site.issuer.token = lambda form: {"id_token": token}
    value = begun.headers["set-cookie"].partition("=")[2].partition(";")[0]
    return {"state": wanted["state"], "code": "c"}, {OIDC_COOKIE: value}


CALLBACK = "/console/oidc/main/callback"


def query(parameters: Mapping[str, str]) -> str:
    return f"{CALLBACK}?{httpx.QueryParams(parameters)}"


def test_whom_an_issuer_sends_back_has_a_session(site: Site) -> None:
    parameters, cookies = at_issuer(site)
    answer = site.ask("GET", query(parameters), cookies=cookies)
    assert answer.status_code == 200
    ended, begun = answer.headers.get_list("set-cookie")
    assert ended.startswith(f'{OIDC_COOKIE}=""')
    assert "secure" in begun.lower()
    session = {COOKIE: begun.partition("=")[2].partition(";")[0]}
    assert site.ask("GET", "/console/api/state", cookies=session).status_code == 200


@pytest.mark.parametrize("case", ["twice", "no cookie", "no state", "refused", "error"])
def test_whom_the_issuer_or_the_policy_refuses_has_none(site: Site, case: str) -> None:
    parameters, cookies = at_issuer(site)
    address = query(parameters)
    match case:
        case "twice":
            address += "&code=d"
        case "no cookie":
            cookies = {}
        case "no state":
            address = query({"code": "c"})
        case "refused":
            site.console.check = lambda _token: False
        case "error":
            address = query({"state": parameters["state"], "error": "access_denied"})
    answer = site.ask("GET", address, cookies=cookies)
    assert answer.status_code == (403 if case == "refused" else 400)
    assert COOKIE not in answer.cookies


def test_an_issuer_that_does_not_answer_is_said(site: Site) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    transport = httpx.MockTransport(refuse)
    login = OidcLogin(
        "main", Issuer(ISSUER), CLIENT, lambda: site.issuer.engine, transport=transport
    )
    site.console.issuers = {"main": login}
    answer = site.ask("GET", "/console/oidc/main")
    assert answer.status_code == 502
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "search?before=1.2.3&limit=2&group=", None, 200),
        ("GET", "search?before=1.2", None, 400),
        ("GET", "search?before=1.2.3.4", None, 400),
        ("GET", "search?before=x.2.3", None, 400),
        ("GET", "search?limit=x", None, 400),
        ("GET", "search?group=password", None, 400),
        ("GET", "search?nothing=1", None, 400),
        ("GET", "decisions/none", None, 404),
        ("POST", "decisions/none/change", {}, 404),
        ("POST", "compare", {"revision": 7}, 400),
        ("POST", "compare", {"revision": "none"}, 404),
        ("GET", "versions", None, 200),
        ("GET", "nothing", None, 404),
        ("DELETE", "session", None, 405),
    ],
)
def test_what_means_nothing_is_refused(
    site: Site, method: str, path: str, body: Any, status: int
) -> None:
    answer = site.ask(method, f"/console/api/{path}", body, cookies=site.session(), headers=OWN)
    assert answer.status_code == status


def test_a_playground_alone_has_no_decisions() -> None:
    console = Console()

    async def ask(path: tuple[str, ...]) -> int:
        headers = [(b"host", b"localhost")]
        request = Request(
            {"type": "http", "method": "GET", "headers": headers, "query_string": b""}
        )
        return (await console.answer(request, path)).status_code

    def status(*path: str) -> int:
        return asyncio.run(ask(path))

    assert status() == 200
    assert status("api", "session") == 200
    assert [status("api", name) for name in ("versions", "revisions", "policies")] == [404] * 3
    assert status("api", "decisions") == 503
    # Without a check there is no login.
    assert status("api", "login") == 404
    assert status("oidc", "main") == 404


def test_a_body_has_a_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY", 100)
    cookies = site.session()

    def status(size: int) -> int:
        body = {"files": {}, "query": "1" * size}
        size = len(json.dumps(body, separators=(",", ":")))
        answer = site.ask(
            "POST", "/console/api/playground/evaluate", body, cookies=cookies, headers=OWN
        )
        return answer.status_code if size > 100 else -answer.status_code

    assert (status(10), status(100)) == (-200, 413)


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost", True),
        ("localhost:1", True),
        ("console", True),
        ("10.0.0.1:80", True),
        ("[::1]", True),
        ("[::1]:80", True),
        ("console.example", True),
        ("CONSOLE.example:80", True),
        ("evil.example", False),
        ("evil.example:80", False),
        ("console.example.evil", False),
        ("10.0.0.1.evil", False),
        ("", False),
        (":80", False),
        ("a:b:c", False),
    ],
)
def test_host_names_that_the_console_has(site: Site, host: str, is_allowed: bool) -> None:
    names = frozenset({"console.example"})
    assert is_host_allowed(host, names) is is_allowed
    site.console._hosts = names
    answer = site.ask("GET", "/console/login", headers={"host": host})
    assert answer.status_code == (200 if is_allowed else 403)


def test_only_so_many_wait_for_an_issuer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.console, "_login_slots", Slots(0))
    with pytest.raises(OidcError, match="too many"):
        asyncio.run(site.console._run_at_issuer(lambda: None))
    assert site.ask("GET", "/console/oidc/main").status_code == 502


def test_a_console_that_was_not_built_says_so(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doorward.console.pages.STATIC", tmp_path / "none")
    page = site.ask("GET", "/console/login")
    assert (page.status_code, "was not built" in page.text) == (503, True)
    assert site.ask("GET", "/console/static/console.js").status_code == 404
