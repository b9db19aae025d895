"""Whatever a policy does, it ends soon after its deadline, and within the room it was given."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.growth import slowness

from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    CompileError,
    Engine,
    Environment,
    EvalError,
    InputError,
    Query,
    Registry,
    code,
    from_json,
    queries,
    types,
)
from doorward.rego.runtime import evaluation

pytestmark = pytest.mark.long

DEADLINE = 0.1
SLACK = 0.05
"""Seconds of CPU time that an evaluation may go on past its deadline."""


def doubling(steps: int, line: str, start: str) -> str:
    """A policy of `steps` rules or functions, each asking the one before it twice."""
    lines = [line.format(n=n, before=n - 1) for n in range(1, steps)]
    return "\n".join(["package a", "", start, *lines, ""])


def huge(depth: int) -> Any:
    return list(range(10)) if depth == 0 else [huge(depth - 1) for _ in range(10)]


FUNCTIONS = doubling(
    40,
    # With other operands each time: no answer is known from before.
    "f{n}(x) := y if {{\n\ta := f{before}(2 * x)\n\tb := f{before}((2 * x) + 1)\n\ty := a + b\n}}",
    "f0(x) := x",
)
WITHS = doubling(
    40,
    "p{n} := y if {{\n\ta := p{before} with input.x as 1\n\tb := p{before} with input.x as 2\n"
    "\ty := a + b\n}}",
    "p0 := input.x",
)
CHAIN = doubling(
    16,
    "f{n}(x) if {{\n\tsome c in [1, 2, 3, 4, 5, 6, 7, 8]\n\tf{before}((9 * x) + c)\n}}",
    "f0(x) if x < 0",
)


def thousands() -> list[int]:
    return list(range(10_000))


ENDLESS: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "nested loops": ("", "[1 | some x in input; some y in input; x + y < 0]", thousands),
    "loops by reference": ("", "[1 | input[i] + input[j] < 0]", thousands),
    "every in a loop": ("", "[1 | some x in input; not helper(x, input)]", thousands),
    "every within every": ("", "every x in input { every y in input { x + y >= 0 } }", thousands),
    "one long loop": (
        "",
        "[1 | some x in input; format_int(x, 2) == 3]",
        lambda: list(range(3_000_000)),
    ),
    "loop over an object": (
        "",
        "[1 | some _, v in input; some w in input; v + w < 0]",
        lambda: {f"k{n}": n for n in range(10_000)},
    ),
    "walk of a huge document": ("", "[1 | walk(input, [_, 10])]", lambda: huge(5)),
    "walk of a long list": ("", "[1 | walk(input, [_, -1])]", lambda: list(range(2_000_000))),
    "paths through a graph": (
        "",
        "count(graph.reachable_paths(input, [0]))",
        lambda: {n: [m for m in range(1, 40) if m != n] for n in range(40)},
    ),
    "functions that double": (FUNCTIONS, "data.a.f39(input)", lambda: 1),
    "functions that multiply": (CHAIN, "data.a.f15(input)", lambda: 1),
    "replacements that double": (WITHS, "data.a.p39", lambda: {"x": 1}),
    "object comprehension": ("", "{[x, y]: 1 | some x in input; some y in input}", thousands),
    "set comprehension": ("", "{z | some x in input; some y in input; z := x * y}", thousands),
}
HELPER = "package a\n\nhelper(x, all) if every y in all { x + y >= 0 }\n"


def prepared(name: str, **options: Any) -> tuple[Query, Any]:
    policy, question, make = ENDLESS[name]
    engine = Engine({"a.rego": policy or HELPER})
    return engine.prepare(question.replace("helper(", "data.a.helper("), **options), make()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", ENDLESS)
def test_a_deadline_stops_it(name: str) -> None:
    query, value = prepared(name, deadline=DEADLINE)

    def spent() -> float:
        start = time.thread_time()
        with pytest.raises(EvalError) as caught:
            query.answer(value)
        assert caught.value.code == "eval_cancel_error"
        assert caught.value.message == "caller cancelled query execution"
        return time.thread_time() - start

    # A busy machine may be late now and then; what is not bounded is late each time.
    assert any(spent() < DEADLINE + SLACK * slowness() for _ in range(3))


@pytest.mark.parametrize("cost", [0.006, 0.05, 1.0])
def test_of_rounds_that_cost_much_each_one_is_late(
    cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = 0.0
    registry = Registry(REGISTRY)

    @registry.builtin("acme.work", types.number, returns=types.number, pure=False)
    def acme_work(x: int) -> int:
        nonlocal spent
        spent += cost
        return x

    query = Engine(registry=registry).prepare(
        "{acme.work(i) | some i in numbers.range(1, 1000)}", deadline=DEADLINE
    )
    # Only the rounds take time, whatever else slows them down here.
    clock = SimpleNamespace(monotonic=lambda: spent)
    for module in (evaluation, queries):
        monkeypatch.setattr(module, "time", clock)
    with pytest.raises(EvalError, match="caller cancelled query execution"):
        query.answer()
    assert DEADLINE < spent <= DEADLINE + 2 * cost


@pytest.mark.parametrize("name", ["nested loops", "functions that double", "walk of a long list"])
def test_another_thread_cancels_it(name: str) -> None:
    query, value = prepared(name)
    evaluation = query.evaluation(value)
    timer = threading.Timer(DEADLINE, evaluation.cancel)
    timer.start()
    with pytest.raises(EvalError) as caught:
        query.value_of(evaluation)
    timer.join()
    assert caught.value.code == "eval_cancel_error"


def test_cancelling_reaches_what_a_with_replaced() -> None:
    query, value = prepared("replacements that double")
    evaluation = query.evaluation(value)
    evaluation.cancel()
    with pytest.raises(EvalError, match="cancelled"):
        query.value_of(evaluation)


def test_a_pattern_that_backtracks_elsewhere_takes_no_time() -> None:
    query = Engine().prepare('regex.match("^(a+)+$", input)')
    assert query.value("a" * 100_000 + "!") is False


# Room


TOO_MUCH: list[tuple[str, Any]] = [
    ("[x | some x in input; some y in input]", list(range(600))),
    ("{[x, y] | some x in input; some y in input}", list(range(600))),
    ("{[x, y]: 1 | some x in input; some y in input}", list(range(600))),
    ("numbers.range(1, 100000)", None),
    ("array.concat(input, array.concat(input, input))", list(range(600))),
    ('sprintf("%100000d", [1])', None),
    ('$"{input}{input}"', "x" * 100_000),
]


@pytest.mark.parametrize(("question", "value"), TOO_MUCH, ids=[text for text, _ in TOO_MUCH])
def test_more_items_than_allowed_are_an_error(question: str, value: Any) -> None:
    with pytest.raises(EvalError) as caught:
        Engine(max_items=1000).prepare(question).value(value)
    assert caught.value.code == "eval_limit_error"
    assert caught.value.span.row == 1


def test_rules_are_counted_and_room_is_shared() -> None:
    policy = """package a

