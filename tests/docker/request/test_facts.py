"""A container's own power, asked of the real daemon while an exec is decided."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import guard, write_policies
from tests.docker.pack import pack_pdp
from tests.waiting import PATIENCE, wait_until

from doorward.docker.request.call import AuthzRequest
from doorward.docker.request.facts import ContainerFacts
from doorward.docker.request.input import resolve_path, to_input


@pytest.fixture
def asking(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies, which ask it about containers."""
    users = {"alice": ["developer"], "carol": ["admin"]}
    with guard(daemon, f"{unique}v", write_policies(tmp_path / "pack", users=users)):
        yield daemon


@pytest.mark.parametrize(
    ("options", "reaches"),
    [
        ((), False),
        (("--privileged",), True),
        (("-v", "/etc:/h"), True),
        (("--pid", "host"), True),
        (("--cap-add", "SYS_ADMIN"), True),
        (("--device", "/dev/null"), True),
        (("--security-opt", "seccomp=unconfined"), True),
        (("--security-opt", "systempaths=unconfined"), True),
        (("-v", "outside:/h"), True),
        (("-v", "inside:/h"), False),
    ],
)
def test_exec_needs_what_the_container_may(
    asking: PrivateDaemon, options: tuple[str, ...], reaches: bool
) -> None:
    bound = ("-o", "type=none", "-o", "o=bind", "-o", "device=/etc")
    assert asking.docker("volume", "create", *bound, "outside", user="carol").returncode == 0
    arguments = ("--network", "none", *options, "img:1", "sleep", "3600")
    created = asking.docker("create", *arguments, user="carol")
    assert created.returncode == 0, created.stderr
    container = created.stdout.strip()
    # Asked of the API, since a container that does not run cannot be asked by the command line.
    answer = asking.json("POST", f"/v1.41/containers/{container}/exec", {"Cmd": ["id"]})
    if reaches:
        assert ": container reaches the host: " in answer.message
    else:
        assert answer.status == 409  # allowed, and not running
    assert asking.docker("rm", container, user="carol").returncode == 0


def test_container_that_is_not_there_is_the_daemons_to_say(asking: PrivateDaemon) -> None:
    answer = asking.json("POST", "/v1.41/containers/nobody/exec", {"Cmd": ["id"]})
    assert answer.status == 404


@pytest.fixture
def reaching(asking: PrivateDaemon) -> Iterator[str]:
    """The identifier of an admin's container that reaches the host, and runs."""
    arguments = (
        "--network",
        "none",
        "--pid",
        "host",
        "--name",
        "reaching",
        "img:1",
        "sleep",
        "3600",
    )
    started = asking.docker("run", "--detach", *arguments, user="carol")
    assert started.returncode == 0, started.stderr
    yield started.stdout.strip()
    asking.chain()
    asking.docker("rm", "--force", "reaching", "shadow")


def test_exec_that_another_user_created_is_not_started(
    asking: PrivateDaemon, reaching: str
) -> None:
    """Identifiers of execs are in every inspection, and in the events as soon as they are there."""
    chain = asking.config.read_text()
    asking.chain()
    body = {"Cmd": ["id"], "AttachStdout": True, "Tty": True}
    created = asking.json("POST", f"/v1.41/containers/{reaching}/exec", body)
    asking.config.write_text(chain)
    asking.hup()
    identifier = json.loads(created.body)["Id"]
    answer = asking.json("POST", f"/v1.41/exec/{identifier}/start", {"Tty": True})
    assert ": container reaches the host: " in answer.message
    assert asking.json("POST", "/v1.41/exec/nobody/start", {}).status == 404


def test_container_that_reaches_the_host_keeps_its_name(
    asking: PrivateDaemon, reaching: str
) -> None:
    """Otherwise it could take the name of one that was judged a moment before."""
    done = asking.docker("rename", "reaching", "other", user="alice")
    assert "container reaches the host" in done.stderr


def test_name_that_is_the_start_of_another_identifier(asking: PrivateDaemon, reaching: str) -> None:
    """The daemon takes names first, and means the other container once the name is free."""
    arguments = ("--network", "none", "img:1", "sleep", "3600")
    harmless = asking.docker("create", "--name", "shadow", *arguments, user="alice").stdout.strip()
    assert asking.docker("rename", "shadow", reaching[:6], user="alice").returncode == 0
    answer = asking.json("POST", f"/v1.41/containers/{reaching[:6]}/exec", {"Cmd": ["id"]})
    assert answer.message.endswith(": container cannot be judged: the daemon did not describe it")
    # Hexadecimal names that no identifier starts with are like others.
    assert asking.docker("rename", harmless, "f00d", user="alice").returncode == 0
    answer = asking.json("POST", "/v1.41/containers/f00d/exec", {"Cmd": ["id"]})
    assert answer.status == 409  # allowed, and not running
    assert asking.docker("rename", harmless, "shadow", user="alice").returncode == 0


def test_only_our_own_questions_are_allowed() -> None:
    facts = ContainerFacts("/nonexistent", resolve_path)
    for headers in ({}, {"X-Doorward-Self": ""}, {"X-Doorward-Self": "x" * 64}):
        assert not facts.is_own(AuthzRequest("GET", "/containers/x/json", headers=headers))
    assert facts.container("x") == {"asked": True, "known": False, "missing": False}


