"""AuthZEN's Authorization API: decisions, batches, metadata, errors, and the working group's todo
scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import ConfigError, parse_config
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import Settings, build
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

ONE, MANY = "/access/v1/evaluation", "/access/v1/evaluations"
POLICY = """package authzen

allow := {"decision": input.subject.id == "ann", "context": {"seen": input}}
    if input.action.name == "explain"

allow if { input.action.name == "read"; input.subject.id == "ann" }

allow := "yes" if input.action.name == "text"

allow := {"decision": 1} if input.action.name == "number"

allow := {"decision": true, "context": 1} if input.action.name == "scalar"

allow if { input.action.name == "fail"; 1 < 2 }
allow := false if input.action.name == "fail"

allow if {
    input.action.name == "slow"
    some i in numbers.range(1, 100000)
    some j in numbers.range(1, 1000)
    i + j < 0
}
"""


class Sink:
    """A decision log that keeps what it gets."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, Any]] = []

    def record(self, answered: Answered) -> None:
        self.events.append((answered.decision, answered.input))

    def close(self) -> None:
        pass


def api(
    text: str = "",
    sink: Sink | None = None,
    loaded: Loaded | None = None,
    settings: Settings | None = None,
) -> Api:
    pdp = PDP(build(loaded or Loaded({"a.rego": POLICY}), settings), sink)
    return Api(pdp, parse_config(text, environment={}), Health(), Metrics("1"))


def post(app: Api, target: str, body: Any, **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(app, "POST", target, content, {"content-type": "application/json", **headers})


def asking(action: str = "read", subject: str = "ann", **more: Any) -> dict[str, Any]:
    return {
        "subject": {"type": "user", "id": subject},
        "action": {"name": action},
        "resource": {"type": "doc", "id": "1"},
        **more,
    }


def test_a_decision_is_200_whatever_it_is() -> None:
    for subject, decision in (("ann", True), ("bob", False)):
        answer = post(api(), ONE, asking(subject=subject))
        assert (answer.status, json.loads(answer.body)) == (200, {"decision": decision})


def test_the_policy_may_explain_itself() -> None:
    answer = json.loads(post(api(), ONE, asking("explain", context={"ip": "::1"}, more=1)).body)
    assert answer["decision"] is True
    assert answer["context"]["seen"] == asking("explain", context={"ip": "::1"})


@pytest.mark.parametrize("action", ["text", "number", "scalar", "fail"])
def test_a_policy_that_does_not_decide_is_an_error_and_no_permit(action: str) -> None:
    sink = Sink()
    answer = post(api(sink=sink), ONE, asking(action))
    assert (answer.status, json.loads(answer.body)) == (500, "the evaluation of the policy failed")
    assert sink.events[0][0].error is not None


def without(name: str, field: str = "") -> dict[str, Any]:
    body = asking()
    if field:
        del body[name][field]
    else:
        del body[name]
    return body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (without("subject"), "`subject` is missing"),
        (without("action"), "`action` is missing"),
        (without("resource"), "`resource` is missing"),
        (without("subject", "id"), "`subject.id` is missing"),
        (without("action", "name"), "`action.name` is missing"),
        (without("resource", "type"), "`resource.type` is missing"),
        (asking() | {"subject": "ann"}, "`subject` must be an object"),
        (asking() | {"action": {"name": 1}}, "`action.name` must be a string"),
        (asking(context=[]), "`context` must be an object"),
        (
            asking() | {"subject": {"type": "user", "id": "ann", "properties": 1}},
            "`subject.properties` must be an object",
        ),
        (b"", "body contains malformed input document"),
        (b"{", "body contains malformed input document: unexpected EOF"),
        (b"[]", "the body must be a JSON object"),
    ],
)
@pytest.mark.parametrize("target", [ONE, MANY])
def test_what_is_not_well_formed_is_400(target: str, body: Any, message: str) -> None:
    answer = post(api(), target, body)
    assert answer.status == 400
    if body != b"":
        assert json.loads(answer.body).startswith(message)


def test_another_kind_of_body_is_400() -> None:
    for kind in ("text/plain", "", "application/x-yaml"):
        answer = post(api(), ONE, asking(), **{"content-type": kind})
        assert answer.status == 400
    assert (
        post(api(), ONE, asking(), **{"content-type": "application/json; charset=utf-8"}).status
        == 200
    )
    assert ask(api(), "GET", ONE).status == 405


