"""The files of a folder: fixed policy, data, tests that pass, a review that keeps decisions."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.learn.logs import files_of, line

from doorward.learn.documents import POLICY, POLICY_TEST
from doorward.learn.observations import LearnError
from doorward.learn.output import write_files
from doorward.rego import Engine

NOTHING = Path("nothing")


def log() -> list[dict[str, Any]]:
    """Clerks read papers and their own desks; one account reads a vault."""
    lines = []
    for n in range(300):
        who = f"clerk{n % 20}"
        path = f"/desks/{who}" if n % 3 else f"/papers/{n}"
        lines.append(line(who, path, number=n))
    lines += [line("clerk1", "/vault/keys", number=1000 + n) for n in range(30)]
    return lines


def rows_of(files: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = yaml.safe_load(files["review.yaml"])["rules"]
    return rows


def decide(files: Any, path: str, who: str = "clerk1") -> bool:
    engine = Engine({"policy.rego": files["policy.rego"]}, json.loads(files["data.json"]))
    input = line(who, path)["input"]
    return engine.prepare("data.learned.authz.allow").value(input) is True


def test_the_policy_is_the_same_for_every_log_and_values_are_data() -> None:
    files = files_of(log(), NOTHING)
    other = files_of([line(f"u{n % 5}", "/a/b", number=n) for n in range(50)], NOTHING)
    for each in (files, other):
        assert each["policy.rego"] == POLICY
        assert each["policy_test.rego"] == POLICY_TEST
    assert "desks" not in POLICY + POLICY_TEST
    assert "desks" in files["data.json"]


def test_the_tests_of_a_learned_policy_pass_and_hold_no_names() -> None:
    files = files_of(log(), NOTHING)
    data = json.loads(files["data.json"])
    engine = Engine({name: files[name] for name in ("policy.rego", "policy_test.rego")}, data)
    for name in (
        "test_each_rule_allows_its_request",
        "test_each_rule_has_a_request_that_is_denied",
    ):
        assert engine.prepare(f"data.learned.authz_test.{name}").value({}) is True
    tests = data["learned"]["tests"]
    assert len(tests["allowed"]) == len(tests["denied"]) == 2
    assert "clerk1" not in json.dumps(tests)


def test_a_test_of_a_learned_policy_fails_for_a_wider_policy() -> None:
    files = files_of(log(), NOTHING)
    wide = POLICY.replace("default allow := false", "default allow := true")
    data = json.loads(files["data.json"])
    engine = Engine({"policy.rego": wide, "policy_test.rego": POLICY_TEST}, data)
    name = "test_each_rule_has_a_request_that_is_denied"
    assert engine.prepare(f"data.learned.authz_test.{name}").value({}) is not True


def test_the_files_do_not_depend_on_the_order_of_the_log() -> None:
    lines = log()
    files = files_of(lines, NOTHING)
    random.Random(1).shuffle(lines)
    assert files_of(lines, NOTHING) == files


def test_what_few_did_is_asked_with_an_example() -> None:
    files = files_of(log(), NOTHING)
    (questions,) = [row for row in rows_of(files) if row["proposal"] == "ask"]
    assert questions["request"] == "GET /vault/keys"
    assert questions["support"]["requests"] == 30
    assert questions["support"]["example"] == "d-001000"
    assert not decide(files, "/vault/keys")
    assert "GET /vault/keys" in files["learned.md"]


def edit(folder: Path, request: str, **changes: str) -> None:
    document = yaml.safe_load((folder / "review.yaml").read_text())
    (row,) = [row for row in document["rules"] if row["request"] == request]
    row.update(changes)
    (folder / "review.yaml").write_text(yaml.safe_dump(document))


def test_decisions_of_a_person_survive_the_next_run(tmp_path: Path) -> None:
    write_files(files_of(log(), tmp_path), tmp_path)
    edit(tmp_path, "GET /vault/keys", decision="allow", note="the night shift")
    edit(tmp_path, "GET /papers/{int}", decision="deny")
    files = files_of([*log(), line("clerk2", "/papers/1", number=9)], tmp_path)
    write_files(files, tmp_path)
    assert decide(files, "/vault/keys")
    assert not decide(files, "/papers/1")
    again = files_of(log(), tmp_path)
    notes = {row["request"]: (row["decision"], row["note"]) for row in rows_of(again)}
    assert notes["GET /vault/keys"] == ("allow", "the night shift")
    assert notes["GET /papers/{int}"] == ("deny", "")


def test_what_is_no_longer_seen_is_kept_and_marked(tmp_path: Path) -> None:
    write_files(files_of(log(), tmp_path), tmp_path)
    edit(tmp_path, "GET /vault/keys", decision="allow")
    without = [each for each in log() if "vault" not in str(each) and "papers" not in str(each)]
    files = files_of(without, tmp_path)
    unused = {row["request"]: row for row in rows_of(files) if row.get("unused")}
    assert set(unused) == {"GET /vault/keys", "GET /papers/{int}"}
    assert decide(files, "/vault/keys")
    assert not decide(files, "/papers/1")
    write_files(files, tmp_path)
    assert {
        row["request"] for row in rows_of(files_of(without, tmp_path)) if row.get("unused")
    } == set(unused)


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "rules: [",
        "rules: 1",
        "[]",
        "rules: [{id: x}]",
        "a: &a [*a]\nrules: *a",
        "rules: !!python/object/apply:os.system [id]",
        "{" * 100_000,
    ],
)
def test_a_damaged_review_is_refused_and_nothing_is_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "review.yaml").write_text(text)
    with pytest.raises(LearnError, match=r"review\.yaml"):
        files_of(log(), tmp_path)
    assert os.listdir(tmp_path) == ["review.yaml"]


def test_an_unknown_decision_is_refused(tmp_path: Path) -> None:
    write_files(files_of(log(), tmp_path), tmp_path)
    edit(tmp_path, "GET /vault/keys", decision="yes")
    with pytest.raises(LearnError, match="write allow, deny, or nothing"):
        files_of(log(), tmp_path)


def test_a_changed_policy_is_not_overwritten(tmp_path: Path) -> None:
    files = files_of(log(), tmp_path)
    write_files(files, tmp_path)
    (tmp_path / "policy.rego").write_text("package learned.authz\n")
    with pytest.raises(LearnError, match="rules of your own"):
        write_files(files, tmp_path)


def test_an_empty_log_is_refused() -> None:
    with pytest.raises(LearnError, match="no event"):
        files_of([{"msg": "started"}], NOTHING)


def test_files_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    write_files(files_of(log(), tmp_path), tmp_path / "new")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()} == {0o600}


def test_words_that_are_new_since_the_last_run_are_shown_first(tmp_path: Path) -> None:
    words = [f"item-{a}" for a in "abcdefghijklmnop"]
    lines = [line(f"u{n % 9}", f"/shop/{words[n % 15]}", number=n) for n in range(600)]
    write_files(files_of(lines, tmp_path), tmp_path)
    edit(tmp_path, "GET /shop/{shop}", decision="allow")
    more = [line(f"u{n % 9}", "/shop/item-p", number=n) for n in range(9)]
    row = rows_of(files_of([*lines, *more], tmp_path))[0]
    assert row["decision"] == "allow"
    assert row["new"] == ["item-p"]
    assert row["look"] == ["1 words are new since the last run"]
    assert row["rarest"] == ["item-a", "item-b", "item-c", "item-d", "item-e"]


@pytest.mark.parametrize("decision", ["no", "yes", "Deny", "1", "[allow]"])
def test_a_decision_that_yaml_reads_as_something_else_is_refused(
    decision: str, tmp_path: Path
) -> None:
    write_files(files_of(log(), tmp_path), tmp_path)
    path = tmp_path / "review.yaml"
    path.write_text(path.read_text().replace("decision: ''", f"decision: {decision}", 1))
    with pytest.raises(LearnError, match="write allow, deny, or nothing"):
        files_of(log(), tmp_path)


def test_a_policy_that_is_not_utf8_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "policy.rego").write_bytes(b"\xff")
    with pytest.raises(LearnError, match="was changed, or written by another version"):
        write_files(files_of(log(), NOTHING), tmp_path)
