"""The `plugins.forward_auth` block."""

from __future__ import annotations

import re
from typing import Any, Final

from doorward.base.records import record
from doorward.config.schema import DOCUMENT_PATH, SWITCH, convert, integer, nonempty, option
from doorward.transport.listeners import split_host_port
from doorward.transport.unix_sockets import MAX_SOCKET_PATH

__all__ = ["Options"]

LEAST_SECRET: Final = 16
MAX_SECRET: Final = 512
_PRINTABLE: Final = re.compile(f"[ -~]{{{LEAST_SECRET},{MAX_SECRET}}}")
_HEADER: Final = re.compile(r"[a-z0-9-]{1,64}")


def _headers(values: list[Any]) -> tuple[str, ...]:
    """Return header names as a tuple; raise ValueError unless all are names in lower case."""
    if not all(isinstance(name, str) and _HEADER.fullmatch(name) for name in values):
        raise ValueError("must be a list of header names in lower case")
    return tuple(values)


def _check_address(value: str) -> str:
    """Return the text; raise ValueError unless it is an address that the HTTP server can bind."""
    path = value.removeprefix("unix:").removeprefix("//")
    if value.startswith("unix:"):
        is_valid = path != "" and "\0" not in path and len(path.encode()) <= MAX_SOCKET_PATH
    else:
        address = value.removeprefix("http://").removeprefix("https://")
        is_valid = split_host_port(address) is not None
    if not is_valid:
        raise ValueError("must be HOST:PORT, :PORT or unix:///PATH")
    return value


_ADDRESS: Final = convert(str, _check_address, "text", {"type": "string", "minLength": 1})
_SECRET: Final = nonempty(
    f"{LEAST_SECRET} to {MAX_SECRET} printable characters of ASCII", pattern=_PRINTABLE
)


@record
class Options:
    """The address at which proxies ask, and how their questions are read."""

    addr: str = option(
        "addr",
        _ADDRESS,
        "127.0.0.1:9292",
        "`host:port` or `unix:///path`; make sure that only proxies can connect",
    )
    path: str = option(
        "path",
        DOCUMENT_PATH,
        "envoy/authz/allow",
        "the document that decides",
    )
    strict: bool = option(
        "strict",
        SWITCH,
        True,
        "[strict mode](strict.md)",
    )
    secret: str = option(
        "secret",
        _SECRET,
        "",
        "the secret that proxies send as `x-doorward-secret`; without it, every client that can "
        "connect gets decisions",
        is_secret=True,
    )
    response_headers: tuple[str, ...] = option(
        "response-headers",
        convert(
            list,
            _headers,
            "list of header names",
            {"type": "array", "items": {"type": "string", "pattern": _HEADER.pattern}},
        ),
        (),
        "headers that the policy sets and proxies copy into the request; each answer that allows "
        "has all of them, empty where the policy sets none",
    )
    max_body: int = option(
        "max-body-size",
        integer(1, 2**20),
        8192,
        "maximum size of a request body, in bytes, if the proxy sends one",
    )
    skip_body: bool = option(
        "skip-request-body-parse",
        SWITCH,
        False,
        "omit `parsed_body` from the input, and do not refuse requests whose body is not seen",
    )
