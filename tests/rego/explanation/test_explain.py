"""Explanations: which rules were tried, which condition failed, and with which values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.rego import REGISTRY, Engine
from doorward.rego.explanation import Explanation, Mask, Recorder, explain
from doorward.rego.explanation.trail import trail_of
from doorward.rego.values import to_key

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


@pytest.mark.parametrize(
    ("condition", "given", "want"),
    [
        (
            'not startswith(input.path, "/admin")',
            {},
            ['startswith(input.path, "/admin"): undefined', "input.path: undefined"],
        ),
        (
            "not lower(input.user) in data.owners",
            {"user": "BOB"},
            [
                "lower(input.user) in data.owners: true",
                'lower(input.user): "bob"',
                'input.user: "BOB"',
                'data.owners: {"/x": "bob"}',
            ],
        ),
        ("not [input.a, input.b][input.n]", {"a": 1, "b": 2, "n": 1}, None),
        (
            'not to_number(input.x) == 1 with input.x as "one"',
            {},
            ["to_number(input.x): undefined (to_number: strconv", 'input.x: "one"'],
        ),
    ],
)
def test_a_failed_not_shows_what_was_asked_before_it(
    condition: str, given: Any, want: list[str] | None
) -> None:
    engine = Engine({"a.rego": f"package a\n\np if {condition}\n"}, DATA)
    first, _, values = explain(engine, "data.a.p", given).text().partition("` does not hold")
    assert first.endswith(f"a.rego:3: `{condition}")
    assert "local" not in values
    want = want or ["[input.a, input.b][input.n]: 2", "input.a: 1", "input.b: 2", "input.n: 1"]
    lines = [line.strip() for line in values.strip().splitlines()]
    assert all(line.startswith(start) for line, start in zip(lines, want, strict=True))


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


def test_a_value_with_an_unknown_part_is_not_shown() -> None:
    rules = 'package a\n\np if count({"k": [y | y := input.x]}) > count(input.xs)\n'
    shown = explain(Engine({"a.rego": rules}), "data.a.p", {"xs": [1, 2]}).text()
    assert "input.xs: [1, 2]" in shown
    assert "count(input.xs): 2" in shown
    assert "]}): " not in shown


def test_an_error_is_the_first_thing_said() -> None:
    engine = Engine({"a.rego": "package a\n\np := 1\n\np := input.x\n"})
    shown = explain(engine, "data.a.p", {"x": 2}).text()
    assert shown.startswith("data.a.p cannot be answered: a.rego:5: eval_conflict_error:")


def test_a_query_that_asks_no_rule_says_so() -> None:
    shown = explain(Engine(data={"a": 1}), "data.a").text()
    assert shown == "data.a is 1: no rule was evaluated for it"


def test_the_document_is_json_with_every_definition_and_condition() -> None:
    given = {"user": "ann", "http": {"method": "POST", "path": "/x"}}
    document = explain(
        Engine({"authz.rego": POLICY}, DATA), "data.authz.allow", given
    ).to_document()
    assert json.loads(json.dumps(document)) == document
    first = document["rules"][0]["definitions"][0]
    assert first["holds"] is False
    condition = first["conditions"][-1]
    assert condition["text"] == 'http.method == "GET"'
    assert condition["location"] == {"file": "authz.rego", "row": 8, "col": 5}
    assert (condition["evaluated"], condition["succeeded"]) == (1, 0)
    assert condition["values"] == {"http.method": "POST"}


def test_of_many_definitions_those_that_got_furthest_are_shown() -> None:
    rules = [f"p if {{\n\tinput.a == {n % 2}\n\tinput.b == {n}\n}}" for n in range(20)]
    engine = Engine({"a.rego": "\n\n".join(["package a", *rules])})
    shown = explain(engine, "data.a.p", {"a": 1, "b": -1}).text()
    assert shown.count("`input.b ==") == 8
    assert "`input.a ==" not in shown
    assert shown.endswith("\n  (12 further definitions not shown)")
    assert explain(engine, "data.a.p", {"a": 1, "b": -1}).text(full=True).count("not hold") == 20


def test_notes_are_what_trace_was_given() -> None:
    policy = 'package a\n\np if {\n\tx := input.x\n\ttrace(sprintf("x is %d", [x]))\n\tx > 2\n}\n'
    explanation = explain(Engine({"a.rego": policy}), "data.a.p", {"x": 1})
    assert explanation.notes() == ['a.rego:5: note "x is 1"']


def test_no_more_is_kept_than_the_limit_allows() -> None:
    engine = Engine(
        {"a.rego": "package a\n\np if {\n\tsome x in input\n\tf(x)\n}\n\nf(x) if x < 0\n"}
    )
    traced = engine.policies.traced().bind({}).prepare("data.a.p")
    evaluation = traced.evaluation(list(range(1000)))
    evaluation.tracer = recorder = Recorder(limit=100)
    traced.value_of(evaluation)
    assert not recorder.is_whole
    assert len(recorder.top) == 1


def recorded(policy: str, limit: int, input: Any) -> Recorder:
    traced = Engine({"a.rego": policy}).policies.traced().bind({}).prepare("data.a.p")
    evaluation = traced.evaluation(input)
    evaluation.tracer = recorder = Recorder(limit)
    traced.value_of(evaluation)
    return recorder


def test_a_recording_that_just_fits_is_whole() -> None:
    policy = 'package a\n\np if {\n\tinput.x == 1\n\ttrace("x")\n}\n'
    sizes = {limit: recorded(policy, limit, {"x": 1}) for limit in range(1, 6)}
    # The rule, two expressions and a note.
    assert [limit for limit, each in sizes.items() if each.is_whole] == [4, 5]
    assert [len(each.notes) for each in sizes.values()] == [0, 0, 0, 1, 1]


def test_no_more_definitions_are_kept_than_the_limit_allows() -> None:
    definitions = "\n\n".join(f"f(x) if x < -{n}" for n in range(50))
    policy = f"package a\n\np if {{\n\tsome x in input\n\tf(x)\n}}\n\n{definitions}\n"
    recorder = recorded(policy, 200, list(range(1000)))
    assert not recorder.is_whole
    (tried,) = recorder.top[0].tried.values()
    attempts = [each for step in tried.steps.values() for each in step.attempts]
    kept = sum(len(each.tried) for each in attempts)
    assert 100 < kept <= 200
    assert recorded(policy, 200, [1, 2]).is_whole


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


@pytest.mark.parametrize(
    ("rules", "input", "shown"),
    [
        pytest.param(
            "p if not r\n\np if not r\n\nr := true",
            {},
            "data.a.p is undefined\n"
            "  a.rego:3: `not r` does not hold\n"
            "    r: true\n"
            "    data.a.r is true\n"
            "      a.rego:7: `r := true` holds\n"
            "  a.rego:5: `not r` does not hold\n"
            "    r: true\n"
            "    data.a.r is true: see above",
            id="what was shown is not shown again",
        ),
        pytest.param(
            "p if q == 1\n\nq := input.x",
            {},
            "data.a.p is undefined\n"
            "  a.rego:3: `q == 1` does not hold\n"
            "    data.a.q is undefined\n"
            "      a.rego:5: `q := input.x` has no value",
            id="a head without a value",
        ),
        pytest.param(
            "f(1) := 2\n\np if f(input.x)",
            {"x": 3},
            "data.a.p is undefined\n"
            "  a.rego:5: `f(input.x)` does not hold\n"
            "    input.x: 3\n"
            "    data.a.f(3) is undefined\n"
            "      a.rego:3: `f(1) := 2` does not match the operands",
            id="a function for other operands",
        ),
        pytest.param(
            "p := input.y if input.x",
            {"x": 3},
            "data.a.p is undefined\n"
            "  a.rego:3: `input.x` holds, but the value of the rule is undefined\n"
            "    input.x: 3",
            id="conditions that hold for nothing",
        ),
        pytest.param(
            "p if every t in input.tags {\n\tt > 1\n}",
            {},
            "data.a.p is undefined\n"
            "  a.rego:3: `every t in input.tags { t > 1 }` does not hold\n"
            "    input.tags: undefined",
            id="every of nothing",
        ),
        pytest.param(
            "p if every t in input.tags {\n\tt > 0\n\tt < 2\n}",
            {"tags": [1, 2]},
            "data.a.p is undefined\n"
            "  a.rego:3: `every t in input.tags { t > 0 t < 2 }` does not hold\n"
            "    input.tags: [1, 2]\n"
            "    a.rego:5: `t < 2` does not hold\n"
            "      t: 2",
            id="every of which one condition fails",
        ),
        pytest.param(
            'p := q\n\nq := {"allowed": false}',
            {},
            'data.a.p is {"allowed": false}\n'
            "  a.rego:3: `p := q` holds\n"
            '    data.a.q is {"allowed": false}\n'
            '      a.rego:5: `q := {"allowed": false}` holds',
            id="an object that refuses is followed",
        ),
        pytest.param(
            'p := q\n\nq := {"allowed": true}',
            {},
            'data.a.p is {"allowed": true}\n  a.rego:3: `p := q` holds',
            id="an object that allows is not",
        ),
        pytest.param(
            "p if false",
            {},
            "data.a.p is undefined\n  a.rego:3: `false` does not hold",
            id="a constant",
        ),
        pytest.param(
            "p if input.x == 1 with input as input.nope",
            {"x": 2},
            "data.a.p is undefined\n"
            "  a.rego:3: `input.x == 1 with input as input.nope` does not hold\n"
            "    input.x: 2",
            id="replaced by what is undefined",
        ),
        pytest.param(
            "p if count(input) == 2 with count as 3",
            [1],
            "data.a.p is undefined\n"
            "  a.rego:3: `count(input) == 2 with count as 3` does not hold\n"
            "    input: [1]",
            id="a function that is replaced is not called",
        ),
        pytest.param(
            "p if count([x | some x in input]) == 2",
            [1],
            "data.a.p is undefined\n  a.rego:3: `count([x | some x in input]) == 2` does not hold",
            id="a comprehension is not computed again",
        ),
        pytest.param(
            "p if input.x == q.b.c\n\nq := input.y",
            {},
            "data.a.p is undefined\n"
            "  a.rego:3: `input.x == q.b.c` does not hold\n"
            "    input.x: undefined",
            id="what was not asked is not known",
        ),
        pytest.param(
            "p if upper(lower(input.x)) == input.y",
            {"x": 1},
            "data.a.p is undefined\n"
            "  a.rego:3: `upper(lower(input.x)) == input.y` does not hold\n"
            "    lower(input.x): undefined (lower: operand 1 must be string but got number)\n"
            "    input.x: 1\n"
            "    input.y: undefined",
            id="a call inside a call",
        ),
        pytest.param(
            'p if object.get(input, "a", {}) == [object.get(input, "b", [])]',
            {},
            "data.a.p is undefined\n"
            '  a.rego:3: `object.get(input, "a", {}) == [object.get(input, "b", [])]` '
            "does not hold\n"
            '    object.get(input, "a", {}): {}\n'
            "    input: {}\n"
            '    object.get(input, "b", []): []',
            id="an empty object is not an array",
        ),
        pytest.param(
            "p if input.x with input[0] as 1",
            {},
            "data.a.p cannot be answered: a.rego:3: eval_conflict_error: bad document path\n"
            "data.a.p is undefined\n"
            "  a.rego:3: `input.x with input[0] as 1` does not hold\n"
            "    input.x: undefined",
            id="a replacement that fails",
        ),
    ],
)
def test_the_tree(rules: str, input: Any, shown: str) -> None:
    assert explain(Engine({"a.rego": f"package a\n\n{rules}\n"}), "data.a.p", input).text() == shown


def test_of_long_expressions_the_first_twelve_values_are_shown() -> None:
    policy = f"package a\n\np if [{', '.join(f'input.v{n}' for n in range(15))}] == []\n"
    shown = explain(Engine({"a.rego": policy}), "data.a.p", {}).text().splitlines()
    assert shown[2:] == [f"    input.v{n}: undefined" for n in range(12)]


def test_rules_below_the_twelfth_are_not_shown() -> None:
    rules = [f"q{n} if q{n + 1}" for n in range(30)]
    engine = Engine({"a.rego": "\n\n".join(["package a", *rules, "q30 if input.x"])})
    shown = explain(engine, "data.a.q0", {})
    assert [line.strip() for line in shown.text().splitlines()[-2:]] == [
        "data.a.q12 is undefined",
        "(nested too deep: its definitions are not shown)",
    ]
    assert shown.to_document()["complete"] is False
    actual = shown.to_document()["rules"][0]
    while "definitions" in actual:
        actual = actual["definitions"][0]["conditions"][0]["rules"][0]
    assert actual == {"rule": "data.a.q24"}


def test_what_stands_in_the_query_itself_is_no_rule() -> None:
    engine = Engine({"a.rego": "package a\n\np := 1\n"}, traced=True)
    assert explain(engine, "[x | x := data.a.p; x > 0]").text() == (
        "data.a.p is 1\n  a.rego:3: `p := 1` holds"
    )


def test_an_explanation_that_is_not_whole_says_so() -> None:
    traced = Engine({"a.rego": "package a\n\np if input.x == 1\n"}, traced=True).prepare("data.a.p")
    evaluation = traced.evaluation({"x": 2})
    evaluation.tracer = recorder = Recorder(limit=1)
    answer = traced.value_of(evaluation)
    shown = Explanation("data.a.p", recorder, REGISTRY, Mask(), answer, None)
    assert shown.text().endswith(
        "\n(later evaluations are left out: the limit of the recording was reached)"
    )
    assert shown.to_document()["complete"] is False


def test_the_document_has_errors_operands_and_what_heads_asked() -> None:
    policy = "package a\n\np := 1\n\np := f(q)\n\nf(x) := x + 1\n\nq := 3\n"
    document = explain(Engine({"a.rego": policy}), "data.a.p").to_document()
    assert "answer" not in document
    assert document["error"].startswith("a.rego:5: eval_conflict_error: complete rules")
    question = document["rules"][0]["definitions"][1]["rules"]
    assert [(rule["rule"], rule.get("operands"), rule["answer"]) for rule in question] == [
        ("data.a.q", None, 3),
        ("data.a.f", [3], 4),
    ]


def test_the_document_says_what_builtins_refuse() -> None:
    engine = Engine({"a.rego": "package a\n\np if to_number(input.x) > 1\n"})
    document = explain(engine, "data.a.p", {"x": "a"}).to_document()
    condition = document["rules"][0]["definitions"][0]["conditions"][0]
    assert condition["values"] == {
        "to_number(input.x)": {
            "error": 'to_number: strconv.ParseFloat: parsing "a": invalid syntax'
        },
        "input.x": "a",
    }


def test_keys_written_in_a_policy_are_not_shown_in_the_name_of_a_value() -> None:
    policy = 'package a\n\np if crypto.hmac.md5(input.x, "hunter2") == input.y\n'
    explanation = explain(Engine({"a.rego": policy}), "data.a.p", {"x": "a", "y": "b"})
    assert 'crypto.hmac.md5(input.x, "[masked]"): "c07cbe8' in explanation.text()
    assert "hunter2" not in explanation.text(full=True)
    assert "hunter2" not in json.dumps(explanation.to_document())


@pytest.mark.parametrize(
    ("written", "displayed"),
    [
        (
            '{"user": "ann", "password": "hunter2", "token": input.t, 1: "x", "pin": 7}',
            '{"user": "ann", "password": "[masked]", "token": input.t, 1: "x", "pin": 7}',
        ),
        ('{"password": 4711, "n": 1.5}', '{"password": "[masked]", "n": 1.5}'),
        ('{"password": true, "token": null}', '{"password": true, "token": null}'),
        (
            '{"password": ["hunter2", input.t, 7], "n": ["x"]}',
            '{"password": ["[masked]", input.t, "[masked]"], "n": ["x"]}',
        ),
        ('{"tokens": {"hunter2", [1]}}', '{"tokens": {"[masked]", ["[masked]"]}}'),
        (
            '{"secrets": {"a": "hunter2"}, "b": "c"}',
            '{"secrets": {"[masked]": "[masked]"}, "b": "c"}',
        ),
        (
            '{"secrets": [{"password": "x"}, {}]}',
            '{"secrets": [{"[masked]": "[masked]"}, {}]}',
        ),
        (
            '{"secrets": {"password": "x"}, "token": "z"}',
            '{"secrets": {"[masked]": "[masked]"}, "token": "[masked]"}',
        ),
        (
            '{"token": {"payload": {"role": "guest", "password": "x"}}}',
            '{"token": {"payload": {"role": "guest", "password": "[masked]"}}}',
        ),
    ],
)
def test_only_credentials_written_in_a_policy_are_masked(written: str, displayed: str) -> None:
    policy = f"package a\n\np if {written} == input.y\n"
    explanation = explain(Engine({"a.rego": policy}), "data.a.p", {"t": "a", "y": 1})
    assert f"`{displayed} == input.y`" in explanation.text(full=True)
    assert "hunter2" not in json.dumps(explanation.to_document())


def test_a_value_without_a_name_is_masked_by_its_looks_alone() -> None:
    assert Mask().value("plain") == "plain"
    assert Mask().value("plain", "input.password") == "[masked]"


@pytest.mark.parametrize(
    ("label", "is_masked"),
    [
        ('input.headers["x-api-key"]', True),
        ("data.keys.key", True),
        ("data.secrets.db[0]", True),
        ("input.key.name", False),
        ("input.user", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("value", ["plain", 4711, ["plain", 1.5]])
def test_a_value_is_masked_by_the_end_of_its_name(label: str, value: Any, is_masked: bool) -> None:
    masked = ["[masked]"] * 2 if isinstance(value, list) else "[masked]"
    assert Mask().value(value, label) == (masked if is_masked else value)


@pytest.mark.parametrize(
    ("document", "masked"),
    [
        (
            {"env": [{"name": "DB_PASSWORD", "value": "hush-hush"}, {"name": "A", "value": "b"}]},
            {"env": [{"name": "DB_PASSWORD", "value": "[masked]"}, {"name": "A", "value": "b"}]},
        ),
        (
            {"headers": [{"key": "Cookie", "rawValue": "hush-hush"}, {"Name": "pwd", "Value": 7}]},
            {
                "headers": [
                    {"key": "[masked]", "rawValue": "[masked]"},
                    {"Name": "pwd", "Value": "[masked]"},
                ]
            },
        ),
        (
            {"jwk": {"kty": "oct", "k": "hush-hush", "kid": "one"}, "k": "public"},
            {"jwk": {"kty": "oct", "k": "[masked]", "kid": "one"}, "k": "public"},
        ),
        ({"value": "x", "name": 7}, {"value": "x", "name": 7}),
    ],
)
def test_a_value_is_secret_by_the_name_beside_it(document: Any, masked: Any) -> None:
    assert Mask().value(document) == masked
    is_known = "hush-hush" in str(document)
    assert Mask(document).text("hush-hush") == ("[masked]" if is_known else "hush-hush")


def test_names_that_are_not_texts_name_no_credential() -> None:
    mask = Mask({1: "plain-text", "password": "hush-hush", 2: {"token": "quiet-one"}})
    assert mask.text("plain-text hush-hush quiet-one") == "plain-text [masked] [masked]"
    assert mask.value({1: "plain-text", 2: "hush-hush"}) == {1: "plain-text", 2: "[masked]"}


def test_members_of_sets_are_secrets_as_well() -> None:
    assert Mask({"secrets": frozenset({"hush-hush"})}).text("say hush-hush") == "say [masked]"
    assert Mask({"names": frozenset({"hush-hush"})}).text("say hush-hush") == "say hush-hush"


DOUBLED = "package p\n\nd0 := [1, 1]\n" + "".join(
    [f"d{n} := [{', '.join([f'd{n - 1}'] * 8)}]\n" for n in range(1, 20)]
)


def test_values_that_share_their_parts_are_shown_in_time_or_not_at_all() -> None:
    explanation = explain(Engine(modules={"p.rego": DOUBLED}), "data.p.d19", deadline=0.05)
    assert explanation.text() == "data.p.d19: the values take too long to be shown\n"
    assert explanation.to_document() == {
        "query": "data.p.d19",
        "error": "the values take too long to be shown",
        "rules": [],
        "complete": False,
    }


POLICY_WITH_SECRETS = """package a

