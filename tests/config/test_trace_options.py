"""Where spans go, by the configuration and by the variables of OpenTelemetry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from doorward.config.configuration import ConfigError, parse_config
from doorward.config.trace_options import TraceOptions, asks_for_traces, options_of_environment


def of_config(**block: Any) -> TraceOptions | None:
    return parse_config(json.dumps({"distributed_tracing": block})).tracing


def test_without_a_type_there_are_no_traces() -> None:
    assert of_config() is None
    assert of_config(address="collector:1") is None


def test_defaults_are_those_of_opa() -> None:
    options = of_config(type="grpc")
    assert options is not None
    assert (options.protocol, options.target, options.timeout) == ("grpc", "localhost:4317", 30.0)
    assert options.resource == {"service.name": "opa"}
    assert options.sample_percentage == 100
    assert options.batch == {
        "batch_timeout_ms": 5000,
        "max_export_batch_size": 512,
        "max_queue_size": 2048,
    }
    plain, encrypted = of_config(type="http"), of_config(type="http", encryption="tls")
    assert plain is not None
    assert encrypted is not None
    assert plain.target == "http://localhost:4318/v1/traces"
    assert encrypted.target == "https://localhost:4318/v1/traces"


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"type": "zipkin"}, "unknown distributed_tracing.type 'zipkin'"),
        ({"sample_percentage": 101}, "unsupported distributed_tracing.sample_percentage '101'"),
        ({"encryption": "ssl"}, "unsupported distributed_tracing.encryption_scheme 'ssl'"),
        ({"encryption": "mtls"}, "tls_cert_file required but not supplied"),
        ({"tls_cert_file": "c"}, "must be specified together"),
        ({"encryption": "tls", "allow_insecure_tls": True}, "is always verified"),
        ({"batch_span_processor_options": {"blocking": True}}, "no decision waits"),
        ({"batch_span_processor_options": {"max_queue_size": 0}}, "must be greater than 0"),
        ({"batch_span_processor_options": {"max_queue_size": 9}}, "must not be larger than"),
    ],
)
def test_what_cannot_be_meant_is_refused(block: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        of_config(**{"type": "grpc", **block})


def test_over_http_a_certificate_need_not_be_verified() -> None:
    options = of_config(type="http", encryption="tls", allow_insecure_tls=True)
    assert options is not None
    assert options.allow_insecure_tls
    plain = of_config(type="grpc", allow_insecure_tls=True)
    assert plain is not None
    assert not plain.allow_insecure_tls


def test_keys_that_nobody_reads_are_said() -> None:
    document = {"distributed_tracing": {"type": "grpc", "adress": "x", "resource": {"name": "y"}}}
    warnings = parse_config(json.dumps(document)).warnings
    assert warnings == (
        ":1: distributed_tracing.adress: unknown key, ignored: did you mean `address`?",
        ":1: distributed_tracing.resource.name: unknown key, ignored",
    )


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_asks_for_traces(environment: dict[str, str], wanted: bool) -> None:
    assert asks_for_traces(environment) is wanted


def otlp(**names: str) -> TraceOptions:
    return options_of_environment({f"OTEL_EXPORTER_OTLP_{k}": v for k, v in names.items()})


def test_variables_say_where_spans_go() -> None:
    assert otlp().target == "http://localhost:4318/v1/traces"
    assert otlp(ENDPOINT="https://c:1/base/").target == "https://c:1/base/v1/traces"
    # That of one signal is taken as it is.
    assert otlp(TRACES_ENDPOINT="http://c:1/x", ENDPOINT="http://d:1").target == "http://c:1/x"
    grpc = otlp(PROTOCOL="grpc", ENDPOINT="https://c:4317")
    assert (grpc.protocol, grpc.target, grpc.is_encrypted) == ("grpc", "c:4317", True)
    assert otlp(PROTOCOL="grpc", ENDPOINT="c:4317", INSECURE="true").is_encrypted is False
    more = otlp(HEADERS="a=b%20c, D=e", TIMEOUT="2500", COMPRESSION="gzip", CERTIFICATE="ca")
    assert more.headers == {"a": "b c", "d": "e"}
    assert (more.timeout, more.zips, more.ca_certificate) == (2.5, True, "ca")
    assert more.sample_percentage is None


def test_a_service_has_a_name() -> None:
    assert otlp().resource == {"service.name": "doorward"}
    assert options_of_environment({"OTEL_SERVICE_NAME": "x"}).resource == {}
    named = {"OTEL_RESOURCE_ATTRIBUTES": "a=b,service.name=x"}
    assert options_of_environment(named).resource == {}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "`zipkin` is not supported"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "^OTEL_EXPORTER_OTLP_PROTOCOL: `http/json` is not supported",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "^OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: `x` is not supported",
        ),
        ({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "0"}, "^OTEL_EXPORTER_OTLP_TRACES_TIMEOUT must be"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://x"}, "must be the URL of a collector"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://["}, "must be the URL of a collector"),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "br"}, "`br` is not supported"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "must be a positive number of milliseconds"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "٣"}, "must be a positive number of milliseconds"),
    ],
)
def test_variables_that_cannot_be_followed_are_refused(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        options_of_environment(environment)


@pytest.mark.parametrize(
    "value", ["x-key=geheim%0A", "x-key=geheim%C3%A9", "=geheim", "x%0A=geheim"]
)
def test_headers_that_cannot_be_sent_are_refused_without_their_value(value: str) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": value}
    with pytest.raises(ConfigError, match="printable ASCII") as caught:
        options_of_environment(variables)
    assert "geheim" not in str(caught.value)
