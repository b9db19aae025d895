"""`Bootstrap` options become a hardened Envoy configuration: a document, and YAML that explains it.

What is set here is what is between a client and an application that checks nothing itself, so
everything that has a default is written out all the same: a reader sees the decision, and a newer
Envoy cannot change it. This module knows no policy and opens nothing.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from doorward.base.records import record
from doorward.enforcement.headers import IDENTITIES, ORIGINS, OVERRIDES
from doorward.envoy.kit.explained_yaml import explain

__all__ = ["Bootstrap", "render", "to_document"]

Document = dict[str, Any]

_KIB: Final = 1024
_TYPE: Final = "type.googleapis.com/envoy."
_FILTER: Final = "envoy.filters.http.ext_authz"
_EXT_PROC: Final = "envoy.filters.http.ext_proc"
_LONGEST: Final[Mapping[str, float]] = {
    # Envoy counts nanoseconds in 64 bits, and limits `message_timeout` to an hour.
    "timeout": 9_223_372_035,
    "response_timeout": 3_600,
    "upstream_timeout": 9_223_372_035,
}
"""The longest times in seconds with which Envoy (1.40) starts."""
_SHORTEST: Final = 0.001
"""Envoy cuts times to milliseconds, and some of them mean no limit if they are 0."""


@record(kw_only=True)
class Bootstrap:
    """The options of an Envoy configuration for one sidecar; the defaults are those of
    `examples/people`.

    Addresses are `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH` (also `unix:///PATH`, and `unix://@NAME`
    for an abstract socket). Several decision points share the checks in turn.
    """

    listen: str = "127.0.0.1:8000"
    upstream: str = "127.0.0.1:8080"
    pdp: tuple[str, ...] = ("unix:doorward.sock",)
    admin: str | None = None
    """The address of the administration interface, which must be local; None turns it off."""
    responses: tuple[str, ...] = ()
    """The addresses of decision points for responses (`envoy_ext_proc_grpc`); empty: no response is
    decided on."""
    timeout: float = 0.5
    """Seconds that a decision may take; after that the request is denied."""
    response_timeout: float = 2.0
    """Seconds that a decision on a response may take; after that the client gets 504."""
    max_response: int = 1024 * _KIB
    """The largest response in bytes that is decided on; for a longer one the client gets 500."""
    upstream_timeout: float = 15.0
    """Seconds that the application may take for a whole response."""
    max_body: int = 8 * _KIB
    """Bytes of a request body that the policy sees; 0 sends none."""
    max_connections: int = 1000
    max_heap: int = 512 * _KIB * _KIB
    trusted_hops: int = 0
    """The number of trusted proxies in front whose `x-forwarded-…` headers count; with 0 they are
    removed."""
    forward_authorization: bool = False
    """True if the application receives the `authorization` header as well."""
    strip_headers: tuple[str, ...] = OVERRIDES + IDENTITIES
    """Request headers, in lower case, that are removed before policy and application see them."""

    def __post_init__(self) -> None:
        _check_options(self)


def render(options: Bootstrap) -> str:
    """Return the Envoy configuration as YAML, with comments that give the reasons."""
    return "\n".join([*_HEAD, *explain(to_document(options), _WHY)]) + "\n"


def to_document(options: Bootstrap) -> Document:
    """Return the Envoy configuration as a document of plain values, in the order of the file."""
    document: Document = {}
    if options.admin is not None:
        document["admin"] = {"address": _to_address(options.admin)}
    document["static_resources"] = {
        "listeners": [_to_listener(options)],
        "clusters": [
            _to_application(options),
            _to_decision_points(
                "doorward", options.pdp, "envoy.service.auth.v3.Authorization", retries=True
            ),
            *_to_processors(options),
        ],
    }
    document["overload_manager"] = _to_overload_manager(options)
    document["layered_runtime"] = {
        "layers": [
            {
                "name": "limits",
                "static_layer": {
                    "envoy.resource_limits.listener.ingress.connection_limit": (
                        options.max_connections
                    )
                },
            }
        ]
    }
    return document


def _check_options(options: Bootstrap) -> None:
    """Raise ValueError for options that Envoy could not use or that would open it to others: a
    malformed address, no `pdp`, host names and Unix sockets mixed in `pdp` or in `responses`, a
    host name in `listen`, an `admin` that is not local, a number out of its range, or a name in
    `strip_headers` that is not in lower case.
    """
    for address in (options.listen, options.upstream, *options.pdp, *options.responses):
        _to_address(address)
    if not options.pdp:
        raise ValueError("`pdp` must have at least one address of a decision point")
    for addresses in (options.pdp, options.responses):
        # A cluster is STRICT_DNS or STATIC; Envoy resolves names only in the first, and
        # pipes not there.
        if {_to_kind(_to_address(address)) for address in addresses} == {"pipe", "name"}:
            raise ValueError(
                f"{', '.join(addresses)}: decision points with host names and with "
                "Unix sockets cannot be mixed: use one kind"
            )
    if options.admin is not None and not _is_local(_to_address(options.admin)):
        raise ValueError(
            f"`{options.admin}` would expose the administration interface:"
            " use a loopback address or a Unix socket"
        )
    if _to_kind(_to_address(options.listen)) == "name":
        raise ValueError(
            f"`{options.listen}` has a host name: Envoy can only listen on an IP address"
        )
    for name in (
        *("timeout", "upstream_timeout", "response_timeout"),
        *("max_connections", "max_heap", "max_response"),
    ):
        # Not `<= 0`, which NaN is not either.
        if not getattr(options, name) > 0:
            raise ValueError(f"`{name}` must be greater than 0")
        if getattr(options, name) == math.inf:
            raise ValueError(f"`{name}` must be a finite number: Envoy has no infinite limits")
    for name, longest in _LONGEST.items():
        if not _SHORTEST <= getattr(options, name) <= longest:
            raise ValueError(
                f"`{name}` must be from {_SHORTEST} to {longest} seconds, which Envoy can use"
            )
    for name in ("max_body", "trusted_hops"):
        if getattr(options, name) < 0:
            raise ValueError(f"`{name}` must not be negative")
    for header in options.strip_headers:
        if re.fullmatch(r"[a-z0-9-]+", header) is None:
            raise ValueError(f"`{header}` is not a header name in lower case, such as x-user")


def _is_local(address: Document) -> bool:
    """Return True for a Unix socket or a loopback address; False for a name, even `localhost`."""
    match _to_kind(address):
        case "ip":
            return ipaddress.ip_address(address["socket_address"]["address"]).is_loopback
        # A name may resolve to anything later, so not even `localhost` counts.
        case kind:
            return kind == "pipe"


def _to_kind(address: Document) -> Literal["pipe", "ip", "name"]:
    """Return `pipe` for a Unix socket, `ip` for an IP address, `name` for a host name to look
    up.
    """
    if "pipe" in address:
        return "pipe"
    try:
        ipaddress.ip_address(address["socket_address"]["address"])
    except ValueError:
        return "name"
    return "ip"


def _to_address(text: str) -> Document:
    """Return `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH` as an address of Envoy's configuration;
    raise ValueError for any other text. HOST is an IPv4 address or a name.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if not path or "\0" in path:
            raise ValueError(
                f"`{text}` must have the path of a socket, such as unix:///run/doorward.sock"
            )
        return {"pipe": {"path": path}}
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        ipaddress.IPv6Address(host)
    elif re.fullmatch(r"[A-Za-z0-9._-]+", host) is None:
        raise ValueError(f"`{text}` is not HOST:PORT, [IPv6]:PORT or unix:PATH")
    if re.fullmatch(r"[0-9]{1,5}", port) is None or not 0 < int(port) < 65536:
        raise ValueError(f"`{text}` must end in a port from 1 to 65535")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _seconds(value: float) -> str:
    """Return a protobuf duration: 0.5 -> `0.5s`."""
    return f"{value:.9f}".rstrip("0").rstrip(".") + "s"


