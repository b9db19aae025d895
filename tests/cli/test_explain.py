"""`doorward eval --why` and `--explain`: in one screen, why an answer is what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from doorward.cli.main import run

POLICY = """package authz

default allow := false

allow if {
    input.method == "GET"
    trace("a GET")
    input.user == "root"
}
"""


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    (tmp_path / "policy.rego").write_text(POLICY)
    (tmp_path / "input.json").write_text(
        '{"method": "GET", "user": "ann", "headers": {"authorization": "Bearer abc.def.secret"}}'
    )

    def run_eval(*arguments: str) -> str:
        files = ["-d", str(tmp_path / "policy.rego"), "-i", str(tmp_path / "input.json")]
        assert run(["eval", *files, *arguments, "data.authz.allow"]) == 0
        return capsys.readouterr().out.replace(f"{tmp_path}/", "")

    return run_eval


def test_why_shows_the_condition_that_failed(ask: Callable[..., str]) -> None:
    assert ask("--why") == (
        "data.authz.allow is false, its default\n"
        '  policy.rego:8: `input.user == "root"` does not hold\n'
        '    input.user: "ann"\n'
        "it is true with\n"
        '  input.user: "root" (is "ann")\n'
    )


def test_why_is_a_document_for_machines(ask: Callable[..., str]) -> None:
    document = json.loads(ask("--why", "-f", "json"))
    assert document["answer"] is False
    assert document["rules"][0]["definitions"][0]["conditions"][-1]["values"] == {
        "input.user": "ann"
    }


def test_an_explanation_comes_before_the_result(ask: Callable[..., str]) -> None:
    shown = ask("--explain", "full", "-f", "pretty")
    assert '`input.method == "GET"` holds' in shown
    assert shown.endswith("false\n")
    assert ask("--explain", "notes", "-f", "pretty") == 'policy.rego:7: note "a GET"\nfalse\n'
    assert "explanation" in json.loads(ask("--explain", "fails"))


def test_an_input_shows_no_credentials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nallow if input.headers.authorization == 1\n")
    (tmp_path / "i.json").write_text('{"headers": {"authorization": "Bearer very-secret-1"}}')
    run(["eval", "--why", "-d", f"{tmp_path}/p.rego", "-i", f"{tmp_path}/i.json", "data.p.allow"])
    shown = capsys.readouterr().out
    assert 'input.headers.authorization: "[masked]"' in shown
    assert "very-secret" not in shown


def test_a_profile_comes_with_coverage_or_an_explanation(ask: Callable[..., str]) -> None:
    for flag, name in (("--coverage", "coverage"), ("--explain=fails", "explanation")):
        both = json.loads(ask("--profile", flag))
        assert both[name] == json.loads(ask(flag))[name]
        # Rows are in the order of their times, and a default is asked by nobody.
        assert {row["num_eval"] for row in both["profile"]} - {0} == {1}
    assert "NUM EVAL" in ask("--coverage", "--profile", "-f", "pretty")


def test_a_profile_says_what_took_how_long(ask: Callable[..., str]) -> None:
    document = json.loads(ask("--profile"))["profile"]
    assert {"num_eval", "num_held", "total_time_ns", "location"} == set(document[0])
    assert [
        each["location"]["row"] for each in json.loads(ask("--profile-sort", "line"))["profile"]
    ][:3] == [8, 7, 6]
    shown = ask("--profile", "--profile-limit", "2", "-f", "pretty")
    assert "NUM EVAL" in shown
    assert shown.count("policy.rego:") == 2
