"""With `owners`, users with certificates see to their own things, and to nobody else's."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import guard, write_policies
from tests.waiting import PATIENCE

from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.input import resolve_path, to_input
from doorward.docker.request.owners import LABEL, named_objects
from doorward.docker.service import OwnersError, Service, ServiceOptions

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("settings", "inspect", "message"),
    [
        ({"local_roles": ["viewer"]}, "/run/d.sock", "on the Unix socket a plugin sees none"),
        ({}, "", "needs --inspect"),
    ],
)
def test_plugin_does_not_start_where_callers_have_no_names(
    tmp_path: Path, settings: dict[str, Any], inspect: str, message: str
) -> None:
    changes: dict[str, Any] = {"owners": True, "local_roles": [], **settings}
    folder = write_policies(tmp_path / "docker", **changes)
    options = ServiceOptions(
        socket=str(tmp_path / "s"), policies=[str(folder)], inspect=inspect, audit_log="off"
    )
    with pytest.raises(OwnersError, match=message):
        Service(options)


def view(method: str, uri: str, body: Any = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    headers = JSON if body is not None else {}
    return to_input(AuthzRequest(method, uri, "alice", "TLS", headers, content))


def mount_volume(source: str, **labels: str) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": source,
        "Target": "/v",
        "VolumeOptions": {"Labels": labels},
    }


OBJECTS: list[tuple[str, str, Any, list[tuple[str, str]]]] = [
    ("POST", "/containers/c/kill", None, [("container", "c")]),
    ("GET", "/containers/c/json", None, [("container", "c")]),
    ("POST", "/exec/e/start", {}, [("exec", "e")]),
    ("DELETE", "/volumes/v", None, [("volume", "v")]),
    ("POST", "/volumes/create", {"Name": "v"}, [("volume", "v")]),
    ("POST", "/volumes/create", {"Name": ""}, []),
    ("POST", "/networks/create", {"Name": "n"}, [("network", "n")]),
    ("POST", "/images/create?fromImage=i&tag=1", None, [("image", "i:1")]),
    ("DELETE", "/images/i:1", None, [("image", "i:1")]),
    ("POST", "/images/i/tag?repo=j&tag=2", None, [("image", "i"), ("image", "j:2")]),
    ("POST", "/networks/n/connect", {"Container": "c"}, [("container", "c"), ("network", "n")]),
    ("POST", "/networks/bridge/connect", {"Container": "c"}, [("container", "c")]),
    (
        "POST",
        "/networks/bridge/connect",
        {"Container": "c", "EndpointConfig": {"Links": ["/l:x"]}},
        [("container", "c"), ("container", "l")],
    ),
    (
        "POST",
        "/networks/n/connect",
        {"Container": "c", "EndpointConfig": {"NetworkID": "other"}},
        [("container", "c"), ("network", "n"), ("network", "other")],
    ),
    (
        "POST",
        "/containers/create",
        {
            "HostConfig": {"NetworkMode": "n"},
            # Of its own three networks, the daemon reads no identifier.
            "NetworkingConfig": {
                "EndpointsConfig": {"n": {"NetworkID": "other"}, "bridge": {"NetworkID": "third"}}
            },
        },
        [("network", "n"), ("network", "other")],
    ),
    ("POST", "/build?t=i", None, [("image", "i")]),
    ("GET", "/containers/json", None, []),
    ("POST", "/containers/prune", None, []),
    (
        "POST",
        "/containers/create",
        {
            "Image": "i",
            "HostConfig": {
                "Binds": ["v:/v", "/x:/y"],
                "VolumesFrom": ["a:ro"],
                "NetworkMode": "container:b",
                "Links": ["l:x"],
                "Mounts": [mount_volume("w")],
            },
            "NetworkingConfig": {"EndpointsConfig": {"n": {}}},
        },
        [
            ("container", "a"), ("container", "b"), ("container", "l"), ("image", "i"),
            ("network", "n"), ("volume", "v"), ("volume", "w"),
        ],
    ),
    (
        "POST",
        "/services/s/update?version=1",
        {
            "TaskTemplate": {
                "ContainerSpec": {
                    "Image": "i",
                    "Secrets": [{"SecretID": "x", "SecretName": "y"}],
                    "Configs": [{"ConfigName": "z"}],
                },
                "Networks": [{"Target": "net"}],
            }
        },
        [
            ("config", "z"), ("image", "i"), ("network", "net"), ("secret", "x"), ("service", "s"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("method", "uri", "body", "objects"), OBJECTS)
def test_objects_that_a_request_names(
    method: str, uri: str, body: Any, objects: list[tuple[str, str]]
) -> None:
    assert named_objects(view(method, f"/v1.41{uri}", body)) == objects


def test_labels_that_a_request_gives() -> None:
    create = {
        "Labels": {LABEL: "alice"},
        "HostConfig": {"Mounts": [mount_volume("w", **{LABEL: "bob"})]},
    }
    assert view("POST", "/containers/create", create)["owner"]["labels"] == ["alice", "bob"]
    uri = f'/build?labels={{"{LABEL}":"alice"}}'
    assert view("POST", uri)["owner"]["labels"] == ["alice"]
    assert view("POST", "/build?labels=[")["owner"]["labels"] == []


SEEN = {"Labels": {LABEL: "alice"}}
OTHERS = {
    "/containers/json?all=1": [{"Id": "c4"}],
    "/networks": [{"Id": "c4"}, {"Id": "web0"}],
    "/images/json?all=1": [{"Id": "sha256:c4"}],
    "/services": [{"ID": "c4"}],
    "/secrets": [{"ID": "c4"}],
    "/configs": [{"ID": "c4"}],
}
"""What the daemon has besides the one that it finds by name."""


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Finds everything by its name, as one of Alice's."""

    daemon_threads = True


