"""A decision by one snapshot: never an exception, never an allow by accident."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.edge import counts
from doorward.pdp.decision import Answered, Decision, DecisionError
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, Snapshot, build
from doorward.rego import (
    REGISTRY,
    UNDEFINED,
    CompileError,
    Engine,
    EvalError,
    InputError,
    Registry,
)
from doorward.rego.builtins.registry.signature import any_, string

POLICY = """\
package a

default allow := false

allow if input.user == "ann"

x := 1

x := 2 if input.two

s := to_number("z")

f(y) := y
"""


def pdp_of(policy: str = POLICY, **data: Any) -> PDP:
    document: Any = data
    return PDP(build(Loaded({"a.rego": policy}, document)))


def test_a_path_gives_its_document() -> None:
    pdp = pdp_of()
    decision = pdp.decide("a/allow", {"user": "ann"})
    assert (decision.result, decision.error, decision.path) == (True, None, "a/allow")
    assert pdp.decide("a/allow", {"user": "bob"}).result is False
    assert pdp.decide("a/allow").result is False
    assert decision.eval_ns > 0
    assert decision.revision == pdp.snapshot.revision


def test_slashes_too_many_do_not_matter_in_a_text_and_do_in_segments() -> None:
    pdp = pdp_of(roles={"a/b": 1, "list": [10, 20]})
    assert pdp.decide("/roles//list/1/").result == 20
    assert pdp.decide(("roles", "a/b")).result == 1
    assert pdp.decide("roles/a/b").result is UNDEFINED


def test_what_is_undefined_is_no_error_and_no_result() -> None:
    decision = pdp_of().decide("no/such/path")
    assert decision.result is UNDEFINED
    assert decision.error is None


def test_an_evaluation_that_fails_is_a_decision_with_an_error() -> None:
    decision = pdp_of().decide("a/x", {"two": True})
    assert decision.result is UNDEFINED
    assert isinstance(decision.error, EvalError)
    assert decision.error.code == "eval_conflict_error"


def test_errors_of_builtins_are_errors_only_when_strict() -> None:
    pdp = pdp_of()
    assert pdp.decide("a/s").error is None
    assert isinstance(pdp.decide("a/s", strict=True).error, EvalError)


def test_a_query_is_decided_as_well() -> None:
    decision = pdp_of().decide_query("data.a.allow == false")
    assert (decision.result, decision.query, decision.path) == (True, "data.a.allow == false", "")
    assert isinstance(pdp_of().decide_query("1 +").error, CompileError)


@pytest.mark.parametrize("path", ['a"]; allow := true #', "a\\", "a\x00", "a\n", "ü", "if", "1x"])
def test_no_text_of_a_path_is_read_as_rego(path: str) -> None:
    data: dict[str, Any] = {path: {"found": True}}
    pdp = pdp_of(POLICY, **data)
    assert pdp.decide((path, "found")).result is True


def test_a_fault_of_ours_is_a_decision_with_an_error_and_no_secret_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Registry(REGISTRY)

    def test_broken(text: str) -> Any:
        """Fails in a way that no built-in may."""
        raise KeyError(text)

    # Of one from outside the engine makes an error of the policy.
    test_broken.__module__ = "doorward.rego.builtins.test"
    registry.builtin("test.broken", string, returns=any_)(test_broken)
    engine = Engine(modules={"a.rego": "package a\np := test.broken(input)"}, registry=registry)
    with caplog.at_level(logging.ERROR):
        decision = PDP(Snapshot(engine, "r")).decide("a/p", "secret")
    assert decision.result is UNDEFINED
    assert isinstance(decision.error, DecisionError)
    assert "secret" not in str(decision.error) + str([vars(r) for r in caplog.records])


class UnknownError(Exception):
    """What a library raises that nobody thought of."""


def raising(error: BaseException) -> PDP:
    """A decision point whose policy calls a built-in that raises `error`."""
    registry = Registry(REGISTRY)

    @registry.builtin("test.raising", any_, returns=any_)
    def test_raising(value: Any) -> Any:
        """Raises what it was made for."""
        raise error

    policy = "package a\n\ndefault allow := true\n\nallow := test.raising(input)\n"
    return PDP(Snapshot(Engine(modules={"a.rego": policy}, registry=registry), "r"))


@pytest.mark.parametrize(
    "error",
    [UnknownError("secret"), MemoryError(), RecursionError(), StopIteration(), OSError("secret")],
)
def test_whatever_a_builtin_raises_is_a_decision_with_an_error(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    pdp = raising(error)
    before = counts()["builtin"]
    for decision in (pdp.decide("a/allow", 1), pdp.decide_query("data.a.allow", 1)):
        assert decision.result is UNDEFINED
        assert "test.raising: the built-in raised" in str(decision.error)
        assert "secret" not in str(decision.error)
    assert counts()["builtin"] == before + 2
    assert "secret" not in str([vars(record) for record in caplog.records])


def test_a_builtin_cannot_end_a_worker_and_a_signal_can_end_the_process() -> None:
    pdp = raising(SystemExit())
    with ThreadPoolExecutor(1) as workers:
        decision = workers.submit(pdp.decide, "a/allow", 1).result(PATIENCE)
    assert str(decision.error) == "internal error (SystemExit)"
    with pytest.raises(SystemExit):
        pdp.decide("a/allow", 1)


def test_a_decision_ends_at_its_deadline() -> None:
    policy = """\
