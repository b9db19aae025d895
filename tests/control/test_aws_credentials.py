"""Keys of AWS come from where OPA takes them, in its order, and are renewed in time."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest

from doorward.config.configuration import parse_config
from doorward.config.services import AwsSigning, AwsSource
from doorward.control.answers import ServiceError
from doorward.control.aws_credentials import AwsKeyChain, EcrAuth
from doorward.control.client import ServiceClient

STS = """<AssumeRoleResponse><AssumeRoleResult><Credentials>
<AccessKeyId>role-key</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey>
<SessionToken>role-token</SessionToken></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
Respond = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def client(respond: Respond, signing: dict[str, Any], **service: Any) -> ServiceClient:
    document = {"url": "https://s", "credentials": {"s3_signing": signing}, **service}
    config = parse_config(json.dumps({"services": {"s": document}}), environment={})
    return ServiceClient(config.services["s"], transport=httpx.MockTransport(respond))


def recorder(answers: dict[str, httpx.Response]) -> tuple[Respond, list[httpx.Request]]:
    """Answers by host; 404 for others."""
    seen: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answers.get(request.url.host, httpx.Response(404))

    return respond, seen


def sign_with(monkeypatch: pytest.MonkeyPatch, key: str = "own-key") -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own-secret")
    monkeypatch.setenv("AWS_REGION", "eu-x-1")


def test_a_role_is_assumed_with_keys_of_another_source(monkeypatch: pytest.MonkeyPatch) -> None:
    sign_with(monkeypatch)
    sts = "sts.eu-x-1.amazonaws.com"
    respond, seen = recorder({sts: httpx.Response(200, text=STS), "s": httpx.Response(200)})
    role = {
        "iam_role_arn": "arn:aws:iam::1:role/r",
        "session_name": "mine",
        "aws_signing": {"environment_credentials": {}},
    }
    asking = client(respond, {"assume_role_credentials": role})
    asking.request("GET", "a")
    asking.request("GET", "b")
    first, second, third = seen
    assert first.url.host == sts
    assert parse_qs(first.content.decode()) == {
        "Action": ["AssumeRole"],
        "RoleArn": ["arn:aws:iam::1:role/r"],
        "RoleSessionName": ["mine"],
        "Version": ["2011-06-15"],
    }
    scope = "/eu-x-1/sts/aws4_request"
    assert (
        f"Credential=own-key/{time.strftime('%Y%m%d', time.gmtime())}{scope}"
        in (first.headers["authorization"])
    )
    for each in (second, third):
        assert "Credential=role-key/" in each.headers["authorization"]
        assert each.headers["x-amz-security-token"] == "role-token"


def test_a_role_that_may_not_be_assumed_fails_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    sign_with(monkeypatch)
    role = {
        "iam_role_arn": "r",
        "aws_domain": "Example.cn",
        "aws_signing": {"environment_credentials": {}},
    }
    host = "sts.eu-x-1.example.cn"
    respond, _ = recorder({host: httpx.Response(403)})
    with pytest.raises(ServiceError, match="STS HTTP request returned 403"):
        client(respond, {"assume_role_credentials": role}).request("GET", "a")


@pytest.mark.parametrize(
    ("session", "older", "sent"), [("s", "o", "s"), ("", "o", "o"), ("s", None, "s"), ("", "", "")]
)
def test_the_older_name_of_a_session_token_is_read_where_the_newer_is_empty(
    monkeypatch: pytest.MonkeyPatch, session: str, older: str | None, sent: str
) -> None:
    sign_with(monkeypatch)
    monkeypatch.setenv("AWS_SESSION_TOKEN", session)
    if older is not None:
        monkeypatch.setenv("AWS_SECURITY_TOKEN", older)
    respond, seen = recorder({"s": httpx.Response(200)})
    client(respond, {"environment_credentials": {}}).request("GET", "a")
    assert seen[0].headers.get("x-amz-security-token", "") == sent


