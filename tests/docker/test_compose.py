"""Real projects are allowed: the services of docker/awesome-compose, as compose creates them.

A developer creates them, who has the role `builder` where images are built. The bodies were made by
scripts/compose_bodies.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from doorward.docker.decider.embedded import PACK, EmbeddedPdp
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import to_input

SERVICES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "compose.json").read_text(encoding="utf-8")
)


def refused(folder: Path, changes: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """The services that a developer may not create with this data, and why."""
    shutil.copytree(PACK, folder)
    data = json.loads((folder / "data.json").read_text())
    data["docker"]["users"] = {"dora": ["developer", "builder"]}
    for section, values in changes.items():
        data["docker"][section] |= values
    (folder / "data.json").write_text(json.dumps(data))
    pdp = EmbeddedPdp([str(folder)], watch=False)
    objections: dict[str, list[str]] = {}
    for each in SERVICES:
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


@pytest.mark.parametrize(
    ("changes", "allowed"), [({}, 27), (FOLDER, 56), ({**FOLDER, **PORTS}, 73)]
)
def test_services_of_real_projects_are_allowed(
    tmp_path: Path, changes: dict[str, dict[str, Any]], allowed: int
) -> None:
    objections = refused(tmp_path / "docker", changes)
    assert len(SERVICES) == 81
    assert len(SERVICES) - len(objections) >= allowed, objections


def test_every_value_of_the_services_is_of_its_type(tmp_path: Path) -> None:
    for each in SERVICES:
        body = json.dumps(each["body"]).encode()
        view = to_input(
            AuthzRequest(
                "POST",
                "/v1.43/containers/create",
                "",
                "",
                {"Content-Type": "application/json"},
                body,
            )
        )
        assert (view["untyped"], view["unknown_fields"]) == ([], []), each
