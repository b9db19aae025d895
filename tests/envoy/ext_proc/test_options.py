"""The block of the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from doorward.envoy.ext_proc.options import ListOptions, Options, from_block
from doorward.envoy.options import OptionsError


def test_a_block_becomes_options() -> None:
    options, unknown = from_block(
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
        }
    )
    assert unknown == ("other",)
    assert options.document == "shop/response"
    assert options.socket_mode == 0o600
    assert options.lists == {
        "people": ListOptions((), "people/include", "item"),
        "docs": ListOptions(("groups", "*", "docs"), "d/i", "docs"),
    }


def test_nothing_has_to_be_said() -> None:
    assert from_block({}) == (Options(), ())


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"lists": []}, "must be an object"),
        ({"lists": {"a": 1}}, "must be an object with `path`"),
        ({"lists": {"a": {"rule": "a"}}}, "a path is a list"),
        ({"lists": {"a": {"path": "$", "rule": "a"}}}, "a path is a list"),
        ({"lists": {"a": {"path": [-1], "rule": "a"}}}, "a key or an index"),
        ({"lists": {"a": {"path": []}}}, "needs a `rule`"),
        ({"lists": {"a": {"path": [], "rule": "/"}}}, "needs a `rule`"),
        ({"lists": {"a": {"path": [], "rule": "a", "name": "response"}}}, "cannot have"),
        ({"lists": {"a": {"path": [], "rule": "a", "name": "a.b"}}}, "cannot have"),
        ({"lists": {"a": {"path": [], "rule": "a", "more": 1}}}, "must be an object with"),
        ({"max-body": 5_000_000}, "must be less than"),
        ({"max-streams": 0}, "must be a whole number"),
        ({"dry-run": "yes"}, "must be true or false"),
    ],
)
def test_what_is_wrong_is_said(block: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionsError, match=reason):
        from_block(block)
