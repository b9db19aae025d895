"""Comprehensions in loops that depend on one variable are evaluated once for each of its values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from doorward.rego import Engine, Environment, from_json, to_json
from doorward.rego.codegen import comprehensions as written
from doorward.rego.runtime import comprehensions, evaluation

EVENTS: list[dict[str, Any]] = [
    {"user": f"u{n % 7}", "n": n, "to": {"id": n % 5}} for n in range(60)
]
ONE = {
    "an array": "[e.n | some e in input.events; e.user == u]",
    "a set": "{e.n | some e in input.events; e.user == u}",
    "an object": "{e.n: u | some e in input.events; e.user == u}",
    "a reference": "[e.n | e := input.events[_]; u == e.user]",
    "a comparison": "[e.n | some e in input.events; e.n > 3; e.user == u]",
    "a negation": "[e.n | some e in input.events; not e.n == 4; e.user = u]",
    "one inside": "[x | some e in input.events; e.user == u; x := {f | f := e.to[_]}]",
    "a part": "[e.n | some e in input.events; e.user == e0.user]",
    "a part, twice": "[e.n | some e in input.events; e.to.id == e0.to.id; e0.to.id != e.n]",
    "a part that is not there": "[e.n | some e in input.events; e.to.other == e0.to.other]",
    "data": "[e.n | some e in input.events; e.user == u; e.n == data.base.n]",
}
OTHERS = {
    "a call": "[count(e) | some e in input.events; e.user == u]",
    "a call in the body": "[e.n | some e in input.events; e.user == u; startswith(u, e.user)]",
    "a print": "[e.n | some e in input.events; e.user == u; print(e.n)]",
    "a rule": "[e.n | some e in input.events; e.user == u; e.n > least]",
    "a function": "[f(e) | some e in input.events; e.user == u]",
    "two variables": "[e.n | some e in input.events; e.user == u; e.n != k]",
    "parts of an item": "[e.n | some e in input.events; e.user == e0.user; e.n != e0.n]",
    "an item and a part": "[e0 | some e in input.events; e.user == e0.user]",
    "no equation": "[e.n | some e in input.events; e.user != u]",
    "another input": "[e.n | some e in input.events; e.user == u; e.n >= 0 with input.x as 1]",
    "no variable": "[e.n | some e in input.events; e.user == input.user]",
}
POLICY = """package t

least := 3

f(e) := e.n

by contains {{u: x}} if {{
	some k, e0 in input.events
	u := e0.user
	x := {}
}}
"""


def emitted(text: str) -> str:
    return "\n".join(Engine({"t.rego": text}, data={"base": {"n": 9}}).emit().values())


@pytest.mark.parametrize("text", ONE.values(), ids=ONE)
def test_a_result_is_looked_up(text: str) -> None:
    assert "ctx.recall" in emitted(POLICY.format(text))


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_others_are_evaluated_each_time(text: str) -> None:
    assert "ctx.recall" not in emitted(POLICY.format(text))


def test_one_that_is_evaluated_once_is_not_looked_up() -> None:
    text = "package t\n\np := x if { u := input.user; x := [e | some e in input.es; e.user == u] }"
    assert "ctx.recall" not in emitted(text)


def answers(text: str, input: Any) -> Any:
    engine = Engine({"t.rego": POLICY.format(text)}, data={"base": {"n": 9}})
    return engine.prepare("data.t.by").value(input)


@pytest.mark.parametrize("text", [*ONE.values(), *OTHERS.values()], ids=[*ONE, *OTHERS])
def test_the_answer_is_that_without_results(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    input = {"events": EVENTS, "user": "u3"}
    value = answers(text, input)
    monkeypatch.setattr(evaluation, "PLAIN", frozenset())
    assert answers(text, input) == value
    assert value


def test_each_value_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: Counter[Any] = Counter()
    remember = evaluation.Evaluation.remember

    def note(self: Any, site: Any, value: Any, result: Any) -> None:
        times[value] += 1
        remember(self, site, value, result)

    monkeypatch.setattr(evaluation.Evaluation, "remember", note)
    value = answers(ONE["an array"], {"events": EVENTS})
    users = {event["user"] for event in EVENTS}
    assert times == dict.fromkeys(users, 1)
    assert len(value) == len(users)


def test_results_that_have_no_room_are_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    input = {"events": EVENTS}
    value = answers(ONE["an array"], input)
    monkeypatch.setattr(comprehensions, "MOST_ITEMS", 12)
    assert answers(ONE["an array"], input) == value


def test_values_that_are_equal_and_differ_have_results_of_their_own() -> None:
    text = "[u | some e in input.events; e.user == u]"
    users: Any = from_json('[1, true, 1.0, "1", null, false, 1]')
    rule = f"package t\n\np := [x | some e0 in input.events; u := e0.user; x := {text}]"
    query = Engine({"t.rego": rule}).prepare("data.t.p")
    value = query.value({"events": [{"user": each} for each in users]})
    ones, fractions = "[1,1,1]", "[1.0,1.0,1.0]"
    expected = f'[{ones},[true],{fractions},["1"],[null],[false],{ones}]'
    assert to_json(value) == expected


def test_with_has_results_of_its_own() -> None:
    text = """package t

sizes(x) := {u: n |
	some e in input.events
	u := e.user
	n := count([f | some f in input.events; f.user == u])
}

