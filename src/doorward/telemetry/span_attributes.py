"""The attributes of a span for an HTTP request that is served, as OPA sets them.

They follow OpenTelemetry's conventions. None contains the input, the result or the query of a URL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from doorward.base.digits import parse_digits

__all__ = ["request_attributes", "response_attributes"]

_PORTS: Final = {"http": 80, "https": 443}


def request_attributes(
    method: str,
    path: str,
    header: Callable[[str], str | None],
    client: Any,
    *,
    is_encrypted: bool = False,
    version: str = "1.1",
) -> dict[str, str | int]:
    """Return the attributes that are known when a request arrives; absent values are left out.
    `header` returns a header by its lower-case name; `client` is the address of its socket.
    `client.address` is the first in `x-forwarded-for`, which the client can choose, else that of
    the socket.
    """
    scheme = "https" if is_encrypted else "http"
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "network.protocol.version": version,
        "url.path": path,
        "url.scheme": scheme,
    }
    host, port = _host_and_port(header("host") or "")
    if host:
        attributes["server.address"] = host
    if port and port != _PORTS[scheme]:
        attributes["server.port"] = port
    peer = client if isinstance(client, tuple) and len(client) >= 2 else None
    if peer is not None:
        attributes["network.peer.address"] = str(peer[0])
        attributes["network.peer.port"] = int(peer[1])
    forwarded = (header("x-forwarded-for") or "").partition(",")[0].strip()
    if forwarded or peer is not None:
        attributes["client.address"] = forwarded or str(peer[0] if peer else "")
    if agent := header("user-agent"):
        attributes["user_agent.original"] = agent
    if length := parse_digits(header("content-length") or ""):
        attributes["http.request.body.size"] = length
    return attributes


def response_attributes(status: int, size: int, route: str = "") -> dict[str, str | int]:
    """Return the attributes that are known after the response: status, size of the body, and
    pattern of the route. The last two are left out if empty.
    """
    attributes: dict[str, str | int] = {"http.response.status_code": status}
    if size:
        attributes["http.response.body.size"] = size
    if route:
        attributes["http.route"] = route
    return attributes


def _host_and_port(authority: str) -> tuple[str, int]:
    """Return the host and port of a `Host` header: `[::1]:80` -> `("::1", 80)`; the port is 0 if
    there is none.
    """
    host, colon, digits = authority.rpartition(":")
    port = parse_digits(digits) if colon and len(digits) <= 5 else None
    return (authority if port is None else host).strip("[]"), port or 0
