"""A browser logs in by a token, once, and is let in as the policy lets the token in."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect
from starlette.requests import Request
from starlette.responses import Response
from tests.browser import CHROMIUM, chromium, close_page, new_page
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.console import is_built, sessions
from doorward.console.sessions import COOKIE, Sessions, digest_of

AXE = Path(__file__).parents[2] / "console/node_modules/axe-core/axe.min.js"
POLICY = """package system.authz

default allow := false

allow if input.identity in data.tokens

allow if input.path[0] == "health"
"""


def test_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    kept = Sessions(clock=lambda: now[0])
    name = kept.begin("token")
    assert kept.token(digest_of(name)) == "token"
    assert kept.token(name) is None  # it is kept by its digest
    now[0] = sessions.SECONDS
    assert kept.token(digest_of(name)) is None
    monkeypatch.setattr(sessions, "MOST", 2)
    first, *_, last = (kept.begin(str(number)) for number in range(3))
    assert (kept.token(digest_of(first)), kept.token(digest_of(last))) == (None, "2")
    kept.end(digest_of(last))
    assert kept.token(digest_of(last)) is None


@pytest.mark.parametrize(
    ("origin", "scheme", "is_secure"),
    [
        ("", "http", False),
        ("http://a", "http", False),
        ("https://a", "http", True),
        ("", "https", True),
    ],
)
def test_a_cookie_of_a_browser_over_tls_stays_there(
    origin: str, scheme: str, is_secure: bool
) -> None:
    headers = [(b"origin", origin.encode()), (b"host", b"a")]
    request = Request({"type": "http", "scheme": scheme, "headers": headers, "path": "/"})
    answer = sessions.set_cookie(Response(), request, "name")
    assert ("secure" in answer.headers["set-cookie"].lower()) is is_secure


class Server:
    """A decision point of two workers whose diagnostic listener wants a token."""

    def __init__(self, folder: Path) -> None:
        (folder / "authz.rego").write_text(POLICY)
        (folder / "data.json").write_text('{"tokens": ["let-me-in", "<b>odd</b>"]}')
        main, self.port = free_port(), free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "doorward", "run", "--server", "--console", "--workers=2"]
        command += ["--authentication=token", "--authorization=basic", "--log-level=error"]
        command += [f"--addr=127.0.0.1:{main}", f"--diagnostic-addr=127.0.0.1:{self.port}"]
        self.process = subprocess.Popen([*command, str(folder)], stderr=subprocess.DEVNULL)
        wait_until(self.is_up)

    def is_up(self) -> bool:
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
        """Status, headers and text of an answer, on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = None if body is None else json.dumps(body)
        if sent is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def log_in(self, token: str, **headers: str) -> tuple[int, str]:
        """Status, and the cookie with its attributes."""
        body = {"token": token}
        headers = {"Origin": self.origin, **headers}
        status, answered, _ = self.ask("POST", "/console/api/login", body, **headers)
        return status, answered.get("Set-Cookie", "")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("login"))
    yield server
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(PATIENCE)


def test_a_session_is_valid_for_all_workers_until_it_ends(server: Server) -> None:
    status, cookie = server.log_in("let-me-in")
    assert status == 200
    assert cookie.lower().count("httponly") == 1
    assert "samesite=strict" in cookie.lower()
    assert "Path=/console" in cookie
    assert "let-me-in" not in cookie
    name = cookie.partition(";")[0]
    for _ in range(8):
        assert server.ask("GET", "/console/api/state", Cookie=name)[0] == 200
    # It is for the console alone.
    assert server.ask("GET", "/metrics", Cookie=name)[0] == 401
    headers = {"Origin": server.origin, "Cookie": name}
    assert server.ask("POST", "/console/api/logout", {}, **headers)[0] == 200
    for _ in range(8):
        assert server.ask("GET", "/console/api/state", Cookie=name)[0] == 401


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        ("wrong", {}, 403),
        ("", {}, 400),
        ("x" * 20_000, {}, 400),
        ("let-me-in", {"Origin": "http://evil.example"}, 403),
        ("let-me-in", {"Origin": ""}, 403),
        ("let-me-in", {"Origin": "null"}, 403),
        ("let-me-in", {"Host": "evil.example", "Origin": "http://evil.example"}, 403),
    ],
)
def test_who_may_not_log_in_gets_no_session(
    token: str, headers: dict[str, str], status: int, server: Server
) -> None:
    assert server.log_in(token, **headers) == (status, "")


