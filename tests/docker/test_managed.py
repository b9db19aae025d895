"""The managed plugin: built from this environment, created, enabled and in force."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.waiting import wait_until

from doorward.docker.decider.embedded import PACK


@pytest.fixture
def built(root: Path, tmp_path: Path, daemon: PrivateDaemon) -> Iterator[Path]:
    folder = tmp_path / "plugin"
    script = [sys.executable, "scripts/docker_plugin.py", str(folder)]
    done = subprocess.run(script, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield folder
    daemon.chain()
    daemon.docker("plugin", "disable", "-f", "doorward-managed")
    daemon.docker("plugin", "rm", "-f", "doorward-managed")
    shutil.rmtree(folder)


def test_managed_plugin_is_in_force(daemon: PrivateDaemon, built: Path, tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    shutil.copytree(PACK, policies)
    data = (policies / "data.json").read_text()
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "link").symlink_to("/etc")
    allowed = data.replace('"allow": [], "nfs', f'"allow": ["{tmp_path}/allowed"], "nfs')
    assert allowed != data
    (policies / "data.json").write_text(allowed)
    name = "doorward-managed"

    def docker(*arguments: str) -> None:
        done = daemon.docker("plugin", *arguments)
        assert done.returncode == 0, done.stderr + daemon.log[-1500:]

    docker("create", name, str(built))
    docker("set", name, f"policies.source={policies}")
    # dockerd waits nine seconds until a plugin listens, and a busy machine may take longer.
    wait_until(lambda: not daemon.docker("plugin", "enable", name).returncode, lambda: daemon.log)
    daemon.chain(name)
    assert daemon.docker("ps").returncode == 0
    create = "/v1.41/containers/create"
    answer = daemon.json("POST", create, {"Image": "img:1", "HostConfig": {"Privileged": True}})
    reason = f"authorization denied by plugin {name}:latest: privileged is not allowed"
    assert (answer.status, answer.message) == (403, reason)
    # Links are followed on the host, not in the plugin. It does not ask the daemon
    # about containers, and so mounts nothing.
    for path, expected in (
        (f"{tmp_path}/allowed", "host paths are mounted only where the plugin runs with --inspect"),
        (f"{tmp_path}/allowed/link", f"host path {tmp_path}/allowed/link may not be mounted"),
    ):
        body = {"Image": "img:1", "Cmd": ["true"], "HostConfig": {"Binds": [f"{path}:/h"]}}
        answer = daemon.json("POST", create, body)
        assert answer.status == 403
        assert expected in answer.message
    denied = daemon.docker("plugin", "disable", name)
    assert "a local user may not plugin.disable" in denied.stderr
