"""The fixed policy: who asks is verified, a path has one reading, and doubt is a denial."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from tests.learn.logs import gathered, line

from doorward.learn.documents import POLICY, QUERY
from doorward.learn.output import make_files
from doorward.learn.templates import Limits
from doorward.rego import Engine, Query

SECRET = "0123456789abcdef0123456789abcdef"


def token(claims: dict[str, Any], secret: str = SECRET) -> str:
    parts = [json.dumps(each).encode() for each in ({"alg": "HS256", "typ": "JWT"}, claims)]
    signed = b".".join([base64.urlsafe_b64encode(each).rstrip(b"=") for each in parts])
    signature = hmac.digest(secret.encode(), signed, hashlib.sha256)
    return f"{signed.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def envoy_input(path: str, segments: list[str], **headers: str) -> dict[str, Any]:
    http = {"method": "GET", "path": path, "host": "app.example:443", "headers": headers}
    return {"attributes": {"request": {"http": http}}, "parsed_path": segments, "parsed_query": {}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    lines = []
    for n in range(200):
        who = f"ann{n % 10}"
        segments = ["desks", who] if n % 2 else ["papers", str(n)]
        path = "/" + "/".join(segments)
        payload = {"sub": who, "roles": ["clerk"], "scope": "read write"}
        logged = {"path": "x", "scheme": "Bearer", "key": "k", "header": {}, "payload": payload}
        lines.append(
            {
                "decision_id": f"d-{n}",
                "path": "envoy/authz/allow",
                "timestamp": f"2027-01-{n % 9 + 10}T08:00:00Z",
                "input": envoy_input(path, segments),
                "result": True,
                "custom": {"claims": {"digest": logged}},
            }
        )
    files = make_files(gathered(lines), Limits(), tmp_path_factory.mktemp("none")).files
    document: dict[str, Any] = json.loads(files["data.json"])
    assert document["learned"]["subject"]["from"] == "token"
    return document


@pytest.fixture
def policy(data: dict[str, Any]) -> Query:
    keys = {"token": {"secret": SECRET, "alg": "HS256"}}
    return Engine({"policy.rego": POLICY}, {**data, **keys}).prepare("data.learned.authz.allow")


GOOD = {"sub": "ann1", "roles": ["clerk"], "scope": "read write", "exp": 1 << 40}


def ask(policy: Query, path: str, claims: dict[str, Any] | None = None, **more: Any) -> bool:
    target = more.pop("target", path)
    header = more.pop("header", f"Bearer {token(claims or GOOD)}")
    return (
        policy.value({**envoy_input(target, path[1:].split("/"), authorization=header), **more})
        is True
    )


def test_a_verified_token_is_needed(policy: Query) -> None:
    assert ask(policy, "/papers/17")
    assert not ask(policy, "/papers/17", header="Bearer x.y.z")
    assert not ask(policy, "/papers/17", header=token(GOOD))
    assert not ask(policy, "/papers/17", header=f"Bearer {token(GOOD, 'another')}")
    assert not ask(policy, "/papers/17", header=f"Bearer  {token(GOOD)}")
    assert not ask(policy, "/papers/17", {**GOOD, "exp": 1})
    assert not ask(policy, "/papers/17", {k: v for k, v in GOOD.items() if k != "exp"})
    assert not ask(policy, "/papers/17", header="", claims=GOOD, input={"claims": GOOD})


@pytest.mark.parametrize("keys", [{}, {"token": {}}, {"token": {"secret": "", "alg": "HS256"}}])
def test_without_a_key_nothing_is_allowed(keys: dict[str, Any], data: dict[str, Any]) -> None:
    policy = Engine({"policy.rego": POLICY}, {**data, **keys}).prepare("data.learned.authz.allow")
    header = f"Bearer {token(GOOD, '') if 'token' in keys else token(GOOD)}"
    assert not ask(policy, "/papers/17", header=header)


@pytest.mark.parametrize(
    ("path", "claims"),
    [
        ("/papers/17", {"roles": ["guest"]}),
        ("/papers/17", {"roles": "clerk"}),
        ("/papers/17", {"roles": ["clerk"], "sub": ""}),
        ("/papers/17", {"roles": {"clerk": "clerk"}}),
        ("/papers/17", {"roles": [["clerk"]]}),
        ("/desks/ann2", {}),
        ("/desks/", {"sub": ""}),
        ("/desks/null", {"sub": None}),
        ("/desks/ann1", {"sub": ["ann1"]}),
        ("/desks/17", {"sub": 17}),
    ],
)
def test_claims_of_another_kind_allow_nothing(
    policy: Query, path: str, claims: dict[str, Any]
) -> None:
    assert not ask(policy, path, {**GOOD, **claims})


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/papers/17", "/papers%2f17"),
        ("/papers/17", "//papers/17"),
        ("/papers/17", "/papers/1%37"),
        ("/papers/17", "/papers/./17"),
        ("/papers/17", "/admin"),
        ("/papers/17;x", "/papers/17;x"),
        ("/papers/017", "/papers/017"),
        ("/papers/17/", "/papers/17/"),
        ("/papers//17", "/papers//17"),
        ("/papers/1\n", "/papers/1\n"),
        ("/PAPERS/17", "/PAPERS/17"),
    ],
)
def test_a_path_with_a_second_reading_allows_nothing(policy: Query, path: str, target: str) -> None:
    assert not ask(policy, path, target=target)
    assert ask(policy, "/papers/17", target="/papers/17?")


def test_a_query_that_was_never_seen_allows_nothing(policy: Query) -> None:
    assert not ask(policy, "/papers/17", parsed_query={"all": ["1"]})
    assert not ask(policy, "/papers/17", parsed_query=["all"])


def test_another_host_or_form_allows_nothing(policy: Query) -> None:
    input: Any = envoy_input("/papers/17", ["papers", "17"], authorization=f"Bearer {token(GOOD)}")
    assert policy.value(input) is True
    for host in ("evil.example", "app.example:80@evil", "app.example:", "app.example:x", "", None):
        input["attributes"]["request"]["http"]["host"] = host
        assert policy.value(input) is not True, host
    plain = {"method": "GET", "path": ["papers", "17"], "claims": GOOD, "user": "ann1"}
    assert policy.value(plain) is False


def test_a_number_behind_letters_is_followed_by_nothing_else(tmp_path: Path) -> None:
    lines = [line(f"u{n % 9}", f"/invoices/INV-{n:06}", number=n) for n in range(200)]
    files = make_files(gathered(lines), Limits(), tmp_path).files
    query = Engine({"p.rego": POLICY}, json.loads(files["data.json"])).prepare(QUERY)

    def is_allowed(invoice: str) -> bool:
        return query.value(line("u1", f"/invoices/{invoice}")["input"]) is True

    assert is_allowed("INV-999999")
    assert is_allowed("INV-001")
    for other in ("INV-", "INV-01", "INV-001x", "INV-001\n", "inv-001", "XINV-001", "INV-INV-001"):
        assert not is_allowed(other), other
