"""Messages arrive over HTTP and gRPC, encrypted or not, and are tried again where that helps."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.telemetry.collectors import Collector, grpc_collector, http_collector
from tests.transport.certificates import Authority
from tests.waiting import PATIENCE, wait_until

from doorward.config.blocks import ConfigError
from doorward.config.trace_options import TraceOptions
from doorward.telemetry.otlp import spans_message
from doorward.telemetry.otlp_sender import SPANS, OtlpError, sender_for


def message() -> bytes:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
    span.end()
    return spans_message([span])


def over_http(collector: Collector, **options: object) -> TraceOptions:
    target = f"http://{collector.address}/v1/traces"
    return TraceOptions("http", target, **{"timeout": PATIENCE, **options})  # type: ignore[arg-type]


def test_headers_and_compression_are_sent() -> None:
    with http_collector() as collector:
        sender = sender_for(over_http(collector, headers={"x-key": "k"}, zips=True), SPANS)
        sender.send(message())
        sender.close()
        assert [span.name for span in collector.spans] == ["s"]
        (headers,) = collector.requests
        assert headers["x-key"] == "k"
        assert headers["content-encoding"] == "gzip"
        assert headers["content-type"] == "application/x-protobuf"


def test_a_collector_that_is_busy_is_asked_again() -> None:
    with http_collector() as collector:
        collector.status = 503
        sender = sender_for(over_http(collector), SPANS)
        sending = threading.Thread(target=sender.send, args=(message(),))
        sending.start()
        wait_until(lambda: collector.requests)
        collector.status = 200
        sending.join()
        assert len(collector.spans) == 1
        sender.close()


def test_what_cannot_succeed_is_not_tried_again() -> None:
    with http_collector() as collector:
        collector.status = 400
        with pytest.raises(OtlpError, match="answered with 400"):
            sender_for(over_http(collector), SPANS).send(message())
        assert len(collector.requests) == 1
    with pytest.raises(OtlpError):
        sender_for(over_http(collector, timeout=0.1), SPANS).send(message())


def test_a_sender_that_is_closed_gives_up() -> None:
    with http_collector() as collector:
        collector.status = 503
        sender = sender_for(over_http(collector), SPANS)
        failed = threading.Event()

        def send() -> None:
            with pytest.raises(OtlpError):
                sender.send(message())
            failed.set()

        threading.Thread(target=send, daemon=True).start()
        wait_until(lambda: collector.requests)
        sender.close()
        assert failed.wait(PATIENCE)


def test_grpc_speaks_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("collector")
    own, own_key = authority.issue("client")
    pair = Path(key).read_bytes(), Path(certificate).read_bytes()
    credentials = grpc.ssl_server_credentials(
        [pair], authority.file.read_bytes(), require_client_auth=True
    )
    with grpc_collector(credentials) as collector:
        target = collector.address.replace("localhost", "127.0.0.1")
        options = TraceOptions(
            "grpc", target, is_encrypted=True, ca_certificate=str(authority.file), timeout=1.0
        )
        # Where the time was over before the refusal came, that is said.
        with pytest.raises(OtlpError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
            sender_for(options, SPANS).send(message())
        assert collector.spans == []
        known = TraceOptions(
            "grpc",
            target,
            is_encrypted=True,
            ca_certificate=str(authority.file),
            certificate=own,
            private_key=own_key,
            timeout=PATIENCE,
        )
        sender = sender_for(known, SPANS)
        sender.send(message())
        sender.close()
        assert [span.name for span in collector.spans] == ["s"]


def test_http_speaks_tls_with_a_collector_that_nobody_knows_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*Authority(tmp_path).issue("collector"))
    with http_collector(tls) as collector:
        target = f"https://{collector.address}/v1/traces"
        verified = TraceOptions("http", target, is_encrypted=True, timeout=0.5)
        # Where the time was over before the refusal came, that is said.
        with pytest.raises(OtlpError, match=r"verify failed|timed out|too long"):
            sender_for(verified, SPANS).send(message())
        unverified = TraceOptions(
            "http", target, is_encrypted=True, allow_insecure_tls=True, timeout=PATIENCE
        )
        sender = sender_for(unverified, SPANS)
        sender.send(message())
        sender.close()
        assert [span.name for span in collector.spans] == ["s"]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_certificates_that_cannot_be_read_are_refused(protocol: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    kind = "grpc" if protocol == "grpc" else "http"
    options = TraceOptions(kind, "localhost:1", is_encrypted=True, ca_certificate=missing)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no such file"):
        sender_for(options, SPANS)
