"""Additions that a built-in guards are found: one `allow` more, which chance does not meet."""

from __future__ import annotations

import tomllib
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.replay.deciding import Version
from doorward.search import Search, search

OLD = """package app

default allow := false

allow if input.user == "root"
"""
IDIOMS: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "idioms.toml").read_text(encoding="utf-8")
)
SECONDS = 10.0
"""More than any takes, so that none depends on the pace of the machine."""


def find(condition: str, rules: str = "", data: Any = None, seconds: float = SECONDS) -> Search:
    old = f"{OLD}\n{rules}"
    new = f'{old}\nallow if {{\n\tinput.m == "POST"\n\t{condition}\n}}\n'
    versions = [
        Version.compile(Loaded({"a.rego": text}, data or {}), deadline=PATIENCE)
        for text in (old, new)
    ]
    return search(
        versions[0],
        versions[1],
        ["app/allow"],
        seconds=seconds,
        is_enough=lambda each: bool(each.findings),
        clock=thread_time,
    )


@pytest.mark.parametrize("name", IDIOMS)
def test_an_allow_behind_a_built_in_is_found(name: str) -> None:
    idiom = IDIOMS[name]
    condition = "\n\t".join(idiom["condition"])
    result = find(condition, idiom.get("rules", ""), idiom.get("data"))
    assert [each.kind for each in result.findings] == ["new-allow"]


def test_a_preimage_of_a_hash_is_not_found_and_the_hash_is_named() -> None:
    digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    result = find(f'crypto.sha256(input.p) == "{digest}"', seconds=0.1)
    assert not result.findings
    assert result.not_inverted == {"crypto.sha256"}


def test_a_helper_that_recursion_cannot_end_is_left() -> None:
    deep = "".join(f"f{n}(x) if f{n + 1}(x)\n\n" for n in range(60)) + "f60(x) if x == 7\n"
    assert find("f0(input.n)", deep, seconds=0.2).candidates > 0
