"""Files of recorded requests, also such as nobody wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.cli.main import run
from doorward.docker.decider.answer import Answer
from doorward.docker.replay import ReplayError, read_requests, replay
from doorward.rego import Value


@pytest.mark.parametrize(
    "lines",
    [[], [{"decision_id": "1", "decision": "allow", "uri": "/info"}]],
    ids=["empty", "without-input"],
)
def test_a_replay_of_no_request_is_an_error(
    lines: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.log"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert run(["docker", "replay", str(path)]) == 1
    printed = capsys.readouterr()
    assert "the files contain no requests" in printed.err
    assert printed.out == ""


class Allowing:
    """Allows everything, and keeps the inputs."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    def decide(self, input: Value) -> Answer:
        self.inputs.append(input)
        return Answer(True)

    def close(self) -> None: ...


SENT = {"RequestMethod": "GET", "RequestUri": "/v1.41/info", "x": 1.5}


@pytest.mark.parametrize(
    "document",
    [
        {"plugin_calls": 1},
        {"plugin_calls": {}},
        {"plugin_calls": [1]},
        {"plugin_calls": [{"phase": "AuthZReq"}]},
        {"plugin_calls": [{"phase": "AuthZReq", "sent": []}]},
        {"input": 1},
        {"input": None},
        {"input": []},
    ],
)
def test_malformed_documents_are_errors(document: object, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(json.dumps(document))
    with pytest.raises(ReplayError, match="is not an"):
        list(replay([path], Allowing()))


def test_captured_calls_are_read(tmp_path: Path) -> None:
    calls = [{"phase": "AuthZRes"}, {"phase": "AuthZReq", "sent": SENT}]
    path = tmp_path / "capture"
    path.write_text(json.dumps({"plugin_calls": calls}))
    [past] = read_requests([path])
    assert past.location == f"{path}#1"
    assert json.loads(past.raw or b"") == SENT


@pytest.mark.parametrize(
    "input_doc",
    [
        {},
        {"Method": 1, "Path": "/info"},
        {"Method": "GET", "Path": None},
        {"Method": "GET", "Path": "/info", "Headers": [1]},
        {"Method": "GET", "Path": "/info", "Headers": {"a": 1}},
    ],
)
def test_logged_request_that_cannot_be_read_is_denied(input_doc: object, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(json.dumps({"input": input_doc, "decision": "allow"}))
    [replayed] = replay([path], Allowing())
    assert (replayed.verdict.allow, replayed.changed) == (False, True)


def test_request_of_an_earlier_log_is_read_again(tmp_path: Path) -> None:
    before = {
        **{"Method": "POST", "Path": "/v1.41/containers/create?name=c", "User": "alice"},
        **{"AuthMethod": "TLS", "Headers": {"Content-Type": "application/json"}},
        "Body": {"Image": "a"},
    }
    path = tmp_path / "log"
    path.write_text(json.dumps({"input": before, "decision": "allow"}))
    decider = Allowing()
    [replayed] = replay([path], decider)
    assert replayed.verdict.allow
    [input_doc] = decider.inputs
    assert (input_doc["action"], input_doc["User"]) == ("container.create", "alice")
    assert input_doc["Body"]["Image"] == "a"


def test_line_separators_in_texts_do_not_end_a_line(tmp_path: Path) -> None:
    line = json.dumps({**SENT, "User": "a\u2028b\x85"}, ensure_ascii=False)
    path = tmp_path / "log"
    path.write_text(f"{line}\r\n\n{line}\n", encoding="utf-8", newline="")
    assert [past.location for past in read_requests([path])] == [f"{path}:1", f"{path}:3"]
