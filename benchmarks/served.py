"""Served requests -> CPU microseconds of the server's processes for each, next to OPA's.

    python -m benchmarks.served [--opa PATH] [--only TEXT] [--rounds 7] [--calls 400] [--json FILE]

Every server runs as its users run it (`doorward run`, `opa run`), and all get the same bytes in
turn, round by round: of several short rounds the least is what a quiet machine would show. CPU is
that of a server's processes together, user and system. `bare` answers a constant behind the same
parser and is the floor of what HTTP costs in Python. Without `--opa` the figures recorded in
`docs/performance.md` stand for OPA.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks import http1_load, http2_load
from benchmarks.cases import CASES
from benchmarks.check_server import METHOD, request_bytes

START_SECONDS = 60


class Load(Protocol):
    """Connections to a server: `run` makes calls, and returns the seconds that each took."""

    def run(self, calls: int) -> list[float]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Server:
    """A server and how it is started: `{folder}` and `{socket}` in its arguments are filled in."""

    name: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """One row: what is sent, at how many at once, of which servers."""

    name: str
    servers: tuple[Server, ...]
    connect: Callable[[str], Load]


class HttpLoad:
    def __init__(self, path: str, request: bytes, connections: int) -> None:
        self._connections = http1_load.Connections(path, request, connections)

    def run(self, calls: int) -> list[float]:
        return self._connections.run(calls)[1]

    def close(self) -> None:
        self._connections.close()


class GrpcLoad:
    def __init__(self, path: str, in_flight: int) -> None:
        request = request_bytes(CASES["people"]())
        self._connection = http2_load.Connection(Path(path), METHOD, request)
        self._in_flight = in_flight

    def run(self, calls: int) -> list[float]:
        begun = time.perf_counter()
        self._connection.run(calls, self._in_flight)
        return [(time.perf_counter() - begun) / calls * self._in_flight]

    def close(self) -> None:
        self._connection.close()


def doorward(*settings: str, name: str) -> Server:
    return Server(
        f"doorward, {name}",
        (
            *(sys.executable, "-m", "doorward", "run", "--server", "--addr", "unix://{socket}"),
            *("--no-watch", "--log-level", "error", *_set(settings), "{folder}"),
        ),
    )


def opa(program: str, *settings: str, name: str, tuned: bool = False) -> Server:
    return Server(
        f"opa, {name}",
        (
            *(program, "run", "--server", "--addr", "unix://{socket}", "--log-level", "error"),
            *("--disable-telemetry", *_set(settings), "{folder}"),
        ),
        (("GOMAXPROCS", "1"), ("GOGC", "800")) if tuned else (),
    )


def _set(settings: tuple[str, ...]) -> list[str]:
    return [part for each in settings for part in ("--set", each)]


BARE = Server("bare", (sys.executable, "-m", "benchmarks.served", "--constant", "{socket}"))
LOG = "decision_logs.console=true"


def works(program: str | None) -> list[Work]:
    """All rows; with OPA's servers where its program is given."""
    body = json.dumps({"input": CASES["people"]().input}).encode()
    path = "/v1/data/envoy/authz/allow"
    post = http1_load.request_bytes("POST", path, body)
    get = http1_load.request_bytes("GET", path)
    peers: list[Server] = []
    if program:
        peers = [
            opa(program, name="log off"),
            opa(program, name="log off, tuned", tuned=True),
            opa(program, LOG, name="log on"),
        ]
    servers = (BARE, doorward(name="log off"), doorward(LOG, name="log on"), *peers)
    rows = [
        Work(f"{what}, {count} connections", servers, _http(request, count))
        for what, request in (("POST /v1/data", post), ("GET /v1/data", get))
        for count in (1, 16)
    ]
    grpc = "plugins.envoy_ext_authz_grpc.addr=unix://{socket}.grpc"
    query = "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow"
    checks = [
        doorward(grpc, query, name="log off"),
        doorward(grpc, query, LOG, name="log on"),
    ]
    if program:
        checks += [
            opa(program, grpc, query, name="log off"),
            opa(program, grpc, query, name="log off, tuned", tuned=True),
            opa(program, grpc, query, LOG, name="log on"),
        ]
    return rows + [
        Work(f"Check, {count} in flight", tuple(checks), _grpc(count)) for count in (1, 8, 32)
    ]


def _http(request: bytes, count: int) -> Callable[[str], Load]:
    return lambda socket: HttpLoad(socket, request, count)


