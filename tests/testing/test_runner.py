"""Which rules are tests, and when they pass."""

from __future__ import annotations

import pytest

from doorward.bundles.loader import Loaded
from doorward.rego import BuiltinError
from doorward.testing import Case, Result, Suite, run, why

TABLE = """package t_test

cases := {
    "one": {"in": 1, "want": 2},
    "two": {"in": 2, "want": 4},
}

test_table[name] if {
    some name, tc in cases
    tc.in + 1 == tc.want
}
"""


def suite(**texts: str) -> Suite:
    return Suite(Loaded({f"{name}.rego": text for name, text in texts.items()}))


def results(**texts: str) -> dict[str, Result]:
    return {str(result.test): result for result in run(suite(**texts))}


def outcomes(text: str) -> dict[str, str]:
    return {r.test.name: r.outcome for r in results(a=f"package a\n\n{text}").values()}


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("test_x if true", "PASS"),
        ("test_x if false", "FAIL"),
        ("test_x := false", "FAIL"),
        ("test_x := 1", "FAIL"),
        ('test_x := "true"', "FAIL"),
        ("test_x contains 1", "FAIL"),
        ("test_x := {}", "FAIL"),
        ("todo_test_x if false", "SKIPPED"),
        ("test_x if q\n\nq := 1\n\nq := 2", "ERROR"),
        ("test_x if 1 / 0 == 1", "FAIL"),
    ],
)
def test_only_true_passes(rule: str, outcome: str) -> None:
    assert list(outcomes(rule).values()) == [outcome]


def test_functions_and_defaults_are_tests_of_their_own() -> None:
    text = "test_f(x) if x\n\ndefault test_d := false\n\ntest_d if true\n\ntested if true"
    assert outcomes(text) == {"test_f": "ERROR", "test_d": "FAIL", "test_d#01": "PASS"}


def test_a_function_that_is_a_test_is_an_error_that_says_why() -> None:
    error = results(a="package a\n\ntest_f(x) if x\n")["data.a.test_f"].error
    assert error is not None
    assert error.message == "function data.a.test_f used as reference, not called"


def test_every_part_of_a_name_may_make_it_a_test() -> None:
    text = 'a.test_b if true\n\na.test_b if false\n\na["test c"].d if true\n\na["test_c d"].e := 1'
    assert outcomes(text) == {
        "a.test_b": "PASS",
        'a["test_b#01"]': "FAIL",
        'a["test_c d"]': "FAIL",
    }


def test_two_rules_of_one_name_are_two_tests() -> None:
    text = "test_x if false\n\ntest_x if true\n\ntest_x := 1 if true"
    assert outcomes(text) == {"test_x": "FAIL", "test_x#01": "PASS", "test_x#02": "FAIL"}


def test_a_second_test_takes_no_name_that_is_used() -> None:
    text = "test_x if true\n\ntest_x if true\n\ntest_x__01 if false"
    assert outcomes(text) == {"test_x": "PASS", "test_x#01": "PASS", "test_x__01": "FAIL"}


def test_equal_names_in_two_files_of_a_package_are_two_tests() -> None:
    text = "package a\n\ntest_x if true\n"
    assert list(results(a=text, b=text)) == ["data.a.test_x", "data.a.test_x#01"]


def test_replacements_hold_for_their_expression_only() -> None:
    text = """
p := input.x

test_with if {
    p == 1 with input as {"x": 1}
    p == 2 with input.x as 2
    not p
}
"""
    assert outcomes(text) == {"test_with": "PASS"}


def test_a_table_test_has_a_case_for_each_name_tried() -> None:
    result = results(t=TABLE)["data.t_test.test_table"]
    assert result.outcome == "FAIL"
    assert {name: case.passed for name, case in result.cases.items()} == {
        "one": True,
        "two": False,
    }
    assert sorted(result.outcomes) == ["FAIL", "PASS"]


def test_cases_of_cases_do_not_mix_up_rounds() -> None:
    text = """package n

test_n[a][b] if {
    some a in ["x", "y", "z"]
    a != "z"
    some b in ["p", "q"]
    [a, b] != ["y", "q"]
}
"""
    cases = results(n=text)["data.n.test_n"].cases
    assert {
        a: {b: case.passed for b, case in group.cases.items()} for a, group in cases.items()
    } == {
        "x": {"p": True, "q": True},
        "y": {"p": True, "q": False},
    }


def test_cases_written_one_by_one_are_tests_that_fail_as_in_opa() -> None:
    assert outcomes('test_w["a"] if 1 == 1\n\ntest_w["b"] if 1 == 2') == {
        "test_w": "FAIL",
        "test_w#01": "FAIL",
    }


def test_a_table_without_cases_passes_as_in_opa() -> None:
    assert outcomes("test_x[name] if some name, _ in {}") == {"test_x": "PASS"}


