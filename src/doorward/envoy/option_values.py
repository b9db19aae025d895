"""The kinds of values that blocks of plugins have, besides those of all of the configuration."""

from __future__ import annotations

import re
from typing import Final

from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import Kind, integer, nonempty

__all__ = ["HEADER", "MAX_SIZE", "MODE", "SIZE"]

MAX_SIZE: Final = 2**31 - 1
"""The largest size of a gRPC message in bytes."""
_HEADER: Final = re.compile("[a-z][a-z0-9-]{0,63}")


def _read_mode(block: Block, key: str, _warnings: list[str]) -> int:
    """Return the value of `key`, permission bits in quotes, as a number: `"660"` -> 0o660; raise
    ConfigError for anything else.
    """
    # YAML reads 0660 as the number 432: only a quoted text says what was meant.
    value = block.values.get(key)
    try:
        mode = int(value, 8) if isinstance(value, str) else -1
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise ConfigError(f'{block.location(key)} must be permission bits in quotes, such as "660"')
    return mode


SIZE: Final = integer(1, MAX_SIZE)
MODE: Final = Kind(
    _read_mode, "permission bits in quotes", {"type": "string", "pattern": "^0*[0-7]{1,3}$"}
)
HEADER: Final = nonempty(
    "the name of a header",
    pattern=_HEADER,
    message="must be a header name in lower case, such as x-decision-id",
)
