"""The interactive shell: queries, rules, explanations, and errors that do not end it."""

from __future__ import annotations

import io
import os
import pty
import select
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from doorward.bundles.loader import Loaded
from doorward.cli.main import run
from doorward.cli.repl import Session

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


def test_rules_stand_in_the_package_that_was_named(session: Session) -> None:
    session.answer("p := 1")
    assert session.answer("package shop") == ""
    assert session.answer("p := 2") == "Rule 'p' defined in package shop."
    assert session.answer("p + data.repl.p") == "3"
    assert session.answer("show") == "package shop\n\np := 2"
    assert session.answer("unset-package repl") == "Package repl forgotten."
    assert session.answer("data.repl.p") == "undefined"
    assert session.answer("unset-package repl") == "nothing is defined in package repl"
    assert "rego_parse_error" in session.answer("package 1")
    assert session.package == "shop"


def test_an_import_is_seen_by_rules_and_queries(session: Session) -> None:
    assert session.answer("import data.admins as them") == ""
    assert session.answer("them[0]") == '"root"'
    session.answer("first := them[0]")
    assert session.answer("first") == '"root"'
    assert session.answer("show") == "import data.admins as them\nfirst := them[0]"
    assert "rego_parse_error" in session.answer("import 1")
    assert session.answer("them[0]") == '"root"'


def test_a_trace_explains_each_query_until_it_is_off(session: Session) -> None:
    assert session.answer("trace") == "trace full"
    shown = session.answer("data.authz.allow")
    assert "`input.user in data.admins` does not hold" in shown
    assert shown.endswith("\nundefined")
    session.answer('noted if trace("seen")')
    assert session.answer("trace notes") == "trace notes"
    assert "seen" in session.answer("noted")
    assert session.answer("trace notes") == "trace off"
    assert session.answer("noted") == "true"
    assert session.answer("trace loud") == "trace must be one of full, notes, fails"
    assert session.answer("trace fails") == "trace fails"


def test_why_sees_the_package(session: Session) -> None:
    session.answer("mine if input.user == 1")
    assert "`input.user == 1` does not hold" in session.answer("why mine")


def test_names_are_completed(session: Session) -> None:
    session.answer("player := 1")
    assert session.completions("pl") == ["player"]
    assert session.completions("unset") == ["unset", "unset-package"]
    assert session.completions("data.a") == ["data.admins", "data.authz"]
    assert session.completions("data.authz.al") == []
    session.input = {"user": "root"}
    assert session.completions("data.authz.al") == ["data.authz.allow"]
    assert session.completions("input.") == ["input.user"]
    assert session.completions("data.(.x") == []


def test_an_open_bracket_goes_on_in_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = 'p if {\n  1 < 2\n  "{" != "}"\n}\np\nx := [1,\n\nx := `a\nb`\nx\n[2,'
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run(["run"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Rule 'p' defined in package repl.\ntrue\n")
    assert shown.count("rego_parse_error") == 2
    assert r'"a\nb"' in shown


class Terminal(io.StringIO):
    """Standard input that counts as a terminal."""

    def isatty(self) -> bool:
        return True


def test_an_interrupt_ends_the_query_and_not_the_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Session.answer

    def interrupted(self: Session, text: str) -> str:
        if text == "slow":
            raise KeyboardInterrupt
        return answer(self, text)

    monkeypatch.setattr(Session, "answer", interrupted)
    monkeypatch.setattr("sys.stdin", Terminal("slow\n1 + 1\n"))
    assert run(["run", "-H", os.devnull]) == 0
    assert capsys.readouterr().out.endswith("> interrupted\n> 2\n> \n")
    monkeypatch.setattr("sys.stdin", io.StringIO("slow\n1 + 1\n"))
    assert run(["run"]) == 130


def test_an_interrupt_at_the_prompt_ends_the_shell_unless_it_is_at_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [KeyboardInterrupt(), "1 + 1", EOFError()]

    def line(_prompt: str, waiting: list[Any]) -> str:
        following = waiting.pop(0)
        if isinstance(following, str):
            return following
        raise following

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", partial(line, waiting=lines[:]))
    assert run(["run", "-H", os.devnull]) == 0
    assert "2\n" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("builtins.input", partial(line, waiting=lines[:]))
    assert run(["run"]) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.system
def test_a_terminal_completes_and_keeps_what_was_typed(tmp_path: Path) -> None:
    history = tmp_path / "history"
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the child
        command = [sys.executable, "-m", "doorward", "run", "-H", str(history), "-f", "json"]
        os.execv(sys.executable, command)
    shown = b""

    def until(wanted: bytes) -> None:
        nonlocal shown

        def is_there() -> bool:
            nonlocal shown
            if select.select([terminal], [], [], 0)[0]:
                shown += os.read(terminal, 4096)
            return wanted in shown

        wait_until(is_there)
        shown = shown.partition(wanted)[2]

    try:
        until(b"> ")
        os.write(terminal, b"apple := 1\n")
        until(b"defined")
        until(b"> ")
        os.write(terminal, b"app\t + 1\n")
        until(b'"value": 2')
        os.write(terminal, b"exit\n")
        os.waitpid(pid, 0)
    finally:
        os.close(terminal)
    assert history.read_text() == "apple := 1\napple + 1\nexit\n"
