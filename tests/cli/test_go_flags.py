"""Every flag of OPA's commands, in every form in which pflag reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import pytest
from tests.corpora import GOLDEN

from doorward.cli.go_flags import rewrite_subcommand
from doorward.cli.main import cli, run

COMMANDS = json.loads((GOLDEN / "flags.json").read_text())


def flags() -> Iterator[Any]:
    """The recorded flags, one row each; the help's examples of a flag come as more rows of it."""
    for command, rows in COMMANDS.items():
        for name, group in groupby(rows, key=lambda row: row["flag"]):
            *_, row = group
            if (command, name) == ("build", "set"):
                continue  # an example in the help of another command's flag
            yield pytest.param(command, row, id=f"{command}-{name}")


def rewrite(command_name: str, *words: str) -> list[str]:
    root = click.Context(cli, info_name="doorward", help_option_names=["-h", "--help"])
    command = cli.get_command(root, command_name)
    assert command is not None
    written = rewrite_subcommand(command_name, command, root, words)
    # What click's parser then reads is the same as what was written.
    context = click.Context(command, info_name=command_name, parent=root)
    command.make_parser(context).parse_args(list(written))
    return written


@pytest.mark.parametrize(("command", "row"), list(flags()))
def test_a_flag_of_opa_is_read_in_every_form(command: str, row: dict[str, Any]) -> None:
    long, short = f"--{row['flag']}", f"-{row['short']}"
    # `--set key=value` is the one flag whose recorded type is an example or missing.
    if row["type"] is None and row["flag"] != "set":
        forms = [[long], [f"{long}=true"], [f"{long}=1"], [f"{long}=false", long]]
        if row["short"]:
            forms += [[short], [f"{short}=true"], [f"{short}=T"], [f"{short}=0", short]]
        expected = rewrite(command, long)
        assert expected[0].startswith("--")
        assert rewrite(command, long, f"{long}=false") != expected
    else:
        forms = [[long, "5"], [f"{long}=5"]]
        if row["short"]:
            forms += [[short, "5"], [f"{short}5"], [f"{short}=5"]]
        expected = rewrite(command, long, "5")
        assert expected[0].endswith("=5")
    for form in forms:
        assert rewrite(command, *form) == expected, form
        assert rewrite(command, "operand", *form) == [*expected, "--", "operand"], form


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["-Sf", "json", "1"], ["--format=json", "--strict", "--", "1"]),
        (["-Sf=json", "1"], ["--format=json", "--strict", "--", "1"]),
        (["-SIfjson"], ["--format=json", "--strict", "--stdin-input"]),
        (["-f", "-"], ["--format=-"]),
        (["-f="], ["--format=="]),
        (["--format="], ["--format="]),
        (["--format", "--strict"], ["--format=--strict"]),
        (["1", "--", "--strict"], ["--", "1", "--strict"]),
        (["-"], ["--", "-"]),
        (["-S=true", "-S=f", "--fail"], ["--fail"]),
    ],
)
def test_words_are_read_as_pflag_reads_them(words: list[str], written: list[str]) -> None:
    assert rewrite("eval", *words) == written


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["test", "-q", "t1"], "unknown shorthand flag: 'q' in -q"),
        (["test", "-vq=1", "t1"], "unknown shorthand flag: 'q' in -vq=1"),
        (["test", "--quick=1", "t1"], "unknown flag: --quick"),
        (["test", "-r"], "flag needs an argument: 'r' in -r"),
        (["build", "--output"], "flag needs an argument: --output"),
        (
            ["eval", "--strict=maybe", "1"],
            'invalid argument "maybe" for "-S, --strict" flag: '
            'strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (["docker", "doctor", "-Q"], "unknown shorthand flag: 'Q' in -Q"),
    ],
)
def test_an_unknown_flag_is_an_error_and_never_an_operand(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 1
    assert capsys.readouterr().err.startswith(f"Error: {message}\n")


def test_a_value_behind_an_equals_sign_reaches_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t1").mkdir()
    Path("t1/a_test.rego").write_text("package a\ntest_bob if true\ntest_eve if false\n")
    assert run(["test", "-r=bob", "t1"]) == 0
    assert "PASS: 1/1" in capsys.readouterr().out
    assert run(["build", "-o=x.tgz", "-b", "t1"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t1", "x.tgz"]


def test_flags_of_a_group_and_of_its_subcommand_are_read_apart() -> None:
    root = click.Context(cli, info_name="doorward", help_option_names=["-h", "--help"])
    command = cli.get_command(root, "kit")
    assert command is not None
    words = ["--force=false", "check", "-h"]
    assert rewrite_subcommand("kit", command, root, words) == ["check", "--help"]
