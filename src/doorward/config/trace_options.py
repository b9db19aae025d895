"""`distributed_tracing` of the configuration, and the variables of OpenTelemetry in the
environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal
from urllib.parse import unquote

from doorward.base.digits import parse_digits
from doorward.base.records import record
from doorward.base.urls import split_url
from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import (
    SWITCH,
    TEXT,
    Kind,
    OptionError,
    choice,
    convert,
    integer,
    number,
    option,
    text_or,
)

__all__ = ["TraceBlock", "TraceOptions", "asks_for_traces", "options_of_environment"]

_BATCH: Final = "batch_span_processor_options"
_ADDRESSES: Final = {"grpc": "localhost:4317", "http": "localhost:4318"}
_EXPORTERS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PATH: Final = "/v1/traces"


@record
class TraceOptions:
    """The destination and form of spans, and the share of traces that is sampled."""

    protocol: Literal["grpc", "http"]
    target: str
    """The URL to which spans are posted; `host:port` for gRPC."""
    is_encrypted: bool = False
    ca_certificate: str = ""
    certificate: str = ""
    private_key: str = ""
    allow_insecure_tls: bool = False
    """True if the collector's certificate is not verified; over HTTP only."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    zips: bool = False
    timeout: float = 30.0
    """Seconds after which a batch that was not sent is dropped."""
    sample_percentage: float | None = None
    """The percentage of traces that begin here and are sampled; traces of callers follow their own
    sampling. None: as the environment variables say.
    """
    resource: Mapping[str, str] = field(default_factory=dict)
    """Attributes of all spans, by their names in OpenTelemetry."""
    batch: Mapping[str, int] = field(default_factory=dict)
    """`max_export_batch_size`, `max_queue_size` and `batch_timeout_ms`; missing ones are taken from
    the environment.
    """