def test_the_next_source_is_asked_where_one_has_no_keys(tmp_path: Path) -> None:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = file-key\naws_secret_access_key = s\n"
    )
    respond, seen = recorder({"s": httpx.Response(200)})
    sources = {"environment_credentials": {}, "profile_credentials": {"aws_region": "r"}}
    client(respond, sources).request("GET", "a")
    assert "Credential=file-key/" in seen[0].headers["authorization"]


def signed_on(folder: Path, *, expires: str = "2099-01-01T00:00:00Z", **more: str) -> None:
    """What `aws configure sso` and `aws sso login` leave."""
    (folder / "config").write_text(
        "[profile p]\nsso_session = dev\nsso_account_id = 12\nsso_role_name = reader\n"
        "region = eu-x-1\n[sso-session dev]\nsso_start_url = https://start\n"
    )
    name = hashlib.sha1(b"dev", usedforsecurity=False).hexdigest()
    kept = {"accessToken": "access", "expiresAt": expires, **more}
    (folder / f"{name}.json").write_text(json.dumps(kept))


def sso(folder: Path) -> dict[str, Any]:
    options = {"path": str(folder / "config"), "cache_path": str(folder), "profile": "p"}
    return {"sso_credentials": options}


def portal(expiration: int) -> httpx.Response:
    keys = {"accessKeyId": "sso-key", "secretAccessKey": "s", "sessionToken": "t"}
    return httpx.Response(200, json={"roleCredentials": {**keys, "expiration": expiration}})


def test_keys_come_by_single_sign_on(tmp_path: Path) -> None:
    signed_on(tmp_path)
    host = "portal.sso.eu-x-1.amazonaws.com"
    in_an_hour = int(time.time() + 3600) * 1000
    respond, seen = recorder({host: portal(in_an_hour), "s": httpx.Response(200)})
    asking = client(respond, sso(tmp_path))
    asking.request("GET", "a")
    asking.request("GET", "b")
    assert [each.url.host for each in seen] == [host, "s", "s"]
    assert dict(seen[0].url.params) == {"account_id": "12", "role_name": "reader"}
    assert seen[0].headers["authorization"] == "Bearer access"
    assert "Credential=sso-key/" in seen[2].headers["authorization"]


@pytest.mark.parametrize("content", ["[" * 20_000, "[]", "x"])
def test_a_session_that_cannot_be_read_is_an_error(tmp_path: Path, content: str) -> None:
    signed_on(tmp_path)
    [stored] = tmp_path.glob("*.json")
    stored.write_text(content)
    respond, _ = recorder({"s": httpx.Response(200)})
    with pytest.raises(ServiceError, match="failed to load SSO credentials"):
        client(respond, sso(tmp_path)).request("GET", "a")


def test_a_session_that_ended_is_renewed(tmp_path: Path) -> None:
    signed_on(
        tmp_path,
        expires="2020-01-01T00:00:00UTC",
        refreshToken="again",
        clientId="i",
        clientSecret="s",
        registrationExpiresAt="2099-01-01T00:00:00Z",
    )
    renewed = {"accessToken": "newer", "expiresIn": 3600, "refreshToken": "more"}
    answers = {
        "oidc.eu-x-1.amazonaws.com": httpx.Response(200, json=renewed),
        "portal.sso.eu-x-1.amazonaws.com": portal(0),
        "s": httpx.Response(200),
    }
    respond, seen = recorder(answers)
    client(respond, sso(tmp_path)).request("GET", "a")
    assert json.loads(seen[0].content)["refreshToken"] == "again"
    assert seen[1].headers["authorization"] == "Bearer newer"


def test_a_session_that_cannot_be_renewed_is_an_error(tmp_path: Path) -> None:
    signed_on(tmp_path, expires="2020-01-01T00:00:00Z")
    with pytest.raises(ServiceError, match="cannot refresh token, registration expired"):
        client(recorder({})[0], sso(tmp_path)).request("GET", "a")
    missing = {"sso_credentials": {"path": str(tmp_path / "config"), "profile": "q"}}
    with pytest.raises(ServiceError, match="failed to find profile q"):
        client(recorder({})[0], missing).request("GET", "a")


