"""`--capabilities FILE`, and the file that `doorward capabilities` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.cli.main import run


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["capabilities", "--current"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture
def narrow(printed: dict[str, Any], tmp_path: Path) -> str:
    """A file without `count`."""
    printed["builtins"] = [b for b in printed["builtins"] if b["name"] != "count"]
    path = tmp_path / "capabilities.json"
    path.write_text(json.dumps(printed))
    return str(path)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.rego"
    path.write_text("package a\n\np := count([1])\n\ntest_p if p == 1\n")
    return str(path)


def test_the_shape_is_opas(printed: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert list(printed) == ["builtins", "future_keywords", "wasm_abi_versions", "features"]
    assert printed["future_keywords"] == ["and", "not", "or"]
    assert printed["features"] == ["keywords_in_refs", "rego_v1", "template_strings"]
    assert printed["wasm_abi_versions"][0] == {"version": 1, "minor_version": 1}
    assert run(["capabilities", "--v0-compatible"]) == 0
    old = json.loads(capsys.readouterr().out)
    assert "every" in old["future_keywords"]
    assert "rego_v1_import" in old["features"]


@pytest.mark.parametrize(
    ("command", "code"), [(["eval", "data.a.p", "-d"], 2), (["check"], 1), (["test"], 1)]
)
def test_a_command_allows_only_what_the_file_names(
    command: list[str], code: int, narrow: str, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, policy]) == 0
    capsys.readouterr()
    assert run([command[0], "--capabilities", narrow, *command[1:], policy]) == code
    said = capsys.readouterr()
    assert "undefined function count" in said.out + said.err


def test_the_server_does_not_start_on_what_the_file_forbids(
    narrow: str, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--server", "--addr", "127.0.0.1:0", "--capabilities", narrow, policy]
    assert run(arguments) == 1
    assert "undefined function count" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "--capabilities", str(tmp_path / "none.json"), "1"]) != 0
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("[]")
    assert run(["eval", "--capabilities", str(tmp_path / "bad.json"), "1"]) != 0
    assert "must be an object" in capsys.readouterr().err
