"""Real projects are allowed: the services of docker/awesome-compose, as compose creates them.

A developer creates them, who has the role `builder` where images are built. One set of bodies is
what docker-compose 1.29 sent to a daemon (scripts/record_compose.py); the other has the fields that
newer versions send (scripts/compose_bodies.py).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import to_input

DATA: Final = Path(__file__).parent / "data"
FILES: Final = ("compose.json", "compose_sent.json")


def services(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((DATA / file).read_text(encoding="utf-8"))
    return rows


def refused(file: str, folder: Path, changes: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The services that a developer may not create with this data, and why."""
    shutil.copytree(PACK, folder)
    data = json.loads((folder / "data.json").read_text())
    data["docker"]["users"] = {"dora": ["developer", "builder"]}
    for section, values in changes.items():
        data["docker"][section] |= values
    (folder / "data.json").write_text(json.dumps(data))
    pdp = EmbeddedPdp([str(folder)], watch=False)
    objections: dict[str, list[str]] = {}
    for each in services(file):
        uri = f"/v1.43/containers/create?name={each['name']}"
        body = json.dumps(each["body"]).encode()
        request = AuthzRequest(
            "POST", uri, "dora", "TLS", {"Content-Type": "application/json"}, body
        )
        view = {**to_input(request, resolve=lambda path: path), "inspects": True}
        result: Any = pdp.decide(view).result
        if result["allow"] is not True:
            objections[f"{each['project']}/{each['service']}"] = result["messages"]
            assert result["messages"]
    pdp.close()
    return objections


FOLDER = {"mounts": {"allow": ["/home/dev"]}}
PORTS = {"ports": {"first": 80}}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    ("changes", "allowed"), [({}, 27), (FOLDER, 56), ({**FOLDER, **PORTS}, 74)]
)
def test_services_of_real_projects_are_allowed(
    tmp_path: Path, changes: dict[str, dict[str, Any]], allowed: int, file: str
) -> None:
    objections = refused(file, tmp_path / "docker", changes)
    rows = services(file)
    assert len(rows) == 81
    assert len(rows) - len(objections) >= allowed, objections


@pytest.mark.parametrize("file", FILES)
def test_every_value_of_the_services_is_of_its_type(file: str) -> None:
    for each in services(file):
        body = json.dumps(each["body"]).encode()
        headers = {"Content-Type": "application/json"}
        view = to_input(AuthzRequest("POST", "/v1.43/containers/create", "", "", headers, body))
        assert (view["untyped"], view["unknown_fields"]) == ([], []), each
