"""The page about performance says what was measured, and shows what missed its goal."""

from __future__ import annotations

from pathlib import Path

from benchmarks.page import page, put
from benchmarks.rows import Measured
from benchmarks.scaling import Measure


def test_rows_become_lines_and_what_is_missed_is_bold() -> None:
    table = [
        Measured("doorward", [10.0, 12.0]),
        Measured("by hand", [2.0]),
        Measured("regopy bundle", [500.0]),
        Measured("doorward, token cached", [4.0]),
    ]
    text = page(
        {
            "people": table,
            "graph": [
                Measured("doorward", [7.0]),
                Measured("regopy bundle", missing="cannot run it"),
            ],
        },
        [Measure("fast", 1.0, "seconds", 2), Measure("wrong", 3, "answers", 0)],
    )
    assert "| people | 10.00 | 2.00 | **5.0** | 500.00 | 50 |" in text
    assert "| graph | 7.00 |  |  | cannot run it |  |" in text
    assert "people 4.0" in text
    assert "| fast | 1.00 seconds | at most 2 |" in text
    assert "| wrong | **3.00 answers** | at most 0 |" in text


def test_only_the_measured_part_of_the_file_is_written(tmp_path: Path) -> None:
    file = tmp_path / "performance.md"
    put(file, "first\n")
    file.write_text(f"before\n{file.read_text()}after\n")
    put(file, "second\n")
    begin, end = "<!-- measured: begin -->", "<!-- measured: end -->"
    assert file.read_text() == f"before\n{begin}\nsecond\n{end}\nafter\n"