package a

p := count([1 | some i in numbers.range(1, 10000); some j in numbers.range(1, 10000)])
"""
    pdp = PDP(build(Loaded({"a.rego": policy}), Settings(deadline=0.05)))
    decision = pdp.decide("a/p")
    assert isinstance(decision.error, EvalError)
    assert decision.error.code == "eval_cancel_error"


def test_a_decision_ends_where_it_makes_more_than_it_may() -> None:
    policy = "package a\n\np := count([1 | some i in input; some j in input])\n"
    pdp = PDP(build(Loaded({"a.rego": policy}), Settings(max_items=1000)))
    assert pdp.decide("a/p", list(range(30))).result == 900
    error = pdp.decide("a/p", list(range(40))).error
    assert isinstance(error, EvalError)
    assert error.code == "eval_limit_error"


def test_decisions_see_the_snapshot_that_was_put_into_force() -> None:
    pdp = pdp_of()
    old = pdp.decide("a/allow", {"user": "bob"})
    pdp.replace(build(Loaded({"a.rego": "package a\nallow := true"})))
    new = pdp.decide("a/allow", {"user": "bob"})
    assert (old.result, new.result) == (False, True)
    assert old.revision != new.revision


def test_the_revision_says_what_decides_and_nothing_else() -> None:
    def revision(modules: dict[str, str], **data: Any) -> str:
        document: Any = data
        return build(Loaded(modules, document)).revision

    same = revision({"a.rego": "package a"}, x=1)
    assert same == revision({"a.rego": "package a"}, x=1)
    assert same != revision({"a.rego": "package a"}, x=2)
    assert same != revision({"b.rego": "package a"}, x=1)
    assert same != revision({"a.rego": "package a\n"}, x=1)


def test_paths_beyond_those_kept_ready_are_decided_too() -> None:
    pdp = pdp_of(many={str(n): n for n in range(1100)})
    for n in (*range(1100), 0):
        assert pdp.decide(("many", f"{n}")).error is None


class Sink:
    """A decision log that keeps what it is told."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.closed = False

    def record(self, answered: Answered) -> None:
        self.decisions.append(answered.decision)

    def close(self) -> None:
        self.closed = True


def test_answers_are_recorded_under_who_gave_them() -> None:
    sink = Sink()
    pdp = PDP(build(Loaded({"a.rego": POLICY})), sink)
    decision = pdp.decide("a/allow")
    assert not sink.decisions
    pdp.record(decision, {"user": "ann"})
    pdp.close()
    assert sink.decisions == [decision]
    assert sink.closed
    assert pdp.logs_decisions
    assert not pdp_of().logs_decisions


@pytest.mark.parametrize("roles", [b"a", iter(["a"])], ids=["bytes", "iterator"])
def test_an_input_that_no_policy_can_match_is_an_error(roles: object) -> None:
    policy = 'package p\nallow if not "a" in input.roles\n'
    pdp = PDP(Snapshot(Engine({"p.rego": policy}), "1"))
    value: Any = {"roles": roles}
    for decision in (pdp.decide("p/allow", value), pdp.decide_query("data.p.allow", value)):
        assert isinstance(decision.error, InputError)
        assert decision.result is UNDEFINED


def test_an_input_that_stands_for_values_is_converted() -> None:
    policy = 'package p\nallow if "a" in input.roles\n'
    pdp = PDP(Snapshot(Engine({"p.rego": policy}), "1"))
    value: Any = {"roles": ("a",)}
    for decision in (pdp.decide("p/allow", value), pdp.decide_query("data.p.allow", value)):
        assert decision.result is True
