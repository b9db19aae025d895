"""Variables where nobody would put them are refused in words, never by a failure of ours."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Engine


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("x[x]", "var x is unsafe"),
        ("[x][x]", "var x is unsafe"),
        ("{x: 1}[x]", "var x is unsafe"),
        ("[x | x][x]", "var x is unsafe"),
        ("[[x]][0][x]", "var x is unsafe"),
        ("some x in [x]", "var x is unsafe"),
        ("walk({x}, [x, _])", "var x is unsafe"),
        ("count([x], x)", "var x is unsafe"),
        ("input.a[x] with data.d as [x]", "var x is unsafe"),
        ('input.a[x] with data.d as $"{x}"', "var x is unsafe"),
        ("some x, y in {y: 1}", "var y is unsafe"),
    ],
)
def test_a_collection_does_not_bind_what_it_is_made_of(query: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        Engine().prepare(query)


def test_what_is_bound_elsewhere_may_be_walked_by_itself() -> None:
    engine = Engine(data={"xs": [[1, 0], [0, 1]]})
    assert (
        engine.prepare("x = data.xs[i]; x[x[_]]; [x[0]][x[0]]").results()
        == [{"x": [0, 1], "i": 1}] * 2
    )


@pytest.mark.parametrize(
    "rule", ["f(x) := 1 if { some x in [1] }", "f(x) := y if { y := x; some x in [1] }"]
)
def test_an_argument_cannot_be_declared_again(rule: str) -> None:
    with pytest.raises(CompileError, match="arg x redeclared"):
        Engine(modules={"p.rego": f"package p\n\n{rule}\n"})
