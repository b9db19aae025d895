"""The plugin's block is read key by key; what is wrong is named."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from doorward.envoy.options import Options, OptionsError, from_block


def test_an_empty_block_gives_opa_envoys_defaults() -> None:
    options, unknown = from_block({})
    assert options == Options()
    assert unknown == ()
    assert (options.addr, options.path) == ("127.0.0.1:9191", "envoy/authz/allow")
    assert (options.grpc_max_recv_msg_size, options.grpc_max_send_msg_size) == (4194304, 2147483647)
    assert options.on_error == "deny"


def test_every_key_is_read() -> None:
    block = {
        "addr": "unix:///run/doorward.sock",
        "path": "a/b",
        "query": "",
        "dry-run": True,
        "enable-reflection": True,
        "proto-descriptor": "/d.pb",
        "grpc-max-recv-msg-size": 1,
        "grpc-max-send-msg-size": 2,
        "skip-request-body-parse": True,
        "enable-performance-metrics": True,
        "grpc-request-duration-seconds-buckets": [0.1, 1],
        "on-error": "fail-call",
        "strict": True,
        "socket-mode": "0600",
        "threads": 4,
        "decision-id-header": "x-decision-id",
    }
    options, unknown = from_block(block)
    assert not unknown
    assert options == Options(
        addr="unix:///run/doorward.sock",
        path="a/b",
        dry_run=True,
        enable_reflection=True,
        proto_descriptor="/d.pb",
        grpc_max_recv_msg_size=1,
        grpc_max_send_msg_size=2,
        skip_request_body_parse=True,
        enable_performance_metrics=True,
        grpc_request_duration_seconds_buckets=(0.1, 1.0),
        on_error="fail-call",
        strict=True,
        socket_mode=0o600,
        threads=4,
        decision_id_header="x-decision-id",
    )


def test_unknown_keys_are_named() -> None:
    assert from_block({"adress": ":1", "path": "a"})[1] == ("adress",)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("addr", 9191, "must be a string"),
        ("addr", "", "must not be empty"),
        ("path", ["a"], "must be a string"),
        ("dry-run", "yes", "must be true or false"),
        ("strict", 1, "must be true or false"),
        ("grpc-max-recv-msg-size", "4M", "must be a whole number of bytes"),
        ("grpc-max-recv-msg-size", True, "must be a whole number of bytes"),
        ("grpc-max-recv-msg-size", 0, "must be from 1 to 2147483647"),
        ("grpc-request-duration-seconds-buckets", [], "must be a list of numbers"),
        ("grpc-request-duration-seconds-buckets", [1, "2"], "must be a list of numbers"),
        ("grpc-request-duration-seconds-buckets", [float("nan")], "must be a list of numbers"),
        ("grpc-request-duration-seconds-buckets", [2, 1], "must rise from each number to the next"),
        ("on-error", "allow", "must be `deny` or `fail-call`"),
        ("on-error", True, "must be `deny` or `fail-call`"),
        ("socket-mode", 660, 'must be permission bits in quotes, such as "660"'),
        ("socket-mode", "rw", 'must be permission bits in quotes, such as "660"'),
        ("socket-mode", "7777", "must be permission bits from 000 to 777"),
        ("threads", 0, "must be a whole number from 1 to 512"),
        ("decision-id-header", "X-Id", "must be a header name in small letters"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_key(
    key: str, value: object, message: str
) -> None:
    with pytest.raises(OptionsError) as raised:
        from_block({key: value})
    assert raised.value.key == key
    assert str(raised.value) == f"{key}: {message}"


def test_path_and_query_exclude_each_other() -> None:
    with pytest.raises(OptionsError, match='specify a value for only the "path" field'):
        from_block({"path": "a", "query": "data.a"})


def test_every_option_is_documented_with_its_default(root: Path) -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \|([^|]*)\|", (root / "docs/envoy.md").read_text(), re.MULTILINE
    )
    documented = dict(rows)
    for field in fields(Options):
        text = documented[field.name.replace("_", "-")].strip()
        if isinstance(field.default, bool):
            assert text == f"`{str(field.default).lower()}`"
        elif field.name == "socket_mode":
            assert text == f'`"{field.default:o}"`'
        elif isinstance(field.default, (int, str)):
            assert text == (f"`{field.default}`" if field.default else "")
