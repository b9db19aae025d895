"""Cost of decisions on responses: CPU of the decision point, and what a client waits behind Envoy.

    python -m benchmarks.responses [--requests 2000]

CPU is that of `answer` for the three messages of a response, the least of several runs. Times are
the median and the 95th percentile of requests one after the other, in turns through three Envoys:
without external processing, with a processor that lets everything pass at once, and with a policy
that masks a field. All three processors are on Doorward's own transport.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_connection, create_server
from time import monotonic, perf_counter_ns, process_time_ns
from typing import Any, Final

from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from doorward.bundles.loader import Loaded
from doorward.envoy.ext_proc.exchange import Processor
from doorward.envoy.ext_proc.options import ListOptions, Options
from doorward.envoy.ext_proc.server import ExtProcServer
from doorward.envoy.kit.bootstrap import Bootstrap, to_document
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build

RUNS: Final = 15
ROWS: Final = 200
WITHIN: Final = 60.0
"""Seconds in which Envoy has started."""
_FILTER: Final = "envoy.filters.http.ext_proc"
_MASK: Final = """
package envoy.response

default allow := false

allow if input.attributes.request.http.method == "GET"

remove contains ["items", "*", "lastname"]
"""
_LIST: Final = """
package envoy.response

default allow := false

allow if input.response.status == 200
"""
_RULE: Final = """
package people

