"""What is written by hand is what generated code reads."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan as Remote
from opentelemetry.trace import (
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from doorward.telemetry.otlp import Record, logs_message, spans_message

VALUES: dict[str, Any] = {
    "text": "grüße\x00",
    "flag": True,
    "large": 2**62,
    "negative": -3,
    "real": 0.25,
    "list": ["a", "b"],
}


def test_a_span_is_read_as_it_was_made() -> None:
    provider = TracerProvider(resource=Resource({"service.name": "s"}), shutdown_on_exit=False)
    tracer = provider.get_tracer("scope", "1.2")
    parent = SpanContext(
        1, 2, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("k", "v")])
    )
    context = set_span_in_context(Remote(parent))
    span: Any = tracer.start_span("n" * 300, context, kind=SpanKind.SERVER, start_time=5)
    span.set_attributes(VALUES)
    span.set_status(StatusCode.ERROR)
    span.end(7)
    other: Any = tracer.start_span("other", start_time=1)
    other.end(2)
    request = ExportTraceServiceRequest.FromString(spans_message([span, other]))
    (group,) = request.resource_spans
    assert [(each.key, each.value.string_value) for each in group.resource.attributes] == [
        ("service.name", "s")
    ]
    (scope,) = group.instrumentation_library_spans
    assert scope.instrumentation_library.name == "scope"
    assert scope.instrumentation_library.version == "1.2"
    read, second = scope.spans
    assert read.trace_id == (1).to_bytes(16, "big")
    assert read.parent_span_id == (2).to_bytes(8, "big")
    assert read.span_id == span.context.span_id.to_bytes(8, "big")
    assert (read.name, read.trace_state, read.kind) == ("n" * 300, "k=v", read.SPAN_KIND_SERVER)
    assert (read.start_time_unix_nano, read.end_time_unix_nano) == (5, 7)
    assert read.status.code == 2
    values = {each.key: each.value for each in read.attributes}
    assert values["text"].string_value == "grüße\x00"
    assert values["flag"].bool_value is True
    assert values["large"].int_value == 2**62
    assert values["negative"].int_value == -3
    assert values["real"].double_value == 0.25
    assert [each.string_value for each in values["list"].array_value.values] == ["a", "b"]
    assert second.parent_span_id == b""
    assert second.status.code == 0


def test_a_record_is_read_as_it_was_made() -> None:
    records = [Record(9, "{}", {"n": 1}, b"t" * 16, b"s" * 8), Record(10, "[]", {})]
    message = logs_message({"service.name": "s"}, ("scope", "1"), records)
    (group,) = ExportLogsServiceRequest.FromString(message).resource_logs
    first, second = group.instrumentation_library_logs[0].logs
    assert (first.time_unix_nano, first.body.string_value) == (9, "{}")
    assert (first.trace_id, first.span_id) == (b"t" * 16, b"s" * 8)
    assert first.attributes[0].value.int_value == 1
    assert (second.body.string_value, second.trace_id) == ("[]", b"")
    assert second.severity_text == "INFO"
