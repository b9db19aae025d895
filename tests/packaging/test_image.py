"""The container image, built on a root file system made of Debian packages by a daemon of our own.

It takes minutes and the package registries, so it is a part of `make soak`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from examples.docker.private_daemon import PrivateDaemon
from tests.ports import free_port
from tests.waiting import wait_until

from doorward.docker.decider.embedded import PACK

pytestmark = pytest.mark.soak

ROOT: Final = Path(__file__).resolve().parents[2]
MINUTES: Final = 60.0
PACKAGES: Final = ("python3", "python3-pip", "python-is-python3", "ca-certificates")
# How this machine reaches the registries is how the image that is built reaches them.
HOST_FILES: Final = (
    "etc/pip.conf",
    "etc/npmrc",
    "etc/apt/apt.conf.d",
    "etc/ssl/certs/ca-certificates.crt",
)
HOST_VARIABLES: Final = ("PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
POLICY: Final = "package app\n\nallow if input.user == data.owner\n"


@pytest.fixture(scope="module")
def daemon() -> Iterator[PrivateDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="dwd-"))
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def image(daemon: PrivateDaemon) -> str:
    release = dict(
        line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if line
    )
    system = daemon.folder / "system"
    run(
        "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}",
        release["VERSION_CODENAME"], str(system),
    )  # fmt: skip
    for marker in system.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()  # The image of Python that the file names by default lets pip install.
    for name in HOST_FILES:
        source, target = Path("/", name), system / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, target)
    archive = daemon.folder / "system.tar"
    run("tar", "-C", str(system), "-cf", str(archive), ".")
    variables = [
        f"--change=ENV {key}={os.environ[key]}" for key in HOST_VARIABLES if key in os.environ
    ]
    docker(daemon, "import", *variables, str(archive), "base:1")
    docker(
        daemon, "build", "--network=host", "--build-arg=PYTHON=base:1", "-t", "doorward:1",
        "-f", str(ROOT / "deploy/Dockerfile"), str(ROOT),
    )  # fmt: skip
    return "doorward:1"


def run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60 * MINUTES, cwd="/"
    )
    assert done.returncode == 0, (command, done.stdout[-5000:], done.stderr[-5000:])
    return done.stdout


def docker(daemon: PrivateDaemon, *arguments: str) -> str:
    return run("env", "DOCKER_BUILDKIT=0", "docker", "-H", f"unix://{daemon.socket}", *arguments)


def test_commands_work_in_the_image(daemon: PrivateDaemon, image: str) -> None:
    base: tuple[str, ...] = ("run", "--rm", "--network=none", "--read-only", image)
    assert "decision" in docker(daemon, *base)
    assert docker(daemon, *base, "version").startswith("Version: ")
    answer = json.loads(docker(daemon, *base, "eval", "x := 1 + 1"))
    assert answer["result"][0]["bindings"] == {"x": 2}
    # The policies of the Docker pack are files of the package.
    base = ("run", "--rm", "--network=none", "--read-only", "--tmpfs=/tmp", image)
    assert "/tmp/pack" in docker(daemon, *base, "docker", "policies", "/tmp/pack")


def test_a_server_in_the_image_decides_and_shows_the_console(
    daemon: PrivateDaemon, image: str
) -> None:
    folder = daemon.folder / "policies"
    folder.mkdir()
    (folder / "app.rego").write_text(POLICY)
    (folder / "data.json").write_text('{"owner": "ann"}')
    port, diagnostic = free_port(), free_port()
    container = docker(
        daemon, "run", "-d", "--network=host", "--read-only", "-v", f"{folder}:/policies:ro", image,
        "run", "--server", "--console", f"--addr=127.0.0.1:{port}",
        f"--diagnostic-addr=127.0.0.1:{diagnostic}", "/policies",
    ).strip()  # fmt: skip
    try:
        health = f"http://127.0.0.1:{port}/health"
        wait_until(lambda: answers(health), lambda: docker(daemon, "logs", container))
        body = json.dumps({"input": {"user": "ann"}}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/data/app/allow", body)
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["result"] is True
        with urllib.request.urlopen(f"http://127.0.0.1:{diagnostic}/console") as page:
            assert b"<script" in page.read()
        help_page = f"http://127.0.0.1:{diagnostic}/console/help/tutorial.html"
        with urllib.request.urlopen(help_page) as page:
            assert b"Tutorial" in page.read()
    finally:
        docker(daemon, "rm", "-f", container)


def test_the_proxy_in_the_image_serves_a_program(daemon: PrivateDaemon, image: str) -> None:
    """With the options of docs/docker-proxy.md, but for the paths of this daemon."""
    sockets, data = daemon.folder / "sockets", daemon.folder / "settings"
    sockets.mkdir()
    data.mkdir()
    document = json.loads((PACK / "data.json").read_text())
    document["docker"] |= {"users": {"socket:app": ["developer"]}, "local_roles": []}
    document["docker"]["mounts"]["allow"] = [f"{daemon.folder}/shared"]
    (data / "data.json").write_text(json.dumps(document))
    (daemon.folder / "shared").mkdir()
    (daemon.folder / "shared/link").symlink_to("/etc")
    socket = sockets / "app.sock"
    same = [f"-v={each}:{each}" for each in (daemon.folder, sockets, data)]
    container = docker(
        daemon, "run", "-d", "--user=0:0", "--network=none", "--read-only", "--cap-drop=ALL",
        "--cap-add=DAC_OVERRIDE", "--cap-add=CHOWN", "--security-opt=no-new-privileges", *same,
        "-v=/:/host:ro", image, "docker", "proxy", "--host-root=/host", f"--daemon={daemon.socket}",
        f"--consumer=app={socket}", f"--data={data}", f"--daemon-json={daemon.config}",
        f"--pidfile={daemon.pidfile}",
    ).strip()  # fmt: skip

    def through(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["docker", "-H", f"unix://{socket}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    try:
        wait_until(lambda: through("ps").returncode == 0, lambda: docker(daemon, "logs", container))
        create = ("create", "--network=none", "--rm")
        shared = f"{daemon.folder}/shared"
        assert through(*create, f"-v={shared}:/x", image).returncode == 0
        refused = through(*create, f"-v={shared}/link:/x", image)
        assert "shared/link may not be mounted" in refused.stderr
        assert "may not container.prune" in through("container", "prune", "-f").stderr
    finally:
        docker(daemon, "rm", "-f", container)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