def inspected(name: str, **host: Any) -> dict[str, Any]:
    mounts = [{"Type": "bind", "Source": "/etc", "Destination": "/h", "RW": True}]
    config = {"Image": "img:1"}
    return {"Id": "0" * 64, "Name": name, "HostConfig": host, "Config": config, "Mounts": mounts}


CONTAINERS = {
    "host": inspected("/host", PidMode="host"),
    "next": inspected("/next", PidMode="container:host"),
    "loop": inspected("/loop", PidMode="container:loop"),
    "plain": inspected("/plain"),
    "odd": {},
}


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Answers that every volume is a plain one, or never. The host's network is `cafe00`."""

    daemon_threads = True

    def __init__(self, path: Path, answers: bool) -> None:
        super().__init__(str(path), _Answer)
        self.answers = answers
        self.questions: list[str] = []
        self.end = threading.Event()


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Daemon

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.questions.append(self.path)
        if not self.server.answers:
            self.server.end.wait()
            return
        body = b'{"Driver":"local","Options":null}'
        if self.path.startswith("/networks/"):
            body = b'{"Name":"host","Id":"cafe00"}'
        if self.path == "/networks/cafe":
            body = b'{"Name":"cafe","Id":"0123"}'
        if self.path.startswith("/containers/"):
            body = json.dumps(CONTAINERS[self.path.split("/")[2]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def volumes_of(tmp_path: Path) -> Iterator[Callable[[bool], tuple[Daemon, ContainerFacts]]]:
    servers: list[Daemon] = []

    def start(answers: bool) -> tuple[Daemon, ContainerFacts]:
        server = Daemon(tmp_path / "s", answers)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        deadline = PATIENCE if answers else 0.5
        return server, ContainerFacts(str(tmp_path / "s"), resolve_path, deadline=deadline)

    yield start
    for server in servers:
        server.end.set()
        server.shutdown()
        server.server_close()


def creating(volumes: int) -> dict[str, Any]:
    """The input of a creation with so many named volumes."""
    binds = [f"v{number:02}:/v{number}" for number in range(volumes)]
    body = json.dumps({"Image": "img", "HostConfig": {"Binds": binds}}).encode()
    headers = {"Content-Type": "application/json"}
    return to_input(AuthzRequest("POST", "/v1.41/containers/create", headers=headers, body=body))


def test_questions_about_one_request_share_a_deadline(
    volumes_of: Callable[[bool], tuple[Daemon, ContainerFacts]],
) -> None:
    server, facts = volumes_of(False)
    view = creating(32)
    facts.join(view)
    # One question took all the time there was, and none came after it.
    wait_until(lambda: server.questions)
    assert server.questions == ["/info"]
    unknown = [mount["source"] for mount in view["mounts"] if mount["origin"] == "Volume"]
    assert len(unknown) == 32
    assert all(mount["unresolved"] for mount in view["mounts"])


def test_volumes_beyond_the_last_question_are_denied(
    volumes_of: Callable[[bool], tuple[Daemon, ContainerFacts]],
) -> None:
    server, facts = volumes_of(True)
    for volumes, allowed in ((32, True), (33, False)):
        view = creating(volumes)
        server.questions.clear()
        facts.join(view)
        assert len([each for each in server.questions if each.startswith("/volumes/")]) == 32
        result: Any = pack_pdp().decide(view).result
        assert result["allow"] is allowed
    assert result["messages"] == ["mount of Volume cannot be judged"]


def test_network_whose_name_is_the_start_of_the_hosts(
    volumes_of: Callable[[bool], tuple[Daemon, ContainerFacts]],
) -> None:
    _, facts = volumes_of(True)
    body = json.dumps({"Networks": [{"Target": "cafe"}]}).encode()
    headers = {"Content-Type": "application/json"}
    view = to_input(AuthzRequest("POST", "/v1.41/services/create", headers=headers, body=body))
    facts.join(view)
    assert view["network"]["identifiers"] == ["cafe"]
    assert view["network"]["unresolved"] is True


@pytest.mark.parametrize(
    ("name", "namespaces"),
    [("host", ["pid"]), ("next", ["pid"]), ("loop", []), ("plain", []), ("odd", ["unknown"])],
)
def test_container_that_is_joined_has_its_namespaces_from_the_host(
    volumes_of: Callable[[bool], tuple[Daemon, ContainerFacts]], name: str, namespaces: list[str]
) -> None:
    _, facts = volumes_of(True)
    body = json.dumps({"Image": "img", "HostConfig": {"PidMode": f"container:{name}"}}).encode()
    headers = {"Content-Type": "application/json"}
    view = to_input(AuthzRequest("POST", "/v1.41/containers/create", headers=headers, body=body))
    facts.join(view)
    assert view["security"]["host_namespaces"] == namespaces


def test_volumes_of_another_container_are_its_mounts(
    volumes_of: Callable[[bool], tuple[Daemon, ContainerFacts]],
) -> None:
    _, facts = volumes_of(True)
    body = json.dumps({"Image": "img", "HostConfig": {"VolumesFrom": ["plain:ro", "odd"]}}).encode()
    headers = {"Content-Type": "application/json"}
    view = to_input(AuthzRequest("POST", "/v1.41/containers/create", headers=headers, body=body))
    facts.join(view)
    mounts = [(mount["origin"], mount["type"], mount["source"]) for mount in view["mounts"]]
    assert mounts[2:] == [("Container", "bind", "/etc"), ("Volume", "other", "odd")]
