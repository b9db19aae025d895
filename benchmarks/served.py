"""Served requests -> CPU microseconds of the server's processes for each, next to OPA's.

    python -m benchmarks.served [--opa PATH] [--only TEXT] [--rounds 7] [--calls 400] [--json FILE]
                                [--markdown docs/performance.md]

Every server runs as its users run it (`doorward run`, `opa run`), and all get the same bytes in
turn, round by round: of several short rounds the least is what a quiet machine would show. CPU is
that of a server's processes together, user and system. `bare` answers a constant behind the same
parser and is the floor of what HTTP costs in Python. Behind Envoy each server has an Envoy of its
own, whose CPU is not counted. Rows by workers need h2load (of nghttp2). Without `--opa` there is no
peer in the run.
`--markdown` writes the rows between two marks of that page, with their goals, and beside it a plot
of the time of a Check over the calls in flight.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import http1_load
from benchmarks.cases import CASES
from benchmarks.check_server import request_bytes
from benchmarks.served_loads import (
    START_SECONDS,
    EnvoyLoad,
    GrpcLoad,
    HttpLoad,
    Load,
    WorkersLoad,
    docker_request,
)
from benchmarks.served_page import IN_FLIGHT, Measured, write
from benchmarks.tokens import hs256_cases, rs256_cases

TOKENS: Final = 5_000
"""Requests with a token of their own: more than a server gets in a run with the usual rounds."""
SLOW_POLICY = """\
package envoy.authz

allow if {
	first := count(input.attributes.request.http.method)
	count([n | some n in numbers.range(first, 2000); n % 7 == 0]) == 285
}
"""
"""A decision of about 200 microseconds, which no decision before it makes cheaper."""


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
    factor: int = 1
    """How many times as many calls as of other rows are made."""


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


BARE = Server("bare", (sys.executable, "-m", "benchmarks.constant", "{socket}"))
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
    cases = {"HS256": hs256_cases(TOKENS), "RS256": rs256_cases(TOKENS)}
    posts = {
        name: [
            http1_load.request_bytes("POST", path, json.dumps({"input": case.input}).encode())
            for case in each
        ]
        for name, each in cases.items()
    }
    rows += [
        Work(
            f"POST /v1/data, own {name} token, 16 connections",
            servers,
            _http(requests, 16),
            policy=cases[name][0].source,
        )
        for name, requests in posts.items()
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
        Work(
            f"Check, own {name} token, 16 in flight",
            tuple(checks),
            _grpc(16, [request_bytes(case) for case in each]),
            policy=each[0].source,
        )
        for name, each in cases.items()
    ]
    behind = BARE, *checks
    rows += [
        Work(f"Behind Envoy, {n} connections", behind, partial(EnvoyLoad, connections=n))
        for n in (1, 8)
    ]
    workers = tuple(doorward(grpc, query, name=f"{n} workers", workers=n) for n in (1, 2))
    rows += [
        Work("Check, by workers", workers, _workers, factor=20),
        Work("Check of 200 µs, by workers", workers, _workers, policy=SLOW_POLICY, factor=5),
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


def _workers(path: str) -> Load:
    return WorkersLoad(f"{path}.grpc", 16)


def _http(requests: Sequence[bytes], count: int) -> Callable[[str], Load]:
    return lambda socket: HttpLoad(socket, requests, count)


def _grpc(count: int, requests: Sequence[bytes] = ()) -> Callable[[str], Load]:
    return lambda socket: GrpcLoad(f"{socket}.grpc", count, requests)


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
    calls *= work.factor
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
            load.run(calls * 5 // work.factor)
            running[server.name] = (pid, load)
        begun = {name: list(map(cpu_ns, children(pid))) for name, (pid, _) in running.items()}
        for _ in range(rounds):
            for name, (pid, load) in running.items():
                before = cpu_ns(pid)
                run = load.run(calls)
                times[name] += run.times
                rates[name].append(calls / run.seconds)
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


def started_in(servers: int = 5) -> tuple[float, float]:
    """Seconds from a start of the sidecar to its first answer, and of CPU for that: the least.

    The byte code is cached, as that of installed code is.
    """
    seconds, cpu = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        policies = Path(folder) / "policies"
        write_policies(policies)
        for number in range(servers + 1):
            path = Path(folder) / f"{number}.sock"
            begun = time.perf_counter()
            arguments = [
                each.replace("{folder}", str(policies)).replace("{socket}", str(path))
                for each in _sidecar().arguments
            ]
            with subprocess.Popen(arguments, stderr=subprocess.DEVNULL, env=environment) as process:
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
        load = WorkersLoad(f"{folder}/two.grpc", 16)
        load.run(20_000)
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
    options = parser.parse_args(arguments)
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