def _typed_config(name: str, kind: str, fields: Mapping[str, Any]) -> Document:
    return {"name": name, "typed_config": {"@type": _TYPE + kind, **fields}}


def _to_listener(options: Bootstrap) -> Document:
    """Return the listener to which redirected connections come."""
    address = _to_address(options.listen)
    if address.get("socket_address", {}).get("address") == "::":
        address["socket_address"]["ipv4_compat"] = True  # all addresses, of both families
    return {
        "name": "ingress",
        "address": address,
        # By this Envoy also limits how much of a body its filters may hold.
        "per_connection_buffer_limit_bytes": max(
            32 * _KIB, options.max_body, options.max_response if options.responses else 0
        ),
        "filter_chains": [{"filters": [_to_connection_manager(options)]}],
    }


def _to_connection_manager(options: Bootstrap) -> Document:
    """Return the network filter for HTTP: normalization of paths, limits, timeouts, access log,
    routes and the HTTP filters.
    """
    return _typed_config(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        {
            "stat_prefix": "ingress",
            "codec_type": "AUTO",
            "normalize_path": True,
            "merge_slashes": True,
            "path_with_escaped_slashes_action": "REJECT_REQUEST",
            "use_remote_address": True,
            "xff_num_trusted_hops": options.trusted_hops,
            "internal_address_config": {
                "unix_sockets": False,
                # An empty list would mean loopback and all private networks (Envoy 1.40), so this
                # is an address that no peer can have.
                "cidr_ranges": [{"address_prefix": "255.255.255.255", "prefix_len": 32}],
            },
            "early_header_mutation_extensions": _to_header_removals(options),
            "strip_trailing_host_dot": True,
            "server_header_transformation": "OVERWRITE",
            "max_request_headers_kb": 32,
            "request_headers_timeout": "10s",
            "request_timeout": "300s",
            "stream_idle_timeout": "300s",
            "stream_error_on_invalid_http_message": False,
            "common_http_protocol_options": {
                "idle_timeout": "3600s",
                "max_headers_count": 100,
                "headers_with_underscores_action": "REJECT_REQUEST",
            },
            "http_protocol_options": {"accept_http_10": False, "allow_chunked_length": False},
            "http2_protocol_options": {
                "allow_connect": False,
                "max_concurrent_streams": 100,
                "initial_stream_window_size": 64 * _KIB,
                "initial_connection_window_size": 1024 * _KIB,
            },
            "access_log": [_to_access_log()],
            "route_config": _to_routes(options),
            "http_filters": [
                _to_head_length(),
                _to_ext_authz(options),
                *_to_ext_proc(options),
                _typed_config(
                    "envoy.filters.http.router", "extensions.filters.http.router.v3.Router", {}
                ),
            ],
        },
    )


