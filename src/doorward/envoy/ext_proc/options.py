"""The `plugins.envoy_ext_proc_grpc` block."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from doorward.base.records import record
from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import (
    DOCUMENT_PATH,
    SWITCH,
    Kind,
    OptionError,
    convert,
    integer,
    named,
    nonempty,
    option,
)
from doorward.enforcement.body_paths import Path, PathError
from doorward.enforcement.lists import ListOptions
from doorward.envoy.ext_proc.changes import read_path
from doorward.envoy.option_values import ADDRESS, MODE, SIZE

__all__ = ["ListOptions", "Options"]

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")
_TAKEN: Final = frozenset(
    {"attributes", "parsed_path", "parsed_query", "parsed_body", "response", "truncated_body"}
    | {"version"}
)


def _path(value: list[Any]) -> Path:
    """Return an option's list of keys and indexes as a path; raise ValueError if it is
    malformed.
    """
    try:
        return read_path(value)
    except PathError as error:
        raise ValueError(f"is not a valid path: {error}") from None


def _rule(value: str) -> str:
    """Return a document path without empty parts: `/a//b/` -> `a/b`; raise ValueError if none is
    left.
    """
    if not value.strip("/ "):
        raise ValueError("must name a document below the root, such as documents/include")
    return "/".join([each for each in value.split("/") if each])


_PATH: Final = convert(
    list,
    _path,
    "list of keys and indexes",
    {"type": "array", "items": {"type": ["string", "integer"]}},
)
_RULE: Final = convert(str, _rule, "path of a document", {"type": "string"})


@record
class _ListBlock:
    """One list under `lists`: where it is in the body, and the rule that decides on its items."""

    path: Path = option(
        "path", _PATH, (), "the list's path in the body: keys and indexes, `*` for every one"
    )
    rule: str = option("rule", _RULE, "", "the document that must be true for an item to stay")
    name: str = option(
        "name",
        nonempty(
            "a name that the input can have",
            pattern=_NAME,
            message="must be at most 64 letters, digits and `_` that do not begin with a digit",
        ),
        "item",
        "the NAME by which the rule reads the item, as `input.NAME`",
    )

    @classmethod
    def check_keys(cls, block: Block) -> None:
        """Raise ConfigError if the block of a list has no `path` or no `rule`; null counts as
        missing.
        """
        for key in ("path", "rule"):
            if block.values.get(key) is None:
                raise ConfigError(
                    f"{block.location(key)} is needed: each list has `path` and `rule`"
                )

    def __post_init__(self) -> None:
        if self.name in _TAKEN:
            raise OptionError(
                "name",
                "must not be the name of a field that the input already has: choose another name",
            )


_LISTS: Final = named(_ListBlock)


def _read_lists(block: Block, key: str, warnings: list[str]) -> Mapping[str, ListOptions]:
    """Return the options of each list by its name; raise ConfigError if one is malformed."""
    lists = _LISTS.read(block, key, warnings)
    return {name: ListOptions(each.path, each.rule, each.name) for name, each in lists.items()}


@record
class Options:
    """The options of listening and of reading responses."""

    addr: str = option(
        "addr",
        ADDRESS,
        "127.0.0.1:9292",
        "as `addr` of `envoy_ext_authz_grpc`; each worker has an address of its own, as there",
    )
    path: str = option("path", DOCUMENT_PATH, "envoy/response", "the document that decides")
    lists: Mapping[str, ListOptions] = option(
        "lists",
        Kind(_read_lists, _LISTS.text, _LISTS.schema, _ListBlock, is_named=True),
        {},
    )
    max_body: int = option(
        "max-body",
        SIZE,
        1 << 20,
        "maximum bytes of a body, also after decompression; a larger one is denied. Must be less "
        "than `grpc-max-recv-msg-size`",
    )
    dry_run: bool = option(
        "dry-run",
        SWITCH,
        False,
        "log denials and changes without applying them; responses are still denied if the decision "
        "fails",
    )
    strict: bool = option(
        "strict",
        SWITCH,
        False,
        "refuse ambiguous requests, see [strict mode](strict.md); not needed behind a strict check",
    )
    log_bodies: bool = option(
        "log-bodies",
        SWITCH,
        False,
        "log bodies and the parts of the result that come from them; otherwise these are left out "
        "and listed under `erased`",
    )
    enable_performance_metrics: bool = option(
        "enable-performance-metrics",
        SWITCH,
        False,
        "report `ext_proc_responses_total{outcome,reason}` and `ext_proc_duration_seconds` in "
        "`/metrics`",
    )
    grpc_max_recv_msg_size: int = option(
        "grpc-max-recv-msg-size",
        SIZE,
        4 * 1024 * 1024,
        "maximum bytes of a message; set it above Envoy's buffer limit",
    )
    socket_mode: int = option("socket-mode", MODE, 0o660, "permission bits of a Unix socket")
    threads: int = option("threads", integer(1, 512), 10, "as `threads` of `envoy_ext_authz_grpc`")
    max_streams: int = option(
        "max-streams",
        integer(1, 1_000_000),
        4_096,
        "maximum number of responses at the same time; further ones fail",
    )

    def __post_init__(self) -> None:
        # The message holds more than the body; past its size the transport fails the stream, and
        # the reason would be that of a fault.
        if self.max_body >= self.grpc_max_recv_msg_size:
            raise OptionError("max_body", "must be less than grpc-max-recv-msg-size")

    @property
    def document(self) -> str:
        """The path of the deciding document without empty parts, as decisions name it: `a/b`."""
        return "/".join([part for part in self.path.split("/") if part])
