"""What the Docker plugin costs: each call of the engine's API with it and without it, in turns.

Starts three private daemons (root, docker.io): one without a plugin, one with a plugin that allows
everything at once, one with the installed plugin and the shipped policies. Each round asks each of
them the same call once, so that whatever else the machine does meets all three:
`python -m benchmarks.docker_overhead [ROUNDS]`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from examples.docker.private_daemon import PrivateDaemon, missing

from doorward.docker.install.installer import Installation, install, uninstall
from doorward.docker.plugin import Response

ROUNDS = 2000
WARM = 50
BODY = {"Image": "nosuch:1", "Cmd": ["true"], "HostConfig": {"Memory": 1 << 26}}
PERCENTILES = (10, 50, 90)

CALLS: dict[str, Callable[[PrivateDaemon], object]] = {
    "GET /_ping": lambda daemon: daemon.raw("GET", "/_ping"),
    "GET /containers/json": lambda daemon: daemon.raw("GET", "/v1.41/containers/json"),
    "POST /containers/create": lambda daemon: daemon.json("POST", "/v1.41/containers/create", BODY),
}


def main() -> int:
    """Print percentiles, in milliseconds of wall time for each call."""
    reason = missing()
    if reason:
        print(f"cannot measure: {reason}")
        return 2
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    Path("/run/docker/plugins").mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        daemons = {
            name: stack.enter_context(_daemon()) for name in ("without", "bare plugin", "doorward")
        }
        daemons["bare plugin"].plugin("doorward-bare", _allow)
        daemons["bare plugin"].chain("doorward-bare")
        stack.enter_context(_installed(daemons["doorward"]))
        for call, ask in CALLS.items():
            _print(call, _times(daemons, ask, rounds))
    return 0


def _allow(path: str, _body: bytes) -> Response:
    """What any plugin costs that decides nothing."""
    if path == "/Plugin.Activate":
        return Response(200, b'{"Implements":["authz"]}')
    return Response(200, b'{"Allow":true}')


@contextmanager
def _daemon() -> Iterator[PrivateDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="dw-bench-"))
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _installed(daemon: PrivateDaemon) -> Iterator[None]:
    wanted = Installation(
        name="doorward-bench",
        daemon_json=daemon.config,
        pidfile=daemon.pidfile,
        socket=daemon.socket,
        systemd=False,
        state=daemon.folder / "state",
        pack_folder=daemon.folder / "pack",
        audit_log=str(daemon.folder / "audit.log"),
    )
    install(wanted, lambda _text: None)
    try:
        yield
    finally:
        uninstall(wanted, lambda _text: None)


def _times(
    daemons: dict[str, PrivateDaemon], ask: Callable[[PrivateDaemon], object], rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in daemons}
    for number in range(WARM + rounds):
        for name, daemon in daemons.items():
            started = time.perf_counter()
            ask(daemon)
            if number >= WARM:
                times[name].append((time.perf_counter() - started) * 1000)
    return {name: sorted(each) for name, each in times.items()}


def _print(call: str, times: dict[str, list[float]]) -> None:
    print(call)
    base = times["without"]
    for name, each in times.items():
        values = [(each[len(each) * p // 100], base[len(base) * p // 100]) for p in PERCENTILES]
        text = "   ".join(
            f"p{p} {value:6.3f} (+{value - without:.3f})"
            for p, (value, without) in zip(PERCENTILES, values, strict=True)
        )
        print(f"  {name:12} {text}")


if __name__ == "__main__":
    sys.exit(main())
