"""`--capabilities FILE`, and the file that `doorward capabilities` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doorward.cli import capabilities, opa_versions
from doorward.cli.main import run
from doorward.rego import REGISTRY


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
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert run(["eval", "--capabilities", str(tmp_path / "deep.json"), "1"]) != 0
    assert "nested too deeply" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("version", "has", "lacks", "features"),
    [
        ("v0.17.0", "http.send", "graphql.parse", None),
        ("v0.46.0", "graphql.parse", "crypto.hmac.equal", ["rule_head_ref_string_prefixes"]),
        ("v1.0.0", "rego.parse_module", "io.jwt.verify_eddsa", ["rego_v1"]),
        ("v1.14.1", "io.jwt.verify_eddsa", "strings.split_n", None),
    ],
)
def test_the_capabilities_of_a_version_of_opa(
    version: str, has: str, lacks: str, features: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["capabilities", "--version", version]) == 0
    document = json.loads(capsys.readouterr().out)
    names = {each["name"] for each in document["builtins"]}
    assert has in names
    assert lacks not in names
    if features is not None:
        assert document["features"] == features


def test_versions_are_listed_and_others_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capabilities", "--versions"]) == 0
    listed = capsys.readouterr().out.split()
    assert listed[0] == "v0.17.0"
    assert "v1.9.0" in listed
    assert run(["capabilities", "--version", "v99.0.0"]) == 1
    assert "no capabilities version found v99.0.0" in capsys.readouterr().err


def test_every_name_of_a_version_is_a_built_in() -> None:
    named = {name for names in opa_versions._BUILTINS.values() for name in names.split()}
    assert {name for name in named if name not in REGISTRY} == set()
    assert set(opa_versions._BUILTINS) <= set(opa_versions.VERSIONS)


def test_a_file_of_capabilities_is_shown(narrow: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capabilities", "--file", narrow]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path(narrow).read_text())
    assert run(["capabilities", "--file", "nowhere.json"]) == 1
    assert "nowhere.json: no such file" in capsys.readouterr().err


def test_a_version_stands_in_place_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text('package p\n\nx := crypto.hmac.equal("a", "a")\n')
    assert run(["check", "--capabilities", "v1.0.0", str(path)]) == 0
    path.write_text("package p\n\np { crypto.hmac.equal(input.a, input.b) }\n")
    call = ["check", "--v0-compatible", str(path), "--capabilities"]
    assert run([*call, "v0.59.0"]) == 0
    assert run([*call, "v0.50.0"]) == 1
    assert "undefined function crypto.hmac.equal" in capsys.readouterr().err


def test_fmt_refuses_what_the_capabilities_do_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.rego"
    path.write_text('package p\n\nx := $"{input.a}"\n')
    assert run(["fmt", "--capabilities", "v1.14.0", str(path)]) == 0
    assert run(["fmt", "--capabilities", "v1.6.0", str(path)]) == 2
    assert "template" in capsys.readouterr().err


def test_a_file_that_is_too_large_is_not_read_in_part(
    narrow: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(capabilities, "MAX_FILE", 100)
    assert run(["capabilities", "--file", narrow]) == 1
    said = f"Error: {narrow}: the capabilities file is larger than 100 bytes\n"
    assert capsys.readouterr().err == said
