"""Traces of a running server arrive at a collector, and go on in what policies ask."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2, external_auth_pb2_grpc
from tests.cli.test_run import Process
from tests.telemetry.collectors import Collector, grpc_collector, http_collector, texts_of
from tests.waiting import PATIENCE, wait_until

from doorward.config.configuration import parse_config
from doorward.server.sidecar import Sidecar
from doorward.server.sidecar_options import SidecarOptions, StartupError

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
POLICY = """\
package p

allow if input.n > 3

asked := http.send({{"method": "GET", "url": "http://127.0.0.1:{port}/x?secret=1"}}).status_code

check := {{"allowed": asked == 200}}
"""


@pytest.fixture
def seen() -> Iterator[tuple[int, list[dict[str, str]]]]:
    """The port of a service that policies ask, and the headers that it got."""
    headers: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], headers
    server.shutdown()
    server.server_close()


@pytest.fixture
def start(
    tmp_path: Path, seen: tuple[int, list[dict[str, str]]]
) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []
    (tmp_path / "p.rego").write_text(POLICY.format(port=seen[0]))

    def run(config: dict[str, Any], *arguments: str, **environment: str) -> Process:
        plugin = {"addr": f"unix://{tmp_path}/check.sock", "path": "p/check"}
        whole = {"decision_logs": {"console": True}, **config}
        whole["plugins"] = {"envoy_ext_authz_grpc": {**plugin, **config.get("plugins", {})}}
        (tmp_path / "c.json").write_text(json.dumps(whole))
        started.append(Process(tmp_path, "-c", "c.json", *arguments, "p.rego", **environment))
        assert started[-1].ready(), started[-1].log.read_text()
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


def tracing(kind: str, collector: Collector, **more: Any) -> dict[str, Any]:
    batch = {"batch_timeout_ms": 50}
    options = {"type": kind, "address": collector.address, "batch_span_processor_options": batch}
    return {"distributed_tracing": {**options, **more}}


def ask(server: Process, path: str, body: Any, **headers: str) -> Any:
    url = f"http://127.0.0.1:{server.port}{path}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, json.dumps(body).encode(), named)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def check(folder: Path, *metadata: tuple[str, str]) -> int:
    with grpc.insecure_channel(f"unix:{folder}/check.sock") as channel:
        stub = external_auth_pb2_grpc.AuthorizationStub(channel)
        request = external_auth_pb2.CheckRequest()
        request.attributes.request.http.method = "GET"
        request.attributes.request.http.path = "/"
        return int(stub.Check(request, metadata=metadata, timeout=PATIENCE).status.code)


@pytest.mark.parametrize("transport", ["http2", "grpcio"])
def test_a_trace_goes_from_the_caller_to_what_policies_ask(
    transport: str,
    start: Callable[..., Process],
    seen: tuple[int, list[dict[str, str]]],
    tmp_path: Path,
) -> None:
    with http_collector() as collector:
        more = {"service_name": "pdp", "resource": {"service_namespace": "ns"}}
        config = tracing("http", collector, **more) | {"plugins": {"transport": transport}}
        server = start(config)
        # One by the short path, one by the framework, one over gRPC.
        first = ask(server, "/v1/data/p/asked", {}, traceparent=PARENT)
        ask(server, "/v1/data/p/allow?metrics", {"input": {"n": 4}}, traceparent=PARENT)
        assert check(tmp_path, ("traceparent", PARENT)) == 0
        method = "envoy.service.auth.v3.Authorization/Check"
        wait_until(lambda: collector.named(method) and len(collector.named("v1/data")) == 2)
        spans = [*collector.named("v1/data"), *collector.named(method)]
        assert {span.trace_id.hex() for span in spans} == {TRACE}
        assert {span.parent_span_id.hex() for span in spans} == {"b7ad6b7169203331"}
        by_id = {span.span_id: span for span in spans}
        sent = collector.named("HTTP GET")
        assert [span.parent_span_id in by_id for span in sent] == [True, True]
        assert [each["traceparent"] for each in seen[1]] == [
            f"00-{TRACE}-{span.span_id.hex()}-01" for span in sent
        ]
        attributes = [texts_of(span.attributes) for span in spans]
        assert attributes[0]["opa.decision_id"] == first["decision_id"]
        assert attributes[0]["http.request.method"] == "POST"
        assert attributes[0]["url.path"] == "/v1/data/p/asked"
        assert attributes[0]["http.response.status_code"] == 200
        assert {each["http.route"] for each in attributes[:2]} == {"/v1/data/{path...}"}
        for each in attributes[:2]:
            assert {
                "client.address",
                "http.request.body.size",
                "http.response.body.size",
                "http.route",
                "network.peer.address",
                "network.peer.port",
                "network.protocol.version",
                "server.address",
                "server.port",
                "url.scheme",
                "user_agent.original",
            } <= each.keys()
        assert attributes[2]["rpc.service"] == "envoy.service.auth.v3.Authorization"
        assert texts_of(sent[0].attributes)["url.full"] == f"http://127.0.0.1:{seen[0]}/x"
        assert collector.resources[0]["service.name"] == "pdp"
        assert collector.resources[0]["service.namespace"] == "ns"
        # The log names the span of the request, as OPA does.
        events = wait_until(lambda: logged if len(logged := decisions(server)) == 3 else [])
        assert {(each["trace_id"], each["span_id"]) for each in events} == {
            (TRACE, span.span_id.hex()) for span in spans
        }
        assert server.end() == 0


def decisions(server: Process) -> list[dict[str, Any]]:
    return server.messages("Decision Log")


def test_spans_go_over_grpc_and_a_failure_is_said(start: Callable[..., Process]) -> None:
    with grpc_collector() as collector:
        server = start(tracing("grpc", collector))
        ask(server, "/v1/data/p/allow", {"input": {"n": 4}})
        status, _ = server.ask("/v1/data/p/%22", {})
        assert status == 500
        spans = wait_until(lambda: two if len(two := collector.named("v1/data")) == 2 else [])
        assert [span.status.code for span in spans] == [0, 2]
        assert texts_of(spans[1].attributes)["error.type"] == "500"
        assert collector.resources[0]["service.name"] == "opa"
        assert server.end() == 0


def test_as_many_traces_are_sampled_as_the_configuration_says(
    start: Callable[..., Process],
) -> None:
    with http_collector() as collector:
        server = start(tracing("http", collector, sample_percentage=0))
        ask(server, "/v1/data/p/allow", {"input": {"n": 4}})
        # Who calls decides for its own traces.
        ask(server, "/v1/data/p/allow", {"input": {"n": 4}}, traceparent=PARENT)
        assert server.end() == 0
        assert [span.trace_id.hex() for span in collector.named("v1/data")] == [TRACE]
        # The log has the ids of every trace.
        assert all(len(each["trace_id"]) == 32 for each in decisions(server))


def test_the_environment_asks_for_traces_of_several_workers(start: Callable[..., Process]) -> None:
    with http_collector() as collector:
        server = start(
            {},
            "--workers=2",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{collector.address}",
            OTEL_SERVICE_NAME="named",
            OTEL_BSP_SCHEDULE_DELAY="50",
        )
        ask(server, "/v1/data/p/allow", {"input": {"n": 4}})
        wait_until(lambda: collector.named("v1/data"))
        assert collector.resources[0]["service.name"] == "named"
        assert server.end() == 0


def test_a_collector_that_is_away_holds_nothing_up(start: Callable[..., Process]) -> None:
    with http_collector() as collector:
        collector.status = 503
        server = start(tracing("http", collector))
        assert ask(server, "/v1/data/p/allow", {"input": {"n": 4}})["result"] is True
        wait_until(lambda: collector.requests)
        assert server.end() == 0
        assert not collector.spans


def test_without_being_asked_nothing_of_it_is_loaded() -> None:
    code = (
        "from doorward.server.sidecar import Sidecar; import sys; "
        "from doorward.server.sidecar_options import SidecarOptions; "
        "sidecar = Sidecar(SidecarOptions(addresses=['unix:s'])); sidecar.close(); "
        "print([name for name in sys.modules if name.startswith('opentelemetry.')])"
    )
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_traces_without_the_library_are_refused_or_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "doorward.telemetry.tracing", None)
    config = parse_config("distributed_tracing: {type: grpc}")
    with pytest.raises(StartupError, match=r"distributed_tracing: .*doorward\[otel\]"):
        Sidecar(SidecarOptions(config=config, addresses=["unix:s"]))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    sidecar = Sidecar(SidecarOptions(addresses=[f"unix:{tmp_path}/s"]))
    sidecar.close()
    assert "Traces are off." in caplog.text


def test_propagators_that_nobody_knows_end_the_start(tmp_path: Path) -> None:
    environment = {"OTEL_PROPAGATORS": "b4", "OTEL_TRACES_EXPORTER": "otlp"}
    server = Process(tmp_path, **environment, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert server.process.wait(PATIENCE) == 1
    text = server.log.read_text()
    assert "error: OTEL_PROPAGATORS: the propagator `b4` is not known" in text
    assert "Traceback" not in text
