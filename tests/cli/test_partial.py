"""`doorward eval --partial` against what OPA's printed, up to the names that are generated.

What differs is named in tests/differences/cli_partial.toml; a row named there that does not differ
any more fails.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from tests.corpora import GOLDEN, rows
from tests.differences import load
from tests.rego.partial.recorded import comparable

from doorward.cli.main import run
from doorward.rego.shared import parse_number

REASONS: Final = {row: each.reason for each in load("cli_partial") for row in each.ids}
ROWS: Final = [
    row
    for file in ("cli", "cli-partial")
    for row in rows(GOLDEN / f"{file}.jsonl.gz")
    if row["argv"][1] == "eval" and (file == "cli-partial" or "--partial" in row["argv"])
]
GENERATED: Final = re.compile(r"__\w+?__\d*|_term_\w+|\b_\d+\b")


def test_the_list_names_recorded_rows() -> None:
    assert REASONS.keys() <= {row["id"] for row in ROWS}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS])
def test_the_answer_is_that_of_opa(
    row: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in row["files"].items():
        (tmp_path / name).write_text(text)
    code = run(row["argv"][1:])
    out, err = capsys.readouterr()
    unordered = bool(row.get("unordered"))
    mine = (code, _said(out, unordered), _line(err))
    want = (row["exit"], _said(row["stdout"], unordered), _line(row["stderr"]))
    reason = REASONS.get(row["id"])
    if reason is None:
        assert mine == want
    else:
        assert mine != want, f"does not differ any more: {reason}"
        assert "Traceback" not in err


def _line(text: str) -> str:
    return text.partition("\n")[0]


def _said(text: str, unordered: bool) -> Any:
    if text.startswith('{\n  "partial"'):
        ast = json.loads(text, parse_float=parse_number)["partial"]
        ast = {"queries": ast.get("queries", []), "support": ast.get("modules", [])}
        return comparable(ast, unordered=unordered)
    if text.startswith("+"):
        text = _without_frame(text)
    blocks = re.split(r"\n\n+|\n(?=# )", text)
    queries = [_renamed(block) for block in blocks if block.startswith("# Query")]
    return queries, sorted(_renamed(block) for block in blocks if not block.startswith("# Query"))


def _without_frame(text: str) -> str:
    widths = {len(line) for line in text.splitlines()}
    assert len(widths) == 1, "the lines of a table end at one column"
    lines = []
    for line in text.splitlines():
        if line.startswith("|"):
            _, name, cell = line[:-1].split("|", 2)
            lines += [f"\n# {name.strip()}"] if name.strip() else []
            lines.append(cell[1:].rstrip())
    return "\n".join(lines)


def _renamed(block: str) -> str:
    names: dict[str, str] = {}
    return GENERATED.sub(lambda match: names.setdefault(match[0], f"v{len(names)}"), block)


REPORTED = """package p

allow if {
	input.user == "ann"
	data.levels[input.user] > 2
	never
}

allow if {
	1 == 1
	input.admin
}

never if {
	1 == 2
	input.x
}

unused if input.y
"""


def test_coverage_of_a_residual_has_what_was_asked_and_rules_that_may_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `opa eval --partial --coverage` reports beside the residual."""
    policy = tmp_path / "p.rego"
    policy.write_text(REPORTED)
    (tmp_path / "data.json").write_text('{"levels": {"ann": 3}}')
    assert run(["eval", "--partial", "--coverage", "-d", str(tmp_path), "data.p.allow"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["partial"]["queries"]) == 1
    report = answer["coverage"]["files"][str(policy)]
    spans = [(each["start"]["row"], each["end"]["row"]) for each in report["covered"]]
    assert spans == [(4, 6), (9, 11), (15, 15)]
    assert answer["coverage"]["covered_lines"] == 7
    assert answer["coverage"]["not_covered_lines"] == 4


def test_a_profile_of_a_residual_counts_its_expressions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text(REPORTED)
    (tmp_path / "data.json").write_text('{"levels": {"ann": 3}}')
    command = ["eval", "--partial", "--profile", "--profile-limit=20", "-d", str(tmp_path)]
    assert run([*command, "data.p.allow"]) == 0
    answer = json.loads(capsys.readouterr().out)
    counts = {
        each["location"]["row"]: each["num_eval"]
        for each in answer["profile"]
        if each["location"]["file"]
    }
    assert counts[4] == counts[10] == counts[11] == counts[15] == 1
    assert counts.keys().isdisjoint({16, 19})
    assert run([*command, "--coverage", "data.p.allow"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["coverage"]["covered_lines"] > 0
    assert len(both["profile"]) == len(answer["profile"])
    assert "timer_rego_partial_eval_ns" in answer["metrics"]


@pytest.mark.parametrize("option", ["--explain=full", "--explain=notes", "--why"])
def test_what_is_left_has_no_explanation(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "--partial", "input.x"]) == 0
    plain = capsys.readouterr()
    assert run(["eval", "--partial", option, "input.x"]) == 0
    explained = capsys.readouterr()
    assert explained.out == plain.out
    assert "has no explanation" in explained.err


def test_its_time_is_reported_with_metrics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", "--partial", "--metrics", "input.x"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"]["timer_rego_partial_eval_ns"] > 0


def test_an_unknown_that_is_not_a_path_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "--partial", "-u", "input.a", "-u", "request", "data.a"]) == 1
    hint = "hint: `request` must begin with `input` or `data`"
    assert capsys.readouterr().err.splitlines()[-1].strip() == hint
