"""Credentials of requests to a service: each kind of credentials as an `httpx.Auth`.

Tokens are fetched when they are needed and cached until shortly before they expire. If there are
none, the request fails with CredentialsError; no error quotes a secret.
"""

from __future__ import annotations

import base64
import os
import re
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from math import isfinite
from threading import Lock
from typing import Final
from urllib.parse import urlencode

import httpx

from doorward.base.records import record
from doorward.bundles.signatures import SignatureError
from doorward.bundles.signing import compact_token
from doorward.config.services import (
    AwsSigning,
    AzureIdentity,
    Bearer,
    ClientTls,
    GcpMetadata,
    OAuth2,
    Service,
)
from doorward.control.aws_credentials import AwsAuth, EcrAuth
from doorward.control.aws_kms import KmsSigner
from doorward.control.fetching import CredentialsError, Fetch, document_of, origin_of, read_text

__all__ = ["CredentialsError", "Fetch", "auth_for"]

_SPARE: Final = 10.0
"""The seconds before its expiry from which a token is fetched again."""
_LONGEST: Final = 86_400.0
"""The most seconds for which a token is cached, whatever a service says of its expiry."""
_EXCERPT: Final = 1_000
"""The characters of a token endpoint's response that an error quotes."""
_CHALLENGE: Final = re.compile(r'(realm|service|scope)="([^"]{1,2048})"')
_MAX_TOKENS: Final = 100
"""The most repositories whose tokens are cached; more empty the cache."""
_AZURE: Final = "http://169.254.169.254/metadata/identity/oauth2/token"


@record
class _Token:
    """A token, and the time at which it must be fetched again."""

    text: str
    until: float
    """The monotonic time at which it must be fetched again."""


class _TokenAuth(httpx.Auth):
    """Sends a token in `Authorization`. `get` returns the token, and for how many seconds of
    `clock` it is cached.
    """

    def __init__(
        self,
        get: Callable[[], tuple[str, float]],
        scheme: str = "Bearer",
        *,
        clock: Callable[[], float],
    ) -> None:
        self._get = get
        self._scheme = scheme
        self._clock = clock
        self._token: _Token | None = None
        self._lock = Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request; a new one is fetched when it has expired. CredentialsError if
        there is none.
        """
        with self._lock:
            # Inside the lock, so that concurrent requests fetch an expired token only once.
            if self._token is None or self._clock() >= self._token.until:
                text, seconds = self._get()
                self._token = _Token(text, self._clock() + seconds)
        # Without the blank that follows the scheme if there is no token.
        request.headers["Authorization"] = f"{self._scheme} {self._token.text}".strip()
        yield request


class _RegistryAuth(httpx.Auth):
    """The authentication of a registry: the service's own credentials, or a token that the
    registry's token service gives for them. A token is for one repository and lasts some minutes;
    it is cached by repository.
    """

    def __init__(
        self,
        inner: httpx.Auth | None,
        service: Service,
        fetch: Fetch,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._inner = inner
        self._service = service
        self._fetch = fetch
        self._tokens: dict[str, _Token] = {}
        self._lock = Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the cached token of the repository, or the credentials. If the registry responds with
        a token challenge (401), fetch a token, cache it (a cache of `_MAX_TOKENS` is emptied first)
        and repeat the request. CredentialsError if there is no token.
        """
        if self._inner is not None:
            # Its first step alone: each of them only adds to the request, and expects no response.
            next(self._inner.auth_flow(request))
        authorization = request.headers.get("authorization")
        # `v2/NAME` of `v2/NAME/manifests/TAG` and of `v2/NAME/blobs/DIGEST`, which one token opens.
        repository = request.url.path.rpartition("/")[0].rpartition("/")[0]
        known = self._tokens.get(repository)
        if known is not None and self._clock() < known.until:
            request.headers["authorization"] = f"Bearer {known.text}"
        response = yield request
        challenge = response.headers.get("www-authenticate", "")
        if response.status_code != 401 or not challenge.lower().startswith("bearer "):
            return
        # The credentials are the registry's: a host that it redirected to must not say who gets
        # them.
        if origin_of(response.request.url) != origin_of(request.url):
            return
        token = self._fetch_token(dict(_CHALLENGE.findall(challenge[7:])), authorization)
        with self._lock:
            if len(self._tokens) >= _MAX_TOKENS:
                self._tokens.clear()
            self._tokens[repository] = token
        request.headers["authorization"] = f"Bearer {token.text}"
        yield request

    def _fetch_token(self, challenge: Mapping[str, str], authorization: str | None) -> _Token:
        """Fetch a token from the `realm` of a challenge, with the value `authorization` for that
        header, None for none. CredentialsError if it returns none, or if the realm is less safe
        (http) than the registry.
        """
        realm = challenge.get("realm", "")
        if not realm.startswith(("https://", self._service.url.partition("://")[0] + "://")):
            # The credentials go there: nothing may make them go in clear.
            raise CredentialsError(
                "the registry's token service must use https, or http if the registry does"
            )
        query = {name: challenge[name] for name in ("service", "scope") if name in challenge}
        headers = {} if authorization is None else {"authorization": authorization}
        url = httpx.URL(realm).copy_merge_params(query)
        response = self._fetch(httpx.Request("GET", url, headers=headers))
        if response.status_code != 200:
            raise CredentialsError(
                "the registry's token service answered with status "
                f"{response.status_code}, not with a token"
            )
        document = document_of(response, "the response of the registry")
        # The Distribution's specification: `access_token` for clients of OAuth2, and 60 seconds if
        # the response names no time.
        text = _check_token(
            document.get("token") or document.get("access_token"), "the registry returned no token"
        )
        return _Token(text, self._clock() + _lifetime(document.get("expires_in") or 60))


