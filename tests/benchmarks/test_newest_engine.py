"""The benchmark next to OPA's newest engine: both answer each kind alike, and the page shows it."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest

from benchmarks import newest_engine
from benchmarks.kinds import KINDS, Kind
from benchmarks.newest_engine import BEGIN, CONSTANT, END, QUERY, Peer, Row
from doorward.rego import Engine, from_json


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_both_engines_give_one_answer(kind: Kind) -> None:
    policies = f"package case\n\nconstant := 1\n\n{kind.policy}"
    text = newest_engine.input_text(kind.input(Random(1)))
    peer = Peer(policies)
    try:
        theirs = peer.answer(QUERY, text.encode())
        assert peer.answer(CONSTANT, b"{}") == 1
    finally:
        peer.close()
    assert Engine({"case.rego": policies}).prepare(QUERY).value(from_json(text)) == theirs


def test_the_page_shows_losses_first_and_in_bold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_engine, "ROUND_SECONDS", 0.0)
    page = tmp_path / "page.md"
    page.write_text(f"head\n{BEGIN}old\n{END}tail\n")
    arguments = ["--rounds", "1", "--only", "array.flatten", "--markdown", str(page)]
    assert newest_engine.main(arguments) == 0
    assert "array.flatten" in capsys.readouterr().out
    text = page.read_text()
    assert text.startswith(f"head\n{BEGIN}")
    assert text.endswith(f"{END}tail\n")
    assert "| array.flatten |" in text
    assert "old" not in text
    rows = [Row(KINDS[0], 1.0, 10.0, 100.0, 50.0), Row(KINDS[1], 1.0, 100.0, 100.0, 50.0)]
    lines = "".join(newest_engine.page(rows, 3)).splitlines()
    assert lines[-2] == f"| {KINDS[1].name} | 100.0 | 50.0 | **2.00** | 0.67 |"
    assert lines[-1] == f"| {KINDS[0].name} | 10.0 | 50.0 | 0.20 | 0.07 |"


def test_what_reading_hides_has_no_figure() -> None:
    assert math.isnan(Row(KINDS[0], 1.0, 10.0, 1000.0, 3.0).ratio)


def test_a_page_without_marks_is_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="are not there"):
        newest_engine.put(page, "rows")
    assert page.read_text() == "no marks"
