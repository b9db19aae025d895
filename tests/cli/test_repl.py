"""The interactive shell: queries, rules, explanations, and errors that do not end it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from doorward.cli.main import run
from doorward.cli.repl import Session
from doorward.pdp.loader import Loaded

POLICY = (
    'package authz\n\nallow if input.user in data.admins\n\nnote if print("seen", input.user)\n'
)


@pytest.fixture
def session() -> Session:
    return Session(Loaded({"authz.rego": POLICY}, {"admins": ["root"]}), input={"user": "ann"})


def test_a_query_shows_its_value(session: Session) -> None:
    assert session.answer("1 + 2") == "3"
    assert session.answer("data.authz.allow") == "undefined"
    assert session.answer("data.admins[i]").splitlines()[3] == '| 0 | "root"         |'


def test_rules_are_defined_replaced_and_forgotten(session: Session) -> None:
    assert session.answer("p := 1") == "Rule 'p' defined in package repl."
    assert session.answer("p + 1") == "2"
    session.answer("p := 5")
    assert session.answer("p") == "5"
    session.answer("q contains 1 if p > 3")
    session.answer("q contains 2 if p > 4")
    assert session.answer("count(q)") == "2"
    assert session.answer("show").splitlines()[0] == "p := 5"
    assert "var p is unsafe" in session.answer("unset p")
    assert session.answer("unset q") == "Rule 'q' forgotten."
    assert session.answer("unset p") == "Rule 'p' forgotten."
    assert "unsafe" in session.answer("p")


def test_a_broken_rule_changes_nothing(session: Session) -> None:
    session.answer("p := 1")
    assert "unsafe" in session.answer("p := x")
    assert session.answer("p") == "1"


def test_why_explains(session: Session) -> None:
    shown = session.answer("why data.authz.allow")
    assert "`input.user in data.admins` does not hold" in shown


def test_what_is_printed_comes_before_the_value(session: Session) -> None:
    assert session.answer("data.authz.note") == "seen ann\ntrue"


def test_an_input_is_read_from_a_file(session: Session, tmp_path: Path) -> None:
    (tmp_path / "i.yaml").write_text("user: root\n")
    assert session.answer(f"input {tmp_path}/i.yaml").startswith("input is ")
    assert session.answer("data.authz.allow") == "true"
    assert "no such file" in session.answer("input nowhere.json")


def test_results_are_shown_as_json_when_asked(session: Session) -> None:
    assert session.answer("json") == ""
    assert '"value": 3' in session.answer("1 + 2")


def test_run_without_server_reads_lines_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nx := 7\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("data.p.x\n\n1 +\nexit\n2\n"))
    assert run(["run", str(tmp_path / "p.rego")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "7"
    assert "rego_parse_error" in shown[2]
    assert "2" not in shown
