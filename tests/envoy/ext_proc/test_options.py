"""The block of the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.config.configuration import ConfigError
from doorward.config.schema import read_plain
from doorward.envoy.ext_proc.options import ListOptions, Options


def test_a_block_becomes_options() -> None:
    options, unknown = read_plain(
        Options,
        {
            "addr": "unix:///run/r.sock",
            "path": "/shop/response/",
            "lists": {
                "people": {"path": [], "rule": "/people/include"},
                "docs": {"path": ["groups", "*", "docs"], "rule": "d/i", "name": "docs"},
            },
            "max-body": 1000,
            "socket-mode": "600",
            "other": 1,
        },
    )
    assert unknown == ("other: unknown key, ignored",)
    assert options.document == "shop/response"
    assert options.socket_mode == 0o600
    assert options.lists == {
        "people": ListOptions((), "people/include", "item"),
        "docs": ListOptions(("groups", "*", "docs"), "d/i", "docs"),
    }


def test_nothing_has_to_be_said() -> None:
    assert read_plain(Options, {}) == (Options(), ())


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"lists": []}, "must be an object"),
        ({"lists": {"a": 1}}, "lists.a must be an object but is an integer"),
        ({"lists": {"a": {"rule": "a"}}}, "lists.a.path is needed"),
        ({"lists": {"a": {"path": "$", "rule": "a"}}}, "lists.a.path must be a list"),
        ({"lists": {"a": {"path": [-1], "rule": "a"}}}, "must be a string or an index from 0"),
        ({"lists": {"a": {"path": []}}}, "lists.a.rule is needed"),
        ({"lists": {"a": {"path": [], "rule": "/"}}}, "must name a document below the root"),
        (
            {"lists": {"a": {"path": [], "rule": "a", "name": "response"}}},
            "must not be the name of a field that the input already has",
        ),
        (
            {"lists": {"a": {"path": [], "rule": "a", "name": "a.b"}}},
            "must be at most 64 letters, digits and `_` that do not begin with a digit",
        ),
        ({"max-body": 5_000_000}, "must be less than"),
        ({"max-streams": 0}, "must be from 1 to"),
        ({"dry-run": "yes"}, "must be true or false"),
    ],
)
def test_what_is_wrong_is_said(block: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_plain(Options, block)
