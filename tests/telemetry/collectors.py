"""A receiver of OTLP as a collector is one, over HTTP and over gRPC, for spans and for logs."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

__all__ = ["Collector", "grpc_collector", "http_collector", "texts_of"]


def texts_of(attributes: Any) -> dict[str, Any]:
    """Attributes by their names."""
    return {
        each.key: each.value.string_value or each.value.int_value or each.value.double_value
        for each in attributes
    }


class Collector:
    """What came. `status`: what is answered over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.records: list[Any] = []
        self.requests: list[dict[str, str]] = []
        """The headers of each request over HTTP, by lower-case names."""
        self.status = 200
        self.address = ""

    def take_spans(self, request: Any) -> None:
        for group in request.resource_spans:
            self.resources.append(texts_of(group.resource.attributes))
            self.spans += [
                span for scope in group.instrumentation_library_spans for span in scope.spans
            ]

    def take_logs(self, content: bytes) -> None:
        for group in ExportLogsServiceRequest.FromString(content).resource_logs:
            self.resources.append(texts_of(group.resource.attributes))
            self.records += [
                each for scope in group.instrumentation_library_logs for each in scope.logs
            ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def http_collector(tls: ssl.SSLContext | None = None) -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                content = gzip.decompress(content)
            # What a test says when it sees a request holds for the next one.
            status = collector.status
            collector.requests.append({k.lower(): v for k, v in self.headers.items()})
            if status == 200:
                if self.path == "/v1/traces":
                    collector.take_spans(ExportTraceServiceRequest.FromString(content))
                else:
                    assert self.path == "/v1/logs", self.path
                    collector.take_logs(content)
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    collector.address = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield collector
    server.shutdown()
    server.server_close()


@contextmanager
def grpc_collector(credentials: Any = None) -> Iterator[Collector]:
    """`credentials`: of a server that speaks TLS."""
    collector = Collector()

    def export(request: Any, _: object) -> Any:
        collector.take_spans(request)
        return ExportTraceServiceResponse()

    make: Callable[..., Any] = grpc.unary_unary_rpc_method_handler
    method = make(
        export,
        request_deserializer=ExportTraceServiceRequest.FromString,
        response_serializer=ExportTraceServiceResponse.SerializeToString,
    )
    name = "opentelemetry.proto.collector.trace.v1.TraceService"
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(name, {"Export": method}),)
    )
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    collector.address = f"localhost:{port}"
    server.start()
    yield collector
    server.stop(0).wait()
