"""Who is allowed is found where data and constants bound it, and nobody is left out."""

from __future__ import annotations

import json
from itertools import product
from random import Random
from typing import Any

import pytest

from doorward.rego import CompileError, Engine, EvalError
from doorward.search.who_can import Access, who_can

NOW = 1_790_000_000_000_000_000
RBAC = """package app

default allow := false

allow if {
	some grant in data.grants
	grant.user == input.user
	grant.action == input.action
}

allow if {
	some role in data.roles[input.user]
	role == "admin"
}

allow if {
	input.user in {"root", "kim"}
	input.action == "delete"
}
"""
DATA: Any = {
    "grants": [{"user": "ann", "action": "read"}, {"user": "bob", "action": "write"}],
    "roles": {"eve": ["dev", "admin"], "joe": ["dev"]},
    "secrets": {"jwt": "B41BD5F4-62719C6D"},
}


def access(
    policy: str, given: Any, *paths: tuple[str, ...], data: Any = DATA, query: str = ""
) -> Access:
    engine = Engine({"p.rego": policy}, data)
    return who_can(engine, query or "data.app.allow", given, paths, now_ns=NOW)


def users(answer: Access) -> list[Any]:
    return sorted(each.values[0] for each in answer.grants)


def test_keys_joins_and_constants_are_candidates() -> None:
    answer = access(RBAC, {"action": "read"}, ("user",))
    assert users(answer) == ["ann", "eve"]
    assert (answer.conditions, answer.unknown) == ((), "")
    assert users(access(RBAC, {"action": "delete"}, ("user",))) == ["eve", "kim", "root"]


def test_two_unknown_parts_are_listed_together() -> None:
    answer = access(RBAC, {"user": "bob"}, ("action",), ("user",))
    assert ("write", "bob") in [each.values for each in answer.grants]


def test_a_reason_names_the_definition_and_its_data() -> None:
    (grant, _) = access(RBAC, {"action": "read"}, ("user",)).grants
    assert grant.reasons == ('p.rego:5, grant is {"action": "read", "user": "ann"}',)


def test_a_known_part_of_the_input_is_put_in() -> None:
    # The rule's value is known in part only, so all that is below it stays in the residual.
    policy = """package app

http := input.http

allow if {
	http.method == "GET"
	http.headers.user == "ann"
}
"""
    nobody = access(policy, {"http": {"method": "DELETE"}}, ("http", "headers"))
    assert nobody == Access((), (), "", 0)
    somebody = access(policy, {"http": {"method": "GET"}}, ("http", "headers"))
    assert [each.texts for each in somebody.conditions] == [('input.http.headers.user == "ann"',)]


def test_what_is_given_of_an_unknown_part_is_not_used() -> None:
    assert users(access(RBAC, {"action": "read", "user": "kim"}, ("user",))) == ["ann", "eve"]


def test_a_token_is_a_condition_and_its_key_a_document() -> None:
    policy = """package app

allow if {
	[_, _, claims] := io.jwt.decode_verify(input.token, {"secret": data.secrets.jwt})
	claims.role == "admin"
}
"""
    (condition,) = access(policy, {}, ("token",)).conditions
    assert (condition.key, condition.texts) == ("data.secrets.jwt", ('claims.role == "admin"',))
    in_policy = policy.replace("data.secrets.jwt", '"hush hush"')
    (condition,) = access(in_policy, {}, ("token",)).conditions
    assert condition.key == "a key in the policy"
    assert "hush" not in "".join(condition.texts)
    other = 'package app\n\nallow if io.jwt.verify_hs256(input.token, "hush hush")\n'
    (condition,) = access(other, {}, ("token",)).conditions
    assert condition.texts == ('io.jwt.verify_hs256(input.token, "[masked]")',)


@pytest.mark.parametrize(
    "condition",
    [
        "not data.roles[input.user]",
        'every role in data.roles[input.user] { role == "dev" }',
        "count([x | x := data.roles[input.user]]) == 0",
        'data.roles[input.user] != ["dev"] with data.roles as {"zoe": []}',
        "input.user != null",
        'not input.user == "ann"',
        "lookup[input.user]",
        '(input.user in {"ann"}) == false',
        'not (input.user in {"ann"}) == true',
        'not ("ann" == input.user) == true',
        'x := input.user == "ann"; is_boolean(x)',
    ],
)
def test_what_bounds_nobody_is_a_condition(condition: str) -> None:
    policy = (
        f"package app\n\nlookup[x] if {{ some x in input.names }}\n\nallow if {{ {condition} }}"
    )
    answer = access(policy, {"names": ["x"]}, ("user",))
    assert answer.conditions or users(answer) == ["x"], answer


@pytest.mark.parametrize(
    "condition",
    [
        "count([data.flags[input.user]]) == 1",
        "x := data.flags[input.user]; is_boolean(x)",
        'x := {"flag": data.flags[input.user]}; is_boolean(x.flag)',
    ],
)
def test_false_is_a_value_where_it_is_an_operand(condition: str) -> None:
    policy = f"package app\n\nallow if {{ {condition} }}\n"
    answer = access(policy, {}, ("user",), data={"flags": {"ann": False, "bob": True}})
    assert (users(answer), answer.conditions, answer.unknown) == (["ann", "bob"], (), "")


