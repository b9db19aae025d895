"""The kinds of values that blocks of plugins have, besides those of all of the configuration."""

from __future__ import annotations

import re
from typing import Final

from doorward.config.blocks import Block, ConfigError
from doorward.config.schema import Kind, convert, integer, nonempty
from doorward.envoy.addresses import AddressError, parse_address

__all__ = ["ADDRESS", "HEADER", "MAX_SIZE", "MODE", "QUERY", "SIZE"]

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


def _check_address(value: str) -> str:
    """Return the text; raise ValueError unless it is an address to listen on."""
    if not value.strip():
        raise ValueError("must not be empty")
    try:
        parse_address(value)
    except AddressError as error:
        raise ValueError(f": {error}") from None
    return value


def _check_query(value: str) -> str:
    """Return the text; raise ValueError if it is not a Rego query. "" stands for no query."""
    # Most configurations have no query: the parser is not imported for them.
    from doorward.rego.shared import ParseError, Source
    from doorward.rego.tools import parse_query

    try:
        if value:
            parse_query(Source("", value))
    except ParseError as error:
        first = error.diagnostics[0]
        raise ValueError(f"must be a Rego query: {first.code}: {first.message}") from None
    return value


ADDRESS: Final = convert(str, _check_address, "text", {"type": "string", "minLength": 1})
QUERY: Final = convert(str, _check_query, "text", {"type": "string"})
SIZE: Final = integer(1, MAX_SIZE)
MODE: Final = Kind(
    _read_mode, "permission bits in quotes", {"type": "string", "pattern": "^0*[0-7]{1,3}$"}
)
HEADER: Final = nonempty(
    "the name of a header",
    pattern=_HEADER,
    message="must be a header name in lower case, such as x-decision-id",
)
