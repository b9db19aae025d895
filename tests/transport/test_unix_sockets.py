"""A Unix socket takes the place of a dead one, and of nothing else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from doorward.transport.unix_sockets import PathTakenError, bind_unix, clear_stale


def test_a_socket_is_for_those_whom_its_mode_names(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for mode in (0o600, 0o660, 0o755):
            with bind_unix(tmp_path / "s", mode=mode, backlog=1):
                assert (tmp_path / "s").stat().st_mode & 0o777 == mode
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_live_socket_stays_and_a_dead_one_goes(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with bind_unix(path, mode=0o600, backlog=1):
        with pytest.raises(PathTakenError, match="another server listens"):
            bind_unix(path, mode=0o600, backlog=1)
        assert path.is_socket()
    clear_stale(path)
    assert not path.exists()
    clear_stale(path)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_stays(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s"
    if kind == "file":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathTakenError, match="not a socket"):
        bind_unix(path, mode=0o600, backlog=1)
    assert os.path.lexists(path)


def test_a_place_that_cannot_be_had_leaves_nothing_open(tmp_path: Path) -> None:
    free = socket.socket(socket.AF_UNIX)
    number = free.fileno()
    free.close()
    with pytest.raises(OSError, match="No such file"):
        bind_unix(tmp_path / "none" / "s", mode=0o600, backlog=1)
    with socket.socket(socket.AF_UNIX) as next_one:
        assert next_one.fileno() == number
