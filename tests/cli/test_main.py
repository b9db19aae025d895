"""The command line finds its commands, and says what was wrong in two lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from tests.waiting import PATIENCE

from doorward.cli.main import cli, run


def test_without_arguments_it_shows_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    out = capsys.readouterr().out
    assert "doorward eval -d policy.rego" in out
    assert "Start a server or an interactive shell." in out


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.list_commands(click.Context(cli)):
        assert run([name, "--help"]) == 0
        assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "Error: unknown command 'nope'\nUsage:\n"),
        (["token", "--nope"], "Error: unknown flag: --nope"),
        (["envoy", "bootstrap", "--timeout", "soon"], 'Error: invalid value for "--timeout": '),
        (
            ["run", "--workers", "x"],
            "Error: invalid value for \"--workers\": 'x' is not an integer\nUsage:\n",
        ),
        (["learn"], "Error: LOG is required\nUsage:\n"),
        (["version", "x"], "Error: unexpected argument: x\nUsage:\n"),
        (["version", "x", "y"], "Error: unexpected argument: x y\nUsage:\n"),
        (["replay"], "Error: --log is required\nUsage:\n"),
    ],
)
def test_a_wrong_call_ends_with_1_and_says_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [(["tset"], "test"), (["input", "evnoy"], "envoy"), (["eval", "--formt=raw", "1"], "--format")],
)
def test_what_is_mistyped_gets_a_hint(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1
    assert f"hint: did you mean {hint}?\n" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--config-file", "--config-file=c.yaml", "--file"])
def test_a_flag_in_place_of_an_argument_gets_a_hint(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "check", flag, "c.yaml"]) == 1
    printed = capsys.readouterr().err
    assert "hint: FILE is an argument without a flag\n" in printed
    assert "did you mean" not in printed
    assert run(["config", "check", "--set-fil=a=b"]) == 1
    assert "hint: did you mean --set-file?\n" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert run(["--version"]) == 0
    out = capsys.readouterr().out
    assert "Version: " in out
    assert "doorward " in out


def test_a_bootstrap_is_printed_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["envoy", "bootstrap", "--pdp", "unix:///run/a.sock"]) == 0
    out = capsys.readouterr().out
    assert "static_resources:" in out
    assert "/run/a.sock" in out


def ended(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """How a process ends that runs `code`, in which `main` is the module, and then the command."""
    code = f"import atexit, sys, threading\nfrom doorward.cli import main\n{code}\nmain.main()\n"
    unlike_a_user = ("COVERAGE", "PYTHONUNBUFFERED")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(unlike_a_user)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        timeout=PATIENCE,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


@pytest.mark.parametrize("thread", ["", "threading.Thread(target=wait, daemon=True).start()"])
def test_exit_handlers_of_python_run_and_those_of_libraries_do_not(thread: str) -> None:
    # A handler of C that ends the process with SIGABRT, and one of Python, which has to run.
    code = f"""
import ctypes
libc = ctypes.CDLL(None)
libc.__cxa_atexit(libc.abort, None, None)
atexit.register(print, "left")
main.run = lambda arguments: 7
wait = threading.Event().wait
{thread}
"""
    done = ended(code)
    assert (done.returncode, done.stdout) == (7, b"left\n")


def test_threads_that_work_are_waited_for() -> None:
    code = """
def work():
    threading.main_thread().join()
    print("worked", flush=True)
main.run = lambda arguments: threading.Thread(target=work).start() or 3
"""
    done = ended(code)
    assert (done.returncode, done.stdout) == (3, b"worked\n")


BY_CALLS = "sys.setprofile(lambda *event: None)"
BY_EVENTS = "sys.monitoring = SimpleNamespace(get_tool=[None, None, 'cProfile', *[None] * 3].pop)"
"""How a profiler is seen since Python 3.12."""


@pytest.mark.parametrize("begin", [BY_CALLS, BY_EVENTS])
def test_a_profiler_around_the_command_reports(begin: str) -> None:
    code = f"""
from types import SimpleNamespace
def profiled(end=main.main):
    {begin}
    try:
        end()
    finally:
        sys.setprofile(None)
        print("reported")
main.run = lambda arguments: 3
main.main = profiled
"""
    done = ended(code)
    assert (done.returncode, done.stdout) == (3, b"reported\n")


def test_what_a_module_of_a_user_has_in_a_buffer_is_written(tmp_path: Path) -> None:
    path = tmp_path / "calls.log"
    (tmp_path / "mine.py").write_text(f"""
from doorward.rego import Registry
builtins = Registry()
class Proxy:
    @property
    def __class__(self):
        raise LookupError("as that of Django's storage without settings")
proxy = Proxy()
log = open({str(path)!r}, "w")
log.write("imported")
""")
    done = ended("", "eval", "--builtins", f"{tmp_path}/mine.py:builtins", "1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert path.read_text() == "imported"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_output_that_cannot_be_written_at_the_end_is_reported() -> None:
    code = 'main.run = lambda arguments: print("lost") or 0'
    with open("/dev/full", "wb") as full:
        done = ended(code, stdout=full)
    assert done.returncode == 120
    assert b"No space left on device" in done.stderr


def test_a_command_ends_without_standard_output() -> None:
    done = ended("sys.stdout = None; main.run = lambda arguments: 3")
    assert (done.returncode, done.stderr) == (3, b"")


@pytest.mark.parametrize("command", ["diff", "replay"])
def test_an_output_file_that_cannot_be_written_is_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, log = tmp_path / "p.rego", tmp_path / "log"
    policy.write_text("package p\n\nallow if input.x\n")
    log.write_text('{"decision_id": "1", "path": "p/allow", "input": {"x": 1}, "result": true}\n')
    given = {
        "diff": [str(policy), str(policy), "--time", "100ms"],
        "replay": ["--log", str(log), "--policy", str(policy)],
    }
    missing = str(tmp_path / "missing" / "report")
    assert run([command, *given[command], "-o", missing]) == 1
    assert capsys.readouterr().err == f"Error: {missing}: no such file or directory\n"


def test_an_error_of_the_system_without_a_file_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors: list[Exception] = [OSError(28, "No space left on device"), OSError("odd"), OSError()]
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        errors.append(error)
    for each in errors:
        monkeypatch.setattr(cli, "main", lambda *_, each=each, **__: raise_(each))
        assert run(["version"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["Error: no space left on device", "Error: odd", "Error: OSError"]
    assert "can't decode byte 0xff" in lines[3]


def raise_(error: Exception) -> None:
    raise error