passwords contains "hunter1"

users contains {"name": "ann", "password": "hunter2"}

settings := {"password": "hunter3", "size": 1}

default password := "hunter4"

password := "hunter20" if {
	input.none
} else := "hunter21" if {
	input.none
} else := {"pwd": "hunter22"} if input.x

by[{"password": "hunter5"}] := 1

api_key := concat("", ["hunter6", upper("hunter7")])

secrets := {"a": {"hunter8": ["hunter9", null]}}

tokens := [x | some x in ["a"]; x == "b"] if input.none

cookie := $"hunter10{input.x}" if input.x

api_keys := {"hunter11" | input.x}

cfg["session_id"] := ["hunter12"]

open(name, api_keys) if api_keys == name

open(_, _) := false if input.none

check if {
	some x in passwords
	some "hunter13" in passwords
	"hunter14" in passwords
}

p if {
	passwords
	users
	settings
	password
	by
	api_key
	secrets
	cookie
	api_keys
	cfg
	not open("ann", "hunter15x")
	not tokens
	not check
	input.password != 12345
	input.password in {"hunter16"}
}

p if input.x.tokens[_] == "hunter17"

p if { input.password == "hunter18" with input.password as "hunter19" }
"""


def test_secrets_of_the_policy_are_shown_nowhere() -> None:
    engine = Engine({"a.rego": POLICY_WITH_SECRETS})
    explanation = explain(engine, "data.a.p", {"x": {"tokens": ["t"]}, "password": "given"})
    texts = [explanation.text(full=True), json.dumps(explanation.to_document())]
    texts += map(repr, trail_of(explanation.recorder))
    assert 'check("hunter15' not in texts[0]
    assert texts[0].count("[masked]") > 20
    for text in texts:
        # The call itself has no name for its operand.
        left = text.replace('open("ann", "hunter15x")`', "")
        assert "hunter" not in left.replace('open(\\"ann\\", \\"hunter15x\\")', "")
        assert "12345" not in text
        assert "given" not in text


def test_texts_that_are_not_under_the_name_of_a_secret_are_shown() -> None:
    policy = """package a

p if {
	input.password != ""
	token := trim_prefix(input.authorization, "Bearer ")
	startswith(token, "plain")
	input.pair == {"key": "open", "b": 1}
}

p if { {"password": input.x, "ok": true, 1: 2} == input.y }
"""
    shown = explain(Engine({"a.rego": policy}), "data.a.p", {"password": "x"}).text(full=True)
    assert 'input.password != ""' in shown
    assert '{"key": "[masked]", "b": 1}' not in shown
    assert '{"password": input.x, "ok": true, 1: 2} == input.y' in shown


def test_a_mask_hides_members_of_sets_and_composite_keys() -> None:
    mask = Mask({"x": {to_key({"password": "topsecret"}): 1}})
    members = frozenset({to_key({"password": "a"}), "b", to_key(1.5)})
    hidden = frozenset({to_key({"password": "[masked]"}), "b", to_key(1.5)})
    assert mask.value(members, "data.p.users") == hidden
    assert mask.value(frozenset({"a", "b"}), "data.p.passwords") == {"[masked]"}
    assert mask.value({to_key({"password": "a"}): 1}) == {to_key({"password": "[masked]"}): 1}
    assert mask.text("topsecret") == "[masked]"
