"""Decisions of the past are looked for in the log: bounded, read only, by no SQL of a reader."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from doorward.bundles.loader import Loaded
from doorward.config.configuration import DecisionLogs
from doorward.config.upload_options import FileOptions, UploadOptions
from doorward.console import log_files, log_query, views
from doorward.console.log_query import LogQueryError, Question, Search
from doorward.console.ring import Ring
from doorward.decision_log.log import event_of
from doorward.pdp.decision import Answered
from doorward.pdp.pdp import PDP
from doorward.pdp.snapshot import build

POLICY = """package app

default allow := false

allow if input.user == "ann"

answers := {
	"yes": true, "no": false, "text": "allowed", "number": 1, "null": null, "array": [true],
	"allowed": {"allowed": true}, "denied": {"allowed": false}, "nearly": {"allowed": "true"},
	"allow": {"allow": true, "x": 1}, "decision": {"decision": true, "allow": false}, "object": {},
	"odd": {"decision": null},
}

answer := answers[input.which]

broken := "a" if input.which
broken := "b" if input.which
"""


def event(number: int, **more: Any) -> dict[str, Any]:
    return {
        "decision_id": f"id-{number}",
        "timestamp": f"2026-11-23T10:{number // 60:02d}:{number % 60:02d}.5Z",
        "path": "app/allow",
        "input": {"method": "GET", "path": f"/people/{number}?token=x", "user": "ann"},
        "result": number % 2 == 0,
        "bundles": {"main": {"revision": "r1"}},
        "metrics": {"timer_rego_query_eval_ns": 1500},
        **more,
    }


def lines(*events: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in events)


def search(*files: Path, **fields: str) -> list[dict[str, Any]]:
    """The decisions that a question means."""
    answer = Search(lambda: [str(each) for each in files]).newest(Question.read(fields))
    decisions: list[dict[str, Any]] = answer["decisions"]
    return decisions


def ids(*files: Path, **fields: str) -> list[str]:
    return [each["id"] for each in search(*files, **fields)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_text(lines(*[event(number) for number in range(6)]))
    return file


def test_the_newest_come_first_with_what_a_list_shows(log: Path) -> None:
    newest, *others = search(log)
    assert [each["id"] for each in others] == ["id-4", "id-3", "id-2", "id-1", "id-0"]
    assert newest == {
        "number": 1,
        "id": "id-5",
        "time_ms": 1795428005500,
        "path": "app/allow",
        "verdict": "deny",
        "moment": "2026-11-23T10:00:05.5Z",
        "request": "GET /people/5",
        "user": "ann",
        "role": "",
        "reason": "",
        "revision": "r1",
        "eval_us": 1.5,
    }


def test_questions_choose(log: Path) -> None:
    with log.open("a") as file:
        file.write(lines(event(7, path="app/other"), event(8, path=None, query="data.app.Q")))
    assert ids(log, path="OTHER") == ["id-7"]
    assert ids(log, path="data.app.q") == ["id-8"]
    assert ids(log, verdict="allow", until="2026-11-23T10:00:04") == ["id-2", "id-0"]
    assert ids(log, since="2026-11-23T10:00:05", verdict="deny") == ["id-7", "id-5"]
    assert ids(log, text="/PEOPLE/3?") == ["id-3"]
    assert ids(log, text="id-4") == ["id-4"]
    assert ids(log, text="%") == ids(log, text="_eople") == []
    assert len(ids(log, text=" ".join(["peopl"] * 30))) == 8


def test_each_word_of_a_search_is_anywhere_in_the_event(log: Path) -> None:
    note = {"user": "bob (Ym9i)", "role": "admin", "reason": "allow: x", "revision": "r9"}
    with log.open("a") as file:
        file.write(lines(event(7, custom={"console": note}, result=False)))
        file.write(lines(event(8, input={"method": "DELETE", "path": "/people/42"}, result=False)))
    assert ids(log, text="DELETE /people/42") == ids(log, text="/people/42 delete") == ["id-8"]
    assert ids(log, text="bob denied") == ids(log, text="r9") == ["id-7"]
    assert ids(log, text="denied") == ["id-8", "id-7", "id-5", "id-3", "id-1"]
    assert ids(log, text="allowed /people/2") == ["id-2"]
    assert ids(log, text="10:00:03") == ["id-3"]
    assert ids(log, text="bob allowed") == []
    (row,) = search(log, text="bob")
    assert {name: row[name] for name in note} == note
    detail = Search(lambda: [str(log)]).one("id-7")
    assert detail is not None
    assert {name: detail[name] for name in note} == note


@pytest.mark.parametrize("note", [5, [], {"user": 5, "reason": {}}, {"user": "x" * 10**6}])
def test_a_note_of_somebody_else_is_text_or_nothing(note: Any, tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(lines(event(1, custom={"console": note})))
    for row in (*search(file), *search(file, text="ann"), Search(lambda: [str(file)]).one("id-1")):
        assert row is not None
        assert all(len(row[name]) <= 200 for name in ("user", "role", "reason", "revision"))


@pytest.mark.parametrize(
    "text",
    [
        "' OR 1=1 --",
        "'; COPY (SELECT 1) TO '/tmp/x'; --",
        "$1",
        "??",
        "\\",
        '""',
        "\x00",
        "\ud800",
        "%s{0}",
        "read_text('/etc/passwd')",
    ],
)
def test_nothing_of_a_question_is_sql(text: str, log: Path) -> None:
    assert ids(log, text=text) == []
    assert ids(log, path=text) == []
    assert Search(lambda: [str(log)]).one(text) is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"file": "/etc/passwd"}, "unknown query parameter: file"),
        (
            {"verdict": "yes"},
            "the query parameter `verdict` must be one of allow, deny, undefined, error, value",
        ),
        (
            {"since": "now()"},
            "the query parameter `since` must be a time, such as 2026-11-23T10:00",
        ),
        ({"text": "x" * 201}, "text is longer than 200 characters"),
        ({"__slots__": "x"}, "unknown query parameter: __slots__"),
    ],
)
def test_other_questions_are_refused(fields: dict[str, str], said: str) -> None:
    with pytest.raises(LogQueryError, match=said.replace("(", r"\(")):
        Question.read(fields)


def test_what_the_log_says_of_an_answer_is_what_the_list_of_decisions_says(tmp_path: Path) -> None:
    pdp, ring = PDP(build(Loaded({"p.rego": POLICY}))), Ring()
    names: Any = pdp.decide("app/answers", {}).result
    events = []
    questions = [("app/answer", name) for name in [*names, "nothing"]]
    questions += [("app/broken", "x"), ("app/allow", "x")]
    for path, which in questions:
        input: Any = {"which": which}
        answered = Answered(pdp.decide(path, input), input, pdp.snapshot, None, None, 10, 10**18)
        ring.observe(answered)
        events.append(event_of(answered, {}))
    file = tmp_path / "log.jsonl"
    file.write_text(lines(*events))
    expected = {each["id"]: each["verdict"] for each in views.batch(ring, 0)["decisions"]}
    assert {each["id"]: each["verdict"] for each in search(file)} == expected
    assert set(expected.values()) == set(log_query.VERDICTS)


def test_files_are_read_until_there_is_enough(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = log.with_name("log.jsonl.1")
    older.write_text(lines(*[event(number + 100) for number in range(6)]))
    options = DecisionLogs(file=FileOptions(str(log), keep=3))
    assert log_files(options) == [str(log), str(older)]
    assert len(ids(log, older)) == 12
    monkeypatch.setattr(log_query, "MOST", 6)
    answer = Search(lambda: log_files(options)).newest(Question())
    assert (len(answer["decisions"]), answer["more"], answer["unread"]) == (6, True, 1)


def test_what_waits_in_a_spool_is_read(tmp_path: Path) -> None:
    for part in ("0", "1"):
        (tmp_path / part).mkdir()
    (tmp_path / "0/journal.jsonl").write_text(lines(event(9)) + '{"decision_id": "half')
    for name, number in (("0/00000000000000000001-000001-2", 1), ("1/00000000000000000002-1-2", 3)):
        content = json.dumps([event(number), event(number + 1)]).encode()
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(content))
    (tmp_path / "0/lock").touch()
    options = DecisionLogs(upload=UploadOptions(service="s", spool=str(tmp_path)))
    files = log_files(options)
    assert [os.path.basename(each)[:20] for each in files] == [
        "journal.jsonl",
        "00000000000000000002",
        "00000000000000000001",
    ]
    # One is sent between the look and the search.
    os.unlink(files[1])
    assert ids(*map(Path, files)) == ["id-9", "id-2", "id-1"]


def test_damaged_lines_are_passed_over(log: Path) -> None:
    with log.open("a") as file:
        file.write('not JSON\n[1]\n7\n\n{"no": "id"}\n{"decision_id": 5}\n')
        file.write(lines(event(20, timestamp=[], path={"a": 1}, bundles=7, metrics="x", input=[])))
        file.write('{"decision_id": "half')
    shown = ids(log)
    assert "id-20" in shown
    assert len(shown) in (7, 8)
    detail = Search(lambda: [str(log)]).one("id-20")
    assert detail is not None
    assert detail["path"] == '{"a": 1}'


def test_one_decision_is_shown_without_credentials(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    rules = [
        {"path": "app.allow", "file": "p.rego", "row": 5, "failed": 6},
        {"path": "app.allow", "file": "p.rego", "row": 3},
    ]
    input = {"user": "ann", "password": "hunter2"}
    custom = {"rules": rules}
    file.write_text(lines(event(1, input=input, custom=custom, masked=["/input/x"], erased=[5])))
    detail = Search(lambda: [str(file)]).one("id-1")
    assert detail is not None
    assert "hunter2" not in json.dumps(detail)
    assert detail["input"]["user"] == "ann"
    assert detail["hidden"] == ["/input/x", "/input/password"]
    assert [each["row"] for each in detail["rules"]] == [3]
    assert [each["row"] for each in detail["failed"]] == [6]
    assert (detail["result"], detail["verdict"], detail["eval_us"]) == (False, "deny", 1.5)
    assert Search(lambda: [str(file)]).one("id-2") is None


def test_a_large_event_is_named_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(lines(event(1, input={"method": "GET", "path": "x" * log_query.SHOWN})))
    (summary,) = search(file)
    assert summary["request"] == ""
    detail = Search(lambda: [str(file)]).one("id-1")
    assert detail == {"error": "the event is longer than 1,048,576 characters"}


def test_a_search_that_is_stopped_says_what_it_did_not_read(log: Path) -> None:
    stopped = Search(lambda: [str(log)] * 3)
    stopped.stop()
    answer = stopped.newest(Question())
    assert (answer["decisions"], answer["unread"]) == ([], 3)
    has_begun = threading.Event()

    class Files(list[str]):
        """Says when the first of them was read."""

        def __iter__(self) -> Iterator[str]:
            for number, each in enumerate(super().__iter__()):
                if number:
                    has_begun.set()
                yield each

    many = Search(lambda: Files([str(log)] * 100_000))

    def stop() -> None:
        assert has_begun.wait(PATIENCE)
        many.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    # Nothing in the file is meant, so that nothing but being stopped ends it.
    answer = many.newest(Question(text="never there"))
    thread.join()
    assert 0 < answer["unread"] < 100_000


def test_it_says_in_one_line_what_is_missing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        LogQueryError, match=r"no decision log is written: set `decision_logs\.file`"
    ):
        Search(lambda: log_files(DecisionLogs())).newest(Question())
    with pytest.raises(LogQueryError, match="the decision log cannot be read: "):
        Search(lambda: os.listdir(log)).newest(Question())
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(LogQueryError, match=r"pip install 'doorward\[duckdb\]'$") as caught:
        Search(lambda: [str(log)]).newest(Question())
    assert "\n" not in str(caught.value)