@pytest.mark.parametrize(
    ("rule", "cases"),
    [
        ("test_x[n] if { some n in [1, 2]; n < 2 }", {"1": True, "2": False}),
        ("test_x[n] if { some n in [{1}, null] }", {"[1]": True, "null": True}),
        ('test_x[[1, "a"]] if true', {'[1,"a"]': True}),
        ('test_x[{"a": n}] if { some n in [1, 2]; n > 1 }', {'{"a":1}': False, '{"a":2}': True}),
        ('test_x[c.n] if { some c in [{"n": "a"}, {}]; c.n != "a" }', {"a": False}),
        ('test_x[sprintf("%d", [i])] if { some i in [1, 2]; i < 2 }', {"1": True, "2": False}),
        ("test_x[input.a] if false", {}),
        ('test_x[concat(i, [a, b])] if { some i, a in {"-": "x"}; b := upper(a) }', {"x-X": True}),
        # Nobody declares `i`: what needs it waits until everything else is in order.
        ('test_x[sprintf("%d", [i])] if { xs[i] > 1 }\n\nxs := [1, 2]', {"1": True}),
        ("test_x[xs[i]] if { xs[i] > 1 }\n\nxs := [1, 2]", {"1": False, "2": True}),
        ('test_x[n] := v if some n, v in {"a": true, "b": 1}', {"a": True, "b": False}),
        ("test_x.a := 1", {"a": False}),
        ("test_x.a := true", {"a": True}),
        ("test_x.a.b := true", {}),
        ("test_x[case0] if some case0 in [1]", {"1": True}),
        ("test_x[[case0]] if { some case0 in [1]; case0 > 1 }", {"[1]": False}),
        (
            'test_x[n] if { some n in ["a", "b"]; internal.test_case(["c"]); n == "a" }',
            {"a": True, "c": False},
        ),
    ],
)
def test_cases_have_names_of_all_kinds(rule: str, cases: dict[str, bool]) -> None:
    (result,) = [r for r in results(a=f"package a\n\n{rule}").values() if r.test.name == "test_x"]
    assert result.error is None
    assert {name: case.passed for name, case in result.cases.items()} == cases


def test_a_case_without_a_value_passes_and_has_no_name_as_in_opa() -> None:
    (result,) = results(a='package a\n\ntest_x[n] := v if some n, v in {"a": null}').values()
    assert result.passed
    assert result.cases == {"a": Case("")}


def test_a_second_ask_of_a_table_hears_of_its_cases_again() -> None:
    actual = suite(t=TABLE)
    first, second = (next(iter(run(actual))) for _ in range(2))
    assert [case.name for case in first.cases.values()] == ["one", "two"]
    assert second.cases == first.cases


def test_what_a_test_prints_is_kept_with_it() -> None:
    actual = results(a='package a\n\ntest_x if print("hello", 1)\n\ntest_y if true\n')
    assert actual["data.a.test_x"].output == "hello 1\n"
    assert actual["data.a.test_y"].output == ""


def test_a_test_that_takes_too_long_is_an_error() -> None:
    text = """package a

test_x if {
    some i in numbers.range(1, 3000)
    some j in numbers.range(1, 3000)
    i * j < 0
}
"""
    (result,) = run(suite(a=text), timeout=0.05)
    assert result.error is not None
    assert result.error.code == "eval_cancel_error"


def test_tests_are_chosen_by_a_regular_expression_on_the_full_name() -> None:
    actual = suite(a="package a\n\ntest_x if true\n\ntest_xy if true\n")
    assert [str(test) for test in actual.matching("a.test_x$")] == ["data.a.test_x"]
    with pytest.raises(BuiltinError, match=r"missing closing \)"):
        actual.matching("(")


def test_why_shows_the_values_that_made_it_fail() -> None:
    actual = suite(
        p="package p\n\nallow if input.x == 1\n",
        t='package t\n\ntest_allow if data.p.allow with input as {"x": 2}\n',
    )
    (result,) = run(actual)
    assert why(actual, result) == (
        "data.t.test_allow is undefined\n"
        '  t.rego:3: `data.p.allow with input as {"x": 2}` does not hold\n'
        "    data.p.allow is undefined\n"
        "      p.rego:3: `input.x == 1` does not hold\n"
        "        input.x: 2"
    )


def test_a_path_that_leads_nowhere_is_hinted_at() -> None:
    actual = suite(a="package a\n\nallow := true\n", t="package t\n\ntest_it if data.a.allw\n")
    (result,) = run(actual)
    said = why(actual, result).splitlines()
    assert said[0] == "data.t.test_it is undefined"
    assert said[-1] == "hint: there is no data.a.allw: did you mean data.a.allow?"
