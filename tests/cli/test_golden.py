"""Our commands against what OPA's printed for the same files, and how they ended.

Rows are skipped or known to differ by rules with a reason in `differences.toml`; a row
named there that does not differ any more fails.
"""

from __future__ import annotations

import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import GOLDEN
from tests.corpora import rows as read_rows

from doorward.cli.main import run

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = ("cli.jsonl.gz", "test-cli.jsonl.gz")
RULES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text())
# `file:row: code: message` and `row:col: code: message` (OPA); `file:row:col: …` (ours).
PLACED = re.compile(
    r"^(?:\d+ error occurred[a-z ]*: )?(?:<query>:)?"
    r"([^\s:]+:\d+)(?::\d+)?: (rego_\w+|eval_\w+): (.*)$",
    re.MULTILINE,
)
COMMANDS = ("check", "deps", "eval", "fmt", "parse", "test")
DURATION = re.compile(r"\([0-9.]+(?:ns|µs|ms|s)\)")
EXPLAINED = re.compile(r"\AFAILURES\n.*?^SUMMARY\n-+\n", re.DOTALL | re.MULTILINE)
NUMBERED = re.compile(r"__local\d+__")


def rows() -> list[Any]:
    recorded = [row for file in FILES for row in read_rows(GOLDEN / file)]
    return [
        pytest.param(row, id=row["id"])
        for row in recorded
        if row["argv"][1] in COMMANDS and "--partial" not in row["argv"]  # test_partial.py
    ]


def known(row: dict[str, Any]) -> str | None:
    """The reason why this row may differ."""
    for rule in RULES["difference"]:
        if row["id"] in rule["ids"]:
            return str(rule["reason"])
    return None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("row", rows())
def test_the_answer_is_that_of_opa(
    row: dict[str, Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in row["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    stdin = io.TextIOWrapper(io.BytesIO(row.get("stdin", "").encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    code = run(row["argv"][1:])
    out, err = capsys.readouterr()
    after = {name: (folder / name).read_text() for name in row["files"]}
    changed = {name: text for name, text in after.items() if text != row["files"][name]}
    assert changed == row.get("changed", {})
    unordered = bool(row.get("unordered"))
    mine = (code, said(out, unordered), said(err, unordered))
    want = (row["exit"], said(row["stdout"], unordered), said(row["stderr"], unordered))
    reason = known(row)
    if reason is None:
        assert mine == want
    elif mine == want:
        pytest.fail(f"does not differ any more: {reason}")
    else:
        assert mine[0] == want[0] or "exit" in reason, reason
        assert "Traceback" not in err


def said(text: str, unordered: bool) -> Any:
    """What a text says: results to the byte, errors by their place, code and message.

    How long a test took is chance; how its failure is explained is ours.
    """
    text = EXPLAINED.sub("", DURATION.sub("(0s)", text))
    text = re.sub(r'"(duration|timer_\w+_ns)": \d+', r'"\1": 0', text)
    if text.startswith(('{\n  "errors"', '{\n  "result"')):
        document = json.loads(text, parse_float=str, parse_int=str)
        if "errors" in document:
            errors = [summary(error) for error in document["errors"]]
            return sorted(errors, key=str), document.get("result")
        if not unordered:
            return text
    if "Usage:" in text:
        return text.partition("Usage:")[0]
    text = text.removeprefix("failed to format Rego source file: ")
    if re.match(r"\d+ errors? occurred", text):
        return sorted(PLACED.findall(text)) or text
    return sorted(line.rstrip(",") for line in text.splitlines()) if unordered else text


def summary(error: dict[str, Any]) -> dict[str, Any]:
    actual = dict(error)
    if "details" in error:
        actual["details"] = nameless({key: error["details"].get(key) for key in DETAILS})
        have = actual["details"]["have"]
        if isinstance(have, list) and None in have[-1:]:
            # The result, which a call that is a query by itself has in OPA only.
            actual["details"]["have"] = have[:-1]
    actual["message"] = NUMBERED.sub("__local__", error["message"])
    return actual


DETAILS = ("a", "b", "have", "idx", "line", "pos", "want")
"""What all versions of OPA say of an error in one form: references are newer ones' texts here."""


def nameless(details: Any) -> Any:
    """Details without the names of operands, which OPA has for its built-ins."""
    if isinstance(details, list):
        return [nameless(item) for item in details]
    if not isinstance(details, dict):
        return details
    return {
        key: nameless(value)
        for key, value in details.items()
        if key not in ("name", "description") or not isinstance(value, str)
    }


def test_every_rule_of_the_list_names_rows_that_are_run() -> None:
    run_ids = {str(row.id) for row in rows()}
    for rule in RULES["difference"]:
        assert set(rule["ids"]) <= run_ids, rule["reason"]
