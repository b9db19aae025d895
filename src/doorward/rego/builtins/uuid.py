"""Random UUIDs, and what is inside one."""

from __future__ import annotations

import re
from typing import Final

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import any_, object_, string
from doorward.rego.values import UNDEFINED, Key, Undefined, Value

__all__: list[str] = []

# A text of 38 bytes is taken to be in braces, whatever the first and the last byte are.
_UUID: Final = re.compile(
    rb"(?:(?i:urn:uuid:)|(?P<brace>.))?"
    rb"([0-9a-fA-F]{8})-([0-9a-fA-F]{4})-([0-9a-fA-F]{4})-([0-9a-fA-F]{4})-([0-9a-fA-F]{12})"
    rb"(?(brace).)|([0-9a-fA-F]{32})",
    re.DOTALL,
)
_GREGORIAN: Final = 0x01B21DD213814000  # 100 ns from 15 October 1582 to the epoch
_DOMAINS: Final = ("Person", "Group", "Org")


@builtin("uuid.rfc4122", string, returns=string, pure=False, context=True)
def uuid_rfc4122(context: Context, k: str) -> str:
    """A random UUID of version 4; the same for equal `k` within one decision."""
    drawn = context.drawn.get(("uuid.rfc4122", k))
    if isinstance(drawn, str):
        return drawn
    data = bytearray(context.environment.random(16))
    data[6] = data[6] & 0x0F | 0x40
    data[8] = data[8] & 0x3F | 0x80
    digits = data.hex()
    parts = digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]
    text = "-".join(parts)
    context.drawn[("uuid.rfc4122", k)] = text
    return text


@builtin("uuid.parse", string, returns=object_(string, any_), inverse=inverse("uuid"))
def uuid_parse(uuid: str) -> dict[Key, Value] | Undefined:
    """The version and variant of a UUID, and for versions 1 and 2 its time (nanoseconds since the
    epoch), node, kind of address and clock sequence, for version 2 also its id and domain;
    undefined for an invalid UUID.
    """
    match = _UUID.fullmatch(uuid.encode("utf-8", "surrogatepass"))
    if not match:
        return UNDEFINED
    digits = b"".join([part for part in match.groups()[1:] if part])
    data = bytes.fromhex(digits.decode("ascii"))
    version = data[6] >> 4
    fields: dict[Key, Value] = {"version": version, "variant": _variant(data[8])}
    if version in {1, 2}:
        ticks = int.from_bytes(data[:4], "big") | int.from_bytes(data[4:6], "big") << 32
        ticks |= (int.from_bytes(data[6:8], "big") & 0x0FFF) << 48
        fields["time"] = (ticks - _GREGORIAN) * 100
        fields["nodeid"] = data[10:].hex("-")
        fields["macvariables"] = _address_kind(data[10])
        fields["clocksequence"] = int.from_bytes(data[8:10], "big") & 0x3FFF
    if version == 2:
        fields["id"] = int.from_bytes(data[:4], "big")
        domain = data[9]
        fields["domain"] = _DOMAINS[domain] if domain < len(_DOMAINS) else f"Domain{domain}"
    return fields


def _variant(byte: int) -> str:
    """The name of a UUID's variant, from the top bits of its ninth byte: `RFC4122`, `Microsoft`,
    `Future` or `Reserved`.
    """
    if byte & 0xC0 == 0x80:
        return "RFC4122"
    return {0xC0: "Microsoft", 0xE0: "Future"}.get(byte & 0xE0, "Reserved")


def _address_kind(byte: int) -> str:
    scope = "local" if byte & 2 else "global"
    return f"{scope}:{'multicast' if byte & 1 else 'unicast'}"
