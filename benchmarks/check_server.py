"""One CheckRequest, many times -> CPU microseconds per Check in the server process.

Four server processes: two decide, on Doorward's own transport and on grpcio, two return a
constant. This process keeps the given number of calls outstanding, to each server in turn, round
by round. The difference between deciding and constant is the cost of decode, input, decision and
encode. The decision log is off.

    python benchmarks/check_server.py [--callers 16] [--calls 400] [--rounds 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cases import CASES, Case
from benchmarks.engines import Missing
from benchmarks.http2_load import Connection

METHOD = "/envoy.service.auth.v3.Authorization/Check"
STOP_SECONDS = 10
KINDS = ("doorward", "constant", "grpcio", "grpcio-constant")
Check = Callable[[bytes], bytes]


def request_bytes(case: Case) -> bytes:
    """The CheckRequest from which Envoy's attributes in the case's input come."""
    from envoy.service.auth.v3 import external_auth_pb2

    request = external_auth_pb2.CheckRequest()
    attributes = case.input["attributes"]
    for side in ("source", "destination"):
        address = attributes[side]["address"]["socketAddress"]
        socket_address = getattr(request.attributes, side).address.socket_address
        socket_address.address = address["address"]
        socket_address.port_value = address["portValue"]
    request.attributes.request.time.seconds = attributes["request"]["time"]["seconds"]
    request.attributes.request.time.nanos = attributes["request"]["time"]["nanos"]
    http = dict(attributes["request"]["http"])
    target = request.attributes.request.http
    target.headers.update(http.pop("headers"))
    for name, value in http.items():
        setattr(target, name, value)
    request.attributes.metadata_context.SetInParent()
    request.attributes.route_metadata_context.SetInParent()
    return bytes(request.SerializeToString())


def constant_check() -> Check:
    from envoy.service.auth.v3 import external_auth_pb2

    response = external_auth_pb2.CheckResponse()
    response.ok_response.SetInParent()
    response.dynamic_metadata["decision_id"] = "00000000-0000-4000-8000-000000000000"
    answer = bytes(response.SerializeToString())
    return lambda _: answer


def doorward_check(case: Case) -> Check:
    """The whole decision as the server makes it: strict, tokens remembered, no decision log."""
    from doorward.envoy.check import make_check
    from doorward.envoy.options import Options
    from doorward.pdp.pdp import PDP
    from doorward.pdp.snapshot import Snapshot
    from doorward.rego import Engine, Environment
    from doorward.rego.shared import VerifiedTokens

    engine = Engine(
        modules={"policy.rego": case.source},
        data=dict(case.data),
        environment=Environment(tokens=VerifiedTokens()),
    )
    pdp = PDP(Snapshot(engine, revision="benchmark", deadline=1.0))
    return make_check(pdp, Options(path="envoy/authz/allow", strict=True))


def allowed(answer: bytes) -> bool:
    from envoy.service.auth.v3 import external_auth_pb2

    return bool(external_auth_pb2.CheckResponse.FromString(answer).status.code == 0)


def serve(check: Check, socket: str, *, grpcio: bool) -> None:
    """Serves until standard input ends; prints its CPU time for every line read."""
    from doorward.envoy.grpcio_server import GrpcioServer
    from doorward.envoy.http2_server import Http2CheckServer
    from doorward.envoy.options import Options
    from doorward.envoy.serving import Server

    options = Options(addr=f"unix://{socket}")
    kind = GrpcioServer if grpcio else Http2CheckServer
    server: Server = kind({"v3": check}, options)
    server.start()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(time.process_time_ns(), flush=True)
    server.stop(grace=0.5)


class Process:
    """A server process, and its CPU clock."""

    def __init__(self, kind: str, socket: Path) -> None:
        self.socket = socket
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, "--socket", str(socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def cpu_ns(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write("cpu\n")
        self.process.stdin.flush()
        return int(self.line())


@contextmanager
def started(kind: str, folder: Path) -> Iterator[Process]:
    server = Process(kind, folder / f"{kind}.sock")
    try:
        if (said := server.line()) != "ready":
            raise Missing(said or f"the {kind} server ended with {server.process.wait(5)}")
        yield server
    finally:
        assert server.process.stdin is not None
        server.process.stdin.close()
        try:
            server.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


def measure(calls: int, rounds: int, callers: int) -> dict[str, list[float]]:
    """CPU microseconds per Check of each round, by kind of server.

    The calls of a round go over one connection, as from one Envoy worker. Many short rounds in
    turn find a quiet moment for both servers on a machine that does other things as well.
    """
    request = request_bytes(CASES["people"]())
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {kind: stack.enter_context(started(kind, folder)) for kind in costs}
        connections = {
            kind: stack.enter_context(closing(Connection(server.socket, METHOD, request)))
            for kind, server in servers.items()
        }
        for connection in connections.values():
            if not allowed(connection.run(calls * 5, callers)):  # this warms up, too
                raise Missing("the request is denied")
        for _ in range(rounds):
            for kind, server in servers.items():
                before = server.cpu_ns()
                connections[kind].run(calls, callers)
                costs[kind].append((server.cpu_ns() - before) / calls / 1000)
    return costs


def in_process(check: Check, request: bytes, calls: int) -> float:
    """CPU microseconds per Check without any transport."""
    if not allowed(check(request)):
        raise Missing("the request is denied")
    for _ in range(calls // 10):
        check(request)
    begin = time.process_time_ns()
    for _ in range(calls):
        check(request)
    return (time.process_time_ns() - begin) / calls / 1000


def report(costs: dict[str, list[float]], alone: float, callers: int) -> None:
    print(f"CPU microseconds per Check in the server process, {callers} callers")
    for kind, rounds in costs.items():
        print(f"  {kind:15} min {min(rounds):8.1f}   median {statistics.median(rounds):8.1f}")
    least = min(costs["doorward"]) - min(costs["constant"])
    middle = statistics.median(costs["doorward"]) - statistics.median(costs["constant"])
    print(f"  {'difference':15} min {least:8.1f}   median {middle:8.1f}")
    print(f"  {'check alone':15}     {alone:8.1f}   (no transport)")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="CPU time per Check in the gRPC server")
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--calls", type=int, default=400, help="calls in a round")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--socket", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    case = CASES["people"]()
    try:
        if options.serve:
            check = constant_check() if "constant" in options.serve else doorward_check(case)
            serve(check, options.socket, grpcio="grpcio" in options.serve)
            return 0
        alone = in_process(doorward_check(case), request_bytes(case), options.calls * 10)
        costs = measure(options.calls, options.rounds, options.callers)
    except (Missing, ImportError) as reason:
        print(f"cannot be measured: {reason}", flush=True)
        return 1
    if options.json:
        print(json.dumps({"callers": options.callers, "check": alone, **costs}, indent=1))
    else:
        report(costs, alone, options.callers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
