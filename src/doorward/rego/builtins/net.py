"""Addresses and networks, read as Go's `net` reads them, and name look-up.

IPv4 addresses mapped into IPv6 are IPv4 addresses. A network is its range of addresses in the
space of IPv6, so that both versions compare alike. Bounds: net.cidr_expand gives at most
`MAX_EXPANDED` addresses, net.cidr_merge takes at most `MAX_MERGED` networks, a look-up ends at
the decision's deadline or after `LOOKUP_SECONDS`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv6Address
from operator import itemgetter
from socket import AF_INET, inet_ntop
from typing import Final, TypeAlias

from doorward.base.records import record
from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.signature import (
    any_,
    any_of,
    array,
    boolean,
    object_,
    set_,
    string,
    tuple_,
)
from doorward.rego.errors import CANCEL_ERROR, BuiltinError, EvaluationAborted, LimitError
from doorward.rego.golang.addresses import parse_ip
from doorward.rego.golang.octets import scrub
from doorward.rego.values import Key, Value, iterate, make_set

MAX_EXPANDED: Final = 1 << 16
MAX_MERGED: Final = 10_000
LOOKUP_SECONDS: Final = 5.0


@record
class _Network:
    """All addresses from `first` to `last`, as numbers in the space of IPv6. `text` is the CIDR in
    its shortest form, "" for a network of one address. An address is `in` it only if it is of the
    same IP version.
    """

    first: int
    last: int
    text: str

    def __contains__(self, address: int) -> bool:
        return self.first <= address <= self.last and _is_v4(address) == _is_v4(self.first)


# Policies name few networks, often: what is valid is short, and what is not is not kept.
@lru_cache(maxsize=4096)
def _network(text: str) -> _Network:
    """Return the range of addresses of a CIDR such as `10.0.0.0/8`, with its text in normal form;
    address bits behind the prefix are ignored. BuiltinError if it is invalid, also for an address
    without a prefix. Cached.
    """
    host, slash, length = text.partition("/")
    address = parse_ip(host) if slash and length.isdecimal() and length.isascii() else None
    bits = 128 if ":" in host else 32
    # Go reads zeros in front; `int` refuses thousands of digits with an error of its own.
    length = length.lstrip("0") or "0"
    if address is None or len(length) > 3 or int(length) > bits:
        raise BuiltinError(f"invalid CIDR address: {scrub(text)}")
    size = bits - int(length)
    span = (1 << size) - 1
    first, last = address & ~span, address | span
    return _Network(first, last, _cidr(first, size, is_v4=_is_v4(first) and _is_v4(last)))


def _network_or_address(text: str) -> _Network:
    """Parse a CIDR, or an address as a network of that one address; BuiltinError for other
    texts.
    """
    address = parse_ip(text)
    if address is not None:
        return _Network(address, address, "")
    try:
        return _network(text)
    except BuiltinError:
        scrubbed = scrub(text)
        raise BuiltinError(
            f"not a valid textual representation of an IP address or CIDR: {scrubbed}"
        ) from None


def _text(address: int) -> str:
    """The text of an address number, dotted for one that maps an IPv4 address."""
    if _is_v4(address):
        return inet_ntop(AF_INET, (address & 0xFFFFFFFF).to_bytes(4, "big"))
    return str(IPv6Address(address))


def _cidr(first: int, size: int, *, is_v4: bool) -> str:
    """The CIDR of the network that begins at an address and whose addresses differ in their last
    `size` bits; with `is_v4` all of them map IPv4 addresses.
    """
    return f"{_text(first)}/{32 - size}" if is_v4 else f"{IPv6Address(first)}/{128 - size}"


def _is_v4(address: int) -> bool:
    return address >> 32 == 0xFFFF


def _contains(cidr: str, other: str) -> bool:
    """Return True if the network contains the address, or all of the network, `other`. BuiltinError
    if one is invalid.
    """
    network = _network(cidr)
    address = parse_ip(other)
    if address is not None:
        return address in network
    inner = _network_or_address(other)
    return inner.first in network and inner.last in network


def _refuse(one: Value, other: Value) -> None:
    """Raise OPA's error for operands of which one is not a string. OPA parses the first one first,
    so its BuiltinError comes before that for the second; OPA numbers both operand 1.
    """
    if isinstance(one, str):
        _network(one)
    raise operand_error(1, other if isinstance(one, str) else one, "string")


@builtin(
    "net.cidr_contains",
    string,
    string,
    returns=boolean,
    refuse=_refuse,
    inverse=inverse("cidr"),
)
def net_cidr_contains(cidr: str, cidr_or_ip: str) -> bool:
    """Return true if a network holds a whole other network, or an address; false if they are of
    different IP versions. It is an error if the first text is not a CIDR, or the second one neither
    a CIDR nor an address.
    """
    return _contains(cidr, cidr_or_ip)


@builtin(
    "net.cidr_overlap",
    string,
    string,
    returns=boolean,
    deprecated="use net.cidr_contains",
    refuse=_refuse,
    inverse=inverse("cidr"),
)
def net_cidr_overlap(cidr: str, cidr_or_ip: str) -> bool:
    """Return true if a network holds a whole other network, or an address; false if they are of
    different IP versions. It is an error if the first text is not a CIDR, or the second one neither
    a CIDR nor an address.
    """
    return _contains(cidr, cidr_or_ip)


@builtin(
    "net.cidr_intersects",
    string,
    string,
    returns=boolean,
    refuse=_refuse,
    inverse=inverse("cidr"),
)
def net_cidr_intersects(cidr1: str, cidr2: str) -> bool:
    """Return true if two networks have an address in common. A text that is not a CIDR, also a
    plain address, is an error.
    """
    one, two = _network(cidr1), _network(cidr2)
    return one.first in two or two.first in one


@builtin(
    "net.cidr_is_valid",
    string,
    returns=boolean,
    checked=False,
    inverse=inverse("valid", "10.0.0.0/8", "a"),
)
def net_cidr_is_valid(cidr: Value) -> bool:
    """Return true if `cidr` is a string in CIDR notation."""
    if not isinstance(cidr, str):
        return False
    try:
        _network(cidr)
    except BuiltinError:
        return False
    return True


@builtin(
    "net.cidr_expand",
    string,
    returns=set_(string),
    checks_deadline=True,
    inverse=inverse("cidr_expand"),
)
def net_cidr_expand(cidr: str) -> frozenset[Key]:
    """The set of all addresses in a network. A text that is not a CIDR is an error; LimitError for
    more than `MAX_EXPANDED` addresses.
    """
    network = _network(cidr)
    if network.last - network.first >= MAX_EXPANDED:
        raise LimitError(f"network has more than {MAX_EXPANDED} addresses")
    if _is_v4(network.first) and _is_v4(network.last):
        return frozenset(_v4_texts(network.first, network.last))
    return frozenset([_text(n) for n in range(network.first, network.last + 1)])


_LAST_PARTS: Final = [f".{number}" for number in range(256)]


def _v4_texts(first: int, last: int) -> list[str]:
    """The texts of all IPv4 addresses from one to another, each the number of a mapped address."""
    texts: list[str] = []
    # All of one /24 share what precedes the last part.
    for start in range(first & ~0xFF, last + 1, 256):
        shared = _text(start)[:-2]
        parts = _LAST_PARTS[max(first - start, 0) : last - start + 1]
        texts += [shared + part for part in parts]
    return texts


_ELEMENT: Final = any_of(string, array(any_))
_COLLECTION: Final = any_of(string, array(_ELEMENT), set_(_ELEMENT), object_(string, _ELEMENT))


@builtin(
    "net.cidr_contains_matches",
    _COLLECTION,
    _COLLECTION,
    returns=set_(tuple_(any_, any_)),
    context=True,
    checked=False,
)
def net_cidr_contains_matches(
    context: Context, cidrs: Value, cidrs_or_ips: Value
) -> frozenset[Key]:
    """Pairs of keys: of a network in the first collection and of an address or network inside it in
    the second. A key is the index in an array, the key in an object, or the member of a set itself;
    a string counts as a collection of itself. Of an item that is an array the first element counts.
    An item that is not a network or, in the second collection, an address, is an error; if one
    collection is empty, the texts in the other are not parsed.
    """
    matches: list[Value] = []
    inner: list[tuple[Value, _Network]] | None = None
    for key, cidr in _candidates(1, cidrs):
        context.check_deadline()
        if inner is None:
            inner = _members(context, cidrs_or_ips, cidr)
        if inner:
            outer = _network(_string(1, cidr))
            matches += [[key, k] for k, n in inner if n.first in outer and n.last in outer]
    return make_set(matches)


def _members(context: Context, collection: Value, cidr: Value) -> list[tuple[Value, _Network]]:
    """The networks of the collection in operand 2, each with its key. `cidr`, the first network of
    operand 1, is checked before them, so that the first of several errors is the one that OPA
    reports. OperandError or BuiltinError if one is not a network.
    """
    members: list[tuple[Value, _Network]] = []
    for key, other in context.checked_iter(_candidates(2, collection)):
        if not members:
            _network(_string(1, cidr))
        members.append((key, _network_or_address(_string(2, other))))
    return members


def _string(position: int, text: Value) -> str:
    """Return the text, part of operand `position`; OperandError if it is not a string."""
    if not isinstance(text, str):
        raise operand_error(position, text, "string")
    return text


def _candidates(position: int, collection: Value) -> Iterator[tuple[Value, Value]]:
    """Yield a pair of key and item for each item of the collection; in place of an array the pair
    has its first element. A string gives one pair of itself and itself. BuiltinError, naming
    operand `position`, for an item that is neither a string nor a non-empty array.
    """
    if isinstance(collection, str):
        yield collection, collection
    for key, item in iterate(collection):
        if isinstance(item, list) and item:
            yield key, item[0]
        elif isinstance(item, str):
            yield key, item
        else:
            raise BuiltinError(f"operand {position}: element must be string or non-empty array")


_Range: TypeAlias = tuple[int, int, str | None]
"""The last and the first address of a range to merge, as numbers in the space of IPv6, and the CIDR
that stands for it, None where that is to be computed."""


@builtin(
    "net.cidr_merge",
    any_of(array(any_of(string)), set_(string)),
    returns=set_(string),
    checked=False,
    checks_deadline=True,
)
def net_cidr_merge(addrs: Value) -> frozenset[Key]:
    """The smallest set of networks that covers the given addresses and networks. An IPv4 address
    without a prefix length has that of its class: 10.0.0.1 is 10.0.0.1/8; an IPv6 one, and another
    text, is an error. LimitError for more than `MAX_MERGED` items.
    """
    if not isinstance(addrs, (list, frozenset)):
        raise BuiltinError("operand must be an array")
    if len(addrs) > MAX_MERGED:
        raise LimitError(f"operand has more than {MAX_MERGED} networks")
    networks = [_classful(item) for _, item in iterate(addrs)]
    return frozenset([text for merged in _merge(networks) for text in _texts(*merged)])


def _classful(item: Value) -> _Range:
    """Parse a CIDR, or an IPv4 address with the prefix length of its class (8, 16 or 24).
    BuiltinError for others, such as an IPv6 address without a length.
    """
    if not isinstance(item, str):
        raise BuiltinError("element must be string")
    address = parse_ip(item)
    if address is None:
        network = _network(item)
        return network.last, network.first, network.text
    if not _is_v4(address):
        raise BuiltinError("IPv6 invalid: needs prefix length")
    first = (address >> 24) & 0xFF
    length = 8 if first < 128 else 16 if first < 192 else 24
    span = (1 << (32 - length)) - 1
    return address | span, address & ~span, f"{_text(address)}/{length}"


def _merge(networks: list[_Range]) -> list[_Range]:
    """Merge ranges that overlap or adjoin, highest first. One that was not merged keeps its
    text.
    """
    ordered = sorted(networks, key=itemgetter(0, 1), reverse=True)
    merged: list[_Range] = []
    # From the highest end down: a range that may merge is then always the last one of `merged`.
    for network in ordered:
        if merged and merged[-1][1] - 1 <= network[0]:
            last, first, _ = merged.pop()
            network = (last, min(network[1], first), None)
        merged.append(network)
    return merged


def _texts(last: int, first: int, text: str | None) -> list[str]:
    """The fewest CIDRs that exactly cover the addresses from `first` to `last`, in order; or `text`
    alone, if there is one.
    """
    if text is not None:
        return [text]
    is_v4 = _is_v4(first) and _is_v4(last)
    return [_cidr(start, size, is_v4=is_v4) for start, size in _split(first, last)]


def _split(first: int, last: int) -> list[tuple[int, int]]:
    """Split a range of addresses into the fewest networks, each as its first address and the number
    of bits in which its addresses differ.
    """
    parts: list[tuple[int, int]] = []
    while first <= last:
        # The largest network that begins here, and ends where the range does or before.
        size = (last - first + 1).bit_length() - 1
        if first & ((1 << size) - 1):
            size = (first & -first).bit_length() - 1
        parts.append((first, size))
        first += 1 << size
    return parts


@builtin("net.lookup_ip_addr", string, returns=set_(string), context=True, pure=False)
def net_lookup_ip_addr(context: Context, name: str) -> frozenset[Key]:
    """The set of IPv4 and IPv6 addresses that `name` resolves to; it is looked up once per
    decision. A name that has none, or that the capabilities do not allow, is an error. After
    `LOOKUP_SECONDS`, or at the decision's deadline, the evaluation ends.
    """
    allowed = context.environment.allow_net
    if allowed is not None and name.lower() not in allowed:
        raise BuiltinError(f"unallowed host: {scrub(name)}")
    key = ("net.lookup_ip_addr", name)
    known = context.drawn.get(key)
    if isinstance(known, frozenset):
        return known
    limit = LOOKUP_SECONDS
    if context.deadline is not None:
        limit = max(0.0, min(limit, context.deadline - time.monotonic()))
    try:
        if limit == 0:
            raise TimeoutError
        resolved = context.environment.lookup(name, limit)
    except TimeoutError:
        # Not a BuiltinError, which would make the call undefined and `not` of it true.
        halt = EvaluationAborted("net.lookup_ip_addr: timed out")
        halt.code = CANCEL_ERROR
        raise halt from None
    except OSError as error:
        raise BuiltinError(f"lookup {scrub(name)}: {error.strerror or 'no such host'}") from None
    addresses = frozenset(_text(n) for n in map(parse_ip, resolved) if n is not None)
    context.drawn[key] = addresses
    return addresses
