"""Explanations: which rules were tried, which condition failed, and with which values."""

from __future__ import annotations

import json
from typing import Any

from doorward.rego import Engine
from doorward.rego.explanation import Mask, Recorder, explain

POLICY = """package authz

import input.http

default allow := false

allow if {
    http.method == "GET"
    some role in data.roles[input.user]
    role == "reader"
}

allow if owner

owner if lower(input.user) == data.owners[http.path]

refused contains "night" if input.hour > 20
refused contains "weekend" if input.day in {"sat", "sun"}

strict if {
    count(refused) == 0
    every tag in input.tags {
        startswith(tag, "ok-")
    }
}

open if not strict
"""
SECRETS = {"secrets": {"hmac": {"one": "topsecret"}}}
DATA = {"roles": {"ann": ["writer", "admin"]}, "owners": {"/x": "bob"}}


def text(query: str, input: Any, *, full: bool = False) -> str:
    return explain(Engine({"authz.rego": POLICY}, DATA), query, input).text(full=full)


def test_each_definition_shows_the_condition_it_did_not_get_past() -> None:
    given = {"user": "ann", "http": {"method": "POST", "path": "/x"}}
    assert text("data.authz.allow", given) == (
        "data.authz.allow is false, its default\n"
        '  authz.rego:8: `http.method == "GET"` does not hold\n'
        '    http.method: "POST"\n'
        "  authz.rego:13: `owner` does not hold\n"
        "    data.authz.owner is undefined\n"
        "      authz.rego:15: `lower(input.user) == data.owners[http.path]` does not hold\n"
        '        lower(input.user): "ann"\n'
        '        input.user: "ann"\n'
        '        data.owners[http.path]: "bob"\n'
        '        http.path: "/x"'
    )


def test_a_condition_that_is_asked_for_many_values_shows_the_first_and_how_many() -> None:
    shown = text("data.authz.allow", {"user": "ann", "http": {"method": "GET"}})
    assert '`role == "reader"` does not hold in any of 2 rounds; in the first:' in shown
    assert 'role: "writer"' in shown


def test_every_shows_the_member_for_which_it_does_not_hold() -> None:
    shown = text("data.authz.strict", {"hour": 1, "day": "mon", "tags": ["ok-1", "no-2"]})
    assert '`startswith(tag, "ok-")` does not hold' in shown
    assert 'tag: "no-2"' in shown


def test_a_failed_not_shows_what_held() -> None:
    shown = text("data.authz.open", {"hour": 1, "day": "mon", "tags": []})
    assert "`not strict` does not hold" in shown
    assert "data.authz.strict is true" in shown


def test_a_set_that_should_be_empty_shows_its_members() -> None:
    shown = text("data.authz.strict", {"hour": 23, "day": "mon", "tags": []})
    assert "count(refused): 1" in shown
    assert 'refused: {"night"}' in shown


def test_a_full_explanation_shows_what_held_too() -> None:
    given = {"user": "ann", "http": {"method": "GET"}}
    assert '`http.method == "GET"` holds' in text("data.authz.allow", given, full=True)
    assert '`http.method == "GET"` holds' not in text("data.authz.allow", given)


def test_replaced_inputs_show_what_they_were_replaced_by() -> None:
    policy = 'package t\n\ntest_it if data.authz.owner with input as {"user": "EVE"}\n'
    engine = Engine({"authz.rego": POLICY, "t.rego": policy}, DATA)
    assert 'input.user: "EVE"' in explain(engine, "data.t.test_it").text()


def test_what_builtins_refuse_is_said() -> None:
    engine = Engine({"a.rego": "package a\n\np if to_number(input.x) > 1\n"})
    shown = explain(engine, "data.a.p", {"x": "one"}).text()
    assert "to_number(input.x): undefined (to_number: " in shown


def test_an_error_is_the_first_thing_said() -> None:
    engine = Engine({"a.rego": "package a\n\np := 1\n\np := input.x\n"})
    shown = explain(engine, "data.a.p", {"x": 2}).text()
    assert shown.startswith("data.a.p cannot be answered: a.rego:5: eval_conflict_error:")


def test_a_query_that_asks_no_rule_says_so() -> None:
    shown = explain(Engine(data={"a": 1}), "data.a").text()
    assert shown == "data.a is 1: no rule was asked for it"


