"""Objects are read by the types of their fields; what two readers could confuse is refused."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

import pytest

from doorward.docker.request.errors import RequestError
from doorward.docker.request.model.readers import Notes
from doorward.docker.request.model.table import read_body, read_type

READ: Final = read_type("HostConfig")[1]
VALUES: Final[dict[str, list[Any]]] = {
    "Binds": [None, [], ["/a:/b"], ["v:/b:ro"], "/a:/b", [None], ["\u0000"], 7],
    "NetworkMode": ["", "default", "host", "container:x", None, 1],
    "Privileged": [True, False, None, "true"],
    "MaskedPaths": [None, [], ["/proc/kcore"]],
    "LogConfig": [None, {}, {"Type": "", "Config": None}, {"Type": "local", "Config": {"a": None}}],
    "PortBindings": [None, {}, {"80/tcp": None}, {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}],
    "RestartPolicy": [{"Name": "no", "MaximumRetryCount": 0}, {"Name": None}, {"name": "always"}],
    "CapAdd": [None, [], ["NET_ADMIN"], "NET_ADMIN", [None]],
    "Memory": [0, 1 << 26, -1, 2**70, 1.5],
    "binds": [["/etc:/b"]],
    "Unknown": [1, {"a": 1}],
}


def read(body: bytes) -> Any:
    """The value and the notes, or the reason why there is none."""
    notes = Notes()
    try:
        value = read_body(body, READ, notes)
    except RequestError as error:
        return str(error)
    return value, notes.unknown, notes.faults, notes.views


def draw_host(draw: Random) -> dict[str, Any]:
    rare = {"binds", "Unknown"}
    names = [name for name in VALUES if draw.random() < (0.05 if name in rare else 0.6)]
    draw.shuffle(names)
    return {name: draw.choice(VALUES[name]) for name in names}


def test_objects_that_come_again_are_read_as_at_first() -> None:
    draw = Random(7)
    hosts = [draw_host(draw) for _ in range(400)]
    results: dict[bytes, Any] = {}
    for host in hosts:
        body = json.dumps(host, separators=(",", ":")).encode()
        results[body] = read(body)
    refused = sum(isinstance(each, str) for each in results.values())
    assert 20 < refused < len(results) - 100
    for body, first in results.items():
        assert read(body) == first, body


def test_results_share_nothing() -> None:
    body = b'{"Binds":null,"CapAdd":[null,"A"],"LogConfig":{"Type":"local","Config":{"a":null}}}'
    first = read_body(body, READ, Notes())
    second = read_body(body, READ, Notes())
    third = read_body(body, READ, Notes())
    assert first == second == third
    second["CapAdd"].append("X")
    second["LogConfig"]["Config"]["b"] = "c"
    assert third == first == read_body(body, READ, Notes())


@pytest.mark.parametrize("again", range(3))
def test_field_in_another_case_is_named_twice(again: int) -> None:
    READ({"NetworkMode": "none"}, Notes(), "HostConfig")
    with pytest.raises(RequestError, match="twice"):
        READ({"NetworkMode": "none", "Binds": ["/a:/b"], "binds": ["/c:/d"]}, Notes(), "HostConfig")
