"""AuthZEN's searches: what is permitted, page by page, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.rest.asgi import Answer, ask

from doorward.bundles.loader import Loaded
from doorward.config.configuration import parse_config
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build
from doorward.rego import from_python
from doorward.rest.app import Api
from doorward.telemetry.health import Health
from doorward.telemetry.metrics import Metrics

POLICY = """package authzen

# The scenario of the working group: own records, those of the department, managers.
allow if {
    input.action.name == "view"
    record.owner == input.subject.id
}

allow if {
    input.action.name == "view"
    data.people[input.subject.id].department == record.department
}

allow if {
    input.action.name in {"view", "edit"}
    data.people[input.subject.id].role == "manager"
    record.department == "Legal"
}

record := data.records[input.resource.id]

subjects contains {"type": "user", "id": id} if some id, _ in data.people

subjects contains {"type": "robot", "id": "r1"}

resources contains {"type": "record", "id": id, "properties": properties} if {
    some id, properties in data.records
}

actions := ["view", "edit", "delete"]

broken := [1]
"""
DATA: dict[str, Any] = {
    "people": {
        "alice": {"department": "Sales", "role": "manager"},
        "bob": {"department": "Legal", "role": "employee"},
        "carol": {"department": "Legal", "role": "contractor"},
        "erin": {"department": "Finance", "role": "employee"},
    },
    "records": {
        **{f"{n}": {"department": "Legal", "owner": "erin"} for n in range(100, 110)},
        "200": {"department": "Sales", "owner": "bob"},
    },
}
SEARCH = """
authzen:
  policy_decision_point: https://pdp.example
  search: {subject: authzen/subjects, resource: authzen/resources, action: authzen/actions}
"""


def api(text: str = SEARCH) -> Api:
    data: Any = from_python(DATA)
    pdp = PDP(build(Loaded({"a.rego": POLICY}, data)))
    return Api(pdp, parse_config(text), Health(), Metrics("1"))


def search(kind: str, body: Any, app: Api | None = None) -> Answer:
    headers = {"content-type": "application/json"}
    target = f"/access/v1/search/{kind}"
    return ask(app or api(), "POST", target, json.dumps(body).encode(), headers)


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each.get("id", each.get("name")) for each in json.loads(answer.body)["results"]]


VIEW = {"action": {"name": "view"}, "resource": {"type": "record", "id": "105"}}


def test_subjects_are_those_that_an_evaluation_permits() -> None:
    answer = search("subject", {"subject": {"type": "user", "id": "ignored"}, **VIEW})
    assert ids(answer) == ["alice", "bob", "carol", "erin"]
    assert json.loads(answer.body)["results"][0] == {"type": "user", "id": "alice"}
    edit = {**VIEW, "action": {"name": "edit"}}
    assert ids(search("subject", {"subject": {"type": "user"}, **edit})) == ["alice"]


def test_resources_and_actions_are_found() -> None:
    bob = {"type": "user", "id": "bob"}
    request = {"subject": bob, "action": {"name": "view"}, "resource": {"type": "record"}}
    assert ids(search("resource", request)) == [*map(str, range(100, 110)), "200"]
    alice = {"subject": {"type": "user", "id": "alice"}, "resource": VIEW["resource"]}
    assert ids(search("action", alice)) == ["view", "edit"]


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("subject", {"subject": {"type": "ghost"}}),
        ("subject", {"resource": {"type": "record", "id": "nothing"}}),
        ("resource", {"subject": {"type": "user", "id": "nobody"}}),
    ],
)
def test_what_is_unknown_gives_no_results(kind: str, changed: Any) -> None:
    request = {"subject": {"type": "user", "id": "bob"}, **VIEW, **changed}
    assert search(kind, request).body == '{"results":[]}\n'


def test_pages_are_the_whole_in_parts() -> None:
    bob = {"type": "user", "id": "bob"}
    request = {"subject": bob, "action": {"name": "view"}, "resource": {"type": "record"}}
    app, token, seen, pages = api(), "", [], 0
    while True:
        page = {"limit": 4} | ({"token": token} if token else {})
        answer = search("resource", {**request, "page": page}, app)
        document = json.loads(answer.body)
        assert next(iter(document)) == "page"
        assert document["page"]["count"] == len(document["results"]) <= 4
        seen += ids(answer)
        pages += 1
        token = document["page"]["next_token"]
        if not token:
            break
        other = {**request, "subject": {"type": "user", "id": "alice"}, "page": {"token": token}}
        assert search("resource", other, app).status == 400
    assert seen == ids(search("resource", request))
    assert pages == 3


@pytest.mark.parametrize(
    "page", [1, {"limit": -1}, {"limit": "4"}, {"limit": True}, {"token": "x"}, {"token": 1}]
)
def test_a_page_that_is_not_well_formed_is_refused(page: Any) -> None:
    answer = search("subject", {"subject": {"type": "user"}, **VIEW, "page": page})
    assert answer.status == 400
    assert "page" in answer.body


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"subject": {"type": "user"}},
        {"subject": {}, **VIEW},
        {"subject": {"type": "user"}, **VIEW, "resource": {"type": "record"}},
    ],
)
def test_a_request_that_is_not_well_formed_is_refused(body: Any) -> None:
    assert search("subject", body).status == 400


@pytest.mark.parametrize(
    "text", ["", "authzen: {search: {subject: null}}", "authzen: {search: {subject: ''}}"]
)
def test_searches_that_are_not_configured_are_not_there(text: str) -> None:
    assert search("subject", {"subject": {"type": "user"}, **VIEW}, api(text)).status == 404


def test_candidates_that_are_not_entities_are_an_error() -> None:
    app = api("authzen: {search: {subject: authzen/broken}}")
    assert search("subject", {"subject": {"type": "user"}, **VIEW}, app).status == 500


def test_metadata_names_the_searches() -> None:
    answer = ask(api(), "GET", "/.well-known/authzen-configuration")
    shown = json.loads(answer.body)
    for kind in ("subject", "resource", "action"):
        assert shown[f"search_{kind}_endpoint"] == f"https://pdp.example/access/v1/search/{kind}"
