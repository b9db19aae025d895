"""The OpenAPI document names every endpoint, and what it names is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rest.asgi import ask
from tests.rest.test_writes import api

from doorward import rest
from doorward.rest.openapi import document
from doorward.rest.routes import ROUTES

OPERATIONS = [
    (method.upper(), path)
    for path, operations in document(ROUTES)["paths"].items()
    for method in operations
    if method != "parameters"
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_the_document_names_is_there(method: str, path: str) -> None:
    target = path.replace("{path}", "users").replace("{id}", "a.rego").replace("{name}", "live")
    answer = ask(api(), method, target, b"{}")
    assert answer.status != 405
    assert answer.body != "404 page not found\n"


def test_every_parameter_that_is_read_is_in_the_document() -> None:
    documented = {
        each["name"]
        for operations in document(ROUTES)["paths"].values()
        for operation in operations.values()
        for each in (operation if isinstance(operation, list) else operation["parameters"])
    }
    texts = [path.read_text() for path in Path(rest.__file__).parent.glob("*.py")]
    names = {name for text in texts for name in re.findall(r'\.(?:flag|values)\("([^"]+)"', text)}
    assert names
    assert names <= documented


def test_the_document_is_served() -> None:
    answer = ask(api(), "GET", "/openapi.json")
    assert json.loads(answer.body) == document(ROUTES)


APP = api()
BODIES = st.one_of(
    st.binary(max_size=30),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["input", "inputs", "common_input", "query", "op", "path", "value", "x"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=10,
    ).map(lambda value: json.dumps(value).encode()),
)
NAMES = st.sampled_from(["a", "users", "0", "%22", "%C3%A9", "-", "+1", "allow", "x" * 300])
QUERIES = st.sampled_from(
    ["", "?pretty", "?metrics", "?input=1", "?input=", "?q=x%3D1", "?q=", "?q=%7B", "?provenance"]
)


@pytest.mark.long
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=300)
@given(
    operation=st.sampled_from(OPERATIONS),
    names=st.lists(NAMES, max_size=3),
    query=QUERIES,
    body=BODIES,
    encoding=st.sampled_from([{}, {"content-encoding": "gzip"}, {"content-type": "x-yaml"}]),
)
def test_every_answer_is_one_that_clients_know(
    operation: tuple[str, str], names: list[str], query: str, body: bytes, encoding: dict[str, str]
) -> None:
    """No request is a fault of ours: 500 is for what policies and queries do."""
    method, path = operation
    for name in ("{path}", "{id}", "{name}"):
        path = path.replace(name, "/".join(names) or "x")
    answer = ask(APP, method, path + query, body, encoding)
    if answer.status >= 400 and answer.status != 405:
        error = json.loads(answer.body)
        message = error if isinstance(error, str) else error.get("message", error.get("error"))
        assert message
        assert "internal error" not in message
    assert answer.status < 500 or path.startswith(("/v", "/health", "/access"))
