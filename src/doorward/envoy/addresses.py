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

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.transport.unix_sockets import MAX_SOCKET_PATH, PathTakenError, clear_stale

__all__ = [
    "Address",
    "AddressError",
    "check_folder",
    "clear_stale_socket",
    "parse_address",
    "worker_addresses",
]

_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:/\[\]]*):([0-9]{1,5})\Z")


class AddressError(ValueError):
    """A listen address is malformed, its folder is missing, or its socket file is taken."""


@record
class Address:
    """A listen address: `target` is its form for gRPC (`[::]:9191`, `unix:/run/a.sock`), `path` the
    socket file or None for TCP and abstract sockets.
    """

    target: str
    path: Path | None = None
    local: bool = True
    """False if other machines can reach the address."""


def parse_address(text: str) -> Address:
    """Return the listen address for `:9191`, `host:port`, `grpc://host:port`, `unix://PATH` or
    `unix://@NAME` (an abstract socket).

    Names are not resolved and nothing is opened. Raise AddressError for another scheme or form, a
    port above 65535, or a socket path of more than `MAX_SOCKET_PATH` bytes.
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        return _parse_host_port(text)
    if scheme == "grpc":
        return _parse_host_port(rest)
    if scheme != "unix":
        raise AddressError(f"`{text}`: the scheme of the address must be grpc or unix")
    if len(rest.encode()) > MAX_SOCKET_PATH:
        raise AddressError(f"`{text}`: a socket's path has at most {MAX_SOCKET_PATH} bytes")
    if rest.startswith("@") and len(rest) > 1:
        return Address(f"unix-abstract:{rest[1:]}")
    # As in OPA-Envoy, `unix://doorward.sock` is a file of the working directory.
    if not rest or rest.startswith("@") or rest.endswith("/") or "\0" in rest:
        raise AddressError(f"`{text}`: the socket needs a path, such as unix:///run/doorward.sock")
    return Address(f"unix:{rest}", Path(rest))


def worker_addresses(text: str, workers: int) -> list[list[str]]:
    """Return one list of listen addresses for each worker, counted from 0.

    Worker 1 of `unix:///run/a.sock` gets `unix:///run/a.sock.1`, and worker 0 serves `/run/a.sock`
    itself as well as `/run/a.sock.0`; worker 1 of `host:9191` gets `host:9192`, and worker 0
    `host:9191`. A proxy opens one connection for each endpoint, so a shared address would reach a
    single worker. Raise AddressError if an address is malformed, or if the port is 0 or leaves no
    room for the workers' ports.
    """
    address = parse_address(text)
    if address.path is not None or address.target.startswith("unix-abstract:"):
        numbered = [[f"{text}.{number}"] for number in range(workers)]
        # The configured address stays served, so that a client that knows no workers is answered.
        numbered[0].insert(0, text)
        for each in numbered:
            parse_address(each[-1])
        return numbered
    front, _, port = text.rpartition(":")
    # Port 0 lets the kernel choose, and then the others could not be told from it.
    if not 0 < int(port) <= 65536 - workers:
        raise AddressError(
            f"`{text}`: {workers} workers need as many consecutive ports:"
            " set a port with room for them"
        )
    return [[f"{front}:{int(port) + number}"] for number in range(workers)]


def _parse_host_port(text: str) -> Address:
    """Return the TCP address `HOST:PORT`; an empty host stands for all addresses of the machine.

    Raise AddressError if the form is different or the port is above 65535.
    """
    match = _HOST_PORT.match(text)
    if match is None or int(match[2]) > 65535:
        raise AddressError(f"`{text}`: must be host:port, or :port for every address")
    # As Go's `:9191`: every address of both families.
    host = match[1] or ("[::]" if socket.has_dualstack_ipv6() else "0.0.0.0")
    return Address(f"{host}:{match[2]}", local=_is_local(host.strip("[]")))


def _is_local(host: str) -> bool:
    """Return True for a loopback IP address or `localhost`; other names are not resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_folder(path: Path) -> None:
    """Raise AddressError unless the folder of a socket path exists."""
    if not path.parent.is_dir():
        raise AddressError(f"`{path.parent}`: the folder of the socket does not exist: create it")


def clear_stale_socket(path: Path) -> None:
    """Delete the socket file at `path` if no server listens on it; do nothing if there is no file.

    Raise AddressError if a server still listens or this cannot be found out, if the file is not
    itself a socket (a link is not followed), if the folder is missing or if the file cannot be
    deleted.
    """
    check_folder(path)
    try:
        clear_stale(path)
    except PathTakenError as error:
        raise AddressError(f"`{path}`: {error}") from None
    except OSError as error:
        raise AddressError(f"`{path}`: {describe_os_error(error)}") from None