def _to_header_removals(options: Bootstrap) -> list[Document]:
    """Return the filter that removes headers that clients may forge: `strip_headers`, and without
    `trusted_hops` those that name a client's origin. `[]` if there are none.
    """
    headers = options.strip_headers + (() if options.trusted_hops else ORIGINS)
    if not headers:  # Envoy refuses an empty list
        return []
    return [
        _typed_config(
            "envoy.http.early_header_mutation.header_mutation",
            "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
            {"mutations": [{"remove": header} for header in headers]},
        )
    ]


def _to_access_log() -> Document:
    """Return the access log on standard output, as JSON."""
    return _typed_config(
        "envoy.access_loggers.stdout",
        "extensions.access_loggers.stream.v3.StdoutAccessLog",
        {
            "log_format": {
                "json_format": {
                    "time": "%START_TIME%",
                    "client": "%DOWNSTREAM_REMOTE_ADDRESS%",
                    "protocol": "%PROTOCOL%",
                    "method": "%REQ(:METHOD)%",
                    "host": "%REQ(:AUTHORITY)%",
                    "path": "%REQ_WITHOUT_QUERY(:PATH)%",
                    "request_id": "%REQ(X-REQUEST-ID)%",
                    "decision_id": f"%DYNAMIC_METADATA({_FILTER}:decision_id)%",
                    "status": "%RESPONSE_CODE%",
                    "details": "%RESPONSE_CODE_DETAILS%",
                    "flags": "%RESPONSE_FLAGS%",
                    "bytes_received": "%BYTES_RECEIVED%",
                    "bytes_sent": "%BYTES_SENT%",
                    "duration_ms": "%DURATION%",
                    "upstream": "%UPSTREAM_HOST%",
                },
                "formatters": [
                    _typed_config(
                        "envoy.formatter.req_without_query",
                        "extensions.formatter.req_without_query.v3.ReqWithoutQuery",
                        {},
                    )
                ],
            }
        },
    )


