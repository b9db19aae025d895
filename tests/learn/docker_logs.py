"""Lines of Docker's audit log, and decisions with the shipped policies and learned data."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from tests.learn.logs import gathered

from doorward.docker.decider.embedded import PACK, shipped_policies
from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.input import InputOptions, to_input
from doorward.learn.output import make_files
from doorward.learn.templates import Limits
from doorward.rego import Engine

__all__ = [
    "NOTHING",
    "SHIPPED",
    "added",
    "allows",
    "call",
    "create",
    "data_of",
    "entry",
    "learn",
    "started",
]

NOTHING = Path("nothing")
SHIPPED = json.loads((PACK / "data.json").read_text())["docker"]


def call(user: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The input of a request with a certificate."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    raw = None if body is None else json.dumps(body).encode()
    auth = "TLS" if user else ""
    request = AuthzRequest(method, f"/v1.41{path}", user, auth, headers, raw)
    return {**to_input(request, InputOptions()), "inspects": True}


def entry(number: int, user: str, input: dict[str, Any], decision: str = "allow") -> dict[str, Any]:
    """A line of the audit log, as the plugin writes it."""
    return {
        "time": f"2027-01-{10 + number % 9}T08:00:00.000000Z",
        "decision_id": f"d-{number:05}",
        "user": user,
        "method": input["Method"],
        "action": input["action"],
        "target": input["target"],
        "uri": input["Path"],
        "phase": "request",
        "decision": decision,
        "reason": "",
        "rule": "roles",
        "latency_ms": 1,
        "input": input,
    }


def create(user: str, image: str = "busybox", **host: Any) -> dict[str, Any]:
    """The input of `docker create`."""
    host.setdefault("Memory", 64 << 20)
    return call(user, "POST", "/containers/create?name=c", {"Image": image, "HostConfig": host})


def started(user: str, created: dict[str, Any]) -> dict[str, Any]:
    """The input of `docker start` of a container that was created so."""
    parts = ("image", "mounts", "ports", "security", "devices")
    container = {each: created[each] for each in parts if each in created}
    container |= {"asked": True, "known": True, "missing": False, "untyped": []}
    input = call(user, "POST", "/containers/c/start")
    return {**input, "container": container, "beyond": sorted({*input["beyond"], "container"})}


def learn(inputs: list[tuple[str, dict[str, Any]]], times: int = 10, folder: Path = NOTHING) -> Any:
    """The files for a log in which each user sends each input so many times, on many days."""
    lines = [
        entry(number * 100 + n, user, input)
        for number in range(times)
        for n, (user, input) in enumerate(inputs)
    ]
    return make_files(gathered(lines), Limits(), folder).files


def data_of(files: Any) -> dict[str, Any]:
    """The learned data."""
    data: dict[str, Any] = json.loads(files["data.json"])["docker"]
    return data


def added(files: Any, role: str) -> dict[str, Any]:
    """The settings that the learned data add for a role."""
    settings: dict[str, Any] = data_of(files)["roles"].get(role, {})
    return settings


@cache
def _shipped() -> Engine:
    return Engine({path.name: path.read_text() for path in shipped_policies()}, {})


@lru_cache(maxsize=4)
def _decision(data: str) -> Any:
    return _shipped().with_data(json.loads(data)).prepare("data.policy.docker.authz.allow")


def allows(files: Any, input: dict[str, Any]) -> bool:
    """The decision of the shipped policies with the learned data."""
    return _decision(files["data.json"]).value(input) is True