p := [sizes(1), before, after] if {
	before := sizes(2) with input.events as array.concat(input.events, input.events)
	after := sizes(3)
}
"""
    value = Engine({"t.rego": text}).prepare("data.t.p").value({"events": EVENTS})
    sizes = Counter(event["user"] for event in EVENTS)
    twice = {user: 2 * n for user, n in sizes.items()}
    assert value == [sizes, twice, sizes]


def test_a_function_that_is_called_again_has_results_of_its_own() -> None:
    text = """package t

f(es) := [n |
	some e in es
	u := e.user
	n := count([x | some x in input.events; x.user == u])
]

g(es, u) := count([x | some x in es; x.user == u])

p := [f(input.events), f(input.few), g(input.events, "a"), g(input.few, "a")]
"""
    few = [{"user": "a"}]
    events = [*few, {"user": "b"}, {"user": "a"}]
    value = Engine({"t.rego": text}).prepare("data.t.p").value({"events": events, "few": few})
    assert value == [[2, 1, 2], [2], 2, 1]


GROUPED = {
    "an array of parts": "[e.n | some e in input.events; [e.user, e.to.id] == g]",
    "a set": "{e.n | some e in input.events; g == [e.user, e.to.id]}",
    "a set of items": "{e | some e in input.events; g = [e.user, e.to.id]}",
    "a function": "{e.n | some e in input.events; kind(e) == g}",
    "a variable": "[n | e := input.events[_]; k := kind(e); k == g; n := e.n]",
    "two loops": "[d.n | some e in input.events; some d in input.events; kind(e) == g]",
    "parts behind": "[t | some e in input.events; kind(e) == g; to := e.to; t := to.id]",
    "a part that is not there": "[x | some e in input.events; kind(e) == g; x := e.none]",
    "a function that is not there": "{e.n | some e in input.events; kind(e.to) == g}",
    "no item": "{e.n | some e in input.none; kind(e) == g}",
    "a rule": "{e.n | some e in late; kind(e) == g}",
    "an object": "{e.n | some e in input.events; {`user`: e.user, `id`: e.to.id} == h}",
}
NOT_GROUPED = {
    "an object": "{e.n: 1 | some e in input.events; kind(e) == g}",
    "two variables": "{e.n | some e in input.events; kind(e) == g; e.n != k}",
    "twice the variable": "{e.n | some e in input.events; kind(e) == g; e.to != g}",
    "the variable as an item": "{g | some e in input.events; kind(e) == g}",
    "a print": "{e.n | some e in input.events; print(e.n); kind(e) == g}",
    "an equation that binds": "{a | some e in input.events; e.n > 0; [a, _] = g}",
    "a negation": "{e.n | some e in input.events; not kind(e) == g}",
    "another input": "{e.n | some e in input.events; kind(e) == g with input.x as 1}",
    "an item that may fail": "[count(e.n) | some e in input.events; kind(e) == g]",
    "a loop behind": "[x | some e in input.events; kind(e) == g; x := e.to[_]]",
}
GROUPS = """package t

kind(e) := [e.user, e.to.id]

late contains e if {{
	some e in input.events
	e.n > 20
}}

by contains {{g: x}} if {{
	some k, e0 in input.events
	g := kind(e0)
	h := {{"user": e0.user, "id": e0.to.id}}
	x := {}
}}
"""


@pytest.mark.parametrize("text", GROUPED.values(), ids=GROUPED)
def test_items_are_grouped_by_what_is_compared(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {"t.rego": GROUPS.format(text)}
    engine = Engine(policy)
    assert "ctx.group(" in "\n".join(engine.emit().values())
    value = engine.prepare("data.t.by").value({"events": EVENTS})
    monkeypatch.setattr(written, "_grouping_of", lambda state, node: None)
    assert Engine(policy).prepare("data.t.by").value({"events": EVENTS}) == value
    assert value


@pytest.mark.parametrize("text", NOT_GROUPED.values(), ids=NOT_GROUPED)
def test_items_are_not_grouped_where_that_could_be_seen(text: str) -> None:
    assert "ctx.group(" not in "\n".join(Engine({"t.rego": GROUPS.format(text)}).emit().values())


def test_what_prints_is_not_grouped() -> None:
    text = GROUPS.format(GROUPED["a function"]).replace(
        ":= [e.user", ":= [e.user] if print([e.user"
    )
    text = text.replace("e.to.id]\n\nlate", "e.to.id])\n\nlate")
    silent = "\n".join(Engine({"t.rego": text}).emit().values())
    heard = Environment(on_print=lambda said, _: None)
    loud = "\n".join(Engine({"t.rego": text}, environment=heard).emit().values())
    assert ("ctx.group(" in silent, "ctx.group(" in loud) == (True, False)


def test_each_item_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = GROUPS.format(GROUPED["a function"])
    query = Engine({"t.rego": text}).prepare("data.t.by")
    kept = []
    keep = evaluation.Evaluation.keep_groups

    def note(self: Any, *arguments: Any) -> Any:
        kept.append(len(arguments[1]))
        return keep(self, *arguments)

    monkeypatch.setattr(evaluation.Evaluation, "keep_groups", note)
    assert query.value({"events": EVENTS})
    assert kept == [35]


def test_numbers_that_are_equal_are_in_one_group() -> None:
    rule = """package t

p := [x | some a in input.xs; g := [a]; x := {b.n | some b in input.ys; [b.x] == g}]
"""
    given: Any = from_json('{"xs": [1, 1.0, true], "ys": [{"x": 1.0, "n": 1}, {"x": 1, "n": 2}]}')
    assert to_json(Engine({"t.rego": rule}).prepare("data.t.p").value(given)) == "[[1,2],[1,2],[]]"
