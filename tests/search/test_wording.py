"""Conditions are in the words of the policies: their rules, and few variables."""

from __future__ import annotations

from doorward.rego import Engine
from doorward.search.who_can import who_can

POLICY = """package app

default allow := false

allow if {
	count(roles) > 0
	not blocked
	some role in roles
	input.user.groups[role].level == input.level
}

roles contains role if some role in input.user.roles

roles contains "guest" if not input.user.name

blocked if input.user.state == "blocked"

blocked if {
	input.user.age < 18
	input.user.country == "x"
}
"""


def test_rules_and_negations_are_those_of_the_policies() -> None:
    access = who_can(
        Engine({"app.rego": POLICY}), "data.app.allow", {"level": 3}, [("user",)], now_ns=0
    )
    texts = [text for condition in access.conditions for text in condition.texts]
    assert "count(data.app.roles) > 0" in texts
    assert 'not { input.user.state == "blocked" }' in texts
    assert 'not { input.user.age < 18; input.user.country == "x" }' in texts
    assert not any("doorward_access" in text or "__local" in text for text in texts)


def test_a_variable_that_is_read_twice_has_one_name() -> None:
    policy = "package p\n\nallow if {\n\tsome i\n\tinput.a[i].x\n\tinput.b[i].y\n\tinput.c[_]\n}\n"
    access = who_can(Engine({"p.rego": policy}), "data.p.allow", {}, [()], now_ns=0)
    (condition,) = access.conditions
    assert len(condition.texts) == 3
    first, second, third = condition.texts
    name = first.removeprefix("input.a[").removesuffix("].x")
    assert second == f"input.b[{name}].y"
    assert third == "input.c[_]"