def test_the_id_of_a_request_comes_back_with_errors_too() -> None:
    for body in (asking(), b"{"):
        answer = post(api(), ONE, body, **{"x-request-id": "id-7"})
        assert answer.headers["x-request-id"] == "id-7"
    assert "x-request-id" not in post(api(), ONE, asking()).headers


def decisions(answer: Answer) -> list[bool]:
    assert answer.status == 200
    return [each["decision"] for each in json.loads(answer.body)["evaluations"]]


@pytest.mark.parametrize(
    ("semantic", "expected"),
    [
        (None, [True, False, True]),
        ("execute_all", [True, False, True]),
        ("deny_on_first_deny", [True, False]),
        ("permit_on_first_permit", [True]),
    ],
)
def test_a_batch_ends_where_its_semantic_says(semantic: str | None, expected: list[bool]) -> None:
    items = [{"subject": {"type": "user", "id": name}} for name in ("ann", "bob", "ann")]
    options = {} if semantic is None else {"options": {"evaluations_semantic": semantic}}
    answer = post(api(), MANY, {**without("subject"), "evaluations": items, **options})
    assert decisions(answer) == expected


def test_an_item_replaces_whole_members_of_the_default() -> None:
    default = asking("explain", context={"a": 1, "b": 2})
    answer = post(api(), MANY, {**default, "evaluations": [{}, {"context": {"a": 3}}]})
    contexts = [e["context"]["seen"]["context"] for e in json.loads(answer.body)["evaluations"]]
    assert contexts == [{"a": 1, "b": 2}, {"a": 3}]


def test_what_is_wrong_with_an_item_is_its_denial() -> None:
    items = [{"resource": {"type": "doc"}}, 7, {"action": {"name": "fail"}}, {}]
    answer = post(api(), MANY, {**asking(), "evaluations": items})
    assert decisions(answer) == [False, False, False, True]
    errors = [each.get("context") for each in json.loads(answer.body)["evaluations"]]
    assert [error and error["error"]["status"] for error in errors] == [400, 400, 500, None]


def test_an_empty_default_is_no_error_where_each_item_has_its_own() -> None:
    item = {"resource": {"type": "doc", "id": "1"}}
    answer = post(api(), MANY, {**asking(), "resource": {}, "evaluations": [item]})
    assert decisions(answer) == [True]


def test_without_items_it_is_a_single_evaluation() -> None:
    cases: list[dict[str, Any]] = [{}, {"evaluations": []}]
    for more in cases:
        answer = post(api(), MANY, {**asking(), **more})
        assert json.loads(answer.body) == {"decision": True}


@pytest.mark.parametrize(
    "more",
    [
        {"evaluations": {}},
        {"evaluations": [{}], "options": []},
        {"evaluations": [{}], "options": {"evaluations_semantic": "all"}},
        {"evaluations": [{}], "options": {"evaluations_semantic": ["execute_all"]}},
        {"evaluations": [{}], "subject": "ann"},
    ],
)
def test_what_is_wrong_with_a_batch_is_400(more: dict[str, Any]) -> None:
    assert post(api(), MANY, {**asking(), **more}).status == 400


def test_a_batch_has_the_time_of_a_dozen_decisions() -> None:
    app = api(settings=Settings(deadline=0.02))
    items: list[dict[str, Any]] = [{} for _ in range(40)]
    answer = json.loads(post(app, MANY, {**asking("slow"), "evaluations": items}).body)
    statuses = [each["context"]["error"]["status"] for each in answer["evaluations"]]
    assert len(statuses) == 40
    assert 20 < statuses.count(503) < 40


def test_every_evaluation_is_logged_with_its_input() -> None:
    sink = Sink()
    post(api(sink=sink), MANY, {**asking(), "evaluations": [{}, {}]})
    assert len({decision.batch_decision_id for decision, _ in sink.events}) == 1
    assert [input for _, input in sink.events] == [asking(), asking()]
    assert {decision.path for decision, _ in sink.events} == {"authzen/allow"}


