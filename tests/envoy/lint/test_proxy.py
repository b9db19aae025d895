"""Each hardening of a bootstrap that is taken away is found, at its line, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from doorward.bundles.located_yaml import read_documents
from doorward.envoy.kit.bootstrap import Bootstrap, render, to_document
from doorward.envoy.lint.finding import RULES
from doorward.envoy.lint.proxy import check_proxy, read_check_timeout

MANAGER = ("static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config")
CHECK = (*MANAGER, "http_filters", 1, "typed_config")
RESPONSES = (*MANAGER, "http_filters", 2, "typed_config")
CLUSTER = ("static_resources", "clusters", 1)
ANYWHERE = {"socket_address": {"address": "192.0.2.1", "port_value": 9191}}
FILTER_CONFIG = "type.googleapis.com/envoy.config.route.v3.FilterConfig"
PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute"
TYPED_STRUCT = "type.googleapis.com/xds.type.v3.TypedStruct"
MISSING = object()

CHANGES: list[tuple[tuple[str | int, ...], Any, str]] = [
    ((*CHECK, "failure_mode_allow"), True, "envoy-failure-mode-allow"),
    ((*CHECK, "failure_mode_allow"), "true", "envoy-failure-mode-allow"),
    ((*CHECK, "clear_route_cache"), True, "envoy-clear-route-cache"),
    ((*CHECK, "clear_route_cache"), "true", "envoy-clear-route-cache"),
    ((*CHECK, "validate_mutations"), MISSING, "envoy-validate-mutations"),
    ((*CHECK, "deny_at_disable"), MISSING, "envoy-deny-at-disable"),
    ((*CHECK, "with_request_body", "pack_as_bytes"), False, "envoy-pack-as-bytes"),
    ((*CHECK, "grpc_service", "timeout"), MISSING, "envoy-check-timeout"),
    ((*CHECK, "transport_api_version"), MISSING, "envoy-api-version"),
    (
        (*CHECK, "grpc_service"),
        {"google_grpc": {"target_uri": "localhost:9191"}, "timeout": "1s"},
        "envoy-google-grpc",
    ),
    (
        (*CLUSTER, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address"),
        ANYWHERE,
        "envoy-pdp-in-the-clear",
    ),
    ((*MANAGER, "normalize_path"), False, "envoy-normalize-path"),
    ((*MANAGER, "merge_slashes"), MISSING, "envoy-merge-slashes"),
    ((*MANAGER, "path_with_escaped_slashes_action"), "KEEP_UNCHANGED", "envoy-escaped-slashes"),
    ((*MANAGER, "use_remote_address"), MISSING, "envoy-remote-address"),
    ((*MANAGER, "internal_address_config"), MISSING, "envoy-internal-address"),
    ((*MANAGER, "early_header_mutation_extensions"), MISSING, "envoy-client-headers"),
    (
        (*MANAGER, "common_http_protocol_options", "headers_with_underscores_action"),
        "ALLOW",
        "envoy-underscores",
    ),
    ((*MANAGER, "upgrade_configs"), [{"upgrade_type": "websocket"}], "envoy-upgrade"),
    ((*MANAGER, "http2_protocol_options", "allow_connect"), True, "envoy-connect"),
    ((*MANAGER, "http_protocol_options", "allow_chunked_length"), True, "envoy-chunked-length"),
    ((*MANAGER, "request_headers_timeout"), MISSING, "envoy-timeouts"),
    ((*MANAGER, "common_http_protocol_options", "idle_timeout"), MISSING, "envoy-timeouts"),
    ((*MANAGER, "max_request_headers_kb"), MISSING, "envoy-header-limits"),
    ((*MANAGER, "http2_protocol_options", "max_concurrent_streams"), MISSING, "envoy-http2-limits"),
    ((*MANAGER, "access_log"), MISSING, "envoy-access-log"),
    ((*MANAGER, "http_filters"), [{"name": "envoy.filters.http.router"}], "envoy-no-check"),
    (
        (*MANAGER, "route_config", "typed_per_filter_config"),
        {"envoy.filters.http.ext_authz": {"disabled": True}},
        "envoy-check-disabled",
    ),
    *(
        (
            (*MANAGER, "route_config", "typed_per_filter_config"),
            {"envoy.filters.http.ext_authz": override},
            "envoy-check-disabled",
        )
        for override in (
            {"@type": FILTER_CONFIG, "disabled": True},
            {"@type": FILTER_CONFIG, "disabled": "true"},
            {"@type": FILTER_CONFIG, "config": {"@type": PER_ROUTE, "disabled": True}},
            {"@type": TYPED_STRUCT, "type_url": PER_ROUTE, "value": {"disabled": True}},
        )
    ),
    ((*MANAGER, "http_filters", 1, "disabled"), True, "envoy-check-disabled"),
    ((*MANAGER, "http_filters", 1, "disabled"), "true", "envoy-check-disabled"),
    ((*MANAGER, "http_filters", 2, "disabled"), True, "envoy-check-disabled"),
    (
        (*MANAGER, "route_config", "typed_per_filter_config"),
        {"envoy.filters.http.ext_proc": {"overrides": {}}},
        "envoy-check-disabled",
    ),
    ((*RESPONSES, "failure_mode_allow"), True, "envoy-failure-mode-allow"),
    ((*RESPONSES, "observability_mode"), True, "envoy-responses-observed"),
    ((*RESPONSES, "observability_mode"), "true", "envoy-responses-observed"),
    ((*RESPONSES, "disable_immediate_response"), True, "envoy-responses-observed"),
    ((*RESPONSES, "processing_mode", "response_body_mode"), MISSING, "envoy-responses-mode"),
    (
        (*RESPONSES, "processing_mode", "response_body_mode"),
        "BUFFERED_PARTIAL",
        "envoy-responses-mode",
    ),
    ((*RESPONSES, "processing_mode", "response_header_mode"), "SKIP", "envoy-responses-mode"),
    ((*RESPONSES, "processing_mode", "request_header_mode"), "SKIP", "envoy-responses-mode"),
    ((*RESPONSES, "processing_mode", "request_body_mode"), "BUFFERED", "envoy-responses-mode"),
    (
        (*RESPONSES, "processing_mode", "response_trailer_mode"),
        MISSING,
        "envoy-responses-trailers",
    ),
    ((*RESPONSES, "allowed_override_modes"), MISSING, "envoy-responses-override"),
    (
        (*RESPONSES, "allowed_override_modes", 0, "response_header_mode"),
        "SKIP",
        "envoy-responses-override",
    ),
    ((*RESPONSES, "message_timeout"), MISSING, "envoy-responses-timeout"),
    ((*RESPONSES, "status_on_error"), MISSING, "envoy-responses-status"),
    (("admin",), {"address": ANYWHERE}, "envoy-admin-exposed"),
    (("overload_manager", "resource_monitors", 0), MISSING, "envoy-overload"),
    ((*CLUSTER, "per_connection_buffer_limit_bytes"), MISSING, "envoy-buffer-limit"),
]


def change(path: tuple[str | int, ...], value: Any) -> str:
    document: Any = to_document(Bootstrap(responses=("unix:r.sock",)))
    position = document
    for key in path[:-1]:
        position = position[key]
    if value is MISSING:
        del position[path[-1]]
    else:
        position[path[-1]] = value
    return json.dumps(document)


def rules_broken_by(text: str) -> list[str]:
    (document,) = read_documents(text)
    return [finding.rule for finding in check_proxy("envoy.yaml", document)]


@pytest.mark.parametrize("admin", [None, "127.0.0.1:8001", "[::1]:8001", "unix:/run/admin.sock"])
def test_our_own_bootstrap_has_nothing_to_find(admin: str | None) -> None:
    assert rules_broken_by(render(Bootstrap(admin=admin))) == []


@pytest.mark.parametrize(
    ("path", "value", "rule"), CHANGES, ids=[f"{path[-1]}: {rule}" for path, _, rule in CHANGES]
)
def test_what_is_taken_away_is_found(path: tuple[str | int, ...], value: Any, rule: str) -> None:
    assert rules_broken_by(change(path, value)) == [rule]


def rename_filters(text: str) -> str:
    """Give the HTTP filters other names; Envoy goes by the type of their configuration."""
    document = json.loads(text)
    filters = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    for number, each in enumerate(filters["typed_config"]["http_filters"]):
        if "typed_config" in each:
            each["name"] = f"filter-{number}"
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "rule"), CHANGES, ids=[f"{path[-1]}: {rule}" for path, _, rule in CHANGES]
)
def test_filters_with_other_names_are_recognised_by_their_type(
    path: tuple[str | int, ...], value: Any, rule: str
) -> None:
    assert rules_broken_by(rename_filters(change(path, value))) == [rule]


@pytest.mark.parametrize("name", ["filter-1", "filter-2"])
def test_an_override_has_the_name_of_its_filter(name: str) -> None:
    overrides = {name: {"disabled": True}}
    text = change((*MANAGER, "route_config", "typed_per_filter_config"), overrides)
    assert rules_broken_by(rename_filters(text)) == ["envoy-check-disabled"]


@pytest.mark.parametrize(
    "override",
    [
        {"@type": FILTER_CONFIG, "disabled": False},
        {"@type": FILTER_CONFIG, "config": {"@type": PER_ROUTE, "check_settings": {}}},
    ],
)
def test_an_override_that_leaves_the_check_on_is_no_finding(override: dict[str, Any]) -> None:
    overrides = {"envoy.filters.http.ext_authz": override}
    text = change((*MANAGER, "route_config", "typed_per_filter_config"), overrides)
    assert rules_broken_by(text) == []


def test_a_filter_of_another_type_with_the_name_of_the_check_is_none() -> None:
    lua = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"
    assert rules_broken_by(change((*CHECK, "@type"), lua)) == ["envoy-no-check"]


def test_the_time_of_a_check_with_another_name_is_read() -> None:
    text = rename_filters(json.dumps(to_document(Bootstrap(timeout=0.75))))
    (document,) = read_documents(text)
    assert read_check_timeout(document) == 0.75


def test_a_check_that_is_not_the_last_is_found() -> None:
    document = to_document(Bootstrap(responses=("unix:r.sock",)))
    filters = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    filters["typed_config"]["http_filters"].insert(2, {"name": "envoy.filters.http.lua"})
    assert rules_broken_by(json.dumps(document)) == ["envoy-check-not-last"]


def test_connections_without_any_limit_are_found() -> None:
    document = to_document(Bootstrap(responses=("unix:r.sock",)))
    del document["layered_runtime"], document["overload_manager"]["resource_monitors"][1]
    assert rules_broken_by(json.dumps(document)) == ["envoy-connection-limit"]


def test_a_proxy_without_http_is_found() -> None:
    assert "envoy-no-check" in rules_broken_by("static_resources: {listeners: []}")


def test_a_finding_stands_at_its_line() -> None:
    text = render(Bootstrap()).replace("merge_slashes: true", "merge_slashes: false")
    (document,) = read_documents(text, offset=100)
    (finding,) = check_proxy("envoy.yaml", document)
    lines = text.splitlines()
    assert "merge_slashes: false" in lines[finding.line - 101]


@pytest.mark.parametrize(("given", "seconds"), [(0.5, 0.5), (2.0, 2.0)])
def test_the_time_for_a_decision_is_read(given: float, seconds: float) -> None:
    (document,) = read_documents(render(Bootstrap(timeout=given)))
    assert read_check_timeout(document) == seconds


def test_every_rule_of_the_proxy_is_proven() -> None:
    proven = {rule for _, _, rule in CHANGES} | {"envoy-check-not-last", "envoy-connection-limit"}
    assert proven == {rule for rule in RULES if rule.startswith("envoy-")}


def test_yaml_and_json_are_read_alike() -> None:
    text = render(Bootstrap())
    (document,) = read_documents(text)
    assert document.plain() == yaml.safe_load(text)
