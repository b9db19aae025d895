"""Parts of a policy that nobody used are found, and their removal changes no answer of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.learn.logs import line, text_of

from doorward.bundles.sources import Sources
from doorward.learn.observations import LearnError
from doorward.learn.unused import Unused, find_unused, without

POLICY = """package httpapi.authz

default allow := false

allow if {
	is_read
	input.path[0] in {"papers", "secrets", "desks"}
}

allow if input.method == "PURGE"

allow if {
	input.method == "POST"
	not is_blocked
}

is_read if input.method == "GET"

is_read if input.method == "HEAD"

is_blocked if input.path[0] == "vault"

is_blocked if input.path[0] == "never"
"""


def check(folder: Path, policy: str, documents: list[dict[str, Any]]) -> Unused:
    (folder / "policy.rego").write_text(policy)
    (folder / "log.jsonl").write_text(text_of(documents))
    loaded = Sources((str(folder / "policy.rego"),)).load()
    unused = find_unused([str(folder / "log.jsonl")], loaded, frozenset())
    for document in documents:
        assert document["result"] is True
    return unused


def used() -> list[dict[str, Any]]:
    return [line("ann", "/papers/1"), line("ann", "/desks/ann"), line("ann", "/x", "POST")]


def test_dead_definitions_and_constants_are_found_with_a_patch(tmp_path: Path) -> None:
    unused = check(tmp_path, POLICY, used())
    assert [(each.row, each.text) for each in unused.parts] == [
        (7, 'constant "secrets"'),
        (10, "definition of data.httpapi.authz.allow"),
        (19, "definition of data.httpapi.authz.is_read"),
    ]
    removed = [
        each[1:].strip()
        for each in unused.patch.splitlines()
        if each[:1] == "-" and each[1:2] != "-"
    ]
    assert 'allow if input.method == "PURGE"' in removed
    assert (unused.events, unused.allowed, unused.skipped) == (3, 3, 0)


def test_a_patch_is_one_of_lines_whatever_stands_in_them(tmp_path: Path) -> None:
    policy = POLICY.replace(
        'allow if input.method == "PURGE"', '# x\fy\nallow if input.method == "PURGE"'
    )
    lines = check(tmp_path, policy, used()).patch.split("\n")
    assert any("x\fy" in each for each in lines)
    assert {each[:1] for each in lines} <= {"", " ", "+", "-", "@", "\\"}


def test_what_is_asked_under_not_is_never_taken_out(tmp_path: Path) -> None:
    unused = check(tmp_path, POLICY, used())
    assert not any("is_blocked" in each.text for each in unused.parts)


def test_the_patch_makes_the_policy_that_was_tried(tmp_path: Path) -> None:
    unused = check(tmp_path, POLICY, used())
    loaded = Sources((str(tmp_path / "policy.rego"),)).load()
    (text,) = [str(each) for each in without(loaded, unused.parts).modules.values()]
    assert '{"papers", "desks"}' in text
    assert "PURGE" not in text


def test_a_request_late_in_the_log_keeps_its_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doorward.learn.unused.EXAMPLES", 2)
    unused = check(tmp_path, POLICY, [*used(), line("ann", "/x", "PURGE")])
    assert [each.row for each in unused.parts] == [7, 19]


def test_a_policy_that_is_used_as_a_whole_has_no_patch(tmp_path: Path) -> None:
    policy = 'package httpapi.authz\n\nallow if input.method == "GET"\n'
    unused = check(tmp_path, policy, [line("ann", "/a")])
    assert (unused.parts, unused.patch) == ((), "")


@pytest.mark.parametrize(
    "rule",
    [
        'allow := x if x := input.method == "GET"',
        'allow if { input.method == "GET" } else := false',
        'default allow := true\n\nallow := false if input.method == "PUT"',
    ],
)
def test_a_rule_with_other_values_than_true_is_left_alone(tmp_path: Path, rule: str) -> None:
    unused = check(tmp_path, f"package httpapi.authz\n\n{rule}\n", [line("ann", "/a")])
    assert not unused.parts


def test_a_policy_that_allows_nothing_of_the_log_says_so(tmp_path: Path) -> None:
    policy = 'package httpapi.authz\n\nallow if input.method == "PUT"\n'
    with pytest.raises(LearnError, match="allows no request"):
        check(tmp_path, policy, [line("ann", "/a")])
