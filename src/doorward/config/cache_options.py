"""`caching` of the configuration: caches that outlive one decision."""

from __future__ import annotations

from typing import Final

from doorward.base.records import record
from doorward.config.blocks import Block
from doorward.config.schema import Kind, integer, option, positive_or

__all__ = ["CacheOptions"]

_RESPONSES: Final = "inter_query_builtin_cache"
_VALUES: Final = "inter_query_builtin_value_cache"
_NAMED: Final = f"{_VALUES}.named"
_TOKENS: Final = "io_jwt"
_FIXED: Final = "ignored: the cache has a fixed size"
_BYTES: Final = 16 << 20
_ENTRIES: Final = 8192


def _read_fixed(block: Block, key: str, warnings: list[str]) -> None:
    """Check an integer that has no effect, and add a warning that says so."""
    integer(0).read(block, key, warnings)
    warnings.append(f"{block.location(key)}: {_FIXED}")


def _read_named(block: Block, key: str, warnings: list[str]) -> int:
    """Return the size of the cache of verified tokens (`io_jwt`), its default if it is 0 or
    missing; other caches of values have a fixed size, and their keys become warnings. ConfigError
    for a negative size.
    """
    named = block.block(key)
    tokens = 0
    for name in named.values:
        each = named.block(name)
        entries = each.get("max_num_entries", int, 0)
        if each.values.get("max_num_entries") is not None:
            integer(0).read(each, "max_num_entries", warnings)
        if name == _TOKENS:
            tokens = entries
            warnings += each.unknown(["max_num_entries"])
        else:
            warnings.append(f"{named.location(name)}: {_FIXED}")
    return tokens or _ENTRIES


_CACHE: Final = {"type": "object", "properties": {"max_num_entries": {"type": "integer"}}}


@record
class CacheOptions:
    """`caching`: the sizes of the caches of `http.send` and of verified tokens."""

    response_bytes: int = option(
        f"{_RESPONSES}.max_size_bytes",
        positive_or(_BYTES),
        _BYTES,
        "maximum size of the cache of `http.send`, in bytes; 0: the default (OPA: no limit)",
    )
    response_percentage: int = option(
        f"{_RESPONSES}.forced_eviction_threshold_percentage",
        integer(0, 100),
        100,
        "the percentage of `max_size_bytes` at which the oldest responses are removed",
    )
    stale_seconds: int = option(
        f"{_RESPONSES}.stale_entry_eviction_period_seconds",
        integer(0),
        0,
        "seconds between two removals of stale responses; 0: they are not removed",
    )
    tokens: int = option(
        _NAMED,
        Kind(_read_named, "caches by name", {"type": "object", "additionalProperties": _CACHE}),
        _ENTRIES,
        "`io_jwt.max_num_entries`: maximum number of verified tokens that are kept (OPA's default: "
        "none); the other caches have fixed sizes: their keys are ignored with a warning",
    )
    fixed: None = option(
        f"{_VALUES}.max_num_entries",
        Kind(_read_fixed, "integer from 0", {"type": "integer", "minimum": 0}),
        None,
        "ignored: caches of values have fixed sizes, except the one of tokens",
    )