def _grpc(count: int) -> Callable[[str], Load]:
    return lambda socket: GrpcLoad(f"{socket}.grpc", count)


@contextmanager
def started(server: Server, folder: Path, socket: Path) -> Iterator[int]:
    """The process of a server that takes connections."""
    names = {"folder": str(folder), "socket": str(socket)}
    arguments = [each.replace("{folder}", names["folder"]) for each in server.arguments]
    arguments = [each.replace("{socket}", names["socket"]) for each in arguments]
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **dict(server.environment)},
    )
    try:
        until = time.monotonic() + START_SECONDS
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{server.name} did not start: {' '.join(arguments)}")
            time.sleep(0.05)
        time.sleep(0.5)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_ns(pid: int) -> int:
    """CPU time of a process and its children, in nanoseconds."""
    clock = ((~pid) << 3) | 2  # the clock of a process, as clock_getcpuclockid(3) makes it
    total = time.clock_gettime_ns(clock)
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        total += sum(cpu_ns(int(child)) for child in listing.read_text().split())
    return total


def measure(work: Work, rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """For each server: least and median CPU microseconds of a request, and its p50 and p99."""
    costs: dict[str, list[float]] = {each.name: [] for each in work.servers}
    times: dict[str, list[float]] = {each.name: [] for each in work.servers}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policies = folder / "policies"
        write_policies(policies)
        running: dict[str, tuple[int, Load]] = {}
        for number, server in enumerate(work.servers):
            socket = folder / f"{number}.sock"
            pid = stack.enter_context(started(server, policies, socket))
            load = work.connect(str(socket))
            stack.callback(load.close)
            load.run(calls * 5)
            running[server.name] = (pid, load)
        for _ in range(rounds):
            for name, (pid, load) in running.items():
                before = cpu_ns(pid)
                times[name] += load.run(calls)
                costs[name].append((cpu_ns(pid) - before) / calls / 1000)
    return {
        name: {
            "least": min(rounds_of),
            "median": statistics.median(rounds_of),
            "p50": statistics.median(times[name]) * 1e6,
            "p99": sorted(times[name])[int(len(times[name]) * 0.99)] * 1e6,
        }
        for name, rounds_of in costs.items()
    }


def write_policies(folder: Path) -> None:
    """The people policy and its data, as files."""
    case = CASES["people"]()
    folder.mkdir()
    (folder / "policy.rego").write_text(case.source)
    (folder / "data.json").write_text(json.dumps(case.data))


def serve_constant(path: str) -> None:
    """Answers every request with the same bytes: a parser, a loop, and nothing else."""
    import asyncio

    from httptools import HttpRequestParser

    from doorward.transport.loop import new_loop

    answer = (
        b"HTTP/1.1 200 OK\r\ndate: Sun, 22 Nov 2026 12:00:00 GMT\r\ncontent-type: application/json"
        b'\r\nvary: Accept-Encoding\r\ncontent-length: 16\r\n\r\n{"result":true}\n'
    )

    class Constant(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.parser = HttpRequestParser(self)

        def data_received(self, data: bytes) -> None:
            self.parser.feed_data(data)

        def on_url(self, url: bytes) -> None:
            self.url = url

        def on_header(self, name: bytes, value: bytes) -> None:
            self.last = name

        def on_body(self, body: bytes) -> None:
            self.body = body

        def on_message_complete(self) -> None:
            self.transport.write(answer)

    loop = new_loop()
    loop.run_until_complete(loop.create_unix_server(Constant, path))
    loop.add_signal_handler(signal.SIGTERM, loop.stop)
    loop.run_forever()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time per served request, next to OPA's")
    parser.add_argument("--opa", help="OPA's program, with its Envoy plugin")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--servers", default="", help="servers whose name holds this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=400, help="requests in a round")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--constant", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.constant:
        serve_constant(options.constant)
        return 0
    measured = {}
    print(f"{'CPU microseconds per request':44} {'least':>8} {'median':>8} {'p50':>8} {'p99':>8}")
    for work in works(options.opa):
        if options.only not in work.name:
            continue
        servers = tuple(each for each in work.servers if options.servers in each.name)
        work = Work(work.name, servers, work.connect)
        measured[work.name] = measure(work, options.rounds, options.calls)
        for name, row in measured[work.name].items():
            numbers = " ".join(f"{row[key]:8.1f}" for key in ("least", "median", "p50", "p99"))
            print(f"{work.name:26} {name:17} {numbers}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
