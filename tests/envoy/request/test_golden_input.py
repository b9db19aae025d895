"""The `input` for each recorded CheckRequest is the one that opa-envoy-plugin built."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from tests.envoy.golden import Row, rows

from doorward.config.schema import read_plain
from doorward.enforcement.errors import RequestError
from doorward.envoy.options import Options
from doorward.envoy.request.descriptors import Services, load_services
from doorward.envoy.request.input import MalformedRequestError, to_input
from doorward.rego.values import to_json

ROWS = rows("envoy-input.jsonl.gz")
RULES: dict[str, Callable[[Row], bool]] = {
    "newer": lambda row: "newer" in row,
    "depth": lambda row: row["id"].startswith("body-json-deep-"),
    "field-name": lambda row: "proto: field" in refusal(row),
}
_services: dict[str, Services] = {}


def refusal(row: Row) -> str:
    """The recorded text of a 400, or of a failed call."""
    if row.get("error"):
        return str(row["error"]["message"])
    return str(row["response"]["json"]["status"].get("message", ""))


def rule_of(row: Row) -> str:
    return next((name for name, applies in RULES.items() if applies(row)), "")


def outcome(row: Row) -> str:
    """Our input as JSON text, or the text of our refusal."""
    options, unknown = read_plain(Options, row["config"])
    assert not unknown
    try:
        built = to_input(
            base64.b64decode(row["request"]), options, services_of(options), row["api"]
        )
    except MalformedRequestError as error:
        return str(error)
    except RequestError as error:
        return f"{error.code}: {error}"
    return to_json(built)


def services_of(options: Options) -> Services | None:
    source = options.proto_descriptor
    if source and source not in _services:
        _services[source] = load_services(source)
    return _services.get(source)


def recorded(row: Row) -> str:
    actual: Any = row.get("policy_saw") or row.get("input")
    return refusal(row) if actual is None else to_json(actual)


@pytest.mark.parametrize("row", ROWS)
def test_input_is_the_recorded_one(row: Row) -> None:
    ours, theirs, rule = outcome(row), recorded(row), rule_of(row)
    if not rule:
        assert ours == theirs
        return
    assert ours != theirs, f"the difference `{rule}` is gone"
    if rule == "newer":
        assert ours.startswith(newer(row))
    elif rule == "depth":
        assert ours == "request_parse_error: JSON is nested too deeply"
    else:
        assert ours == "request_parse_error: proto: field contains invalid UTF-8"


def newer(row: Row) -> str:
    expected = row["newer"]
    if "error" in expected:
        return f"{expected['error']}: "
    actual: dict[str, Any] = row.get("input") or base_input(row)
    return to_json(actual | expected)


def base_input(row: Row) -> dict[str, Any]:
    """What 1.9.0 would have built but for the path: that of the same request at `/`."""
    request = row["request_json"]["attributes"]["request"]["http"]
    assert set(request) == {"method", "path"}
    return {
        "attributes": {"request": {"http": request}},
        "version": {"ext_authz": "v3", "encoding": "protojson"},
        "parsed_body": None,
        "truncated_body": False,
    }
