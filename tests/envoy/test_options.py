"""The plugin's block is read key by key; what is wrong is named."""

from __future__ import annotations

import pytest

from doorward.config.configuration import ConfigError
from doorward.config.schema import read_plain
from doorward.envoy.options import Options


def test_an_empty_block_gives_opa_envoys_defaults() -> None:
    options, unknown = read_plain(Options, {})
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
    options, unknown = read_plain(Options, block)
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
    assert read_plain(Options, {"adress": ":1", "path": "a"})[1] == (
        "adress: unknown key, ignored",
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("addr", 9191, "must be a string but is an integer"),
        ("addr", "", "must not be empty"),
        ("path", ["a"], "must be a string but is a list"),
        ("dry-run", "yes", "must be true or false but is a string"),
        ("strict", 1, "must be true or false but is an integer"),
        ("grpc-max-recv-msg-size", "4M", "must be an integer but is a string"),
        ("grpc-max-recv-msg-size", True, "must be an integer but is true or false"),
        ("grpc-max-recv-msg-size", 0, "must be from 1 to 2147483647 but is 0"),
        (
            "grpc-request-duration-seconds-buckets",
            [],
            "must be a list of at least one finite number, each larger than the one before",
        ),
        (
            "grpc-request-duration-seconds-buckets",
            [1, "2"],
            "must be a list of at least one finite number, each larger than the one before",
        ),
        (
            "grpc-request-duration-seconds-buckets",
            [float("nan")],
            "must be a list of at least one finite number, each larger than the one before",
        ),
        (
            "grpc-request-duration-seconds-buckets",
            [2, 1],
            "must be a list of at least one finite number, each larger than the one before",
        ),
        ("on-error", "allow", "must be `deny` or `fail-call` but is `allow`"),
        ("on-error", True, "must be a string but is true or false"),
        ("socket-mode", 660, 'must be permission bits in quotes, such as "660"'),
        ("socket-mode", "rw", 'must be permission bits in quotes, such as "660"'),
        ("socket-mode", "7777", 'must be permission bits in quotes, such as "660"'),
        ("threads", 0, "must be from 1 to 512 but is 0"),
        (
            "decision-id-header",
            "X-Id",
            "must be a header name in lower case, such as x-decision-id",
        ),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_key(
    key: str, value: object, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read_plain(Options, {key: value})
    assert str(raised.value) == f"{key} {message}"


def test_path_and_query_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match='specify a value for only the "path" field'):
        read_plain(Options, {"path": "a", "query": "data.a"})
