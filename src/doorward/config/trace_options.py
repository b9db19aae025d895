"""`distributed_tracing` of the configuration, and what the environment says of traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from doorward.config.yaml_block import Block, ConfigError

__all__ = ["TraceOptions", "asks_for_traces", "options_of_environment", "read_tracing"]

_KEYS: Final = (
    "address",
    "allow_insecure_tls",
    "batch_span_processor_options",
    "encryption",
    "resource",
    "sample_percentage",
    "service_name",
    "tls_ca_cert_file",
    "tls_cert_file",
    "tls_private_key_file",
    "type",
)
_RESOURCE: Final = {
    "deployment_environment": "deployment.environment",
    "service_instance_id": "service.instance.id",
    "service_namespace": "service.namespace",
    "service_version": "service.version",
}
"""Keys of `resource`, each with the attribute that it sets."""
_BATCH: Final = {
    "batch_timeout_ms": 5_000,
    "export_timeout_ms": 30_000,
    "max_export_batch_size": 512,
    "max_queue_size": 2_048,
}
_ADDRESSES: Final = {"grpc": "localhost:4317", "http": "localhost:4318"}
_EXPORTERS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PATH: Final = "/v1/traces"


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Where spans are sent, and how many."""

    protocol: Literal["grpc", "http"]
    target: str
    """The URL that spans are posted to; with gRPC `host:port`."""
    is_encrypted: bool = False
    ca_certificate: str = ""
    certificate: str = ""
    private_key: str = ""
    allow_insecure_tls: bool = False
    """Send to a collector whose certificate nobody verifies; over HTTP only."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    zips: bool = False
    timeout: float = 30.0
    """Seconds in which a batch of spans is sent, or dropped."""
    sample_percentage: float | None = None
    """Of the traces that begin here; those of callers are sampled as the caller says. None: as the
    environment says."""
    resource: Mapping[str, str] = field(default_factory=dict)
    """Attributes of all spans, by their names in OpenTelemetry."""
    batch: Mapping[str, int] = field(default_factory=dict)
    """`max_export_batch_size`, `max_queue_size` and `batch_timeout_ms`; others are as the
    environment says."""


def asks_for_traces(environment: Mapping[str, str]) -> bool:
    """Return True if the variables of OpenTelemetry ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter:
        return exporter != "none"
    return any(environment.get(name) for name in _EXPORTERS)