def _to_routes(options: Bootstrap) -> Document:
    """Return the single route, to the application, with its timeout. The `authorization` header is
    removed from requests unless `forward_authorization` is set.
    """
    routes: Document = {
        "name": "ingress",
        "virtual_hosts": [
            {
                "name": "application",
                "domains": ["*"],
                "routes": [
                    {
                        "match": {"prefix": "/"},
                        "route": {
                            "cluster": "application",
                            "timeout": _seconds(options.upstream_timeout),
                        },
                    }
                ],
            }
        ],
    }
    if not options.forward_authorization:
        routes["request_headers_to_remove"] = ["authorization"]
    return routes


def _to_head_length() -> Document:
    """Return the filter that gives a denied HEAD response `content-length: 0` if it has none."""
    denied = "request.method == 'HEAD' && response.code_details.startsWith('ext_authz')"
    return _typed_config(
        "envoy.filters.http.header_mutation",
        "extensions.filters.http.header_mutation.v3.HeaderMutation",
        {
            "mutations": {
                "response_mutations": [
                    {
                        "append": {
                            "header": {
                                "key": "content-length",
                                # An empty value adds no header, unless `keep_empty_value` is set.
                                "value": f"%CEL({denied} ? '0' : '')%",
                            },
                            "append_action": "ADD_IF_ABSENT",
                        }
                    }
                ]
            }
        },
    )


def _to_ext_authz(options: Bootstrap) -> Document:
    """Return the filter that asks the decision point about each request and fails closed."""
    fields: Document = {
        "transport_api_version": "V3",
        "stat_prefix": "doorward",
        "failure_mode_allow": False,
        "status_on_error": {"code": "Forbidden"},
        "deny_at_disable": {
            "default_value": True,
            "runtime_key": "doorward.deny_at_disable",
        },
        "validate_mutations": True,
        "clear_route_cache": False,
        "encode_raw_headers": False,
        "grpc_service": {
            "envoy_grpc": {"cluster_name": "doorward"},
            "timeout": _seconds(options.timeout),
            **({"retry_policy": _RETRY} if len(options.pdp) > 1 else {}),
        },
    }
    if options.max_body:
        fields["with_request_body"] = {
            "max_request_bytes": options.max_body,
            # Without it Envoy answers 413 by itself, and the policy never sees the request.
            "allow_partial_message": True,
            "pack_as_bytes": True,
        }
    return _typed_config(_FILTER, "extensions.filters.http.ext_authz.v3.ExtAuthz", fields)


def _to_ext_proc(options: Bootstrap) -> list[Document]:
    """Return the filter that sends responses to a decision point; `[]` if `responses` is empty."""
    if not options.responses:
        return []
    fields: Document = {
        "stat_prefix": "doorward",
        "failure_mode_allow": False,
        "status_on_error": {"code": "Forbidden"},
        "message_timeout": _seconds(options.response_timeout),
        "processing_mode": {
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": "NONE",
            "response_body_mode": "BUFFERED",
            "request_trailer_mode": "SKIP",
            "response_trailer_mode": "SEND",
        },
        "allow_mode_override": True,
        "allowed_override_modes": [
            {
                "request_header_mode": "SEND",
                "response_header_mode": "SEND",
                "request_body_mode": "NONE",
                "response_body_mode": "NONE",
                "request_trailer_mode": "SKIP",
                "response_trailer_mode": "SKIP",
            }
        ],
        "request_attributes": ["source.address", "destination.address", "request.protocol"],
        "response_attributes": ["response.code_details"],
        "grpc_service": {"envoy_grpc": {"cluster_name": "doorward-responses"}},
    }
    return [
        _typed_config(_EXT_PROC, "extensions.filters.http.ext_proc.v3.ExternalProcessor", fields)
    ]


