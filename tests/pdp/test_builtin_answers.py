"""Answers of built-ins that ask the world stand in the event, and nothing that is a credential."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.bundles.loader import Loaded
from doorward.config.configuration import DecisionLogs
from doorward.decision_log.log import DecisionLog
from doorward.pdp.builtin_answers import MAX_ANSWERS, noting
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rego import REGISTRY, UNDEFINED, Environment, Registry
from doorward.rego.types import any_
from doorward.telemetry.log import line_for

SETTINGS = Settings(
    registry=noting(REGISTRY),
    notes_answers=True,
    environment=Environment(runtime={"env": {"URL": "x"}}),
)
POLICY = """package p

rnd := rand.intn(input.name, 1)

failing := net.lookup_ip_addr(input.n)

inner := x if {
	x := time.now_ns() with input as {}
}

many contains rand.intn(sprintf("%d", [n]), 1) if some n in numbers.range(1, input.n)

signed := io.jwt.encode_sign({"alg": "HS256"}, {"a": 1}, {"kty": "oct", "k": "c2VjcmV0"})

runtime := count(opa.runtime()) > 0

plain := 1

mocked if rand.intn("k", 9) == 7 with rand.intn as 7
"""


def notes_of(path: str, input: Any = UNDEFINED) -> Any:
    pdp = PDP(build(Loaded({"p.rego": POLICY}, {"given": 1}), SETTINGS))
    return pdp.decide(path, input).builtins


@pytest.mark.parametrize(
    ("path", "input", "notes"),
    [
        ("p/rnd", {"name": "k"}, {"rand.intn": {'["k",1]': 0}}),
        ("p/rnd", {}, {}),
        ("p/failing", {"n": 1}, {}),
        ("p/plain", {}, {}),
        ("p/mocked", {}, {}),
        ("given", {}, {}),
        ("nothing", {}, {}),
    ],
)
def test_answers_are_noted_by_name_and_operands(path: str, input: Any, notes: Any) -> None:
    assert notes_of(path, input) == notes


def test_an_undefined_answer_is_not_noted() -> None:
    custom = Registry(REGISTRY)

    @custom.builtin("custom.find", any_, returns=any_, pure=False)
    def find(name: Any) -> Any:
        return UNDEFINED

    settings = Settings(registry=noting(custom), notes_answers=True)
    policy = 'package p\n\nx := custom.find("a")\n\nabsent if not x'
    lines: list[bytes] = []
    log = DecisionLog(lines.append, line_for("json"), labels={}, options=DecisionLogs(console=True))
    pdp = PDP(build(Loaded({"p.rego": policy}), settings), log)
    decision = pdp.decide("p/absent")
    assert (decision.result, decision.builtins) == (True, {})
    pdp.record(decision)
    pdp.close()
    assert json.loads(b"".join(lines))["result"] is True


def test_answers_below_a_with_are_noted() -> None:
    (answers,) = notes_of("p/inner").values()
    assert list(answers) == ["[]"]
    assert answers["[]"] > 1_700_000_000_000_000_000


def test_notes_are_bounded() -> None:
    assert len(notes_of("p/many", {"n": MAX_ANSWERS + 5})["rand.intn"]) == MAX_ANSWERS


def test_a_query_notes_answers() -> None:
    pdp = PDP(build(Loaded({"p.rego": POLICY}), SETTINGS))
    noted = {"rand.intn": {'["q",1]': 0}}
    assert pdp.decide_query('rand.intn("q", 1)').builtins == noted
    assert pdp.decide_query('x := rand.intn("q", 1)').builtins == noted
    assert pdp.solve('x := rand.intn("q", 1)').builtins == noted


def test_nobody_notes_without_the_setting() -> None:
    assert PDP(build(Loaded({"p.rego": POLICY}))).decide("p/rnd", {"name": "k"}).builtins is None
    assert PDP(build(Loaded({"p.rego": POLICY}))).solve("x := 1").builtins is None


def test_a_built_in_of_others_notes_where_it_is_not_pure() -> None:
    registry = Registry(REGISTRY)

    @registry.builtin("my.roll", returns=any_, pure=False)
    def roll() -> int:
        return 4

    settings = Settings(registry=noting(registry), notes_answers=True)
    pdp = PDP(build(Loaded({"p.rego": "package p\n\nx := my.roll()"}), settings))
    assert pdp.decide("p/x").builtins == {"my.roll": {"[]": 4}}


def event_of(path: str, input: Any = UNDEFINED, **options: Any) -> Any:
    lines: list[bytes] = []
    log = DecisionLog(
        lines.append, line_for("json"), labels={}, options=DecisionLogs(console=True, **options)
    )
    pdp = PDP(build(Loaded({"p.rego": POLICY}), SETTINGS), log)
    pdp.record(pdp.decide(path, input), input)
    pdp.close()
    return json.loads(b"".join(lines))


def test_the_event_holds_the_answers() -> None:
    assert event_of("p/rnd", {"name": "k"})["nd_builtin_cache"] == {"rand.intn": {'["k",1]': 0}}
    assert event_of("p/plain")["nd_builtin_cache"] == {}


@pytest.mark.parametrize(
    ("path", "input", "name"),
    [
        ("p/signed", UNDEFINED, "io.jwt.encode_sign"),
        ("p/runtime", UNDEFINED, "opa.runtime"),
        ("p/rnd", {"name": 'x","password":"hunter2'}, "rand.intn"),
    ],
)
def test_answers_with_credentials_are_left_out(path: str, input: Any, name: str) -> None:
    event = event_of(path, input)
    assert event["nd_builtin_cache"] == {}
    assert f"/nd_builtin_cache/{name}" in event["erased"]
    assert "hunter2" not in json.dumps(event)
    kept = event_of(path, input, mask_credentials=False)
    assert list(kept["nd_builtin_cache"]) == [name]


def test_a_credential_in_an_answer_is_masked() -> None:
    registry = Registry(REGISTRY)

    @registry.builtin("my.login", returns=any_, pure=False)
    def login() -> dict[str, str]:
        return {"user": "ann", "password": "hunter2"}

    settings = Settings(registry=noting(registry), notes_answers=True)
    lines: list[bytes] = []
    log = DecisionLog(lines.append, line_for("json"), labels={}, options=DecisionLogs(console=True))
    pdp = PDP(build(Loaded({"p.rego": "package p\n\nx if my.login().user"}), settings), log)
    pdp.record(pdp.decide("p/x"))
    pdp.close()
    event = json.loads(b"".join(lines))
    assert event["nd_builtin_cache"] == {"my.login": {"[]": {"user": "ann"}}}
    assert event["erased"] == ["/nd_builtin_cache/my.login/[]/password"]
