"""What a query may read, with everything that the rules it asks may read."""

from __future__ import annotations

import pytest

from doorward.rego import Engine

POLICY = """package a

p if {
    q[input.user.name]
    input.user
    data.t[x].y == x
    f(1)
}

q contains data.members[_]

f(x) := y if y := x + input.n[0]

other if p with data.config.on as true
"""


@pytest.mark.parametrize(
    ("query", "base", "virtual"),
    [
        ("data.a.q", ["data.members"], ["data.a.q"]),
        (
            "data.a.p",
            ["data.members", "data.t", "input.n.0", "input.user"],
            ["data.a.f", "data.a.p", "data.a.q"],
        ),
        ("data.a.f(2)", ["input.n.0"], ["data.a.f"]),
        ("data.b.c[input.x]", ["data.b.c", "input.x"], []),
        ("data.a.nobody", ["data.a.nobody"], []),
        (
            "data.a",
            ["data.config.on", "data.members", "data.t", "input.n.0", "input.user"],
            ["data.a.f", "data.a.other", "data.a.p", "data.a.q"],
        ),
        ("x := 1; x > 0", [], []),
        ("count(input); input.a", ["input"], []),
        ("some k, v in input; k == v", ["input"], []),
        ("input[x] == 1", ["input"], []),
        ("data.a.q with input as 1", ["data.members"], ["data.a.q"]),
    ],
)
def test_documents_are_those_that_references_name(
    query: str, base: list[str], virtual: list[str]
) -> None:
    actual = Engine({"a.rego": POLICY}).documents(query)
    assert [".".join(map(str, path)) for path in actual.base] == base
    assert [".".join(map(str, path)) for path in actual.virtual] == virtual


def test_what_is_replaced_counts_as_read() -> None:
    actual = Engine({"a.rego": POLICY}).documents("data.a.other")
    assert ("data", "config", "on") in actual.base


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("data.a.p", [("n", 0), ("user",)]),
        ("input.a.b; input.a; input.c[x]", [("a",), ("c",)]),
        ("count(input)", [()]),
        ("x := input[_]; input.a", [()]),
        ("data.a.q with input as 1", []),
    ],
)
def test_the_input_that_is_read_is_known_by_its_paths(query: str, paths: list[object]) -> None:
    assert Engine({"a.rego": POLICY}).prepare(query).input_paths == paths
