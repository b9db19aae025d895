"""Who decides for the daemon: the decision point that was installed, and nobody who may write to it
or take its port.

The decision point, the plugin and the daemon are processes of their own. An ordinary user is one
whom no file belongs to.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.docker.guarded import write_policies
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

from doorward.docker.install.doctor import diagnose
from doorward.docker.install.installer import Installation, install, uninstall

NOBODY: Final[dict[str, Any]] = {"user": 65534, "group": 65534, "extra_groups": []}
OPEN: Final = (
    "any local user can change the policy server's policies and data, and with them its decisions"
)
DECISION: Final = "/v1/data/policy/docker/authz"
LIST: Final = "/v1.41/containers/json"
TOKENS: Final = """
package system.authz

default allow := false

allow if input.identity == data.docker.token

# The plugin asks without a token, and changes nothing.
allow if {
	input.method == "POST"
	input.path == ["v1", "data", "policy", "docker", "authz"]
}
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user comes to."""
    folder = Path(tempfile.mkdtemp(prefix="dwp-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def wanted(daemon: PrivateDaemon, unique: str, tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(
        name=f"{unique}p",
        daemon_json=daemon.config,
        pidfile=daemon.pidfile,
        socket=daemon.socket,
        systemd=False,
        state=tmp_path / "state",
        audit_log=str(tmp_path / "audit.log"),
        pack_folder=tmp_path / "pack",
        extra=("--timeout", "60"),
    )
    yield installation
    if installation.name in installation.config.plugins():
        uninstall(installation, lambda _text: None)


@contextmanager
def decision_point(
    policies: Path, listens: Callable[[], bool], *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The server of the shipped recipe, with these options."""
    command = [sys.executable, "-c", "from doorward.cli.main import main; main()", "run"]
    process = subprocess.Popen(
        [*command, "--server", *arguments, str(policies)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(listens, "the decision point does not listen")
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def listens_at(port: int) -> Callable[[], bool]:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return listens


def is_writable(path: Path) -> bool:
    """Whether an ordinary user may connect to a Unix socket."""
    command = ["/bin/busybox", "test", "-w", str(path)]
    return subprocess.run(command, check=False, **NOBODY).returncode == 0


def put_as_anybody(port: int, roles: Sequence[str]) -> int:
    """The status of a change of the data without credentials: on TCP every local user is equal."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request("PUT", "/v1/data/docker/local_roles", json.dumps(roles), headers)
        return connection.getresponse().status


def findings(installed: Installation) -> dict[str, str]:
    return {finding.what: finding.level for finding in diagnose(installed)}


def nothing(_text: str) -> None:
    pass


def test_ordinary_user_who_may_write_to_the_decision_point_decides(
    daemon: PrivateDaemon, wanted: Installation, shared: Path
) -> None:
    """What a decision point on TCP without a token lets happen, and what `doctor` says of it."""
    policies = write_policies(shared / "docker", local_roles=["viewer"])
    port = free_port()
    installed = replace(wanted, url=f"http://127.0.0.1:{port}{DECISION}")
    with decision_point(policies, listens_at(port), f"--addr=127.0.0.1:{port}"):
        install(installed, nothing)
        prune = ("POST", "/v1.41/volumes/prune")
        assert daemon.raw(*prune).status == 403
        assert findings(installed)[OPEN] == "fail"
        assert put_as_anybody(port, ["operator"]) == 204
        assert daemon.raw(*prune).status == 200
        uninstall(installed, nothing)


def test_recipe_on_a_unix_socket_is_for_root_alone(
    daemon: PrivateDaemon, wanted: Installation, shared: Path
) -> None:
    policies = write_policies(shared / "docker", local_roles=["viewer"])
    folder = shared / "private"
    folder.mkdir(mode=0o700)
    path = folder / "socket"
    installed = replace(wanted, url=f"http+unix://{quote(str(path), safe='')}{DECISION}")
    options = ("--unix-socket-perm=666", f"--addr=unix://{path}")
    with decision_point(policies, path.is_socket, *options):
        install(installed, nothing)
        assert daemon.raw("GET", LIST).status == 200
        assert daemon.raw("POST", "/v1.41/volumes/prune").status == 403
        assert not is_writable(path)
        assert OPEN not in findings(installed)
        # What the recipe's folder is for.
        folder.chmod(0o755)
        assert is_writable(path)
        assert findings(installed)[OPEN] == "fail"
        uninstall(installed, nothing)


def test_recipe_with_a_token_lets_no_ordinary_user_write(
    daemon: PrivateDaemon, wanted: Installation, shared: Path
) -> None:
    policies = write_policies(shared / "docker", local_roles=["viewer"], token="root-alone")
    (policies / "system.rego").write_text(TOKENS)
    port = free_port()
    installed = replace(wanted, url=f"http://127.0.0.1:{port}{DECISION}")
    options = (f"--addr=127.0.0.1:{port}", "--authentication=token", "--authorization=basic")
    with decision_point(policies, listens_at(port), *options):
        install(installed, nothing)
        assert daemon.raw("GET", LIST).status == 200
        assert put_as_anybody(port, ["operator"]) == 401
        assert daemon.raw("POST", "/v1.41/volumes/prune").status == 403
        assert OPEN not in findings(installed)
        uninstall(installed, nothing)


class _Allows(http.server.BaseHTTPRequestHandler):
    """A decision point that allows everything."""

    def do_POST(self) -> None:
        assert isinstance(self.server, _Liar)
        self.server.questions += 1
        body = b'{"result": {"allow": true}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Liar(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    questions = 0


@contextmanager
def liar_at(port: int) -> Iterator[_Liar]:
    """What an ordinary user may start at the other address of the name `localhost`."""
    liar = _Liar(("::1", port), _Allows)
    thread = threading.Thread(target=liar.serve_forever)
    thread.start()
    try:
        yield liar
    finally:
        liar.shutdown()
        thread.join()
        liar.server_close()


def test_nobody_at_the_other_address_of_localhost_decides(
    daemon: PrivateDaemon, wanted: Installation, shared: Path
) -> None:
    policies = write_policies(shared / "docker", local_roles=["operator"])
    port = free_port()
    installed = replace(wanted, url=f"http://localhost:{port}{DECISION}")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            decision_point(policies, listens_at(port), f"--addr=127.0.0.1:{port}")
        )
        install(installed, nothing)
        liar = stack.enter_context(liar_at(port))
        forbidden = {"Image": "img:1", "HostConfig": {"Privileged": True, "NetworkMode": "none"}}
        create = "/v1.41/containers/create"
        assert daemon.json("POST", create, forbidden).status == 403
        for address in ("::1", "127.0.0.1", ""):
            bindings = {"80/tcp": [{"HostIp": address, "HostPort": str(port)}]}
            body = {"Image": "img:1", "HostConfig": {"PortBindings": bindings}}
            refused = daemon.json("POST", create, body)
            assert refused.status == 403
            assert f"host port {port} is the decision point's" in refused.message
        server.terminate()
        server.wait(PATIENCE)
        refused = daemon.raw("GET", LIST)
        assert (refused.status, liar.questions) == (403, 0)
        assert "policy server cannot be reached" in refused.message
        uninstall(installed, nothing)
