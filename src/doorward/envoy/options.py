"""The `plugins.envoy_ext_authz_grpc` block: OPA-Envoy's keys, and our few."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from doorward.base.records import record
from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import (
    INCREASING,
    SWITCH,
    TEXT,
    choice,
    integer,
    nonempty,
    option,
)
from doorward.envoy.option_values import ADDRESS, HEADER, MAX_SIZE, MODE, QUERY, SIZE

__all__ = ["DEFAULT_BUCKETS", "OnError", "Options", "Transport"]

OnError: TypeAlias = Literal["deny", "fail-call"]
Transport: TypeAlias = Literal["http2", "grpcio"]

_DENY: Final[OnError] = "deny"
_FAIL_CALL: Final[OnError] = "fail-call"
_HTTP2: Final[Transport] = "http2"
_GRPCIO: Final[Transport] = "grpcio"

DEFAULT_BUCKETS: Final = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 3e-3, 5e-3, 0.1, 1.0)


@record
class Options:
    """The options of the Envoy adapter: listening, reading requests and answering."""

    addr: str = option(
        "addr",
        ADDRESS,
        "127.0.0.1:9191",
        "`host:port`, `grpc://host:port`, `unix:///path` or `unix://@abstract`. TLS is not "
        "supported: use a Unix socket or loopback. `:9191`, the default of OPA-Envoy, listens on "
        "every address: it must be set explicitly, and every start logs a warning",
    )
    path: str = option("path", nonempty(), "envoy/authz/allow", "the document that decides")
    query: str = option(
        "query", QUERY, "", "a Rego query in place of `path` (deprecated, as in OPA-Envoy)"
    )
    dry_run: bool = option(
        "dry-run",
        SWITCH,
        False,
        "allow and log requests that the policy denies; failed evaluations and unreadable requests "
        "are still denied",
    )
    enable_reflection: bool = option("enable-reflection", SWITCH, False, "gRPC reflection")
    proto_descriptor: str = option(
        "proto-descriptor",
        TEXT,
        "",
        "file of a compiled `FileDescriptorSet` (or `base64:` and the set), with which gRPC bodies "
        "are parsed",
    )
    grpc_max_recv_msg_size: int = option(
        "grpc-max-recv-msg-size",
        SIZE,
        4 * 1024 * 1024,
        "maximum bytes of a CheckRequest; the transport refuses a larger one",
    )
    grpc_max_send_msg_size: int = option(
        "grpc-max-send-msg-size", SIZE, MAX_SIZE, "maximum bytes of a response to Envoy"
    )
    skip_request_body_parse: bool = option(
        "skip-request-body-parse",
        SWITCH,
        False,
        "leave `parsed_body` and `truncated_body` out of the input",
    )
    enable_performance_metrics: bool = option(
        "enable-performance-metrics",
        SWITCH,
        False,
        "report `grpc_request_duration_seconds` and `error_counter` in `/metrics`",
    )
    grpc_request_duration_seconds_buckets: tuple[float, ...] = option(
        "grpc-request-duration-seconds-buckets",
        INCREASING,
        DEFAULT_BUCKETS,
        "buckets of the histogram `grpc_request_duration_seconds`, in seconds",
    )
    on_error: OnError = option(
        "on-error",
        choice(_DENY, _FAIL_CALL),
        "deny",
        "if the evaluation of the policy fails, `deny` denies the request and `fail-call` fails "
        "the gRPC call, as OPA-Envoy does",
        is_opa=False,
    )
    strict: bool = option(
        "strict",
        SWITCH,
        False,
        "refuse requests that the application could read [differently from the policy](strict.md)",
        is_opa=False,
    )
    socket_mode: int = option(
        "socket-mode", MODE, 0o660, "permission bits of a Unix socket", is_opa=False
    )
    threads: int = option(
        "threads",
        integer(1, 512),
        10,
        "maximum number of concurrent Checks. With `transport: http2` only those of slow policies "
        "use threads; the others run one after the other on the event loop. With `grpcio` another "
        "256 calls may wait for their message, each for 2 s (0.1 s while more than 128 wait), and "
        "a connection has at most 100 streams",
        is_opa=False,
    )
    decision_id_header: str = option(
        "decision-id-header",
        HEADER,
        "",
        "name of a header with the decision's id, which is added to every response to the client",
        is_opa=False,
    )
    transport: Transport = option(
        "transport",
        choice(_HTTP2, _GRPCIO),
        "http2",
        "`http2`: Doorward's own gRPC server; `grpcio`: that of grpcio",
        is_opa=False,
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if both `path` and `query` are given."""
        if block.get("path", str, "") and block.get("query", str, ""):
            raise ConfigError(
                f"{block.location('query')}: invalid config: specify a value for only the "
                '"path" field'
            )
