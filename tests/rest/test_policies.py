"""Policies by name. What OPA answers stands in the recorded rows (`test_golden.py`)."""

from __future__ import annotations

import json

from tests.rest.asgi import ask
from tests.rest.test_writes import api


def test_a_policy_is_in_force_when_the_answer_comes() -> None:
    app = api()
    for number in range(3):
        text = f"package b\n\np := {number}\n".encode()
        assert ask(app, "PUT", "/v1/policies/b.rego", text).status == 200
        assert ask(app, "GET", "/v1/data/b/p").body == f'{{"result":{number}}}\n'


def test_text_that_is_not_utf_8_is_an_error_where_it_begins() -> None:
    answer = ask(api(), "PUT", "/v1/policies/b.rego", 'package b\n\np := "é'.encode() + b'\xff"')
    (error,) = json.loads(answer.body)["errors"]
    assert error["message"] == "illegal utf-8 character"
    assert error["location"] == {"file": "b.rego", "row": 3, "col": 9}


def test_other_methods_are_not_allowed() -> None:
    for method, target in (("POST", "/v1/policies"), ("PATCH", "/v1/policies/b.rego")):
        assert ask(api(), method, target).status == 405
