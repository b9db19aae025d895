"""Rules that read each other in a long chain are answered, though each nests in the one before."""

from __future__ import annotations

import pytest
from tests.waiting import PATIENCE

from doorward.rego import Engine, Environment, EvalError

pytestmark = pytest.mark.long


def chain(length: int, more: str = "") -> str:
    lines = [f"p{n} := p{n - 1} + 1" for n in range(1, length)]
    return "\n".join(["package t", "p0 := input.x", *lines, more])


@pytest.mark.parametrize("length", [200, 1_500])
def test_a_chain_of_rules_is_answered(length: int) -> None:
    query = Engine({"t.rego": chain(length)}).prepare(f"data.t.p{length - 1}")
    for x in (0, 7):
        assert query.value({"x": x}) == x + length - 1
    assert query.results({"x": 1}) == [{}]


def test_a_chain_of_rules_is_answered_within_a_deadline() -> None:
    more = "f(x) := x + 1\nq := f(p999)\n"
    query = Engine({"t.rego": chain(1_000, more)}).prepare("data.t.q", deadline=PATIENCE)
    assert query.value({"x": 1}) == 1_001


def test_a_limit_ends_the_evaluation_of_a_chain() -> None:
    more = "huge := numbers.range(1, 100000000)\nq := p999\nq := huge if input.x == 5\n"
    query = Engine({"t.rego": chain(1_000, more)}).prepare("data.t.q")
    with pytest.raises(EvalError) as caught:
        query.value({"x": 1})
    assert caught.value.code == "eval_limit_error"


def test_partial_rules_in_a_chain_are_answered() -> None:
    lines = [f"s{n} contains x if some x in s{n - 1}" for n in range(1, 1_000)]
    policy = "\n".join(["package t", "s0 contains x if some x in input", *lines])
    query = Engine({"t.rego": policy}).prepare("count(data.t.s999)")
    assert query.value([1, 2, 2]) == 2


def test_an_error_is_reported_only_where_the_query_asks() -> None:
    """The conflict is in a rule that `q` reads, and does not ask for these inputs."""
    more = "wrong := x if some x in [1, 2]\nq := p999\nq := wrong if input.x == 5\n"
    query = Engine({"t.rego": chain(1_000, more)}).prepare("data.t.q")
    assert query.value({"x": 1}) == 1_000
    with pytest.raises(EvalError, match="complete rules must not produce multiple outputs"):
        query.value({"x": 5})


def test_what_could_be_seen_outside_is_not_evaluated_ahead() -> None:
    printed: list[str] = []
    environment = Environment(on_print=lambda text, _span: printed.append(text))
    more = 'loud := 1 if print("asked")\nq := p999\nq := loud if input.x == 5\n'
    query = Engine({"t.rego": chain(1_000, more)}, environment=environment).prepare("data.t.q")
    with pytest.raises(EvalError, match="evaluation nests too deeply"):
        query.value({"x": 1})
    assert printed == []