_RETRY: Final = {
    "num_retries": 2,
    "retry_on": "connect-failure,refused-stream,reset,unavailable",
    "retry_host_predicate": [
        _typed_config(
            "envoy.retry_host_predicates.previous_hosts",
            "extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
            {},
        )
    ],
    "host_selection_retry_max_attempts": 10,
}
"""The retry policy of Checks: one that a restarting decision point did not answer goes to
another."""


def _to_application(options: Bootstrap) -> Document:
    """Return the cluster of the protected application."""
    return _to_cluster(
        "application",
        (options.upstream,),
        {
            "common_http_protocol_options": {"idle_timeout": "4s"},
            # HTTP/1.1, which is named even without options: Envoy requires the choice of a
            # protocol.
            "explicit_http_config": {"http_protocol_options": {}},
        },
    )


def _to_health_check(service: str) -> Document:
    """Return a gRPC health check of a service, every 2 s."""
    return {
        "timeout": "1s",
        "interval": "2s",
        "no_traffic_interval": "2s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "grpc_health_check": {"service_name": service},
    }


def _to_processors(options: Bootstrap) -> list[Document]:
    """Return the cluster of decision points for responses; `[]` if `responses` is empty."""
    if not options.responses:
        return []
    service = "envoy.service.ext_proc.v3.ExternalProcessor"
    # A stream is not repeated elsewhere: the application has been asked by then.
    name = "doorward-responses"
    return [_to_decision_points(name, options.responses, service, retries=False)]


def _to_decision_points(
    name: str, addresses: tuple[str, ...], service: str, *, retries: bool
) -> Document:
    """Return a cluster of decision points over HTTP/2; several addresses get health checks.

    With `retries` several addresses also allow as many retries as requests.
    """
    cluster = _to_cluster(
        name,
        addresses,
        {
            "explicit_http_config": {
                "http2_protocol_options": {
                    "connection_keepalive": {"interval": "30s", "timeout": "5s"}
                }
            }
        },
    )
    if len(addresses) == 1:
        return cluster  # there is nowhere else to go
    # One that is gone is left out, and until that is known its Checks go to another one.
    [threshold] = cluster["circuit_breakers"]["thresholds"]
    if retries:
        # Envoy's default of 3 would deny all but three Checks of a restarting decision point.
        threshold["max_retries"] = threshold["max_requests"]
    return cluster | {"health_checks": [_to_health_check(service)]}


def _to_cluster(name: str, addresses: tuple[str, ...], protocol: Document) -> Document:
    """Return a cluster of addresses; names are looked up in DNS."""
    endpoints = [_to_address(address) for address in addresses]
    named = any(_to_kind(address) == "name" for address in endpoints)
    return {
        "name": name,
        "type": "STRICT_DNS" if named else "STATIC",
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "per_connection_buffer_limit_bytes": 32 * _KIB,
        "circuit_breakers": {
            "thresholds": [
                {"max_connections": 100, "max_pending_requests": 200, "max_requests": 1000}
            ]
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": _TYPE + "extensions.upstreams.http.v3.HttpProtocolOptions",
                **protocol,
            }
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": address}} for address in endpoints]}
            ],
        },
    }


def _to_overload_manager(options: Bootstrap) -> Document:
    """Return the limits on memory and connections above which Envoy refuses work."""

    def act(name: str, threshold: float) -> Document:
        heap = {"name": "envoy.resource_monitors.fixed_heap", "threshold": {"value": threshold}}
        return {"name": f"envoy.overload_actions.{name}", "triggers": [heap]}

    return {
        "refresh_interval": "0.25s",
        "resource_monitors": [
            _typed_config(
                "envoy.resource_monitors.fixed_heap",
                "extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
                {"max_heap_size_bytes": options.max_heap},
            ),
            _typed_config(
                "envoy.resource_monitors.global_downstream_max_connections",
                "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                {"max_active_downstream_connections": options.max_connections},
            ),
        ],
        "actions": [
            act("shrink_heap", 0.9),
            act("disable_http_keepalive", 0.92),
            act("stop_accepting_requests", 0.95),
            act("stop_accepting_connections", 0.98),
        ],
    }


