"""The figures of replays: memory that grows, and a rate that is too low, are set in bold."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from benchmarks.replay import Row, events, page, plot, write_log
from doorward.replay.reading import chunks_of

ROWS = [Row(1_000_000, 10**9, 25.0, 40.0), Row(10_000_000, 10**10, 600.0, 45.0)]


def test_what_misses_its_goal_is_bold() -> None:
    text = page(ROWS)
    assert "| 1,000,000 | 1,000 | 25.0 | 40,000 | 40.0 |" in text
    assert "| 10,000,000 | 10,000 | 600.0 | **16,667** | **45.0** |" in text
    assert "| 40.0 |" in page([Row(100, 1, 25.0, 30.0), ROWS[0]])
    assert ElementTree.fromstring(plot(ROWS)).tag.endswith("svg")


def test_a_log_is_as_long_as_it_is_to_be(tmp_path: Path) -> None:
    size = write_log(tmp_path / "log.jsonl.gz", 30)
    content = b"".join(chunk.read() for chunk in chunks_of([str(tmp_path / "log.jsonl.gz")]))
    assert (content.count(b"\n"), len(content)) == (30, size)
    assert {event["result"] for event in events(30)} >= {True, False}
