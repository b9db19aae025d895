"""Traces by OpenTelemetry: a span for each request that is served, and for each that is sent.

    traceparent of a caller -> `serve` -> the span of this thread or task -> `TracedSender`
        -> traceparent of requests of `http.send`, and `trace_id` of the decision log

This module is imported only if traces are on: it needs the extra `otel`. A thread of the library
sends the spans; if its queue is full they are dropped, and no decision ever waits. A span contains
no input, no result and no query of a URL.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, TypeAlias

from opentelemetry import context, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from doorward import __version__
from doorward.base.urls import split_url
from doorward.config.trace_options import TraceOptions, options_of_environment
from doorward.edge import Edge, loop_thread
from doorward.telemetry.otlp import spans_message
from doorward.telemetry.otlp_sender import SPANS, OtlpError, OtlpSender, sender_for
from doorward.telemetry.propagators import propagator_of

__all__ = ["Attributes", "Served", "Tracer", "tracer_for"]

Attributes: TypeAlias = Mapping[str, str | int]
"""Attributes of a span by their names in OpenTelemetry."""

DECISION: Final = "opa.decision_id"
"""The attribute with the id of the decision that was logged."""
_LAST: Final = 5.0
"""The longest time for the last spans, in seconds; the library would wait for 30."""
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("tracing", "sending the last spans failed")


class Served:
    """Context manager around a request that is served or sent. Inside, its span is the current one
    of the thread or task; at the end the span is ended, and marked as failed after an exception.
    """

    def __init__(self, span: Any) -> None:
        self._span = span
        self._token: Any = None

    def __enter__(self) -> Served:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        context.detach(self._token)
        if kind is not None:
            self.failed(kind.__name__)
        self._span.end()

    def named(self, name: str, attributes: Attributes) -> None:
        """Set the final name of the span, and add attributes."""
        self._span.update_name(name)
        self.note(attributes)

    def note(self, attributes: Attributes) -> None:
        """Add attributes to the span, by their names in OpenTelemetry."""
        self._span.set_attributes(dict(attributes))

    def failed(self, kind: str) -> None:
        """Mark the span as failed; `kind` is the class of the exception, or the status."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR)


class Tracer:
    """Creates spans. Safe in any number of threads."""

    def __init__(self, provider: Any, propagator: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("doorward", __version__)
        self._propagator = propagator
        self._fields = sorted(propagator.fields)

    def serve(
        self, name: str, header: Callable[[str], str | None], attributes: Attributes
    ) -> Served:
        """Start a span for a request that is served, as a child of the caller's; `header` returns a
        header by its lower-case name.
        """
        carrier = {each: text for each in self._fields if (text := header(each)) is not None}
        # A new context: the span of another request on this thread must not become the parent.
        parent = self._propagator.extract(carrier, context=context.Context())
        span = self._tracer.start_span(name, parent, kind=SpanKind.SERVER)
        served = Served(span)
        served.note(attributes)
        return served

    @contextmanager
    def send(self, method: str, url: str) -> Iterator[tuple[Served, dict[str, str]]]:
        """Context manager with a span for an outgoing request; yields it with the headers that
        propagate it. User and query of the URL are not recorded, and nothing of an invalid URL.
        """
        parts = split_url(url)
        span = self._tracer.start_span(f"HTTP {method}", kind=SpanKind.CLIENT)
        with Served(span) as sent:
            host, port = parts.hostname or "", parts.port
            netloc = f"[{host}]" if ":" in host else host  # as in IPv6
            netloc = netloc if port is None else f"{netloc}:{port}"
            public_url = parts._replace(netloc=netloc, query="")
            sent.note(
                {
                    "http.request.method": method,
                    "url.full": public_url.geturl(),
                    "server.address": host,
                }
            )
            if port is not None:
                sent.note({"server.port": port})
            headers: dict[str, str] = {}
            self._propagator.inject(headers)
            yield sent, headers

    def logged(self, decision_id: str) -> tuple[str, str] | None:
        """Return the ids of the current trace and span in hexadecimal digits, and add the
        decision's id to the span; None without a span.
        """
        span = trace.get_current_span()
        current = span.get_span_context()
        if not current.is_valid:
            return None
        span.set_attribute(DECISION, decision_id)
        return f"{current.trace_id:032x}", f"{current.span_id:016x}"

    def close(self) -> None:
        """Send the remaining spans; wait for at most `_LAST` seconds."""
        ended = threading.Event()
        thread = loop_thread(self._end, _EDGE, name="tracing-end", stop=ended)
        thread.start()
        thread.join(_LAST)
        ended.set()

    def _end(self) -> bool:
        self._provider.shutdown()
        return False


def tracer_for(options: TraceOptions | None, environment: Mapping[str, str] = os.environ) -> Tracer:
    """Return the tracer for the configuration's options; with None, for the environment's.
    `OTEL_PROPAGATORS` of the environment counts in both cases. Raise ConfigError for settings that
    are not valid. Starts the thread that sends spans.
    """
    chosen = options or options_of_environment(environment)
    sampler = None
    if chosen.sample_percentage is not None:
        sampler = ParentBased(TraceIdRatioBased(chosen.sample_percentage / 100))
    resource = Resource.create(dict(chosen.resource))
    # `close` ends it, in bounded time; at the exit the library would wait longer.
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    batch = chosen.batch
    provider.add_span_processor(
        BatchSpanProcessor(
            SpanExporter(sender_for(chosen, SPANS)),
            max_queue_size=batch.get("max_queue_size"),
            schedule_delay_millis=batch.get("batch_timeout_ms"),
            max_export_batch_size=batch.get("max_export_batch_size"),
        )
    )
    by_environment = options is None or environment.get("OTEL_PROPAGATORS")
    known = propagator_of(environment) if by_environment else TraceContextTextMapPropagator()
    return Tracer(provider, known)


class SpanExporter:
    """The exporter to which the library's thread passes spans."""

    def __init__(self, sender: OtlpSender) -> None:
        self._sender = sender

    def export(self, spans: Sequence[Any]) -> Any:
        """Send a batch. One that cannot be sent in time is dropped with a warning in the log, and
        FAILURE is returned.
        """
        try:
            self._sender.send(spans_message(spans))
        except OtlpError as error:
            _log.warning("Spans were dropped.", extra={"spans": len(spans), "error": str(error)})
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the sender; no more spans follow."""
        self._sender.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: the exporter has no queue."""
        return True
