"""The `plugins.envoy_ext_authz_grpc` block becomes `Options`: OPA-Envoy's keys, and our few.

A wrong type or value is an error that names the key, an unknown key a warning that does. Files and
line numbers are the configuration reader's business; sockets are `server`'s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

__all__ = ["DEFAULT_BUCKETS", "OnError", "Options", "OptionsError", "Transport", "from_block"]

OnError: TypeAlias = Literal["deny", "fail-call"]
Transport: TypeAlias = Literal["http2", "grpcio"]

DEFAULT_BUCKETS: Final = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 3e-3, 5e-3, 0.1, 1.0)
_MAX_SIZE: Final = 2**31 - 1
_HEADER: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")


class OptionsError(ValueError):
    """A key of the block has a wrong type or value; `key` names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message


@dataclass(frozen=True, slots=True)
class Options:
    """How the Envoy adapter listens, reads requests and answers."""

    addr: str = "127.0.0.1:9191"
    """`host:port`, `:port` for every address, `grpc://host:port`, `unix:///path` or `unix://@abstract`."""
    path: str = "envoy/authz/allow"
    query: str = ""
    """A Rego query in place of `path` (deprecated by OPA-Envoy)."""
    dry_run: bool = False
    enable_reflection: bool = False
    proto_descriptor: str = ""
    grpc_max_recv_msg_size: int = 4 * 1024 * 1024
    grpc_max_send_msg_size: int = _MAX_SIZE
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
    options: dict[str, Any] = {}
    unknown = []
    for key, value in block.items():
        read = _READERS.get(key)
        if read is None:
            unknown.append(str(key))
        else:
            options[key.replace("-", "_")] = read(key, value)
    if options.get("path") and options.get("query"):
        raise OptionsError("query", 'invalid config: specify a value for only the "path" field')
    return Options(**options), tuple(unknown)


def _read_text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise OptionsError(key, "must be a string")
    return value


def _read_name(key: str, value: object) -> str:
    if not _read_text(key, value).strip():
        raise OptionsError(key, "must not be empty")
    return str(value)


def _read_switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionsError(key, "must be true or false")
    return value


def _read_size(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionsError(key, "must be a whole number of bytes")
    if not 0 < value <= _MAX_SIZE:
        raise OptionsError(key, f"must be from 1 to {_MAX_SIZE}")
    return value


def _read_buckets(key: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise OptionsError(key, "must be a list of numbers")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not math.isfinite(item):
            raise OptionsError(key, "must be a list of numbers")
    buckets = tuple(float(item) for item in value)
    if list(buckets) != sorted(set(buckets)):
        raise OptionsError(key, "must rise from each number to the next")
    return buckets


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


def _read_mode(key: str, value: object) -> int:
    # YAML reads 0660 as the number 432: only a quoted text says what was meant.
    if not isinstance(value, str):
        raise OptionsError(key, 'must be permission bits in quotes, such as "660"')
    try:
        mode = int(value, 8)
    except ValueError:
        raise OptionsError(key, 'must be permission bits in quotes, such as "660"') from None
    if not 0 <= mode <= 0o777:
        raise OptionsError(key, "must be permission bits from 000 to 777")
    return mode


def _read_header(key: str, value: object) -> str:
    if not isinstance(value, str) or _HEADER.fullmatch(value) is None:
        raise OptionsError(key, "must be a header name in small letters")
    return value


def _read_threads(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 512:
        raise OptionsError(key, "must be a whole number from 1 to 512")
    return value


_READERS: Final[dict[str, Callable[[str, object], object]]] = {
    "addr": _read_name,
    "path": _read_name,
    "query": _read_text,
    "dry-run": _read_switch,
    "enable-reflection": _read_switch,
    "proto-descriptor": _read_text,
    "grpc-max-recv-msg-size": _read_size,
    "grpc-max-send-msg-size": _read_size,
    "skip-request-body-parse": _read_switch,
    "enable-performance-metrics": _read_switch,
    "grpc-request-duration-seconds-buckets": _read_buckets,
    "on-error": _read_on_error,
    "strict": _read_switch,
    "socket-mode": _read_mode,
    "decision-id-header": _read_header,
    "threads": _read_threads,
    "transport": _read_transport,
}

assert {name.replace("-", "_") for name in _READERS} == {field.name for field in fields(Options)}