def auth_for(
    service: Service, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic
) -> httpx.Auth | None:
    """Return the authentication of requests to `service`; None if it needs none. `fetch` sends
    requests for tokens, which expire by `clock` (in seconds).
    """
    service_auth = _auth_for(service, fetch, clock)
    if service.is_registry:
        return _RegistryAuth(service_auth, service, fetch, clock=clock)
    return service_auth


def _auth_for(service: Service, fetch: Fetch, clock: Callable[[], float]) -> httpx.Auth | None:
    """Return the authentication for a service's credentials; None if there are none or they are a
    client certificate.
    """
    match service.credentials:
        case None | ClientTls():
            return None
        case Bearer() as bearer:
            return _TokenAuth(lambda: (_bearer(bearer), 0.0), bearer.scheme, clock=clock)
        case OAuth2() as options:
            key = options.kms_key
            signer = None if key is None else KmsSigner(key, fetch, clock=clock)
            return _TokenAuth(lambda: _fetch_oauth2(options, fetch, signer), clock=clock)
        case GcpMetadata() as gcp:
            return _TokenAuth(lambda: _fetch_gcp(gcp, fetch), clock=clock)
        case AzureIdentity() as azure:
            return _TokenAuth(lambda: _fetch_azure(azure, fetch), clock=clock)
        case AwsSigning() as aws:
            if aws.service == "ecr":
                return EcrAuth(aws, fetch, clock=clock)
            return AwsAuth(aws, fetch, clock=clock)


def _bearer(options: Bearer) -> str:
    """The bearer token, read from its file at each use if it has one, in base64 if it is a user and
    password; "" if the configuration has none. CredentialsError for a file that cannot be read or
    has no token, and for a token that cannot be in a header.
    """
    token = read_text(options.token_path).strip() if options.token_path else options.token
    if options.is_pair:
        return base64.b64encode(token.encode()).decode()
    if not token and not options.token_path:
        return ""  # OPA sends the header of a configuration without a token, too
    source = options.token_path or "credentials.bearer.token"
    return _check_token(
        token,
        f"{source}: the token must not be empty, and must contain only printable ASCII characters",
    )


def _check_token(token: object, message: str) -> str:
    """Return the token without spaces around it. CredentialsError with `message` if it is missing,
    empty or cannot be in a header.
    """
    text = token.strip() if isinstance(token, str) else ""
    # Not left to the HTTP library, which quotes a header that it refuses in its error.
    if not text or not text.isascii() or not text.isprintable():
        raise CredentialsError(message)
    return text


# OAuth2


def _fetch_oauth2(options: OAuth2, fetch: Fetch, signer: KmsSigner | None) -> tuple[str, float]:
    """Fetch a token from the token endpoint; return it, and for how many seconds it is cached.
    CredentialsError if the endpoint refuses, does not answer with a JSON object and a token, or
    offers another type than `bearer`.
    """
    headers = {"content-type": "application/x-www-form-urlencoded", **options.headers}
    if options.grant_type == "client_credentials" and options.client_secret:
        # As OPA does: without the encoding of RFC 6749, section 2.3.1, in front.
        pair = f"{options.client_id}:{options.client_secret}".encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    content = urlencode(_form(options, signer)).encode()
    request = httpx.Request("POST", options.token_url, headers=headers, content=content)
    response = fetch(request)
    if response.status_code != 200:
        excerpt = response.text[:_EXCERPT]
        raise CredentialsError(f"error in response from OAuth2 token endpoint: {excerpt}")
    document = document_of(response, "the response from the OAuth2 token endpoint")
    if str(document.get("token_type", "")).lower() != "bearer":
        raise CredentialsError("unknown token type returned from token endpoint")
    token = _check_token(
        document.get("access_token"), "the OAuth2 token endpoint returned no token"
    )
    return token, _lifetime(document.get("expires_in"))


def _lifetime(seconds: object) -> float:
    """Return the seconds for which a token that expires in `seconds` is cached: `_SPARE` less, at
    most `_LONGEST`; 0.0 if it is not a finite number.
    """
    try:
        # By its text: Azure sends a string, and a huge integer becomes infinity, where `float` of
        # it would raise OverflowError.
        number = float(str(seconds or 0))
    except ValueError:
        return 0.0
    return min(max(number - _SPARE, 0.0), _LONGEST) if isfinite(number) else 0.0


