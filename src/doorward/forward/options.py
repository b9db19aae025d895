"""The `plugins.forward_auth` block."""

from __future__ import annotations

import re
from typing import Any, Final

from doorward.base.records import record
from doorward.config.schema import SWITCH, convert, integer, nonempty, option

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


_SECRET: Final = nonempty(
    f"{LEAST_SECRET} to {MAX_SECRET} printable characters of ASCII", pattern=_PRINTABLE
)


@record
class Options:
    """The address at which proxies ask, and how their questions are read."""

    addr: str = option(
        "addr",
        nonempty(),
        "127.0.0.1:9292",
        "`host:port` or `unix:///path`; make sure that only proxies can connect",
    )
    path: str = option("path", nonempty(), "envoy/authz/allow", "the document that decides")
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