class _Answer(http.server.BaseHTTPRequestHandler):
    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        answer: Any = OTHERS.get(self.path.partition("?filters")[0])
        if answer is None:
            answer = {"Id": "f" * 64, "ID": "f" * 25, "Config": SEEN, "Spec": SEEN, **SEEN}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize(
    ("target", "known"),
    [
        *[(f"/{kind}/{name}", name != "c4")
          for kind in ("networks", "secrets", "services", "configs")
          for name in ("c4", "c40", "fff", "my-own")],
        ("/networks/web", False),
        ("/networks/web1", True),
        *[(f"/containers/{name}/json", name != "c4") for name in ("c4", "c40", "fff", "my-own")],
        *[(f"/images/{name}/json", name != "c4") for name in ("c4", "c40", "fff", "my/c4", "c4:1")],
    ],
)  # fmt: skip
def test_name_that_is_the_beginning_of_another_identifier(
    tmp_path: Path, target: str, known: bool
) -> None:
    """Once the name is free, the daemon takes it for the other one, which may be anybody's."""
    server = Daemon(str(tmp_path / "s"), _Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        facts = ContainerFacts(str(tmp_path / "s"), resolve_path, deadline=PATIENCE, owners=True)
        input_doc = view("GET", f"/v1.41{target}")
        facts.join(input_doc)
    finally:
        server.shutdown()
        server.server_close()
    [object_view] = input_doc["owner"]["objects"]
    assert object_view["known"] is known
    assert object_view["owner"] == ("alice" if known else "")


@pytest.fixture(scope="module")
def owned(
    daemon_started: PrivateDaemon, unique: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies, with owners."""
    policies = write_policies(
        tmp_path_factory.mktemp("owners") / "docker",
        users={"alice": ["developer"], "bob": ["operator"], "carol": ["admin"]},
        owners=True,
        local_roles=[],
    )
    with guard(daemon_started, f"{unique}o", policies, owners=True) as daemon:
        yield daemon


def test_users_act_on_their_own_things_only(owned: PrivateDaemon) -> None:
    def run(user: str, *words: str) -> str:
        done = owned.docker(*words, user=user)
        return done.stderr if done.returncode else ""

    none = ("--network", "none")
    mine = ("--label", f"{LABEL}=alice")
    refused = run("alice", "run", "-d", "--name", "theirs", *none, "img:1", "sleep", "99")
    assert f"a new object must have the label {LABEL}=alice" in refused
    other = ("--label", f"{LABEL}=bob")
    assert "may not name another user" in run(
        "alice", "create", *none, *mine[:1], other[1], "img:1"
    )
    start = ("run", "-d", "--name", "mine", *none, *mine, "img:1", "sleep", "9999")
    assert run("alice", *start) == ""
    assert run("alice", "volume", "create", *mine, "my-volume") == ""
    assert run("alice", "network", "create", *mine, "my-network") == ""
    assert run("alice", "exec", "mine", "true") == ""
    for words in (
        ("exec", "mine", "true"), ("stop", "mine"), ("rm", "-f", "mine"), ("logs", "mine"),
        ("inspect", "--type", "container", "mine"), ("cp", "mine:/bin/sh", "-"),
        ("volume", "rm", "my-volume"), ("network", "rm", "my-network"),
        ("volume", "create", *other, "my-volume"), ("network", "create", *other, "my-network"),
        ("run", *none, *other, "-v", "my-volume:/v", "img:1", "true"),
        ("run", "--network", "container:mine", *other, "img:1", "true"),
        ("create", "--network", "my-network", *other, "img:1", "true"),
    ):  # fmt: skip
        assert " is not yours" in run("bob", *words), words
    for words in (
        ("container", "prune", "-f"),
        ("volume", "prune", "-f"),
        ("image", "prune", "-f"),
    ):
        assert "acts on objects of all users" in run("bob", *words), words
    new = ("run", *none, *other, "-v", "new-volume:/v", "img:1", "true")
    assert "volume new-volume does not exist" in run("bob", *new)
    assert "image img:1 is not yours" in run("bob", "rmi", "img:1")
    assert run("carol", "rm", "-f", "mine") == ""
    assert run("alice", "volume", "rm", "my-volume") == ""
    assert run("alice", "network", "rm", "my-network") == ""
    assert "a client without a name may not" in owned.docker("ps").stderr
