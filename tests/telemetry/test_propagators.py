"""Headers of traces, as OpenTelemetry's environment names them."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from opentelemetry import trace
from opentelemetry.context import Context

from doorward.config.blocks import ConfigError
from doorward.telemetry import propagators
from doorward.telemetry.propagators import B3, propagator_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def read(names: str, headers: dict[str, str]) -> tuple[str, str, bool] | None:
    """What the headers say of the caller."""
    context = propagator_of({"OTEL_PROPAGATORS": names}).extract(headers, Context())
    span = trace.get_current_span(context).get_span_context()
    if not span.is_valid:
        return None
    return f"{span.trace_id:032x}", f"{span.span_id:016x}", span.trace_flags.sampled


def written(names: str, headers: dict[str, str]) -> dict[str, str]:
    """The headers that tell of the same trace."""
    propagator = propagator_of({"OTEL_PROPAGATORS": names})
    out: dict[str, str] = {}
    propagator.inject(out, propagator.extract(headers, Context()))
    return out


MULTI = {"x-b3-traceid": TRACE, "x-b3-spanid": SPAN, "x-b3-sampled": "1"}
SINGLE = {"b3": f"{TRACE}-{SPAN}-1"}
W3C = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.mark.parametrize("names", ["b3", "b3multi", "tracecontext,b3", "none, b3"])
@pytest.mark.parametrize("headers", [MULTI, SINGLE])
def test_both_kinds_of_b3_are_read(names: str, headers: dict[str, str]) -> None:
    assert read(names, headers) == (TRACE, SPAN, True)


@pytest.mark.parametrize(
    ("headers", "sampled"),
    [
        ({"b3": f"{TRACE}-{SPAN}-0"}, False),
        ({"b3": f"{TRACE}-{SPAN}"}, False),
        ({"b3": f"{TRACE}-{SPAN}-d-{SPAN}"}, True),
        ({"x-b3-traceid": TRACE, "x-b3-spanid": SPAN, "x-b3-flags": "1"}, True),
    ],
)
def test_whether_it_is_sampled_is_said(headers: dict[str, str], sampled: bool) -> None:
    assert read("b3", headers) == (TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text", ["", "0", "x", f"{TRACE}", f"{TRACE}-x-1", f"{'0' * 32}-{SPAN}-1", f"{TRACE}\n-{SPAN}"]
)
def test_what_names_no_span_is_passed_over(text: str) -> None:
    assert read("b3", {"b3": text}) is None


def test_short_ids_are_filled_up() -> None:
    assert read("b3", {"b3": f"{SPAN}-{SPAN}-1"}) == (f"{'0' * 16}{SPAN}", SPAN, True)


def test_each_writes_its_own_headers() -> None:
    assert written("b3", MULTI) == SINGLE
    assert written("b3multi", SINGLE) == MULTI
    assert written("tracecontext", W3C) == W3C
    assert written("tracecontext,b3", W3C) == {**W3C, **SINGLE}
    assert written("none", SINGLE) == {}
    assert B3().fields >= {*MULTI, *SINGLE}


def test_a_package_that_cannot_be_loaded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(**_: str) -> list[EntryPoint]:
        return [EntryPoint("broken", "absent_package:Propagator", "opentelemetry_propagator")]

    monkeypatch.setattr(propagators, "entry_points", search)
    with pytest.raises(
        ConfigError, match="the propagator `broken` cannot be loaded: ModuleNotFoundError"
    ):
        propagator_of({"OTEL_PROPAGATORS": "broken"})


def test_what_nobody_knows_is_an_error() -> None:
    with pytest.raises(ConfigError, match="OTEL_PROPAGATORS: the propagator `b4` is not known"):
        propagator_of({"OTEL_PROPAGATORS": "tracecontext,b4"})