def options_of_environment(environment: Mapping[str, str]) -> TraceOptions:
    """Return the exporter's options in OpenTelemetry's variables. ConfigError for values that are
    not valid."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if exporter != "otlp":
        raise ConfigError(f"OTEL_TRACES_EXPORTER: `{exporter}` is not supported, only otlp")

    def given(name: str) -> str:
        own = environment.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}", "")
        return (own or environment.get(f"OTEL_EXPORTER_OTLP_{name}", "")).strip()

    protocol = given("PROTOCOL") or "http/protobuf"
    if protocol not in ("grpc", "http/protobuf"):
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL: `{protocol}` is not supported, only http/protobuf and "
            "grpc"
        )
    is_grpc = protocol == "grpc"
    url = given("ENDPOINT") or f"http://{_ADDRESSES['grpc' if is_grpc else 'http']}"
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("OTEL_EXPORTER_OTLP_ENDPOINT must be the URL of a collector")
    if not is_grpc and not environment.get(_EXPORTERS[1]):
        # As specified, a path is added to the endpoint of all signals, and not to that of one.
        parts = parts._replace(path=parts.path.rstrip("/") + _PATH)
    is_encrypted = parts.scheme == "https"
    if is_grpc and "://" not in url:
        is_encrypted = given("INSECURE").lower() != "true"
    zipping = given("COMPRESSION") or "none"
    if zipping not in ("gzip", "none"):
        raise ConfigError(f"OTEL_EXPORTER_OTLP_COMPRESSION: `{zipping}` is not supported")
    milliseconds = given("TIMEOUT") or "10000"
    if not milliseconds.isdecimal() or int(milliseconds) == 0:
        raise ConfigError("OTEL_EXPORTER_OTLP_TIMEOUT must be milliseconds")
    pairs = [pair.partition("=") for pair in given("HEADERS").split(",") if "=" in pair]
    is_named = environment.get("OTEL_SERVICE_NAME") or (
        "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    )
    return TraceOptions(
        protocol="grpc" if is_grpc else "http",
        target=parts.netloc if is_grpc else parts.geturl(),
        is_encrypted=is_encrypted,
        ca_certificate=given("CERTIFICATE"),
        certificate=given("CLIENT_CERTIFICATE"),
        private_key=given("CLIENT_KEY"),
        headers={unquote(name.strip()).lower(): unquote(v.strip()) for name, _, v in pairs},
        zips=zipping == "gzip",
        timeout=int(milliseconds) / 1000,
        resource={} if is_named else {"service.name": "doorward"},
    )


def read_tracing(top: Block, warnings: list[str]) -> TraceOptions | None:
    """`distributed_tracing`; None where it names no type. ConfigError for what cannot be meant."""
    block = top.block("distributed_tracing")
    warnings += block.unknown(_KEYS)
    kind = block.get("type", str, "")
    if not kind:
        return None
    if kind not in ("grpc", "http"):
        raise ConfigError(
            f"{block.location('type')}: unknown distributed_tracing.type '{kind}', must be "
            '"grpc", "http" or "" (unset)'
        )
    given, resource = block.block("batch_span_processor_options"), block.block("resource")
    warnings += given.unknown([*_BATCH, "blocking"]) + resource.unknown(list(_RESOURCE))
    if given.get("blocking", bool, False):
        raise ConfigError(
            f"{given.location('blocking')}: no decision waits for a collector; spans that find no "
            "room are dropped"
        )
    percentage = block.get("sample_percentage", float, 100.0)
    if not 0 <= percentage <= 100:
        raise ConfigError(
            f"{block.location('sample_percentage')}: unsupported "
            f"distributed_tracing.sample_percentage '{percentage:g}'"
        )
    texts = {key: resource.get(key, str, "") for key in _RESOURCE}
    batch = {key: _positive(given, key, default) for key, default in _BATCH.items()}
    if batch["max_export_batch_size"] > batch["max_queue_size"]:
        raise ConfigError(
            f"{given.location('max_export_batch_size')} must not be larger than `max_queue_size`"
        )
    encryption = _encryption(block, kind)
    address = block.get("address", str, "") or _ADDRESSES[kind]
    scheme = "https" if encryption["is_encrypted"] else "http"
    name = block.get("service_name", str, "") or "opa"
    return TraceOptions(
        protocol="grpc" if kind == "grpc" else "http",
        target=address if kind == "grpc" else f"{scheme}://{address}{_PATH}",
        timeout=batch.pop("export_timeout_ms") / 1000,
        sample_percentage=percentage,
        resource={
            "service.name": name,
            **{_RESOURCE[key]: text for key, text in texts.items() if text},
        },
        batch=batch,
        **encryption,
    )


def _encryption(block: Block, kind: str) -> dict[str, Any]:
    scheme = block.get("encryption", str, "") or "off"
    if scheme not in ("off", "tls", "mtls"):
        raise ConfigError(
            f"{block.location('encryption')}: unsupported distributed_tracing.encryption_scheme "
            f"'{scheme}'"
        )
    certificate = block.get("tls_cert_file", str, "")
    key = block.get("tls_private_key_file", str, "")
    if bool(certificate) != bool(key):
        raise ConfigError(
            f"{block.location('tls_cert_file')}: distributed_tracing.tls_cert_file and "
            "distributed_tracing.tls_private_key_file must be specified together"
        )
    if scheme == "mtls" and not certificate:
        raise ConfigError(
            f"{block.location('tls_cert_file')}: distributed_tracing.tls_cert_file required but "
            "not supplied"
        )
    is_insecure = block.get("allow_insecure_tls", bool, False) and scheme != "off"
    if is_insecure and kind == "grpc":
        raise ConfigError(
            f"{block.location('allow_insecure_tls')}: over gRPC the certificate of the collector "
            "is always verified; name its authority in `tls_ca_cert_file`, or use the type `http`"
        )
    return {
        "is_encrypted": scheme != "off",
        "allow_insecure_tls": is_insecure,
        "ca_certificate": block.get("tls_ca_cert_file", str, ""),
        "certificate": certificate if scheme == "mtls" else "",
        "private_key": key if scheme == "mtls" else "",
    }


def _positive(block: Block, key: str, default: int) -> int:
    value = block.get(key, int, default)
    if value <= 0:
        raise ConfigError(f"{block.location(key)} must be greater than 0 but is {value}")
    return value