def test_the_decision_and_the_input_are_chosen() -> None:
    policy = "package p\n\nok := {`decision`: true, `context`: input}\n"
    text = "authzen:\n  decision: /p/ok\n  mapping: {subject: request.who, action: verb}\n"
    answer = post(api(text, loaded=Loaded({"p.rego": policy})), ONE, asking())
    body = asking()
    assert json.loads(answer.body)["context"] == {
        "request": {"who": body["subject"]},
        "verb": body["action"],
        "resource": body["resource"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "mapping: {subject: action}",
        "mapping: {subject: a, action: a.b}",
        "mapping: {subject: ''}",
        "policy_decision_point: http://pdp.example",
        "policy_decision_point: https://pdp.example?x",
        "policy_decision_point: https://ann:pw@pdp.example",
        "policy_decision_point: https://:pw@pdp.example",
        "policy_decision_point: https://",
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="authzen"):
        parse_config(f"authzen:\n  {text}\n", environment={})


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("https://pdp.example", "/.well-known/authzen-configuration"),
        ("https://pdp.example/t1", "/.well-known/authzen-configuration/t1"),
    ],
)
def test_metadata_are_those_of_the_configuration(base: str, target: str) -> None:
    app = api(f"authzen: {{policy_decision_point: {base}}}")
    answer = ask(app, "GET", target)
    assert answer.status == 200
    assert json.loads(answer.body) == {
        "policy_decision_point": base,
        "access_evaluation_endpoint": base + ONE,
        "access_evaluations_endpoint": base + MANY,
    }
    assert ask(app, "GET", target + "/other").status == 404
    assert ask(api(), "GET", target).status == 404


def test_where_other_documents_are_served_this_is_not() -> None:
    app = api("server: {decision_paths: [other]}")
    assert post(app, ONE, asking()).status == 403


# The todo scenario: five users, five actions; and the batches over an owner's and another's.

USERS = {
    "rick": ("rick@the-citadel.com", ["admin", "evil_genius"]),
    "morty": ("morty@the-citadel.com", ["editor"]),
    "summer": ("summer@the-smiths.com", ["editor"]),
    "beth": ("beth@the-smiths.com", ["viewer"]),
    "jerry": ("jerry@the-smiths.com", ["viewer"]),
}
TODO = Loaded(
    {"todo.rego": Path(__file__).with_name("authzen_todo.rego").read_text()},
    {
        "users": {
            name: {"id": email, "roles": list(roles)} for name, (email, roles) in USERS.items()
        }
    },
)
OWNED = {
    "rick": (True, True),
    "morty": (True, False),
    "summer": (True, False),
    "beth": (False, False),
    "jerry": (False, False),
}
"""Whether a user may change a todo of their own, and one of somebody else."""


def todo(user: str, action: str, owner: str = "") -> dict[str, Any]:
    resource = {"type": "todo", "id": "7240d0db-8ff0-41ec-98b2-34a096273b9f"}
    owned = {"properties": {"ownerID": USERS[owner][0]}} if owner else {}
    return {
        "subject": {"type": "user", "id": user},
        "action": {"name": action},
        "resource": {**resource, **owned},
    }


@pytest.mark.parametrize("user", USERS)
def test_the_todo_scenario_is_decided_as_the_working_group_says(user: str) -> None:
    app = api(loaded=TODO)
    other = "jerry" if user != "jerry" else "rick"
    own, others = OWNED[user]
    wanted = [
        (todo(user, "can_read_user"), True),
        (todo(user, "can_read_todos"), True),
        (todo(user, "can_create_todo"), user in ("rick", "morty", "summer")),
        *[(todo(user, f"can_{verb}_todo", user), own) for verb in ("update", "delete")],
        *[(todo(user, f"can_{verb}_todo", other), others) for verb in ("update", "delete")],
    ]
    for body, decision in wanted:
        assert json.loads(post(app, ONE, body).body) == {"decision": decision}, body


@pytest.mark.parametrize(
    ("user", "other", "expected"),
    [
        ("rick", "jerry", [True, True]),
        ("morty", "morty", [False, True]),
        ("jerry", "jerry", [False, False]),
    ],
)
def test_the_batches_of_the_todo_scenario(user: str, other: str, expected: list[bool]) -> None:
    app = api(loaded=TODO)
    items = [{"resource": todo(user, "", owner)["resource"]} for owner in ("rick", other)]
    body = {**todo(user, "can_update_todo"), "resource": {}, "evaluations": items}
    assert decisions(post(app, MANY, body)) == expected
