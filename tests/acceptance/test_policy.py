"""The policies of the example, without anything in front of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acceptance.tokens import make_tokens
from doorward.rego import Engine

EXAMPLE = Path(__file__).parents[2] / "examples" / "people"
SECRET = "a secret of this test"
TOKENS = make_tokens(SECRET)


def _engine(*names: str, secret: Any = SECRET) -> Engine:
    modules = {name: (EXAMPLE / name).read_text() for name in names}
    return Engine(modules=modules, data={} if secret is None else {"secrets": {"jwt": secret}})


def _ask(
    engine: Engine,
    method: str,
    path: str,
    token: str = "admin",
    *,
    first: Any = None,
    truncated: bool = False,
) -> object:
    headers = {"authorization": "Bearer " + TOKENS[token]}
    return engine.prepare("data.envoy.authz.allow").value(
        {
            "attributes": {
                "request": {"http": {"method": method, "path": path, "headers": headers}}
            },
            "parsed_body": None if first is None else {"firstname": first, "lastname": "x"},
            "truncated_body": truncated,
        }
    )


def test_the_policy_allows_what_the_rules_say() -> None:
    engine = _engine("policy.rego")
    assert _ask(engine, "GET", "/people/1", "guest") is True
    assert _ask(engine, "POST", "/people", first="Charlie") is True
    assert _ask(engine, "POST", "/people", first="BOB") is False
    assert _ask(engine, "POST", "/people", "guest", first="Charlie") is False
    assert _ask(engine, "DELETE", "/people/1") is False


def test_a_truncated_body_is_denied_whatever_the_method() -> None:
    engine = _engine("policy.rego")
    assert _ask(engine, "GET", "/people", truncated=True) is False
    assert _ask(engine, "POST", "/people", first="Charlie", truncated=True) is False


@pytest.mark.parametrize("secret", [None, ""])
def test_without_a_secret_everything_is_denied(secret: str | None) -> None:
    engine = _engine("policy.rego", secret=secret)
    for token in ("admin", "empty_secret"):
        assert _ask(engine, "GET", "/people", token) is False


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/people/1", True),
        ("/people?id=1", True),
        ("/people", False),
        ("/people/", False),
        ("/people?id=", False),
        ("/people?id=1&id=2", False),
        ("/people/1/2", False),
        ("/people/1?x", False),
        ("/people/01", False),
        ("/people/x", False),
    ],
)
def test_with_the_second_policy_admins_delete_one_person(path: str, allowed: bool) -> None:
    engine = _engine("policy.rego", "policy_delete.rego")
    assert _ask(engine, "DELETE", path) is allowed
    assert _ask(engine, "DELETE", path, "guest") is False
    assert _ask(engine, "DELETE", path, truncated=True) is False
    assert _ask(engine, "POST", "/people", first="Charlie") is True
