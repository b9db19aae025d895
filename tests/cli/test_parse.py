"""`doorward parse` prints the trees that OPA printed for the same policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN, rows

from doorward.cli.main import run


class Text(str):
    """A number as it stands in a JSON text."""


def test_recorded_trees_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    differing: dict[str, Any] = {}
    decode = json.JSONDecoder(parse_int=Text, parse_float=Text).decode
    for row in rows(GOLDEN / "parse.jsonl.gz", decode):
        (tmp_path / "p.rego").write_text(row["source"])
        flags = row.get("flags", [])
        own = ["--v0-compatible"] if "--v0-compatible" in flags else []
        if "locations,comments" in flags:
            own += ["--json-include", "locations,comments"]
        assert run(["parse", "--format", "json", *own, "p.rego"]) == 0
        tree = json.loads(capsys.readouterr().out, parse_int=Text, parse_float=Text)
        if json.dumps(tree) != json.dumps(row["ast"]):
            differing[row["id"]] = tree
    assert not differing


def test_the_tree_for_people_names_every_kind_of_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text(
        "# METADATA\n# title: t\npackage a\n\nimport data.x as y\nimport data.z\n\n"
        "p contains {1: _} if {\n\tnot f(`é`) with input.a as {null: data.b[_]}\n\tsome k in y\n"
        '\tevery q in k { q }\n}\n\nf(x) := {a | a} if false else := $"a{x}"\n'
    )
    assert run(["parse", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:13] == [
        *("module", " package", "  ref", "   data", '   "a"'),
        *(" import", "  ref", "   data", '   "x"', "  y", " import", "  ref", "   data"),
    ]
    kinds = {line.strip() for line in lines}
    assert kinds >= {"args", "object", "call", "somedecl", "every", "with", "setcomprehension"}
    assert kinds >= {"expr negated index=0", "null", "_", '"é"', "templatestring", "comment"}
    assert lines[-3:] == [" annotations", " comment", " comment"]


def test_comments_are_left_out_where_json_shall_not_have_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text("package a # b\n")
    assert run(["parse", "-f", "json", "--json-include", "locations,-comments", str(path)]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert set(tree) == {"package"}
    assert tree["package"]["location"]["row"] == 1
