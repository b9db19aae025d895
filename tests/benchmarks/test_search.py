"""The figures of searches count what was found of what differs, in turns over all policies."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from benchmarks.plots import line_plot
from benchmarks.search import (
    ROOT,
    Row,
    in_turns,
    kinds,
    measured,
    page,
    plot,
    subjects,
    summary,
    table,
)

ROWS = [
    Row("a", "1", 0.5, None, is_sampled=True),
    Row("a", "2", 5.0, 0.1, is_sampled=False),
    Row("b", "3", None, 1.0, is_sampled=False),
    Row("b", "4", None, None, is_sampled=False),
]


def test_what_nothing_finds_does_not_count() -> None:
    assert "| a | 2 | 2 | 1 | 2 | 1 |" in table(ROWS)
    assert "| **all** | 4 | 3 | 1 | 2 | 2 |" in table(ROWS)
    text = " ".join(summary(ROWS).split())
    assert "Of 4 mutants of 2 policies some search told 3 from their original" in text
    assert "The other 1 may mean the same, or every search missed them" in text
    assert "**33.3% (1 of 3) in 2 s** and **66.7% (2 of 3) in 20 s**" in text
    assert "random search 66.7% (2 of 3) in 2 s, and 0.0% (0 of 1) of a sample" in text
    assert table(ROWS) in page(ROWS)


def test_the_folders_of_the_project_have_mutants() -> None:
    given = list(subjects([ROOT / "examples/mcp", ROOT / "examples/admission/policies"]))
    assert [each.v0 for each in given] == [False, False]
    assert all(each.mutants for each in given)


def test_what_no_search_tells_apart_is_counted_by_kind() -> None:
    rows = [
        Row("a", "p.rego:1 `x: y`: left out", None, None, is_sampled=False),
        Row("a", "p.rego:1 `x`: left out", 1.0, None, is_sampled=False),
        Row("a", "p.rego:2 `1`: one more", 1.0, None, is_sampled=False),
    ]
    assert "| left out | 2 | 1 | 50% |" in kinds(rows)
    assert "| one more | 1 | 0 | 0% |" in kinds(rows)
    assert "| **all** | 3 | 1 | 33% |" in kinds(rows)


def test_a_plot_is_an_image_without_scripts() -> None:
    for text in (plot(ROWS), line_plot({"<a>": [(1, 1)]}, across="x", up="y", highest=2)):
        names = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(text).iter()}
        assert names <= {"svg", "title", "rect", "text", "line", "polyline", "circle"}


def test_mutants_of_all_policies_are_taken_in_turns(tmp_path: Path) -> None:
    old = tmp_path / "old"
    for folder, text in ((old, 'p { input.a == "b" }'), (tmp_path / "new", "p if input.a == 1")):
        folder.mkdir()
        (folder / "p.rego").write_text(f"package p\n\n{text}\n")
    given = list(subjects([old, tmp_path / "new"]))
    assert [each.v0 for each in given] == [True, False]
    turns = list(in_turns(given, 4))
    assert [each.name for each, _, _ in turns] == ["old", "new", "old", "new"]
    row = measured(*turns[0], number=0)
    assert row.differs
    assert row.guided is not None
    assert 0 <= row.guided < 20
