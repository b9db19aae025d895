"""The `plugins.envoy_ext_authz_grpc` block becomes `Options`: OPA-Envoy's keys, and our few.

A wrong type or value is an error that names the key, an unknown key a warning that does. Files and
line numbers are the configuration reader's business; sockets are `server`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias

from doorward.envoy.option_values import (
    MAX_SIZE,
    OptionsError,
    read_block,
    read_buckets,
    read_header,
    read_mode,
    read_name,
    read_size,
    read_switch,
    read_text,
    read_threads,
)

__all__ = ["DEFAULT_BUCKETS", "OnError", "Options", "OptionsError", "Transport", "from_block"]

OnError: TypeAlias = Literal["deny", "fail-call"]
Transport: TypeAlias = Literal["http2", "grpcio"]

DEFAULT_BUCKETS: Final = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 3e-3, 5e-3, 0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the Envoy adapter: listening, reading requests and answering."""

    addr: str = "127.0.0.1:9191"
    """`host:port`, `:port` for every address, `grpc://host:port`, `unix:///path` or `unix://@abstract`."""
    path: str = "envoy/authz/allow"
    query: str = ""
    """A Rego query in place of `path` (deprecated by OPA-Envoy)."""
    dry_run: bool = False
    enable_reflection: bool = False
    proto_descriptor: str = ""
    grpc_max_recv_msg_size: int = 4 * 1024 * 1024
    grpc_max_send_msg_size: int = MAX_SIZE
    skip_request_body_parse: bool = False
    enable_performance_metrics: bool = False
    grpc_request_duration_seconds_buckets: tuple[float, ...] = DEFAULT_BUCKETS
    on_error: OnError = "deny"
    """`deny`: a policy that fails denies. `fail-call`: the gRPC call fails, as OPA-Envoy's does."""
    strict: bool = False
    """Refuse what the application could read otherwise than the policy."""
    socket_mode: int = 0o660
    """Permission bits of a Unix socket."""
    threads: int = 10
    """Concurrent Checks: on grpcio of all policies, on our own transport of slow ones."""
    decision_id_header: str = ""
    """The header of the response to the client that carries the decision's id; "" for none."""
    transport: Transport = "http2"
    """`http2`: Doorward's own server. `grpcio`: grpcio's."""


def from_block(block: Mapping[str, object]) -> tuple[Options, tuple[str, ...]]:
    """The options of a configuration block, and the names of its unknown keys.

    `OptionsError` for the first key that is wrong.
    """
    options, unknown = read_block(block, _READERS)
    if options.get("path") and options.get("query"):
        raise OptionsError("query", 'invalid config: specify a value for only the "path" field')
    return Options(**options), unknown


def _read_on_error(key: str, value: object) -> OnError:
    if value == "deny":
        return "deny"
    if value == "fail-call":
        return "fail-call"
    raise OptionsError(key, "must be `deny` or `fail-call`")


def _read_transport(key: str, value: object) -> Transport:
    if value == "http2":
        return "http2"
    if value == "grpcio":
        return "grpcio"
    raise OptionsError(key, "must be `http2` or `grpcio`")


_READERS: Final[dict[str, Callable[[str, object], object]]] = {
    "addr": read_name,
    "path": read_name,
    "query": read_text,
    "dry-run": read_switch,
    "enable-reflection": read_switch,
    "proto-descriptor": read_text,
    "grpc-max-recv-msg-size": read_size,
    "grpc-max-send-msg-size": read_size,
    "skip-request-body-parse": read_switch,
    "enable-performance-metrics": read_switch,
    "grpc-request-duration-seconds-buckets": read_buckets,
    "on-error": _read_on_error,
    "strict": read_switch,
    "socket-mode": read_mode,
    "decision-id-header": read_header,
    "threads": read_threads,
    "transport": _read_transport,
}

assert {name.replace("-", "_") for name in _READERS} == {field.name for field in fields(Options)}
