"""What rules save whatever is known: the same residuals as without it, and made once."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from tests.rego.partial.programs import UNKNOWNS, document, program
from tests.rego.partial.recorded import comparable
from tests.rounds import rounds
from tests.waiting import PATIENCE

from doorward.filters import to_conditions
from doorward.rego import CompileError, Engine, EvalError, Partial, from_python
from doorward.rego.partial import residual, settled
from doorward.rego.partial.evaluate import Lowered
from doorward.rego.partial.settled import Settled

pytestmark = pytest.mark.long

FILTER = """package a

p if {
	input.docs.level <= 3
	not startswith(input.docs.name, "x")
	input.docs.owner == input.user
	not input.docs.secret
	input.docs.public
	input.docs.kind in ["a", "b"]
}
"""


def _residual(modules: dict[str, str], unknowns: Any, known: Any) -> Partial | str:
    try:
        engine = Engine(modules, data=from_python(known["data"]))
        given = from_python(known["input"])
        return engine.partial("data.a.p = x", unknowns, given, deadline=PATIENCE)
    except EvalError as error:
        return str(error)


def _shown(left: Partial | str) -> tuple[str, list[str]] | str:
    if isinstance(left, str):
        return left
    queries = [json.dumps(len(each)) for each in left.queries]
    return comparable(left.ast, unordered=False), queries


def test_residuals_are_those_of_a_search_that_looks_at_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    for seed in range(rounds(150)):
        draw = Random(seed)
        modules = {"a.rego": program(draw)}
        try:
            Engine(modules)
        except CompileError:
            continue
        unknowns: Any = draw.choice(UNKNOWNS)
        known = document(draw, ["input.u", "input.k"], {"input": {}, "data": {"e": 1}})
        fast = _shown(_residual(modules, unknowns, known))
        with monkeypatch.context() as patch:
            patch.setattr(Lowered, "_settled_for", lambda *_: None)
            assert _shown(_residual(modules, unknowns, known)) == fast, (seed, modules)
        compared += not isinstance(fast, str)
    assert compared > rounds(60)


def test_every_kind_of_comparison_is_settled_and_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine({"a.rego": FILTER})
    left = engine.partial("data.a.p", ["input.docs"], {"user": "ann"}, only_truth=True)
    assert left.query_texts == (
        'lte(input.docs.level, 3); not startswith(input.docs.name, "x"); "ann" = input.docs.owner; '
        'not input.docs.secret; input.docs.public; internal.member_2(input.docs.kind, ["a", "b"])',
    )
    monkeypatch.setattr(Settled, "_build_steps", None)
    other = engine.partial("data.a.p", ["input.docs"], {"user": "bob"}, only_truth=True)
    assert '"bob" = input.docs.owner' in other.query_texts[0]
    own, others = left.queries[0], other.queries[0]
    assert [one is two for one, two in zip(own, others, strict=True)].count(False) == 1


def test_threads_that_make_a_tree_at_once_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader keeps a condition by the id of a tree: nobody would hold that of the other thread,
    and its id would be that of another expression."""
    engine = Engine({"a.rego": FILTER})
    other: list[Partial] = []
    to_nodes = residual.body_to_nodes

    def ask() -> Partial:
        return engine.partial("data.a.p", ["input.docs"], {"user": "ann"}, only_truth=True)

    def interrupted(body: Any) -> Any:
        trees = to_nodes(body)
        if not other:  # another thread, which is done first
            other.append(ask())
            assert other[0].queries
        return trees

    monkeypatch.setattr(settled, "body_to_nodes", interrupted)
    left = ask()
    pairs = zip(left.queries[0], other[0].queries[0], strict=True)
    assert [one is two for one, two in pairs].count(False) == 1  # with what is known
    assert left.kept.keys() <= {id(each) for each in left.queries[0]}


def test_a_mocked_builtin_is_not_settled() -> None:
    policy = (
        "package a\n\nq if startswith(input.u.a, `b`)\n\np if q with startswith as yes\n\n"
        "yes(_, _) := true\n"
    )
    engine = Engine({"a.rego": policy})
    mocked = engine.partial("data.a.p", ["input.u"], only_truth=True)
    (support,) = mocked.support_texts
    assert 'q := true if { data.partial.a.yes(input.u.a, "b") }' in support
    assert engine.partial("data.a.q", ["input.u"]).query_texts == ('startswith(input.u.a, "b")',)


def test_conditions_are_kept_for_the_expressions_of_the_policy_alone() -> None:
    engine = Engine({"a.rego": FILTER.replace("not input.docs.secret", "input.docs.x.y == 1")})

    def conditions(user: str) -> Any:
        given = {"user": user}
        return to_conditions(engine.partial("data.a.p", ["input.docs"], given, only_truth=True))

    first, again, other = conditions("ann"), conditions("ann"), conditions("bob")
    assert first == again
    assert first != other
    assert "ann" not in repr(other)
