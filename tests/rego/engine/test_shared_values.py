"""Values that share their parts, of 2**n items in n steps: a deadline ends going through them."""

from __future__ import annotations

import pytest

from doorward.rego import Engine, EvalError

DEADLINE = 0.1
"""Seconds; what does not look at the clock takes hours."""


def doubled(name: str) -> str:
    rules = [f"{name}0 := [input.x]"]
    rules += [f"{name}{n} := f({name}{n - 1})" for n in range(1, 40)]
    return "\n".join(rules)


POLICY = f"package p\nf(x) := [x, x]\n{doubled('a')}\n{doubled('b')}\n"


@pytest.mark.parametrize(
    "query",
    [
        "data.p.a39 < data.p.b39",
        "data.p.a39 == data.p.b39",
        "data.p.a39 = data.p.b39",
        "data.p.a39 != data.p.b39",
        "{data.p.a39} & {data.p.b39}",
        'object.union_n([{"a": data.p.a39}, {"a": data.p.b39}]) == {"a": data.p.a39}',
        "{data.p.a39}",
        "sort([data.p.a39, data.p.b39])",
        "data.p.a39 in [data.p.b39]",
        'sprintf("%v", [data.p.a39])',
        "json.marshal(data.p.a39)",
        "yaml.marshal(data.p.a39)",
        'strings.render_template("{{.a}}", {"a": data.p.a39})',
        'json.patch({}, [{"op": "test", "path": "", "value": data.p.a39}])',
        "x := data.p.a39",
        '$"{data.p.a39}"',
    ],
)
def test_a_deadline_stops_it(query: str) -> None:
    prepared = Engine({"p.rego": POLICY}).prepare(query, deadline=DEADLINE)
    with pytest.raises(EvalError) as raised:
        prepared.results({"x": 1})
    assert raised.value.code == "eval_cancel_error"


@pytest.mark.parametrize(
    "query",
    [
        # Of equal objects the union is the first one: that they are equal is not known at once.
        "object.union(data.p.u39, data.p.v39)",
        'object.union({"a": data.p.u39, "c": 1}, {"a": data.p.v39})',
    ],
)
def test_a_deadline_stops_a_union_of_objects_that_share_their_parts(query: str) -> None:
    rules = [
        f"{name}{n} := object.union({{`a`: {name}{n - 1}}}, {{`b`: {name}{n - 1}}})"
        for name in "uv"
        for n in range(1, 40)
    ]
    engine = Engine(
        {"p.rego": "\n".join(["package p", *rules, *(f"{n}0 := {{`a`: input.x}}" for n in "uv")])}
    )
    with pytest.raises(EvalError) as raised:
        engine.prepare(query, deadline=DEADLINE).results({"x": 1})
    assert raised.value.code == "eval_cancel_error"


def test_a_template_string_is_no_longer_than_other_texts() -> None:
    rules = ["t0 := input.x", *[f't{n} := $"{{t{n - 1}}}{{t{n - 1}}}"' for n in range(1, 40)]]
    engine = Engine({"p.rego": "\n".join(["package p", *rules])})
    with pytest.raises(EvalError, match=r"template-string is longer than 16777216 characters"):
        engine.prepare("data.p.t39").results({"x": "abcd"})
