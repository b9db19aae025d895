"""Names in certificates: which are valid, and which are within a name constraint (RFC 5280,
4.2.1.10).

The rules are those of Go's `crypto/x509`, which go beyond the standard: a constraint of DNS names
may begin with a dot, and one of URIs covers subdomains as well.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "Mailbox",
    "in_domain",
    "in_mailbox",
    "in_range",
    "is_domain",
    "is_host",
    "read_mailbox",
    "unmapped",
]

_ATOM: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-/=?^_`{|}~."
)
_QUOTED: Final = frozenset(map(chr, {*range(1, 9), 11, 12, *range(14, 128)})) - {'"', "\\"}
_ESCAPED: Final = frozenset(map(chr, {*range(1, 10), 11, 12, *range(14, 128)}))


class Mailbox(NamedTuple):
    """An e-mail address, unescaped: what is before `@`, and the domain as it is written."""

    local: str
    domain: str


def is_host(name: str) -> bool:
    """Return True if a name may be a DNS name or a host: labels of visible ASCII characters, none
    of them empty. "" counts as one.
    """
    labels = name.split(".")
    return not name or all(label and _is_visible(label) for label in labels)


def is_domain(constraint: str) -> bool:
    """Return True if a text may be a constraint of domains: a host, or one after a dot."""
    return is_host(constraint.removeprefix(".")) and constraint != "."


def _is_visible(label: str) -> bool:
    return all("!" <= character <= "~" for character in label)


def read_mailbox(text: str) -> Mailbox | None:
    """Return the parts of an e-mail address (RFC 2821, 4.1.2, with spaces in quotes and escapes
    outside of quotes, as in RFC 3696); None if it is malformed.
    """
    read = _quoted(text) if text.startswith('"') else _dotted(text)
    if read is None:
        return None
    local, rest = read
    if not rest.startswith("@") or not is_host(rest[1:]):
        return None
    return Mailbox(local, rest[1:])


def _quoted(text: str) -> tuple[str, str] | None:
    """Return the text in double quotes, unescaped, and what is after it; None if it is malformed
    or not closed.
    """
    local: list[str] = []
    at = 1
    while at < len(text):
        character = text[at]
        at += 1
        if character == '"':
            return "".join(local), text[at:]
        allowed = _QUOTED
        if character == "\\":
            if at == len(text):
                return None
            character, allowed = text[at], _ESCAPED
            at += 1
        if character not in allowed:
            return None
        local.append(character)
    return None


def _dotted(text: str) -> tuple[str, str] | None:
    """Return atoms with dots between them, unescaped, and what is after them; None if there is
    none, or a dot is at an end or beside another.
    """
    local: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
            if at == len(text):
                return None
        elif text[at] not in _ATOM:
            break
        local.append(text[at])
        at += 1
    part = "".join(local)
    if not part or part[0] == "." or part[-1] == "." or ".." in part:
        return None
    return part, text[at:]


def in_domain(name: str, constraint: str, *, excluded: bool) -> bool:
    """Return True if a DNS name is the constraint's domain or below it; with a leading dot only
    below it. An empty constraint covers all. A wildcard is `excluded` if one of the names that it
    stands for is.
    """
    name, constraint = name.lower(), constraint.lower()
    if not constraint:
        return True
    suffix = constraint if constraint.startswith(".") else f".{constraint}"
    if name == constraint or name.endswith(suffix):
        return True
    is_wildcard = excluded and name.startswith("*")
    _, dot, parent = constraint.partition(".")
    return is_wildcard and bool(dot) and name.partition(".")[2] == parent


def in_mailbox(name: Mailbox, constraint: str, *, excluded: bool) -> bool:
    """Return True if an e-mail address equals the constraint, but for the case of the domain, or if
    the constraint is only a domain, its domain is that or below it. False for a constraint with `@`
    that is malformed.
    """
    if "@" not in constraint:
        return in_domain(name.domain, constraint, excluded=excluded)
    other = read_mailbox(constraint)
    return other is not None and (name.local, name.domain.lower()) == (
        other.local,
        other.domain.lower(),
    )


_MAPPED: Final = b"\0" * 10 + b"\xff\xff"


def unmapped(address: bytes) -> bytes:
    """Return the four bytes of an IPv4 address that is written as one of IPv6; others unchanged."""
    return address[12:] if len(address) == 16 and address[:12] == _MAPPED else address


def in_range(address: bytes, constraint: bytes, *, excluded: bool) -> bool:
    """Return True if an IP address is in the range: an address of the same version, followed by its
    mask. An IPv4 address written as one of IPv6 is in no range that permits it, as in Go, and is
    `excluded` by the ranges of either version (Go 1.26 misses these, and later releases refuse such
    addresses).
    """
    plain = unmapped(address)
    if plain is not address:
        return excluded and (_is_in(address, constraint) or _is_in(plain, constraint))
    return _is_in(address, constraint)


def _is_in(address: bytes, constraint: bytes) -> bool:
    """Return True if an address is in the network that `constraint` is, an address and its mask;
    False for one of the other version of IP.
    """
    half = len(constraint) // 2
    if len(address) != half:
        return False
    pairs = zip(address, constraint[:half], constraint[half:], strict=True)
    return all(a & m == c & m for a, c, m in pairs)
