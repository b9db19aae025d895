"""Members of data without which rules can only deny more."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from doorward.rego import Engine
from doorward.rego.partial import data_use
from doorward.rego.tools import DataMember

ENTRY = ("a", "allow")
DATA: dict[str, Any] = {
    "users": {"bob": {"roles": ["reader", "writer"]}, "eve": {"roles": []}},
    "grants": {"reader": ["GET"], "writer": ["PUT"]},
    "list": [1, 2, 3],
    "flags": {"on": True, "off": False},
    "name": "bob",
}


def members_of(body: str, *more: str, data: Any = DATA) -> dict[str, bool]:
    """Each member that the policy reads, and whether it can go."""
    engine = Engine({"a.rego": "\n".join(["package a", f"allow if {{ {body} }}", *more])}, data)
    use = engine.policies.lowered.data_use([ENTRY])
    return {_text(each): each.is_removable for each in _all(use.root(data))}


def _all(member: DataMember) -> Iterator[DataMember]:
    for each in member.children():
        yield each
        yield from _all(each)


def _text(member: DataMember) -> str:
    return ".".join(map(str, member.location))


def removable(body: str, *more: str, data: Any = DATA) -> set[str]:
    return {name for name, can_go in members_of(body, *more, data=data).items() if can_go}


USERS = {"users", "users.bob", "users.bob.roles", "users.bob.roles.0", "users.bob.roles.1"}
EVE = {"users.eve", "users.eve.roles"}


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ('"x" in data.users[input.u].roles', ()),
        ("some r in data.users[input.u].roles; r == input.r", ()),
        ("data.users[input.u].roles[_] == input.r", ()),
        ("input.r in roles", ("roles contains r if some r in data.users[input.u].roles",)),
        ("input.r in user.roles", ("user := data.users[input.u]",)),
        ("is_in(data.users[input.u])", ("is_in(user) if input.r in user.roles",)),
        ("every r in input.rs { r in data.users[input.u].roles }", ()),
        ("helper", ("default helper := false", "helper if input.r in data.users[_].roles")),
        ("helper == true", ("default helper := false", "helper if input.r in data.users[_].roles")),
        ("some r in data.users[_].roles; r in roles; not startswith(r, input.x)",
         ("roles contains r if some r in data.users[input.u].roles",)),
        ("f(data.users[input.u]).roles[_] == input.r", ("f(user) := user",)),
        ("has(data.users[input.u], 1)", ("has(user, n) if user.roles[_] == n",)),
    ],
)  # fmt: skip
def test_members_that_a_condition_asks_for_can_go(body: str, more: tuple[str, ...]) -> None:
    assert removable(body, *more) == USERS | EVE


@pytest.mark.parametrize(
    ("body", "more", "expected"),
    [
        ("not input.u in data.list", (), {"list"}),
        ("not data.flags[input.u]", (), set()),
        ("not bad", ("bad if data.flags[input.u]",), set()),
        ("bad == false", ("default bad := false", "bad if data.flags[input.u]"), set()),
        ("not bad(data.flags)", ("bad(flags) if flags[input.u]",), {"flags"}),
        ("every x in data.list { x == input.x }", (), {"list"}),
        ("count(data.list) < 3", (), {"list"}),
        ("data.list == input.x", (), {"list"}),
        ("[x | some x in data.list] == [1]", (), set()),
        ("data.list[0] == input.x", (), {"list"}),
        ("some n, x in data.list; n == input.n; x == 1", (), {"list"}),
        ("some n; data.list[n] == input.list[n]", (), {"list"}),
        ("f with data.list as [1]", ("f if input.x in data.list",), set()),
        ("f.x", ("f.x if input.x in data.list",), {"list", "list.0", "list.1", "list.2"}),
        ("f[1]", ("f[x] := true if some x in data.list",), set()),
        ("size < 2", ("size := count(names)", "names contains x if some x in data.list"), set()),
        ("x == 1", ("x := 1 if 1 in data.list", "x := 2 if 2 in data.list"), set()),
        ("x == 1", ("x := 1 if 1 in data.list else := 2",), set()),
        ("x == 1", ("x := y if some y in data.list",), set()),
        ("x == 1", ("x := y if walk(data.flags, [_, y])",), set()),
        ("0, input.x in data.list", (), {"list"}),
        ("input.x in [data.name]", (), {"name"}),
        ("first(data.list)", ("first([x, _, _]) if x == input.x",), {"list"}),
        ('walk(data.flags, [["on"], true])', (), {"flags"}),
        ("object.get(data.flags, input.x, true)", (), {"flags"}),
        ("data[input.x].on", (), {"flags", "flags.on", "list", "name"}),
        ("data.name == input.u", (), {"name"}),
        ("print(data.list); input.x", (), set()),
        ("`{data.name}` != input.x", (), set()),
    ],
)
def test_members_whose_absence_counts_stay(
    body: str, more: tuple[str, ...], expected: set[str]
) -> None:
    names = {each for each in removable(body, *more) if each.split(".")[0] != "users"}
    assert names - {"grants", "grants.reader", "grants.writer"} == expected


def test_beyond_the_limits_nothing_can_go(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "data.users[_].roles[_] == input.r"
    assert removable(body) == USERS | EVE
    assert removable(f"{body}; data.list{'[_]' * (data_use.MAX_DEPTH - 1)}") >= USERS | EVE
    assert removable(f"{body}; data.list{'[_]' * data_use.MAX_DEPTH}") == set()
    monkeypatch.setattr(data_use, "MAX_LOCATIONS", 3)
    steps = "a := data.users; b := a[_]; c := b.roles; d := c[_]; d == input.r"
    assert removable(steps) == set()
    monkeypatch.setattr(data_use, "MAX_LOCATIONS", 4)
    assert removable(steps) == USERS | EVE


@pytest.mark.parametrize(
    ("body", "expected"),
    [("data.b[input.x]", ["list", "list.0", "list.1", "list.2"]), ("count(data.b) == 1", [])],
)
def test_a_package_that_is_read_as_a_value_stays(body: str, expected: list[str]) -> None:
    other = "package b\nx if 1 in data.list"
    engine = Engine({"a.rego": f"package a\nallow if {{ {body} }}", "b.rego": other}, DATA)
    members = _all(engine.policies.lowered.data_use([ENTRY]).root(DATA))
    assert [_text(each) for each in members if each.is_removable] == expected


def test_rules_that_no_entry_needs_do_not_count() -> None:
    test = "test_size if { not data.list; f(data.name) }"
    function = "f(x) if x"
    assert removable("1 in data.list", test, function) == {"list", "list.0", "list.1", "list.2"}


def test_without_entries_all_rules_count() -> None:
    engine = Engine({"a.rego": "package a\nallow if 1 in data.list\nx if not data.list"}, DATA)
    members = list(_all(engine.policies.lowered.data_use([]).root(DATA)))
    assert [each.is_removable for each in members] == [False]


def test_an_answer_that_is_an_object_is_followed_by_its_verdict() -> None:
    rules = (
        "package a",
        'answer := {"allowed": ok, "headers": {"x": data.name}}',
        "default ok := false",
        "ok if 1 in data.list",
    )
    engine = Engine({"a.rego": "\n".join(rules)}, DATA)
    use = engine.policies.lowered.data_use([("a", "answer")])
    names = {_text(each) for each in _all(use.root(DATA)) if each.is_removable}
    assert names == {"list", "list.0", "list.1", "list.2", "name"}
    inverted = Engine({"a.rego": "\n".join([*rules, "other if answer.allowed == false"])}, DATA)
    use = inverted.policies.lowered.data_use([("a", "answer"), ("a", "other")])
    assert not [
        each for each in _all(use.root(DATA)) if each.is_removable and "list" in _text(each)
    ]


# Random policies: whatever is taken out, nothing is allowed that was not.

_CONDITIONS = (
    "input.x in data.list",
    "not input.x in data.list",
    "some {v} in data.list; {v} == input.x",
    "some {v} in data.list; not {v} == input.x",
    "some {v}, {w} in data.flags; {w} == input.y",
    "data.flags[input.k]",
    "not data.flags[input.k]",
    "count(data.list) > input.x",
    "data.list[_] > input.x",
    "data.list[input.x] == 1",
    "data.users[input.u].roles[_] == input.r",
    "some {v} in data.users[input.u].roles; input.m in data.grants[{v}]",
    "some {v} in data.users[input.u].roles; not input.m in data.grants[{v}]",
    "every {v} in data.list {{ {v} > input.x }}",
    "every {v} in input.l {{ {v} in data.list }}",
    "data.name == input.u",
    "data.name != input.u",
    "{rule}",
    "not {rule}",
    "{rule} == false",
    "{v} := {rule}; {v} != true",
    "input.x in {set}",
    "not input.x in {set}",
    "count({set}) < 2",
    "fun(data.flags, input.k)",
    "not fun(data.flags, input.k)",
    "fun(data.users, input.u)",
    "user.roles[_] == input.r",
    "not user.roles",
    "count([1 | data.list[_] > input.x]) < 2",
    "{v} := data.users[input.u]; {w} := {v}.roles; input.r in {w}",
    "{v} := data.users[input.u]; not input.r in {v}.roles",
    "{rule} with data.list as [1]",
    "object.get(data.flags, input.k, false) == input.y",
)


def _policy(random_: random.Random) -> str:
    lines = ["package a", "fun(x, k) if x[k]", "user := data.users[input.u]"]
    for level in range(3):
        name = f"r{level}"
        if random_.random() < 0.5:
            lines.append(f"default {name} := false")
        for number in range(random_.randrange(1, 3)):
            lines.append(f"{name} if {{ {_body(random_, level, f'{level}{number}')} }}")
        lines.append(f"s{level} contains x if {{ some x in data.list; "
                     f"{_body(random_, level, f's{level}')} }}")  # fmt: skip
    lines.append(f"allow if {{ {_body(random_, 3, 'a')} }}")
    return "\n".join(lines)


def _body(random_: random.Random, level: int, mark: str) -> str:
    conditions = []
    for number in range(random_.randrange(1, 3)):
        text = random_.choice(_CONDITIONS)
        if level == 0 and ("{rule}" in text or "{set}" in text):
            text = "input.x == 1"
        inner = random_.randrange(max(level, 1))
        conditions.append(
            text.format(
                v=f"v{mark}{number}", w=f"w{mark}{number}", rule=f"r{inner}", set=f"s{inner}"
            )
        )
    return "; ".join(conditions)


def _inputs(random_: random.Random) -> dict[str, Any]:
    return {
        "x": random_.randrange(4),
        "y": random_.random() < 0.5,
        "k": random_.choice(["on", "off", "none"]),
        "u": random_.choice(["bob", "eve", "joe"]),
        "r": random_.choice(["reader", "writer"]),
        "m": random_.choice(["GET", "PUT"]),
        "l": [random_.randrange(4)],
    }


def _without(value: Any, location: tuple[Any, ...]) -> Any:
    key, *rest = location
    if isinstance(value, dict):
        inner = {k: v for k, v in value.items() if k != key}
        return inner if not rest else {**value, key: _without(value[key], tuple(rest))}
    if not rest:
        return [v for n, v in enumerate(value) if n != key]
    return [_without(v, tuple(rest)) if n == key else v for n, v in enumerate(value)]


@pytest.mark.parametrize("seed", range(8))
def test_no_random_policy_allows_more_without_a_removable_member(seed: int) -> None:
    random_ = random.Random(seed)
    changed = 0
    for _ in range(25):
        engine = Engine({"a.rego": _policy(random_)}, DATA)
        use = engine.policies.lowered.data_use([ENTRY])
        data, before = DATA, engine.prepare("data.a.allow")
        inputs = [_inputs(random_) for _ in range(20)]
        answers = [before.value(each) is True for each in inputs]
        for _ in range(3):
            members = [each for each in _all(use.root(data)) if each.is_removable]
            if not members:
                break
            data = _without(data, random_.choice(members).location)
            after = engine.with_data(data).prepare("data.a.allow")
            for document, was in zip(inputs, answers, strict=True):
                now = after.value(document) is True
                assert was or not now, (_text(members[0]), document)
                changed += was and not now
    assert changed
