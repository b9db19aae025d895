"""Each program gets what it asks for, and nothing else: its requests, as its client sends them.

From the sources of the programs, and from logs of proxies in front of them. docs/docker-proxy.md
has the table of actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docker.guarded import write_policies

from doorward.docker.decider.embedded import EmbeddedPdp
from doorward.docker.request.archives import PENDING
from doorward.docker.request.call import AuthzRequest, Caller
from doorward.docker.request.input import to_input

ID = "c" * 64
PAGE = Path(__file__).resolve().parents[3] / "docs/docker-proxy.md"
RECORDED = Path(__file__).resolve().parents[1] / "data/testcontainers.json"
ARCHIVE = re.compile(r"/(?:build|images/load)(?:\?|$)")
FILTER = "%7B%22label%22%3A%5B%22org.testcontainers.sessionId%3Dx%22%5D%7D"
JOB = {
    "Image": "docker.io/library/alpine:3",
    "Cmd": ["sh"],
    "Env": ["CI=true"],
    "AttachStdin": True,
    "OpenStdin": True,
    "StdinOnce": True,
    "Labels": {"com.gitlab.gitlab-runner.managed": "true"},
    "HostConfig": {
        "Binds": ["runner-cache:/cache"],
        "NetworkMode": "bridge",
        "RestartPolicy": {"Name": "no"},
        "LogConfig": {"Type": "json-file"},
    },
}

Request = tuple[str, str, Any]


def get(*targets: str) -> list[Request]:
    return [("GET", target, None) for target in targets]


def post(target: str, body: Any = None) -> Request:
    return "POST", target, body


WATCH = [
    ("HEAD", "/_ping", None),
    *get(
        "/_ping", "/v1.24/version", "/v1.44/containers/json?limit=0", f"/v1.44/containers/{ID}/json"
    ),
]
EVENTS = get("/v1.44/events?filters=%7B%22type%22%3A%7B%22container%22%3Atrue%7D%7D")
SWARM = get(
    "/v1.44/services", "/v1.44/tasks?filters=%7B%7D", "/v1.44/networks", "/v1.44/nodes/abc123"
)
RUN = [
    *get("/v1.44/info", "/v1.44/images/docker.io/library/alpine:3/json"),
    post("/v1.44/images/create?fromImage=docker.io%2Flibrary%2Falpine&tag=3"),
    post("/v1.44/volumes/create", {"Name": "runner-cache"}),
    post("/v1.44/networks/create", {"Name": "job", "Driver": "bridge", "CheckDuplicate": True}),
    post("/v1.44/containers/create?name=runner-job", JOB),
    post(f"/v1.44/containers/{ID}/attach?stderr=1&stdin=1&stdout=1&stream=1"),
    post(f"/v1.44/containers/{ID}/start"),
    post(f"/v1.44/containers/{ID}/wait?condition=not-running"),
    post(f"/v1.44/containers/{ID}/stop?t=1"),
    post(f"/v1.44/containers/{ID}/kill?signal=SIGKILL"),
    *get(f"/v1.44/containers/{ID}/logs?follow=1&stderr=1&stdout=1"),
    ("DELETE", f"/v1.44/containers/{ID}?force=1&v=1", None),
    ("DELETE", "/v1.44/networks/job", None),
    ("DELETE", "/v1.44/volumes/runner-cache?force=1", None),
]
EXEC = [
    post(f"/v1.44/containers/{ID}/exec", {"AttachStdout": True, "Cmd": ["sh", "-c", "true"]}),
    post(f"/v1.44/exec/{ID}/start", {"Detach": False}),
    *get(f"/v1.44/exec/{ID}/json"),
]
FILES = [
    ("PUT", f"/v1.44/containers/{ID}/archive?noOverwriteDirNonDir=true&path=%2Ftmp", None),
    *get(f"/v1.44/containers/{ID}/archive?path=%2Ftmp%2Fx"),
]
REPLACE = [
    *get(f"/v1.44/images/sha256:{ID}/json", "/v1.44/distribution/docker.io/library/alpine:3/json"),
    post("/v1.44/images/create?fromImage=docker.io%2Flibrary%2Falpine&tag=3"),
    post(f"/v1.44/containers/{ID}/kill?signal=SIGTERM"),
    ("DELETE", f"/v1.44/containers/{ID}?force=1", None),
    post("/v1.44/containers/create?name=web", JOB),
    post("/v1.44/networks/web/connect", {"Container": ID, "EndpointConfig": {"Aliases": ["web"]}}),
    post("/v1.44/networks/web/disconnect", {"Container": ID, "Force": True}),
    post(f"/v1.44/containers/{ID}/start"),
    ("DELETE", f"/v1.44/images/sha256:{ID}", None),
]
REAP = [
    *get(
        f"/v1.44/containers/json?all=1&filters={FILTER}",
        f"/v1.44/networks?filters={FILTER}",
        f"/v1.44/volumes?filters={FILTER}",
        f"/v1.44/images/json?filters={FILTER}",
    ),
    ("DELETE", "/v1.44/images/x:1?force=1", None),
]
MANAGE = [
    *get(
        f"/v1.41/containers/{ID}/top?ps_args=aux",
        f"/v1.41/containers/{ID}/stats?stream=false",
        f"/v1.41/containers/{ID}/logs?since=0&stderr=1&stdout=1&tail=100&timestamps=0",
        f"/v1.41/containers/{ID}/changes",
        f"/v1.41/containers/{ID}/export",
        "/v1.41/images/json?all=0",
        "/v1.41/images/x:1/history",
        "/v1.41/images/get?names=x%3A1",
        "/v1.41/volumes?filters=%7B%22dangling%22%3A%5B%22true%22%5D%7D",
        "/v1.41/volumes/data",
        "/v1.41/networks/web",
        "/v1.41/events?since=1700000000&until=1700003600",
        "/v1.41/configs",
        "/v1.41/configs/abc123",
        "/v1.41/services/abc123",
        "/v1.41/services/abc123/logs?stdout=1",
        "/v1.41/tasks/abc123",
        "/v1.41/tasks/abc123/logs?stdout=1",
    ),
    post(f"/v1.41/containers/{ID}/pause"),
    post(f"/v1.41/containers/{ID}/unpause"),
    post(f"/v1.41/containers/{ID}/rename?name=web"),
    post(f"/v1.41/containers/{ID}/resize?h=24&w=80"),
    post(f"/v1.41/exec/{ID}/resize?h=24&w=80"),
    post(f"/v1.41/commit?container={ID}&repo=x&tag=2"),
    post("/v1.41/images/x:2/tag?repo=x&tag=3"),
    post("/v1.41/images/x/push?tag=3"),
    post("/v1.41/images/load"),
    post("/v1.41/build?dockerfile=Dockerfile&t=x%3A4"),
    post("/v1.41/networks/prune"),
    post("/v1.41/volumes/prune"),
]
"""What Portainer's pages ask for beyond what is above: from its source of October 2024."""
RECIPES: dict[str, list[Request]] = {
    "traefik": [*WATCH, *EVENTS],
    "traefik-swarm": [*WATCH, *EVENTS, *SWARM],
    "uptime-kuma": WATCH,
    "homepage": [*WATCH, *get(f"/v1.44/containers/{ID}/stats?stream=false"), *SWARM],
    "dozzle": [
        *WATCH,
        *EVENTS,
        *get(f"/v1.44/containers/{ID}/stats", f"/v1.44/containers/{ID}/logs?follow=1&stdout=1"),
    ],
    "dozzle-actions": [
        *WATCH,
        post(f"/v1.44/containers/{ID}/restart"),
        post(f"/v1.44/containers/{ID}/stop"),
    ],
    "diun": [*WATCH, *get("/v1.44/images/x:1/json"), *SWARM],
    "watchtower": [*WATCH, *REPLACE],
    "watchtower-hooks": [*WATCH, *REPLACE, *EXEC],
    "gitlab-runner": [*WATCH, *RUN, *EXEC],
    "gitea-runner": [*WATCH, *RUN, *EXEC, *FILES],
    "testcontainers": [*WATCH, *RUN, *EXEC, *FILES, *REAP],
    "portainer": [
        *WATCH,
        *EVENTS,
        *RUN,
        *EXEC,
        *REAP,
        *SWARM,
        *get("/v1.44/swarm", "/v1.44/system/df", "/v1.44/plugins", "/v1.44/secrets"),
        *MANAGE,
        post("/v1.44/containers/prune"),
        post(f"/v1.44/containers/{ID}/update", {"RestartPolicy": {"Name": "always"}}),
    ],
}
NEVER: list[Request] = [
    post("/v1.44/containers/create", {"Image": "x", "HostConfig": {"Privileged": True}}),
    post("/v1.44/containers/create", {"Image": "x", "HostConfig": {"Binds": ["/:/h"]}}),
    post("/v1.44/containers/create", {"Image": "x", "HostConfig": {"PidMode": "host"}}),
    post(
        "/v1.44/containers/create",
        {"Image": "x", "HostConfig": {"Binds": ["/var/run/docker.sock:/s"]}},
    ),
    post("/v1.44/plugins/x/disable"),
    post("/v1.44/swarm/init", {"ListenAddr": "0.0.0.0:2377"}),
    post("/grpc"),
]
LOOKS = ("traefik", "traefik-swarm", "uptime-kuma", "homepage", "dozzle", "diun")
"""Those that change nothing."""


