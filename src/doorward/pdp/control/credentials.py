"""How requests to a service say who sends them: each kind of credentials as an `httpx.Auth`.

Tokens are fetched when they are needed and kept until shortly before they expire. What cannot be
had fails the request with a `CredentialsError`; no error quotes a secret.
"""

from __future__ import annotations

import base64
import configparser
import os
import re
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlencode

import httpx

from doorward.pdp.control.services import (
    AwsSigning,
    AzureIdentity,
    Bearer,
    ClientTls,
    GcpMetadata,
    OAuth2,
    Service,
)
from doorward.pdp.signatures import SignatureError
from doorward.pdp.signing import compact_token
from doorward.rego import CALL_ERRORS, REGISTRY, Value

__all__ = ["CredentialsError", "Fetch", "auth_for"]

_SPARE: Final = 10.0
"""Seconds before its end from which a token is not used any more."""
_MAX_FILE: Final = 1 << 20
_SHOWN: Final = 1_000
"""Characters of a token endpoint's answer that an error quotes."""
_CHALLENGE: Final = re.compile(r'(realm|service|scope)="([^"]{1,2048})"')
_MAX_TOKENS: Final = 100
"""Repositories whose tokens are kept."""
_AZURE: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
_AWS: Final = "http://169.254.169.254"

Fetch: TypeAlias = Callable[[httpx.Request], httpx.Response]
"""Sends a request for a token, with deadlines and a bounded body."""


