"""A decision log, decided again: what changes is counted, and nothing is guessed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doorward.bundles.sources import Sources
from doorward.cli.main import run
from doorward.config.configuration import DecisionLogs
from doorward.decision_log.log import DecisionLog
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import read
from doorward.replay import Job, ReplayError, as_json, reading, replay
from doorward.replay.deciding import Version
from doorward.replay.events import events_of, read_event
from doorward.replay.work import EXAMPLE_BYTES
from doorward.telemetry.log import line_for

pytestmark = pytest.mark.long

OPA = Path(__file__).parent.parent / "data/replay"
"""A log that OPA 1.9 wrote with `nd_builtin_cache`, and its policy."""
OLD = """package app

default allow := false

allow if input.user == "root"

allow if {
	input.method == "GET"
	is_member
}

is_member if input.user in data.members
"""
NEW = OLD.replace('"GET"', '"POST"').replace('"root"', '"admin"')
INPUTS: list[Any] = [
    {"user": "root", "method": "GET"},
    {"user": "ann", "method": "GET"},
    {"user": "ann", "method": "POST"},
    {"user": "bob", "method": "GET"},
    {"user": "admin", "method": "PUT", "password": "hunter2"},
]


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.rego").write_text(text)
        (tmp_path / name / "data.json").write_text('{"members": ["ann"]}')
    return tmp_path


@pytest.fixture
def log(policies: Path) -> Path:
    """What our own log writes when the old policy decides."""
    path = policies / "log.jsonl"
    with path.open("wb") as file:
        sink = DecisionLog(
            file.write, line_for("json"), labels={}, options=DecisionLogs(console=True)
        )
        pdp = PDP(read([str(policies / "old")]), sink)
        for document in INPUTS:
            pdp.record(pdp.decide("app/allow", document), document)
        pdp.close()
    return path


def report(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert run(["replay", "--format", "json", *map(str, arguments)]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_policy_that_wrote_a_log_changes_nothing(
    log: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = report(capsys, "--log", log, "--policy", policies / "old")
    assert (document["decisions"], document["changes"]) == (len(INPUTS), 0)


@pytest.mark.parametrize("against", ["recorded", "old"])
def test_changes_are_counted_by_kind_rule_and_cause(
    log: Path, policies: Path, against: str, capsys: pytest.CaptureFixture[str]
) -> None:
    old = against if against == "recorded" else policies / against
    document = report(capsys, "--log", log, "--policy", policies / "new", "--against", old)
    kinds = {kind: number for kind, number in document["kinds"].items() if number}
    assert kinds == {"unchanged": 1, "new-allow": 2, "new-deny": 2}
    causes = {each["value"]: each["decisions"] for each in document["groups"]["cause"]}
    cause = 'neither `input.user == "admin"` nor `input.method == "POST"` holds'
    assert causes[cause] == 2  # root and ann, who get no further with GET
    assert causes['`allow if input.user == "admin"` holds'] == 1
    ann = 'allow if input.method == "POST"; is_member'
    answered_before = ann if against == "old" else "is_member if input.user in data.members"
    assert causes[f"`{answered_before}` holds"] == 1
    assert document["groups"]["user"][0]["value"] == "ann"
    examples = [one for each in document["examples"] for one in each["decisions"]]
    assert {"user": "ann", "method": "POST"} in [each["input"] for each in examples]
    assert all(each["was"] is not each["is"] for each in examples)


def test_a_reason_to_fail_is_the_exit_code(
    log: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--log", log, "--policy", policies / "new"]
    report(capsys, *given, "--fail-on", "new-allow", code=2)
    report(capsys, *given, "--fail-on", "not-replayable", "--fail-on", "new-error", code=0)
    report(capsys, *given, "--fail-on", "change", code=2)


def test_a_log_of_opa_is_replayed_with_its_time_and_built_ins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = report(capsys, "--log", OPA / "opa.jsonl", "--policy", OPA / "opa.rego")
    assert document["kinds"]["unchanged"] == 9
    assert document["not_replayable"] == {
        "/input/password, which is masked": 1,
        "the answer of rand.intn": 1,
    }
    assert document["not_events"] == 1


@pytest.mark.parametrize("form", ["gzip", "array", "folder"])
def test_every_form_of_a_log_gives_the_same_report(
    form: str, policies: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = report(capsys, "--log", log, "--policy", policies / "new")
    other = policies / "other"
    if form == "gzip":
        other.write_bytes(gzip.compress(log.read_bytes()))
    elif form == "array":
        lines = log.read_text().splitlines()
        other.write_bytes(gzip.compress(f"[{','.join(lines)}]".encode()))
    else:
        other.mkdir()
        for number, line in enumerate(log.read_text().splitlines()):
            (other / f"{number}.json").write_text(line)
        (other / ".hidden").write_text("{}")
    assert report(capsys, "--log", other, "--policy", policies / "new") == expected


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
@pytest.mark.parametrize("processes", [1, 3])
def test_chunks_and_processes_do_not_change_the_report(
    size: int, processes: int, log: Path, policies: Path
) -> None:
    def decided(processes: int, size: int, compress: bool) -> str:
        path = policies / "whole"
        content = log.read_bytes() * 20
        path.write_bytes(gzip.compress(content) if compress else content)
        job = Job(Version.load(Sources([str(policies / "new")])))
        return as_json(replay([str(path)], job, processes=processes, size=size))

    expected = decided(1, 1 << 20, compress=False)
    assert json.loads(expected)["decisions"] == 20 * len(INPUTS)
    assert decided(processes, size, compress=False) == expected
    assert decided(processes, size, compress=True) == expected


@pytest.mark.parametrize(
    "policy",
    [
        "allow if input.password",
        "allow if count(input) == 2",
        "allow if input[_] == 1",
        "allow if { some x in object.keys(input); x == input.user }",
        "allow if other(input)\n\nother(x) if x.password",
    ],
)
def test_a_decision_that_may_read_a_masked_value_is_not_replayable(
    policy: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reads.rego").write_text(f"package app\n\n{policy}\n")
    document = report(capsys, "--log", log, "--policy", tmp_path / "reads.rego")
    assert document["not_replayable"] == {"/input/password, which is masked": 1}


def test_a_masked_result_cannot_be_compared_but_decided_by_two_policies(
    tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"decision_id": "1", "path": "app/allow", "input": {}, "erased": ["/result"]}
    path = tmp_path / "masked.jsonl"
    path.write_text(json.dumps(line))
    given = ["--log", path, "--policy", policies / "new"]
    assert report(capsys, *given)["kinds"]["not-replayable"] == 1
    both = report(capsys, *given, "--against", policies / "old")
    assert both["kinds"]["unchanged"] == 1


def test_an_answer_that_was_not_recorded_is_asked_of_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"decision_id": "1", "path": "app/allow", "input": {}, "result": False}
    (tmp_path / "log").write_text(json.dumps(line))
    (tmp_path / "p.rego").write_text(
        'package app\n\nallow if http.send({"method": "GET", "url": "http://127.0.0.1:1"}).body\n'
    )
    document = report(capsys, "--log", tmp_path / "log", "--policy", tmp_path / "p.rego")
    assert document["not_replayable"] == {"the answer of http.send": 1}


def test_errors_and_values_are_kinds_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = """package app

