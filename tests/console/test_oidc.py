"""People log in to the console at an issuer; `oidc-provider` of npm is the issuer."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from playwright.sync_api import expect
from tests.browser import CHROMIUM, chromium, close_page, new_page
from tests.npm_packages import install
from tests.pdp.test_oidc_provider import FOLDER, Provider
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.config.configuration import ConfigError, parse_config
from doorward.config.identity_options import Issuer, LoginClient
from doorward.config.schema import OptionError
from doorward.console import app, is_built, oidc
from doorward.console.app import Console, is_host_allowed
from doorward.console.oidc import OidcError, OidcLogin
from doorward.rego import Engine

POLICY = """package system.authz

default allow := false

allow if claims.sub == "ann"

claims := payload if {
	main := data.identity.main
	constraints := {"cert": main.jwks, "iss": main.issuer, "aud": "console"}
	[valid, _, payload] := io.jwt.decode_verify(input.identity, constraints)
	valid
}

allow if input.path[0] == "health"
"""
CONFIG = """identity:
  main:
    issuer: {issuer}
    login:
      client_id: console
      client_secret: ${{CONSOLE_SECRET}}
      console_url: {origin}
  other:
    issuer: {issuer}
    login: {{client_id: public, console_url: "https://console.example"}}
"""
SECRET = "c:secret/+%"


class Server:
    """A decision point whose console has people log in at an issuer."""

    def __init__(self, folder: Path, port: int, issuer: str) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        (folder / "authz.rego").write_text(POLICY)
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(issuer=issuer, origin=self.origin))
        command = [sys.executable, "-m", "doorward", "run", "--server", "--console"]
        command += ["--authentication=token", "--authorization=basic", "--log-level=error"]
        command += [f"--addr=127.0.0.1:{free_port()}", f"--diagnostic-addr=127.0.0.1:{port}"]
        command += [f"--config-file={config}", str(folder / "authz.rego")]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "CONSOLE_SECRET": SECRET},
        )
        wait_until(self._is_up)

    def _is_up(self) -> bool:
        assert self.process.poll() is None
        try:
            return httpx.get(f"{self.origin}/health", timeout=PATIENCE).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, port = tmp_path_factory.mktemp("oidc"), free_port()
    install(FOLDER, folder)
    provider = Provider(folder, f"http://127.0.0.1:{port}/console/oidc/main/callback")
    running = Server(folder, port, provider.url)
    yield running
    running.process.send_signal(signal.SIGTERM)
    running.process.wait(PATIENCE)
    provider.stop()


def at_issuer(browser: httpx.Client, url: str, login: str) -> str:
    """Log in as a person does, and return where the issuer sends the browser back to."""
    for _ in range(12):
        answer = browser.get(url)
        if answer.is_redirect:
            url = str(answer.url.join(answer.headers["location"]))
            if "/console/oidc/" in url:
                return url
            continue
        action = re.search(r'action="([^"]+)"', answer.text)
        prompt = re.search(r'name="prompt" value="([^"]+)"', answer.text)
        assert action is not None, answer.text
        assert prompt is not None, answer.text
        form = {"prompt": prompt[1], "login": login, "password": "x"}
        answer = browser.post(str(answer.url.join(action[1])), data=form)
        url = str(answer.url.join(answer.headers["location"]))
    raise AssertionError(url)


def begin(server: Server, browser: httpx.Client) -> httpx.Response:
    answer = browser.get(f"{server.origin}/console/oidc/main")
    assert answer.status_code == 303
    return answer


def test_a_person_logs_in_at_the_issuer(server: Server) -> None:
    with httpx.Client(timeout=PATIENCE) as browser:
        listed = browser.get(f"{server.origin}/console/api/login")
        assert listed.json() == {"issuers": ["main", "other"]}
        begun = begin(server, browser)
        cookie = begun.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        back = at_issuer(browser, begun.headers["location"], "ann")
        done = browser.get(back)
        assert done.status_code == 200, done.text
        assert 'content="0;url=/console"' in done.text
        assert any(
            "samesite=strict" in each.lower() for each in done.headers.get_list("set-cookie")
        )
        assert browser.get(f"{server.origin}/console/api/state").status_code == 200
        # The answer of the issuer is good for one login.
        assert browser.get(back).status_code == 400
        headers = {"origin": server.origin}
        done = browser.post(f"{server.origin}/console/api/logout", json={}, headers=headers)
        assert done.status_code == 200
        assert browser.get(f"{server.origin}/console/api/state").status_code == 401


def test_a_page_behind_a_proxy_that_ends_tls_is_of_this_server(server: Server) -> None:
    statuses = []
    origins = ("https://console.example", "https://console.example.evil", "http://[", "null", "")
    for origin in origins:
        answer = httpx.post(
            f"{server.origin}/console/api/login",
            json={"token": "x"},
            headers={"origin": origin},
            timeout=PATIENCE,
        )
        statuses.append((answer.status_code, "origin" in answer.text or "page" in answer.text))
    assert statuses == [(403, False), *[(403, True)] * 4]


def test_whom_the_policy_does_not_let_in_gets_no_session(server: Server) -> None:
    with httpx.Client(timeout=PATIENCE) as browser:
        back = at_issuer(browser, begin(server, browser).headers["location"], "eve")
        done = browser.get(back)
        assert done.status_code == 403
        assert "the policy does not allow you to open this console" in done.text
        assert browser.get(f"{server.origin}/console/api/state").status_code == 401


@pytest.mark.parametrize(
    ("host", "status"), [("console.example", 200), ("evil.example", 403), ("127.0.0.1", 200)]
)
def test_the_console_is_known_by_the_name_that_issuers_are_told(
    server: Server, host: str, status: int
) -> None:
    headers = {"host": host}
    answer = httpx.get(f"{server.origin}/console/api/login", headers=headers, timeout=PATIENCE)
    assert answer.status_code == status


def test_another_browser_cannot_finish_a_login(server: Server) -> None:
    with httpx.Client(timeout=PATIENCE) as browser, httpx.Client(timeout=PATIENCE) as other:
        back = at_issuer(browser, begin(server, browser).headers["location"], "ann")
        done = other.get(back)
        assert (done.status_code, "set-cookie" in done.headers) == (400, False)
        # Nor can the first, once somebody has tried.
        assert browser.get(back).status_code == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/console/oidc/none", 401),
        ("/console/oidc/main/other", 401),
        ("/console/oidc/main/callback", 400),
        ("/console/oidc/main/callback?state=x&state=y", 400),
        ("/console/oidc/main/callback?state=x&code=y&iss=z", 400),
    ],
)
def test_what_no_issuer_sends_is_refused(server: Server, path: str, status: int) -> None:
    answer = httpx.get(f"{server.origin}{path}", timeout=PATIENCE)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_the_configuration_that_is_shown_has_no_secret(server: Server) -> None:
    with httpx.Client(timeout=PATIENCE) as browser:
        browser.get(at_issuer(browser, begin(server, browser).headers["location"], "ann"))
        text = browser.get(f"{server.origin}/v1/config").text
        assert "secret/" not in text


@pytest.mark.skipif(CHROMIUM is None or not is_built(), reason="no Chromium, or no pages")
def test_a_browser_keeps_the_session_that_the_issuer_brings(server: Server) -> None:
    with chromium() as browser:
        page = new_page(browser)
        page.route(re.compile("^https:"), lambda route: route.abort())  # fonts of the issuer
        page.goto(f"{server.origin}/console")
        page.get_by_role("link", name="Log in at main").click()
        page.get_by_placeholder("Enter any login").fill("ann")
        page.get_by_placeholder("and password").fill("x")
        page.get_by_role("button", name="Sign-in").click()
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(".health")).to_contain_text("Healthy")
        assert page.url == f"{server.origin}/console"
        assert page.evaluate("document.cookie") == ""
        page.reload()
        expect(page.locator(".health")).to_contain_text("Healthy")
        close_page(page)


# One side by itself: what an issuer that does not behave can do.

CLIENT = LoginClient("console", "https://console.example", "s")
ISSUER = "https://issuer.example"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth?tenant=1",
    "token_endpoint": f"{ISSUER}/token",
}


def encoded(document: Any) -> str:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


class Fake:
    """An issuer with a symmetric key for its tests; `answers` are by path."""

    def __init__(self, **changes: Any) -> None:
        self.document = DOCUMENT | changes
        self.token: Callable[[dict[str, str]], Any] = lambda form: {}
        self.forms: list[dict[str, str]] = []
        self.headers: list[httpx.Headers] = []
        self.status = 200
        key = {"kty": "oct", "k": encoded(b"k" * 32), "alg": "HS256"}
        self.engine = Engine({}, {"identity": {"main": {"jwks": json.dumps({"keys": [key]})}}})
        self.now = 0.0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.startswith("/.well-known/"):
            return httpx.Response(200, json=self.document)
        self.forms.append(dict(parse_qsl(request.content.decode())))
        self.headers.append(request.headers)
        return httpx.Response(self.status, json=self.token(self.forms[-1]))

    def login(self, client: LoginClient = CLIENT) -> OidcLogin:
        return OidcLogin(
            "main",
            Issuer(ISSUER, login=client),
            client,
            lambda: self.engine,
            clock=lambda: self.now,
            transport=httpx.MockTransport(self),
        )

    def id_token(self, **claims: Any) -> str:
        key = json.dumps({"kty": "oct", "k": encoded(b"k" * 32)})
        signer = Engine({}).prepare(f'io.jwt.encode_sign({{"alg": "HS256"}}, input, {key})')
        plain = {"iss": ISSUER, "aud": "console", "exp": 9_999_999_999}
        token = signer.value({k: v for k, v in (plain | claims).items() if v is not None})
        assert isinstance(token, str)
        return token


def parts(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def finish(fake: Fake, **claims: Any) -> str:
    login = fake.login()
    begun = login.begin()
    parameters = parts(begun.url)
    token = fake.id_token(**{"nonce": parameters["nonce"]} | claims)
    fake.token = lambda form: {"id_token": token}
    return login.finish({"state": parameters["state"], "code": "c"}, begun.cookie)


def test_a_code_is_exchanged_with_its_verifier() -> None:
    fake = Fake()
    login = fake.login()
    begun = login.begin()
    parameters = parts(begun.url)
    assert begun.url.startswith(f"{ISSUER}/auth?tenant=1&response_type=code&")
    assert parameters["redirect_uri"] == "https://console.example/console/oidc/main/callback"
    assert parameters["code_challenge_method"] == "S256"
    fake.token = lambda form: {"id_token": fake.id_token(nonce=parameters["nonce"])}
    assert login.finish({"state": parameters["state"], "code": "c"}, begun.cookie)
    (form,) = fake.forms
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert encoded(digest) == parameters["code_challenge"]
    assert fake.headers[0]["authorization"].startswith("Basic ")
    assert "client_id" not in form


def test_a_public_client_names_itself() -> None:
    fake = Fake()
    login = fake.login(LoginClient("console", "https://console.example"))
    begun = login.begin()
    with pytest.raises(OidcError, match="no ID token"):
        login.finish({"state": parts(begun.url)["state"], "code": "c"}, begun.cookie)
    assert fake.forms[0]["client_id"] == "console"
    assert "authorization" not in fake.headers[0]


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "x"}, "another login"),
        ({"nonce": None}, "another login"),
        ({"iss": "https://evil.example"}, "not valid"),
        ({"aud": "other"}, "not valid"),
        ({"aud": ["console", "other"]}, "another client"),
        ({"aud": ["console", "other"], "azp": "other"}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"exp": 1}, "not valid"),
        ({"exp": None}, "has no expiry"),
    ],
)
def test_an_id_token_that_is_not_for_this_login_is_refused(
    claims: dict[str, Any], reason: str
) -> None:
    with pytest.raises(OidcError, match=reason):
        finish(Fake(), **claims)


def test_an_id_token_for_this_client_among_others_is_accepted() -> None:
    assert finish(Fake(), aud=["console", "other"], azp="console")


def test_a_token_without_a_signature_is_refused() -> None:
    fake = Fake()
    login = fake.login()
    begun = login.begin()
    parameters = parts(begun.url)
    claims = {"iss": ISSUER, "aud": "console", "exp": 9_999_999_999, "nonce": parameters["nonce"]}
    fake.token = lambda form: {"id_token": f"{encoded({'alg': 'none'})}.{encoded(claims)}."}
    with pytest.raises(OidcError, match="not valid"):
        login.finish({"state": parameters["state"], "code": "c"}, begun.cookie)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"error": "access_denied"}, "refuses the login: access_denied$"),
        ({"error": "<b>Bad</b>"}, "refuses the login$"),
        ({"error": "a" * 41}, "refuses the login$"),
        ({}, "no valid authorization code"),
        ({"code": "c" * 20_000}, "no valid authorization code"),
        ({"code": "c", "iss": "https://evil.example"}, "another issuer"),
    ],
)
def test_an_answer_that_is_no_code_is_told(answer: dict[str, str], reason: str) -> None:
    login = Fake().login()
    begun = login.begin()
    with pytest.raises(OidcError, match=reason):
        login.finish({"state": parts(begun.url)["state"], **answer}, begun.cookie)


def test_an_issuer_that_names_itself_does_so_always() -> None:
    fake = Fake(authorization_response_iss_parameter_supported=True)
    login = fake.login()
    for _ in range(2):  # the document is kept
        begun = login.begin()
        answer = {"state": parts(begun.url)["state"], "code": "c"}
        with pytest.raises(OidcError, match="does not say which issuer"):
            login.finish(answer, begun.cookie)
    assert fake.forms == []
    begun = login.begin()
    parameters = parts(begun.url)
    fake.token = lambda form: {"id_token": fake.id_token(nonce=parameters["nonce"])}
    answer = {"state": parameters["state"], "code": "c", "iss": ISSUER}
    assert login.finish(answer, begun.cookie)


def test_a_login_ends_with_its_time_and_its_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    login = fake.login()
    begun = login.begin()
    fake.now = oidc.SECONDS
    with pytest.raises(OidcError, match="took too long"):
        login.finish({"state": parts(begun.url)["state"], "code": "c"}, begun.cookie)
    monkeypatch.setattr(oidc, "MOST", 2)
    first, *_, last = [login.begin() for _ in range(3)]
    with pytest.raises(OidcError, match="took too long"):
        login.finish({"state": parts(first.url)["state"], "code": "c"}, first.cookie)
    with pytest.raises(OidcError, match="another browser"):
        login.finish({"state": parts(last.url)["state"], "code": "c"}, first.cookie)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"issuer": "https://evil.example"}, "is not the configured"),
        ({"authorization_endpoint": None}, "has no valid URL `authorization_endpoint`"),
        (
            {"authorization_endpoint": "javascript:alert(1)"},
            "has no valid URL `authorization_endpoint`",
        ),
        ({"authorization_endpoint": "https://["}, "has no valid URL `authorization_endpoint`"),
        ({"authorization_endpoint": "http://issuer.example/auth"}, "must be an https URL"),
        (
            {"authorization_endpoint": f"{ISSUER}/auth#x"},
            "has no valid URL `authorization_endpoint`",
        ),
    ],
)
def test_a_document_that_is_not_the_issuers_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(OidcError, match=reason):
        Fake(**changes).login().begin()


def test_an_issuer_that_fails_is_told() -> None:
    fake = Fake()
    login = fake.login()
    for status, token in ((500, {}), (302, {}), (200, [1])):
        begun = login.begin()
        fake.status = status
        fake.token = lambda form, token=token: token  # type: ignore[misc]
        with pytest.raises(OidcError, match="without the requested document"):
            login.finish({"state": parts(begun.url)["state"], "code": "c"}, begun.cookie)

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    gone = OidcLogin(
        "main",
        Issuer(ISSUER),
        CLIENT,
        lambda: fake.engine,
        transport=httpx.MockTransport(refuse),
    )
    with pytest.raises(OidcError, match="does not answer"):
        gone.begin()


@pytest.mark.parametrize(
    "client",
    [("", "https://c.example"), ("c", "http://c.example"), ("c", "https://c.example/x"), ("c", "")],
)
def test_a_client_that_cannot_be_used_is_refused(client: tuple[str, str]) -> None:
    with pytest.raises(OptionError):
        LoginClient(*client)
    assert "s3cret" not in repr(LoginClient("c", "https://c.example", "s3cret"))


def test_the_console_answers_to_the_name_that_issuers_know(tmp_path: Path) -> None:
    config = parse_config(
        CONFIG.format(issuer=ISSUER, origin="https://Console.example:8282"),
        environment={"CONSOLE_SECRET": "s"},
    )
    client = config.identity["main"].login
    assert client is not None
    assert client.host == "console.example"
    assert is_host_allowed("console.example:8282", frozenset([client.host]))
    assert not is_host_allowed("console.example:8282", frozenset())


def test_a_secret_that_is_not_set_is_an_error(tmp_path: Path) -> None:
    text = CONFIG.format(issuer=ISSUER, origin="https://console.example")
    with pytest.raises(ConfigError, match=r"client_secret.*CONSOLE_SECRET. is not set"):
        parse_config(text, file="c.yaml", environment={})


def test_only_so_many_logins_wait_for_an_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_LOGINS", 3)
    console, go_on = Console(), threading.Event()

    async def log_in() -> list[object]:
        waiting = [asyncio.create_task(console._run_at_issuer(go_on.wait)) for _ in range(3)]
        while len(console._login_slots) < len(waiting):
            await asyncio.sleep(0)
        with pytest.raises(OidcError, match="too many"):
            await console._run_at_issuer(go_on.wait)
        go_on.set()
        answers: list[object] = [await each for each in waiting]
        return [*answers, await console._run_at_issuer(go_on.wait)]

    assert asyncio.run(log_in()) == [True] * 4
