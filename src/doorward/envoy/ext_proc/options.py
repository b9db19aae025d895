"""The `plugins.envoy_ext_proc_grpc` block becomes `Options`.

A wrong type or value is an error that names the key, an unknown key a warning that does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from doorward.enforcement.body_paths import PathError
from doorward.enforcement.lists import ListOptions
from doorward.envoy.ext_proc.changes import read_path
from doorward.envoy.option_values import (
    OptionsError,
    read_block,
    read_mode,
    read_name,
    read_size,
    read_switch,
    read_threads,
)

__all__ = ["PLUGIN", "ListOptions", "Options", "from_block"]

PLUGIN: Final = "envoy_ext_proc_grpc"
"""The name of the block, under which the server's state is reported."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TAKEN: Final = frozenset(
    {"attributes", "parsed_path", "parsed_query", "parsed_body", "response", "truncated_body"}
    | {"version"}
)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of listening and of reading responses."""

    addr: str = "127.0.0.1:9292"
    """As for `envoy_ext_authz_grpc`."""
    path: str = "envoy/response"
    """The document that decides."""
    lists: Mapping[str, ListOptions] = field(default_factory=dict)
    max_body: int = 1 << 20
    """Bytes of a body, also after decompression; a larger one is denied."""
    dry_run: bool = False
    strict: bool = False
    """Refuse requests that the application could read otherwise than the policy."""
    log_bodies: bool = False
    """Whether events of the decision log hold the bodies of responses."""
    enable_performance_metrics: bool = False
    grpc_max_recv_msg_size: int = 4 * 1024 * 1024
    socket_mode: int = 0o660
    threads: int = 10
    max_streams: int = 4_096
    """Responses at the same time."""

    @property
    def document(self) -> str:
        """The path as decisions name it."""
        return "/".join([part for part in self.path.split("/") if part])


def from_block(block: Mapping[str, object]) -> tuple[Options, tuple[str, ...]]:
    """The options of a configuration block, and the names of its unknown keys.

    `OptionsError` for the first key that is wrong.
    """
    options, unknown = read_block(block, _READERS)
    read_options = Options(**options)
    if read_options.max_body >= read_options.grpc_max_recv_msg_size:
        raise OptionsError("max-body", "must be less than grpc-max-recv-msg-size")
    return read_options, unknown


def _read_lists(key: str, value: object) -> dict[str, ListOptions]:
    if not isinstance(value, Mapping):
        raise OptionsError(key, "must be an object of names and lists")
    return {str(name): _read_list(key, str(name), each) for name, each in value.items()}


def _read_list(key: str, name: str, value: object) -> ListOptions:
    def refuse(why: str) -> OptionsError:
        return OptionsError(key, f"`{name}` {why}")

    if not isinstance(value, Mapping) or value.keys() - {"path", "rule", "name"}:
        raise refuse("must be an object with `path`, `rule` and `name`")
    try:
        path = read_path(value.get("path"))
    except PathError as error:
        raise refuse(f"has a `path` that is wrong: {error}") from None
    rule, item = value.get("rule"), value.get("name", "item")
    if not isinstance(rule, str) or not rule.strip("/ "):
        raise refuse("needs a `rule`, such as documents/include")
    if not isinstance(item, str) or not _NAME.fullmatch(item) or item in _TAKEN:
        raise refuse("has a `name` that the input cannot have")
    return ListOptions(path, "/".join([each for each in rule.split("/") if each]), item)


def _read_streams(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise OptionsError(key, "must be a whole number from 1 to 1000000")
    return value


_READERS: Final[dict[str, Callable[[str, object], object]]] = {
    "addr": read_name,
    "path": read_name,
    "lists": _read_lists,
    "max-body": read_size,
    "dry-run": read_switch,
    "strict": read_switch,
    "log-bodies": read_switch,
    "enable-performance-metrics": read_switch,
    "grpc-max-recv-msg-size": read_size,
    "socket-mode": read_mode,
    "threads": read_threads,
    "max-streams": _read_streams,
}

assert {name.replace("-", "_") for name in _READERS} == {field.name for field in fields(Options)}
