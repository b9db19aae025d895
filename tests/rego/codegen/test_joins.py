"""Loops that look for the items equal to a value walk their group alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.rego.codegen.writing import checked, state_for, written

from doorward.rego import Engine
from doorward.rego.codegen.emit.ast_nodes import load
from doorward.rego.codegen.joins import join_of
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.state import FunctionKind
from doorward.rego.syntax.nodes import SomeIn, Var

EVENTS: list[dict[str, Any]] = [
    {"user": f"u{n % 7}", "n": n, "to": {"id": n % 5}} for n in range(60)
]
JOINS = {
    "an item": "some e in input.events; e.user == u",
    "an item, turned": "some e in input.events; u == e.user",
    "an item beside its key": "some i, e in input.events; e.user = u",
    "a reference": "e := input.events[_]; e.user == u",
    "an equation that loops": "input.events[i].user == u; e := input.events[i]",
    "a comparison between": "some e in input.events; e.n > 3; e.user == u",
}
OTHERS = {
    "a call between": "some e in input.events; count(e) > 1; e.user == u",
    "a collection of each round": "some e in [x | some x in input.events]; e.user == u",
    "a part by a variable": 'some k in ["user"]; some e in input.events; e[k] == u',
    "a collection of an item": "some x in input.lists; some e in x.events; e.user == u",
    "no equation": "some e in input.events; e.user != u",
}


def policy(body: str) -> str:
    return f"package t\n\nby[u] := [e.n | {body}] if some u in input.users\n"


def code(text: str) -> str:
    return "\n".join(Engine({"t.rego": text}).emit().values())


@pytest.mark.parametrize("body", JOINS.values(), ids=JOINS)
def test_an_inner_loop_walks_what_matches(body: str) -> None:
    assert "ctx.matching" in code(policy(body))


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_other_loops_walk_all_items(body: str) -> None:
    assert "ctx.matching" not in code(policy(body))


def test_a_loop_that_runs_once_walks_all_items() -> None:
    assert "matching" not in code("package t\n\np if { some e in input.events; e.user == input.u }")


@pytest.mark.parametrize("body", [*JOINS.values(), *OTHERS.values()], ids=[*JOINS, *OTHERS])
def test_answers_are_those_of_the_equation(body: str) -> None:
    users = [f"u{n}" for n in range(9)]
    input = {"users": users, "events": EVENTS, "lists": [{"events": EVENTS}]}
    value = Engine({"t.rego": policy(body)}).prepare("data.t.by").value(input)
    differs = "!=" in body
    least = 4 if "e.n > 3" in body else 0
    assert value == {
        u: [e["n"] for e in EVENTS if (e["user"] == u) is not differs and e["n"] >= least]
        for u in users
    }


def test_a_path_that_is_not_there_matches_nothing() -> None:
    text = policy("some e in input.events; e.to.other == u")
    assert (
        Engine({"t.rego": text})
        .prepare("data.t.by.a")
        .value({"users": ["a"] * 9, "events": EVENTS})
        == []
    )


def test_the_value_may_be_a_member_of_another_item() -> None:
    text = "package t\n\npairs contains [a.n, b.n] if {\n\tsome a in input.events\n"
    text += "\tsome b in input.events\n\tb.user == a.user\n\tb.to.id == a.to.id\n}\n"
    value = Engine({"t.rego": text}).prepare("count(data.t.pairs)").value({"events": EVENTS})
    same = [(a, b) for a in EVENTS for b in EVENTS if a["user"] == b["user"] and a["to"] == b["to"]]
    assert value == len(same)


def test_a_collection_that_was_named_before_has_groups() -> None:
    named = "package t\n\np := n if {\n\tevents := input.events\n\tn := [e.n |\n"
    named += "\t\tsome u in input.users; some e in events; e.user == u]\n}\n"
    parameter = "package t\n\nf(events, u) := [e.n | some e in events; e.user == u]\n"
    assert "ctx.matching(events" in code(named)
    assert "ctx.matching(events" in code(parameter)


def test_code_that_reports_each_expression_has_no_joins() -> None:
    body = checked("some u in input.users; some e in input.events; e.user == u")
    joins = []
    for is_traced in (False, True):
        state = state_for(kind=FunctionKind.FUNCTION, traced=is_traced)
        assert isinstance(body[0].term, SomeIn)
        assert isinstance(body[0].term.value, Var)
        state.env.bind(body[0].term.value.name, Operand(load("u")))
        joins.append(join_of(state, body, 1))
    assert joins[0] is not None
    assert joins[0].path == ("user",)
    assert written(joins[0].value) == ["u"]
    assert joins[1] is None
