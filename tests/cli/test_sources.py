"""Where commands take policies, data and schemas from: folders, bundles, archives, files."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bundles.archives import write_archive
from tests.waiting import PATIENCE

from doorward.cli.main import run

FILES = {
    "/.manifest": '{"revision": "r1", "roots": ["app", "cfg"]}',
    "/app/p.rego": "package app\n\nallow if data.cfg.on\n",
    "/app/p_test.rego": "package app.tests\n\ntest_allow if data.app.allow\n",
    "/cfg/data.json": '{"on": true}',
}


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_archive(tmp_path / "b.tar.gz", FILES)
    return tmp_path / "b.tar.gz"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "-b", "b.tar.gz", "-f", "raw", "data.app.allow"], "true"),
        (["deps", "-b", "b.tar.gz", "data.app.allow"], "data.cfg.on"),
        (["test", "-b", "-v", "b.tar.gz"], "data.app.tests.test_allow: PASS"),
        (["check", "-b", "b.tar.gz"], ""),
    ],
)
def test_commands_read_an_archive(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert said in out
    assert err == ""


def test_a_shell_reads_bundles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["run", "-b", "b.tar.gz"]) == 0
    assert run(["run", "-b", "none.tar.gz"]) == 1
    assert 'error reading "none.tar.gz"' in capsys.readouterr().err


def test_signatures_that_nobody_verified_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_archive(tmp_path / "s.tar.gz", {**FILES, ".signatures.json": '{"signatures": ["x"]}'})
    assert run(["eval", "-b", "s.tar.gz", "-f", "raw", "data.app.allow"]) == 0
    out, err = capsys.readouterr()
    assert out == "true\n"
    assert err == "warning: bundle s.tar.gz: signed, but its signatures are not verified\n"


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ([], 1, "verification key not provided"),
        (
            ["--verification-key", "secret", "--signing-alg", "HS256"],
            1,
            "failed to base64 decode JWT header",
        ),
        (
            ["--verification-key", "b.tar.gz"],
            1,
            "--verification-key: b.tar.gz: the file is neither a public key in PEM nor a "
            "secret in UTF-8",
        ),
        (["--verification-key", "/proc/self/mem"], 1, "/proc/self/mem: input/output error"),
        (
            ["--verification-key", "long.pem"],
            1,
            "--verification-key: long.pem: the file is longer than 1048576 characters",
        ),
        (
            ["--skip-verify"],
            0,
            "warning: bundle s.tar.gz: signed, but its signatures are not verified",
        ),
    ],
)
def test_what_decides_takes_no_bundle_that_it_cannot_verify(
    flags: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    (tmp_path / "long.pem").write_text("a" * ((1 << 20) + 1))
    write_archive(tmp_path / "s.tar.gz", {**FILES, ".signatures.json": '{"signatures": ["a.b.c"]}'})
    assert run(["run", "-b", *flags, "s.tar.gz"]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["eval", "-d", "conf", "data.a"], 2),
        (["test", "conf"], 1),
        (["check", "-b", "conf"], 1),
        (["check", "conf"], 0),
        (["run", "conf"], 1),
    ],
)
def test_data_in_the_place_of_a_rule_is_refused_where_opa_refuses_it(
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/p.rego").write_text("package a.b\n\nc := 1\n")
    (tmp_path / "conf/data.json").write_text('{"a": {"b": {"c": 2}}}')
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert ("conflicting rule for data path a/b/c found" in out + err) is bool(code)


# Schemas


@pytest.mark.parametrize("command", ["eval", "check", "test"])
def test_a_schema_finds_what_no_input_can_have(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schema.json").write_text('{"properties": {"user": {"type": "string"}}}')
    (tmp_path / "p.rego").write_text("package p\n\nallow if input.usr\n")
    arguments = {"eval": ["-d", "p.rego", "data.p.allow"]}.get(command, ["p.rego"])
    assert run([command, *arguments]) == 0
    assert run([command, "-s", "schema.json", *arguments]) == (2 if command == "eval" else 1)
    out, err = capsys.readouterr()
    assert "undefined ref: input.usr" in out + err


def test_schemas_in_a_folder_have_the_names_that_lead_to_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schemas/sub").mkdir(parents=True)
    (tmp_path / "schemas/sub/user.yaml").write_text("properties: {name: {type: string}}\n")
    text = "package p\n\n# METADATA\n# schemas:\n# - input: schema.sub.user\nx if input.nme\n"
    (tmp_path / "p.rego").write_text(text)
    assert run(["check", "-s", "schemas", "p.rego"]) == 1
    assert "undefined ref: input.nme" in capsys.readouterr().err
    assert run(["check", "-s", "none", "p.rego"]) == 1
    assert "stat none: no such file or directory" in capsys.readouterr().err


# Metrics


def test_metrics_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nallow if input.x == 1\n")
    (tmp_path / "d.json").write_text("{}")
    assert run(["eval", "--metrics", "-d", "p.rego", "-d", "d.json", "data.p.allow"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    idle = {name for name, spent in metrics.items() if spent <= 0}
    assert idle == {"timer_rego_external_resolve_ns"}
    assert run(["eval", "--metrics", "-f", "pretty", "-d", "p.rego", "data.p.allow"]) == 0
    assert "| timer_rego_query_eval_ns" in capsys.readouterr().out


def test_instrumenting_measures_as_metrics_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "--instrument", "1 + 1"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["timer_rego_query_eval_ns"] > 0


def test_metrics_of_several_evaluations_are_statistics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["eval", "--metrics", "--count", "4", "1 + 1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "metrics" not in document
    spent = document["aggregated_metrics"]["timer_rego_query_eval_ns"]
    assert spent["count"] == 4
    assert 0 < spent["min"] <= spent["median"] <= spent["99%"] <= spent["max"]
    assert run(["eval", "--metrics", "--count", "2", "-f", "pretty", "1 + 1"]) == 0
    assert "| timer_rego_query_eval_ns" in capsys.readouterr().out
    assert run(["eval", "--profile", "--count", "2", "1 + 1"]) == 1


# Flags that exclude each other, or that there is one value for


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--verification-key", "k", "p.rego"], 1, "--verification-key needs --bundle"),
        (["eval", "--stdin", "-I"], 1, "specify --stdin or --stdin-input but not both"),
        (["eval", "-I", "-i", "x", "1"], 1, "specify --stdin-input or --input but not both"),
        (["eval", "-t", "wasm", "1"], 1, '"-t, --target" flag: must be one of {rego}'),
        (["eval", "-t", "rego", "--disable-indexing", "1"], 0, ""),
        (["eval", "--request", "envoy", "1"], 1, "--request needs --input or --stdin-input"),
        (["eval", "--request", "docker", "1"], 1, "--request docker needs --input"),
        (["test", "--bench", "-c", "."], 1, "coverage reporting is not supported when"),
        (["test", "--fail-on-empty", "-r", "nothing", "-b", "b.tar.gz"], 1, "no tests were run"),
        (["test", "-r", "nothing", "-b", "b.tar.gz"], 0, ""),
    ],
)
def test_what_cannot_be_asked_is_said(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    assert said in capsys.readouterr().err


# Seeing what is generated, and what changes


def test_the_generated_python_of_a_query_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.rego").write_text("package p\n\nallow if input.x == 1\n")
    assert run(["emit", "-q", "data.p.allow", "p.rego"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# data.p.allow\n# Generated from Rego, for reading only.\n")
    assert "\ndef query.value(" in shown
    assert run(["emit", "-q", "1 +"]) == 1
    assert run(["emit"]) == 1


def test_tests_are_run_again_when_a_file_changes(tmp_path: Path) -> None:
    policy = tmp_path / "p_test.rego"
    policy.write_text("package p\n\ntest_it if 1 == 2\n")
    command = [sys.executable, "-m", "doorward", "test", "--watch", str(policy)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert _says(process, "FAIL: 1/1")
            assert _says(process, "Watching for changes ...")
            _replace(policy, "package p\n\ntest_it if 1 == 1\n")
            assert _says(process, "PASS: 1/1")
            assert _says(process, "Watching for changes ...")
            _replace(policy, "package p\n\ntest_it if {\n")
            assert _says(process, "Watching for changes ...")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def _says(process: subprocess.Popen[str], wanted: str) -> bool:
    """Read up to the line `wanted`; False if the process ends without it."""
    assert process.stdout is not None
    return any(line.strip() == wanted for line in iter(process.stdout.readline, ""))


def _replace(path: Path, text: str) -> None:
    """A new file in place of the old one at once: nobody reads half of it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


