"""Credentials of AWS, from each source that OPA knows, and the signers that use them.

environment, role, web identity, profile, metadata, single sign-on: the first that has keys
  -> keys, cached for some minutes -> a signed request, or the password of a registry
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock
from typing import Final
from urllib.parse import quote, urlencode

import httpx

from doorward.base.records import record
from doorward.config.services import AwsSigning, AwsSource
from doorward.control.aws_signing import AwsKeys, sign_request
from doorward.control.fetching import CredentialsError, Fetch, document_of, read_text

__all__ = ["AwsAuth", "AwsKeyChain", "EcrAuth"]

_METADATA: Final = "http://169.254.169.254"
_DEFAULT_SECONDS: Final = 300.0
"""The seconds for which keys of a machine or role are cached; AWS renews them at least five minutes
before they expire.
"""
_SPARE: Final = 300.0
"""The seconds before its expiry from which a password, or keys of a session, are renewed."""
_PASSWORD_SECONDS: Final = 43_200.0
_SESSION_SECONDS: Final = 3_600.0
_TOKEN_SECONDS: Final = 86_400.0
"""The most seconds for which a password of ECR, the keys of a session and the token of a session
are used, whatever a service says of their expiry."""
# No parser of XML, whose entities would have to be bounded: keys and tokens are of characters that
# XML does not escape.
_STS: Final = re.compile(r"<(AccessKeyId|SecretAccessKey|SessionToken)>([^<]{1,4096})</")
_RESERVED: Final = re.compile(rb"[^A-Za-z0-9\-._~/%]")
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}

_Keys = tuple[AwsKeys, float]
"""Keys, and for how many seconds they are cached."""


class AwsAuth(httpx.Auth):
    """Signs requests with keys of AWS. A request that is redirected to another host is not signed
    again.
    """

    # The signature covers a digest of the content, which httpx must have read before `auth_flow`.
    requires_request_body = True

    def __init__(
        self, options: AwsSigning, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._keys = AwsKeyChain(options, fetch, clock=clock)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the headers that sign the request; for S3, encode its path as S3 reads it before it
        verifies the signature. CredentialsError if there are no keys.
        """
        keys, options = self._keys.get(), self._options
        if options.service == "s3":
            request.url = _encode_path(request.url)
        request.headers.update(sign_request(request, keys, options.service, options.version))
        yield request


def _encode_path(url: httpx.URL) -> httpx.URL:
    """Return the URL with all characters of the path encoded that AWS encodes, such as `=` in
    `stage=prod/b.tar.gz`; existing escapes stay.
    """
    path, mark, query = url.raw_path.partition(b"?")
    encoded = _RESERVED.sub(lambda match: b"%%%02X" % ord(match[0]), path)
    return url.copy_with(raw_path=encoded + mark + query)


