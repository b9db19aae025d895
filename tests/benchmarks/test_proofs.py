"""The figures of proofs: a line for each group of policies, and one for each property."""

from __future__ import annotations

from benchmarks.proofs import GROUPS, POLICIES, Row, many_rules, page, rows, table

ROWS = [
    Row("a", "never_x", "none exists", 0.5),
    Row("a", "never_y", "counterexample", 0.25),
    Row("b", "never_z", "cannot say", 2.0),
]


def test_answers_are_counted_by_group() -> None:
    text = table(ROWS)
    assert "| a | 2 | 1 | 1 | 0 | 0.75 |" in text
    assert "| **all** | 3 | 1 | 1 | 1 | 2.75 |" in text
    assert "| b | `never_z` | cannot say | 2.00 |" in text
    assert "| a search | 1.00 s |" in page(ROWS, [("a search", "1.00 s")])


def test_the_properties_of_a_group_are_judged() -> None:
    verdicts = list(
        rows({"RBAC": [POLICIES / "properties/rbac.rego", POLICIES / "properties/data.json"]})
    )
    assert len(verdicts) == 6
    assert sum(each.outcome == "none exists" for each in verdicts) == 4


def test_every_file_of_a_group_is_there() -> None:
    assert all(path.exists() for paths in GROUPS.values() for path in paths)


def test_one_of_the_many_rules_differs() -> None:
    old, new = many_rules()
    texts = [str(each.modules["app.rego"]).splitlines() for each in (old, new)]
    changed = [pair for pair in zip(*texts, strict=True) if pair[0] != pair[1]]
    assert changed == [('\tinput.path == "/p150"', '\tlower(input.path) == "/p150"')]
