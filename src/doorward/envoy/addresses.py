"""The plugin's `addr` becomes what gRPC listens on, and a Unix socket's file is made ready for it.

`:9191` and `host:port`, `grpc://host:port`, `unix:///path`, `unix://relative`, `unix://@name`
(abstract). Nothing here knows what is served.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path
from typing import Final

from doorward.base.records import record
from doorward.transport.unix_sockets import PathTakenError, clear_stale

__all__ = [
    "Address",
    "AddressError",
    "check_folder",
    "clear_stale_socket",
    "parse_address",
    "worker_addresses",
]

MAX_SOCKET_PATH: Final = 107
_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:/\[\]]*):([0-9]{1,5})\Z")


class AddressError(ValueError):
    """The address cannot be listened on."""


@record
class Address:
    """`target`: the address in gRPC's words; `path`: the file of a Unix socket that has one."""

    target: str
    path: Path | None = None
    local: bool = True
    """Whether only this machine can reach it."""


def parse_address(text: str) -> Address:
    """The address that `addr` names; AddressError when it names none."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        return _parse_host_port(text)
    if scheme == "grpc":
        return _parse_host_port(rest)
    if scheme != "unix":
        raise AddressError(f"`{text}`: scheme must be grpc or unix")
    if len(rest.encode()) > MAX_SOCKET_PATH:
        raise AddressError(f"`{text}`: a socket's path has at most {MAX_SOCKET_PATH} bytes")
    if rest.startswith("@") and len(rest) > 1:
        return Address(f"unix-abstract:{rest[1:]}")
    # As in OPA-Envoy, `unix://doorward.sock` is a file of the working directory.
    if not rest or rest.startswith("@") or rest.endswith("/") or "\0" in rest:
        raise AddressError(f"`{text}`: a socket has a path (unix:///run/doorward.sock)")
    return Address(f"unix:{rest}", Path(rest))


def worker_addresses(text: str, workers: int) -> list[list[str]]:
    """The addresses of each of several workers beside `text`, which the first one serves.

    Worker 1 of `unix:///run/a.sock` is at `unix:///run/a.sock.1`, of `host:9191` at `host:9192`.
    A worker with an address of its own gets its share of calls: a proxy opens one connection for
    each endpoint, and would reach one process only behind a shared one. AddressError where the
    addresses do not exist.
    """
    address = parse_address(text)
    if address.path is not None or address.target.startswith("unix-abstract:"):
        numbered = [[f"{text}.{number}"] for number in range(workers)]
        numbered[0].insert(0, text)
        for each in numbered:
            parse_address(each[-1])
        return numbered
    front, _, port = text.rpartition(":")
    if not 0 < int(port) <= 65536 - workers:
        raise AddressError(f"`{text}`: {workers} workers need as many ports from a fixed one on")
    return [[f"{front}:{int(port) + number}"] for number in range(workers)]


def _parse_host_port(text: str) -> Address:
    match = _HOST_PORT.match(text)
    if match is None or int(match[2]) > 65535:
        raise AddressError(f"`{text}`: must be host:port, or :port for every address")
    host = match[1] or ("[::]" if socket.has_dualstack_ipv6() else "0.0.0.0")
    return Address(f"{host}:{match[2]}", local=_is_local(host.strip("[]")))


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_folder(path: Path) -> None:
    """AddressError where the folder of a socket does not exist."""
    if not path.parent.is_dir():
        raise AddressError(f"`{path.parent}`: no such folder")


def clear_stale_socket(path: Path) -> None:
    """Remove the socket that a server left behind; AddressError when it still listens on it, or
    when the file is not a socket."""
    check_folder(path)
    try:
        clear_stale(path)
    except PathTakenError as error:
        raise AddressError(f"`{path}`: {error}") from None
    except OSError as error:
        raise AddressError(f"`{path}`: {error.strerror or error}") from None
