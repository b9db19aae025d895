"""Grants in data that nobody used are found, and what is left allows the log and nothing more."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.learn.logs import line, text_of

from doorward.bundles.loader import data_files
from doorward.bundles.sources import Sources
from doorward.cli.main import run
from doorward.learn.data_patch import DataFile
from doorward.learn.observations import LearnError
from doorward.learn.unused import Unused, find_unused
from doorward.learn.unused_data import Location, _Removal, without_members
from doorward.rego import Engine

POLICY = """package httpapi.authz

default allow := false

allow if {
	some role in data.roles[input.claims.sub]
	some grant in data.grants[role]
	grant.method == input.method
	startswith(concat("/", input.path), grant.path)
	not input.claims.sub in data.blocked
}
"""
DATA: dict[str, Any] = {
    "roles": {"ann": ["reader", "boss"], "bob": ["reader"], "eve": ["boss"]},
    "grants": {
        "reader": [{"method": "GET", "path": "papers"}, {"method": "GET", "path": "desks"}],
        "boss": [{"method": "DELETE", "path": "papers"}],
    },
    "blocked": ["joe"],
}


def check(folder: Path, documents: list[dict[str, Any]], data: Any = DATA) -> Unused:
    (folder / "policy.rego").write_text(POLICY)
    (folder / "data.json").write_text(json.dumps(data, indent=2))
    (folder / "log.jsonl").write_text(text_of(documents))
    paths = (str(folder / "policy.rego"), str(folder / "data.json"))
    files = [DataFile(p, prefix, Path(p).read_text()) for p, prefix in data_files(paths)]
    return find_unused([str(folder / "log.jsonl")], Sources(paths).load(), frozenset(), data=files)


def test_members_that_nobody_used_are_named_with_their_lines(tmp_path: Path) -> None:
    unused = check(tmp_path, [line("ann", "/papers/1"), line("bob", "/papers/2")])
    texts = [(each.row, each.text) for each in unused.parts]
    assert texts == [
        (5, "data.roles.ann[1]"),
        (10, "data.roles.eve"),
        (20, "data.grants.reader[1]"),
        (25, "data.grants.boss"),
    ]
    assert '-    "eve": [' in unused.patch
    assert "blocked" not in "".join(each.text for each in unused.parts)


def test_a_removal_is_what_a_copy_without_the_members_is() -> None:
    """After any changes, also where a part of what was copied before is taken again."""
    rng = random.Random(11)
    data = {
        "a": {f"k{n}": {"x": [1, 2, {"y": n}], "z": n} for n in range(4)},
        "b": [[1, 2], {"c": 3}, 4],
    }
    members: list[Location] = [("a", f"k{n}") for n in range(4)] + [("b", n) for n in range(3)]
    members += [("a", f"k{n}", "x", m) for n in range(4) for m in range(3)]
    removal, removed = _Removal(), set[Location]()
    for _ in range(2_000):
        member = rng.choice(members)
        inside = any(member[:n] in removed for n in range(1, len(member)))
        around = any(each[: len(member)] == member and each != member for each in removed)
        if member in removed:
            removal.discard(member)
            removed.remove(member)
        elif not inside and not around:
            removal.put(member, None)
            removed.add(member)
        assert removal.prune(data) == without_members(data, removed) == naive(data, (), removed)


def naive(value: Any, at: Location, removed: set[Location]) -> Any:
    if isinstance(value, dict):
        return {k: naive(v, (*at, k), removed) for k, v in value.items() if (*at, k) not in removed}
    if isinstance(value, list):
        return [naive(v, (*at, n), removed) for n, v in enumerate(value) if (*at, n) not in removed]
    return value


def test_a_change_copies_only_what_is_on_the_way_to_it() -> None:
    data: Any = {"a": {"x": {"k": 1, "l": 2}, "y": {"k": 1}}, "b": {"k": 1, "l": 2}}
    removal = _Removal()
    removal.put(("b", "k"), None)
    removal.put(("a", "x", "k"), None)
    before = removal.prune(data)
    removal.put(("a", "x", "l"), None)
    after = removal.prune(data)
    assert after == {"a": {"x": {}, "y": {"k": 1}}, "b": {"l": 2}}
    assert after["b"] is before["b"]
    assert after["a"]["y"] is data["a"]["y"]
    assert before["a"]["x"] == {"l": 2}


def test_a_log_of_docker_is_not_one_of_decisions(tmp_path: Path) -> None:
    lines = [{"action": "a", "phase": "request", "decision": "allow", "uri": "/", "user": "ann"}]
    with pytest.raises(LearnError, match="docker replay"):
        check(tmp_path, lines)


def test_what_was_denied_uses_nothing(tmp_path: Path) -> None:
    events = [line("ann", "/papers/1"), line("eve", "/desks/1"), line("joe", "/papers/1")]
    texts = {each.text for each in check(tmp_path, events).parts}
    assert "data.roles.eve" in texts


def test_data_that_is_used_has_no_patch(tmp_path: Path) -> None:
    data = {"roles": {"ann": ["a"]}, "grants": {"a": [{"method": "GET", "path": "x"}]}}
    unused = check(tmp_path, [line("ann", "/x/1")], {**data, "blocked": []})
    assert (unused.parts, unused.patch) == ((), "")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_left_allows_the_log_and_is_minimal(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names, roles, paths = ["ann", "bob", "eve", "joe", "kim"], ["a", "b", "c", "d"], ["x", "y", "z"]
    data: dict[str, Any] = {
        "roles": {name: rng.sample(roles, rng.randrange(1, 4)) for name in names},
        "grants": {
            role: [
                {"method": method, "path": path}
                for method in ("GET", "PUT")
                for path in rng.sample(paths, 2)
            ]
            for role in roles
        },
        "blocked": ["kim"],
    }
    query = Engine({"policy.rego": POLICY}, data).prepare("data.httpapi.authz.allow")
    events = []
    for _ in range(40):
        each = line(rng.choice(names), f"/{rng.choice(paths)}/1", rng.choice(["GET", "PUT"]))
        if query.value(each["input"]) is True:
            events.append(each)
    events = events[: rng.randrange(1, 12)]
    check(tmp_path, events, data)
    log = str(tmp_path / "log.jsonl")
    policy, file = str(tmp_path / "policy.rego"), tmp_path / "data.json"
    # The patch is what the command prints, and it is applied as such.
    loaded = Sources((policy, str(file))).load()
    data_file = DataFile(str(file), (), file.read_text())
    unused = find_unused([log], loaded, frozenset(), data=[data_file])
    file.write_text(_applied(data_file.text, unused.patch))
    narrow = json.loads(file.read_text())
    after = Engine({"policy.rego": POLICY}, narrow).prepare("data.httpapi.authz.allow")
    assert all(after.value(each["input"]) is True for each in events)
    again = find_unused(
        [log],
        Sources((policy, str(file))).load(),
        frozenset(),
        data=[DataFile(str(file), (), file.read_text())],
    )
    assert not again.parts


def _applied(text: str, patch: str) -> str:
    """A text with the lines of a unified diff applied, which must fit."""
    lines, out, at = text.splitlines(), [], 0
    for hunk in patch.split("\n@@ ")[1:]:
        header, _, body = hunk.partition(" @@\n")
        start = int(header.split(",")[0].split()[0][1:]) - 1
        out += lines[at:start]
        at = start
        for row in body.splitlines():
            if row.startswith("\\"):
                continue
            if row[0] in " -":
                assert lines[at] == row[1:]
                at += 1
            if row[0] in " +":
                out.append(row[1:])
    return "\n".join([*out, *lines[at:]]) + "\n"


@pytest.mark.long
def test_a_learned_rule_that_nobody_used_goes_with_its_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [line(f"u{n % 9}", f"/papers/{n}", number=n, day=n % 4) for n in range(200)]
    gone = [line(f"u{n % 9}", "/vault", "PUT", number=n, day=n % 4) for n in range(100)]
    log, out = tmp_path / "log.jsonl", tmp_path / "out"
    log.write_text(text_of([*events, *gone]))
    assert run(["learn", str(log), "-o", str(out), "--parallel", "1"]) == 0
    log.write_text(text_of(events))
    policy, data = str(out / "policy.rego"), out / "data.json"
    capsys.readouterr()
    assert run(["learn", str(log), "--check", policy, "--check", str(data)]) == 2
    printed = capsys.readouterr().out
    head, _, patch = printed.partition("--- ")
    assert head.count("nobody used") == 1
    assert 'data.learned.routes[""].PUT (rule ' in head
    data.write_text(_applied(data.read_text(), f"--- {patch}"))
    names = [str(out / each) for each in ("policy.rego", "policy_test.rego", "data.json")]
    assert run(["test", *names]) == 0
    assert len(json.loads(data.read_text())["learned"]["tests"]["allowed"]) == 1
    assert run(["learn", str(log), "--check", policy, "--check", str(data)]) == 0


def test_data_of_yaml_in_one_line_is_reported_without_a_patch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.rego").write_text("package httpapi.authz\nallow if input.path[0] in data.x")
    (tmp_path / "data.yaml").write_text("x: [a, b]\n")
    (tmp_path / "log.jsonl").write_text(text_of([line("ann", "/a")]))
    files = ["--check", str(tmp_path / "policy.rego"), "--check", str(tmp_path / "data.yaml")]
    assert run(["learn", str(tmp_path / "log.jsonl"), *files]) == 2
    printed = capsys.readouterr()
    assert "nobody used the data.x[1]" in printed.out
    assert "data.yaml: no patch" in printed.err


def test_names_of_members_cannot_write_to_a_terminal(tmp_path: Path) -> None:
    data = {**DATA, "roles": {**DATA["roles"], "\x1b[31m\nx": ["boss"]}}
    unused = check(tmp_path, [line("ann", "/papers/1")], data)
    assert any(each.text == 'data.roles["\\u001b[31m\\nx"]' for each in unused.parts)


def test_more_members_than_can_be_tried_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doorward.learn.unused_data.MAX_MEMBERS", 3)
    with pytest.raises(LearnError, match="more than 3 members"):
        check(tmp_path, [line("ann", "/papers/1")])
