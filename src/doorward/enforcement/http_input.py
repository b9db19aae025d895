"""An HTTP request becomes the policy's `input`, the same for every adapter.

    wire -> HttpRequest -> `to_input` -> input        or RequestError: why no policy is asked

The shape is what OPA-Envoy builds of Envoy's CheckRequest, so that one policy serves the sidecar,
middleware and proxies; docs/frameworks.md says which keys an adapter cannot know. Pure, but for
the time of the request.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from functools import lru_cache
from time import time_ns
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from doorward.enforcement import strict
from doorward.enforcement.bodies import GrpcReader, parse_body
from doorward.enforcement.errors import AmbiguousRequestError
from doorward.enforcement.paths import parse_target
from doorward.rego import Value
from doorward.rego.shared import Key

__all__ = ["HttpRequest", "Input", "address_of", "join_headers", "read_http", "to_input"]

Input: TypeAlias = dict[Key, Value]
Address: TypeAlias = tuple[str, int]

# INVARIANT: shared by every input; a value is never changed.
_VERSION: Final[Value] = {"ext_authz": "v3", "encoding": "protojson"}
_NO_HEADERS: Final[dict[str, str]] = {}
_USUAL: Final = {
    each.encode(): each
    for each in (
        *("accept", "accept-encoding", "accept-language", "authorization", "cache-control"),
        *("connection", "content-length", "content-type", "cookie", "host", "origin", "priority"),
        *("referer", "te", "traceparent", "tracestate", "transfer-encoding", "user-agent"),
        *("sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "x-request-id"),
    )
}
"""Header names that most requests have, as text, so that they need not be decoded."""
_SINGLE: Final = frozenset({b"content-length", b"content-type", b"host"})


class HttpRequest(NamedTuple):
    """An HTTP request as an adapter received it."""

    method: str
    target: str
    """Path and query as the client sent them, percent-encoded."""
    headers: dict[str, str]
    """The values by lower-case name, without `host`; repeated ones are joined (`join_headers`)."""
    host: str = ""
    scheme: str = "http"
    protocol: str = "HTTP/1.1"
    body: bytes = b""
    is_cut: bool = False
    """True if `body` is only the beginning of the body."""
    source: Address | None = None
    destination: Address | None = None
    """The addresses of the client and of the server; None if the server does not know them."""


def join_headers(
    pairs: Iterable[tuple[bytes, bytes]], stripped: frozenset[str], *, strict: bool
) -> tuple[dict[str, str], str, bool]:
    """Return headers by lower-case name, the host (not among them), and True if some of `stripped`
    were there, which are left out.

    Values of a repeated name are joined by `,`, cookies by `; `, as Envoy does. With `strict` raise
    AmbiguousRequestError if a header that must be unique is repeated.
    """
    headers: dict[str, str] = {}
    has_stripped = False
    for raw_name, raw_value in pairs:
        name = _USUAL.get(raw_name)
        if name is None:
            name = raw_name.decode("latin-1").lower()
        if name in stripped:
            has_stripped = True
            continue
        try:
            value = str(raw_value, "ascii")
        except UnicodeDecodeError:
            value = text_of(raw_value)
        if name in headers:
            if strict and raw_name.lower() in _SINGLE:
                _refuse(f"more than one {name} header")
            value = f"{headers[name]}{'; ' if name == 'cookie' else ','}{value}"
        headers[name] = value
    return headers, headers.pop("host", ""), has_stripped


def text_of(raw: bytes) -> str:
    """Return header bytes as text; bytes that are not UTF-8 become `!`, as in Envoy."""
    return raw.decode("utf-8", "replace").replace("\ufffd", "!")


def _refuse(reason: str) -> NoReturn:
    raise AmbiguousRequestError(reason)


def to_input(request: HttpRequest, *, strict: bool = False, skip_body: bool = False) -> Input:
    """Return the policy's `input` for a request.

    `skip_body` leaves out `parsed_body` and `truncated_body`. Raise RequestParseError if path,
    query or body cannot be parsed, and with `strict` AmbiguousRequestError if the request could be
    read in two ways.
    """
    (
        method,
        target,
        headers_of_request,
        host,
        scheme,
        protocol,
        body,
        is_cut,
        source,
        destination,
    ) = request
    # After what was given: a server that takes `:path` for the name of a header deceives nobody.
    headers: dict[str, str] = {
        **headers_of_request,
        ":authority": host,
        ":method": method,
        ":path": target,
        ":scheme": scheme,
        "x-forwarded-proto": scheme,
    }
    http: dict[str, Any] = {
        "method": method,
        "headers": headers,
        "path": target,
        "scheme": scheme,
        "protocol": protocol,
    }
    if host:
        http["host"] = host
    else:
        del headers[":authority"]
    if body or is_cut:
        headers["x-envoy-auth-partial-body"] = "true" if is_cut else "false"
    if body:
        http["size"] = len(body)
        http["rawBody"] = b2a_base64(body, newline=False).decode("ascii")
    seconds, nanos = divmod(time_ns(), 1_000_000_000)
    attributes: dict[Key, Any] = {
        "request": {"time": {"seconds": seconds, "nanos": nanos}, "http": http},
        "metadataContext": {},
        "routeMetadataContext": {},
    }
    if source is not None:
        attributes["source"] = address_of(source)
    if destination is not None:
        attributes["destination"] = address_of(destination)
    out: Input = {"attributes": attributes, "version": _VERSION}
    read_http(out, http, body, is_strict=strict, skip_body=skip_body)
    return out


@lru_cache(maxsize=256)
def address_of(address: Address) -> Value:
    """Return the object of a peer with this address and port.

    The last 256 results are cached: each is shared and must not be changed.
    """
    host, port = address
    return {"address": {"socketAddress": {"address": host, "portValue": port}}}


def read_http(
    out: Input,
    http: Any,
    raw_body: bytes,
    *,
    is_strict: bool,
    skip_body: bool,
    services: GrpcReader | None = None,
) -> None:
    """Add `parsed_path`, `parsed_query` and, unless skipped, `parsed_body` and `truncated_body` of
    the `http` object to `out`. The body is the field `body`, or `raw_body` if that is empty or for
    gRPC, which `services` reads; without it the value of a gRPC body is None.

    Raise a RequestError if one of them cannot be parsed or, with `is_strict`, is ambiguous; those
    before it are in `out` then.
    """
    headers: dict[str, str] = http.get("headers", _NO_HEADERS)
    target = http.get("path", "")
    if is_strict:
        strict.check_request(http, target, headers)
    path: Any
    query: Any
    path, query = parse_target(target)
    out["parsed_path"] = path
    out["parsed_query"] = query
    if query and is_strict:
        strict.check_query(query, target.partition("?")[2])
    if skip_body:
        return
    body = http.get("body", "")
    read = _read_strictly if is_strict else parse_body
    value, out["truncated_body"] = read(headers, body, raw_body, path, services)
    if query and is_strict:
        strict.check_sources(query, headers, value)
    out["parsed_body"] = value


def _read_strictly(
    headers: dict[str, str],
    body: str,
    raw_body: bytes,
    path: list[str],
    services: GrpcReader | None,
) -> tuple[Value, bool]:
    """Return the value of a body, and False, since a body that is cut off is refused. The value is
    None for an empty body and for a kind that is not parsed.

    Raise AmbiguousRequestError if strict mode refuses the body, RequestParseError if it is
    malformed.
    """
    if strict.check_body(headers, body, raw_body, reads_grpc=services is not None):
        value = strict.parse_json(body or raw_body)
        strict.check_members(value)
        return value, False
    if not body and not raw_body:
        return None, False
    value, truncated = parse_body(headers, body, raw_body, path, services, strict.parse_json)
    strict.check_parsed(headers, value, body or raw_body, truncated=truncated)
    return value, truncated
