"""The daemon as the judge of our reading: what it made of a body is what the policy was shown.

Random spellings of a body go to a real daemon behind a plugin that allows whatever it can read.
Each container that comes of it is inspected and compared with the input.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.test_chain import Says
from tests.docker.test_policies import mutated

from doorward.docker.plugin import Plugin, PluginOptions

FIELDS = ("Privileged", "Binds", "CapAdd", "PidMode", "Memory", "ReadonlyRootfs", "NetworkMode")
HOSTS: list[dict[str, Any]] = [
    {"Privileged": True, "ReadonlyRootfs": True},
    {"Binds": ["/usr:/h:ro"], "Memory": 67108864},
    {"CapAdd": ["NET_ADMIN"], "PidMode": "host"},
    {"SecurityOpt": ["label=disable"], "NetworkMode": "none"},
    {"Mounts": [{"Type": "bind", "Source": "/usr", "Target": "/h", "ReadOnly": True}]},
    {},
]


@pytest.fixture
def open_daemon(daemon: PrivateDaemon, unique: str) -> Iterator[tuple[PrivateDaemon, Says]]:
    says = Says(True)
    daemon.plugin(f"{unique}q", Plugin(says).answer)
    daemon.chain(f"{unique}q")
    yield daemon, says
    daemon.chain()
    daemon.end_plugin(f"{unique}q")


def test_daemon_made_what_the_policy_was_shown(open_daemon: tuple[PrivateDaemon, Says]) -> None:
    daemon, says = open_daemon
    random_ = random.Random(99)
    created = 0
    for number in range(400):
        host = HOSTS[number % len(HOSTS)]
        body = {"Image": "img:1", "Cmd": ["true"], "Hostname": f"h{number}", "HostConfig": host}
        if number % 11 == 0:
            body = {"Image": "img:1", "Cmd": ["true"], **host}
        says.inputs.clear()
        answer = daemon.json("POST", "/v1.41/containers/create", mutated(random_, body).encode())
        if answer.status != 201:
            continue
        created += 1
        shown: Any = says.inputs[0]["body"]
        identifier = json.loads(answer.body)["Id"]
        created_ = json.loads(daemon.raw("GET", f"/v1.41/containers/{identifier}/json").body)
        for field in FIELDS:
            ours = (shown.get("HostConfig") or {}).get(field) or None
            theirs = created_["HostConfig"].get(field) or None
            # A network that nobody names is named by the daemon.
            assert theirs == ours or (field, theirs, ours) == ("NetworkMode", "default", None)
        mounts = [m["Source"] for m in (shown.get("HostConfig") or {}).get("Mounts") or []]
        assert [m["Source"] for m in created_["HostConfig"].get("Mounts") or []] == mounts
        assert created_["Config"]["Hostname"] == shown.get(
            "Hostname", created_["Config"]["Hostname"]
        )
    assert created > 60
    daemon.docker("container", "prune", "-f")


def test_answers_are_asked_about_when_wanted(daemon: PrivateDaemon, unique: str) -> None:
    class NoAnswers(Says):
        def decide(self, input: dict[str, object]) -> Any:
            self.result = input["phase"] == "request"
            return super().decide(input)

    says = NoAnswers(True)
    plugin = Plugin(says, PluginOptions(authorize_responses=True))
    daemon.plugin(f"{unique}z", plugin.answer)
    daemon.chain(f"{unique}z")
    try:
        answer = daemon.raw("GET", "/v1.41/containers/json")
        reason = f"authorization denied by plugin {unique}z: denied by policy"
        assert (answer.status, answer.message) == (403, reason)
        assert [each["phase"] for each in says.inputs] == ["request", "response"]
    finally:
        daemon.chain()
        daemon.end_plugin(f"{unique}z")
