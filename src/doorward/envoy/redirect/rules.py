"""Options of the init step become rules: which TCP connections reach the proxy instead.

    options -> `to_rules` -> chains of rules -> a back end's script -> the kernel

All inbound connections go to the proxy, whatever port they were meant for, except the ports that
stay open by name. With `outbound` those that leave go to the proxy as well, and with
`capture_loopback` those between neighbours in one network namespace, unless the proxy's own user
makes them. The chains mean the same over IPv4 and IPv6; `nft` and `iptables` write them for their
back ends. Nothing here runs a program.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import field
from typing import Final, Literal

from doorward.base.records import mutable, record

__all__ = ["Chains", "Family", "Redirect", "Rule", "read_networks", "read_ports", "to_rules"]

Family = Literal["ip", "ip6"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Chains = dict[str, tuple["Rule", ...]]
"""Rules by chain. The kernel calls `prerouting` and `output`; they jump to the other chains."""

_PORTS: Final = 64
_NETWORKS: Final = 256
_USERS: Final = 2**32 - 1  # the last one means "no user"
_HOST: Final[dict[Family, str]] = {"ip": "127.0.0.1", "ip6": "::1"}
# Docker's resolver answers here in every container, and nowhere else; port 53 alone stays open.
_RESOLVER: Final = "127.0.0.11"


@record(kw_only=True)
class Redirect:
    """The options of a redirect: which TCP connections go to the proxy, and which never do.

    Raise ValueError for a port or user out of range, too many ports or networks, or `networks`
    without `outbound`.
    """

    port: int
    """The port at which the proxy listens for inbound connections."""
    user: int
    """The numeric id of the proxy's user."""
    open_ports: tuple[int, ...] = ()
    """Inbound ports that are not redirected, such as those of health checks and metrics."""
    only_ports: tuple[int, ...] = ()
    """The only inbound ports to redirect, for a host with other services; empty means all ports."""
    outbound: int | None = None
    """The port at which the proxy listens for outbound connections; None leaves them alone."""
    networks: tuple[Network, ...] = ()
    """The destination networks of outbound connections to redirect; empty means all."""
    capture_loopback: bool = False
    """True if connections inside the network namespace are redirected as well."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of range, more than `_PORTS` ports or `_NETWORKS`
        networks, or `networks` without `outbound`.
        """
        for port in (
            self.port,
            *self.open_ports,
            *self.only_ports,
            *(() if self.outbound is None else [self.outbound]),
        ):
            if not 0 < port < 65536:
                raise ValueError(f"`{port}` is not a port from 1 to 65535")
        if not 0 <= self.user < _USERS:
            raise ValueError(f"`{self.user}` is not a numeric user id from 1 to {_USERS - 1}")
        # The connections of the proxy's user pass: those of every process of root would.
        if self.user == 0:
            raise ValueError("Envoy must not run as root: choose another user id than 0")
        if max(len(self.open_ports), len(self.only_ports)) > _PORTS:
            raise ValueError(f"more than {_PORTS} ports are listed: list fewer")
        if len(self.networks) > _NETWORKS:
            raise ValueError(
                f"more than {_NETWORKS} networks are listed: replace some by larger ones"
            )
        if self.networks and self.outbound is None:
            raise ValueError(
                "networks (-i) only apply to outbound connections: set the outbound port (-o) too"
            )


@record(kw_only=True)
class Rule:
    """A rule for TCP connections: its conditions must all hold, and then `then` happens."""

    why: str
    then: Literal["return"] | str | int = "return"
    """`return`, the name of the chain to go to, or the port to redirect to."""
    loopback: bool = False
    """True if only packets that leave through the loopback interface match."""
    user: int | None = None
    destination: str | None = None
    """An address, or a network `ADDRESS/BITS`."""
    elsewhere: str | None = None
    """Any destination but this address."""
    port: int | None = None


@mutable
class _Draft:
    """The chains of rules while they are collected, by name."""

    chains: dict[str, list[Rule]] = field(default_factory=dict)

    def add(self, chain: str, rule: Rule) -> None:
        self.chains.setdefault(chain, []).append(rule)


