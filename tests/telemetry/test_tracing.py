"""Spans are made as the configuration and the environment say, and hold no secrets."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from doorward.rego import Engine, Environment
from doorward.rego.shared import HTTPRequest, HTTPResponse
from doorward.telemetry.traced_sender import TracedSender
from doorward.telemetry.tracing import Tracer, tracer_for


def no_header(_: str) -> str | None:
    return None


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracer(provider, TraceContextTextMapPropagator())


class Answers:
    """A sender without a network."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.requests: list[HTTPRequest] = []

    def send(self, request: HTTPRequest, deadline: float | None) -> HTTPResponse:
        self.requests.append(request)
        return HTTPResponse(self.status, str(self.status))


def ask(sender: TracedSender, url: str) -> Any:
    request = {"method": "GET", "url": url, "headers": {"traceparent": "mine", "x": "y"}}
    engine = Engine(
        modules={"p.rego": "package p\n\nx := http.send(input).status_code"},
        environment=Environment(http=sender),
    )
    return engine.prepare("data.p.x").value(request)


def test_the_environment_says_how_many_traces_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracer = tracer_for(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    with tracer.serve("x", no_header, {}) as served:
        served.named("y", {"http.response.status_code": 200})
        # What is not sampled has its ids all the same, as in OPA.
        assert tracer.logged("d") is not None
    assert tracer.logged("d") is None
    tracer.close()


def test_a_request_of_a_policy_tells_of_its_span(
    tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    inner = Answers(404)
    sender = TracedSender(inner)
    url = "http://user:secret@h:81/p?token=secret"
    assert ask(sender, url) == 404
    assert ("traceparent", "mine") in inner.requests[0].headers
    sender.tracer = tracer
    with tracer.serve("v1/data", no_header, {}):
        ask(sender, url)
    sent, served = exporter.get_finished_spans()
    context: Any = sent.context
    flags = int(context.trace_flags)
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"
    assert inner.requests[1].headers == (("x", "y"), ("traceparent", parent))
    assert inner.requests[1].url == url
    assert dict(sent.attributes or {}) == {
        "error.type": "404",
        "http.request.method": "GET",
        "http.response.status_code": 404,
        "server.address": "h",
        "server.port": 81,
        "url.full": "http://h:81/p",
    }
    assert sent.parent is not None
    assert served.context is not None
    assert sent.parent.span_id == served.context.span_id


@pytest.mark.parametrize(
    ("url", "public_url", "address"),
    [
        ("http://user:secret@h/p?token=secret", "http://h/p", "h"),
        ("https://127.0.0.1:8443/p", "https://127.0.0.1:8443/p", "127.0.0.1"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a", "::1"),
        ("http://user:secret@[2001:db8::1]/a?b", "http://[2001:db8::1]/a", "2001:db8::1"),
    ],
)
def test_the_url_of_a_span_names_the_host_and_no_user(
    url: str, public_url: str, address: str, tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    with tracer.send("GET", url):
        pass
    (sent,) = exporter.get_finished_spans()
    attributes = sent.attributes or {}
    assert (attributes["url.full"], attributes["server.address"]) == (public_url, address)


@pytest.mark.parametrize("url", ["http://h:99999/p", "http://["])
def test_a_malformed_url_is_a_network_error_with_and_without_traces(
    tracer: Tracer, url: str
) -> None:
    sender = TracedSender()
    engine = Engine(
        {
            "p.rego": "package p\n\nx := http.send("
            '{"method": "get", "url": input, "raise_error": false}).error.code'
        },
        environment=Environment(http=sender),
    )
    query = engine.prepare("data.p.x")
    untraced = query.value(url)
    sender.tracer = tracer
    assert query.value(url) == untraced == "eval_http_send_network_error"


def test_what_fails_fails_its_span_without_words(
    tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    with pytest.raises(ValueError, match="secret"), tracer.serve("v1/data", no_header, {}):
        raise ValueError("secret")
    (span,) = exporter.get_finished_spans()
    assert "secret" not in span.to_json()
    assert dict(span.attributes or {}) == {"error.type": "ValueError"}


def test_a_header_that_is_no_trace_begins_one(
    tracer: Tracer, exporter: InMemorySpanExporter
) -> None:
    bad: dict[str, str] = {"traceparent": "00-zz-1-1"}
    with tracer.serve("v1/data", lambda name: bad.get(name), {}):
        pass
    (span,) = exporter.get_finished_spans()
    assert span.parent is None