@pytest.mark.parametrize(
    "arguments",
    [["check", "old.tar.gz"], ["emit", "old.tar.gz"], ["eval", "-d", "old.tar.gz", "data.v.p"]],
)
def test_an_archive_says_which_version_its_policies_are(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"/.manifest": '{"rego_version": 0}', "/p.rego": "package v\n\np { true }\n"}
    write_archive(tmp_path / "old.tar.gz", files)
    assert run(arguments) == 0
    assert capsys.readouterr().err == ""


def test_all_errors_of_a_folder_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"a.json": "{", "b.rego": "package b\n\np if {", "sub/data.json": "[", "z.rego": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert run(["eval", "-d", ".", "data"]) == 2
    errors = json.loads(capsys.readouterr().out)["errors"]
    places = [each.get("location", {}).get("file", each["message"]) for each in errors]
    assert places == ["a.json: unexpected EOF", "b.rego", "sub/data.json: unexpected EOF", "z.rego"]
    for command, head in {
        ("eval", "-f", "pretty", "-d", ".", "data"): "4 errors occurred:",
        ("test", "."): "4 errors occurred during loading:",
        ("deps", "-d", ".", "data.b"): "4 errors occurred during loading:",
        ("build", "."): "error: load error: 4 errors occurred during loading:",
        ("run", "-s", "."): "error: load error: 4 errors occurred during loading:",
    }.items():
        assert run(list(command)) != 0
        out, err = capsys.readouterr()
        assert head in out + err
        assert " 3 | p if {" in out + err
    # A bundle's data comes before its policies, and is read where it counts only.
    assert run(["eval", "-b", ".", "data"]) == 2
    assert "bundle load failed on sub/data.json" in capsys.readouterr().out
    assert run(["inspect", "."]) == 1
    assert "b.rego:3: rego_parse_error" in capsys.readouterr().err


WRONG_METADATA = {
    "yaml": ({"a.rego": "# METADATA\n# title: [\npackage a\n\np := 1\n"}, "yaml: line 1: did not"),
    "scope": (
        {"a.rego": "# METADATA\n# scope: document\npackage a\n\np := 1\n"},
        "annotation scope 'document' must be applied to rule",
    ),
    "twice": (
        {
            "x/a.rego": "# METADATA\n# title: x\npackage a\n\np := 1\n",
            "x-y/a.rego": "# METADATA\n# title: y\npackage a\n\nq := 1\n",
        },
        "package annotation redeclared: x-y/a.rego:1",
    ),
}


@pytest.mark.parametrize("case", WRONG_METADATA)
@pytest.mark.parametrize(
    "command", [["eval", "-d", ".", "data.a.p"], ["test", "."], ["build", "."], ["check", "."]]
)
def test_wrong_metadata_is_reported_though_no_policy_reads_it(
    case: str,
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    files, message = WRONG_METADATA[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert run(command) != 0
    out, err = capsys.readouterr()
    assert message in out + err