@pytest.fixture(scope="module")
def pdp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPdp]:
    folder = tmp_path_factory.mktemp("recipes") / "policies"
    users = {f"socket:{name}": [name] for name in RECIPES}
    roles = {"pinger": {"actions": ["system.ping"]}}
    users |= {"socket:mine": ["pinger"]}
    pdp = EmbeddedPdp([str(write_policies(folder, users=users, roles=roles))], watch=False)
    yield pdp
    pdp.close()


def allows(pdp: EmbeddedPdp, recipe: str, request: Request) -> tuple[bool, Any]:
    method, target, body = request
    caller = Caller(f"socket:{recipe}", "socket")
    content = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} if content else {"content-length": "0"}
    archive = None
    if method == "PUT" or ARCHIVE.search(target):
        headers, archive = {}, PENDING
    call = AuthzRequest(
        method, target, caller.name, caller.method, headers, content, caller=caller, archive=archive
    )
    result: Any = pdp.decide({**to_input(call), "inspects": True}).result
    return result["allow"] is True, result


@pytest.mark.parametrize("recipe", RECIPES)
def test_program_gets_what_it_asks_for(pdp: EmbeddedPdp, recipe: str) -> None:
    for request in RECIPES[recipe]:
        allowed, result = allows(pdp, recipe, request)
        assert allowed, (request, result)
    for request in NEVER:
        assert not allows(pdp, recipe, request)[0], request


