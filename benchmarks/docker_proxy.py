"""What the Docker proxy costs: calls to the daemon directly and through it, in turns.

Starts a private daemon (root, docker.io), and the proxy as a process with the shipped policies.
Each round asks the same call on a kept connection to both, so that whatever else the machine does
meets both. Then an image of 300 MB is loaded both ways, and 200 streams of events are opened:
`python -m benchmarks.docker_proxy [ROUNDS]`.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from examples.docker.private_daemon import PrivateDaemon, missing

from doorward.docker.decider.embedded import PACK
from doorward.docker.unix_http import UnixConnection

ROUNDS = 1000
WARM = 50
STREAMS = 200
MEGABYTES = 300
DOORWARD = [sys.executable, "-c", "from doorward.cli.main import main; main()"]
CREATE = {"Image": "nosuch:1", "Cmd": ["true"], "HostConfig": {"Memory": 1 << 26}}
REAL = {"Image": "img:1", "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}}
CALLS: dict[str, tuple[str, str, object]] = {
    "GET /_ping": ("GET", "/_ping", None),
    "GET /containers/json": ("GET", "/v1.41/containers/json", None),
    "POST /containers/create, no image": ("POST", "/v1.41/containers/create", CREATE),
    "POST /containers/create": ("POST", "/v1.41/containers/create", REAL),
}
TICK = os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print p50 in milliseconds, the processor time of the proxy, and what streams cost."""
    reason = missing()
    if reason:
        print(f"cannot measure: {reason}")
        return 2
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with ExitStack() as stack:
        daemon = stack.enter_context(_daemon())
        proxy, path = stack.enter_context(_proxy(daemon))
        print(f"{'call':36} direct    +proxy   CPU of the proxy (µs)")
        for name, call in CALLS.items():
            most = rounds if name != "POST /containers/create" else min(rounds, 150)
            _print_call(name, daemon.socket, path, proxy.pid, call, most)
            _clear(daemon)
        _print_load(daemon, path, proxy.pid)
        _print_streams(path, proxy.pid)
    return 0


@contextmanager
def _daemon() -> Iterator[PrivateDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="dw-bench-"))
    daemon = PrivateDaemon(folder)
    daemon.prepare()
    try:
        daemon.start()
        daemon.import_image("img:1")
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _proxy(daemon: PrivateDaemon) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The proxy with the shipped policies, where root is an operator."""
    data = json.loads((PACK / "data.json").read_text())
    data["docker"]["users"] = {"root": ["operator"]}
    file = daemon.folder / "data.json"
    file.write_text(json.dumps(data))
    path = str(daemon.folder / "p.sock")
    command = [
        *DOORWARD, "docker", "proxy", "--daemon", daemon.socket, "--socket", path,
        "--data", str(file), "--audit-log", str(daemon.folder / "audit.log"), "--grace", "0.1",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while (
            not os.path.exists(path) or _ask(UnixConnection(path, 60), CALLS["GET /_ping"]) != 200
        ):
            time.sleep(0.05)
        yield process, path
    finally:
        process.terminate()
        process.wait()


def _ask(connection: http.client.HTTPConnection, call: tuple[str, str, object]) -> int:
    method, target, body = call
    content = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json"} if content else {}
    connection.request(method, target, content, headers)
    response = connection.getresponse()
    response.read()
    return response.status


def _print_call(
    name: str, direct: str, path: str, pid: int, call: tuple[str, str, object], rounds: int
) -> None:
    connections = [UnixConnection(each, 60) for each in (direct, path)]
    times: list[list[float]] = [[], []]
    for each in connections:
        for _ in range(WARM):
            _ask(each, call)
    for _ in range(rounds):
        for connection, taken in zip(connections, times, strict=True):
            begun = time.perf_counter()
            _ask(connection, call)
            taken.append(time.perf_counter() - begun)
    before = _cpu(pid)
    _repeat(lambda: _ask(connections[1], call), rounds)
    cpu = (_cpu(pid) - before) / rounds * 1e6
    base, through = (sorted(taken)[rounds // 2] * 1e3 for taken in times)
    print(f"{name:36} {base:6.3f}   {through - base:+6.3f}   {cpu:6.0f}")


def _repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def _cpu(pid: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _memory(pid: int) -> float:
    """Resident megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _clear(daemon: PrivateDaemon) -> None:
    identifiers = daemon.docker("ps", "-aq").stdout.split()
    if identifiers:
        daemon.docker("rm", "-f", *identifiers)


def _print_load(daemon: PrivateDaemon, path: str, pid: int) -> None:
    """Load an image of `MEGABYTES`, whose layer is random, by each way in turns."""
    file = daemon.folder / "big.tar"
    with tarfile.open(file, "w") as tar:
        for number in range(MEGABYTES // 10):
            entry = tarfile.TarInfo(f"f{number}")
            entry.size = 10 << 20
            tar.addfile(entry, io.BytesIO(os.urandom(entry.size)))
    assert daemon.docker("import", str(file), "big:1").returncode == 0
    assert daemon.docker("save", "-o", str(file), "big:1").returncode == 0
    best: dict[str, float] = {}
    memory, cpu = _peak(pid), _cpu(pid)
    for _ in range(3):
        for name, socket in (("direct", daemon.socket), ("proxy", path)):
            daemon.docker("rmi", "big:1")
            begun = time.perf_counter()
            command = ["docker", "-H", f"unix://{socket}", "load", "-i", str(file)]
            subprocess.run(command, check=True, capture_output=True)
            taken = time.perf_counter() - begun
            best[name] = min(taken, best.get(name, taken))
    ratio = best["direct"] / best["proxy"]
    print(f"docker load of {MEGABYTES} MB: {best['direct']:.2f} s, {best['proxy']:.2f} through it")
    print(
        f"  speed {ratio:.2f} of direct, CPU {(_cpu(pid) - cpu) / 3:.2f} s, "
        f"memory {_peak(pid) - memory:+.1f} MB at its peak"
    )


def _print_streams(path: str, pid: int) -> None:
    before, files = _memory(pid), len(os.listdir(f"/proc/{pid}/fd"))
    connections = []
    for _ in range(STREAMS):
        connection = UnixConnection(path, 60)
        connection.request("GET", "/v1.41/events")
        connections.append((connection, connection.getresponse()))
    opened = _memory(pid)
    for connection, response in connections:
        response.close()
        connection.close()
    while len(os.listdir(f"/proc/{pid}/fd")) > files + 5:
        time.sleep(0.1)
    print(
        f"{STREAMS} streams of events: {opened - before:+.1f} MB, "
        f"{len(os.listdir(f'/proc/{pid}/fd')) - files} files left afterwards"
    )


if __name__ == "__main__":
    sys.exit(main())
