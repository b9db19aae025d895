"""`doorward input`: what was captured becomes what the policy is asked with."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pytest
from tests.corpora import DATA

from doorward.cli import input_document
from doorward.cli.main import run

CHECK = {
    "attributes": {
        "request": {
            "http": {
                "method": "POST",
                "path": "/people?x=1",
                "headers": {"content-type": "application/json"},
                "body": '{"firstname": "Ann"}',
            }
        }
    }
}
CALL = {
    "RequestMethod": "POST",
    "RequestUri": "/v1.41/containers/create?name=web",
    "RequestHeaders": {"Content-Type": "application/json"},
    "RequestBody": base64.b64encode(b'{"Image": "nginx", "Env": ["TOKEN=x"]}').decode(),
    "User": "ann",
    "UserAuthNMethod": "TLS",
}


def test_a_check_request_as_json_becomes_the_input_of_the_sidecar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "check.json").write_text(json.dumps(CHECK))
    assert run(["input", "envoy", str(tmp_path / "check.json")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parsed_path"] == ["people"]
    assert document["parsed_query"] == {"x": ["1"]}
    assert document["parsed_body"] == {"firstname": "Ann"}
    assert document["attributes"]["request"]["http"]["method"] == "POST"


def test_both_forms_of_a_captured_request_are_one_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = DATA / "checkrequests"
    shown = []
    for name in ("check-1.json", "check-1.bin"):
        assert run(["input", "envoy", str(folder / name)]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]


def test_what_the_sidecar_would_refuse_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text('{"attributes": {"nonsense": 1}}')
    assert run(["input", "envoy", str(tmp_path / "bad.json")]) == 1
    assert "not a CheckRequest" in capsys.readouterr().err
    (tmp_path / "list.json").write_text("[1]")
    assert run(["input", "envoy", str(tmp_path / "list.json")]) == 1
    assert "not a CheckRequest of Envoy, in JSON or protobuf: " in capsys.readouterr().err


def test_a_call_of_the_daemon_becomes_the_input_of_the_plugin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "call.json").write_text(json.dumps(CALL))
    assert run(["input", "docker", str(tmp_path / "call.json")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["User"] == "ann"
    assert document["Body"]["Image"] == "nginx"


def test_a_recording_of_calls_gives_an_input_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [{"phase": "AuthZReq", "sent": CALL}, {"phase": "AuthZRes", "sent": CALL}] * 2
    (tmp_path / "run.json").write_text(json.dumps({"plugin_calls": calls}))
    assert run(["input", "docker", str(tmp_path / "run.json")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run(["input", "docker", "-n", "2", str(tmp_path / "run.json")]) == 0
    assert json.loads(capsys.readouterr().out)["User"] == "ann"
    assert run(["input", "docker", "-n", "3", str(tmp_path / "run.json")]) == 1


@pytest.mark.parametrize(
    "words", [["docker run -v /:/host alpine"], ["docker", "run", "-v", "/:/host", "alpine"]]
)
def test_a_docker_command_becomes_the_input_of_its_call(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["input", "docker", "-u", "ann", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["User"], document["action"]) == ("ann", "container.create")
    assert [each["source"] for each in document["mounts"]] == ["/"]


def test_words_behind_docker_are_no_options_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["input", "docker", "--mask-env", "docker", "run", "-e", "A=b", "-u", "0", "x"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["User"], document["Body"]["User"]) == ("", "0")
    assert "b" not in str(document["Body"]["Env"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("docker compose up -d", "makes many requests: record them with `--audit-input`"),
        ("docker run", "names no image"),
        ("docker rm ../../images/x", "denies this request without a policy"),
    ],
)
def test_a_docker_command_that_is_not_one_request_is_one_line(
    words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["input", "docker", *words.split()]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


def test_two_files_are_not_a_docker_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["input", "docker", "a.json", "b.json"]) != 0
    assert "a COMMAND that begins with `docker`" in capsys.readouterr().err


def test_eval_says_why_a_captured_request_is_denied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("check.json").write_text(json.dumps(CHECK))
    Path("call.json").write_text(json.dumps(CALL))
    Path("p.rego").write_text(
        'package p\n\nallow if input.parsed_body.firstname == "Bob"\n\n'
        'run if input.Body.Image == "busybox"\n'
    )
    ask = ["eval", "--why", "-d", "p.rego"]
    assert run([*ask, "--request", "envoy", "-i", "check.json", "data.p.allow"]) == 0
    assert 'input.parsed_body.firstname: "Ann"' in capsys.readouterr().out
    assert run([*ask, "--request", "docker", "-i", "call.json", "data.p.run"]) == 0
    assert 'input.Body.Image: "nginx"' in capsys.readouterr().out


def test_a_missing_file_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["input", "docker", "none.json"]) == 1
    assert capsys.readouterr().err == "none.json: no such file or directory\n"


def test_eval_takes_one_request_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [{"phase": "AuthZReq", "sent": CALL}] * 2
    (tmp_path / "run.json").write_text(json.dumps({"plugin_calls": calls}))
    arguments = ["--request", "docker", "-i", str(tmp_path / "run.json"), "input"]
    assert run(["eval", *arguments]) == 2
    assert (
        "the file has 2 requests: take one with `doorward input docker -n`"
        in capsys.readouterr().err
    )
    (tmp_path / "bad.json").write_text('{"attributes": {"nonsense": 1}}')
    assert run(["eval", "--request", "envoy", "-i", str(tmp_path / "bad.json"), "input"]) == 2
    assert "not a CheckRequest" in capsys.readouterr().err


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["input", "envoy", "nowhere.json"]) == 1
    assert capsys.readouterr().err == "Error: open nowhere.json: no such file or directory\n"


def test_half_of_an_input_is_not_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The beginning of a YAML document is one, too."""
    monkeypatch.setattr(input_document, "MAX_INPUT", 8)
    path = tmp_path / "input.yaml"
    path.write_text("a: 1\nb: 2\n")
    for arguments in (["-i", str(path)], ["--stdin-input"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\nb: 2\n")))
        assert run(["eval", *arguments, "input"]) == 2
        assert "larger than 8 bytes" in "".join(capsys.readouterr())
    path.write_text("a: 1\n")
    assert run(["eval", "-i", str(path), "input.a", "-f", "raw"]) == 0
    assert capsys.readouterr().out == "1\n"