def test_testcontainers_gets_what_it_was_recorded_to_ask_for(pdp: EmbeddedPdp) -> None:
    """testcontainers 4.15.0 of Python, by way of docker 7.2.0: a container, a command in it, copies
    both ways, a network, an image that is built, a published port."""
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded) == 25
    for row in recorded:
        request = (row["method"], row["uri"], row["body"])
        allowed, result = allows(pdp, "testcontainers", request)
        assert allowed, (request, result)


@pytest.mark.parametrize("recipe", LOOKS)
def test_program_that_looks_changes_nothing(pdp: EmbeddedPdp, recipe: str) -> None:
    for request in {each[:2]: each for each in (*RUN, *EXEC, *FILES, *REPLACE)}.values():
        if request[0] != "GET" or "/archive" in request[1]:
            assert not allows(pdp, recipe, request)[0], request


def test_role_of_the_data_has_its_actions(pdp: EmbeddedPdp) -> None:
    assert allows(pdp, "mine", ("GET", "/_ping", None))[0]
    assert not allows(pdp, "mine", ("GET", "/containers/json", None))[0]


def test_page_has_the_actions_of_each_role(pdp: EmbeddedPdp) -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    table = {name: set(re.findall(r"`([a-z]+\.[a-z.]+)`", text)) for name, text in rows}
    table = {name: actions for name, actions in table.items() if name in RECIPES and actions}
    roles: Any = pdp._pdp.decide("policy/docker/recipes/roles").result
    actions = {name: {*each} for name, each in roles.items()}
    assert table == {name: actions[name] for name in table}
    assert {"traefik", "dozzle", "watchtower", "homepage", "diun"} <= set(table)
