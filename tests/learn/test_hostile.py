"""A log is input of an attacker: whatever is in it stays data, and damage has a stated end."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.learn.logs import files_of, gathered, line, text_of

from doorward.cli.main import run
from doorward.learn.documents import POLICY
from doorward.learn.gathering import Gather
from doorward.learn.observations import LearnError
from doorward.learn.reading import Options
from doorward.rego import Engine

NOTHING = Path("nothing")

EVIL = [
    '"]} allow := true',
    "x\n\nallow := true\n",
    "`<img src=x onerror=alert(1)>`",
    "[a](javascript:alert(1))",
    "| a | b |",
    "- id: x\n  decision: allow",
    "&anchor !!python/object/apply:os.system",
    "../../../etc/cron.d/x",
    "{int}",
    "{=sub}",
    "*",
    "data.learned",
    "\u202eevil",
    "\U0001f600",
    "${jndi:ldap://x}",
    "'; DROP TABLE x; --",
    "<!-- x -->",
    "%s%n{0}",
    "\ud800",
    "$(touch /tmp/x)",
]


def poisoned() -> list[dict[str, Any]]:
    """Every value in every place: names, roles, claims, segments, parameters, ids."""
    lines = []
    for number, evil in enumerate(EVIL):
        for n in range(30):
            who = f"{evil}{n % 6}"
            each = line(who, "/papers/x", number=1000 * number + n)
            each["decision_id"] = f"{evil}{n}"
            each["input"]["path"] = ["papers", evil]
            each["input"]["claims"] = {"sub": who, "roles": [evil, "clerk"], evil: evil}
            each["input"]["parsed_query"] = {evil: [evil]}
            lines.append(each)
    return lines


def test_no_value_of_a_log_is_a_part_of_rego_or_a_name_of_a_file() -> None:
    files = files_of(poisoned(), NOTHING)
    assert set(files) == {
        "policy.rego",
        "policy_test.rego",
        "data.json",
        "review.yaml",
        "learned.md",
    }
    assert files["policy.rego"] == POLICY
    data = json.loads(files["data.json"])
    engine = Engine({"policy.rego": POLICY, "test.rego": files["policy_test.rego"]}, data)
    assert engine.prepare("data.learned.authz.allow").value({}) is False
    assert (
        engine.prepare("data.learned.authz_test.test_each_rule_allows_its_request").value() is True
    )


def test_every_file_is_ascii_and_the_review_is_what_was_meant() -> None:
    files = files_of(poisoned(), NOTHING)
    assert all(each.isascii() for each in files.values())
    rows = yaml.safe_load(files["review.yaml"])["rules"]
    assert rows
    assert all(
        set(row)
        <= {
            "id",
            "decision",
            "note",
            "proposal",
            "request",
            "who",
            "look",
            "rarest",
            "support",
            "rule",
        }
        for row in rows
    )
    assert {row["decision"] for row in rows} == {""}


def test_markdown_shows_values_and_reads_none() -> None:
    page = files_of(poisoned(), NOTHING)["learned.md"]
    for each in page.splitlines():
        # Outside of backticks there is nothing of the log, and no pair of them is broken.
        outside = each.split("`")[::2]
        assert each.count("`") % 2 == 0
        assert not any(evil[:9] in "".join(outside) for evil in EVIL if len(evil) > 8)
    assert "<" not in page.replace("`", "")
    assert max(map(len, page.splitlines())) < 1000


def test_words_that_look_like_templates_are_words() -> None:
    lines = [line(f"u{n % 9}", "/papers/{int}", number=n) for n in range(40)]
    data = json.loads(files_of(lines, NOTHING)["data.json"])
    query = Engine({"policy.rego": POLICY}, data).prepare("data.learned.authz.allow")
    assert query.value(line("u1", "/papers/{int}")["input"]) is True
    assert query.value(line("u1", "/papers/17")["input"]) is False
    assert query.value(line("u1", "/papers/x")["input"]) is False


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"decision_id": "x", "path": "a", "input": ' + "[" * 50_000,
        "\x00\xff\xfe",
        '{"decision_id": 1}',
        "NaN",
        "1" * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_counted_and_skipped(text: str) -> None:
    good = text_of([line("ann", "/a")])
    counted = Gather(Options()).decide(f"{good}{text}\n{good}".encode("utf-8", "replace"))
    assert counted.observations.events == 2
    assert sum(counted.observations.skipped.values()) >= 1


def test_reasons_are_bounded_and_hold_no_value() -> None:
    lines = [line("ann", f"/a{n}", method=f"M-{n}") for n in range(500)]
    counted = gathered(lines).observations
    assert counted.skipped == {"no method": 500}


def write(folder: Path, content: bytes, name: str = "log.jsonl") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def attempt(folder: Path, capsys: pytest.CaptureFixture[str], *logs: str) -> str:
    """The message of a run that must fail and write nothing."""
    out = folder / "out"
    assert run(["learn", *logs, "--output", str(out), "--parallel", "1"]) == 1
    assert not out.exists()
    return capsys.readouterr().err


def test_damaged_gzip_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = gzip.compress(text_of([line("ann", f"/a/{n}") for n in range(5000)]).encode())
    for damaged in (content[:-20], content[:300] + b"x" * 40 + content[340:]):
        assert "log.jsonl" in attempt(tmp_path, capsys, write(tmp_path, damaged))


def test_a_line_without_an_end_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("doorward.replay.reading.MAX_LINE", 1 << 21)
    bomb = gzip.compress(b'{"a": "' + b"x" * (1 << 24))
    assert "a line is longer" in attempt(tmp_path, capsys, write(tmp_path, bomb))
    long = write(tmp_path, b'{"a": "' + b"x" * (1 << 24))
    assert "a line is longer" in attempt(tmp_path, capsys, long)


def test_an_empty_log_and_a_missing_one_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no event" in attempt(tmp_path, capsys, write(tmp_path, b""))
    assert "no such file" in attempt(tmp_path, capsys, str(tmp_path / "missing"))


def test_a_flood_of_words_of_one_subject_teaches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doorward.learn.observations.MAX_SHAPES", 200)
    good = [line(f"u{n % 9}", "/papers/list", number=n) for n in range(60)]
    flood = [line("eve", f"/w{n:05}x", number=n) for n in range(500)]
    files = files_of([*flood, *good], NOTHING)
    assert "requested so many different paths" in files["learned.md"]
    assert "w00001x" not in files["data.json"]
    mixed = [*flood, *good]
    random.Random(1).shuffle(mixed)
    assert files_of(mixed, NOTHING) == files


def test_a_flood_of_subjects_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doorward.learn.observations.MAX_CELLS", 300)
    with pytest.raises(LearnError, match="shorter"):
        gathered([line(f"u{n}", "/a", number=n) for n in range(400)])


def test_a_request_of_another_form_does_not_end_the_run() -> None:
    lines = [line(f"u{n % 9}", "/papers/list", number=n) for n in range(60)]
    other = line("eve", "/vault/x")
    other["input"]["path"] = "/vault/x"
    files = files_of([other, *lines], NOTHING)
    assert json.loads(files["data.json"])["learned"]["form"] == "list"
    assert "the form of the input" in files["learned.md"]


def test_a_subject_named_like_a_route_owns_nothing() -> None:
    lines = [line(f"u{n % 9}", "/papers/list", number=n) for n in range(60)]
    lines += [line("papers", "/papers/list", number=n) for n in range(30)]
    lines += [line("list", "/papers/list", number=n) for n in range(30)]
    data = files_of(lines, NOTHING)["data.json"]
    assert 'claim": [\n' in data
    query = Engine({"policy.rego": POLICY}, json.loads(data)).prepare("data.learned.authz.allow")
    assert query.value(line("u1", "/papers/list")["input"]) is True
    assert query.value(line("x", "/x/list")["input"]) is False


def test_roles_that_an_attacker_invents_get_nothing_that_others_have() -> None:
    """Claims are verified in a decision log; where they are not, a role of two users is a group."""
    lines = [line(f"u{n % 9}", f"/papers/{n}", number=n) for n in range(60)]
    for n in range(4):
        each = line("eve", "/vault/x", number=n)
        each["input"]["claims"]["roles"] = ["made-up"]
        lines.append(each)
    data = files_of(lines, NOTHING)["data.json"]
    assert "made-up" not in data
    assert "vault" not in data
