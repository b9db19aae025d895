"""Served requests -> CPU microseconds of the server's processes for each, next to OPA's.

    python -m benchmarks.served [--opa PATH] [--only TEXT] [--rounds 7] [--calls 400] [--json FILE]
                                [--markdown docs/performance.md]

Every server runs as its users run it (`doorward run`, `opa run`), and all get the same bytes in
turn, round by round: of several short rounds the least is what a quiet machine would show. CPU is
that of a server's processes together, user and system. `bare` answers a constant behind the same
parser and is the floor of what HTTP costs in Python. Behind Envoy each server has an Envoy of its
own, whose CPU is not counted. Without `--opa` there is no peer in the run.
`--markdown` writes the rows between two marks of that page, with their goals, and beside it a plot
of the time of a Check over the calls in flight.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks import http1_load, http2_load
from benchmarks.cases import CASES
from benchmarks.check_server import METHOD, request_bytes
from doorward.envoy.kit.bootstrap import Bootstrap, to_document

START_SECONDS = 60
PICTURE = "served.svg"
BEGIN, END = "<!-- served: begin -->", "<!-- served: end -->"
IN_FLIGHT = (1, 2, 4, 8, 16, 32)
"""Of the plot; the rows of the table are some of these."""
GOALS = {
    ("Check, 1 in flight", "doorward, log off"): 45,
    ("Check, 8 in flight", "doorward, log off"): 28,
    ("Check, 8 in flight", "doorward, log on"): 55,
    ("Check, 32 in flight", "doorward, log off"): 28,
    ("Check, 32 in flight", "doorward, log on"): 55,
    ("POST /v1/data, 16 connections", "doorward, log off"): 50,
    ("POST /v1/data, 16 connections", "doorward, log on"): 75,
    ("AuthZReq, 1 connections", "doorward, audit log"): 80,
    ("AuthZReq, each another, 1 connections", "doorward, audit log"): 80,
    ("AuthZReq, 8 connections", "doorward, audit log"): 80,
    ("AuthZReq, each another, 8 connections", "doorward, audit log"): 80,
    ("AuthZReq, 1 connections", "doorward, no audit log"): 60,
    ("AuthZReq, each another, 1 connections", "doorward, no audit log"): 60,
    ("AuthZReq, 8 connections", "doorward, no audit log"): 60,
    ("AuthZReq, each another, 8 connections", "doorward, no audit log"): 60,
    ("Behind Envoy, 8 connections", "doorward, log off"): 60,
}
"""Microseconds that a row should cost at most."""
OURS, OPAS = "doorward, log off", "opa, log off"
ONE, TWO = "doorward, 1 workers", "doorward, 2 workers"
RATIOS = (
    (
        "p50 behind Envoy at 1 connection over OPA's",
        "Behind Envoy, 1 ",
        "p50",
        OURS,
        OPAS,
        "≤ 0.45",
    ),
    ("the same at 8", "Behind Envoy, 8 ", "p50", OURS, OPAS, "≤ 0.32"),
    (
        "requests/s of two workers over one's, 200 µs each",
        "Check of 200 µs",
        "rate",
        TWO,
        ONE,
        "≥ 1.8",
    ),
    ("requests per CPU second of two workers over one's", "Check, by", "least", ONE, TWO, "≥ 0.9"),
    (
        "least share of a worker of two, behind Envoy",
        "Behind Envoy, by",
        "share",
        TWO,
        ONE,
        "≥ 0.4",
    ),
)
"""What is compared: the start of a row's name, what of it, of which server over which, the goal."""
SLOW_POLICY = """\
package envoy.authz

allow if {
	first := count(input.attributes.request.http.method)
	count([n | some n in numbers.range(first, 2000); n % 7 == 0]) == 285
}
"""
"""A decision of about 200 microseconds, which no decision before it makes cheaper."""


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
    policy: str = ""
    """Instead of the people policy."""


class HttpLoad:
    def __init__(self, path: str, requests: Sequence[bytes], connections: int) -> None:
        self._connections = http1_load.Connections(path, requests, connections)

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


def sockets_of_workers(path: str) -> list[str]:
    """The sockets of the gRPC server at `path`, one for each worker."""
    each = sorted(Path(path).parent.glob(f"{Path(path).name}.[0-9]"))
    return [str(one) for one in each] or [path]


class SharedLoad:
    """Calls that go to all workers at the same time, over two connections in all."""

    def __init__(self, path: str, in_flight: int) -> None:
        paths = sockets_of_workers(path)
        self._loads = [GrpcLoad(each, in_flight) for each in (paths * 2)[: max(2, len(paths))]]
        self._threads = ThreadPoolExecutor(len(self._loads))

    def run(self, calls: int) -> list[float]:
        share = calls // len(self._loads)
        runs = [self._threads.submit(each.run, share) for each in self._loads]
        return [time for run in runs for time in run.result()]

    def close(self) -> None:
        self._threads.shutdown()
        for each in self._loads:
            each.close()


