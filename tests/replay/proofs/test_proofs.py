"""What is proved, what is not, and the traps in which a prover lies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.cli.main import run
from doorward.rego import Engine, Source
from doorward.rego.tools import parse_query
from doorward.replay.proofs import as_json, proofs, properties_of
from doorward.replay.proofs.checking import Checker
from doorward.replay.proofs.refuting import Refuter
from doorward.replay.proofs.steps import Bounds, Cases, Contradiction, Denied, Fails, Step

POLICY = """package p

default allow := false

allow if {
	input.m == "GET"
	input.u in data.users
}

allow if {
	input.m == "PUT"
	data.roles[input.u] == "adm"
}

allow if {
	input.m == "POST"
	small(input.n)
}

small(n) if n < 5

late if time.now_ns() > 3

"""
DATA: Any = {"users": ["kim"], "roles": {"ann": "adm", "kim": "dev"}}

PROVED = {
    "another method": 'allow; input.m == "DELETE"',
    "a stranger": 'allow; input.m in {"GET", "PUT"}; not input.u in {"kim", "ann"}',
    "a role that data does not give": 'allow; input.m == "PUT"; input.u == "kim"',
    "an expression and its negation": "input.x; not input.x",
    "bounds of a leaf": "input.n > 5; input.n < 3",
    "bounds through a function": 'allow; input.m == "POST"; input.n >= 5',
    "a call with a value": 'input.x in {"/a", "/b"}; not startswith(input.x, "/")',
    "two leaves": 'input.x == input.y; input.x == "a"; input.y == "b"',
    "bounds of all kinds": 'input.n < 5; input.n == "a"',
}
NOT_PROVED = {
    "default makes false a value": 'allow == false; input.m == "PUT"',
    "a denial": 'not allow; input.m == "PUT"; input.u == "kim"',
    "a clock": "late; not input.x",
    "a type error is true under not": 'not startswith(input.f, "a"); input.f == false',
    "an allowed request": 'allow; input.m == "GET"',
    "an unknown item": "some i; input.xs[i] == 1; not input.xs[0] == 1",
    "another input": 'input.x == "a"; allow with input as {"m": "GET", "u": "kim"}',
    "undefined": "not input.x == 1; not input.x == 2",
    "a name that is longer": 'input.m == "GET"; not input.mm == "GET"',
    "chance": 'rand.intn("a", 2) == 0; not rand.intn("b", 2) == 0',
    "the opposite of a stranger": 'allow; input.m in {"GET", "PUT"}; input.u in {"kim", "ann"}',
}


def outcome(conditions: str, rule: str = "never_x if {{ {} }}\n") -> str:
    engine = Engine({"p.rego": POLICY + rule.format(conditions)}, DATA)
    (verdict,) = proofs(engine)
    return verdict.outcome


@pytest.mark.parametrize("name", PROVED)
def test_what_no_input_makes_true_is_proved(name: str) -> None:
    assert outcome(PROVED[name]) == "none exists"


@pytest.mark.parametrize("name", NOT_PROVED)
def test_what_some_input_makes_true_is_never_proved(name: str) -> None:
    assert outcome(NOT_PROVED[name]) == "cannot say"


@pytest.mark.parametrize(
    "rule",
    [
        "never_x := input.z\n",
        "never_x contains input.z\n",
        "default never_x := true\n",
        "never_x := false\n",
        "never_x if {{ input.x; not input.x }} else if input.y\n",
        "never_x(n) if n == 1\n",
    ],
)
def test_what_is_no_plain_property_is_not_proved(rule: str) -> None:
    assert outcome("", rule) == "cannot say"


def test_properties_are_named_with_their_rows() -> None:
    engine = Engine({"p.rego": "package p\n\nnever_b if input.x\n\nnever_a if input.y\n"})
    assert [(each.name, each.where) for each in properties_of(engine)] == [
        ("data.p.never_b", "p.rego:3"),
        ("data.p.never_a", "p.rego:5"),
    ]


TEXTS = (
    'input.m = "GET"',
    'not input.m = "GET"',
    "input.n > 5",
    "input.n < 3",
    "input.n < 7",
    'internal.member_2(input.u, {"kim", "ann"})',
    "not data.support.denied",
    'input.u = "bob"',
    'rand.intn("a", 2) = 0',
    'not rand.intn("a", 2) = 0',
    "input.u.name = 1",
)
SUPPORT = 'package support\n\ndenied := true if { input.m = "GET"; input.n > 5 }\n'
SOUND: list[Step] = [
    Contradiction(0, 1),
    Bounds(2, 3),
    Denied(6, (0, 0), (0, 2)),
    Cases(("u",), 5, (("kim", Fails(7)), ("ann", Fails(7)))),
]
UNSOUND: list[Step] = [
    Contradiction(1, 0),
    Contradiction(0, 7),
    Contradiction(8, 9),
    Contradiction(0, 99),
    Bounds(2, 4),
    Bounds(2, 2),
    Denied(6, (0, 0), (0, 3)),
    Denied(6, (0, 0), (0,)),
    Denied(1, (0, 0), (0, 2)),
    Denied(6, (3, 0), (0, 2)),
    Cases(("u",), 5, (("kim", Fails(7)),)),
    Cases(("u",), 5, (("kim", Fails(7)), ("kim", Fails(7)))),
    Cases(("u",), 5, (("kim", Fails(0)), ("ann", Fails(7)))),
    Cases(("m",), 5, (("kim", Fails(7)), ("ann", Fails(7)))),
    Cases(("u",), 2, (("kim", Fails(7)), ("ann", Fails(7)))),
    Cases((), 5, ()),
    Fails(0),
    Fails(9),
]


def checker() -> Checker:
    engine = Engine({"support.rego": SUPPORT})
    return Checker(engine, [SUPPORT])


@pytest.mark.parametrize("refutation", SOUND, ids=str)
def test_the_checker_accepts_what_refutes(refutation: Step) -> None:
    assert checker().accepts(refutation, TEXTS)


@pytest.mark.parametrize("refutation", UNSOUND, ids=str)
def test_the_checker_refuses_what_does_not(refutation: Step) -> None:
    assert not checker().accepts(refutation, TEXTS)


def test_no_steps_are_no_proof() -> None:
    assert not checker().accepts(None, TEXTS)


def test_every_refutation_of_the_refuter_is_accepted() -> None:
    engine = Engine({"p.rego": POLICY}, DATA)
    texts = ["input.n > 5", "3 > input.n"]
    body = tuple(parse_query(Source("", text), v0=False)[0] for text in texts)
    refutation = Refuter(engine, ()).refute(body)
    assert refutation == Bounds(0, 1)
    assert Checker(engine, []).accepts(refutation, texts)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "p.rego").write_text(POLICY)
    return [str(tmp_path / "p.rego"), str(tmp_path / "data.json"), str(tmp_path / "never.rego")]


def prove(files: list[str], rules: str, *options: str) -> int:
    Path(files[2]).write_text(f"package never\n\nimport data.p.allow\n\n{rules}\n")
    return run(["prove", "--time", "300ms", *options, *files])


def test_proved_properties_end_with_0(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert prove(files, 'never_other if { allow; input.m == "DELETE" }') == 0
    shown = capsys.readouterr().out
    assert "data.never.never_other" in shown
    assert "none exists, for any JSON input and the data given: 3 conjunctions refuted" in shown


def test_a_counterexample_ends_with_2_and_is_a_request_and_a_test(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = 'never_dev if { allow; data.roles[input.u] == "dev" }'
    assert prove(files, rule, "--format", "json") == 2
    (verdict,) = json.loads(capsys.readouterr().out)
    assert verdict["outcome"] == "counterexample"
    assert (
        verdict["input"]
        in (
            {"m": "GET", "u": "kim"},
            {"m": "POST", "n": 0, "u": "kim"},
        )
        or verdict["input"]["u"] == "kim"
    )
    assert verdict["curl"].startswith('curl -d \'{"input": {')
    assert "data.never.never_dev == true with input as" in verdict["test"]


def test_what_is_not_known_ends_with_3_and_names_what_never_held(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = 'never_hash if { allow; crypto.md5(input.h) == "0" }'
    assert prove(files, rule) == 3
    shown = capsys.readouterr().out
    assert "cannot say" in shown
    assert "never held: " in shown
    assert 'crypto.md5(input.h) == "0"' in shown
    assert "not inverted: crypto.md5" in shown
    assert prove(files, rule, "--searched") == 3


def test_a_full_search_ends_with_0_where_that_is_enough(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "never_sum if { input.n + input.k == 7; input.n + input.k == 8 }"
    assert prove(files, rule) == 3
    code = prove(files, rule, "--searched")
    assert code in (0, 3)
    assert ("none found" in capsys.readouterr().out) is (code == 0) or code == 3


def test_policies_without_a_property_and_broken_ones_end_with_1(files: list[str]) -> None:
    assert prove(files, "always if input.x") == 1
    assert prove(files, "never_x if {") == 1


def test_json_of_nothing_is_an_empty_list() -> None:
    assert json.loads(as_json([])) == []


def test_a_proof_needs_the_data_that_rules_read() -> None:
    rule = 'never_x if { allow; input.m == "DELETE" }\n'
    (verdict,) = proofs(Engine({"p.rego": POLICY + rule}, {"users": ["kim"]}))
    assert verdict.outcome == "cannot say"
    assert verdict.reason == "data.roles is read and is not among the data"