p contains [x, y] if { some x in input; some y in input }

q[x] := y if { some x in input; y := count(p) }
"""
    engine = Engine({"a.rego": policy}, max_items=1000)
    assert engine.prepare("count(data.a.p)").value(list(range(20))) == 400
    with pytest.raises(EvalError) as caught:
        engine.prepare("data.a.p").value(list(range(40)))
    assert str(caught.value.span) == "a.rego:3"
    with pytest.raises(EvalError):
        engine.prepare("data.a.q with input as numbers.range(1, 31)").value()


def test_enough_room_changes_nothing() -> None:
    question = "{x: [y | some y in numbers.range(1, x)] | some x in input}"
    limited = Engine(max_items=1000).prepare(question)
    assert limited.value([1, 2, 3]) == Engine().prepare(question).value([1, 2, 3])
    # Each evaluation has the whole of it.
    assert limited.value([30]) == limited.value([30])


PAIRS = "count([[z | some z in [x, y, x]] | some x in input; some y in input])"
"""Four items for each pair, and as many steps as pairs."""


def test_a_large_limit_is_watched_without_counting() -> None:
    query = Engine(max_items=code.ALWAYS_COUNTED).prepare(PAIRS)
    assert "count_" not in query.emit()
    assert query.value(list(range(300))) == 90_000
    with pytest.raises(EvalError) as caught:
        query.value(list(range(1_001)))
    assert (caught.value.code, caught.value.span.row) == ("eval_limit_error", 1)


def test_an_evaluation_that_takes_memory_is_counted_from_its_beginning() -> None:
    class Growing:
        size = 0

        def __call__(self) -> int:
            self.size += 65 << 20
            return self.size

    memory = Growing()
    engine = Engine(max_items=code.ALWAYS_COUNTED, environment=Environment(memory=memory))
    query = engine.prepare(PAIRS)
    assert query.value(list(range(300))) == 90_000  # counted, and not too many
    assert memory.size
    with pytest.raises(EvalError) as caught:
        query.value(list(range(600)))  # fewer steps than the limit, and more items
    assert caught.value.code == "eval_limit_error"


def test_what_happened_is_kept_when_an_evaluation_is_counted() -> None:
    drawn: list[int] = []

    def random(size: int) -> bytes:
        drawn.append(size)
        return bytes(size)

    environment = Environment(memory=iter(range(0, 1 << 40, 65 << 20)).__next__, random=random)
    engine = Engine(max_items=code.ALWAYS_COUNTED, environment=environment)
    query = engine.prepare('{rand.intn("a", 1000) | some x in input; some y in input}')
    assert query.value(list(range(300))) == frozenset({0})
    assert len(drawn) == 1


# Nesting


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("brackets", ["[]", "{}", "()"])
def test_a_hundred_thousand_brackets_are_a_parse_error(brackets: str) -> None:
    text = brackets[0] * 100_000 + "1" + brackets[1] * 100_000
    with pytest.raises(CompileError, match="max parsing recursion depth exceeded"):
        Engine({"a.rego": f"package a\n\np := {text}\n"})
    with pytest.raises(CompileError):
        Engine({"a.rego": f"package a\n\np := {brackets[0] * 100_000}\n"})


@pytest.mark.parametrize(
    "question",
    [
        "input == input.x",
        "json.marshal(input)",
        "{input}",
        'sprintf("%v", [input])',
        "input == [input]",
        "{x | walk(input, [_, x])}",
        'object.union({"a": input}, {"a": input})',
        "sort([input, input])",
        "input",
        "count([1 | walk(input, _)])",
        "array.flatten(input)",
        'json.patch({}, [{"op": "add", "path": "/a", "value": input}])',
        "yaml.marshal(input)",
    ],
)
def test_a_deep_input_is_an_answer_or_a_clear_error(question: str) -> None:
    query = Engine().prepare(question, strict_builtin_errors=True, deadline=2)
    codes = {"eval_internal_error", "eval_limit_error", "eval_cancel_error", ""}
    assert outcome(query, nested(50_000)) in codes


def outcome(query: Query, value: Any) -> str:
    try:
        query.answer(value)
    except EvalError as error:
        return error.code
    return ""


def test_too_deep_an_answer_is_an_error_however_it_is_asked_for() -> None:
    query = Engine().prepare("{input}")
    for ask in (query.value_of, query.rows_of):
        with pytest.raises(EvalError, match="evaluation nests too deeply"):
            ask(query.evaluation(nested(50_000)))
    with pytest.raises(EvalError, match="evaluation nests too deeply"):
        query.answer(nested(50_000))
    with pytest.raises(InputError, match="input is nested too deeply"):
        query.value(nested(50_000))


def test_deep_json_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * 50_000 + "]" * 50_000)


def test_an_undefined_answer_has_no_code() -> None:
    assert Engine(max_items=0).prepare("input.x").value() is UNDEFINED
