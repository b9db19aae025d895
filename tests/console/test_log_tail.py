"""The end of a log gives the rows that a search of all of it gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.console import log_query, log_tail
from doorward.console.log_query import Question, Search
from doorward.console.log_tail import newest_rows

RESULTS: list[Any] = [
    *(True, False, 1, "x", None, [], {}, {"allow": True}, {"allowed": False}, {"decision": 1}),
    *({"allow": False, "decision": True}, {"allow": None}, {"other": False}),
]


def write(path: Path, count: int = 260) -> Path:
    lines = []
    for number in range(count):
        event: dict[str, Any] = {
            "decision_id": f"id-{number}",
            "timestamp": f"2026-11-23T10:00:{number // 10:02d}.{number % 10}Z",
            "path": "app/allow",
            "input": {"method": "GET", "path": f"/{number}", "user": "ann"},
            "result": RESULTS[number % len(RESULTS)],
            "bundles": {"b": {"revision": "r"}},
            "metrics": {"timer_rego_query_eval_ns": 1_500},
        }
        if number % 7 == 0:
            del event["result"]
        if number % 11 == 0:
            event["error"] = {"message": "x"}
        lines.append(json.dumps(event))
    path.write_text("\n".join([*lines, "not JSON", "[1]", ""]))
    return path


def search(path: Path) -> Any:
    return Search(lambda: [str(path)]).newest(Question())


def test_the_end_is_as_a_search_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "log.jsonl")
    from_end = search(path)
    monkeypatch.setattr(log_query, "newest_rows", lambda *_: None)
    assert from_end == search(path)
    assert len(from_end["decisions"]) == log_query.MOST


def test_of_a_long_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "log.jsonl")
    monkeypatch.setattr(log_tail, "BYTES", 2_000)
    rows = newest_rows(str(path), 3)
    assert rows is not None
    assert [row[0] for row in rows] == ["id-259", "id-258", "id-257"]
    assert newest_rows(str(path), 50) is None


def test_a_line_that_is_nested_too_deeply_is_not_an_event(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", 2)
    path.write_text("[" * 20_000 + "\n" + path.read_text())
    rows = newest_rows(str(path), 10)
    assert rows is not None
    assert len(rows) == 2


def test_what_is_no_plain_file_is_for_the_search(tmp_path: Path) -> None:
    assert newest_rows(str(tmp_path / "missing.jsonl"), 1) is None
    assert newest_rows(str(tmp_path / "log.json.gz"), 1) is None
