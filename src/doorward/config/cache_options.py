"""`caching` of the configuration: what is kept from one decision to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from doorward.config.yaml_block import Block, ConfigError

__all__ = ["CacheOptions", "read_caching"]

_RESPONSES: Final = "inter_query_builtin_cache"
_VALUES: Final = "inter_query_builtin_value_cache"
_TOKENS: Final = "io_jwt"
_FIXED: Final = "not followed, the cache has a fixed size"


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """The size and lifetime of a cache."""

    response_bytes: int = 16 << 20
    """`inter_query_builtin_cache.max_size_bytes` of what `http.send` got; in OPA 0, and here the
    default, stands for no limit."""
    response_percentage: int = 100
    """`forced_eviction_threshold_percentage`: the share of it from which responses go."""
    stale_seconds: int = 0
    """`stale_entry_eviction_period_seconds`: how often those go that are not fresh; 0: never."""
    tokens: int = 8192
    """`inter_query_builtin_value_cache.named.io_jwt.max_num_entries`: tokens that were verified."""


def read_caching(top: Block, warnings: list[str]) -> CacheOptions:
    """`caching`; ConfigError for what cannot be meant."""
    block, default = top.block("caching"), CacheOptions()
    responses, values = block.block(_RESPONSES), block.block(_VALUES)
    named = values.block("named")
    tokens = named.block(_TOKENS)
    warnings += block.unknown([_RESPONSES, _VALUES])
    warnings += responses.unknown(
        [
            "forced_eviction_threshold_percentage",
            "max_size_bytes",
            "stale_entry_eviction_period_seconds",
        ]
    )
    warnings += values.unknown(["max_num_entries", "named"]) + tokens.unknown(["max_num_entries"])
    _entries(values)
    if values.values.get("max_num_entries") is not None:
        warnings.append(f"{values.location('max_num_entries')}: {_FIXED}")
    for name in named.values:
        _entries(named.block(name))
        if name != _TOKENS:
            warnings.append(f"{named.location(name)}: {_FIXED}")
    percentage = responses.get("forced_eviction_threshold_percentage", int, 100)
    if not 0 <= percentage <= 100:
        location = responses.location("forced_eviction_threshold_percentage")
        raise ConfigError(f"{location} must be from 0 to 100 but is {percentage}")
    stale = responses.get("stale_entry_eviction_period_seconds", int, 0)
    if stale < 0:
        location = responses.location("stale_entry_eviction_period_seconds")
        raise ConfigError(f"{location} must not be negative but is {stale}")
    size = responses.get("max_size_bytes", int, 0)
    return CacheOptions(
        response_bytes=size if size > 0 else default.response_bytes,
        response_percentage=percentage,
        stale_seconds=stale,
        tokens=_entries(tokens) or default.tokens,
    )


def _entries(block: Block) -> int:
    number = block.get("max_num_entries", int, 0)
    if number < 0:
        raise ConfigError(
            f"{block.location('max_num_entries')} must not be negative but is {number}"
        )
    return number
