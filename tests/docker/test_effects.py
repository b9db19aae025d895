"""The effects of requests on a real daemon, for as many as there is time for in every run.

For longer: `python -m tests.docker.effects --minutes 10`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.effects.check import Check
from tests.docker.effects.kinds import KINDS
from tests.docker.effects.schema import (
    DESCRIPTION,
    Field,
    Path_,
    body_field,
    body_routes,
    leaves,
    parameters,
)
from tests.docker.pack import pack_pdp

from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import to_input
from doorward.docker.request.routes import find_route
from doorward.docker.request.schema import LOOSE, Array, Map, Struct, Type

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
    assert check.compared.total() > STEPS / 3, check.table()


def test_check_sends_what_the_daemon_reads_and_the_description_leaves_out() -> None:
    assert {"version", "session", "cgroupparent", "securityopt"} <= set(parameters("/build"))
    assert {"checkpoint-dir", "detachKeys"} == set(parameters("/containers/{id}/start")) - {
        "checkpoint"
    }
    assert {kind.route for kind in KINDS} >= {"/build", "/services/{id}/update", "/plugins/pull"}


ROUTES = body_routes() if DESCRIPTION.is_file() else []
UNLIKELY = {"unlikely": [1.5]}


def item_at(field: Field, path: Path_) -> Any:
    """A body that has only the field at `path`, with a value that fits no type."""
    if not path:
        return UNLIKELY
    [inner] = [each for each in field.fields if each.name == path[0]]
    return {path[0]: _inside(inner, path[1:])}


def _inside(field: Field, rest: Path_) -> Any:
    has_fields = field.item is not None and (field.item.fields or field.item.item is not None)
    if field.item is not None and (rest or has_fields):
        item = _inside(field.item, rest)
        return [item] if field.kind == "array" else {"k": item}
    return item_at(field, rest)


def view_of(method: str, route: str, body: Any) -> dict[str, Any]:
    uri = "/v1.41" + route.replace("{id}", "c")
    headers = {"Content-Type": "application/json"}
    content = json.dumps(body).encode()
    return to_input(AuthzRequest(method.upper(), uri, headers=headers, body=content))


def loose_at(type_: Type, path: Path_) -> bool:
    """Whether the input takes what is at `path`, or around it, as it is."""
    while isinstance(type_, Array | Map):
        type_ = type_.item
    if isinstance(type_, Struct) and path and path[0] in type_.fields:
        return loose_at(type_.fields[path[0]], path[1:])
    return type_ == LOOSE


LOOSE_FIELDS = {"ExposedPorts", "Volumes", "MaxFailureRatio", "PluginSpec", "NetworkAttachmentSpec"}
"""Sets that are written as objects, a number with a fraction, and what no service may have."""


@pytest.mark.parametrize(("method", "route"), ROUTES, ids=[route for _, route in ROUTES])
def test_every_field_of_the_schema_is_read_or_said_to_be_unknown(method: str, route: str) -> None:
    """A field that the input knows refuses such a value; another one is named in the input."""
    field = body_field(route, method)
    schema = find_route(method.upper(), route.replace("{id}", "c"))[0].schema
    for path in leaves(field):
        try:
            view = view_of(method, route, item_at(field, path))
        except RequestError:
            continue
        if not view["unknown_fields"]:
            assert loose_at(schema, path), path
            assert route not in JUDGED or LOOSE_FIELDS & set(path), path


def objects(field: Field, path: Path_ = ()) -> Iterator[Path_]:
    """The path of each object whose fields the description names."""
    inner = field.item if field.kind in ("array", "map") and field.item is not None else field
    if inner.fields:
        yield path
        for each in inner.fields:
            yield from objects(each, (*path, each.name))


JUDGED = [
    "/containers/create",
    "/containers/{id}/update",
    "/containers/{id}/exec",
    "/services/create",
    "/services/{id}/update",
    "/volumes/create",
]


@pytest.mark.parametrize("route", JUDGED)
def test_field_of_a_newer_daemon_is_denied_wherever_it_stands(route: str) -> None:
    field = body_field(route)
    for path in objects(field):
        body = item_at(field, path)
        view = view_of("post", route, body)
        if LOOSE_FIELDS & set(path):
            continue
        assert view["unknown_fields"], path
        result: Any = pack_pdp().decide({**view, "User": "", "identified": False}).result
        assert result["allow"] is False


@pytest.mark.parametrize("route", [kind.route for kind in KINDS])
def test_parameters_of_the_query_are_known(route: str) -> None:
    names = parameters(route)
    uri = f"/v1.41{route.replace('{id}', 'c')}"
    known = find_route("POST", route.replace("{id}", "c"))[0].model.query
    assert set(names) <= set(known)
    body = b"{}" if "build" not in route and "images" not in route else None
    headers = {"Content-Type": "application/json"} if body else {}
    request = AuthzRequest("POST", f"{uri}?superpower=1", headers=headers, body=body)
    if route == "/plugins/pull":
        request = AuthzRequest("POST", f"{uri}?superpower=1", headers=headers, body=b"[]")
    assert to_input(request)["unknown_fields"] == ["query.superpower"]