def test_the_session_of_another_region_is_used_there(tmp_path: Path) -> None:
    signed_on(tmp_path, region="us-x-9")
    host = "portal.sso.us-x-9.amazonaws.com"
    respond, seen = recorder({host: portal(0), "s": httpx.Response(200)})
    client(respond, sso(tmp_path)).request("GET", "a")
    assert seen[0].url.host == host
    assert "/eu-x-1/s3/aws4_request" in seen[1].headers["authorization"]


def test_a_new_login_replaces_a_session_that_ended(tmp_path: Path) -> None:
    signed_on(tmp_path)
    host = "portal.sso.eu-x-1.amazonaws.com"
    respond, seen = recorder({host: portal(0), "s": httpx.Response(200)})
    asking = client(respond, sso(tmp_path))
    asking.request("GET", "a")
    signed_on(tmp_path, expires="2020-01-01T00:00:00Z")
    with pytest.raises(ServiceError, match="registration expired"):
        asking.request("GET", "a")
    signed_on(tmp_path, accessToken="after login")
    asking.request("GET", "a")
    sent = [each.headers["authorization"] for each in seen if each.url.host == host]
    assert sent == ["Bearer access", "Bearer after login"]


KEYS = {"AccessKeyId": "machine-key", "SecretAccessKey": "s", "Token": "t"}
METADATA = {"metadata_credentials": {"aws_region": "r"}}


def test_keys_of_a_pod_are_requested_with_the_token_in_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "older")
    answers = {"169.254.170.23": httpx.Response(200, json=KEYS), "s": httpx.Response(200)}
    respond, seen = recorder(answers)
    with pytest.raises(ServiceError, match="no such file"):
        client(respond, METADATA).request("GET", "a")
    token.write_text("of-the-pod\n")
    client(respond, METADATA).request("GET", "a")
    assert seen[0].headers["authorization"] == "of-the-pod"
    assert "Credential=machine-key/" in seen[1].headers["authorization"]


