"""A container's own power, asked of the real daemon while an exec is decided."""

from __future__ import annotations

import http.server
import json
import shutil
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples.docker.private_daemon import PrivateDaemon

from doorward.docker.embedded import PACK, EmbeddedPdp
from doorward.docker.facts import ContainerFacts
from doorward.docker.inputs import resolve_path, to_input
from doorward.docker.plugin import Plugin
from doorward.docker.requests import AuthzRequest


@pytest.fixture
def asking(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[PrivateDaemon]:
    """The daemon behind the shipped policies, which ask it about containers."""
    shutil.copytree(PACK, tmp_path / "pack")
    data = json.loads((PACK / "data.json").read_text())
    data["docker"]["users"] = {"alice": ["developer"], "carol": ["admin"]}
    (tmp_path / "pack" / "data.json").write_text(json.dumps(data))
    pdp = EmbeddedPdp([str(tmp_path / "pack")], watch=False)
    facts = ContainerFacts(daemon.socket, resolve_path)
    daemon.plugin(f"{unique}v", Plugin(pdp, facts=facts).answer)
    daemon.chain(f"{unique}v")
    yield daemon
    daemon.chain()
    daemon.end_plugin(f"{unique}v")


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
        assert answer.message.endswith(": container reaches the host")
    else:
        assert answer.status == 409  # allowed, and not running
    assert asking.docker("rm", container, user="carol").returncode == 0


def test_container_that_is_not_there_is_the_daemons_to_say(asking: PrivateDaemon) -> None:
    answer = asking.json("POST", "/v1.41/containers/nobody/exec", {"Cmd": ["id"]})
    assert answer.status == 404


def test_only_our_own_questions_are_allowed() -> None:
    facts = ContainerFacts("/nonexistent", resolve_path)
    for headers in ({}, {"X-Doorward-Self": ""}, {"X-Doorward-Self": "x" * 64}):
        assert not facts.is_own(AuthzRequest("GET", "/containers/x/json", headers=headers))
    assert facts.container("x") == {"asked": True, "known": False, "missing": False}


class Daemon(socketserver.ThreadingUnixStreamServer):
    """Answers that every volume is a plain one, or never."""

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
        return server, ContainerFacts(str(tmp_path / "s"), resolve_path, deadline=0.5)

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
    assert server.questions == ["/info"]
    unknown = [mount["source"] for mount in view["mounts"] if mount["origin"] == "Volume"]
    assert len(unknown) == 32
    assert all(mount["unresolved"] for mount in view["mounts"])


def test_volumes_beyond_the_last_question_are_denied(
    volumes_of: Callable[[bool], tuple[Daemon, ContainerFacts]],
) -> None:
    server, facts = volumes_of(True)
    pdp = EmbeddedPdp(watch=False)
    for volumes, allowed in ((32, True), (33, False)):
        view = creating(volumes)
        server.questions.clear()
        facts.join(view)
        assert len([each for each in server.questions if each.startswith("/volumes/")]) == 32
        result: Any = pdp.decide(view).result
        assert result["allow"] is allowed
    assert result["messages"] == ["mount of Volume cannot be judged"]
    pdp.close()