def test_the_document_is_json_with_every_definition_and_condition() -> None:
    given = {"user": "ann", "http": {"method": "POST", "path": "/x"}}
    found = explain(Engine({"authz.rego": POLICY}, DATA), "data.authz.allow", given).to_document()
    assert json.loads(json.dumps(found)) == found
    first = found["rules"][0]["definitions"][0]
    assert first["holds"] is False
    condition = first["conditions"][-1]
    assert condition["text"] == 'http.method == "GET"'
    assert condition["location"] == {"file": "authz.rego", "row": 8, "col": 5}
    assert (condition["asked"], condition["held"]) == (1, 0)
    assert condition["values"] == {"http.method": "POST"}


def test_of_many_definitions_those_that_got_furthest_are_shown() -> None:
    rules = [f"p if {{\n\tinput.a == {n % 2}\n\tinput.b == {n}\n}}" for n in range(20)]
    engine = Engine({"a.rego": "\n\n".join(["package a", *rules])})
    shown = explain(engine, "data.a.p", {"a": 1, "b": -1}).text()
    assert shown.count("`input.b ==") == 8
    assert "`input.a ==" not in shown
    assert shown.endswith("\n  (12 more definitions did not get as far)")
    assert explain(engine, "data.a.p", {"a": 1, "b": -1}).text(full=True).count("not hold") == 20


def test_notes_are_what_trace_was_given() -> None:
    policy = 'package a\n\np if {\n\tx := input.x\n\ttrace(sprintf("x is %d", [x]))\n\tx > 2\n}\n'
    found = explain(Engine({"a.rego": policy}), "data.a.p", {"x": 1})
    assert found.notes() == ['a.rego:5: note "x is 1"']


def test_no_more_is_kept_than_the_limit_allows() -> None:
    engine = Engine(
        {"a.rego": "package a\n\np if {\n\tsome x in input\n\tf(x)\n}\n\nf(x) if x < 0\n"}
    )
    traced = Engine(engine.modules, traced=True).prepare("data.a.p")
    evaluation = traced.evaluation(list(range(1000)))
    evaluation.tracer = recorder = Recorder(limit=100)
    traced.value_of(evaluation)
    assert not recorder.is_whole
    assert len(recorder.top) == 1


def test_credentials_of_the_input_are_not_shown() -> None:
    policy = """package a

p if {
    [scheme, token] := split(input.headers.authorization, " ")
    scheme == "Basic"
    token == input.password
}
"""
    given = {"headers": {"authorization": "Bearer abcdefgh1234"}, "password": "hunter2hunter2"}
    for full in (False, True):
        shown = explain(Engine({"a.rego": policy}), "data.a.p", given).text(full=full)
        assert "abcdefgh1234" not in shown
        assert "hunter2" not in shown
    document = explain(Engine({"a.rego": policy}), "data.a.p", given).to_document()
    assert "abcdefgh1234" not in json.dumps(document)


def test_credentials_written_in_a_policy_are_not_shown() -> None:
    policy = 'package a\n\np if io.jwt.decode_verify(input.x, {"secret": "hunter2"})[0] == true\n'
    shown = explain(Engine({"a.rego": policy}), "data.a.p", {"x": "a.b.c"}).text(full=True)
    assert '{"secret": "[masked]"}' in shown
    assert "hunter2" not in shown


def test_credentials_of_the_data_are_not_shown() -> None:
    engine = Engine({"a.rego": "package a\n\np if input.k == data.secrets.hmac.one\n"}, SECRETS)
    shown = explain(engine, "data.a.p", {"k": "wrong"}).text()
    assert "topsecret" not in shown
    assert 'input.k: "wrong"' in shown


def test_claims_below_a_token_are_shown() -> None:
    mask = Mask({"token": {"payload": {"role": "guest"}}, "secrets": {"a": ["hush-hush"]}})
    assert mask.value("guest", "input.token.payload.role") == "guest"
    assert mask.value("hush-hush", "x") == "[masked]"
    assert mask.value("any", "data.secrets.hmac") == "[masked]"


def test_a_mask_hides_by_name_by_look_and_in_pieces() -> None:
    token = "eyJhbGciOiJI.eyJzdWIiOiJh.c2lnbmF0dXJl"
    mask = Mask({"cookie": "sid=topsecret; path=/", "note": token})
    assert mask.text(f"x topsecret y {token}") == "x [masked] y [masked]"
    assert mask.value({"password": "pw", "n": [1, "topsecret"]}) == {
        "password": "[masked]",
        "n": [1, "[masked]"],
    }
