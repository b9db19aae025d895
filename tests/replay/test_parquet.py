"""A decision log as a Parquet file is what it is as lines of JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.replay import Job, ReplayError, as_json, replay
from doorward.replay.deciding import Version
from doorward.replay.reading import chunks_of, is_compressed

duckdb = pytest.importorskip("duckdb")
POLICY = """package app

default allow := false

allow if {
	input.user == "ann"
	not input.note
}
"""
EVENTS: list[dict[str, Any]] = [
    {
        "decision_id": f"id-{number}",
        "path": "app/allow",
        "input": {"user": user, "note": None} if number % 3 else {"user": user},
        "result": user == "bob",
        "timestamp": f"2026-11-22T18:53:{number % 60:02}.500000Z",
        "masked": ["/input/password"],
    }
    for number, user in enumerate(["ann", "bob", 'e"v\\il\u2028'] * 900)
]


def written(path: Path, select: str, *, lines: bool = False) -> Path:
    """A Parquet file of the events, and the lines beside it."""
    source = path.with_suffix(".jsonl")
    source.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {select} FROM read_ndjson_objects('{source}')) "
            f"TO '{path}' (FORMAT parquet)"
        )
    return source if lines else path


NAMES = ("decision_id", "path", "input", "result", "timestamp", "masked")
TEXTS = ", ".join(
    f"json->>'{name}' AS {name}"
    if name in ("decision_id", "path", "timestamp")
    else f"(json->'{name}')::VARCHAR AS {name}"
    for name in NAMES
)
TYPED = (
    TEXTS.replace("json->>'timestamp'", "(json->>'timestamp')::TIMESTAMP")
    .replace("(json->'masked')::VARCHAR", "(json->'masked')::VARCHAR[]")
    .replace("(json->'input')::VARCHAR", "json->'input'")
)


@pytest.mark.long
@pytest.mark.parametrize("select", [TEXTS, TYPED])
def test_rows_are_the_events_that_lines_are(select: str, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    lines = written(path, select, lines=True)
    job = Job(Version.compile(Loaded({"p.rego": POLICY})))
    expected, tally = (replay([str(each)], job, processes=1) for each in (lines, path))
    assert as_json(tally) == as_json(expected)
    assert tally.events == len(EVENTS)
    assert tally.changes > 0
    assert tally.taken == path.stat().st_size
    assert is_compressed(str(path))


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    path = written(tmp_path / "log.parquet", TEXTS)
    chunks = list(chunks_of([str(path)]))
    assert len(chunks) > 1
    assert sum(chunk.read().count(b"\n") for chunk in chunks) == len(EVENTS)


@pytest.mark.long
def test_the_documented_command_makes_such_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = written(tmp_path / "log.parquet", TEXTS, lines=True)
    Path("decisions.jsonl.gz").write_bytes(gzip.compress(lines.read_bytes()))
    page = (Path(__file__).parents[2] / "docs/replay.md").read_text()
    with duckdb.connect() as connection:
        connection.execute(page.partition("```sql\n")[2].partition("```")[0])
    job = Job(Version.compile(Loaded({"p.rego": POLICY})))
    reports = [
        as_json(replay([each], job, processes=1)) for each in (str(lines), "decisions.parquet")
    ]
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("1 AS n", "it has no column decision_id"),
        (
            "'1' AS decision_id, {'user': 'ann'} AS input",
            "the column input of this decision log has the type STRUCT",
        ),
        ("1 AS decision_id", "the column decision_id of this decision log has the type INTEGER: "),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(
    select: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "log.parquet", select)
    with pytest.raises(ReplayError, match=message):
        list(chunks_of([str(path)]))


def test_text_that_is_not_json_makes_no_event(tmp_path: Path) -> None:
    text = """'{"user": "ann"}, "path": "app/other"'"""
    path = written(tmp_path / "log.parquet", f"'1' AS decision_id, {text} AS input")
    job = Job(Version.compile(Loaded({"p.rego": POLICY})))
    tally = replay([str(path)], job, processes=1)
    assert (tally.events, tally.no_events) == (0, len(EVENTS))


def test_a_file_that_is_broken_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(ReplayError, match=r"log\.parquet: "):
        list(chunks_of([str(path)]))
