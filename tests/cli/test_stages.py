"""Every stage can be seen: the tree, the errors, the Python, the built-ins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doorward.cli.main import run
from doorward.rego import REGISTRY

POLICY = """\
package a

default allow := false

allow if {
	some role in input.roles
	not data.blocked[role]
	role == "admin"
}
"""


@pytest.fixture(autouse=True)
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "policy.rego"
    path.write_text(POLICY)
    (tmp_path / "broken.rego").write_text("package b\n\nx := y\n\nz := nope(1)\n")
    return path


def test_the_tree_shows_each_node_and_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", "--places", "policy.rego"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Module v1=true  @1:1\n")
    assert "SomeIn  @6:2" in out
    assert "Scalar value=false  @3:18" in out
    assert run(["parse", "--no-places", "policy.rego"]) == 0
    assert "@" not in capsys.readouterr().out


def test_the_tree_as_json_is_that_of_opa(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["parse", "--format", "json", "policy.rego"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["package"]["path"][1] == {"type": "string", "value": "a"}
    assert tree["rules"][0]["default"] is True


def test_a_folder_is_checked_by_its_policies_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "p.rego").write_text("package p\n\nx := 1\n")
    (folder / "data.json").write_text("{")
    (folder / "more.yaml").write_text("a: [")
    assert run(["check", str(folder)]) == 0
    assert run(["check", str(folder / "data.json")]) == 0
    assert capsys.readouterr().err == ""
    assert run(["check", "-b", str(folder)]) == 1


def test_errors_of_built_ins_are_shown_beside_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    query = "x := 1; y := [z | z := 1 / 0]"
    assert run(["eval", "--show-builtin-errors", query]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [error["message"] for error in document["errors"]] == ["div: divide by zero"]
    assert document["result"][0]["bindings"] == {"x": 1, "y": []}


def test_an_import_that_is_an_option_has_its_place_in_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", "--package", "p", "--import", "data.x", "--import", "foo", "1"]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error["location"] == {"file": "", "row": 1, "col": 8}


def test_a_query_that_makes_no_sense_reads_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deps", "-f", "json", "x + nope(input.a)"]) == 0
    assert json.loads(capsys.readouterr().out)["base"][0][1]["value"] == "a"
    assert run(["deps", "x +"]) == 1


def test_the_generated_python_is_shown_by_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["emit", "policy.rego"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# policy.rego\n")
    assert "def data.a.allow(" in out


def test_what_is_wrong_is_shown_with_its_line_and_a_caret(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["check", "broken.rego"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "broken.rego:5:6: rego_type_error: undefined function nope" in captured.err
    assert " 5 | z := nope(1)\n   |      ^" in captured.err


@pytest.mark.parametrize("command", ["parse", "emit", "check"])
def test_a_file_that_is_missing_is_no_traceback(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "missing.rego"]) == 1
    assert "missing.rego: no such file or directory" in capsys.readouterr().err


def test_an_error_at_evaluation_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.rego").write_text("package c\n\nx := 1\n\nx := 2 if true\n")
    assert run(["eval", "-d", "c.rego", "--format", "pretty", "data.c.x"]) == 2
    err = capsys.readouterr().err
    assert "c.rego:5:1: eval_conflict_error: complete rules must not produce" in err
    assert " 5 | x := 2 if true" in err


def test_a_query_that_takes_too_long_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    query = "count([1 | numbers.range(1, 10000)[_]; numbers.range(1, 10000)[_]])"
    assert run(["eval", "--timeout", "50ms", query]) == 2
    assert "eval_cancel_error" in capsys.readouterr().out
    assert run(["eval", "--timeout", "soon", "1"]) == 1


def test_the_capabilities_name_every_builtin_with_its_types(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["capabilities"]) == 0
    document = json.loads(capsys.readouterr().out)
    by_name = {builtin["name"]: builtin for builtin in document["builtins"]}
    assert set(by_name) == {builtin.name for builtin in REGISTRY}
    assert by_name["plus"]["infix"] == "+"
    assert by_name["startswith"]["decl"] == {
        "type": "function",
        "args": [{"type": "string"}, {"type": "string"}],
        "result": {"type": "boolean"},
    }
    assert by_name["time.now_ns"]["nondeterministic"] is True
    assert run(["capabilities", "--names"]) == 0
    assert "io.jwt.decode_verify\n" in capsys.readouterr().out


def test_coverage_of_what_does_not_compile_is_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nq if x == 1\n")
    assert run(["eval", "--coverage", "-d", str(tmp_path / "p.rego"), "data.p.q"]) == 2
    document = json.loads(capsys.readouterr().out)
    empty = {"files": {}, "covered_lines": 0, "not_covered_lines": 0, "coverage": 0}
    assert document["coverage"] == empty
    assert document["errors"][0]["code"] == "rego_unsafe_var_error"