class EnvoyLoad:
    """Requests through an Envoy that asks the server at `path`, and answers what it allows."""

    def __init__(self, path: str, connections: int) -> None:
        listen = f"{path}.envoy"
        pdp = tuple(f"unix:{each}" for each in sockets_of_workers(f"{path}.grpc"))
        document: Any = to_document(Bootstrap(listen=f"unix:{listen}", pdp=pdp))
        chain = document["static_resources"]["listeners"][0]["filter_chains"][0]
        del chain["filters"][0]["typed_config"]["access_log"]
        (host,) = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
        for route in host["routes"]:
            del route["route"]
            route["direct_response"] = {"status": 200}
        file = Path(f"{path}.json")
        file.write_text(json.dumps(document))
        self._process = subprocess.Popen(
            [
                *(str(Path(sys.executable).with_name("envoy")), "--config-path", str(file)),
                *("--disable-hot-restart", "--concurrency", "1", "--log-level", "off"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self._load = HttpLoad(listen, [_people_request()], connections)
                self._load.run(connections)
                return
            except (OSError, ConnectionError):
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def run(self, calls: int) -> list[float]:
        return self._load.run(calls)

    def close(self) -> None:
        self._load.close()
        self._process.terminate()
        self._process.wait()


def _people_request() -> bytes:
    """What the people policy is asked about, as a client sends it."""
    http: Any = CASES["people"]().input["attributes"]["request"]["http"]
    wanted = ("authorization", "accept")
    headers = [(name, value) for name, value in http["headers"].items() if name in wanted]
    return http1_load.request_bytes(http["method"], http["path"], http["body"].encode(), headers)


def docker_request(name: str) -> bytes:
    """A call of the daemon; it keeps its connection."""
    call = json.dumps(docker_call(name)).encode()
    return (
        b"POST /AuthZPlugin.AuthZReq HTTP/1.1\r\nHost: \r\nUser-Agent: Go-http-client/1.1\r\n"
        b"Content-Length: %d\r\nAccept: application/vnd.docker.plugins.v1.2+json\r\n\r\n%s"
        % (len(call), call)
    )


def docker_call(name: str = "x") -> dict[str, object]:
    """What the daemon sends when alice creates a container."""
    body = {
        "Image": "alpine",
        "Cmd": ["ls"],
        "HostConfig": {"NetworkMode": "none", "Memory": 0, "Binds": None},
    }
    return {
        "RequestMethod": "POST",
        "RequestUri": f"/v1.43/containers/create?name={name}",
        "User": "alice",
        "UserAuthNMethod": "TLS",
        "RequestHeaders": {"Content-Type": "application/json", "User-Agent": "Docker-Client/24"},
        "RequestBody": base64.b64encode(json.dumps(body).encode()).decode(),
    }


def doorward(*settings: str, name: str, workers: int = 1) -> Server:
    return Server(
        f"doorward, {name}",
        (
            *(sys.executable, "-m", "doorward", "run", "--server", "--addr", "unix://{socket}"),
            *("--no-watch", "--log-level", "error", "--workers", str(workers)),
            *(*_set(settings), "{folder}"),
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
        Work(f"{what}, {count} connections", servers, _http([request], count))
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
    rows += [Work(f"Check, {n} in flight", tuple(checks), _grpc(n)) for n in IN_FLIGHT]
    rows += [
        Work(f"Behind Envoy, {n} connections", tuple(checks), partial(EnvoyLoad, connections=n))
        for n in (1, 8)
    ]
    workers = tuple(doorward(grpc, query, name=f"{n} workers", workers=n) for n in (1, 2))
    rows += [
        Work("Check, by workers", workers, _shared),
        Work("Check of 200 µs, by workers", workers, _shared, policy=SLOW_POLICY),
        Work("Behind Envoy, by workers", workers, partial(EnvoyLoad, connections=8)),
    ]
    audited = Server(
        "doorward, audit log",
        (
            *(sys.executable, "-m", "doorward", "docker", "serve", "--socket", "{socket}"),
            *("--audit-log", "/dev/null"),
        ),
    )
    silent = Server("doorward, no audit log", (*audited.arguments[:-1], "off"))
    docker = audited, silent
    same = [docker_request("x")]
    others = [docker_request(f"x{number}") for number in range(3000)]
    rows += [
        Work(f"{what}, {count} connections", docker, _http(requests, count))
        for what, requests in (("AuthZReq", same), ("AuthZReq, each another", others))
        for count in (1, 8)
    ]
    return rows


def _shared(path: str) -> Load:
    return SharedLoad(f"{path}.grpc", 16)


def _http(requests: Sequence[bytes], count: int) -> Callable[[str], Load]:
    return lambda socket: HttpLoad(socket, requests, count)


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
    return time.clock_gettime_ns(clock) + sum(map(cpu_ns, children(pid)))


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    listings = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for listing in listings for child in listing.read_text().split()]


def measure(work: Work, rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """For each server: least and median CPU microseconds of a request, its p50 and p99, the
    requests per second in the median round, and the least share of CPU that one worker had."""
    costs: dict[str, list[float]] = {each.name: [] for each in work.servers}
    times: dict[str, list[float]] = {each.name: [] for each in work.servers}
    rates: dict[str, list[float]] = {each.name: [] for each in work.servers}
    shares: dict[str, float] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policies = folder / "policies"
        write_policies(policies, work.policy)
        running: dict[str, tuple[int, Load]] = {}
        for number, server in enumerate(work.servers):
            socket = folder / f"{number}.sock"
            pid = stack.enter_context(started(server, policies, socket))
            load = work.connect(str(socket))
            stack.callback(load.close)
            load.run(calls * 5)
            running[server.name] = (pid, load)
        begun = {name: list(map(cpu_ns, children(pid))) for name, (pid, _) in running.items()}
        for _ in range(rounds):
            for name, (pid, load) in running.items():
                before, start = cpu_ns(pid), time.perf_counter()
                times[name] += load.run(calls)
                rates[name].append(calls / (time.perf_counter() - start))
                costs[name].append((cpu_ns(pid) - before) / calls / 1000)
        for name, (pid, _) in running.items():
            pairs = zip(map(cpu_ns, children(pid)), begun[name], strict=True)
            used = [after - before for after, before in pairs]
            shares[name] = min(used) / sum(used) if used else 1.0
    return {
        name: {
            "least": min(rounds_of),
            "median": statistics.median(rounds_of),
            "p50": statistics.median(times[name]) * 1e6,
            "p99": sorted(times[name])[int(len(times[name]) * 0.99)] * 1e6,
            "rate": statistics.median(rates[name]),
            "share": shares[name],
        }
        for name, rounds_of in costs.items()
    }


def write_policies(folder: Path, policy: str = "") -> None:
    """The people policy and its data, or another policy, as files."""
    case = CASES["people"]()
    folder.mkdir()
    (folder / "policy.rego").write_text(policy or case.source)
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


def started_in(servers: int = 5) -> tuple[float, float]:
    """Seconds from a start of the sidecar to its first answer, and of CPU for that: the least."""
    seconds, cpu = [], []
    with tempfile.TemporaryDirectory() as folder:
        policies = Path(folder) / "policies"
        write_policies(policies)
        for number in range(servers):
            path = Path(folder) / f"{number}.sock"
            begun = time.perf_counter()
            arguments = [
                each.replace("{folder}", str(policies)).replace("{socket}", str(path))
                for each in _sidecar().arguments
            ]
            with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
                try:
                    load = _connected(f"{path}.grpc")
                    load.run(1)
                    seconds.append(time.perf_counter() - begun)
                    cpu.append(cpu_ns(process.pid) / 1e9)
                    load.close()
                finally:
                    process.terminate()
    return min(seconds), min(cpu)


def _connected(path: str) -> GrpcLoad:
    """A connection to a server that is about to listen."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return GrpcLoad(path, 1)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.001)


def memory() -> tuple[float, float]:
    """Megabytes: of an idle sidecar (RSS), and of one worker more after 10,000 Checks (PSS)."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policies = folder / "policies"
        write_policies(policies)
        idle = stack.enter_context(started(_sidecar(), policies, folder / "idle"))
        parent = stack.enter_context(started(_sidecar(workers=2), policies, folder / "two"))
        load = SharedLoad(f"{folder}/two.grpc", 16)
        load.run(10_000)
        load.close()
        return (
            _kilobytes(f"/proc/{idle}/status", "VmRSS") / 1024,
            max(_kilobytes(f"/proc/{each}/smaps_rollup", "Pss") for each in children(parent))
            / 1024,
        )


def _kilobytes(path: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+)", Path(path).read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1])


def _sidecar(workers: int = 1) -> Server:
    return doorward(
        "plugins.envoy_ext_authz_grpc.addr=unix://{socket}.grpc",
        "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow",
        name="sidecar",
        workers=workers,
    )


Measured = dict[str, dict[str, dict[str, float]]]


def page(measured: Measured) -> str:
    """What was measured, as the table of a page."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        "| work | server | least µs | median µs | goal | p50 ms | requests/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for work, servers in measured.items():
        for name, row in servers.items():
            goal = GOALS.get((work, name))
            least = f"{row['least']:.0f}"
            shown = f"**{least}**" if goal is not None and row["least"] > goal else least
            lines.append(
                f"| {work} | {name} | {shown} | {row['median']:.0f} | {goal or ''} |"
                f" {row['p50'] / 1000:.2f} | {row['rate']:,.0f} |"
            )
    return "\n".join(
        [
            "Written by `python -m benchmarks.served --markdown docs/performance.md`: CPU of all",
            "processes of a server for each request, least and median of interleaved rounds.",
            "What misses its goal is set in bold.",
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()};",
            f"load of the machine (1, 5, 15 minutes) when it was written: {load}.",
            "",
            *lines,
            "",
            *compared(measured),
        ]
    )


def compared(measured: Measured) -> list[str]:
    """What servers of one row are to each other, as the table of a page."""
    lines = ["| comparison | value | goal |", "|---|---|---|"]
    for name, start, key, ours, theirs, goal in RATIOS:
        for work, servers in measured.items():
            if work.startswith(start) and ours in servers and theirs in servers:
                value = servers[ours][key] / servers[theirs][key]
                wanted = float(goal[2:])
                is_met = value <= wanted if goal.startswith("≤") else value >= wanted
                shown = f"{value:.2f}" if is_met else f"**{value:.2f}**"
                lines.append(f"| {name} | {shown} | {goal} |")
    return lines


def plot(measured: Measured) -> str:
    """The time of a Check over the calls in flight, a line for each server; both logarithmic."""
    rows = {n: measured[f"Check, {n} in flight"] for n in IN_FLIGHT}
    names = list(rows[1])
    colours = ("#3a7", "#7b5", "#c53", "#e97", "#a36")
    width, height, left, bottom = 720, 360, 60, 320
    times = [row[name]["p50"] for row in rows.values() for name in names]
    low, high = math.log10(min(times)), math.log10(max(times))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="11">'
    ]

    def point(n: int, microseconds: float) -> tuple[float, float]:
        x = left + 420 * math.log2(n) / math.log2(IN_FLIGHT[-1])
        return x, bottom - 290 * (math.log10(microseconds) - low) / (high - low)

    for n in IN_FLIGHT:
        x, _ = point(n, min(times))
        parts.append(f'<text x="{x:.0f}" y="{bottom + 16}" text-anchor="middle">{n}</text>')
        parts.append(f'<line x1="{x:.0f}" y1="24" x2="{x:.0f}" y2="{bottom}" stroke="#ddd"/>')
    parts.append(f'<text x="{left}" y="{bottom + 34}">calls in flight; time of one in ms</text>')
    for number, name in enumerate(names):
        colour = colours[number % len(colours)]
        points = [point(n, rows[n][name]["p50"]) for n in IN_FLIGHT]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for n in (IN_FLIGHT[0], IN_FLIGHT[-1]):
            x, y = point(n, rows[n][name]["p50"])
            text = f"{rows[n][name]['p50'] / 1000:.2f}"
            parts.append(f'<text x="{x:.0f}" y="{y - 4:.0f}" fill="{colour}">{text}</text>')
        y = 40 + 18 * number
        parts.append(f'<text x="{left + 460}" y="{y}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def write(target: Path, measured: Measured) -> None:
    """Put the table between its marks in a page, and the plot beside the page."""
    before, rest = target.read_text().split(BEGIN)
    _, after = rest.split(END)
    target.write_text(f"{before}{BEGIN}\n{page(measured)}\n{END}{after}")
    (target.parent / PICTURE).write_text(plot(measured))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time per served request, next to OPA's")
    parser.add_argument("--opa", help="OPA's program, with its Envoy plugin")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--servers", default="", help="servers whose name holds this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=400, help="requests in a round")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--markdown", type=Path, help="the page to write the rows into")
    parser.add_argument("--process", action="store_true", help="measure start and memory only")
    parser.add_argument("--constant", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.constant:
        serve_constant(options.constant)
        return 0
    if options.process:
        seconds, cpu = started_in()
        idle, worker = memory()
        print(f"start to first answer: {seconds:.2f} s, {cpu:.2f} s of CPU")
        print(f"idle sidecar: {idle:.1f} MB (RSS); one worker more: {worker:.1f} MB (PSS)")
        return 0
    measured: Measured = {}
    columns = ("least", "median", "p50", "p99", "rate", "share")
    print(f"{'CPU microseconds per request':44}", *[f"{each:>8}" for each in columns])
    for work in works(options.opa):
        if options.only not in work.name:
            continue
        servers = tuple(each for each in work.servers if options.servers in each.name)
        work = replace(work, servers=servers)
        measured[work.name] = measure(work, options.rounds, options.calls)
        for name, row in measured[work.name].items():
            numbers = " ".join(f"{row[key]:8.{2 * (key == 'share')}f}" for key in columns)
            print(f"{work.name:26} {name:17} {numbers}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1))
    if options.markdown:
        write(options.markdown, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
