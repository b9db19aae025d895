"""Propagation of traces between processes, as `OTEL_PROPAGATORS` configures it.

W3C's and B3's headers are built in; others are loaded from installed packages. OpenTelemetry loads
all of them when it is imported and fails there; here an unknown one is a ConfigError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import (
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from doorward.config.blocks import ConfigError
from doorward.rego.shared import ForeignError, foreign_code

__all__ = ["B3", "propagator_of"]

USUAL: Final = "tracecontext,baggage"
_SINGLE: Final = "b3"
_TRACE, _SPAN, _SAMPLED, _FLAGS = "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags"
# Zipkin's ids of traces have 64 or 128 bits.
_TRACE_ID: Final = re.compile(r"(?:[0-9a-fA-F]{16}){1,2}\Z")
_SPAN_ID: Final = re.compile(r"[0-9a-fA-F]{16}\Z")


class B3(TextMapPropagator):  # type: ignore[misc]  # the library may be missing
    """The headers of Zipkin. Both forms are read; `is_multi` writes one header for each value
    instead of a single `b3`.
    """

    def __init__(self, *, is_multi: bool = False) -> None:
        self._is_multi = is_multi

    def extract(
        self,
        carrier: Any,
        context: Context | None = None,
        getter: Getter[Any] = default_getter,
    ) -> Context:
        """Return the context with the caller's span, as B3 headers name it; the header `b3` counts
        before those with one value each. The given context, or an empty one for None, is returned
        if there is no valid trace and span ID. Not sampled unless the headers say so.
        """

        def header(name: str) -> str:
            return next(iter(getter.get(carrier, name) or ()), "")

        trace_id, span_id, sampled = header(_TRACE), header(_SPAN), header(_SAMPLED)
        if single := header(_SINGLE):
            # `b3: TRACE-SPAN-SAMPLED-PARENT`; the last two may be missing.
            trace_id, span_id, sampled, *_ = [*single.split("-", 3), "", "", ""]
        # B3's debug flag implies that the span is sampled.
        if header(_FLAGS) == "1":
            sampled = "d"
        context = context or Context()
        if not (_TRACE_ID.match(trace_id) and _SPAN_ID.match(span_id)):
            return context
        is_sampled = sampled.lower() in ("1", "d", "true")
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if is_sampled else 0)
        span = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, flags)
        return trace.set_span_in_context(trace.NonRecordingSpan(span), context)

    def inject(
        self,
        carrier: Any,
        context: Context | None = None,
        setter: Setter[Any] = default_setter,
    ) -> None:
        """Write the B3 headers of the span in `context` (None: the current context) into `carrier`:
        one `b3`, or with `is_multi` one for each value. Nothing is written without a valid span.
        """
        current = trace.get_current_span(context).get_span_context()
        if not current.is_valid:
            return
        trace_id, span_id = f"{current.trace_id:032x}", f"{current.span_id:016x}"
        sampled = "1" if current.trace_flags.sampled else "0"
        if self._is_multi:
            for name, text in ((_TRACE, trace_id), (_SPAN, span_id), (_SAMPLED, sampled)):
                setter.set(carrier, name, text)
        else:
            setter.set(carrier, _SINGLE, f"{trace_id}-{span_id}-{sampled}")

    @property
    def fields(self) -> set[str]:
        """The names of the headers that are read or written."""
        return {_SINGLE, _TRACE, _SPAN, _SAMPLED, _FLAGS}


def propagator_of(environment: Mapping[str, str]) -> TextMapPropagator:
    """Return the propagators that `OTEL_PROPAGATORS` names as one, by default W3C's; `none`
    propagates nothing. Raise ConfigError for an unknown name.
    """
    names = [name.strip() for name in environment.get("OTEL_PROPAGATORS", USUAL).split(",")]
    return CompositePropagator(
        [_propagator(name) for name in dict.fromkeys(names) if name != "none"]
    )


def _propagator(name: str) -> TextMapPropagator:
    """Return the propagator of a name, built in or from an installed package; ConfigError if there
    is none, or it cannot be loaded.
    """
    match name:
        case "tracecontext":
            return TraceContextTextMapPropagator()
        case "baggage":
            return W3CBaggagePropagator()
        case "b3" | "b3multi":
            return B3(is_multi=name == "b3multi")
    for entry in entry_points(group="opentelemetry_propagator", name=name):
        try:
            with foreign_code():
                loaded: TextMapPropagator = entry.load()()
        except ForeignError as error:
            raise ConfigError(
                f"OTEL_PROPAGATORS: the propagator `{name}` cannot be loaded: {error}"
            ) from None
        return loaded
    raise ConfigError(
        f"OTEL_PROPAGATORS: the propagator `{name}` is not known, or its package is not installed"
    )
