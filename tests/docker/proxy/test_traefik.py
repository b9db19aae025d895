"""The real Traefik with a socket of its own: its requests are allowed, and it sees containers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from examples.docker.private_daemon import PrivateDaemon
from tests.docker.proxied import proxied
from tests.ports import free_port
from tests.waiting import wait_until

TRAEFIK = str(Path(sys.executable).with_name("traefik"))


def test_traefik_gets_what_it_asks_for(daemon: PrivateDaemon, tmp_path: Path) -> None:
    with proxied(daemon, tmp_path, "admin", consumers={"traefik": "traefik"}) as behind:
        labels = ("--label", "traefik.http.routers.web.rule=Host(`web.test`)")
        run = ("run", "-d", "--name", "web", "--network", "none", *labels, "-e", "X=secret")
        assert behind.docker(*run, "img:1", "sleep", "999").returncode == 0
        command = [
            TRAEFIK, f"--providers.docker.endpoint=unix://{behind.at('traefik').socket}",
            f"--entryPoints.web.address=127.0.0.1:{free_port()}", "--log.level=DEBUG",
            "--global.sendAnonymousUsage=false", "--global.checkNewVersion=false",
        ]  # fmt: skip
        log = tmp_path / "traefik.log"
        try:
            with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as it:
                try:
                    wait_until(
                        lambda: (
                            {"system.events", "container.inspect"}
                            <= {
                                line["action"]
                                for line in behind.decided()
                                if "traefik" in line["user"]
                            }
                        ),
                        lambda: log.read_text(),
                    )
                    wait_until(lambda: "web" in log.read_text())
                finally:
                    it.terminate()
            lines = [line for line in behind.decided() if line["user"] == "socket:traefik"]
            assert {line["decision"] for line in lines} == {"allow"}
            assert "secret" not in log.read_text()
        finally:
            behind.docker("rm", "-f", "web")