_HEAD: Final = (
    "# Envoy in front of an application that does no authorization of its own.",
    "# Made by `doorward envoy bootstrap`, whose options set what differs between sidecars.",
)

# Comments by key, or by parent and key where a key is in several places.
_WHY: Final[Mapping[str, str]] = {
    "admin": "The administration interface shows and changes all settings, so that only this "
    "host can reach it.",
    "listeners.per_connection_buffer_limit_bytes": (
        "The maximum memory that the buffers of one connection take."
    ),
    "normalize_path": (
        "The policy and the application see one spelling of a path: `.` and `..` are resolved, "
        "needless percent-encoding is undone, slashes are merged; `%2F` and `%5C`, which some "
        "applications take for slashes and others do not, are refused."
    ),
    "use_remote_address": (
        "Clients cannot choose their own address, nor count as internal and send `x-envoy-*`: "
        "nobody is internal (an empty list would make private networks and loopback so)."
    ),
    "early_header_mutation_extensions": (
        "Headers that name another method, path or user than the one that is decided on are "
        "removed before any filter reads them."
    ),
    "strip_trailing_host_dot": "`example.org.` and `example.org` are one host.",
    "max_request_headers_kb": "Limits on the size and number of headers, and timeouts.",
    "stream_error_on_invalid_http_message": (
        "A message that breaks the protocol ends its connection: what follows is not trusted."
    ),
    "headers_with_underscores_action": (
        "Many applications take `a_b` and `a-b` for one header; the policy does not."
    ),
    "typed_config.http_protocol_options": (
        "Content-Length together with Transfer-Encoding is refused: it can smuggle requests."
    ),
    "typed_config.http2_protocol_options": (
        "No CONNECT, and limits on concurrent streams of one connection."
    ),
    "access_log": (
        "A log of what Envoy and the policy decided, without queries, which may contain secrets."
    ),
    "route_config": (
        "There are no upgrade_configs: after an upgrade a stream passes no policy any more."
    ),
    "request_headers_to_remove": (
        "Only the policy needs the token: the application does not get it."
    ),
    "http_filters": "The check is the last filter before the router: nothing changes what it saw.",
    "message_timeout": "If the decision on a response takes longer, the client gets an error.",
    "processing_mode": (
        "Decisions are on whole bodies: a streamed body would have been sent before the decision, "
        "and BUFFERED_PARTIAL lets the rest through."
    ),
    "allow_mode_override": (
        "The one mode that the decision point may ask for: a response that the policy lets pass "
        "unread is not buffered."
    ),
    "response_attributes": "Tells responses of Envoy itself from those of the application.",
    "response_mutations": ("A denied HEAD gets content-length 0; Envoy alone sends none for HEAD."),
    "failure_mode_allow": (
        "A missing, late or malformed answer denies, and so does a disabled filter."
    ),
    "validate_mutations": "Header changes that are not valid HTTP are refused, not forwarded.",
    "clear_route_cache": "The request takes the route that the policy decided on.",
    "encode_raw_headers": "Policies read `headers`; repeated ones arrive joined by commas.",
    "with_request_body": (
        "The policy sees a body up to this size, as the bytes that came. A longer one is marked as "
        "truncated, and the policy must deny it."
    ),
    "circuit_breakers": "More concurrent requests than this are refused, not queued.",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions.common_http_protocol_options": (
        "Less than the 5 s after which many servers close an idle connection: a request is never "
        "sent into a closing one."
    ),
    "explicit_http_config.http2_protocol_options": (
        "The connection to a decision point that hangs is closed, and a new one is opened."
    ),
    "overload_manager": "Envoy refuses requests before it runs out of memory.",
}