class CredentialsError(Exception):
    """Credentials that cannot be had."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    until: float
    """When it must be fetched again, by the monotonic clock."""


class _TokenAuth(httpx.Auth):
    """A token in `Authorization`, from `get`, which says for how many seconds it may be kept."""

    def __init__(self, get: Callable[[], tuple[str, float]], scheme: str = "Bearer") -> None:
        self._get = get
        self._scheme = scheme
        self._token: _Token | None = None
        self._lock = Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        with self._lock:
            if self._token is None or time.monotonic() >= self._token.until:
                text, kept = self._get()
                self._token = _Token(text, time.monotonic() + kept)
        request.headers["Authorization"] = f"{self._scheme} {self._token.text}"
        yield request


class _AwsAuth(httpx.Auth):
    requires_request_body = True

    def __init__(self, options: AwsSigning, fetch: Fetch) -> None:
        self._options = options
        self._fetch = fetch
        self._keys: tuple[_AwsKeys, float] | None = None
        self._lock = Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        with self._lock:
            if self._keys is None or time.monotonic() >= self._keys[1]:
                keys, kept = _aws_keys(self._options, self._fetch)
                self._keys = keys, time.monotonic() + kept
        request.headers.update(_aws_headers(request, self._keys[0], self._options.service))
        yield request


class _RegistryAuth(httpx.Auth):
    """What a registry wants: the credentials themselves, or a token for them where it says so.

    A token is for one repository and lasts some minutes; it is kept by what it is for.
    """

    def __init__(self, inner: httpx.Auth | None, service: Service, fetch: Fetch) -> None:
        self._inner = inner
        self._service = service
        self._fetch = fetch
        self._tokens: dict[str, _Token] = {}
        self._lock = Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._inner is not None:
            next(self._inner.auth_flow(request))
        own = request.headers.get("authorization")
        repository = request.url.path.rpartition("/")[0].rpartition("/")[0]
        known = self._tokens.get(repository)
        if known is not None and time.monotonic() < known.until:
            request.headers["authorization"] = f"Bearer {known.text}"
        response = yield request
        challenge = response.headers.get("www-authenticate", "")
        if response.status_code != 401 or not challenge.lower().startswith("bearer "):
            return
        token = self._token(dict(_CHALLENGE.findall(challenge[7:])), own)
        with self._lock:
            if len(self._tokens) >= _MAX_TOKENS:
                self._tokens.clear()
            self._tokens[repository] = token
        request.headers["authorization"] = f"Bearer {token.text}"
        yield request

    def _token(self, challenge: Mapping[str, str], own: str | None) -> _Token:
        realm = challenge.get("realm", "")
        if not realm.startswith(("https://", self._service.url.partition("://")[0] + "://")):
            # The credentials go there: nothing may make them go in clear.
            raise CredentialsError("the registry names no place for tokens that is as safe as it")
        query = {name: challenge[name] for name in ("service", "scope") if name in challenge}
        headers = {} if own is None else {"authorization": own}
        url = httpx.URL(realm).copy_merge_params(query)
        response = self._fetch(httpx.Request("GET", url, headers=headers))
        if response.status_code != 200:
            raise CredentialsError(f"the registry gave no token: {response.status_code}")
        document = _document(response, "the answer of the registry")
        text = document.get("token") or document.get("access_token")
        if not isinstance(text, str) or not text.isascii() or not text.isprintable():
            raise CredentialsError("the registry gave no token")
        return _Token(text, time.monotonic() + _kept(document.get("expires_in") or 60))


def auth_for(service: Service, fetch: Fetch) -> httpx.Auth | None:
    """What signs the requests to `service`; `fetch` sends those for tokens."""
    own = _auth_for(service, fetch)
    return _RegistryAuth(own, service, fetch) if service.is_registry else own


def _auth_for(service: Service, fetch: Fetch) -> httpx.Auth | None:
    match service.credentials:
        case None | ClientTls():
            return None
        case Bearer() as bearer:
            return _TokenAuth(lambda: (_bearer(bearer), 0.0), bearer.scheme)
        case OAuth2() as options:
            return _TokenAuth(lambda: _oauth2(options, fetch))
        case GcpMetadata() as gcp:
            return _TokenAuth(lambda: _gcp(gcp, fetch))
        case AzureIdentity() as azure:
            return _TokenAuth(lambda: _azure(azure, fetch))
        case AwsSigning() as aws:
            return _AwsAuth(aws, fetch)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_FILE)
    except OSError as error:
        reason = (error.strerror or "failed").lower()
        raise CredentialsError(f"open {path}: {reason}") from None
    except UnicodeDecodeError:
        raise CredentialsError(f"{path}: not UTF-8") from None


def _bearer(options: Bearer) -> str:
    token = _read(options.token_path).strip() if options.token_path else options.token
    return base64.b64encode(token.encode()).decode() if options.is_pair else token


def _document(response: httpx.Response, what: str) -> dict[str, Any]:
    try:
        document = response.json()
    except (ValueError, RecursionError):
        raise CredentialsError(f"{what} is not JSON") from None
    if not isinstance(document, dict):
        raise CredentialsError(f"{what} is not an object")
    return document


# OAuth2


def _oauth2(options: OAuth2, fetch: Fetch) -> tuple[str, float]:
    headers = {"content-type": "application/x-www-form-urlencoded", **options.headers}
    if options.grant_type == "client_credentials" and options.client_secret:
        pair = f"{options.client_id}:{options.client_secret}".encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    content = urlencode(_form(options)).encode()
    request = httpx.Request("POST", options.token_url, headers=headers, content=content)
    response = fetch(request)
    if response.status_code != 200:
        shown = response.text[:_SHOWN]
        raise CredentialsError(f"error in response from OAuth2 token endpoint: {shown}")
    document = _document(response, "the response from the OAuth2 token endpoint")
    if str(document.get("token_type", "")).lower() != "bearer":
        raise CredentialsError("unknown token type returned from token endpoint")
    return str(document.get("access_token", "")).strip(), _kept(document.get("expires_in"))


def _kept(seconds: object) -> float:
    """For how long a token may be kept that expires in so many seconds."""
    try:
        return max(float(str(seconds or 0)) - _SPARE, 0.0)
    except ValueError:
        return 0.0


def _form(options: OAuth2) -> dict[str, str]:
    form = dict(options.parameters)
    if options.scopes:
        form["scope"] = " ".join(options.scopes)
    if options.grant_type == "jwt_bearer":
        grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
        return {**form, "grant_type": grant, "assertion": _signed_assertion(options)}
    form["grant_type"] = "client_credentials"
    if options.client_secret:
        return form
    if options.signing_key is not None:
        assertion = _signed_assertion(options)
    elif options.assertion_path:
        assertion = _read(options.assertion_path).strip()
    else:
        assertion = options.assertion
    form |= {"client_assertion_type": options.assertion_type, "client_assertion": assertion}
    return {**form, "client_id": options.client_id} if options.client_id else form


def _signed_assertion(options: OAuth2) -> str:
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
            raise CredentialsError("thumbprint is not hexadecimal") from None
        header["x5t"] = base64.urlsafe_b64encode(octets).decode()
    key = options.signing_key
    assert key is not None
    try:
        private = _read(key.private_key) if os.path.isfile(key.private_key) else key.private_key
        return compact_token(claims, private, key.algorithm, header)
    except SignatureError as error:
        raise CredentialsError(str(error)) from None


# The metadata servers of clouds


def _gcp(options: GcpMetadata, fetch: Fetch) -> tuple[str, float]:
    if options.audience:
        what, query = "identity", f"{options.identity_token_path}?audience={options.audience}"
    else:
        scopes = ",".join(options.scopes)
        what, query = "access", f"{options.access_token_path}?scopes={scopes}"
    url = options.endpoint + query
    response = fetch(httpx.Request("GET", url, headers={"metadata-flavor": "Google"}))
    if response.status_code != 200:
        reasons = {400: "invalid request", 404: "not found"}
        raise CredentialsError(
            f"error retrieving {what} token from gcp metadata service: "
            f"error retrieving gcp ID token from {url} {response.status_code}: "
            f"{reasons.get(response.status_code, 'unexpected error')}"
        )
    if what == "identity":
        return response.text, 0.0
    document = _document(response, "the response of gcp's metadata service")
    return str(document.get("access_token", "")), _kept(document.get("expires_in"))


def _azure(options: AzureIdentity, fetch: Fetch) -> tuple[str, float]:
    offered = os.environ.get("IDENTITY_ENDPOINT", "")
    of_app_service = options.app_service or bool(offered and not options.endpoint)
    version = options.api_version or ("2019-08-01" if of_app_service else "2018-02-01")
    parameters = {"api-version": version, "resource": options.resource}
    for name in ("object_id", "client_id", "mi_res_id"):
        if value := getattr(options, name):
            parameters[name] = value
    if not of_app_service:
        headers = {"metadata": "true"}
    elif "IDENTITY_HEADER" in os.environ:
        headers = {"x-identity-header": os.environ["IDENTITY_HEADER"]}
    else:
        raise CredentialsError("azure managed identities auth: IDENTITY_HEADER env var not found")
    url = f"{options.endpoint or offered or _AZURE}?{urlencode(sorted(parameters.items()))}"
    response = fetch(httpx.Request("GET", url, headers=headers))
    document = _document(response, "the response of azure's identity service")
    if response.status_code != 200:
        raise CredentialsError(
            f"{response.status_code} {document.get('error', '')} retrieving azure token from "
            f"{url}: {str(document.get('error_description', ''))[:_SHOWN]}"
        )
    return str(document.get("access_token", "")), _kept(document.get("expires_in"))


# AWS


@dataclass(frozen=True, slots=True)
class _AwsKeys:
    access_key: str
    secret_key: str
    region: str
    session_token: str = ""


def _aws_headers(request: httpx.Request, keys: _AwsKeys, service: str) -> dict[str, str]:
    given = {
        name: value
        for name, value in request.headers.items()
        if name in ("content-encoding", "content-type", "if-none-match", "prefer")
    }
    config: dict[Any, Value] = {
        "aws_access_key": keys.access_key,
        "aws_secret_access_key": keys.secret_key,
        "aws_region": keys.region,
        "aws_service": service,
    }
    if keys.session_token:
        config["aws_session_token"] = keys.session_token
    unsigned: dict[Any, Value] = {
        "method": request.method,
        "url": str(request.url),
        "headers": dict(given.items()),
        # Any bytes, as the language holds them.
        "raw_body": request.content.decode("utf-8", "surrogateescape"),
    }
    try:
        signed: Any = REGISTRY["providers.aws.sign_req"].call(unsigned, config, time.time_ns())
    except CALL_ERRORS as error:
        raise CredentialsError(f"cannot sign for AWS: {error}") from None
    return {str(name): str(value) for name, value in signed["headers"].items()}


def _aws_keys(options: AwsSigning, fetch: Fetch) -> tuple[_AwsKeys, float]:
    sources: Mapping[str, Callable[[], tuple[_AwsKeys, float]]] = {
        "environment": _aws_environment,
        "profile": lambda: _aws_profile(options),
        "metadata": lambda: _aws_metadata(options, fetch),
        "web_identity": lambda: _aws_web_identity(options, fetch),
    }
    errors: list[str] = []
    for name in options.source.split(","):
        try:
            return sources[name]()
        except CredentialsError as error:
            errors.append(str(error))
    count = f"{len(errors)} error{'s' if len(errors) > 1 else ''} occurred"
    joined = f": {errors[0]}" if len(errors) == 1 else ":\n" + "\n".join(errors)
    raise CredentialsError(
        f"failed to get aws credentials: all AWS credential providers failed: {count}{joined}"
    )


def _aws_environment() -> tuple[_AwsKeys, float]:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    for name in names:
        if not os.environ.get(name):
            raise CredentialsError(f"no {name} set in environment")
    access, secret, region = (os.environ[name] for name in names)
    tokens = (os.environ.get("AWS_SECURITY_TOKEN"), os.environ.get("AWS_SESSION_TOKEN"))
    return _AwsKeys(access, secret, region, tokens[0] or tokens[1] or ""), 0.0


def _aws_profile(options: AwsSigning) -> tuple[_AwsKeys, float]:
    home = os.path.expanduser("~/.aws/credentials")
    path = options.path or os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home
    name = options.profile or os.environ.get("AWS_PROFILE") or "default"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(_read(path))
        profile = parser[name]
    except (configparser.Error, KeyError):
        raise CredentialsError(f"{path}: there is no profile `{name}`") from None
    access, secret = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")
    region = options.region or os.environ.get("AWS_REGION", "")
    if not access or not secret or not region:
        raise CredentialsError(f"{path}: the profile `{name}` lacks a key, or there is no region")
    return _AwsKeys(access, secret, region, profile.get("aws_session_token", "")), 0.0


def _aws_metadata(options: AwsSigning, fetch: Fetch) -> tuple[_AwsKeys, float]:
    relative = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    full = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if relative or full:
        headers = {}
        if token := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"):
            headers["authorization"] = token
        url = full or f"http://169.254.170.2{relative}"
        return _aws_answer(fetch(httpx.Request("GET", url, headers=headers)), options.region)
    lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
    session = fetch(httpx.Request("PUT", f"{_AWS}/latest/api/token", headers=lifetime))
    headers = {"x-aws-ec2-metadata-token": session.text} if session.status_code == 200 else {}
    roles = f"{_AWS}/latest/meta-data/iam/security-credentials/"
    role = options.role or fetch(httpx.Request("GET", roles, headers=headers)).text.strip()
    url = roles + quote(role, safe="")
    return _aws_answer(fetch(httpx.Request("GET", url, headers=headers)), options.region)


def _aws_answer(response: httpx.Response, region: str) -> tuple[_AwsKeys, float]:
    if response.status_code != 200:
        raise CredentialsError(f"metadata HTTP request returned {response.status_code}")
    document = _document(response, "the response of the metadata service")
    keys = _AwsKeys(
        str(document.get("AccessKeyId", "")),
        str(document.get("SecretAccessKey", "")),
        region,
        str(document.get("Token", "")),
    )
    if not keys.access_key or not keys.secret_key:
        raise CredentialsError("the metadata service gave no key")
    return keys, _KEPT_KEYS


_KEPT_KEYS: Final = 300.0
"""Seconds: keys of a machine's role are renewed at least five minutes before they expire."""
_STS: Final = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken)>([^<]{1,4096})</")


def _aws_web_identity(options: AwsSigning, fetch: Fetch) -> tuple[_AwsKeys, float]:
    role, path = os.environ.get("AWS_ROLE_ARN"), os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    region = options.region or os.environ.get("AWS_REGION", "")
    if not role or not path or not region:
        raise CredentialsError(
            "no AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE or AWS_REGION set in environment"
        )
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "RoleSessionName": options.session_name,
        "RoleArn": role,
        "WebIdentityToken": _read(path).strip(),
        "Version": "2011-06-15",
    }
    headers = {"content-type": "application/x-www-form-urlencoded"}
    url = f"https://sts.{region}.{options.domain}"
    request = httpx.Request("POST", url, headers=headers, content=urlencode(form).encode())
    response = fetch(request)
    if response.status_code != 200:
        raise CredentialsError(f"STS HTTP request returned {response.status_code}")
    given = dict(_STS.findall(response.text))
    if len(given) < 3:
        raise CredentialsError("the response of STS holds no credentials")
    keys = _AwsKeys(given["AccessKeyId"], given["SecretAccessKey"], region, given["SessionToken"])
    return keys, _KEPT_KEYS
