"""Proofs of an earlier run stand exactly as long as nothing that they rest on has changed."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from doorward.cli.main import run
from doorward.rego import Engine
from doorward.search.proofs.known import MAX_BYTES, KnownProofs, digest_of

APP = """package app

import data.lib.roles as known

allow if {
	input.method == "GET"
	known[input.role]
}
"""
LIB = """package lib

roles[name] if some name in data.names

unrelated := 1
"""
PROPERTY = """package properties

never_writes if {
	data.app.allow
	input.method == "PUT"
}

never_broken if input.method == "GET"
"""
FILES = {"app.rego": APP, "lib.rego": LIB, "properties.rego": PROPERTY}
DATA = {"names": ["a"], "other": 1}


def written(folder: Path, files: dict[str, str], data: Any) -> list[str]:
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "data.json").write_text(json.dumps(data))
    return [str(folder / name) for name in (*files, "data.json")]


def proved(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run(["prove", "--time", "0.2s", "--format", "json", *arguments])
    return {
        each["property"].rsplit(".", 1)[1]: each for each in json.loads(capsys.readouterr().out)
    }


def test_what_has_not_changed_is_not_proved_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, known = written(tmp_path, FILES, DATA), str(tmp_path / "known.json")
    first = proved(capsys, "--known", known, *files)
    assert first["never_writes"]["outcome"] == "none exists"
    assert not first["never_writes"]["unchanged"]
    assert first["never_broken"]["outcome"] == "counterexample"
    again = proved(capsys, "--known", known, *reversed(files))
    assert again["never_writes"]["unchanged"]
    assert again["never_writes"]["conjunctions"] == first["never_writes"]["conjunctions"]
    # What is broken is searched again: it is not a proof.
    assert again["never_broken"]["outcome"] == "counterexample"
    run(["prove", "--time", "0.2s", "--known", known, *files])
    assert "by an earlier run: nothing that it reads has changed" in capsys.readouterr().out


def test_a_change_that_breaks_a_property_is_found_in_spite_of_its_proof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, known = written(tmp_path, FILES, DATA), str(tmp_path / "known.json")
    proved(capsys, "--known", known, *files)
    (tmp_path / "app.rego").write_text(f'{APP}\nallow if input.role == "root"\n')
    assert proved(capsys, "--known", known, *files)["never_writes"]["outcome"] == "counterexample"
    # And its proof is gone with it.
    assert json.loads(Path(known).read_text())["proofs"] == {}


def digest(files: dict[str, str], data: Any, **options: Any) -> str:
    return digest_of(Engine(files, data, **options), "data.properties.never_writes")


@pytest.mark.parametrize(
    ("changes", "data"),
    [
        ({"app.rego": APP.replace('"GET"', '"HEAD"')}, DATA),
        ({"app.rego": APP.replace("data.lib.roles", "data.lib.others")}, DATA),
        ({"app.rego": f"{APP}\nallow if input.x\n"}, DATA),
        ({"lib.rego": LIB.replace("data.names", "data.people")}, DATA),
        ({"lib.rego": f'{LIB}\nroles["b"] if true\n'}, DATA),
        ({"more.rego": "package app\n\nallow if input.x\n"}, DATA),
        ({"properties.rego": PROPERTY.replace("PUT", "POST")}, DATA),
        ({}, {"names": ["a", "b"], "other": 1}),
        ({}, {"other": 1}),
    ],
)
def test_a_digest_is_of_all_that_a_property_reads(changes: dict[str, str], data: Any) -> None:
    assert digest(FILES | changes, data) != digest(FILES, DATA)


@pytest.mark.parametrize(
    ("changes", "data"),
    [
        ({"lib.rego": LIB.replace("unrelated := 1", "unrelated := 2")}, DATA),
        ({"properties.rego": PROPERTY.replace('never_broken if input.method == "GET"', "")}, DATA),
        ({"other.rego": "package other\n\nx := 1\n"}, DATA),
        ({}, {"names": ["a"], "other": 2}),
    ],
)
def test_what_a_property_does_not_read_leaves_its_digest(
    changes: dict[str, str], data: Any
) -> None:
    assert digest(FILES | changes, data) == digest(FILES, DATA)


def test_proofs_of_another_release_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    known = KnownProofs()
    known.add("data.p.never_a", "d", 3)
    known.write(path)
    assert KnownProofs.read(path).conjunctions("data.p.never_a", "d") == 3
    assert KnownProofs.read(path).conjunctions("data.p.never_a", "e") is None
    assert KnownProofs.read(path).conjunctions("data.p.never_b", "d") is None
    path.write_text(path.read_text().replace(version("doorward"), "0.0.1"))
    assert KnownProofs.read(path).conjunctions("data.p.never_a", "d") is None


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"null",
        b'{"format": 1}',
        b"[" * 100_000,
        b" " * (MAX_BYTES + 1),
        b"\xff\xfe",
    ],
)
def test_a_file_that_holds_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    files, known = written(tmp_path, FILES, DATA), tmp_path / "known.json"
    known.write_bytes(content)
    assert run(["prove", "--known", str(known), *files]) == 1
    assert "not a file that `doorward prove --known` wrote: name another" in capsys.readouterr().err
    assert known.read_bytes() == content


def test_entries_of_other_types_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, known = written(tmp_path, FILES, DATA), tmp_path / "known.json"
    document: dict[str, Any] = {"format": 1, "doorward": version("doorward")}
    entries: list[Any] = [
        {"digest": 1, "conjunctions": 1},
        {"digest": "d", "conjunctions": "1"},
        {},
        [],
    ]
    for entry in entries:
        known.write_text(json.dumps({**document, "proofs": {"data.p.never_a": entry}}))
        assert run(["prove", "--known", str(known), *files]) == 1
        assert "name another, or remove it if it is damaged" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = written(tmp_path, FILES, DATA)
    missing = tmp_path / "missing/known.json"
    assert run(["prove", "--time", "0.1s", "--known", str(missing), *files]) == 1
    assert "no such file or directory" in capsys.readouterr().err
