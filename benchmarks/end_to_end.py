"""What the layer costs end to end: the same requests through Envoy without and with the check.

usage: python -m benchmarks.end_to_end [--seconds S] [--soak S]

A second Envoy answers in the application's place, so that no application is measured. Decision
point, Envoy and this client share the machine: the figures compare with each other, and with
nothing else. With `--soak`, the check is loaded that long, and the memory of both parts is watched.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "examples/people"))

from acceptance.ports import choose_ports
from acceptance.stack import Stack
from acceptance.tokens import make_tokens
from acceptance.wire import write_request
from doorward.envoy.kit.bootstrap import Bootstrap, to_document

CONNECTIONS: Final = 8
WARM_UP: Final = 2.0
SETTLED: Final = 30.0
"""Seconds of a soak after which memory is expected not to grow any more."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Answering(Stack):
    """The example with an Envoy in the application's place, and with or without the check."""

    def __init__(self, folder: Path, *, checked: bool) -> None:
        super().__init__(folder, choose_ports(0))
        self._checked = checked

    def __enter__(self) -> Answering:
        super().__enter__()
        return self

    def pid(self, name: str) -> int:
        """The id of a part's process."""
        return self._parts[name].pid

    def _launch_people(self) -> None:
        document = to_document(Bootstrap(listen=f"127.0.0.1:{self.ports.people}"))
        _manager(document)["http_filters"] = _manager(document)["http_filters"][-1:]
        (route,) = _manager(document)["route_config"]["virtual_hosts"][0]["routes"]
        del route["route"]
        route["direct_response"] = {"status": 200, "body": {"inline_string": "[]"}}
        del _manager(document)["access_log"]
        self._launch_from(document, "people")

    def _write_envoy_yaml(self) -> Path:
        options = Bootstrap(
            listen=f"127.0.0.1:{self.ports.envoy}", upstream=f"127.0.0.1:{self.ports.people}"
        )
        document = to_document(options)
        if not self._checked:
            filters = _manager(document)["http_filters"]
            _manager(document)["http_filters"] = [
                each for each in filters if "authz" not in str(each)
            ]
        file = self.folder / "envoy.yaml"
        file.write_text(json.dumps(document))
        return file

    def _envoy_answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.ports.envoy), timeout=1):
            return True

    def _launch_from(self, document: dict[str, Any], name: str) -> None:
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(document))
        envoy = Path(sys.executable).with_name("envoy")
        command = [str(envoy), "--config-path", str(file), "--disable-hot-restart"]
        self._launch(name, [*command, "--concurrency", "1", "--log-level", "error"])


def _manager(document: dict[str, Any]) -> Any:
    chain = document["static_resources"]["listeners"][0]["filter_chains"][0]
    return chain["filters"][0]["typed_config"]


@dataclass(slots=True)
class Sample:
    """What came back, and how long each took, in seconds."""

    statuses: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    sent: float = 0.0
    received: bytes = b""


def load(port: int, request: bytes, seconds: float, *, latencies: bool = True) -> Sample:
    """Send the request again and again, on each connection one at a time."""
    sample, begin = Sample(), time.perf_counter()
    with selectors.DefaultSelector() as selector, _connections(port) as connections:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            _send(connection, request)
        while time.perf_counter() < begin + seconds:
            for key, _ in selector.select(timeout=1):
                connection = key.data
                connection.received += connection.socket.recv(65536)
                if _is_whole(connection.received):
                    sample.statuses[connection.received[9:12].decode()] += 1
                    if latencies:
                        sample.latencies.append(time.perf_counter() - connection.sent)
                    _send(connection, request)
    sample.seconds = time.perf_counter() - begin
    return sample


@contextmanager
def _connections(port: int) -> Iterator[list[_Connection]]:
    opened = [
        _Connection(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)
    ]
    try:
        yield opened
    finally:
        for connection in opened:
            connection.socket.close()


def _send(connection: _Connection, request: bytes) -> None:
    connection.sent, connection.received = time.perf_counter(), b""
    connection.socket.sendall(request)


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return len(body) >= length


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _memory(pid: int) -> float:
    """MiB that are resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / (1 << 20)


def _measure(name: str, stack: Answering, request: bytes, seconds: float) -> None:
    load(stack.ports.envoy, request, WARM_UP)
    parts = ("envoy", "doorward", "people")
    before = {part: _cpu(stack.pid(part)) for part in parts}
    sample = load(stack.ports.envoy, request, seconds)
    count = sample.statuses.total()
    used = {part: (_cpu(stack.pid(part)) - before[part]) / count * 1e6 for part in parts}
    ordered = sorted(sample.latencies)
    print(
        f"| {name} | {count / sample.seconds:,.0f} | {ordered[count // 2] * 1e3:.2f} "
        f"| {ordered[count * 99 // 100] * 1e3:.2f} | {used['envoy']:.0f} | {used['doorward']:.0f} "
        f"| {dict(sample.statuses)} |",
        flush=True,
    )


def _soak(stack: Answering, request: bytes, seconds: float) -> None:
    load(stack.ports.envoy, request, SETTLED, latencies=False)
    parts = ("envoy", "doorward")
    first = {part: _memory(stack.pid(part)) for part in parts}
    statuses: Counter[str] = Counter()
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        statuses += load(stack.ports.envoy, request, 10, latencies=False).statuses
    for part in parts:
        last = _memory(stack.pid(part))
        growth = (last / first[part] - 1) * 100
        print(f"{part}: {first[part]:.1f} MiB, then {last:.1f} MiB: {growth:+.1f} %")
    print(f"{statuses.total() / seconds:,.0f} requests per second; answers: {dict(statuses)}")


def main() -> int:
    """Print the table, or what a soak found."""
    parser = argparse.ArgumentParser(description="End to end, without and with the check.")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--soak", type=float, default=0.0)
    options = parser.parse_args()
    if not options.soak:
        print("| | requests/s | p50 ms | p99 ms | Envoy µs | decision point µs | answers |")
        print("|---|---|---|---|---|---|---|")
    for checked in [True] if options.soak else [False, True]:
        with (
            tempfile.TemporaryDirectory() as folder,
            Answering(Path(folder), checked=checked) as stack,
        ):
            token = make_tokens(stack.secret)["guest"]
            headers = (("authorization", f"Bearer {token}"),)
            allowed, denied = (
                write_request("GET", "/people", given).replace(b"connection: close\r\n", b"")
                for given in (headers, ())
            )
            if options.soak:
                _soak(stack, allowed, options.soak)
            elif checked:
                _measure("check, allowed", stack, allowed, options.seconds)
                _measure("check, denied", stack, denied, options.seconds)
            else:
                _measure("no check", stack, allowed, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