def asks_for_traces(environment: Mapping[str, str]) -> bool:
    """Return True if the environment variables of OpenTelemetry turn traces on: an exporter or an
    endpoint is set, the exporter is not `none`, and the SDK is not disabled.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter:
        return exporter != "none"
    return any(environment.get(name) for name in _EXPORTERS)


def options_of_environment(environment: Mapping[str, str]) -> TraceOptions:
    """Return the trace options that OpenTelemetry's environment variables set: those for traces
    (`OTEL_EXPORTER_OTLP_TRACES_…`) before those for all signals, else the specification's defaults.
    Does not check that traces are on (`asks_for_traces`). Raise ConfigError for a value that is not
    valid or not supported.
    """
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    if exporter != "otlp":
        raise ConfigError(f"OTEL_TRACES_EXPORTER: `{exporter}` is not supported: use otlp or none")

    def variable(name: str) -> str:
        """Return the name of the exporter's variable for traces if it is set, or else that of the
        variable for all signals.
        """
        specific = f"OTEL_EXPORTER_OTLP_TRACES_{name}"
        return specific if environment.get(specific) else f"OTEL_EXPORTER_OTLP_{name}"

    def given(name: str) -> str:
        """Return the value of `variable(name)`; "" if it is not set."""
        return environment.get(variable(name), "").strip()

    protocol = given("PROTOCOL") or "http/protobuf"
    if protocol not in ("grpc", "http/protobuf"):
        raise ConfigError(
            f"{variable('PROTOCOL')}: `{protocol}` is not supported: use http/protobuf or grpc"
        )
    is_grpc = protocol == "grpc"
    url = given("ENDPOINT") or f"http://{_ADDRESSES['grpc' if is_grpc else 'http']}"
    parts = split_url(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{variable('ENDPOINT')} must be the URL of a collector, such as http://localhost:4318"
        )
    if not is_grpc and not environment.get(_EXPORTERS[1]):
        # As specified, a path is added to the endpoint of all signals, and not to that of one.
        parts = parts._replace(path=parts.path.rstrip("/") + _PATH)
    is_encrypted = parts.scheme == "https"
    if is_grpc and "://" not in url:
        is_encrypted = given("INSECURE").lower() != "true"
    zipping = given("COMPRESSION") or "none"
    if zipping not in ("gzip", "none"):
        raise ConfigError(
            f"{variable('COMPRESSION')}: `{zipping}` is not supported: use gzip or none"
        )
    milliseconds = parse_digits(given("TIMEOUT") or "10000")
    if not milliseconds:
        raise ConfigError(f"{variable('TIMEOUT')} must be a positive number of milliseconds")
    pairs = [pair.partition("=") for pair in given("HEADERS").split(",") if "=" in pair]
    headers = {unquote(name.strip()).lower(): unquote(value.strip()) for name, _, value in pairs}
    for name, value in headers.items():
        # Libraries would quote the value, which may be a key.
        if not (name and (name + value).isascii() and (name + value).isprintable()):
            raise ConfigError(
                f"{variable('HEADERS')}: `{name}` must be a name and a value of printable ASCII "
                "characters"
            )
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
        headers=headers,
        zips=zipping == "gzip",
        timeout=int(milliseconds) / 1000,
        resource={} if is_named else {"service.name": "doorward"},
    )


def _refuse_blocking(value: bool) -> bool:
    """Return False; raise ValueError for True, since a decision must never wait for a collector."""
    if value:
        raise ValueError(
            "must be false: no decision waits for a collector, and spans beyond the queue are "
            "dropped"
        )
    return value


def _read_address(block: Block, key: str, warnings: list[str]) -> str:
    """Return the address of the collector. One to which nothing can be sent is a warning and not
    an error: OPA starts with it, and decides.
    """
    address = block.get(key, str, "")
    is_http = block.get("type", str, "") == "http"
    is_printable = address.isprintable() and " " not in address
    has_host = bool(split_url(f"http://{address}").hostname) and "://" not in address
    if address and not (is_printable and (has_host or not is_http)):
        form = "HOST:PORT" if is_http else "HOST:PORT, or a target of gRPC"
        warnings.append(
            f"{block.location(key)}: no span can be sent to `{address}`: it must be {form}"
        )
    return address


@record
class TraceBlock:
    """`distributed_tracing`: the keys of OPA."""

    kind: str = option(
        "type",
        choice(
            "",
            "grpc",
            "http",
            message=': unknown distributed_tracing.type \'{value}\', must be "grpc", "http" or '
            '"" (unset)',
        ),
        "",
        "the protocol of the collector; without it, traces are off",
    )
    address: str = option(
        "address",
        Kind(_read_address, "text", {"type": "string"}),
        "",
        f"the collector's address; by default `{_ADDRESSES['grpc']}`, over HTTP "
        f"`{_ADDRESSES['http']}`",
    )
    service_name: str = option("service_name", text_or("opa"), "opa", "`service.name` of all spans")
    sample_percentage: float = option(
        "sample_percentage",
        number(
            least=0,
            most=100,
            message=": unsupported distributed_tracing.sample_percentage '{value:g}'",
        ),
        100.0,
        "percentage of traces to sample, of those that start here; a caller's traces follow its "
        "own "
        "sampling",
    )
    encryption: str = option(
        "encryption",
        choice(
            "off",
            "tls",
            "mtls",
            "",
            message=": unsupported distributed_tracing.encryption_scheme '{value}'",
        ),
        "off",
        "`tls`: encrypted; `mtls`: with a client certificate too",
    )
    allow_insecure_tls: bool = option(
        "allow_insecure_tls",
        SWITCH,
        False,
        "do not verify the collector's certificate; over HTTP only",
    )
    ca_certificate: str = option(
        "tls_ca_cert_file",
        TEXT,
        "",
        "a file in PEM with the authorities of the collector's certificate",
    )
    certificate: str = option(
        "tls_cert_file", TEXT, "", "a file with the client certificate, in PEM"
    )
    private_key: str = option(
        "tls_private_key_file",
        TEXT,
        "",
        "a file with the private key of the client certificate, in PEM",
    )
    environment: str = option(
        "resource.deployment_environment", TEXT, "", "`deployment.environment` of all spans"
    )
    instance: str = option(
        "resource.service_instance_id", TEXT, "", "`service.instance.id` of all spans"
    )
    namespace: str = option(
        "resource.service_namespace", TEXT, "", "`service.namespace` of all spans"
    )
    version: str = option("resource.service_version", TEXT, "", "`service.version` of all spans")
    batch_timeout: int = option(
        f"{_BATCH}.batch_timeout_ms",
        integer(1),
        5_000,
        "maximum number of milliseconds that a span waits to be sent",
    )
    export_timeout: int = option(
        f"{_BATCH}.export_timeout_ms",
        integer(1),
        30_000,
        "time limit for sending a batch, in milliseconds",
    )
    batch_size: int = option(
        f"{_BATCH}.max_export_batch_size", integer(1), 512, "maximum number of spans in a request"
    )
    queue_size: int = option(
        f"{_BATCH}.max_queue_size",
        integer(1),
        2_048,
        "maximum number of spans that wait to be sent",
    )
    blocking: bool = option(
        f"{_BATCH}.blocking",
        convert(bool, _refuse_blocking, "false", {"type": "boolean"}),
        False,
        "not supported: no decision waits for a collector",
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError for a certificate without its key or a key without its certificate, and
        for `mtls` without a certificate. Nothing is checked while traces are off.
        """
        certificate = block.get("tls_cert_file", str, "")
        where = block.location("tls_cert_file")
        if not block.get("type", str, ""):
            return
        if bool(certificate) != bool(block.get("tls_private_key_file", str, "")):
            raise ConfigError(
                f"{where}: distributed_tracing.tls_cert_file and "
                "distributed_tracing.tls_private_key_file must be specified together"
            )
        if block.get("encryption", str, "") == "mtls" and not certificate:
            raise ConfigError(
                f"{where}: distributed_tracing.tls_cert_file required but not supplied"
            )

    def __post_init__(self) -> None:
        """Raise OptionError if a batch is larger than the queue, or certificates shall not be
        verified over gRPC, which always verifies them.
        """
        if self.batch_size > self.queue_size:
            raise OptionError("batch_size", "must not be larger than `max_queue_size`")
        if self.kind == "grpc" and self.is_encrypted and self.allow_insecure_tls:
            raise OptionError(
                "allow_insecure_tls",
                ": over gRPC the certificate of the collector is always verified; name its "
                "authority in `tls_ca_cert_file`, or use the type `http`",
            )

    @property
    def is_encrypted(self) -> bool:
        """True if the collector is reached over TLS."""
        return self.encryption in ("tls", "mtls")

    def options(self) -> TraceOptions | None:
        """Return the options of the exporter; None, which turns traces off, if `type` is not set.
        Without an address it is the protocol's default one. The client certificate is left out
        unless `encryption` is `mtls`.
        """
        if not self.kind:
            return None
        attributes = {
            "service.name": self.service_name,
            "deployment.environment": self.environment,
            "service.instance.id": self.instance,
            "service.namespace": self.namespace,
            "service.version": self.version,
        }
        address = self.address or _ADDRESSES[self.kind]
        scheme = "https" if self.is_encrypted else "http"
        is_ours = self.encryption == "mtls"
        return TraceOptions(
            protocol="grpc" if self.kind == "grpc" else "http",
            target=address if self.kind == "grpc" else f"{scheme}://{address}{_PATH}",
            is_encrypted=self.is_encrypted,
            ca_certificate=self.ca_certificate,
            certificate=self.certificate if is_ours else "",
            private_key=self.private_key if is_ours else "",
            allow_insecure_tls=self.allow_insecure_tls and self.is_encrypted,
            timeout=self.export_timeout / 1000,
            sample_percentage=self.sample_percentage,
            resource={name: text for name, text in attributes.items() if text},
            batch={
                "batch_timeout_ms": self.batch_timeout,
                "max_export_batch_size": self.batch_size,
                "max_queue_size": self.queue_size,
            },
        )
