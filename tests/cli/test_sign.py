"""Signatures of bundles: those that OPA makes, and those that we verify ourselves."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows

from doorward.bundles.signatures import Verification
from doorward.bundles.sources import Sources
from doorward.cli.main import run

ROWS = [row for row in read_rows(GOLDEN / "cli-partial.jsonl.gz") if row["argv"][1] == "sign"]


def decoded(path: Path) -> list[Any]:
    tokens = json.loads(path.read_text())["signatures"]
    parts = [token.split(".")[:2] for token in tokens]
    return [[json.loads(base64.urlsafe_b64decode(part + "==")) for part in each] for each in parts]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS])
def test_signatures_and_errors_are_those_of_opa(
    row: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in row["files"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert run(row["argv"][1:]) == int(row["exit"])
    shown = capsys.readouterr()
    assert shown.out == row.get("stdout", "")
    assert shown.err.partition("Usage:")[0] == row["stderr"].partition("Usage:")[0]
    wanted = [[each["header"], each["payload"]] for each in row.get("signatures", ())]
    if wanted:
        assert decoded(tmp_path / ".signatures.json") == json.loads(
            json.dumps(wanted), parse_float=float
        )


@pytest.mark.parametrize("algorithm", ["RS256", "PS384", "ES256", "ES512", "HS512"])
def test_what_is_signed_is_verified(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "p.rego").write_text("package p\n\nx := data.d\n")
    (folder / "data.json").write_text('{"d": [1, 1.0]}')
    private, public = "secret", "secret"
    if algorithm[0] != "H":
        private, public = keys(algorithm, tmp_path)
    arguments = ["sign", "--signing-key", private, "--signing-alg", algorithm, "-b", "bundle"]
    assert run([*arguments, "-o", "bundle"]) == 0
    key = public if algorithm[0] == "H" else Path(public).read_text()
    signed = Sources(bundles=["bundle"], signed=True, verification=Verification(key, algorithm))
    assert signed.load().data == {"d": [1, 1.0]}
    (folder / "data.json").write_text('{"d": [1, 2]}')
    with pytest.raises(Exception, match="digest mismatch"):
        signed.load()


def keys(algorithm: str, folder: Path) -> tuple[str, str]:
    """Files with a private key and its public one."""
    curve = {"ES256": "P-256", "ES512": "P-521"}.get(algorithm)
    kind = ["RSA"] if curve is None else ["EC", "-pkeyopt", f"ec_paramgen_curve:{curve}"]
    private, public = folder / "key.pem", folder / "public.pem"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", *kind, "-out", private],
        check=True,
        capture_output=True,
    )
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return str(private), str(public)


def test_a_key_of_another_kind_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text("{}")
    private, _ = keys("ES256", tmp_path)
    for key, message in (
        (private, "the key cannot sign with RS256: a private RSA key is needed"),
        ("text", "PEM block"),
    ):
        assert run(["sign", "--signing-key", key, "-b", "."]) == 1
        assert message in capsys.readouterr().out
    assert not (tmp_path / ".signatures.json").exists()


def test_a_curve_that_nobody_verifies_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text("{}")
    private = str(tmp_path / "key.pem")
    command = ["openssl", "ecparam", "-name", "secp256k1", "-genkey", "-noout", "-out", private]
    subprocess.run(command, check=True, capture_output=True)
    flags = ["--signing-key", private, "--signing-alg", "ES256"]
    assert run(["sign", *flags, "-b", "."]) == 1
    assert "the curve secp256k1 of the key is not supported" in capsys.readouterr().out
    assert not (tmp_path / ".signatures.json").exists()


def test_a_plugin_that_nobody_has_signs_no_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.rego").write_text("package p\n\nx := 1\n")
    key = ["--signing-key", "secret", "--signing-alg", "HS256", "--signing-plugin", "foo"]
    assert run(["build", *key, "-b", "."]) == 1
    assert capsys.readouterr().out == "error: no signer exists under id foo\n"
    assert not (tmp_path / "bundle.tar.gz").exists()


def test_memory_of_benchmarks_needs_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["test", "--benchmem", "."]) != 0
    assert "--benchmem needs --bench" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ("PS512", "the RSA key is too small for PS512"),
        ("RS512", "the RSA key is too small for RS512"),
    ],
)
def test_a_key_that_is_too_small_is_refused(
    algorithm: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text("{}")
    private = str(tmp_path / "small.pem")
    bits = "rsa_keygen_bits:1024" if algorithm == "PS512" else "rsa_keygen_bits:512"
    command = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", bits, "-out", private]
    subprocess.run(command, check=True, capture_output=True)
    for name in ("sign", "build"):
        flags = ["--signing-key", private, "--signing-alg", algorithm]
        assert run([name, *flags, "-b", "."]) == 1
        assert message in capsys.readouterr().out