answer := {"allowed": input.n > 1, "n": input.n}

clash := 1 if input.n
clash := 2 if input.n
"""
    (tmp_path / "p.rego").write_text(policy)
    past: list[tuple[str, Any]] = [
        ("answer", {"allowed": False, "n": 1.0}),
        ("answer", {"allowed": False, "n": 0}),
        ("answer", {"allowed": True, "n": 1}),
        ("clash", 1),
        ("clash", True),
    ]
    lines = [
        {"decision_id": "1", "path": f"/app/{name}", "input": {"n": 1}, "result": result}
        for name, result in past
    ]
    failed = {"decision_id": "2", "path": "app/clash", "input": {"n": 1}, "error": {"message": "x"}}
    (tmp_path / "log").write_text("\n".join(map(json.dumps, [*lines, failed, {"n": 1}, []])))
    document = report(capsys, "--log", tmp_path / "log", "--policy", tmp_path / "p.rego")
    kinds = {kind: number for kind, number in document["kinds"].items() if number}
    assert kinds == {"unchanged": 2, "changed": 1, "new-deny": 2, "new-error": 1}
    assert document["not_events"] == 2


def test_groups_of_the_input_and_paths_that_count_can_be_chosen(
    log: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--log", log, "--policy", policies / "new", "--by", "input.method"]
    groups = report(capsys, *given)["groups"]["input.method"]
    assert {each["value"] for each in groups} == {"GET", "POST", "PUT"}
    both = ["--path", "app/other", "--path", "app/allow"]
    assert report(capsys, *given, *both)["decisions"] == len(INPUTS)


def test_people_read_text_markdown_and_a_page_in_which_nothing_runs(
    log: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "<script>alert(1)</script>\x1b[31m|`"
    line = {"decision_id": evil, "path": "app/allow", "result": True, "input": {"user": evil}}
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
    shown = {}
    for style in ("text", "markdown", "html"):
        given = ["--log", str(log), "--policy", str(policies / "new"), "--format", style]
        assert run(["replay", *given]) == 0
        shown[style] = capsys.readouterr().out
        assert "5 of 6 decisions change" in shown[style]
        assert "\x1b" not in shown[style].replace("\\u001b", "") or style == "html"
    assert "<script" not in shown["html"]
    assert "default-src 'none'" in shown["html"]
    assert "<script" not in shown["markdown"]
    path = policies / "page.html"
    given = ["--log", str(log), "--policy", str(policies / "new"), "-o", str(path)]
    assert run(["replay", *given, "--format", "html"]) == 0
    assert path.read_text() == shown["html"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"{}\n" * 9)[:-9], "end-of-stream"),
        (b"\x1f\x8b\x00" + b"x" * 20, "unknown compression"),
    ],
    ids=["cut off", "of no known kind"],
)
def test_a_broken_archive_is_an_error_that_names_it(
    content: bytes, said: str, tmp_path: Path, policies: Path
) -> None:
    (tmp_path / "log.gz").write_bytes(content)
    job = Job(Version.load(Sources([str(policies / "new")])))
    with pytest.raises(ReplayError, match=rf"log\.gz: .*{said}"):
        replay([str(tmp_path / "log.gz")], job, processes=1)


@pytest.mark.parametrize("stored", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_an_array_that_is_too_long_is_refused(
    stored: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_ARRAY", 1000)
    (tmp_path / "log").write_bytes(stored(b"[%s]" % (b"1," * 600)))
    said = "log: a JSON array may have at most 1000 bytes: write one event on each line"
    with pytest.raises(ReplayError, match=said):
        list(reading.chunks_of([str(tmp_path / "log")]))


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_replay_of_no_decision_is_an_error(
    processes: str, log: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--log", str(log), "--policy", str(policies / "new"), "--parallel", processes]
    assert run(["replay", *given, "--path", "app/alow", "--fail-on", "change"]) == 1
    printed = capsys.readouterr()
    decisions = f"only {len(INPUTS)} decisions of other documents"
    assert f"the log contains no decisions of a --path, {decisions}" in printed.err
    assert printed.out == ""


def test_what_is_not_there_is_said(policies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--log", str(policies / "no"), "--policy", str(policies / "new")]) == 1
    assert "no: no such file or folder" in capsys.readouterr().err
    assert run(["replay", "--log", str(policies / "new"), "--policy", str(policies / "new")]) == 1
    assert "the log contains no decisions, only " in capsys.readouterr().err
    (policies / "empty.log").touch()
    empty = ["--log", str(policies / "empty.log"), "--policy", str(policies / "new")]
    assert run(["replay", *empty, "--fail-on", "change"]) == 1
    assert "the log contains no decisions: name a " in capsys.readouterr().err
    (policies / "bad.rego").write_text("package")
    log = ["--log", str(policies / "old")]
    assert run(["replay", *log, "--policy", str(policies / "bad.rego")]) == 1
    assert "rego_parse_error" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("2026-11-22T18:53:18.708903056Z", 1_795_373_598_708_903_056),
        ("2026-11-22T18:53:18Z", 1_795_373_598_000_000_000),
        ("2026-11-22T20:53:18.5+02:00", 1_795_373_598_500_000_000),
        ("yesterday", None),
        (7, None),
    ],
)
def test_times_are_exact(text: Any, time_ns: int | None) -> None:
    event = read_event({"decision_id": "1", "timestamp": text})
    assert event is not None
    assert event.time_ns == time_ns


@pytest.mark.parametrize(
    ("rule", "missing"),
    [
        ("allow if time.now_ns() > 0", "the time of the decision, which time.now_ns needs"),
        (
            'allow if io.jwt.decode_verify("a.b.c", {"secret": "s"})',
            "the time of the decision, which io.jwt.decode_verify needs",
        ),
        ('allow if time.parse_rfc3339_ns("2026-11-23T00:00:00Z") > 0', ""),
    ],
)
def test_the_clock_without_a_timestamp_is_not_replayable(
    tmp_path: Path, rule: str, missing: str
) -> None:
    (tmp_path / "policy.rego").write_text(f"package app\n\n{rule}\n")
    version = Version.load(Sources((str(tmp_path),)))
    for text, expected in (("yesterday", missing), ("2026-11-22T18:53:18Z", "")):
        event = read_event({"decision_id": "1", "path": "app/allow", "timestamp": text})
        assert event is not None
        assert version.answer(event).missing == expected


def test_what_is_not_json_is_not_an_event() -> None:
    assert list(events_of(b"{\n\n[1\n")) == [None, None]
    assert list(events_of(b" [1,")) == [None]


def test_a_long_answer_is_not_shown_as_undefined(
    log: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = NEW.replace("default allow := false", f'default allow := "{"x" * EXAMPLE_BYTES}"')
    (policies / "new/policy.rego").write_text(new)
    arguments = ["--log", log, "--policy", policies / "new"]
    examples = [one for each in report(capsys, *arguments)["examples"] for one in each["decisions"]]
    size = {"characters": EXAMPLE_BYTES + 2}
    assert size in [each["is"] for each in examples]
    assert run(["replay", *map(str, arguments)]) == 0
    assert "is a value of 65,538 characters" in capsys.readouterr().out
    page = policies / "page.html"
    assert run(["replay", *map(str, arguments), "--format", "html", "--output", str(page)]) == 0
    assert "a value of 65,538 characters" in page.read_text(encoding="utf-8")
