"""A folder of saved programs: read only where nobody else may have written."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from doorward.rego.saved import folder as subject
from doorward.rego.saved.folder import SavedFolder

NAME = "a" * 64
OTHER = "b" * 64
FILE = f"{NAME}.saved"


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
    assert os.listdir(path) == [FILE]
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_not_read_nor_written(path: Path, mode: int) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    path.chmod(mode)
    assert folder.read(NAME) is None
    assert not folder.write(OTHER, b"two")
    assert os.listdir(path) == [FILE]


def test_a_file_that_others_may_write_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    (path / FILE).chmod(0o622)
    assert folder.read(NAME) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_somebody_else_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    os.chown(path / FILE, 65534, 65534)
    assert folder.read(NAME) is None
    os.chown(path / FILE, 0, 0)
    assert folder.read(NAME) == b"one"
    os.chown(path, 65534, 65534)
    assert folder.read(NAME) is None


def test_links_are_not_followed(path: Path, tmp_path: Path) -> None:
    SavedFolder(path).write(NAME, b"one")
    link = tmp_path / "link"
    link.symlink_to(path)
    assert SavedFolder(link).read(NAME) is None
    (path / f"{OTHER}.saved").symlink_to(path / FILE)
    assert SavedFolder(path).read(OTHER) is None


def test_a_pipe_is_not_waited_for(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    os.mkfifo(path / f"{OTHER}.saved", 0o600)
    assert folder.read(OTHER) is None


def test_what_was_cut_or_changed_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"content")
    whole = (path / FILE).read_bytes()
    for length in range(len(whole)):
        (path / FILE).write_bytes(whole[:length])
        assert folder.read(NAME) is None, length
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1
        (path / FILE).write_bytes(changed)
        assert folder.read(NAME) is None, position


def test_an_entry_under_the_name_of_another_is_not_read(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    folder.write(OTHER, b"two")
    os.replace(path / FILE, path / f"{OTHER}.saved")
    assert folder.read(OTHER) is None


def test_a_parent_in_which_others_may_rename_is_not_used(path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    path.parent.chmod(0o777)
    assert folder.read(NAME) is None
    assert not folder.write(OTHER, b"two")
    path.parent.chmod(0o1777)  # as /tmp
    assert folder.read(NAME) == b"one"


@pytest.mark.parametrize(
    ("primary", "name", "members", "is_own"),
    [
        (os.getegid(), "ann", [], True),
        (os.getegid(), "ann", ["ann"], True),
        (os.getegid(), "ann", ["ann", "bob"], False),
        (os.getegid(), "users", [], False),
        (os.getegid() + 1, "ann", [], False),
        (None, "ann", [], False),
    ],
)
def test_a_parent_that_its_group_may_write_is_used_if_the_group_is_the_users_own(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    primary: int | None,
    name: str,
    members: list[str],
    is_own: bool,
) -> None:
    def user(uid: int) -> SimpleNamespace:
        if primary is None:
            raise KeyError(uid)
        return SimpleNamespace(pw_name="ann", pw_gid=primary)

    group = SimpleNamespace(gr_name=name, gr_mem=members)
    monkeypatch.setattr("pwd.getpwuid", user)
    monkeypatch.setattr("grp.getgrgid", {os.getegid(): group}.__getitem__)
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    os.chown(path.parent, -1, os.getegid())
    path.parent.chmod(0o770)
    assert (folder.read(NAME) == b"one") is is_own
    assert folder.write(OTHER, b"two") is is_own
    path.parent.chmod(0o1770)
    assert folder.read(NAME) == b"one"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_parent_or_a_link_of_somebody_else_is_not_used(path: Path, tmp_path: Path) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")
    os.chown(path.parent, 65534, 65534)
    assert folder.read(NAME) is None
    os.chown(path.parent, 0, 0)
    link = tmp_path / "link"
    link.symlink_to(path.parent)
    through = SavedFolder(link / path.name)
    assert through.read(NAME) == b"one"
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert through.read(NAME) is None


def test_each_folder_in_which_a_link_stands_counts(path: Path, tmp_path: Path) -> None:
    SavedFolder(path).write(NAME, b"one")
    between = tmp_path / "between"
    between.mkdir()
    (between / "second").symlink_to(path.parent)
    (tmp_path / "first").symlink_to("between/second")
    through = SavedFolder(tmp_path / "first" / path.name)
    assert through.read(NAME) == b"one"
    between.chmod(0o777)
    assert through.read(NAME) is None


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert not SavedFolder(tmp_path / "a" / "folder").write(NAME, b"one")
    assert SavedFolder(tmp_path / "a" / "folder").read(NAME) is None


def test_two_writers_of_one_number_do_not_disturb_each_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in two containers
    rename = os.replace

    def write_between(*args: Any, **options: Any) -> None:
        monkeypatch.setattr(os, "replace", rename)
        assert SavedFolder(path).write(NAME, b"two")
        rename(*args, **options)

    monkeypatch.setattr(os, "replace", write_between)
    assert SavedFolder(path).write(NAME, b"one")
    assert SavedFolder(path).read(NAME) == b"one"
    assert os.listdir(path) == [FILE]


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
        os.utime(path / f"{name}.saved", (age, age))
    assert folder.read(names[0]) is not None  # used again: no longer the oldest
    folder.write("f" * 64, b"x" * 60)
    left = (names[0], names[3], names[4], "f" * 64)
    assert set(os.listdir(path)) == {f"{name}.saved" for name in left}


@pytest.mark.parametrize(
    ("error", "left"),
    [(PermissionError, "acd"), (FileNotFoundError, "abcd")],  # the latter: another process did it
)
def test_an_entry_takes_its_place_unless_it_is_gone(
    error: type[OSError], left: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SavedFolder(path, max_bytes=160)
    names = [letter * 64 for letter in "abc"]
    for age, name in enumerate(names):
        folder.write(name, b"x" * 20)
        os.utime(path / f"{name}.saved", (age, age))
    unlink = os.unlink

    def refuse_oldest(name: str, **options: Any) -> None:
        if str(name).startswith("a"):
            raise error(name)
        unlink(name, **options)

    monkeypatch.setattr(os, "unlink", refuse_oldest)
    folder.write("d" * 64, b"x" * 20)
    assert set(os.listdir(path)) == {f"{name * 64}.saved" for name in left}


def test_entries_that_cannot_be_removed_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SavedFolder(path, max_bytes=160)

    def refuse(name: str, **_options: Any) -> None:
        raise PermissionError(name)

    monkeypatch.setattr(os, "unlink", refuse)
    for letter in "abcd":
        folder.write(letter * 64, b"x" * 20)
    assert set(os.listdir(path)) == {f"{letter * 64}.saved" for letter in "abcd"}


def test_other_files_are_left_alone(path: Path) -> None:
    path.mkdir(parents=True, mode=0o700)
    others = ("notes.txt", "c" * 64, f"{NAME}.tar", "d" * 63 + ".saved")
    for name in others:
        (path / name).write_text("mine" * 100)
    folder = SavedFolder(path, max_bytes=100)
    for letter in "abc":
        folder.write(letter * 64, b"x" * 60)
    assert all((path / name).read_text() == "mine" * 100 for name in others)


def test_an_entry_that_is_too_large_is_not_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MAX_ENTRY", 10)
    assert not SavedFolder(path).write(NAME, b"x" * 11)
    assert SavedFolder(path).write(NAME, b"x" * 10)
    monkeypatch.setattr(subject, "MAX_ENTRY", 9)
    assert SavedFolder(path).read(NAME) is None


def test_a_full_disk_leaves_an_entry_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = SavedFolder(path)
    folder.write(NAME, b"one")

    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert not folder.write(NAME, b"two")
    assert folder.read(NAME) == b"one"
    assert os.listdir(path) == [FILE]
