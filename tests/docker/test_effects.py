"""The effects of requests on a real daemon, for as many as there is time for in every run.

For longer: `python -m tests.docker.effects --minutes 10`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.effects.check import Check, schema_fields
from tests.docker.effects.schema import DESCRIPTION

from doorward.docker.errors import RequestError
from doorward.docker.inputs import to_input
from doorward.docker.requests import AuthzRequest
from doorward.rego.values import to_json

STEPS = 60

pytestmark = pytest.mark.skipif(
    not DESCRIPTION.is_file(), reason="golang-github-docker-docker-dev is not installed"
)


def test_nothing_that_reaches_the_host_is_allowed(
    daemon: PrivateDaemon, unique: str, tmp_path: Path
) -> None:
    check = Check(daemon, f"{unique}e", tmp_path)
    try:
        for _ in range(STEPS):
            check.step()
    finally:
        check.close()
    assert not check.violations, check.violations
    assert sum(check.effective.values()) > 3, check.table()


FIELDS = [(route, path) for route, paths in schema_fields().items() for path in paths]


def nested(path: tuple[str, ...]) -> Any:
    """A body that has only this field, with a value that fits no type."""
    body: Any = {"unlikely": [1.5]}
    for name in reversed(path):
        body = {name: body}
    return body


@pytest.mark.parametrize(("route", "path"), FIELDS, ids=[".".join(p) + r for r, p in FIELDS])
def test_every_field_of_the_schema_is_read_or_said_to_be_unknown(
    route: str, path: tuple[str, ...]
) -> None:
    """A field that the input knows refuses such a value; another one is named in the input."""
    uri = "/v1.41" + route.replace("{id}", "c")
    body = to_json(nested(path)).encode()
    headers = {"Content-Type": "application/json"}
    try:
        view = to_input(AuthzRequest("POST", uri, headers=headers, body=body))
    except RequestError:
        return
    known = path[-1] in to_json(view["body"])
    assert view["unknown_fields"] or known