def _form(options: OAuth2, signer: KmsSigner | None) -> dict[str, str]:
    """Return the form of the token request: configured parameters, scopes, grant, and an assertion
    if the grant is `jwt_bearer` or there is no client secret. CredentialsError if the assertion
    cannot be signed or read.
    """
    scope = {"scope": " ".join(options.scopes)} if options.scopes else {}
    form = {**scope, **options.parameters}
    if options.grant_type == "jwt_bearer":
        grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return {**form, "grant_type": grant, "assertion": _sign_assertion(options, None)}
    form["grant_type"] = "client_credentials"
    if options.client_secret:
        return form
    if options.signing_key is not None or signer is not None:
        assertion = _sign_assertion(options, signer)
    elif options.assertion_path:
        assertion = read_text(options.assertion_path).strip()
    else:
        assertion = options.assertion
    form |= {"client_assertion_type": options.assertion_type, "client_assertion": assertion}
    return {**form, "client_id": options.client_id} if options.client_id else form


def _sign_assertion(options: OAuth2, signer: KmsSigner | None) -> str:
    """Return a JWT that is sent as assertion, of the client or of the grant `jwt_bearer`, signed by
    KMS (`signer`) or with the private key. It is valid for ten minutes unless the configured claims
    say otherwise. CredentialsError if it cannot be signed.
    """
    now = int(time.time())
    claims = {"iat": now, "exp": now + 600, **options.claims}
    if options.scopes:
        claims["scope"] = " ".join(options.scopes)
    if options.include_jti:
        claims["jti"] = str(uuid.uuid4())
    header: dict[str, str] = {}
    if options.thumbprint:
        try:
            octets = bytes.fromhex(options.thumbprint)
        except ValueError:
            raise CredentialsError(
                "`thumbprint` of the OAuth2 credentials must be hexadecimal digits"
            ) from None
        header["x5t"] = base64.urlsafe_b64encode(octets).decode()
    if signer is not None:
        return signer.token(claims, header)
    key = options.signing_key
    assert key is not None
    try:
        private = read_text(key.private_key) if os.path.isfile(key.private_key) else key.private_key
        return compact_token(claims, private, key.algorithm, header)
    except SignatureError as error:
        raise CredentialsError(str(error)) from None


# The metadata servers of clouds


def _fetch_gcp(options: GcpMetadata, fetch: Fetch) -> tuple[str, float]:
    """Fetch an identity token if an audience is set, otherwise an access token, from Google's
    metadata service; return it, and for how many seconds it is cached. CredentialsError if the
    service refuses, returns no token or cannot be reached.
    """
    if options.audience:
        kind, query = "identity", f"{options.identity_token_path}?audience={options.audience}"
    else:
        scopes = ",".join(options.scopes)
        kind, query = "access", f"{options.access_token_path}?scopes={scopes}"
    url = options.endpoint + query
    response = fetch(httpx.Request("GET", url, headers={"metadata-flavor": "Google"}))
    if response.status_code != 200:
        reasons = {400: "invalid request", 404: "not found"}
        raise CredentialsError(
            f"error retrieving {kind} token from gcp metadata service: "
            f"error retrieving gcp ID token from {url} {response.status_code}: "
            f"{reasons.get(response.status_code, 'unexpected error')}"
        )
    # Its lifetime is only in its claims, which are not read here.
    if kind == "identity":
        return _check_token(response.text, "gcp's metadata service returned no token"), 0.0
    document = document_of(response, "the response of gcp's metadata service")
    token = _check_token(document.get("access_token"), "gcp's metadata service returned no token")
    return token, _lifetime(document.get("expires_in"))


def _fetch_azure(options: AzureIdentity, fetch: Fetch) -> tuple[str, float]:
    """Fetch a token of Azure's managed identity, of a machine or an app service; return it, and for
    how many seconds it is cached. CredentialsError if the service refuses, returns no token or
    cannot be reached.
    """
    offered = os.environ.get("IDENTITY_ENDPOINT", "")
    of_app_service = options.app_service or bool(offered and not options.endpoint)
    version = options.api_version or ("2019-08-01" if of_app_service else "2018-02-01")
    parameters = {"api-version": version, "resource": options.resource}
    for name in ("object_id", "client_id", "mi_res_id"):
        if value := getattr(options, name):
            parameters[name] = value
    if not of_app_service:
        headers = {"metadata": "true"}
    elif os.environ.get("IDENTITY_HEADER"):
        headers = {"x-identity-header": os.environ["IDENTITY_HEADER"]}
    else:
        raise CredentialsError("azure managed identities auth: IDENTITY_HEADER env var not found")
    url = f"{options.endpoint or offered or _AZURE}?{urlencode(sorted(parameters.items()))}"
    response = fetch(httpx.Request("GET", url, headers=headers))
    document = document_of(response, "the response of azure's identity service")
    if response.status_code != 200:
        raise CredentialsError(
            f"{response.status_code} {document.get('error', '')} retrieving azure token from "
            f"{url}: {str(document.get('error_description', ''))[:_EXCERPT]}"
        )
    token = _check_token(document.get("access_token"), "azure's identity service returned no token")
    return token, _lifetime(document.get("expires_in"))
