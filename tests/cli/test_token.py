"""A test token is one that any verifier of HMAC tokens accepts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from doorward.cli.token import command


def token(*arguments: str, input: str | None = None) -> str:
    done = CliRunner().invoke(command, arguments, input=input, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def part(text: str, index: int) -> dict[str, Any]:
    padded = text.split(".")[index] + "=="
    document: dict[str, Any] = json.loads(base64.urlsafe_b64decode(padded))
    return document


def test_the_claims_are_those_of_the_policy() -> None:
    now = int(time.time())
    created = token("--secret", "S", "--role", "admin", "--sub", "bob")
    claims = part(created, 1)
    assert part(created, 0) == {"alg": "HS256", "typ": "JWT"}
    assert (claims["role"], claims["sub"]) == ("admin", "Ym9i")
    assert now <= claims["nbf"] <= int(time.time())
    assert claims["exp"] == claims["nbf"] + 3600


@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
def test_the_signature_is_the_hmac_of_what_was_signed(alg: str) -> None:
    signed, _, signature = token("--secret", "S", "--alg", alg).rpartition(".")
    digest = hmac.new(b"S", signed.encode(), getattr(hashlib, f"sha{alg[2:]}")).digest()
    assert base64.urlsafe_b64decode(signature + "==") == digest


def test_times_are_absolute_or_relative_or_left_out() -> None:
    claims = part(token("--secret", "S", "--nbf", "", "--exp", "1234"), 1)
    assert claims == {"exp": 1234}
    assert part(token("--secret", "S", "--exp", "-10"), 1)["exp"] < time.time()


def test_further_claims_are_json_or_else_text() -> None:
    claims = part(token("--secret", "S", "--claim", "a=[1]", "--claim", "b=x", "--exp", ""), 1)
    assert (claims["a"], claims["b"]) == ([1], "x")
    deep = "[" * 20_000
    assert part(token("--secret", "S", "--claim", f"a={deep}"), 1)["a"] == deep


def test_a_subject_may_be_given_as_it_is() -> None:
    assert part(token("--secret", "S", "--raw-sub", "not base64 !"), 1)["sub"] == "not base64 !"


def test_the_secret_comes_from_a_file_standard_input_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("S\n")
    same = ["--nbf", "1", "--exp", "2"]
    wanted = token("--secret", "S", *same)
    assert token("--secret-file", str(tmp_path / "key"), *same) == wanted
    assert token("--secret-file", "-", *same, input="S\n") == wanted
    monkeypatch.setenv("DOORWARD_SECRET", "S")
    assert token(*same) == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "specify --secret or --secret-file, or set DOORWARD_SECRET"),
        (["--secret", ""], "the secret is empty"),
        (["--secret", "S", "--secret-file", "x"], "not both"),
        (
            ["--secret", "S", "--exp", "soon"],
            "--exp: `soon` is not a number of seconds: since 1970, or from now with a sign (+60)",
        ),
        (["--secret", "S", "--claim", "x"], "expected NAME=JSON"),
        (["--secret-file", "/missing"], "/missing: no such file or directory"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOORWARD_SECRET", raising=False)
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code != 0
    assert message in done.output