def to_rules(options: Redirect, family: Family) -> Chains:
    """Return the chains of rules that redirect connections of one address family, by name; a chain
    stands before those that jump to it.
    """
    draft = _Draft()
    for port in sorted(set(options.open_ports)):
        draft.add("inbound", Rule(port=port, why=f"port {port} stays open"))
    for port in sorted(set(options.only_ports)):
        why = f"port {port} goes to the proxy"
        draft.add("inbound", Rule(port=port, then=options.port, why=why))
    if not options.only_ports:
        draft.add("inbound", Rule(then=options.port, why="all other connections go to the proxy"))
    if options.capture_loopback:
        _add_local(draft, options, family)
    if options.outbound is not None:
        _add_outbound(draft, options, options.outbound, family)
    draft.add("prerouting", Rule(then="inbound", why="what comes in"))
    if options.capture_loopback:
        draft.add("output", Rule(then="local", loopback=True, why="what neighbours send"))
    if options.outbound is not None:
        draft.add("output", Rule(then="outbound", why="what goes out"))
    return {name: tuple(rules) for name, rules in draft.chains.items()}


def _add_local(draft: _Draft, options: Redirect, family: Family) -> None:
    """Add the chain for connections between neighbours, those that use the loopback interface."""
    draft.add("local", Rule(user=options.user, why="the proxy reaches the application"))
    if family == "ip":
        draft.add("local", Rule(destination=_RESOLVER, port=53, why="name resolution of Docker"))
    draft.add("local", Rule(then="inbound", why="neighbours are treated like clients"))


def _add_outbound(draft: _Draft, options: Redirect, port: int, family: Family) -> None:
    """Add the chain for outbound connections; `port` is where the proxy listens for them.

    Only the networks of this family are redirected, or everything if no network was given. The
    proxy's own connections and those to the loopback address are left alone; what the application
    sends to itself by another address goes through the inbound chain.
    """
    host = _HOST[family]
    draft.add(
        "outbound",
        Rule(loopback=True, elsewhere=host, then="inbound", why="the application calls itself"),
    )
    # After the rule for loopback: the proxy's calls to the pod's own address go in as from outside.
    draft.add("outbound", Rule(user=options.user, why="the proxy is not sent to itself"))
    draft.add("outbound", Rule(destination=host, why="loopback stays loopback"))
    if not options.networks:
        draft.add("outbound", Rule(then=port, why="all other connections go to the proxy"))
    for network in options.networks:
        if network.version == (4 if family == "ip" else 6):
            draft.add("outbound", Rule(destination=_write(network), then=port, why="as asked for"))


def _write(network: Network) -> str | None:
    """Return a network as the kernel's tools list it, a single address without its mask.

    None for a network of all addresses.
    """
    if network.prefixlen == 0:
        return None
    kind = socket.AF_INET if network.version == 4 else socket.AF_INET6
    # As the kernel's tools write it, so that what they list can be compared.
    address = socket.inet_ntop(kind, network.network_address.packed)
    is_single = network.prefixlen == network.max_prefixlen
    return address if is_single else f"{address}/{network.prefixlen}"


def read_ports(texts: Iterable[str]) -> tuple[int, ...]:
    """Return ports from texts such as `80` or `80,443`; raise ValueError for anything else."""
    return tuple(_read_port(part) for text in texts for part in text.split(","))


def _read_port(text: str) -> int:
    """Return a port from 1 to 65535; ValueError for any other text."""
    if re.fullmatch(r"[0-9]{1,5}", text) is None or not 0 < int(text) < 65536:
        raise ValueError(f"`{text}` is not a port from 1 to 65535")
    return int(text)


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return networks from texts such as `10.0.0.0/8,fd00::/8`; raise ValueError for anything
    else.
    """
    return tuple(_read_network(part) for text in texts for part in text.split(","))


def _read_network(text: str) -> Network:
    """Return a network in CIDR form; raise ValueError for another text, or one with host bits."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"`{text}` is not a network in CIDR form, such as 10.0.0.0/8") from None
