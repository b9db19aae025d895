"""Messages of protobuf for tests, written without a schema."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["field", "mapping", "solve"]


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def field(number: int, value: bytes | str | int) -> bytes:
    """One field; a number is a varint, all else has a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def mapping(number: int, entries: Mapping[str, str]) -> bytes:
    """A map of texts."""
    pairs = [field(1, name) + field(2, value) for name, value in entries.items()]
    return b"".join([field(number, pair) for pair in pairs])


def solve(
    frontend: str = "dockerfile.v0",
    options: Mapping[str, str] | None = None,
    *,
    entitlements: tuple[str, ...] = (),
    exporters: tuple[tuple[str, Mapping[str, str]], ...] = (),
    caches: tuple[tuple[str, Mapping[str, str]], ...] = (),
    rest: bytes = b"",
) -> bytes:
    """A request of `Control/Solve`, as clients write it."""
    cache = b"".join([field(5, field(1, name) + mapping(2, each)) for name, each in caches])
    return b"".join(
        [
            field(1, "ref"),
            field(5, "session"),
            field(6, frontend),
            mapping(7, options or {}),
            field(8, cache),
            *[field(9, each) for each in entitlements],
            *[field(13, field(1, name) + mapping(2, each)) for name, each in exporters],
            rest,
        ]
    )