def test_a_session_changes_nothing_for_another_site(server: Server) -> None:
    name = server.log_in("let-me-in")[1].partition(";")[0]
    path, body = "/console/api/playground/evaluate", {"files": {}, "query": "1"}
    own = {"Cookie": name, "Origin": server.origin}
    assert server.ask("POST", path, body, **own)[0] == 200
    for origin in ({}, {"Origin": "http://evil.example"}):
        assert server.ask("POST", path, body, Cookie=name, **origin)[0] == 401
        assert server.ask("POST", "/console/api/logout", {}, Cookie=name, **origin)[0] == 401


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/console", 303),
        ("/console/decisions", 303),
        ("/console/help/index.html", 303),
        ("/console/login", 200),
        ("/console/static/console.js", 200),
        ("/console/static/../api/state", 401),
        ("/console/static/%2e%2e/api/state", 401),
        ("/console/api/state", 401),
        ("/console/api/login", 200),  # the names of the issuers
        ("/console/login/x", 401),
        ("/v1/data", 401),
    ],
)
@pytest.mark.parametrize("cookie", ["", f"{COOKIE}=", f"{COOKIE}={'x' * 43}"])
def test_without_a_session_there_is_the_login_only(
    path: str, status: int, cookie: str, server: Server
) -> None:
    answered, headers, text = server.ask("GET", path, Cookie=cookie)
    assert answered == status
    if status == 303:
        wanted = "" if path == "/console" else f"?next={quote(path, safe='')}"
        assert headers["Location"] == f"/console/login{wanted}"
    assert "revision" not in text or path.endswith(".js")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.mark.skipif(CHROMIUM is None or not is_built(), reason="no Chromium, or no pages")
def test_a_person_logs_in_and_out(browser: Browser, server: Server) -> None:
    page = new_page(browser, bypass_csp=True)
    page.goto(f"{server.origin}/console/policies")
    expect(page).to_have_url(f"{server.origin}/console/login?next=%2Fconsole%2Fpolicies")
    expect(page).to_have_title("Log in – Doorward")
    expect(page.get_by_label("Token")).to_be_focused()
    page.add_script_tag(path=AXE)
    assert page.evaluate("axe.run()")["violations"] == []
    page.get_by_label("Token").fill("<b>wrong</b>")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("does not allow this token")
    page.get_by_label("Token").fill("<b>odd</b>")
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{server.origin}/console/policies")
    for width in (900, 1024, 1130):
        page.set_viewport_size({"width": width, "height": 700})
        expect(page.get_by_role("button", name="Log out")).to_be_in_viewport(ratio=1)
    page.get_by_role("link", name="Doorward", exact=True).click()
    expect(page.locator(".health")).to_contain_text("Healthy")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto(f"{server.origin}/console")
    expect(page).to_have_url(f"{server.origin}/console/login")
    close_page(page)


@pytest.mark.skipif(CHROMIUM is None or not is_built(), reason="no Chromium, or no pages")
def test_a_login_leads_to_the_page_that_was_wanted_and_to_no_other_site(
    browser: Browser, server: Server
) -> None:
    wanted = "/console/decisions?text=bob+denied#decision=abc"
    page = new_page(browser)

    def log_in() -> None:
        page.get_by_label("Token").fill("<b>odd</b>")
        page.get_by_role("button", name="Log in").click()

    page.goto(f"{server.origin}{wanted}")
    log_in()
    expect(page).to_have_url(f"{server.origin}{wanted}")
    for evil in (
        "https://evil.example/console",
        "//evil.example/console",
        "/\\evil.example/console",
        "/console//evil.example",
        "/console/../v1/data",
        "javascript:alert(1)",
        "/console@evil.example",
        "/consolex",
        "/console/api/state",
        "/console/login?next=/console/login",
        "/console/oidc/x",
    ):
        page.goto(f"{server.origin}/console/login?next={quote(evil, safe='')}")
        log_in()
        expect(page).to_have_url(f"{server.origin}/console")
        expect(page.locator(".health")).to_be_visible()
    close_page(page)


def test_a_long_address_is_left_out_of_a_login(server: Server) -> None:
    _, headers, _ = server.ask("GET", f"/console/decisions?text={'x' * 3_000}")
    assert headers["Location"] == "/console/login"
