"""Copies of the shipped policies give way to the package's, and nothing is lost or widened."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from doorward.cli.docker import command
from doorward.docker.audit import AuditLog
from doorward.docker.decider.embedded import PACK, EmbeddedPdp, with_shipped
from doorward.docker.install.daemon import DaemonError
from doorward.docker.install.doctor import Finding, _check_copies
from doorward.docker.install.installer import _find_shipped, copy_pack
from doorward.docker.install.upgrade import apply_upgrade, copies, lacking
from doorward.docker.plugin import Plugin

OLDER = """package policy.docker.authz

default allow := false

allow if input.action != "plugin.disable"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the policies of an earlier version, and data that lacks a section."""
    folder = tmp_path / "docker"
    folder.mkdir()
    (folder / "authz.rego").write_text(OLDER)
    (folder / "mine.rego").write_text("package mine\n\nx := 1\n")
    data = json.loads((PACK / "data.json").read_text())
    del data["docker"]["registries"]
    del data["docker"]["ports"]["addresses"]
    data["docker"]["users"] = {"alice": ["developer"]}
    (folder / "data.json").write_text(json.dumps(data))
    return folder


def test_new_installation_has_data_only(tmp_path: Path) -> None:
    copy_pack(tmp_path / "docker", lambda _line: None)
    assert [path.name for path in (tmp_path / "docker").iterdir()] == ["data.json"]
    pdp = EmbeddedPdp(with_shipped([str(tmp_path / "docker")]), watch=False)
    result: Any = pdp.decide({"identified": False, "AuthMethod": "TLS", "action": "x"}).result
    assert result["allow"] is False
    pdp.close()


def test_copies_are_reported_and_refused_by_the_installer(folder: Path) -> None:
    assert [path.name for path in copies(folder)] == ["authz.rego"]
    [finding] = _check_copies([str(folder), str(PACK)])
    assert isinstance(finding, Finding)
    assert finding.level == "fail"
    assert finding.advice == f"run `doorward docker upgrade {folder}`"
    with pytest.raises(DaemonError, match="has copies of the shipped policies"):
        _find_shipped(folder)


def test_upgrade_shows_and_then_does_what_changes(folder: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    shown = CliRunner().invoke(command, ["upgrade", str(folder)])
    assert shown.exit_code == 0, shown.output
    assert "-allow if input.action != " in shown.output
    assert (
        "docker.registries in your data.json lacks settings of the new version: allow"
        in shown.output
    )
    assert (
        "docker.ports in your data.json lacks settings of the new version: addresses"
        in shown.output
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    done = CliRunner().invoke(command, ["upgrade", "--write", str(folder)])
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in folder.iterdir()) == ["data.json", "mine.rego"]
    kept = tmp_path / "docker.before-upgrade"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == {
        name: content for name, content in before.items() if name != "mine.rego"
    }
    data = json.loads((folder / "data.json").read_text())["docker"]
    assert "docker.io" in data["registries"]["allow"]
    assert data["users"] == {"alice": ["developer"]}
    assert lacking(folder) == {}
    EmbeddedPdp(_find_shipped(folder), watch=False).close()


@pytest.mark.parametrize("value", [None, [], "x"])
def test_section_that_is_not_an_object_is_an_error(folder: Path, value: object) -> None:
    path = folder / "data.json"
    data = json.loads(path.read_text())
    data["docker"]["ports"] = value
    path.write_text(json.dumps(data))
    with pytest.raises(DaemonError, match=r"`docker\.ports` is not an object"):
        lacking(folder)
    with pytest.raises(DaemonError, match=r"`docker\.ports` is not an object"):
        list(apply_upgrade(folder))
    assert json.loads(path.read_text()) == data


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000, b"[]", b'{"docker": 1}'])
def test_data_that_cannot_be_read_is_an_error(folder: Path, content: bytes) -> None:
    (folder / "data.json").write_bytes(content)
    with pytest.raises(DaemonError, match=r"data\.json"):
        lacking(folder)


def test_missing_data_is_named_once(folder: Path) -> None:
    (folder / "data.json").unlink()
    with pytest.raises(
        DaemonError, match=r"^\S*data\.json: no such file or directory: name a folder"
    ):
        lacking(folder)


def test_data_that_cannot_be_loaded_is_an_error(folder: Path, tmp_path: Path) -> None:
    (folder / "more.json").write_text('{"docker": 1}')
    (tmp_path / "log").touch()
    words = ["upgrade", str(folder), "--audit-log", str(tmp_path / "log")]
    shown = CliRunner().invoke(command, words)
    assert (shown.exit_code, "merge error" in shown.output) == (1, True), shown.output


def test_copy_that_is_not_utf8_is_an_error(folder: Path) -> None:
    (folder / "authz.rego").write_bytes(b"\xff")
    shown = CliRunner().invoke(command, ["upgrade", str(folder)])
    assert (shown.exit_code, "authz.rego" in shown.output) == (1, True), shown.output


@pytest.mark.parametrize("lines", ["", '{"decision_id": "1", "decision": "allow"}\n'])
def test_an_audit_log_without_requests_is_an_error(
    folder: Path, tmp_path: Path, lines: str
) -> None:
    (tmp_path / "log").write_text(lines)
    words = ["upgrade", str(folder), "--audit-log", str(tmp_path / "log")]
    shown = CliRunner().invoke(command, words, standalone_mode=False)
    assert "the audit logs contain no requests" in str(shown.exception)


def test_upgrade_shows_what_is_newly_refused(folder: Path, tmp_path: Path) -> None:
    audit = AuditLog(str(tmp_path / "log"), with_input=True)
    older = tmp_path / "older"
    older.mkdir()
    shutil.copy(folder / "authz.rego", older)
    pdp = EmbeddedPdp([str(older)], watch=False)
    plugin = Plugin(pdp, audit=audit)
    for arguments in ("-ef", "axe"):
        call = {
            "User": "alice",
            "UserAuthNMethod": "TLS",
            "RequestMethod": "GET",
            "RequestUri": f"/v1.41/containers/c/top?ps_args={arguments}",
        }
        plugin.answer("/AuthZPlugin.AuthZReq", json.dumps(call).encode())
    audit.close()
    pdp.close()
    # The log of an earlier version has no types.
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    for line in lines:
        del line["input"]["untyped"]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["upgrade", str(folder), "--audit-log", str(tmp_path / "log")]
    shown = CliRunner().invoke(command, words)
    refused = [line for line in shown.output.splitlines() if line.startswith("newly refused")]
    assert len(refused) == 1, shown.output
    assert "container.top c: query.ps_args must be" in refused[0]
