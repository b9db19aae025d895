"""`doorward who-can`: its forms and its exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from doorward.cli.main import run

POLICY = """package app

allow if {
	some grant in data.grants
	grant.user == input.user
	grant.action == input.action
}

allow if {
	[_, _, claims] := io.jwt.decode_verify(input.token, {"secret": data.secrets.jwt})
	claims.role == "admin"
}

open if input.user != "eve"
"""
DATA = {
    "grants": [{"user": "ann", "action": "read"}, {"user": "=cmd()", "action": "read"}],
    "secrets": {"jwt": "B41BD5F4-62719C6D"},
}


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    (tmp_path / "p.rego").write_text(POLICY)
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "given.json").write_text('{"action": "read"}')
    return [str(tmp_path / "p.rego"), str(tmp_path / "data.json")]


def who_can(arguments: list[str], *options: str, query: str = "data.app.allow") -> int:
    given = str(Path(arguments[0]).parent / "given.json")
    return run(["who-can", query, *arguments, "--given", given, *options])


def test_a_mistyped_document_gets_a_hint(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert who_can(arguments, "--unknown", "input.user", query="data.app.alow") == 3
    assert "hint: there is no data.app.alow: did you mean data.app.allow?\n" in (
        capsys.readouterr().err
    )


def test_values_are_shown_with_their_reasons(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert who_can(arguments, "--unknown", "input.user") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f'"ann"\n  {arguments[0]}:3, grant is {{"action": "read", "user":')
    assert shown.endswith("nobody else\n2 candidates decided\n")


def test_a_token_is_shown_as_a_condition(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert who_can(arguments, "--unknown", "input.token", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["allowed"] == []
    assert document["conditions"] == [
        {"texts": ['claims.role == "admin"'], "key": "data.secrets.jwt"}
    ]
    assert document["nobody_else"] is False


def test_a_table_has_a_row_for_each_and_no_formulas(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = ["--unknown", "input.user", "--unknown", "input.token"]
    assert who_can(arguments, *unknown[:2], "--format", "csv") == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert [row[:2] for row in rows] == [
        ["kind", "input.user"],
        ["allowed", "ann"],
        ["allowed", "'=cmd()"],
    ]
    assert who_can(arguments, *unknown, "--format", "csv") == 0
    assert "token verified with data.secrets.jwt" in capsys.readouterr().out


def test_on_whom_a_grant_depends(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    unknown = ["--unknown", "input.user"]
    assert who_can(arguments, *unknown, "--without", "data.grants") == 0
    assert '"ann"' in capsys.readouterr().out
    assert who_can(arguments, *unknown, "--without", "data.secrets") == 0
    assert capsys.readouterr().out.startswith("nobody\n")


def test_what_is_not_certain_ends_with_3(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert who_can(arguments, "--unknown", "input.user", query="data.app.open") == 0
    assert 'anyone, if\n  input.user != "eve"' in capsys.readouterr().out
    policy = Path(arguments[0])
    policy.write_text("package app\n\nallow := {1} if input.user == 1\n")
    assert who_can(arguments, "--unknown", "input.user") == 3
    assert "there may be others: " in capsys.readouterr().out


def test_a_path_that_is_none_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert who_can(arguments, "--unknown", "user") == 1
    assert who_can(arguments, "--unknown", "data.user") == 1
    assert "is not a path of names below input" in capsys.readouterr().err
