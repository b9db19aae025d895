"""The daemon as the installer meets it, without one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.waiting import wait_until

from doorward.docker.install.daemon import Daemon, DaemonError


def test_command_line_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    program = tmp_path / "dockerd"
    program.symlink_to("/bin/sh")
    words = [bytes(program), b"-c", b"read x", b"--config-file=/\xff"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        pidfile = tmp_path / "docker.pid"
        pidfile.write_text(str(process.pid))
        daemon = Daemon(pidfile, str(tmp_path / "none.sock"))
        wait_until(lambda: daemon.pid() == process.pid)
        assert daemon.config_file() == "/\udcff"
        assert process.stdin is not None
        process.stdin.close()


def test_daemon_that_has_just_ended_is_not_reloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    monkeypatch.setattr(Daemon, "pid", lambda _self: process.pid)
    daemon = Daemon(tmp_path / "docker.pid", str(tmp_path / "none.sock"))
    with pytest.raises(DaemonError, match="no such process"):
        daemon.reload()
