"""A proxy's question becomes the client's request.

What the client requested is in headers that only the proxy may set. Each of them must be there
once; those of other proxies, and any other header by which a client could pass for another or ask
for something else, must not be there at all. Nothing is guessed and nothing has a default.
Pure.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, NoReturn

from doorward.enforcement.errors import AmbiguousRequestError, RequestError
from doorward.enforcement.headers import IDENTITIES, ORIGINS, OVERRIDES
from doorward.enforcement.http_input import HttpRequest, join_headers
from doorward.forward.options import Options

__all__ = ["PREFIX", "PROXIES", "Proxy", "SecretError", "proxy_of", "read_question"]

Pairs = Sequence[tuple[bytes, bytes]]

PREFIX: Final = "/auth/"
SECRET: Final = "x-doorward-secret"
LENGTH: Final = "x-original-content-length"
CODING: Final = "x-original-transfer-encoding"
"""The headers in which a proxy repeats the client's `content-length` and `transfer-encoding` if it
does not pass the body on."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods whose requests have no body unless a header announces one."""


class Proxy(NamedTuple):
    """How a proxy describes the client's request: the headers with method, target and host.

    Empty names mean that the proxy's own request line repeats the client's.
    """

    method: str = ""
    target: str = ""
    host: str = "host"
    tells: bool = False
    """True if the proxy sets `LENGTH` and `CODING`; otherwise a client could have sent them."""
    only: tuple[int, ...] = ()
    """The statuses of denials that the proxy passes on; others become 403. Empty means all."""


_FORWARDED: Final = Proxy("x-forwarded-method", "x-forwarded-uri", "x-forwarded-host", tells=True)
PROXIES: Final = {
    "caddy": _FORWARDED,
    "envoy": Proxy(),
    "haproxy": _FORWARDED,
    # Anything else it makes a 500 of.
    "nginx": Proxy("x-original-method", "x-original-uri", tells=True, only=(401, 403)),
    "traefik": _FORWARDED._replace(tells=False),
}
_METHODS: Final = ("x-original-method", "x-forwarded-method", "x-forwarded-uri", LENGTH, CODING)
_FORBIDDEN: Final = frozenset({*OVERRIDES, *IDENTITIES, *_METHODS})
_PROTO: Final = "x-forwarded-proto"
_CLIENT: Final = "x-forwarded-for"
_DROPPED: Final = frozenset({*ORIGINS, _PROTO, SECRET, LENGTH, CODING, "connection", "host"})
"""Headers that proxies add or that describe the client; the client's request is read without
them."""


class SecretError(RequestError):
    """The proxy did not send the configured secret, so anybody may be asking."""

    code = "forward_secret_error"


def proxy_of(target: str) -> tuple[str, str]:
    """Return the proxy that an endpoint is for, and the rest of the target: `/auth/envoy/x` ->
    `envoy`, `/x`.

    `("", "")` if it is not an endpoint. Only Envoy's may have a path behind it.
    """
    if not target.startswith(PREFIX):
        return "", ""
    name = target[len(PREFIX) :].partition("?")[0].partition("/")[0]
    rest = target[len(PREFIX) + len(name) :]
    is_known = name in PROXIES and (name == "envoy" or not rest or rest[0] == "?")
    return (name, rest) if is_known else ("", "")


def read_question(
    name: str, method: str, target: str, pairs: Pairs, body: bytes, is_cut: bool, options: Options
) -> HttpRequest:
    """Return the client's request as the proxy `name` describes it.

    `method` and `target`, the part that follows the endpoint, are those of the proxy's own request,
    and used for Envoy only. `is_cut`: only the beginning of the body was read. The result says so
    too if the headers announce more of a body than came, or leave that open. Raise SecretError if
    the configured secret is missing, repeated or wrong, and AmbiguousRequestError if a header is
    missing, repeated, malformed, or may only be set by a proxy.
    """
    proxy = PROXIES[name]
    _check_secret(pairs, options)
    proxy_headers = {proxy.method, proxy.target, proxy.host, _PROTO}
    allowed = proxy_headers | ({"x-envoy-auth-partial-body"} if name == "envoy" else set())
    if proxy.tells:
        allowed |= {LENGTH, CODING}
    for raw, _ in pairs:
        header = raw.decode("latin-1").lower()
        if header in _FORBIDDEN and header not in allowed:
            _refuse(f"header that only a proxy may set: {header}")
    if proxy.method:
        method, target = _one(pairs, proxy.method), _one(pairs, proxy.target)
    scheme, host = _one(pairs, _PROTO), _one(pairs, proxy.host)
    if scheme not in ("http", "https") or "," in host or "," in method or not method:
        _refuse("malformed method, scheme or host")
    headers, _, _ = join_headers(pairs, _DROPPED | proxy_headers, strict=options.strict)
    # Only `false` says that the body is complete; any other value counts as cut (below).
    partial = headers.pop("x-envoy-auth-partial-body", "false")
    if not body:
        # The head of the question is not the client's: what it says of a body is what is kept.
        for original, header in ((LENGTH, "content-length"), (CODING, "transfer-encoding")):
            headers.pop(header, None)
            # Some proxies send an empty value where the client sent none.
            if values := [value for value in _all(pairs, original) if value]:
                headers[header] = ",".join(values)
        length = headers.get("content-length")
        says_none = method in SAFE and length is None and "transfer-encoding" not in headers
        is_cut = not says_none and length != "0"
    # The proxy repeats the client's length: a body of another one is not all of it.
    elif proxy.tells and _all(pairs, LENGTH) != [str(len(body))]:
        is_cut = True
    # Envoy does not mark a chunked body as cut whose first bytes arrive alone.
    may_go_on = name == "envoy" and len(body) >= options.max_body
    return HttpRequest(
        method,
        target,
        headers,
        host,
        scheme,
        "HTTP/1.1",
        body,
        is_cut or may_go_on or partial != "false",
        _client(pairs),
    )


def _refuse(reason: str) -> NoReturn:
    raise AmbiguousRequestError(reason)


def _all(pairs: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    """Return all values of a header, in order; `name` is in lower case."""
    name_bytes = name.encode()
    return [value.decode("latin-1") for raw, value in pairs if raw.lower() == name_bytes]


def _one(pairs: Pairs, name: str) -> str:
    """Return the single value of a header; raise AmbiguousRequestError if it is missing, empty or
    repeated.
    """
    values = _all(pairs, name)
    if len(values) != 1 or not values[0]:
        _refuse(
            f"header {name} must be sent only once"
            if values
            else f"header {name} is missing: the proxy must set it"
        )
    return values[0]


def _check_secret(pairs: Pairs, options: Options) -> None:
    """Raise SecretError unless the request has the configured secret exactly once. Does nothing if
    no secret is configured.
    """
    if options.secret:
        secrets = _all(pairs, SECRET)
        # In constant time, so that a guess cannot be improved byte by byte.
        is_right = len(secrets) == 1 and hmac.compare_digest(
            secrets[0].encode("latin-1"), options.secret.encode()
        )
        if not is_right:
            raise SecretError(
                f"header {SECRET} is missing, repeated, or differs from the configured secret"
            )


def _client(pairs: Pairs) -> tuple[str, int] | None:
    """Return the client's address, with port 0; None unless the proxy names exactly one."""
    addresses = _all(pairs, _CLIENT)
    try:
        return (str(ipaddress.ip_address(addresses[0])), 0) if len(addresses) == 1 else None
    except ValueError:
        return None
