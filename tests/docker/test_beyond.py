"""The model says which views of a request a policy judges: what it leaves out changes no decision.

Each request is decided twice: by the views that the model names, and by all of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docker.request.test_views import samples
from tests.docker.test_attacks import ATTACKS, SIBLINGS
from tests.docker.test_compose import FILES, services

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.errors import RequestError
from doorward.docker.request.input import to_input
from doorward.docker.request.model.table import STRUCTS, VIEWS

CREATE = "/v1.41/containers/create"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", params=["defaults", "strict"])
def pdp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder: Path = tmp_path_factory.mktemp("beyond") / "docker"
    shutil.copytree(PACK, folder)
    data = json.loads((folder / "data.json").read_text())
    if request.param == "strict":
        data["docker"] = {"limits": {"memory": 64, "pids": 8}}
    data["docker"]["users"] = {"alice": ["developer"], "bob": ["viewer"], "olga": ["operator"]}
    (folder / "data.json").write_text(json.dumps(data))
    decider = EmbeddedPdp([str(folder)], watch=False)
    yield decider
    decider.close()


def check(pdp: EmbeddedPdp, user: str, method: str, uri: str, body: Any) -> None:
    content = None if body is None else json.dumps(body).encode()
    headers = JSON if body is not None else {}
    try:
        view = to_input(AuthzRequest(method, uri, user, "TLS", headers, content))
    except RequestError:
        return
    view["inspects"] = True
    assert VIEWS.issuperset(view["beyond"])
    every = {**view, "beyond": sorted(VIEWS)}
    assert pdp.decide(view).result == pdp.decide(every).result, body


@pytest.mark.long
@pytest.mark.parametrize("name", STRUCTS["ContainerCreate"].fields)
def test_fields_of_a_creation(pdp: EmbeddedPdp, name: str) -> None:
    if name == "HostConfig":
        for field, type_ in STRUCTS[name].fields.items():
            for value in samples(type_):
                check(pdp, "alice", "POST", CREATE, {"HostConfig": {field: value}})
    else:
        for value in samples(STRUCTS["ContainerCreate"].fields[name]):
            check(pdp, "alice", "POST", CREATE, {name: value})


def test_real_projects_and_attacks(pdp: EmbeddedPdp) -> None:
    for each in (each for file in FILES for each in services(file)):
        check(pdp, "alice", "POST", f"{CREATE}?name={each['name']}", each["body"])
    for _, user, method, uri, body in ATTACKS:
        check(pdp, user, method, uri, body)
    for user, method, uri, body in SIBLINGS:
        check(pdp, user, method, uri, body)


@pytest.mark.parametrize("mode", ["default", "bridge", "none", "host", "container:c", "n", "HOST"])
def test_networks(pdp: EmbeddedPdp, mode: str) -> None:
    check(pdp, "alice", "POST", CREATE, {"HostConfig": {"NetworkMode": mode}})
    networks = {"EndpointsConfig": {mode: {"Aliases": ["a"]}}}
    check(pdp, "alice", "POST", CREATE, {"NetworkingConfig": networks})


def test_plain_container_leaves_its_image_to_the_policy() -> None:
    body = {"Image": "a", "Cmd": ["x"], "HostConfig": {"NetworkMode": "bridge", "Memory": 5}}
    view = to_input(AuthzRequest("POST", CREATE, headers=JSON, body=json.dumps(body).encode()))
    assert view["beyond"] == ["image"]


@pytest.mark.parametrize("name", ["MaskedPaths", "ReadonlyPaths"])
def test_paths_that_are_no_longer_protected_are_judged(name: str) -> None:
    body = json.dumps({"HostConfig": {name: []}}).encode()
    view = to_input(AuthzRequest("POST", CREATE, headers=JSON, body=body))
    assert "security" in view["beyond"]


def test_policy_knows_every_view(pdp: EmbeddedPdp) -> None:
    views: Any = pdp._pdp.decide("policy/docker/guards/views").result
    assert set(views) == VIEWS
    view = to_input(AuthzRequest("POST", CREATE, "alice", "TLS", JSON, b"{}"))
    for changes in ({"beyond": ["new"], "new": 1}, {"beyond": None}, {"untyped": None}):
        result: Any = pdp.decide({**view, **changes}).result
        assert result["allow"] is False, changes
    for name in VIEWS - {"body"}:
        result = pdp.decide({**view, "beyond": [name], name: None}).result
        assert f"{name} is missing in the input" in result["messages"]


def test_driver_of_the_volumes_that_an_image_declares_is_judged(pdp: EmbeddedPdp) -> None:
    body = json.dumps({"Image": "a", "HostConfig": {"VolumeDriver": "evil"}}).encode()
    view = to_input(AuthzRequest("POST", CREATE, "alice", "TLS", JSON, body))
    result: Any = pdp.decide(view).result
    assert "volume driver evil may not be used" in result["messages"]
