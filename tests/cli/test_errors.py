"""Errors as JSON carry the details that OPA gives: the line at fault, and the byte in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.corpora import GOLDEN, rows

from doorward.cli.errors import documents_text
from doorward.cli.main import run
from doorward.rego import CompileError, Engine
from doorward.rego.shared import ParseError, Source
from doorward.rego.syntax.parser import parse_module


@pytest.mark.long
def test_details_of_parse_errors_are_those_of_opa() -> None:
    differing = {}
    for case in rows(GOLDEN / "errors.jsonl.gz"):
        if case["engine"] != "1.9.0" or len(case["modules"]) != 1:
            continue
        ((name, text),) = case["modules"].items()
        try:
            parse_module(Source(name, text), v0=case.get("v0", False), annotations=True)
        except ParseError as error:
            want = {json.dumps([e["message"], e.get("location")]): e for e in case["errors"]}
            for mine in json.loads(documents_text(error)):
                position = json.dumps([mine["message"], mine.get("location")])
                if position in want and mine != want[position]:
                    differing[case["id"]] = mine, want[position]
    assert not differing


def test_details_of_type_errors_are_types_as_json() -> None:
    with pytest.raises(CompileError) as caught:
        Engine(modules={"p.rego": 'package p\n\nq := 1 + "a"\n'})
    (document,) = json.loads(documents_text(caught.value))
    assert document["details"] == {
        "have": [{"type": "number"}, {"type": "string"}, None],
        "want": {"args": [{"type": "number"}, {"type": "number"}, {"type": "number"}]},
    }


def test_an_error_in_no_text_has_no_details() -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(Source("p.rego", ""))
    assert "details" not in documents_text(caught.value)


def test_a_path_that_leads_nowhere_is_hinted_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "p.rego"
    policy.write_text("package a\n\nallow if data.roles.admns[input.user]\n")
    data = tmp_path / "data.json"
    data.write_text('{"roles": {"admins": {"ann": true}}}')
    known = ["eval", "-d", str(policy), "-d", str(data)]
    for path, near in {"data.a.allw": "data.a.allow", "data.a.allow": "data.roles.admins"}.items():
        assert run([*known, path]) == 0
        said = capsys.readouterr()
        assert said.out == "{}\n"
        assert said.err.endswith(f": did you mean {near}?\n")
    assert run([*known, "data.nothing.like.it"]) == 0
    assert capsys.readouterr().err == ""


BROKEN = """package a

allow {
    input.x == 1
}

p := )

q := x
"""


def test_all_errors_are_reported_where_they_are_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.rego").write_text(BROKEN)
    # 12 more, past the number that is reported by default.
    names = "".join(f"r{n} := y{n}\n\n" for n in range(12))
    (tmp_path / "b.rego").write_text(f"# METADATA\n# scope: nowhere\npackage b\n\n{names}")

    def messages(*options: str) -> list[str]:
        assert run(["check", *options, "--format", "json", str(tmp_path)]) == 1
        return [each["message"] for each in json.loads(capsys.readouterr().err)["errors"]]

    assert not any("unsafe" in message for message in messages())
    every = messages("--all-errors")
    assert len(every) == 17
    assert sum("is unsafe" in message for message in every) == 13
    assert any("`if` keyword is required" in message for message in every)
    assert any("nowhere" in message for message in every)
    assert len(messages("--all-errors", "-m", "3")) == 4


def test_all_errors_of_policies_in_order_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package a\n\np := 1\n")
    assert run(["check", "--all-errors", str(tmp_path)]) == 0
