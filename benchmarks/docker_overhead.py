"""What the Docker plugin costs: each call of the engine's API with it and without it, in one run.

Starts a private daemon (root, docker.io), installs the plugin with the shipped policies decided in
its own process, and asks the same calls in turns: `python -m benchmarks.docker_overhead`.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from examples.docker.private_daemon import PrivateDaemon, missing

from doorward.docker.installer import Installation, install, uninstall

ROUNDS = 5
CALLS = 200
BODY = {"Image": "nosuch:1", "Cmd": ["true"], "HostConfig": {"Memory": 1 << 26}}


def main() -> int:
    """Print the medians, in milliseconds of wall time for each call."""
    reason = missing()
    if reason:
        print(f"cannot measure: {reason}")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="dw-bench-"))
    daemon = PrivateDaemon(folder)
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    daemon.prepare()
    try:
        daemon.start()
        _measure(daemon, folder)
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(daemon: PrivateDaemon, folder: Path) -> None:
    wanted = Installation(
        name="doorward-bench",
        daemon_json=daemon.config,
        pidfile=daemon.pidfile,
        socket=daemon.socket,
        systemd=False,
        state=folder / "state",
        pack_folder=folder / "pack",
        audit_log=str(folder / "audit.log"),
    )
    calls: dict[str, Callable[[], object]] = {
        "GET /containers/json": lambda: daemon.raw("GET", "/v1.41/containers/json"),
        "POST /containers/create": lambda: daemon.json("POST", "/v1.41/containers/create", BODY),
    }
    found: dict[tuple[str, bool], list[float]] = {}
    for _ in range(ROUNDS):
        for installed in (False, True):
            if installed:
                install(wanted, lambda _text: None)
            for name, call in calls.items():
                found.setdefault((name, installed), []).extend(_times(call))
            if installed:
                uninstall(wanted, lambda _text: None)
    for name in calls:
        without = statistics.median(found[name, False]) * 1000
        with_it = statistics.median(found[name, True]) * 1000
        print(
            f"{name:24} {without:.2f} ms without, {with_it:.2f} ms with: +{with_it - without:.2f}"
        )


def _times(call: Callable[[], object]) -> list[float]:
    found = []
    for number in range(CALLS + 20):
        started = time.perf_counter()
        call()
        if number >= 20:
            found.append(time.perf_counter() - started)
    return found


if __name__ == "__main__":
    sys.exit(main())
