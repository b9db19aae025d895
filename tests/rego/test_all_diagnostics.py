"""Everything that is wrong at once, and nothing that is wrong only because of what is left out."""

from __future__ import annotations

import pytest

from doorward.rego import REGISTRY, all_diagnostics
from doorward.rego.all_diagnostics import find_errors
from doorward.rego.analysis.passes import CheckOptions
from doorward.rego.shared import Source
from doorward.rego.syntax.parser import parse_with_recovery


def errors(*texts: str, strict: bool = False) -> list[str]:
    parsed = {
        f"{name}.rego": parse_with_recovery(Source(f"{name}.rego", text), builtins=REGISTRY)
        for name, text in zip("abc", texts, strict=False)
    }
    diagnostics = find_errors(parsed, REGISTRY, CheckOptions(strict=strict, max_errors=0))
    return [f"{e.span.file[0]}{e.span.row}: {e.message}" for e in diagnostics]


def test_a_parse_error_hides_no_error_of_names_and_types() -> None:
    text = "package a\n\np := )\n\nq := x\n\nr := count(1)\n\ns := t(1)\n\nu if u\n"
    assert errors(text) == [
        "a3: unexpected ) token",
        "a3: unexpected ) token: expected rule value term (e.g., p := <VALUE> { ... })",
        "a5: var x is unsafe",
        "a7: count: invalid argument(s)",
        "a9: undefined function t",
        "a11: rule data.a.u is recursive: data.a.u -> data.a.u",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "package a\n\nhelper := )\n\np := helper\n",
        "package a\n\nhelper(x) := )\n\np := helper(1)\n",
        "package a\n\nhelper(x) := )\n\np := data.a.helper(1)\n\nq := p\n\nr := q + 1\n",
        "package a\n\nimport data.lib as helper )\n\np := helper.x\n",
        "package a\n\nhelper iff true\n\np if helper\n",
        "package a\n\np := helper\n\nq := p\n\nhelper := {\n",
    ],
)
def test_what_relies_on_something_lost_is_not_wrong(text: str) -> None:
    broken = [error for error in errors(text) if "unexpected" in error or "rule name" in error]
    assert errors(text) == broken
    assert broken


def test_a_misspelled_rule_begins_a_statement() -> None:
    text = "package a\n\np if {\n\tx && y\n}\n\nb iff z\n\nq := v\n"
    assert errors(text) == [
        "a4: unexpected and token",
        *["a7: var cannot be used for rule name"] * 3,
        "a9: var v is unsafe",
    ]
    body = "package a\n\np if {\nx )\ny in z\ny with z as 1\n}\n\nq := v\n"
    assert [error for error in errors(body) if error[:2] != "a4"] == ["a9: var v is unsafe"]


def test_files_are_checked_together() -> None:
    broken = "package lib\n\nf(x) := )\n\ng(x) := x\n"
    user = "package b\n\np := data.lib.f(1)\n\nq := data.lib.g(1, 2, 3)\n\nr := data.lib.h(1)\n"
    assert [e for e in errors(broken, user) if e.startswith("b")] == [
        "b5: function data.lib.g has arity 1, got 3 arguments",
        "b7: undefined function data.lib.h",
    ]


def test_a_file_without_a_package_hides_no_other() -> None:
    assert errors("p := 1", "package b\n\nq := x\n") == [
        "a1: package expected",
        "b3: var x is unsafe",
    ]


def test_strict_errors_are_found_where_everything_could_be_read() -> None:
    unused = "package a\n\nimport data.lib\n\np := 1\n"
    assert errors(unused, strict=True) == ["a3: import data.lib unused"]
    assert errors(unused + "\nq := )\n", strict=True)[0].startswith("a7: unexpected )")


def test_the_search_goes_on_for_some_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "package a\n\np := x\n\nq := startswith(1, 2)\n"
    assert [each[:2] for each in errors(text)] == ["a3", "a5"]
    monkeypatch.setattr(all_diagnostics, "MAX_ROUNDS", 1)
    assert [each[:2] for each in errors(text)] == ["a3"]


def test_what_is_in_order_has_no_errors() -> None:
    assert errors("package a\n\np := 1\n", "package b\n\nq := data.a.p\n") == []


def test_an_error_outside_of_rules_ends_the_search() -> None:
    clash = "package a.p\n\nx := 1\n", "package a\n\np := 1\n\nq := y\n"
    assert "package a.p conflicts with rule p" in errors(*clash)[0]
