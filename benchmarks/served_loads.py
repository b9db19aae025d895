"""Clients of the servers that are measured: they make calls, and say how long those took."""

from __future__ import annotations

import base64
import json
import re
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from benchmarks import http1_load, http2_load
from benchmarks.cases import CASES
from benchmarks.check_server import METHOD, request_bytes
from doorward.envoy.kit.bootstrap import Bootstrap, to_document

__all__ = [
    "EnvoyLoad",
    "GrpcLoad",
    "HttpLoad",
    "Load",
    "Run",
    "WorkersLoad",
    "docker_call",
    "docker_request",
]

START_SECONDS = 60


class Run(NamedTuple):
    """Seconds: those that each call took, or a call on average, and those of the whole."""

    times: list[float]
    seconds: float


class Load(Protocol):
    """Connections to a server, which make calls."""

    def run(self, calls: int) -> Run: ...
    def close(self) -> None: ...


class HttpLoad:
    def __init__(self, path: str, requests: Sequence[bytes], connections: int) -> None:
        self._connections = http1_load.Connections(path, requests, connections)

    def run(self, calls: int) -> Run:
        begun = time.perf_counter()
        return Run(self._connections.run(calls)[1], time.perf_counter() - begun)

    def close(self) -> None:
        self._connections.close()


class GrpcLoad:
    """Checks in turn: of the people policy where none are named."""

    def __init__(self, path: str, in_flight: int, requests: Sequence[bytes] = ()) -> None:
        requests = requests or [request_bytes(CASES["people"]())]
        self._connection = http2_load.Connection(Path(path), METHOD, *requests)
        self._in_flight = in_flight

    def run(self, calls: int) -> Run:
        begun = time.perf_counter()
        self._connection.run(calls, self._in_flight)
        seconds = time.perf_counter() - begun
        return Run([seconds / calls * self._in_flight], seconds)

    def close(self) -> None:
        self._connection.close()


def sockets_of_workers(path: str) -> list[str]:
    """The sockets of the gRPC server at `path`, one for each worker."""
    each = sorted(Path(path).parent.glob(f"{Path(path).name}.[0-9]"))
    return [str(one) for one in each] or [path]


class WorkersLoad:
    """Calls that go to all workers at the same time, one connection each, from h2load: a client in
    Python would take the processors that the workers need."""

    def __init__(self, path: str, in_flight: int) -> None:
        self._paths = sockets_of_workers(path)
        request = request_bytes(CASES["people"]())
        self._body = Path(f"{path}.body")
        self._body.write_bytes(b"\0" + struct.pack(">I", len(request)) + request)
        self._in_flight = in_flight

    def run(self, calls: int) -> Run:
        share = calls // len(self._paths)
        outputs = self._outputs(share)
        seconds = [_h2load_seconds(output, share) for output in outputs]
        return Run([each * self._in_flight / share for each in seconds], max(seconds))

    def _outputs(self, share: int) -> list[str]:
        """What an h2load for each worker says of `share` calls over one connection."""
        clients = [
            subprocess.Popen(
                [
                    *("h2load", "-n", str(share), "-c", "1", "-m", str(self._in_flight)),
                    *("-d", str(self._body), "-H", "content-type: application/grpc"),
                    *("-H", "te: trailers", "--base-uri", f"unix:{path}"),
                    f"http://localhost{METHOD}",
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for path in self._paths
        ]
        return [client.communicate()[0] for client in clients]

    def close(self) -> None:
        """Every connection is closed."""


_FINISHED: Final = re.compile(r"finished in ([0-9.]+)(us|ms|s),.*, (\d+) succeeded", re.DOTALL)
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def _h2load_seconds(output: str, calls: int) -> float:
    """How long h2load took for so many calls; ConnectionError where one failed."""
    match = _FINISHED.search(output)
    if match is None or int(match[3]) != calls:
        raise ConnectionError(output)
    return float(match[1]) * _UNITS[match[2]]


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

    def run(self, calls: int) -> Run:
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
    call = _compact(docker_call(name))
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
        "RequestBody": base64.b64encode(_compact(body)).decode(),
    }


def _compact(document: object) -> bytes:
    """JSON as Go writes it."""
    return json.dumps(document, separators=(",", ":")).encode()
