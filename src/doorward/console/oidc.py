"""Log in to the console at an issuer of OpenID Connect: authorization code with PKCE.

    browser -> /console/oidc/NAME           a redirect to the issuer, and a cookie that binds it
    issuer  -> /console/oidc/NAME/callback  the code; the issuer gives an ID token for it

The ID token then counts as a token that a person types: the policy decides whether it may open the
console. The checks are those of RFC 6749, 7636 (PKCE), 9207 (`iss` of the response) and of OpenID
Connect Core 1.0, 3.1.3.7. Logins that have begun are kept in memory by their `state`, which only
the browser and the issuer know; each can be finished once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import httpx

from doorward.base.urls import split_url
from doorward.config.identity_options import Issuer, LoginClient
from doorward.pdp.issuer_documents import DocumentError, fetch_document, issuer_client
from doorward.rego import Engine, RegoError

__all__ = ["COOKIE", "SECONDS", "Beginning", "OidcError", "OidcLogin"]

COOKIE: Final = "doorward_console_oidc"
"""The name of the cookie that binds a login to the browser that began it."""
SECONDS: Final = 600
"""The seconds within which a login must be finished."""
MOST: Final = 1_000
"""The most logins that have begun and are not finished; the oldest is dropped."""
FRESH: Final = 300.0
"""The seconds for which the issuer's metadata are used before they are read again."""
LONGEST: Final = 16 << 10
"""The most characters of a code or token; a longer one fails the login."""
_SAYS_ISSUER: Final = "authorization_response_iss_parameter_supported"
_VERIFY: Final = """[valid, _, claims] := io.jwt.decode_verify(input.token, {
	"cert": data.identity[input.name].jwks,
	"iss": input.issuer,
	"aud": input.client_id,
})
valid"""


class OidcError(Exception):
    """A login did not succeed; the message, which the page shows, says why."""


class Beginning(NamedTuple):
    """The URL to which the browser is redirected, and the value of the cookie that it keeps
    meanwhile.
    """

    url: str
    cookie: str


class _Pending(NamedTuple):
    """A login that was begun and is not finished: what the issuer's response must match."""

    cookie: bytes
    """The SHA-256 digest of the cookie's value."""
    nonce: str
    verifier: str
    until: float
    """The time of the clock at which the login ends."""


