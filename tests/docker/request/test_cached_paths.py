"""Paths that the kernel knows are followed without waiting, to where `realpath` leads."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from doorward.docker.request.cached_paths import resolve_cached
from doorward.docker.request.errors import WaitError
from doorward.docker.request.input import resolve_path


def followed(path: str) -> str | None:
    """Where a path leads; None where that has to wait."""
    try:
        return resolve_cached(path)
    except WaitError:
        return None


def is_supported() -> bool:
    os.stat("/usr")
    return followed("/usr") is not None


needs_kernel = pytest.mark.skipif(not is_supported(), reason="Linux before 5.12")


@needs_kernel
def test_paths_lead_where_realpath_leads(tmp_path: Path) -> None:
    draw = Random(3)
    folders = [tmp_path]
    for number in range(60):
        parent = draw.choice(folders)
        path = parent / f"n{number}"
        match draw.randrange(4):
            case 0 | 1:
                path.mkdir()
                folders.append(path)
            case 2:
                path.symlink_to(draw.choice(folders))
            case 3:
                path.symlink_to(os.path.relpath(draw.choice(folders), parent))
    paths = [each for each in tmp_path.rglob("*")]
    paths += [each / "n1" for each in paths] + [Path("/"), Path("/usr")]
    known = 0
    for path in paths:
        expected = resolve_path(str(path))
        actual = followed(str(path))
        assert actual in (expected, None), path
        known += actual is not None
    assert known > 30


@needs_kernel
def test_what_is_not_there_or_not_a_path_is_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "magic").symlink_to(f"/proc/{os.getpid()}/root/etc")
    deleted = tmp_path / "x (deleted)"
    deleted.mkdir()
    for path in (
        tmp_path / "none", tmp_path / "loop", tmp_path / "magic", deleted,
        Path("/proc/self/root/etc"), Path("/proc/self/cwd"), Path(f"/{'x' * 5000}"),
    ):  # fmt: skip
        assert followed(str(path)) is None, path


def test_text_behind_a_zero_byte_is_not_cut_off(tmp_path: Path) -> None:
    assert followed(f"{tmp_path}\x00/../etc") is None


@needs_kernel
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        followed(str(tmp_path))
        followed(str(tmp_path / "none"))
    assert len(os.listdir("/proc/self/fd")) == before
