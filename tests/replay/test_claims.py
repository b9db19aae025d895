"""Tokens are not in the log; with `claims` decisions are replayed by what they said."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from doorward.bundles.sources import Sources
from doorward.cli.token import sign
from doorward.config.configuration import DecisionLogs
from doorward.decision_log.claims import claims_of, key_name
from doorward.decision_log.log import DecisionLog
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rego import Environment
from doorward.rego.shared import VerifiedTokens
from doorward.replay import Job, Tally, replay
from doorward.replay.deciding import Version
from doorward.telemetry.log import line_for

SECRET = "the shared secret"
POLICY = """package app

default allow := false

allow if claims.role == "admin"

claims := payload if {
	[_, token] := split(input.headers.authorization, " ")
	[verified, _, payload] := io.jwt.decode_verify(token, {"secret": "the shared secret"})
	verified
}
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    (tmp_path / "p.rego").write_text(POLICY)
    settings = Settings(environment=Environment(tokens=VerifiedTokens()))
    snapshot = build(Sources([str(tmp_path / "p.rego")]).load(), settings)
    with path.open("wb") as file:
        options = DecisionLogs(console=True, claims=True)
        sink = DecisionLog(file.write, line_for("json"), labels={}, options=options)
        pdp = PDP(snapshot, sink)
        for role, key in (("admin", SECRET), ("guest", SECRET), ("admin", "another")):
            expiry = int(time.time()) + 600
            token = sign({"role": role, "exp": expiry, "iss": "me"}, key.encode())
            document: Any = {"headers": {"authorization": f"Bearer {token}"}}
            pdp.record(pdp.decide("app/allow", document), document)
        pdp.close()
    assert "eyJ" not in path.read_text()
    assert SECRET not in path.read_text()
    return path


def replayed(log: Path, policy: str) -> Tally:
    (log.parent / "new.rego").write_text(policy)
    job = Job(Version.load(Sources([str(log.parent / "new.rego")])))
    return replay([str(log)], job, processes=1)


def test_a_verified_token_is_replayed_by_its_claims(log: Path) -> None:
    tally = replayed(log, POLICY)
    # What did not verify is not known, and is not guessed.
    assert tally.kinds == {"unchanged": 2, "not-replayable": 1}
    assert list(tally.missing) == ["/input/headers/authorization, which is masked"]


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ('"admin"', '"guest"', {"new-allow": 1, "new-deny": 1, "not-replayable": 1}),
        ('"secret": "the shared secret"', '"secret": "other"', {"not-replayable": 3}),
        ("shared secret", 'shared secret", "iss": "you', {"new-deny": 1, "unchanged": 1}),
        ("shared secret", 'shared secret", "iss": "me', {"unchanged": 2}),
        ("shared secret", 'shared secret", "alg": "HS512', {"new-deny": 1, "unchanged": 1}),
        ("shared secret", 'shared secret", "alg": "HS256', {"unchanged": 2}),
        ('{"secret": "the shared secret"}', '{"cert": "x"}', {"not-replayable": 3}),
    ],
)
def test_the_new_policy_decides_by_key_and_constraints(
    old: str, new: str, kinds: dict[str, int], log: Path
) -> None:
    tally = replayed(log, POLICY.replace(old, new))
    assert tally.kinds == {"not-replayable": 1, **kinds}


def test_the_token_is_valid_at_the_time_of_the_decision_only(log: Path) -> None:
    expired = r'"exp":' + str(int(time.time()) - 1200)
    lines, count = re.subn(r'"exp": ?\d+', expired, log.read_text())
    assert count == 2
    log.write_text(lines)
    assert replayed(log, POLICY).kinds == {"new-deny": 1, "unchanged": 1, "not-replayable": 1}


def test_a_signature_cannot_be_verified_by_claims(log: Path) -> None:
    old = 'io.jwt.decode_verify(token, {"secret": "the shared secret"})'
    policy = POLICY.replace(old, '[io.jwt.verify_hs256(token, "x"), {}, {}]')
    tally = replayed(log, policy)
    assert tally.missing["the signed token, which a built-in verifies (only its claims)"] == 2


def test_keys_have_names_that_say_nothing() -> None:
    assert key_name({"secret": "a"}) != key_name({"secret": "b"})
    assert len(key_name({"secret": "a"})) == 32
    assert key_name({"cert": "a"})
    assert key_name({}) == key_name({"secret": "a", "cert": "b"}) == ""


@pytest.mark.parametrize(
    "input", [{}, {"a": "x y z"}, {"a": ["no token"]}, {"a": 1}, None, {"a": "Bearer eyJ.e.x"}]
)
def test_what_was_not_verified_is_not_logged(input: Any) -> None:
    event = {"erased": ["/input/a", "/input/a/0", "/result/a"]}
    assert claims_of(event, input, Environment(tokens=VerifiedTokens())) == {}
    assert claims_of(event, input, Environment()) == {}


def test_a_token_is_found_by_its_path_through_objects_and_lists() -> None:
    tokens = VerifiedTokens()
    header: Any = {"alg": "HS256"}
    tokens.put("t", ({"secret": SECRET}, header, {"sub": "ann"}, 0, 1, None))
    environment = Environment(tokens=tokens)
    for path, is_there in (
        ("/input/a/1", True),
        ("/input/a/0", False),
        ("/input/a/2", False),
        ("/input/a/-1", False),
        ("/input/a/\N{SUPERSCRIPT ONE}", False),
        ("/input/a/\N{ARABIC-INDIC DIGIT ONE}", False),
        ("/input/a/x", False),
        ("/result/a/1", False),
    ):
        claims = claims_of({"erased": [path]}, {"a": ["x", "t"]}, environment)
        assert [each["path"] for each in claims.values()] == ([path] if is_there else []), path


def test_claims_with_the_name_of_a_credential_are_not_logged(tmp_path: Path) -> None:
    tokens = VerifiedTokens()
    header: Any = {"alg": "HS256"}
    payload: Any = {"password": "x"}
    tokens.put("t", ({"secret": SECRET}, header, payload, 0, 1, None))
    environment = Environment(tokens=tokens)
    event = {"erased": ["/input/a"]}
    assert claims_of(event, {"a": "t"}, environment) == {}
    del payload["password"]
    ((digest, said),) = claims_of(event, {"a": "t"}, environment).items()
    assert (len(digest), said["path"], said["scheme"]) == (64, "/input/a", "")
    assert json.dumps(said)
    header["cty"] = "JWT"
    assert claims_of(event, {"a": "t"}, environment) == {}