class OidcLogin:
    """The logins at one issuer; thread-safe. `begin` and `finish` wait for the network."""

    def __init__(
        self,
        name: str,
        issuer: Issuer,
        client: LoginClient,
        engine: Callable[[], Engine],
        *,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Prepare logins at `issuer`, which the console calls `name`. `engine` returns the policies
        and data in force, with the issuer's keys. `clock` and `transport` replace the time and the
        network in tests.
        """
        self.name = name
        self._issuer = issuer
        self._client = client
        self._engine = engine
        self._clock = clock
        self._transport = transport
        self._lock = threading.Lock()
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._document: dict[str, Any] = {}
        self._read_at = -FRESH

    @property
    def origin(self) -> str:
        """The `Origin` of requests of the console's pages, as configured, whatever proxy is in
        front of it.
        """
        return self._client.console_url.rstrip("/")

    @property
    def redirect_url(self) -> str:
        """The URL to which the issuer sends the browser back."""
        return f"{self.origin}/console/oidc/{self.name}/callback"

    def begin(self) -> Beginning:
        """Begin a login, and return the URL to send the browser to, with its cookie. It must be
        finished within `SECONDS`; the oldest login is dropped above `MOST`. OidcError if the issuer
        cannot be used.
        """
        url = self._endpoint("authorization_endpoint")
        state, cookie, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        verifier = secrets.token_urlsafe(64)
        pending = _Pending(_digest(cookie), nonce, verifier, self._clock() + SECONDS)
        with self._lock:
            self._pending[state] = pending
            while len(self._pending) > MOST:
                self._pending.popitem(last=False)
        challenge = base64.urlsafe_b64encode(_digest(verifier)).rstrip(b"=").decode()
        parameters = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": self.redirect_url,
            "scope": " ".join(("openid", *self._client.scopes)),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if split_url(url).query else "?"
        return Beginning(f"{url}{separator}{urlencode(parameters)}", cookie)

    def finish(self, parameters: Mapping[str, str], cookie: str) -> str:
        """Finish a login with the parameters of the issuer's redirect and the browser's cookie, and
        return the verified ID token. OidcError if they do not belong to a login that this browser
        began in the last `SECONDS` and that is not finished, if the issuer refuses, or if its
        response or token is not valid. The login ends in any case: it cannot be tried again.
        """
        with self._lock:
            # Removed before any check: a state works once, whatever comes with it.
            pending = self._pending.pop(parameters.get("state", ""), None)
        if pending is None or pending.until <= self._clock():
            raise OidcError("this login took too long or was finished before: log in again")
        if not hmac.compare_digest(pending.cookie, _digest(cookie)):
            raise OidcError("this login began in another browser: log in again")
        issuer = parameters.get("iss")
        # Before `error` and `code`: nothing else of a response of another issuer counts (RFC 9207,
        # section 2.4).
        if issuer is not None and issuer != self._issuer.issuer:
            raise OidcError(
                f"the response comes from another issuer than {self._issuer.issuer}: log in again"
            )
        if "error" in parameters:
            raise OidcError(f"the issuer refuses the login{_reason(parameters['error'])}")
        code = parameters.get("code", "")
        if not 0 < len(code) <= LONGEST:
            raise OidcError("the issuer sent no valid authorization code: log in again")
        url = self._endpoint("token_endpoint")
        if issuer is None and self._document.get(_SAYS_ISSUER) is True:
            raise OidcError(
                "the response does not say which issuer it comes from: ask the issuer's operator"
            )
        token = self._exchange(url, code, pending.verifier)
        self._check_id_token(token, pending.nonce)
        return token

    def _exchange(self, url: str, code: str, verifier: str) -> str:
        """Return the ID token that the issuer gives for a code, not yet verified; OidcError if the
        request fails, or the response has no ID token of at most `LONGEST` characters.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_url,
            "code_verifier": verifier,
            "client_id": self._client.client_id,
        }
        secret = self._client.client_secret
        # RFC 6749, 2.3.1: both are encoded as form values before they are put together.
        auth = None
        if secret:
            del form["client_id"]
            auth = httpx.BasicAuth(_form(self._client.client_id), _form(secret))
        token = self._ask("POST", url, form, auth).get("id_token")
        if not isinstance(token, str) or not 0 < len(token) <= LONGEST:
            raise OidcError("the issuer sent no ID token for the code: ask its operator")
        return token

    def _check_id_token(self, token: str, nonce: str) -> None:
        """Raise OidcError unless the ID token is signed by the issuer, has an expiry that is not
        past, is for this client, and has the `nonce` of this login.
        """
        question = {
            "token": token,
            "name": self.name,
            "issuer": self._issuer.issuer,
            "client_id": self._client.client_id,
        }
        try:
            rows = self._engine().prepare(_VERIFY).results(question)
        except RegoError:
            rows = []
        if not rows:
            raise OidcError("the ID token is not valid, or its key is not known yet: log in again")
        claims = rows[0]["claims"]
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise OidcError("the ID token belongs to another login: log in again")
        audience = claims.get("aud")
        party = claims.get("azp")
        # Each of several audiences has this token, and only `azp` says for which of them it was
        # issued.
        is_several = isinstance(audience, list) and len(audience) > 1
        if (party is not None or is_several) and party != self._client.client_id:
            raise OidcError(
                "the ID token was issued to another client: compare `client_id` with that at "
                "the issuer"
            )
        # `io.jwt.decode_verify` does not ask for it: such a token would never end.
        if "exp" not in claims:
            raise OidcError("the ID token has no expiry (`exp`): ask the issuer's operator")

    def _endpoint(self, name: str) -> str:
        """Return a URL from the issuer's metadata, which are read again after `FRESH` seconds.
        OidcError if they cannot be read or name another issuer, or if the URL is missing, malformed
        or less safe than the issuer's.
        """
        now = self._clock()
        if now - self._read_at >= FRESH:
            base = self._issuer.issuer.rstrip("/")
            document = self._ask("GET", f"{base}/.well-known/openid-configuration")
            if document.get("issuer") != self._issuer.issuer:
                raise OidcError(
                    "`issuer` in the issuer's discovery document is not the "
                    f"configured {self._issuer.issuer}"
                )
            self._document, self._read_at = document, now
        url = self._document.get(name)
        parts = split_url(url if isinstance(url, str) and len(url) < 2_000 else "")
        if not isinstance(url, str) or not parts.netloc or parts.fragment:
            raise OidcError(f"the issuer's discovery document has no valid URL `{name}`")
        if not self._issuer.is_as_safe(url):
            raise OidcError(f"{name} in the issuer's discovery document must be an https URL")
        return url

    def _ask(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        auth: httpx.BasicAuth | None = None,
    ) -> dict[str, Any]:
        """Send a request to the issuer, and return the JSON object in its response; OidcError if
        there is none.
        """
        try:
            with issuer_client(self._transport) as client:
                return fetch_document(client, url, method=method, form=form, auth=auth)
        except DocumentError as error:
            raise OidcError(_explain(error)) from None


def _explain(error: DocumentError) -> str:
    """Return the reason of a failed request to an issuer for the user, without the content of the
    response.
    """
    if error.is_too_long:
        return "the issuer's response is too long or too slow: try again later"
    if error.status is None:
        return "the issuer does not answer: try again later"
    return (
        f"the issuer responds with {error.status}, without the requested document: try again later"
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _form(text: str) -> str:
    return urlencode({"": text})[1:]


def _reason(error: str) -> str:
    """Return an error code of OAuth, as `: access_denied`; "" for any other text, which somebody
    may have written into the address.
    """
    is_code = 0 < len(error) <= 40 and all(c.isascii() and (c.islower() or c == "_") for c in error)
    return f": {error}" if is_code else ""
