"""Tokens and keys are fetched again when they expire, and not before."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.clock import VirtualClock
from tests.waiting import PATIENCE

from doorward.config.configuration import parse_config
from doorward.control.credentials import auth_for

STS = """<AssumeRoleResponse><AssumeRoleResult><Credentials>
<AccessKeyId>key-{}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>t</SessionToken></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


class Tokens:
    """A service with credentials, what gives the tokens for it, and when they were fetched."""

    def __init__(self, credentials: dict[str, Any], answer: dict[str, Any], **service: Any) -> None:
        document = {"url": "https://s", "credentials": credentials, **service}
        config = parse_config(json.dumps({"services": {"s": document}}), environment={})
        self.clock = VirtualClock()
        self.times: list[float] = []
        self._answer = answer
        self._auth = auth_for(config.services["s"], self.fetch, clock=self.clock.now)

    def fetch(self, request: httpx.Request) -> httpx.Response:
        self.times.append(self.clock.now())
        count = len(self.times)
        if request.url.host.startswith("sts."):
            return httpx.Response(200, text=STS.format(count))
        return httpx.Response(200, json={**self._answer, "access_token": f"t{count}"})

    def authorization(self, seconds: float) -> str:
        """The header of a request that is sent when `seconds` have passed since the start."""
        self.clock.advance(seconds - self.clock.now())
        transport = httpx.MockTransport(self._respond)
        with httpx.Client(auth=self._auth, transport=transport, timeout=PATIENCE) as client:
            return client.get("https://s/v2/a/manifests/b").text

    def _respond(self, request: httpx.Request) -> httpx.Response:
        authorization = request.headers["authorization"]
        if authorization.startswith("Basic"):
            challenge = 'Bearer realm="https://s/token"'
            return httpx.Response(401, headers={"www-authenticate": challenge})
        return httpx.Response(200, text=authorization)


OAUTH2 = {"token_url": "https://token/x", "client_id": "i", "client_secret": "p"}


@pytest.mark.parametrize(
    ("expires", "times"),
    [
        (100, [0.0, 90.0, 200.0]),  # ten seconds early
        (5, [0.0, 1.0, 89.0, 90.0, 200.0]),
        (None, [0.0, 1.0, 89.0, 90.0, 200.0]),
    ],
)
def test_a_token_is_fetched_again_shortly_before_it_expires(
    expires: int | None, times: list[float]
) -> None:
    tokens = Tokens({"oauth2": OAUTH2}, {"token_type": "bearer", "expires_in": expires})
    last = [tokens.authorization(at) for at in (0.0, 1.0, 89.0, 90.0, 200.0)][-1]
    assert last == f"Bearer t{len(times)}"
    assert tokens.times == times


@pytest.mark.parametrize(("expires", "last"), [(300, 290.0), (None, 50.0)])
def test_a_token_of_a_registry_is_sent_until_it_expires(expires: int | None, last: float) -> None:
    basic = {"bearer": {"token": "user:pass", "scheme": "Basic"}}
    tokens = Tokens(basic, {"expires_in": expires}, type="oci")
    sent = [tokens.authorization(at) for at in (0.0, last - 1.0, last, last + 1.0)]
    assert sent == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]
    assert tokens.times == [0.0, last]


def test_keys_of_a_role_are_fetched_again_after_five_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION"):
        monkeypatch.setenv(f"AWS_{name}", "eu-x-1")
    role = {
        "iam_role_arn": "arn:aws:iam::1:role/r",
        "session_name": "mine",
        "aws_signing": {"environment_credentials": {}},
    }
    tokens = Tokens({"s3_signing": {"assume_role_credentials": role}}, {})
    for seconds, key in ((0.0, 1), (299.0, 1), (300.0, 2), (599.0, 2), (600.0, 3)):
        assert f"Credential=key-{key}/" in tokens.authorization(seconds)
    assert tokens.times == [0.0, 300.0, 600.0]
