"""Networks that a request joins, and ports that it opens on the host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = [
    "BUILT_IN",
    "NO_NETWORK",
    "NO_PORTS",
    "create_network",
    "create_ports",
    "network_reference",
    "new_network",
    "service_network",
    "service_ports",
]

_IDENTIFIER: Final = re.compile(r"[0-9a-z]{1,64}")
"""A whole identifier of a network, or a prefix of one: the daemon takes both, after names."""
NO_NETWORK: Final[dict[str, Any]] = {
    "mode": "",
    "names": [],
    "identifiers": [],
    "container": "",
    "driver": "",
    "addresses": [],
    "mac_address": "",
    "links": [],
    "dns": [],
    "extra_hosts": [],
    "options": [],
    "subnets": [],
    "taken": [],
    "ipam_driver": "",
    "disabled": False,
    "unresolved": False,
}
NO_PORTS: Final[dict[str, Any]] = {"published": [], "all": False, "exposed": []}
BUILT_IN: Final = frozenset(("", "default", "bridge", "host", "none"))
"""Networks that every daemon has, by their names: they are nobody's and everybody's."""
_PUBLISHING: Final = frozenset({"PortBindings", "PublishAllPorts"})
"""Fields of a HostConfig that open ports of the host."""


def create_network(
    host: Mapping[str, Any], config: Mapping[str, Any], networking: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the `network` view of a container to be created.

    `unresolved` is True if the container joins the network of another one.
    """
    mode = host.get("NetworkMode") or "default"
    container = mode.removeprefix("container:") if mode.startswith("container:") else ""
    endpoints = networking.get("EndpointsConfig") or {}
    if not endpoints:
        return _without_endpoints(mode, container, host, config)
    names = {mode} if not container and mode not in ("default", "none") else set()
    addresses: list[str] = []
    links = list(host.get("Links") or ())
    for name, endpoint in endpoints.items():
        # Both: the daemon may look the network up by either, so a policy has to allow either.
        names |= {name, network_reference(name, endpoint or {})}
        addresses += _addresses(endpoint or {})
        links += (endpoint or {}).get("Links") or ()
    macs = [config.get("MacAddress"), *[(e or {}).get("MacAddress") for e in endpoints.values()]]
    return {
        **NO_NETWORK,
        "mode": mode,
        "names": sorted(names),
        "container": container,
        "addresses": addresses,
        "mac_address": next((mac for mac in macs if mac), ""),
        "links": links,
        "dns": host.get("Dns") or [],
        "extra_hosts": host.get("ExtraHosts") or [],
        "disabled": bool(config.get("NetworkDisabled")) or mode == "none",
        "unresolved": bool(container),
    }


def network_reference(name: str, endpoint: Mapping[str, Any]) -> str:
    """Return the name or identifier by which the daemon looks for the network of an endpoint when a
    container starts: `NetworkID` if there is one, else the name that the endpoint has in
    `EndpointsConfig`. Docker's own networks are known by name alone.
    """
    return name if name in BUILT_IN else endpoint.get("NetworkID") or name


def _without_endpoints(
    mode: str, container: str, host: Mapping[str, Any], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the view of a container whose request names a network mode but no endpoints: its only
    network is the mode, or none if that is `default` or `none` or if it joins another `container`.
    """
    return {
        **NO_NETWORK,
        "mode": mode,
        "names": [] if container or mode in ("default", "none") else [mode],
        "container": container,
        "mac_address": config.get("MacAddress") or "",
        "links": host.get("Links") or [],
        "dns": host.get("Dns") or [],
        "extra_hosts": host.get("ExtraHosts") or [],
        "disabled": bool(config.get("NetworkDisabled")) or mode == "none",
        "unresolved": bool(container),
    }


def new_network(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `network` view of a network to be created: its name, driver, IPAM driver, option
    names and subnets.

    `unresolved` is True if its configuration comes from another network.
    """
    ipam = spec.get("IPAM") or {}
    configs = [each for each in ipam.get("Config") or () if each is not None]
    return {
        **NO_NETWORK,
        "driver": spec.get("Driver") or "bridge",
        "names": [spec.get("Name") or ""],
        "options": sorted(spec.get("Options") or ()),
        "subnets": [each["Subnet"] for each in configs if each.get("Subnet")],
        "ipam_driver": ipam.get("Driver") or "",
        "unresolved": bool((spec.get("ConfigFrom") or {}).get("Network")),
    }


def _addresses(endpoint: Mapping[str, Any]) -> list[str]:
    """Return the addresses that an endpoint requests."""
    ipam = endpoint.get("IPAMConfig") or {}
    addresses = [
        ipam.get("IPv4Address"),
        ipam.get("IPv6Address"),
        *(ipam.get("LinkLocalIPs") or ()),
    ]
    return [address for address in addresses if address]


def service_network(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `network` view of a swarm service, whose networks are names or identifiers.

    A text that could be an identifier, or the prefix of one, is unresolved: the host's network has
    an identifier, too.
    """
    task = spec.get("TaskTemplate") or {}
    attachments = [*(task.get("Networks") or ()), *(spec.get("Networks") or ())]
    names = sorted({(item or {}).get("Target") or "" for item in attachments})
    identifiers = [name for name in names if name != "host" and _IDENTIFIER.fullmatch(name)]
    return {
        **NO_NETWORK,
        "names": names,
        "identifiers": identifiers,
        "mode": "host" if "host" in names else "",
        "unresolved": bool(identifiers),
    }


def create_ports(host: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `ports` view of a container: `published` has a row for each host port, `all` is
    True if all exposed ports are published, `exposed` lists the exposed ports.
    """
    if _PUBLISHING.isdisjoint(host) and not config.get("ExposedPorts"):
        return NO_PORTS
    published = [
        _port(key, (binding or {}).get("HostIp") or "", (binding or {}).get("HostPort") or "")
        for key, bindings in (host.get("PortBindings") or {}).items()
        for binding in bindings or ()
    ]
    return {
        "published": published,
        "all": bool(host.get("PublishAllPorts")),
        "exposed": sorted(config.get("ExposedPorts") or ()),
    }


def _port(key: str, host_ip: str, host_port: str) -> dict[str, Any]:
    """Return the row of a published port; `key` is like `80/tcp`, `host_port` a port, a range or
    `""`.

    `unresolved` is True if the daemon chooses the port on the host, or `host_port` has another
    form.
    """
    container, _, protocol = key.partition("/")
    first, last = _range(host_port)
    return {
        "container": container,
        "protocol": protocol or "tcp",
        "host_ip": host_ip,
        "host": host_port,
        "first": first,
        "last": last,
        # An empty host port is one that the daemon chooses.
        "unresolved": first == 0,
    }


def _range(text: str) -> tuple[int, int]:
    """Return the first and the last port of a range or single port; (0, 0) if the text is
    neither.
    """
    first, dash, last = text.partition("-")
    parts = [first, last if dash else first]
    # (0, 0) is unresolved: a policy that limits ports must not take it for a free range.
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        return 0, 0
    return int(parts[0]), int(parts[1])


def service_ports(ports: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return the `ports` view of a swarm service, whose ports are published on each node."""
    published = []
    for item in ports:
        if item is not None:
            number = item.get("PublishedPort") or 0
            key = f"{item.get('TargetPort') or 0}/{item.get('Protocol') or 'tcp'}"
            published.append(_port(key, "", str(number) if number else ""))
    return {"published": published, "all": False, "exposed": []}
