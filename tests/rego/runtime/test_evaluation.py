"""What an evaluation remembers, replaces and counts, asked through queries."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.rego import UNDEFINED, Engine, Environment, EvalError
from doorward.rego.runtime import call_cache
from doorward.rego.runtime.call_cache import CallCache
from doorward.rego.runtime.evaluation import MAX_ERRORS, MAX_ORDERED


def answer(rules: str, input: Any = UNDEFINED, data: Any = None, **options: Any) -> Any:
    engine = Engine({"a.rego": f"package a\n\n{rules}\n"}, data or {}, **options)
    return engine.prepare("data.a.p").value(input)


def test_only_so_many_errors_are_kept() -> None:
    query = Engine().prepare("[x | some n in input; x := 1 / n]")
    evaluation = query.evaluation([0] * (MAX_ERRORS + 50))
    assert query.value_of(evaluation) == []
    assert len(evaluation.errors) == MAX_ERRORS


def test_sets_of_collections_stay_in_order_however_many_there_are() -> None:
    rules = "p := [c | some s in input; t := {[s], [0]}; c := [[x, y] | some x in t; some y in t]]"
    count = MAX_ORDERED + 6
    actual = answer(rules, list(range(1, count + 1)))
    assert actual == [[[x, y] for x in ([0], [n]) for y in ([0], [n])] for n in range(1, count + 1)]


def test_small_objects_walked_many_times_stay_in_order() -> None:
    rules = "p := [k | some n in numbers.range(1, 30); some k, v in input; v == n]"
    names = {f"k{n:02}": n for n in reversed(range(1, 31))}
    assert answer(rules, names) == sorted(names)


@pytest.mark.parametrize(
    ("rule", "input", "want"),
    [
        ('p if lower(input) == "1" with lower as upper', 3, UNDEFINED),
        ("p if not lower(input) with lower as upper", "ab", UNDEFINED),
        ("p := x if x := uuid.rfc4122(input) with uuid.rfc4122 as lower", "AB", "ab"),
        (
            "p := x if x := lower(input) with lower as net.lookup_ip_addr",
            "127.0.0.1",
            frozenset({"127.0.0.1"}),
        ),
    ],
)
def test_a_builtin_may_stand_in_for_another(rule: str, input: Any, want: Any) -> None:
    assert answer(rule, input) == want


def test_the_error_of_a_builtin_that_stands_in_bears_its_name() -> None:
    rules = {"a.rego": 'package a\n\np if lower(input) == "1" with lower as upper\n'}
    query = Engine(rules).prepare("data.a.p", strict_builtin_errors=True)
    with pytest.raises(EvalError, match=r"a\.rego:3: .*: upper: operand 1 must be string"):
        query.value(3)


OPEN = "p[x] := y if some x, y in input\n\ndefault p.d := 7\n\np.d := 8 if input.c"


def test_a_default_stands_beside_what_open_rules_make() -> None:
    assert answer(OPEN, {"x": 1}) == {"x": 1, "d": 7}
    assert answer(OPEN, {"c": 1}) == {"c": 1, "d": 8}
    with pytest.raises(EvalError, match="object keys must be unique"):
        answer(OPEN, {"d": 1})
    assert answer("p[x] := y if some x, y in input\n\np.f(z) := z", {"c": 1}) == {"c": 1}


@pytest.mark.parametrize(
    ("rule", "input", "want"),
    [
        ("p := data.b[input]", "x", 2),
        ("p := data.b[input]", 2, 3),
        ("p := data.b[input]", True, UNDEFINED),
        ("p := data.b[input][1]", "y", 4),
        ("p := data.nope[input]", "y", UNDEFINED),
    ],
)
def test_base_data_is_found_by_what_the_input_says(rule: str, input: Any, want: Any) -> None:
    assert answer(rule, input, {"b": {"x": 2, "2": 3, "y": {"1": 4}}}) == want


def test_members_of_sets_are_read_as_fields_are() -> None:
    rules = 'p contains n if {\n\tsome n, y in input\n\ty.a == "a"\n\ty.b == "b"\n}'
    given = [frozenset({"a", "b"}), 3, {"a": "a", "b": "b"}, frozenset({"a"}), {"a": "a", "b": "c"}]
    assert answer(rules, given) == frozenset({0, 2})


@pytest.mark.parametrize(
    ("document", "want"),
    [
        (frozenset({"a", "b"}), frozenset({1, 2})),
        (frozenset({"a"}), frozenset()),
        ({"a": "a", "b": "b"}, frozenset({1, 2})),
        (3, frozenset()),
    ],
)
def test_what_is_read_ahead_of_a_walk_may_be_of_any_kind(document: Any, want: Any) -> None:
    rules = 'p contains n if {\n\tsome n in [1, 2]\n\tinput.o.a == "a"\n\tinput.o.b == "b"\n}'
    assert answer(rules, {"o": document}) == want


@pytest.mark.parametrize(
    ("document", "want"),
    [
        (frozenset({"b", "y"}), True),
        (frozenset({"b"}), UNDEFINED),
        ({"b": "b", "y": "y"}, True),
        (3, UNDEFINED),
    ],
)
def test_what_several_rules_read_may_be_of_any_kind(document: Any, want: Any) -> None:
    tests = ['input.o.a == "x"\n\tinput.o.b == "b"', 'input.o.b == "b"\n\tinput.o.y == "y"']
    rules = "\n\n".join(f"p if {{\n\t{test}\n}}" for test in tests)
    assert answer(rules, {"o": document}) == want


@pytest.mark.parametrize(
    "read", ["input", "input.x", "input[0]", "q", "q.x", "f(input)", "input[k]"]
)
def test_what_several_definitions_begin_with_is_the_same_for_each(read: str) -> None:
    rules = f"p := 1 if {read} == 1\n\np := 2 if {read} == 2\n\nq := input\n\nf(x) := x\n\nk := 0"
    inside = {"input.x": {"x": 2}, "q.x": {"x": 2}, "input[0]": [2], "input[k]": [2]}
    assert answer(rules, inside.get(read, 2)) == 2
    assert answer(rules, 3) is UNDEFINED


@pytest.mark.parametrize(
    ("document", "want"),
    [("[7]", [[0, 7]]), ("{7}", [[7, 7]]), ("3", []), ('{"b": 1, "a": 2}', [["a", 2], ["b", 1]])],
)
def test_a_document_of_open_rules_may_be_replaced_by_anything(document: str, want: Any) -> None:
    rules = "o[x].y := 1 if some x in input\n\nq := [[k, v] | v := o[k]]\n\n"
    actual = answer(f"{rules}p := x if x := q with o as {document}", ["b", "a"])
    assert sorted(actual) == want


def test_one_decision_draws_once_also_where_something_is_replaced() -> None:
    rules = 'p contains x if x := uuid.rfc4122("k")\n\np contains x if x := q with input as 1\n\n'
    assert len(answer(rules + 'q := uuid.rfc4122("k") if input == 1', 2)) == 1


@pytest.mark.parametrize("options", [{}, {"traced": True}, {"max_items": 100}])
def test_a_print_that_nobody_hears_changes_nothing(options: dict[str, Any]) -> None:
    heard: list[str] = []
    told = Environment(on_print=lambda text, _: heard.append(text))
    assert answer("p if print(input)", 3, environment=told, **options) is True
    assert answer("p if print(input)", 3, **options) is True
    assert heard == ["3"]


@pytest.mark.parametrize(
    ("rule", "input", "want"),
    [
        ("p := [x | some x in input]", 3, []),
        ("p := abs(input)", -3, 3),
        ('p := object.get(input, "a", null)', {"a": 7}, 7),
        ('p := concat("", [input, "b"])', "a", "ab"),
        ("p := {x: 1 | some x in input}", ["a"], {"a": 1}),
    ],
)
def test_counted_code_answers_as_other_code_does(rule: str, input: Any, want: Any) -> None:
    assert answer(rule, input, max_items=100) == want
    assert answer(rule, input) == want


def test_calls_are_not_cached_for_a_while_where_no_function_finds_answers() -> None:
    evaluation = Engine().prepare("true").evaluation()
    evaluation.caches_calls, evaluation.checks = True, 3
    cache = evaluation.call_cache = CallCache()
    cache.is_useful = False
    evaluation.cached_call(0, 1)
    assert not evaluation.caches_calls
    assert evaluation.checks_before_cache == 24
    assert cache.is_useful


def test_functions_answer_without_the_cache_where_it_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_cache, "MAX_CALLS", 2)
    rules = "package a\n\nf(x) := y if y := x * 2\n\np := [f(x) | some x in input]\n"
    query = Engine({"a.rego": rules}).prepare("data.a.p", strict_builtin_errors=True)
    assert query.value([1, 2, 3, 4, 3]) == [2, 4, 6, 8, 6]