class EcrAuth(httpx.Auth):
    """Adds the password of Amazon's container registry (ECR) to requests. A password is valid for
    twelve hours and is cached until shortly before.
    """

    def __init__(
        self, options: AwsSigning, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._options = options
        self._clock = clock
        self._keys = AwsKeyChain(options, fetch, clock=clock)
        self._password: str | None = None
        self._until = 0.0
        self._lock = Lock()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the password of ECR to a request; a new one is fetched five minutes before the end of
        the old one. CredentialsError if there is none.
        """
        with self._lock:
            if self._password is None or self._clock() >= self._until:
                self._password, seconds = self._fetch_token()
                self._until = self._clock() + seconds
        request.headers["authorization"] = f"Basic {self._password}"
        yield request

    def _fetch_token(self) -> tuple[str, float]:
        """Fetch a password from ECR; return it with the seconds for which it is used.
        CredentialsError if there is none.
        """
        keys = self._keys.get()
        headers = {
            "content-type": "application/x-amz-json-1.1",
            "x-amz-target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
        }
        url = f"https://api.ecr.{keys.region}.amazonaws.com/"
        request = httpx.Request("POST", url, headers=headers, content=b"{}")
        request.headers.update(sign_request(request, keys, "ecr", self._options.version))
        response = self._fetch(request)
        if response.status_code != 200:
            raise CredentialsError(
                f"ECR answered with {response.status_code}: check that the keys have the "
                "permission ecr:GetAuthorizationToken"
            )
        match document_of(response, "the response of ECR"):
            case {
                "authorizationData": [
                    {"authorizationToken": str(password), "expiresAt": int() | float() as until},
                    *_,
                ]
            }:
                return password, _seconds_left(until, _PASSWORD_SECONDS)
        raise CredentialsError("the response of ECR has no token or no expiry time")


class AwsKeyChain:
    """Gives the AWS keys of the first source that has any, and caches them; thread-safe."""

    def __init__(
        self, options: AwsSigning, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._fetch = fetch
        self._clock = clock
        self._keys: AwsKeys | None = None
        self._until = 0.0
        self._lock = Lock()
        self._sessions = [_Session(each, fetch) for each in options.sources if each.kind == "sso"]

    def get(self) -> AwsKeys:
        """Return the cached keys or, when they are too old, those of the first source that has any.
        May wait for the network. CredentialsError if no source has keys.
        """
        with self._lock:
            if self._keys is None or self._clock() >= self._until:
                self._keys, seconds = self._find()
                self._until = self._clock() + seconds
            return self._keys

    def _find(self) -> _Keys:
        """Return the keys of the first source that has any, and for how many seconds they are
        cached. CredentialsError, with the reasons of all sources, if none has.
        """
        errors: list[str] = []
        for source in self._options.sources:
            try:
                if source.kind == "sso":
                    # A configuration has at most one source of a kind.
                    return self._sessions[0].keys()
                return _SOURCES[source.kind](source, self._fetch)
            except CredentialsError as error:
                errors.append(str(error))
        count = f"{len(errors)} error{'s' if len(errors) > 1 else ''} occurred"
        joined = f": {errors[0]}" if len(errors) == 1 else ":\n" + "\n".join(errors)
        raise CredentialsError(
            f"failed to get aws credentials: all AWS credential providers failed: {count}{joined}"
        )


def _environment(_: AwsSource, __: Fetch) -> _Keys:
    """Return the keys in AWS's environment variables; 0.0 seconds means that they are not cached.
    CredentialsError if one is missing.
    """
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    for name in names:
        if not os.environ.get(name):
            raise CredentialsError(f"no {name} set in environment")
    access, secret, region = (os.environ[name] for name in names)
    # The second is AWS's older name, which may be left over from other keys.
    token = os.environ.get("AWS_SESSION_TOKEN") or os.environ.get("AWS_SECURITY_TOKEN") or ""
    return AwsKeys(access, secret, region, token), 0.0


def _sections(path: str) -> configparser.ConfigParser:
    """Read an INI file of AWS profiles. CredentialsError if it cannot be read or parsed."""
    # Without interpolation, for which a `%` in a secret is an error.
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(read_text(path))
    except configparser.Error:
        # Not the parser's text: it quotes the line, which may be a secret.
        raise CredentialsError(f"{path}: not an INI file with profiles") from None
    return parser


def _profile(source: AwsSource, _: Fetch) -> _Keys:
    """Return the keys of a profile in the file of shared credentials; they are not cached.
    CredentialsError if a key, the region or the profile is missing.
    """
    home = os.path.expanduser("~/.aws/credentials")
    path = source.path or os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or home
    name = source.profile or os.environ.get("AWS_PROFILE") or "default"
    try:
        profile = _sections(path)[name]
    except KeyError:
        raise CredentialsError(f"{path}: the file has no profile `{name}`") from None
    access = profile.get("aws_access_key_id", "")
    secret = profile.get("aws_secret_access_key", "")
    region = source.region or os.environ.get("AWS_REGION", "")
    needed = {"aws_access_key_id": access, "aws_secret_access_key": secret}
    if missing := [key for key, value in needed.items() if not value]:
        raise CredentialsError(f"{path}: the profile `{name}` has no {' and no '.join(missing)}")
    if not region:
        raise CredentialsError(
            f"no region for the profile `{name}`: set `aws_region` in the configuration, or "
            "AWS_REGION in the environment"
        )
    return AwsKeys(access, secret, region, profile.get("aws_session_token", "")), 0.0


def _fetch_metadata_keys(source: AwsSource, fetch: Fetch) -> _Keys:
    """Fetch keys from the metadata service: those of the configured role of an EC2 instance, else
    those of the container, else those of the instance. On EC2 a session token is used if version 2
    of the service gives one. CredentialsError if there are none.
    """
    region = source.region or os.environ.get("AWS_REGION", "")
    relative = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    full = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not source.role and (relative or full):
        token = _container_token()
        headers = {"authorization": token} if token else {}
        url = f"http://169.254.170.2{relative}" if relative else full or ""
        return _of_machine(fetch(httpx.Request("GET", url, headers=headers)), region)
    # Version 2 of the instance metadata service needs a token; version 1 refuses this request, and
    # then needs none.
    lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
    session = fetch(httpx.Request("PUT", f"{_METADATA}/latest/api/token", headers=lifetime))
    headers = {"x-aws-ec2-metadata-token": session.text} if session.status_code == 200 else {}
    roles = f"{_METADATA}/latest/meta-data/iam/security-credentials/"
    role = source.role
    if not role:
        response = fetch(httpx.Request("GET", roles, headers=headers))
        role = response.text.strip() if response.status_code == 200 else ""
        if not role or "\n" in role:
            raise CredentialsError(
                "the AWS metadata service names no role: give one to the instance"
            )
    url = roles + quote(role, safe="")
    return _of_machine(fetch(httpx.Request("GET", url, headers=headers)), region)


def _container_token() -> str:
    """The token that a container sends for its keys, from a file (as in pods of EKS) or a variable;
    "" without either. CredentialsError if the file cannot be read.
    """
    if path := os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        return read_text(path).strip()
    return os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "").strip()


def _of_machine(response: httpx.Response, region: str) -> _Keys:
    """Return the keys in a response of the metadata service, and the seconds for which they are
    cached, always `_DEFAULT_SECONDS`; CredentialsError if it has none.
    """
    if response.status_code != 200:
        raise CredentialsError(f"metadata HTTP request returned {response.status_code}")
    document = document_of(response, "the response of the metadata service")
    access, secret, token = (
        value if isinstance(value := document.get(name), str) else ""
        for name in ("AccessKeyId", "SecretAccessKey", "Token")
    )
    keys = AwsKeys(access, secret, region, token)
    if not keys.access_key or not keys.secret_key:
        raise CredentialsError(
            "the AWS metadata service returned no access key: give a role to the "
            "instance or the task"
        )
    return keys, _DEFAULT_SECONDS


def _exchange_web_identity(source: AwsSource, fetch: Fetch) -> _Keys:
    """Exchange the token of a web identity, from a file, for keys of its role at STS.
    CredentialsError if a setting is missing or STS refuses.
    """
    role = os.environ.get("AWS_ROLE_ARN", "")
    path = os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE", "")
    region = source.region or os.environ.get("AWS_REGION", "")
    needed = {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": path, "AWS_REGION": region}
    if missing := [name for name, value in needed.items() if not value]:
        raise CredentialsError(f"no {', '.join(missing)} set in environment for a web identity")
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "RoleSessionName": source.session_name,
        "RoleArn": role,
        "WebIdentityToken": read_text(path).strip(),
        "Version": "2011-06-15",
    }
    return _of_sts(fetch(_sts_request(source, region, form)), region)


def _assume_role(source: AwsSource, fetch: Fetch) -> _Keys:
    """Exchange the keys of another source for those of a role at STS. CredentialsError if a setting
    is missing or STS refuses.
    """
    region = source.region or os.environ.get("AWS_REGION", "")
    role = source.role or os.environ.get("AWS_ROLE_ARN", "")
    if not region or not role:
        name = "AWS_ROLE_ARN" if region else "AWS_REGION"
        raise CredentialsError(f"no {name} set in environment or configuration")
    assert source.signing is not None
    source_keys, _ = _SOURCES[source.signing.kind](source.signing, fetch)
    form = {
        "Action": "AssumeRole",
        "RoleSessionName": source.session_name,
        "RoleArn": role,
        "Version": "2011-06-15",
    }
    request = _sts_request(source, region, form)
    request.headers.update(sign_request(request, source_keys, "sts", source.version))
    return _of_sts(fetch(request), region)


def _sts_request(source: AwsSource, region: str, form: Mapping[str, str]) -> httpx.Request:
    """Return a request to STS in the region, with `form` as its content; not signed. The domain is
    that of `source`, else of AWS_DOMAIN, else `amazonaws.com`, also for regions in China.
    """
    domain = (source.domain or os.environ.get("AWS_DOMAIN") or "amazonaws.com").lower()
    url = f"https://sts.{region.lower()}.{domain}"
    return httpx.Request("POST", url, headers=_FORM, content=urlencode(form).encode())


def _of_sts(response: httpx.Response, region: str) -> _Keys:
    """Return the keys in a response of STS, and the seconds for which they are cached, always
    `_DEFAULT_SECONDS`; CredentialsError if it has none.
    """
    if response.status_code != 200:
        raise CredentialsError(f"STS HTTP request returned {response.status_code}")
    fields = dict(_STS.findall(response.text))
    if len(fields) < 3:
        raise CredentialsError("the response of STS contains no credentials")
    keys = AwsKeys(fields["AccessKeyId"], fields["SecretAccessKey"], region, fields["SessionToken"])
    return keys, _DEFAULT_SECONDS


_SOURCES: Final[Mapping[str, Callable[[AwsSource, Fetch], _Keys]]] = {
    "environment": _environment,
    "assume_role": _assume_role,
    "web_identity": _exchange_web_identity,
    "profile": _profile,
    "metadata": _fetch_metadata_keys,
}


@record
class _SignedOn:
    """The tokens that `aws sso login` stored, and the data to renew them. Times are Unix seconds, 0
    if unknown.
    """

    region: str
    login_region: str
    """The region of IAM Identity Center, which need not be the one that the profile uses."""
    account: str
    role: str
    token: str
    until: float
    refresh_token: str = ""
    client_id: str = ""
    client_secret: str = ""
    client_until: float = 0.0


class _Session:
    """Keys by a session of AWS IAM Identity Center. Not thread-safe: its owner holds a lock."""

    def __init__(self, source: AwsSource, fetch: Fetch) -> None:
        self._source = source
        self._fetch = fetch
        self._renewed: _SignedOn | None = None

    def keys(self) -> _Keys:
        """Fetch keys from the SSO portal, after renewing the token if it has expired; return them
        with the seconds for which they are cached. A renewed token is kept for the next call.
        CredentialsError if that fails.
        """
        session = _read_sign_on(self._source)
        # A later `aws sso login` counts, and nothing does after `aws sso logout`.
        if self._renewed is not None and self._renewed.until > session.until:
            session = self._renewed
        if session.until <= time.time():
            session = self._renewed = self._renew(session)
        query = urlencode({"account_id": session.account, "role_name": session.role})
        url = f"https://portal.sso.{session.login_region}.amazonaws.com/federation/credentials?{query}"
        # OPA sends a bearer's token; the service documents a header of its own.
        headers = {
            "authorization": f"Bearer {session.token}",
            "x-amz-sso_bearer_token": session.token,
        }
        response = self._fetch(httpx.Request("GET", url, headers=headers))
        if response.status_code != 200:
            raise CredentialsError(
                f"the portal of AWS SSO answered with {response.status_code}: if the session has "
                "ended, run `aws sso login`"
            )
        match document_of(response, "the response of the portal of AWS SSO"):
            case {
                "roleCredentials": {
                    "accessKeyId": str(access),
                    "secretAccessKey": str(secret),
                    "sessionToken": str(token),
                    **rest,
                }
            }:
                until = rest.get("expiration")
                # In milliseconds, unlike the other times of these services.
                until = until // 1000 if type(until) is int else 0
                keys = AwsKeys(access, secret, session.region, token)
                return keys, _seconds_left(until, _SESSION_SECONDS)
        raise CredentialsError("the portal of AWS SSO returned no access keys")

    def _renew(self, session: _SignedOn) -> _SignedOn:
        """Return the session with a new token, for its refresh token, which counts as valid for at
        most `_TOKEN_SECONDS`. CredentialsError if it has none, the client's registration has
        expired, or the service refuses. Nothing is written to disk.
        """
        if session.client_until <= time.time():
            raise CredentialsError(
                "cannot refresh token, registration expired: run `aws sso login`"
            )
        if not session.refresh_token:
            raise CredentialsError(
                "failed to refresh token: refresh token is empty: run `aws sso login`"
            )
        body = {
            "clientId": session.client_id,
            "clientSecret": session.client_secret,
            "refreshToken": session.refresh_token,
            "grantType": "refresh_token",
        }
        url = f"https://oidc.{session.login_region}.amazonaws.com/token"
        headers = {"content-type": "application/json"}
        request = httpx.Request("POST", url, headers=headers, content=json.dumps(body).encode())
        response = self._fetch(request)
        if response.status_code != 200:
            raise CredentialsError(
                f"failed to refresh token: AWS SSO answered with {response.status_code}: if the "
                "session has ended, run `aws sso login`"
            )
        match document_of(response, "the response of AWS SSO"):
            case {"accessToken": str(token), "expiresIn": int(seconds), **rest}:
                again = rest.get("refreshToken")
                return replace(
                    session,
                    token=token,
                    until=time.time() + min(max(0.0, seconds), _TOKEN_SECONDS),
                    refresh_token=again if isinstance(again, str) else session.refresh_token,
                )
        raise CredentialsError(
            "failed to refresh token: AWS SSO returned no token: run `aws sso login`"
        )


def _read_sign_on(source: AwsSource) -> _SignedOn:
    """Read the session that `aws sso login` stored for the profile of `source`, from the AWS
    configuration file and the cache of sessions. It may have expired; values missing from the cache
    are "" or 0. CredentialsError if the profile lacks a setting, or a file cannot be read.
    """
    home = os.path.expanduser("~/.aws")
    path = source.path or os.environ.get("AWS_CONFIG_FILE") or os.path.join(home, "config")
    name = source.profile or os.environ.get("AWS_PROFILE") or "default"
    sections = _sections(path)
    title = f"profile {name}" if sections.has_section(f"profile {name}") else name
    if not sections.has_section(title):
        raise CredentialsError(f"failed to load session: failed to find profile {name}")
    profile = sections[title]
    for key in ("sso_account_id", "region", "sso_role_name", "sso_session"):
        if not profile.get(key):
            raise CredentialsError(
                f"failed to load session: failed to find {key} key in profile {name}"
            )
    session = profile["sso_session"]
    folder = source.cache_path or os.path.join(home, "sso", "cache")
    # The name of the file is the command line's of AWS, and no secret.
    digest = hashlib.sha1(session.encode(), usedforsecurity=False).hexdigest()
    file = os.path.join(folder, f"{digest}.json")
    try:
        cached = json.loads(read_text(file))
    except (ValueError, RecursionError):
        cached = None
    if not isinstance(cached, dict):
        raise CredentialsError(
            f"failed to load SSO credentials: {file} is not a JSON object: run `aws sso login`"
        )

    def text(key: str) -> str:
        value = cached.get(key)
        return value if isinstance(value, str) else ""

    return _SignedOn(
        region=profile["region"],
        login_region=text("region") or profile["region"],
        account=profile["sso_account_id"],
        role=profile["sso_role_name"],
        token=text("accessToken"),
        until=_seconds(text("expiresAt")),
        refresh_token=text("refreshToken"),
        client_id=text("clientId"),
        client_secret=text("clientSecret"),
        client_until=_seconds(text("registrationExpiresAt")),
    )


def _seconds_left(until: float, longest: float) -> float:
    """Return the seconds from now until `_SPARE` before a Unix time: at least 0.0, at most
    `longest`. `until` is a number of JSON, so an integer of any size, or an infinity or NaN.
    """
    now = time.time()
    # In this order: NaN is not greater than `now`, and no large integer becomes a float.
    until = min(max(now, until), now + longest + _SPARE)
    return max(until - now - _SPARE, 0.0)


def _seconds(text: str) -> float:
    """Return a time such as 2026-01-02T03:04:05Z as Unix seconds; 0 if it is not valid."""
    try:
        # Older versions of the `aws` command write `UTC` behind the time.
        when = datetime.fromisoformat(text.replace("UTC", "Z"))
    except ValueError:
        return 0.0
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
