"""Definitions that differ in constants share their code, and nothing that can be seen changes."""

from __future__ import annotations

import pickle
import sys
from random import Random
from types import FunctionType
from typing import Any, ClassVar

import pytest

from doorward.rego import UNDEFINED, Engine, RegoError, from_json, to_rego
from doorward.rego import code as code_of_programs
from doorward.rego.analysis.shapes import MIN_SHARED, NoShape
from doorward.rego.code import generate_code
from doorward.rego.codegen import sharing
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.saved import link_saved, save_functions
from doorward.rego.codegen.sharing import Part, lines_are_watched, parts

HEAD = "package a\n\ndefault allow := false\n\nweb := input.request\n\n"
RULE = 'allow if {\n\tweb.path == "/p%d"\n\tstartswith(input.name, "n%d")\n}\n'
COUNT = 2 * MIN_SHARED


@pytest.fixture(autouse=True)
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run as in production where coverage.py measures them, too."""
    monkeypatch.setattr(code_of_programs, "lines_are_watched", lambda: False)


def policy(rule: str, count: int = COUNT) -> str:
    return HEAD + "\n".join(rule.replace("%d", str(n + 10)) for n in range(count))


def groups(text: str) -> list[int]:
    """How many definitions of `data.a.allow` are written together, for each piece of code."""
    plan = Engine({"a.rego": text}).policies.code.plan
    node = plan.root.children["a"].children["allow"]
    own = [d for d in node.definitions if not d.rule.default]
    return [len(part.numbers) for part in parts(own, plan)]


def test_many_definitions_are_one_loop() -> None:
    engine = Engine({"a.rego": policy(RULE)})
    (text,) = engine.emit().values()
    assert text.count("for constant, constant2") == 1
    assert f"the constants of {COUNT} definitions" in text
    query = engine.prepare("data.a.allow")
    assert query.value({"request": {"path": "/p30"}, "name": "n30x"}) is True
    assert query.value({"request": {"path": "/p30"}, "name": "n31x"}) is False
    assert query.value({"request": {"path": "/p9"}, "name": "n9"}) is False


def test_a_few_definitions_are_written_one_by_one() -> None:
    (text,) = Engine({"a.rego": policy(RULE, MIN_SHARED - 1)}).emit().values()
    assert "constant" not in text


def test_definitions_in_a_table_run_one_code() -> None:
    table = "\n".join(f'port := {n + 10} if input.name == "s{n}"' for n in range(COUNT))
    engine = Engine({"a.rego": f"package a\n\n{table}\n"})
    query = engine.prepare("data.a.port")
    assert [query.value({"name": f"s{n}"}) for n in range(COUNT)] == list(range(10, COUNT + 10))
    namespace = engine.policies.code.linked.namespace
    functions = [namespace[f"data.a.port#{n}"] for n in range(COUNT)]
    assert len({id(function.__code__) for function in functions}) == 1
    assert [f.__name__ for f in functions] == [f"data.a.port#{n}" for n in range(COUNT)]


def test_code_that_is_generated_as_a_whole_is_shared_too() -> None:
    table = "\n".join(f'port := {n + 10} if input.name == "s{n}"' for n in range(COUNT))
    engine = Engine({"a.rego": f"package a\n\n{table}\n"})
    code = engine.policies.whole_code()
    functions = [code.linked.namespace[f"data.a.port#{n}"] for n in range(COUNT)]
    assert all(isinstance(function, FunctionType) for function in functions)
    assert len({id(function.__code__) for function in functions}) == 1
    assert len({function.__defaults__ for function in functions}) == COUNT


@pytest.mark.parametrize(
    ("rule", "together"),
    [
        ('allow if input.x == "v%d"', True),
        ("allow if input.x + %d == 2", True),
        ('allow if input.x in {"a", "v%d"}', True),
        ('allow if input.x in ["a", "v%d"]', True),
        ('allow if not input.x == "v%d"', True),
        ('allow if not startswith(lower(input.x), "v%d")', True),
        ('allow if f(input.x, "v%d")\n\nf(a, b) if a == b', True),
        ('allow if { some x in input.xs; x == "v%d" }', True),
        ('allow if { every x in input.xs { x != "v%d" } }', True),
        ('allow if count([x | some x in input.xs; x != "v%d"]) > 2', True),
        ('allow if { some k, v in input.o; k == "v%d"; v > 1.5 }', True),
        ('allow if { every k, v in input.o { k != "v%d"; regex.match("^x", v) } }', True),
        ('allow if { x := {"k": input.x}; x.k == "v%d" }', True),
        ('allow if { x := {k: v | some k, v in input.o}; x.k == "v%d" }', False),
        ('allow if { count({x | some x in input.xs}) > 1; input.x == "v%d" }', True),
        ('allow if { some x; input.xs[x] == "v%d" }', True),
        ('allow if input.v%d == "x"', False),
        ('allow if input.x == ["v%d", input.y]', False),
        ('allow if regex.match("^v%d", input.x)', False),
        ('allow if glob.match("v%d*", [], input.x)', False),
        ('allow if split(input.x, "v%d")[0] == "x"', False),
        ("allow if input.x * %d == 22", False),
        ("allow if input.x == %d.5", False),
        ('allow if input.x == $"v%d{input.y}"', False),
        ('allow if input.x == "v%d" with input.y as 1', False),
        ('allow if { input.x == "v%d" } else := true if { input.y }', False),
        ('allow if { input.x == "v%d"; http.send({"url": input.y, "method": "get"}) }', False),
    ],
)
def test_constants_that_decide_the_code_belong_to_the_shape(rule: str, together: bool) -> None:
    if "\n\nf(" in rule:
        rule, _, function = rule.partition("\n\n")
        text = f"{policy(rule)}\n\n{function}\n"
    else:
        text = policy(rule)
    assert groups(text) == ([COUNT] if together else [1] * COUNT)


@pytest.mark.parametrize(
    "body",
    [
        'input.x == "a" with input.y as 1',
        'input.x == $"a{input.y}"',
        'input.x == {k: "a" | some k in input.y}',
        'input.x == "a" } else := true if { input.y',
    ],
)
def test_what_is_not_named_has_no_shape(body: str) -> None:
    plan = Engine({"a.rego": f"package a\n\nallow if {{ {body} }}\n"}).policies.code.plan
    (definition,) = plan.root.children["a"].children["allow"].definitions
    with pytest.raises(NoShape):
        sharing.read(definition, plan).shape()


def test_what_all_definitions_name_is_named_once() -> None:
    rule = 'allow if { regex.match("^x", input.x); not { input.y == "v%d" } }'
    text = policy(rule).replace("package a\n", "package a\n\nimport future.keywords.not\n")
    assert groups(text) == [COUNT]
    query = Engine({"a.rego": text}).prepare("data.a.allow")
    assert query.value({"x": "xy", "y": "v10"}) is True
    assert query.value({"x": "y", "y": "v10"}) is False


def test_zero_and_one_are_not_any_number() -> None:
    rules = "\n".join(f"allow if input.x == {n}" for n in range(COUNT))
    assert groups(HEAD + rules) == [1, 1, COUNT - 2]
    query = Engine({"a.rego": HEAD + rules}).prepare("data.a.allow")
    answers = [query.value({"x": from_json(x)}) for x in ("0", "1", "7", "7.0", "true", '"7"')]
    assert answers == [True, True, True, True, False, False]


def test_shapes_keep_the_order_of_their_first_definitions() -> None:
    other = 'allow if input.y == "v%d"\n'
    text = policy(RULE + "\n" + other)
    assert groups(text) == [COUNT, COUNT]
    assert groups(policy(RULE + "\n" + other, MIN_SHARED - 1)) == [1] * 2 * (MIN_SHARED - 1)


def test_definitions_that_may_fail_are_written_in_their_order() -> None:
    conflict = "c := 1 if input.z\n\nc := 2 if input.y\n"
    text = policy('allow if { input.x == "v%d"; c > 0 }')
    assert groups(f"{text}\n\n{conflict}") == [1] * COUNT


def test_marked_and_counted_code_is_not_shared() -> None:
    for options in ({"marked": True}, {"max_items": 1000}):
        assert not Engine({"a.rego": policy(RULE)}, **options).policies.code.plan.shares
    assert Engine({"a.rego": policy(RULE)}, max_items=10_000_000).policies.code.plan.shares


def test_code_whose_lines_are_watched_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_of_programs, "lines_are_watched", lambda: True)
    assert groups(policy(RULE)) == [1] * COUNT


def test_tools_that_follow_lines_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Monitoring:
        DEBUGGER_ID, COVERAGE_ID = 0, 1
        tools: ClassVar[dict[int, str]] = {}

        def get_tool(self, number: int) -> str | None:
            return self.tools.get(number)

    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(sys, "monitoring", Monitoring(), raising=False)
    assert not lines_are_watched()
    monkeypatch.setattr(Monitoring, "tools", {1: "coverage"})
    assert lines_are_watched()
    monkeypatch.delattr(sys, "monitoring")
    assert not lines_are_watched()
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    assert lines_are_watched()


def test_an_error_of_a_built_in_shows_its_own_row() -> None:
    rules = "\n".join(f"allow if to_number(input.x) == {n}" for n in range(10, 10 + COUNT))
    engine = Engine({"a.rego": f"package a\n\n{rules}\n"})
    with pytest.raises(RegoError, match=r"a\.rego:3"):
        engine.prepare("data.a.allow", strict_builtin_errors=True).value({"x": "y"})


def test_a_conflict_shows_its_own_row() -> None:
    rules = "\n".join(f'p := {n} if input.x == "v{n % 4}"' for n in range(10, 10 + COUNT))
    text = f"package a\n\nx := input.y\n\n{rules}\n".replace("input.x", "x")
    with pytest.raises(RegoError) as error:
        Engine({"a.rego": text}).prepare("data.a.p").value({"y": "v3"})
    shared = str(error.value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_of_programs, "lines_are_watched", lambda: True)
        with pytest.raises(RegoError) as error:
            Engine({"a.rego": text}).prepare("data.a.p").value({"y": "v3"})
    assert shared == str(error.value)


def test_code_that_names_another_position_is_written_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forget(reading: Any) -> Any:
        group = original(reading)
        group.spans = {}
        return group

    original = sharing._group
    monkeypatch.setattr(sharing, "_group", forget)
    looped = "\n".join(f"p := {n} if to_number(input.x) == {n}" for n in range(10, 10 + COUNT))
    table = "\n".join(
        f'q := {n} if {{ input.x == "{n}"; to_number(input.x) < {n + 1} }}'
        for n in range(10, 10 + COUNT)
    )
    text = f"package a\n\n{looped}\n\np := 9 if input.y\n\n{table}\n"
    for engine in (Engine({"a.rego": text}), Engine({"a.rego": text})):
        assert engine.prepare("data.a.p").value({"x": "12"}) == 12
        assert engine.prepare("data.a.q").value({"x": "12"}) == 12
        assert engine.policies.whole_code().linked.namespace["data.a.q#3"].__defaults__ is None


def test_what_is_one_node_twice_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine({"a.rego": policy(RULE)})
    plan = engine.policies.code.plan
    node = plan.root.children["a"].children["allow"]
    own = [d for d in node.definitions if not d.rule.default]
    monkeypatch.setattr(sharing, "walk", lambda rule: iter(()))
    assert parts(own, plan) == [Part(d, (n,)) for n, d in enumerate(own)]


def test_a_definition_whose_positions_are_one_object_elsewhere_is_written_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharing, "_fits", lambda reading, group: False)
    assert groups(policy(RULE)) == [1] * COUNT


def test_saved_functions_come_back_with_their_constants() -> None:
    table = "\n".join(
        f'port := {n + 10} if {{ input.name == "s{n}"; to_number(input.n) < 9 }}'
        for n in range(COUNT)
    )
    engine = Engine({"a.rego": f"package a\n\n{table}\n\n{policy(RULE)[11:]}"})
    query = engine.prepare("data.a.port")
    assert query.value({"name": "s3", "n": "2"}) == 13
    engine.policies.warm()
    code = engine.policies.code
    saved = pickle.loads(pickle.dumps(save_functions(code.plan, code.linked)))
    assert set(saved.rows) == {"data.a.port#3"}
    again = generate_code(engine.policies.program, engine.options, saved=saved)
    namespace = again.linked.namespace
    assert namespace["data.a.port#3"].__defaults__ is not None
    fresh = link_saved(Plan(engine.policies.program.callees), saved)
    assert fresh.namespace["data.a.port#3"].__code__ == namespace["data.a.port#3"].__code__


CONDITIONS = (
    'input.a == "%s"',
    'input.b.c != "%s"',
    "input.n == %d",
    "input.n + %d > 30",
    "input.n < %d",
    'startswith(input.a, "%s")',
    'not endswith(input.b.c, "%s")',
    'input.a in {"%s", "x"}',
    'input.b.c in ["%s", "y"]',
    'contains(lower(input.a), "%s")',
    'some x in input.xs; x == "%s"',
    'every x in input.xs { x != "%s" }',
    "to_number(input.a) > %d",
    "count([x | some x in input.xs; count(x) < %d]) > 1",
    'data.known[input.a] == "%s"',
    "input.n - %d == other",
    'f(input.a, "%s")',
    'name := "%s"; name == input.b.c',
)
HEADS = (
    "p if {{ {} }}",
    'p := "%s" if {{ {} }}',
    "p contains %d if {{ {} }}",
    'p contains sprintf("%s: %v", [input.a]) if {{ {} }}',
    "f2(y) := %d if {{ y == input.n; {} }}",
)


def write_policy(random: Random) -> str:
    """Rules of a few shapes, mixed, with constants that repeat."""
    texts = ["a", "b", "1", "12", "y", "", "ä", "xy"]

    def fill(rule: str) -> str:
        while "%d" in rule:
            rule = rule.replace("%d", str(random.choice((0, 1, 2, 3, 12, 30, -4))), 1)
        while "%s" in rule:
            rule = rule.replace("%s", random.choice(texts), 1)
        return rule.replace("%v", "%v")

    head = random.choice(HEADS)
    shapes = [
        head.format("; ".join(random.sample(CONDITIONS, random.randint(1, 3))))
        for _ in range(random.randint(1, 3))
    ]
    rules = [fill(random.choice(shapes)) for _ in range(3 * MIN_SHARED)]
    default = "default p := false\n" if head.startswith(("p if", "p :=")) else ""
    tail = (
        'other := input.b.d\n\nf(x, y) if x == y\n\nq := f2(input.n) if input.n\n\nf2("z") := 1\n'
    )
    return "\n".join(["package a", default, *rules, tail])


def write_input(random: Random) -> Any:
    def text() -> Any:
        return random.choice(["a", "b", "1", "12", "y", "", "ä", "xy", 1, None, True])

    return {
        "a": text(),
        "b": {"c": text(), "d": random.choice([2, 8, -1, 1.5])},
        "n": random.choice([0, 1, 2, 3, 12, 30, 34, True, 2.0, "2"]),
        "xs": [str(text()) for _ in range(random.randrange(12))],
    }


def answers(text: str, inputs: list[Any]) -> list[str]:
    engine = Engine({"a.rego": text}, {"known": {"a": "b", "1": "12", "xy": "ä"}})
    queries = [
        engine.prepare(name, strict_builtin_errors=strict)
        for name in ("data.a.p", "data.a.q")
        for strict in (False, True)
    ]
    texts = []
    for query in queries:
        for value in inputs:
            try:
                answer = query.value(value)
                texts.append("undefined" if answer is UNDEFINED else to_rego(answer))
            except RegoError as error:
                texts.append(str(error))
    return texts


@pytest.mark.parametrize("seed", range(24))
def test_shared_code_answers_as_code_that_is_not(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    text, inputs = write_policy(random), [write_input(random) for _ in range(30)]
    shared = answers(text, inputs)
    monkeypatch.setattr(code_of_programs, "lines_are_watched", lambda: True)
    assert shared == answers(text, inputs)
