"""Every way to bind a name that can shadow another one: our answers are OPA's."""

from __future__ import annotations

import pytest
from tests.conformance.names import answer, recorded, rows
from tests.oracle.asking import Oracle

from doorward.rego import UNDEFINED, Engine, RegoError

pytestmark = pytest.mark.long


def test_answers_are_those_of_opa() -> None:
    wrong = [
        f"{row['id']}: want {want}, got {got}"
        for row in rows()
        if (got := answer(row)) != (want := recorded(row))
    ]
    assert not wrong, f"{len(wrong)} of {len(rows())} differ, the first:\n" + "\n".join(wrong[:10])


def test_the_oracle_says_the_same() -> None:
    wrong = []
    for row in rows():
        want = recorded(row)
        if "errors" not in want:
            oracle = Oracle(row["modules"], {}, v0=row["dialect"] == "v0")
            rows_of = oracle.answers(row["query"], row["input"])
            got = {"value": rows_of[0][""]} if rows_of else {"undefined": True}
            wrong += [f"{row['id']}: want {want}, got {got}"] if got != want else []
    assert not wrong, f"{len(wrong)} of {len(rows())} differ, the first:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ('some input in [{"user": "ann"}]; input.user == "ann"', False),
        ('some input in [{"user": "eve"}]; input.user == "eve"', True),
        ('some [input, x] in [[{"user": "ann"}, 2]]; x == 2', False),
        ('[x | some input in [{"user": "ann"}]; x := input.user] == ["ann"]', False),
    ],
)
@pytest.mark.parametrize("imported", ["", "import data.lib.input\n"])
def test_a_document_is_not_declared_by_some(body: str, holds: bool, imported: str) -> None:
    """As OPA 1.20.2 says: what `some … in` finds is compared with the document."""
    modules = {
        "a.rego": f"package a\n{imported}p if {{ {body} }}\n",
        "lib.rego": 'package lib.input\nuser := "ann"\n',
    }
    given = {"user": "eve"}
    wanted = True if holds else UNDEFINED
    assert Engine(modules).prepare("data.a.p").value(given) is wanted
    assert bool(Oracle(modules).answers("data.a.p", given)) is holds


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ('p := h if [data] := [{"a": {"h": 5}}]', 5),
        ('p := x if { [data] := [{"a": {"h": 5}}]; x := h }', 5),
        ('p := x if { [data] := [{"a": {"h": 5}}]; x := [y | y := h] }', [5]),
        ('p := x if { {"k": input} := {"k": {"a": 7}}; x := input.a }', 7),
        ('p := x if { {"k": input} := {"k": {"who": {"a": 7}}}; x := w.a }', 7),
        ("p if { [x | x := h]; [data] := [1] }", True),
    ],
)
def test_a_pattern_takes_a_document_from_the_names_below_it(rule: str, answer: object) -> None:
    """As OPA 1.20.2 says: what a rule or import stands for begins with the name of the document."""
    modules = {"a.rego": f"package a\nimport input.who as w\nh := 1\n{rule}\n"}
    given = {"who": {"a": 1}}
    assert Engine(modules).prepare("data.a.p").value(given) == answer
    assert Oracle(modules).answers("data.a.p", given) == [{"": answer}]


@pytest.mark.parametrize(
    "body",
    ["h", "g(1)", "data.x", "not h", "h with input as 1", "input.x with data.x as 1", "x := {h}"],
)
def test_a_pattern_does_not_take_a_document_that_was_read(body: str) -> None:
    modules = {"a.rego": f"package a\nh := 1\ng(x) := x\np if {{ {body}; [data] := [1] }}\n"}
    with pytest.raises(RegoError, match="var data referenced above"):
        Engine(modules)