def test_a_condition_keeps_its_replaced_input() -> None:
    policy = 'package app\n\nallow if { not input.a == 1 with input as {"a": input.user} }\n'
    [condition] = access(policy, {}, ("user",)).conditions
    assert condition.texts == ('not input.a == 1 with input as {"a": input.user}',)


def test_values_that_contradict_each_other_are_no_grant() -> None:
    policy = """package app

level := 1 if input.user in {"ann", "bob"}

level := 2 if input.user in {"bob", "eve"}

allow if level > 0
"""
    answer = access(policy, {}, ("user",))
    assert (users(answer), answer.unknown) == (["ann", "eve"], "")


def test_a_document_with_other_values_is_not_certain() -> None:
    policy = 'package app\n\nallow := {"ok": true} if input.user == "ann"\n'
    assert "other values" in access(policy, {}, ("user",)).unknown


def test_what_asks_the_world_is_not_certain() -> None:
    policy = 'package app\n\nallow if rand.intn("a", 2) == 0\n'
    reason = "the policies call rand.intn, whose answers are not known"
    assert access(policy, {}, ("user",)).unknown == reason


# Enumeration

USERS: Any = ["ann", "bob", "eve", "x", "y", 1, 2, True, None, ["x"], "new"]
ACTIONS: Any = ["read", "write", "x", 3, "other"]
SMALL: Any = {
    "grants": [{"user": "ann", "action": "read"}, {"user": "bob", "action": "write"}],
    "roles": {"ann": ["x", "y"], "eve": ["x"], "x": []},
    "flags": {"ann": False, "bob": True, "y": None},
    "lists": {"a": ["ann", 1], "b": ["eve", 2]},
}
ATOMS = [
    "input.user == data.grants[i].user",
    "data.grants[i].action == input.action",
    'data.grants[_].user == "ann"',
    "some g in data.grants; g.user == input.user; g.action == input.action",
    "data.flags[input.user]",
    "not data.flags[input.user]",
    "x := data.flags[input.user]; not x",
    "count([data.flags[input.user], data.roles[input.user]]) == 2",
    "is_boolean(data.flags[input.user])",
    'object.get({"k": data.flags[input.user]}, "k", 1) != 1',
    "f([data.flags[input.user]])",
    "data.roles[input.user][_] == input.action",
    'some r in data.roles[input.user]; r == "x"',
    "input.user in data.lists.a",
    "input.user in data.lists[_]",
    "input.user in data.lists[input.kind]",
    "not input.user in data.lists.b",
    'input.user in {"ann", "new", 2}',
    'input.user != "ann"',
    'input.action == "read"',
    'input.action in ["read", "x"]',
    "count(data.roles[input.user]) > 0",
    "count([1 | data.flags[input.user]]) == 0",
    'every r in data.roles[input.user] { r == "x" }',
    "helper",
    "not helper",
    'f(input.user) == "low"',
    "members[input.user]",
    "input.user in members",
    "not members[input.user]",
    "input.user",
    '(input.user in {"ann", "new"}) == false',
    'not (input.user == "ann") == true',
    "x := input.user in data.lists.a; x == false",
    'input.kind == "a"',
    'startswith(input.user, "e")',
]


def program(random: Random) -> str:
    def body(atoms: list[str]) -> str:
        return "; ".join(random.sample(atoms, random.randint(1, 3)))

    plain = [each for each in ATOMS if "helper" not in each and "members" not in each]
    lines = ["package app", "default allow := false"]
    lines += [f"allow if {{ {body(ATOMS)} }}" for _ in range(random.randint(1, 3))]
    lines.append(f"helper if {{ {body(plain)} }}")
    lines.append(f"members contains u if {{ some u in data.lists.a; {body(plain)} }}")
    lines.append('f(u) := "low" if u == "ann"\nelse := "high" if data.flags[u]')
    return "\n".join(lines) + "\n"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_left_out_of_random_policies(seed: int) -> None:
    random = Random(seed)
    certain = 0
    given: Any
    for _ in range(25):
        text = program(random)
        try:
            engine = Engine({"p.rego": text}, SMALL)
        except CompileError:  # such as a variable that is not safe
            continue
        for given, paths in (
            ({"action": "read", "kind": "a"}, [("user",)]),
            ({"kind": "b"}, [("user",), ("action",)]),
        ):
            answer = who_can(engine, "data.app.allow", given, paths, now_ns=NOW)
            listed = [json.dumps(each.values) for each in answer.grants]  # true is not 1
            query = engine.prepare("data.app.allow")
            spaces = [USERS] if len(paths) == 1 else [USERS, ACTIONS]
            for values in product(*spaces):
                names = [path[0] for path in paths]
                try:
                    holds = query.answer({**given, **dict(zip(names, values, strict=True))}) is True
                except EvalError:
                    continue
                if json.dumps(values) in listed:
                    assert holds, text
                elif not answer.conditions and not answer.unknown:
                    certain += 1
                    assert not holds, f"{values}\n{text}"
    assert certain
