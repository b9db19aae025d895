"""Envoy's configuration becomes findings: each hardening that is missing, at its line.

What is only a default is missing, too: another Envoy has other defaults, and a reader cannot see
what was decided.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final

from doorward.bundles.located_yaml import Located
from doorward.envoy.lint.finding import Finding

__all__ = ["check_proxy", "is_proxy", "read_check_timeout"]

_MANAGER: Final = "HttpConnectionManager"
_CHECK: Final = "envoy.filters.http.ext_authz"
_RESPONSES: Final = "envoy.filters.http.ext_proc"
_MODES: Final[dict[str, tuple[object, ...]]] = {
    "request_header_mode": ("SEND", "DEFAULT", None),
    "response_header_mode": ("SEND", "DEFAULT", None),
    "request_body_mode": ("NONE", None),
    "response_body_mode": ("BUFFERED",),
}
"""The values of each mode that filter responses; tuples, since other values may be lists."""
_ROUTER: Final = "envoy.filters.http.router"
_EXTENSIONS: Final = "envoy.extensions.filters.http."
_KINDS: Final[Mapping[str, str]] = {
    f"{_EXTENSIONS}ext_authz.v3.ExtAuthz": _CHECK,
    f"{_EXTENSIONS}ext_proc.v3.ExternalProcessor": _RESPONSES,
    f"{_EXTENSIONS}router.v3.Router": _ROUTER,
}
"""The usual name of a filter by the type of its configuration."""
_SLASHES: Final = {"REJECT_REQUEST", "UNESCAPE_AND_REDIRECT"}
_TIMEOUTS: Final = ("request_timeout", "request_headers_timeout", "stream_idle_timeout")


def is_proxy(document: Located) -> bool:
    """Return True if a document is an Envoy bootstrap."""
    return "static_resources" in document.fields()


def read_check_timeout(document: Located) -> float:
    """Return the shortest time in seconds that Envoy waits for a decision; 0.2 if there is no
    check.
    """
    times = [_seconds(_timeout(config).value) for config in _find_checks(document)]
    return min(times, default=0.2)


def check_proxy(file: str, document: Located) -> Iterator[Finding]:
    """Yield findings for settings of an Envoy bootstrap that are missing or weaken it."""
    for rule, message, at in (
        *_check_surroundings(document),
        *(each for manager in _managers(document) for each in _check_manager(document, manager)),
    ):
        yield Finding(file, at.line, rule, message)


Problem = tuple[str, str, Located]


def _check_surroundings(document: Located) -> Iterator[Problem]:
    """Yield problems outside the HTTP filters: admin interface, overload, connection and buffer
    limits, or no HTTP connection manager at all.
    """
    admin = document.get("admin")
    if admin.value is not None and not _is_local(admin.get("address")):
        yield "envoy-admin-exposed", "other machines can reach the administration interface", admin
    monitors = document.get("overload_manager", "resource_monitors").items()
    names = {each.get("name").scalar for each in monitors}
    if "envoy.resource_monitors.fixed_heap" not in names:
        yield "envoy-overload", "the overload manager has no heap limit", document
    limits = [
        each
        for each in document.get("layered_runtime").walk()
        if any("connection_limit" in key for key in each.fields())
    ]
    if "envoy.resource_monitors.global_downstream_max_connections" not in names and not limits:
        yield "envoy-connection-limit", "the number of connections has no limit", document
    resources = document.get("static_resources")
    for each in (*resources.get("listeners").items(), *resources.get("clusters").items()):
        if each.get("per_connection_buffer_limit_bytes").value is None:
            name = each.get("name").value or "a listener"
            yield "envoy-buffer-limit", f"`{name}` has no per_connection_buffer_limit_bytes", each
    if not _managers(document):
        yield "envoy-no-check", "there is no HTTP connection manager", document


def _check_manager(document: Located, manager: Located) -> Iterator[Problem]:
    """Yield problems of one HTTP connection manager, its filters and its routes; without an
    ext_authz filter nothing else of filters and routes. `document` is the whole bootstrap, which
    has the clusters.
    """
    yield from _check_paths(manager)
    yield from _check_protocols(manager)
    yield from _check_limits(manager)
    filters = manager.get("http_filters")
    kinds = [_kind(each) for each in filters.items()]
    if _CHECK not in kinds:
        yield "envoy-no-check", "there is no ext_authz filter", filters
        # All other findings about ext_authz would follow from this one.
        return
    position = kinds.index(_CHECK)
    # The filter of responses may stand behind the check: from requests it only removes headers
    # such as `accept-encoding` and `range`.
    if [kind for kind in kinds[position + 1 :] if kind != _RESPONSES] != [_ROUTER]:
        yield "envoy-check-not-last", "ext_authz is not the last filter before the router", filters
    if _RESPONSES in kinds and kinds[kinds.index(_RESPONSES) + 1 :] != [_ROUTER]:
        message = "ext_proc is not the last filter before the router"
        yield "envoy-check-not-last", message, filters
    for kind, each in zip(kinds, filters.items(), strict=True):
        if kind in (_CHECK, _RESPONSES) and _is_disabled(each):
            message = f"{kind.rpartition('.')[2]} is disabled"
            yield "envoy-check-disabled", message, each.get("disabled")
        if kind == _RESPONSES:
            yield from _check_ext_proc(each.get("typed_config"))
    yield from _check_ext_authz(document, filters.items()[position].get("typed_config"))
    yield from _check_overrides(manager)


def _check_overrides(manager: Located) -> Iterator[Problem]:
    """Yield problems of routes that switch off the filter of requests or change that of responses.

    An override has the name of its filter, which may be another than the usual one.
    """
    kinds = {_CHECK: _CHECK, _RESPONSES: _RESPONSES}
    for each in manager.get("http_filters").items():
        if isinstance(name := each.get("name").value, str):
            kinds[name] = _kind(each)
    for each in manager.get("route_config").walk():
        for name, override in each.get("typed_per_filter_config").fields().items():
            kind = kinds.get(name)
            # It may be inside a `FilterConfig` or a `TypedStruct`.
            if kind == _CHECK and any(map(_is_disabled, override.walk())):
                yield "envoy-check-disabled", "a route disables ext_authz", override
            if kind == _RESPONSES and override.value is not None:
                message = "a route disables ext_proc or overrides its settings"
                yield "envoy-check-disabled", message, override


def _check_paths(manager: Located) -> Iterator[Problem]:
    """Yield problems of path and header normalization, by which the application could read a
    request in another way than the policy.
    """
    for field, rule in (
        ("normalize_path", "envoy-normalize-path"),
        ("merge_slashes", "envoy-merge-slashes"),
        ("use_remote_address", "envoy-remote-address"),
    ):
        if (option := manager.get(field)).value is not True:
            yield rule, f"{field} is not true", option
    slashes = manager.get("path_with_escaped_slashes_action")
    if slashes.scalar not in _SLASHES:
        yield (
            "envoy-escaped-slashes",
            "path_with_escaped_slashes_action is neither REJECT_REQUEST nor UNESCAPE_AND_REDIRECT",
            slashes,
        )
    underscores = manager.get("common_http_protocol_options", "headers_with_underscores_action")
    if underscores.scalar not in {"REJECT_REQUEST", "DROP_HEADER"}:
        message = "headers_with_underscores_action is neither REJECT_REQUEST nor DROP_HEADER"
        yield "envoy-underscores", message, underscores
    if (option := manager.get("internal_address_config")).value is None:
        yield "envoy-internal-address", "internal_address_config is not set", option
    if not (option := manager.get("early_header_mutation_extensions")).items():
        yield (
            "envoy-client-headers",
            "early_header_mutation_extensions removes no headers of clients",
            option,
        )


def _check_protocols(manager: Located) -> Iterator[Problem]:
    """Yield problems of upgrades, CONNECT and chunked requests with a length, which get past
    checks.
    """
    if (upgrades := manager.get("upgrade_configs")).items():
        yield "envoy-upgrade", "upgrade_configs allow upgrades", upgrades
    for each in manager.walk():
        if _is_on(each.get("allow_connect")):
            yield "envoy-connect", "allow_connect is true", each.get("allow_connect")
        if "connect_matcher" in each.fields():
            yield "envoy-connect", "a route matches CONNECT", each.get("connect_matcher")
        if _is_on(each.get("allow_chunked_length")):
            yield "envoy-chunked-length", "allow_chunked_length is true", each


def _check_limits(manager: Located) -> Iterator[Problem]:
    """Yield problems of a connection manager without timeouts, header limits, a limit of HTTP/2
    streams or an access log; all missing timeouts are one problem.
    """
    common = manager.get("common_http_protocol_options")
    missing = [name for name in _TIMEOUTS if manager.get(name).value is None]
    missing += ["idle_timeout"] if common.get("idle_timeout").value is None else []
    if missing:
        yield "envoy-timeouts", f"timeouts are not set: {', '.join(missing)}", manager
    size, count = manager.get("max_request_headers_kb"), common.get("max_headers_count")
    if size.value is None or count.value is None:
        yield (
            "envoy-header-limits",
            "max_request_headers_kb or max_headers_count is not set",
            manager,
        )
    http2 = manager.get("http2_protocol_options")
    if http2.get("max_concurrent_streams").value is None:
        yield "envoy-http2-limits", "max_concurrent_streams is not set", http2
    if not (log := manager.get("access_log")).items():
        yield "envoy-access-log", "there is no access log", log


def _check_ext_authz(document: Located, config: Located) -> Iterator[Problem]:
    """Yield problems in the configuration of an ext_authz filter, and of a decision point on
    another machine that is asked without TLS: the filter's target, or its cluster in `document`.
    """
    if _is_on(option := config.get("failure_mode_allow")):
        yield "envoy-failure-mode-allow", "failure_mode_allow is true", option
    if _is_on(option := config.get("clear_route_cache")):
        yield "envoy-clear-route-cache", "clear_route_cache is true", option
    if (option := config.get("transport_api_version")).value != "V3":
        yield "envoy-api-version", "transport_api_version is not V3", option
    if (option := config.get("validate_mutations")).value is not True:
        yield "envoy-validate-mutations", "validate_mutations is not true", option
    if (option := config.get("deny_at_disable", "default_value")).value is not True:
        yield "envoy-deny-at-disable", "deny_at_disable is not true", option
    body = config.get("with_request_body")
    if body.value is not None and body.get("pack_as_bytes").value is not True:
        yield "envoy-pack-as-bytes", "pack_as_bytes is not true", body
    if (option := _timeout(config)).value is None:
        yield "envoy-check-timeout", "ext_authz has no timeout for its grpc_service", option
    service = config.get("grpc_service")
    if (option := service.get("google_grpc")).value is not None:
        yield "envoy-google-grpc", "google_grpc is used, not envoy_grpc", option
        if not _is_local_name(str(option.get("target_uri").value)) and (
            option.get("channel_credentials").value is None
        ):
            yield "envoy-pdp-in-the-clear", "the decision point is asked without TLS", option
    name = service.get("envoy_grpc", "cluster_name").value
    for cluster in document.get("static_resources", "clusters").items():
        if cluster.get("name").value == name and cluster.get("transport_socket").value is None:
            for each in cluster.walk():
                if "endpoint" in each.fields() and not _is_local(each.get("endpoint", "address")):
                    message = "the decision point is asked without TLS"
                    yield "envoy-pdp-in-the-clear", message, each


def _check_ext_proc(config: Located) -> Iterator[Problem]:
    """Yield problems in the configuration of an ext_proc filter: settings by which a response could
    reach the client undecided or unfiltered, and a missing timeout or status for errors.
    """
    if _is_on(option := config.get("failure_mode_allow")):
        yield "envoy-failure-mode-allow", "failure_mode_allow of ext_proc is true", option
    if _is_on(option := config.get("observability_mode")):
        yield "envoy-responses-observed", "observability_mode is true", option
    if _is_on(option := config.get("disable_immediate_response")):
        message = "disable_immediate_response is true, which makes a denial a failure"
        yield "envoy-responses-observed", message, option
    mode = config.get("processing_mode")
    for name, right in _MODES.items():
        option = mode.get(name)
        if option.value not in right:
            yield "envoy-responses-mode", f"{name} is {option.value or 'not set'}", option
    if (option := mode.get("response_trailer_mode")).value != "SEND":
        yield "envoy-responses-trailers", "response_trailer_mode is not SEND", option
    if _is_on(option := config.get("allow_mode_override")):
        allowed = config.get("allowed_override_modes")
        if not allowed.items():
            message = "allow_mode_override is true without allowed_override_modes"
            yield "envoy-responses-override", message, option
        for each in allowed.items():
            if each.get("response_header_mode").value == "SKIP":
                message = "a mode in allowed_override_modes skips the headers of responses"
                yield "envoy-responses-override", message, each
    if (option := config.get("message_timeout")).value is None:
        yield "envoy-responses-timeout", "ext_proc has no message_timeout", option
    if (option := config.get("status_on_error")).value is None:
        yield "envoy-responses-status", "ext_proc has no status_on_error", option


def _managers(document: Located) -> list[Located]:
    """Return all HTTP connection managers in the static listeners, at any depth."""
    return [
        each
        for each in document.get("static_resources", "listeners").walk()
        if str(each.get("@type").value).endswith(_MANAGER)
    ]


def _find_checks(document: Located) -> Iterator[Located]:
    """Yield the configuration (`typed_config`) of each ext_authz filter of an Envoy bootstrap."""
    for manager in _managers(document):
        for each in manager.get("http_filters").items():
            if _kind(each) == _CHECK:
                yield each.get("typed_config")


def _kind(http_filter: Located) -> str:
    """Return the usual name of the filter that Envoy runs for an entry of `http_filters`: by the
    type of its configuration, as Envoy does, or its name if it has none.
    """
    url = http_filter.get("typed_config", "@type").value
    # A `TypedStruct` wraps a configuration of another type.
    if url is None or str(url).endswith("TypedStruct"):
        return str(http_filter.get("name").value)
    kind = str(url).rpartition("/")[2]
    return _KINDS.get(kind, kind)


def _is_disabled(config: Located) -> bool:
    """Return True if `disabled` of a filter or an override is true."""
    return _is_on(config.get("disabled"))


def _timeout(config: Located) -> Located:
    """Return the timeout of a check over gRPC, else over HTTP; its value is None if there is
    none.
    """
    grpc = config.get("grpc_service", "timeout")
    return grpc if grpc.value is not None else config.get("http_service", "server_uri", "timeout")


def _seconds(value: object) -> float:
    """Return a duration such as `0.5s` in seconds; 0.2, Envoy's default, if it cannot be read."""
    try:
        return float(str(value).removesuffix("s"))
    except ValueError:
        return 0.2


def _is_local(address: Located) -> bool:
    """Return True for a Unix socket or a local host in Envoy's form of an address."""
    if address.get("pipe").value is not None:
        return True
    return _is_local_name(str(address.get("socket_address", "address").value))


def _is_local_name(text: str) -> bool:
    """Return True for a loopback address or `localhost`, with or without a port, or a `unix:`
    path.
    """
    host = text.rpartition(":")[0].strip("[]") if text.count(":") == 1 or "[" in text else text
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or text.startswith("unix:")


def _is_on(option: Located) -> bool:
    """Return True if a boolean option is true. Envoy also reads the text "true" so."""
    return option.value in (True, "true")