include if input.item.owner == input.attributes.request.http.headers["x-user"]
"""
_REQUEST: Final = {
    ":method": "GET",
    ":path": "/people?team=kitchen",
    ":authority": "api.example.com",
    ":scheme": "http",
    "user-agent": "curl/8.5.0",
    "accept": "*/*",
    "x-user": "ann",
    "x-request-id": "792cd633-225c-41ee-8f15-e2e855a3d5db",
    "x-forwarded-proto": "http",
    "accept-encoding": "gzip",
}
_RESPONSE: Final = {
    ":status": "200",
    "content-type": "application/json",
    "content-length": "2000",
    "date": "Tue, 24 Nov 2026 01:13:18 GMT",
    "etag": '"1"',
    "x-envoy-upstream-service-time": "1",
}


def body_of(rows: int) -> bytes:
    """A list of people, of about 100 bytes each."""
    items = [
        {
            "id": number,
            "firstname": f"ann{number}",
            "lastname": "smith",
            "owner": "ann" if number % 2 else "bob",
            "since": "2026-01-01T10:00:00Z",
        }
        for number in range(rows)
    ]
    return json.dumps({"items": items}).encode()


def messages_of(body: bytes) -> list[bytes]:
    """The messages of one response."""
    request, response, last = (pb.ProcessingRequest() for _ in range(3))
    heads = (request.request_headers, _REQUEST), (response.response_headers, _RESPONSE)
    for out, headers in heads:
        for name, value in headers.items():
            out.headers.headers.add(key=name, raw_value=value.encode())
    request.request_headers.end_of_stream = True
    request.protocol_config.response_body_mode = 2
    fields = request.attributes[_FILTER].fields
    fields["source.address"].string_value = "192.0.2.1:1234"
    fields["request.protocol"].string_value = "HTTP/1.1"
    response.attributes[_FILTER].fields["response.code_details"].string_value = "via_upstream"
    last.response_body.body, last.response_body.end_of_stream = body, True
    return [bytes(each.SerializeToString()) for each in (request, response, last)]


def cpu_of(policy: str, body: bytes, options: Options, calls: int) -> float:
    """Microseconds of CPU for one response."""
    modules = {"response.rego": policy, "people.rego": _RULE}
    processor = Processor(PDP(build(Loaded(modules))), options)
    messages = messages_of(body)

    def respond() -> None:
        exchange = processor.open()
        for message in messages:
            exchange.answer(message)
        exchange.finish()
        exchange.close()

    def run() -> float:
        started = process_time_ns()
        for _ in range(calls):
            respond()
        return (process_time_ns() - started) / calls / 1000

    respond()
    gc.disable()
    try:
        return min(run() for _ in range(RUNS))
    finally:
        gc.enable()


def measure_cpu(calls: int = 200) -> dict[str, float]:
    """Microseconds of CPU by what is done."""
    lists = {"people": ListOptions(("items",), "people/include")}
    small, large = body_of(20), body_of(ROWS)
    return {
        f"a field is removed from {len(small)} bytes": cpu_of(_MASK, small, Options(), calls),
        f"{ROWS} rows are filtered, {len(large)} bytes": cpu_of(
            _LIST, large, Options(lists=lists), max(1, calls // 10)
        ),
    }


class _Continue:
    """Lets everything pass, as soon as it can be said."""

    def __init__(self) -> None:
        empty = [pb.ProcessingResponse() for _ in range(3)]
        empty[0].request_headers.SetInParent()
        empty[1].response_headers.SetInParent()
        empty[2].response_body.SetInParent()
        self._answers = iter([bytes(each.SerializeToString()) for each in empty])

    def answer(self, message: bytes) -> bytes:
        return next(self._answers)

    def finish(self) -> None:
        """Always complete."""

    def close(self) -> None:
        """Nothing is kept."""


class _ContinueServer(ExtProcServer):
    """The same server, which decides nothing."""

    def __init__(self, pdp: PDP, options: Options) -> None:
        super().__init__(pdp, options)
        self._processor.open = _Continue  # type: ignore[assignment, method-assign]  # as one of ours


@contextmanager
def application(body: bytes) -> Iterator[int]:
    """An HTTP server with one answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one segment, or TCP waits for the other side

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def envoy(folder: Path, upstream: int, responses: str | None) -> Iterator[int]:
    """The kit's Envoy without its check, so that only responses make the difference."""
    with closing(create_server(("127.0.0.1", 0))) as probe:
        port: int = probe.getsockname()[1]
    options = Bootstrap(
        listen=f"127.0.0.1:{port}",
        upstream=f"127.0.0.1:{upstream}",
        responses=() if responses is None else (responses,),
    )
    document = to_document(options)
    [chain] = document["static_resources"]["listeners"][0]["filter_chains"]
    manager = chain["filters"][0]["typed_config"]
    manager["http_filters"] = [
        each for each in manager["http_filters"] if "ext_authz" not in each["name"]
    ]
    manager["access_log"] = []
    file = folder / f"{port}.yaml"
    file.write_text(json.dumps(document))
    program = str(Path(sys.executable).with_name("envoy"))
    process = subprocess.Popen(
        [program, "-c", str(file), "--disable-hot-restart", "--concurrency", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = monotonic() + WITHIN
        while not _accepts(port):
            if monotonic() > until or process.poll() is not None:
                raise RuntimeError("Envoy does not start")
        yield port
    finally:
        process.terminate()
        process.wait()


def _accepts(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def ask(connection: http.client.HTTPConnection, requests: int) -> list[float]:
    """Milliseconds of each request."""
    times = []
    for _ in range(requests):
        started = perf_counter_ns()
        connection.request("GET", "/people", headers={"x-user": "ann"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"Envoy answers {answer.status}")
        times.append((perf_counter_ns() - started) / 1e6)
    return times


def measure_times(requests: int, rounds: int = 10) -> dict[str, tuple[float, float]]:
    """Median and 95th percentile in milliseconds, by the processor."""
    body = body_of(20)
    pdp = PDP(build(Loaded({"response.rego": _MASK, "people.rego": _RULE})))
    makers: dict[str, Callable[[PDP, Options], ExtProcServer] | None] = {
        "no processing": None,
        "a processor that continues": _ContinueServer,
        "a policy that removes a field": ExtProcServer,
    }
    times: dict[str, list[float]] = {name: [] for name in makers}
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        upstream = ends.enter_context(application(body))
        connections: dict[str, Any] = {}
        for number, (name, make) in enumerate(makers.items()):
            address = None
            if make is not None:
                address = f"unix:{folder}/{number}.sock"
                server = make(pdp, Options(addr=f"unix://{folder}/{number}.sock"))
                server.start()
                ends.callback(server.stop, 0)
            port = ends.enter_context(envoy(folder, upstream, address))
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connections[name] = ends.enter_context(closing(connection))
            ask(connection, 50)
        for _ in range(rounds):
            for name, connection in connections.items():
                times[name] += ask(connection, max(1, requests // rounds))
    return {
        name: (statistics.median(each), statistics.quantiles(each, n=20)[-1])
        for name, each in times.items()
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    options = parser.parse_args()
    for name, microseconds in measure_cpu().items():
        print(f"{name:50} {microseconds:9.1f} µs of CPU")
    for name, (median, late) in measure_times(options.requests).items():
        print(f"{name:50} {median:9.2f} ms, 95 % {late:.2f} ms")


if __name__ == "__main__":
    main()
