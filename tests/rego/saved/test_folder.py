"""A folder of saved programs: read only where nobody else may have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doorward.rego.saved import folder as subject
from doorward.rego.saved.folder import SavedFolder

NAME = "a" * 64
OTHER = "b" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "below" / "doorward"


def test_what_is_written_is_read_again(path: Path) -> None:
    folder = SavedFolder(path)
    assert folder.read(NAME) is None
    assert folder.write(NAME, b"one")
    assert folder.write(NAME, b"two")
    assert folder.read(NAME) == b"two"
    assert folder.read(OTHER) is None
    assert os.listdir(path) == [NAME]
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_not_read_nor_written(path: Path, mode: int) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    path.chmod(mode)
    assert folder.read(NAME) is None
    assert not folder.write(OTHER, b"two")
    assert os.listdir(path) == [NAME]


def test_a_file_that_others_may_write_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    (path / NAME).chmod(0o622)
    assert folder.read(NAME) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_somebody_else_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    os.chown(path / NAME, 65534, 65534)
    assert folder.read(NAME) is None
    os.chown(path / NAME, 0, 0)
    assert folder.read(NAME) == b"one"
    os.chown(path, 65534, 65534)
    assert folder.read(NAME) is None


def test_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    SavedFolder(path).write(NAME, b"one")
    link = tmp_path / "link"
    link.symlink_to(path)
    assert SavedFolder(link).read(NAME) is None
    (path / OTHER).symlink_to(path / NAME)
    assert SavedFolder(path).read(OTHER) is None


def test_a_pipe_is_not_waited_for(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    os.mkfifo(path / OTHER, 0o600)
    assert folder.read(OTHER) is None


def test_what_was_cut_or_changed_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"content")
    whole = (path / NAME).read_bytes()
    for length in range(len(whole)):
        (path / NAME).write_bytes(whole[:length])
        assert folder.read(NAME) is None, length
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        (path / NAME).write_bytes(changed)
        assert folder.read(NAME) is None, position


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = SavedFolder(tmp_path / "file" / "doorward")
    assert not folder.write(NAME, b"one")
    assert folder.read(NAME) is None


def test_the_oldest_entries_make_room(path: Path) -> None:
    folder = SavedFolder(path, max_bytes=280)
    names = [letter * 64 for letter in "abcde"]
    for age, name in enumerate(names):
        folder.write(name, b"x" * 20)
        os.utime(path / name, (age, age))
    assert folder.read(names[0]) is not None  # used again: no longer the oldest
    folder.write("f" * 64, b"x" * 60)
    assert set(os.listdir(path)) == {names[0], names[3], names[4], "f" * 64}


def test_other_files_are_left_alone(path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    (path / "notes.txt").write_text("mine")
    folder = SavedFolder(path, max_bytes=100)
    for letter in "abc":
        folder.write(letter * 64, b"x" * 60)
    assert (path / "notes.txt").read_text() == "mine"


def test_an_entry_that_is_too_large_is_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_ENTRY", 10)
    assert not SavedFolder(path).write(NAME, b"x" * 11)
    assert SavedFolder(path).write(NAME, b"x" * 10)


def test_a_full_disk_leaves_an_entry_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")

    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert not folder.write(NAME, b"two")
    assert folder.read(NAME) == b"one"
    assert os.listdir(path) == [NAME]