@pytest.mark.parametrize(
    ("role", "urls"),
    [
        ("", ["http://169.254.170.2/task"]),
        (
            "r",
            [
                "http://169.254.169.254/latest/api/token",
                "http://169.254.169.254/latest/meta-data/iam/security-credentials/r",
            ],
        ),
    ],
)
def test_the_relative_address_of_a_container_counts_unless_a_role_is_configured(
    monkeypatch: pytest.MonkeyPatch, role: str, urls: list[str]
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/task")
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://full/x")
    hosts = ("169.254.170.2", "169.254.169.254", "s")
    respond, seen = recorder({host: httpx.Response(200, json=KEYS) for host in hosts})
    options = {"metadata_credentials": {"aws_region": "r", "iam_role": role}}
    client(respond, options).request("GET", "a")
    assert [str(each.url) for each in seen[:-1]] == urls


@pytest.mark.parametrize("keys", [{**KEYS, "AccessKeyId": None}, {**KEYS, "SecretAccessKey": 1}])
def test_keys_that_are_not_texts_are_an_error(
    monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/task")
    respond, _ = recorder({"169.254.170.2": httpx.Response(200, json=keys)})
    with pytest.raises(ServiceError, match="returned no access key"):
        client(respond, METADATA).request("GET", "a")


@pytest.mark.parametrize("answer", [httpx.Response(404, text="<html>"), httpx.Response(200)])
def test_a_machine_without_a_role_has_no_keys(answer: httpx.Response) -> None:
    respond, _ = recorder({"169.254.169.254": answer})
    with pytest.raises(ServiceError, match="names no role"):
        client(respond, METADATA).request("GET", "a")


@pytest.mark.parametrize("version", ["4", "4a"])
def test_paths_are_encoded_as_s3_reads_them(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    sign_with(monkeypatch)
    respond, seen = recorder({"s": httpx.Response(200)})
    signing = {"environment_credentials": {}, "signature_version": version}
    client(respond, signing).request("GET", "stage=prod/a+b %C3%A9\\.tar.gz?versionId=1")
    assert seen[0].url.raw_path == b"/stage%3Dprod/a%2Bb%20%C3%A9%5C.tar.gz?versionId=1"


def test_the_password_of_ecr_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sign_with(monkeypatch)
    password = base64.b64encode(b"AWS:p").decode()
    until = time.time() + 43_200.0
    data = {"authorizationData": [{"authorizationToken": password, "expiresAt": until}]}
    ecr = "api.ecr.eu-x-1.amazonaws.com"
    respond, seen = recorder({ecr: httpx.Response(200, json=data), "s": httpx.Response(200)})
    asking = client(respond, {"environment_credentials": {}}, type="oci")
    asking.request("GET", "v2/a/manifests/b")
    asking.request("GET", "v2/a/manifests/b")
    assert [each.url.host for each in seen] == [ecr, "s", "s"]
    target = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
    assert seen[0].headers["x-amz-target"] == target
    assert "/eu-x-1/ecr/aws4_request" in seen[0].headers["authorization"]
    assert seen[2].headers["authorization"] == f"Basic {password}"


HUGE = f"1{'0' * 400}"
NUMBERS = [HUGE, f"-{HUGE}", "1e999", "-1e999", "NaN", "1e300"]


@pytest.mark.parametrize("until", NUMBERS)
def test_a_password_of_ecr_is_renewed_after_twelve_hours_whatever_its_expiry(
    monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    sign_with(monkeypatch)
    text = f'{{"authorizationData": [{{"authorizationToken": "p", "expiresAt": {until}}}]}}'
    respond, seen = recorder(
        {"api.ecr.eu-x-1.amazonaws.com": httpx.Response(200, content=text.encode())}
    )
    now = [0.0]
    options = AwsSigning((AwsSource("environment"),), service="ecr")
    auth = EcrAuth(options, respond, clock=lambda: now[0])
    is_far = until in (HUGE, "1e999", "1e300")
    for now[0], count in ((0.0, 1), (43_199.0, 1 if is_far else 2), (43_201.0, 2 if is_far else 3)):
        request = next(auth.auth_flow(httpx.Request("GET", "https://s/a")))
        assert request.headers["authorization"] == "Basic p"
        assert len(seen) == count


@pytest.mark.parametrize("number", [HUGE, f"-{HUGE}"])
def test_keys_of_a_session_are_renewed_after_an_hour_whatever_their_expiry(
    tmp_path: Path, number: str
) -> None:
    signed_on(
        tmp_path,
        expires="2020-01-01T00:00:00Z",
        refreshToken="again",
        clientId="i",
        clientSecret="s",
        registrationExpiresAt="2099-01-01T00:00:00Z",
    )
    token = f'{{"accessToken": "newer", "expiresIn": {number}}}'
    names = '"accessKeyId": "k", "secretAccessKey": "s", "sessionToken": "t"'
    keys = f'{{"roleCredentials": {{{names}, "expiration": {number}}}}}'
    oidc, portal_host = "oidc.eu-x-1.amazonaws.com", "portal.sso.eu-x-1.amazonaws.com"
    respond, seen = recorder(
        {
            oidc: httpx.Response(200, content=token.encode()),
            portal_host: httpx.Response(200, content=keys.encode()),
        }
    )
    source = AwsSource("sso", path=str(tmp_path / "config"), cache_path=str(tmp_path), profile="p")
    now = [0.0]
    chain = AwsKeyChain(AwsSigning((source,)), respond, clock=lambda: now[0])
    is_far = not number.startswith("-")
    for now[0], count in ((0.0, 1), (3_599.0, 1 if is_far else 2), (3_601.0, 2 if is_far else 3)):
        assert chain.get().access_key == "k"
        assert [each.url.host for each in seen].count(portal_host) == count
    assert [each.url.host for each in seen].count(oidc) == (1 if is_far else 3)
