"""Command lines of real processes."""

from __future__ import annotations

import subprocess

from tests.waiting import wait_until

from doorward.docker.processes import command_line


def test_words_that_are_not_utf8_are_read() -> None:
    program = [b"sh", b"-c", b"read x", b"\xff", b""]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        # The kernel knows the words a little later than that the program runs.
        wait_until(lambda: command_line(process.pid) == ["sh", "-c", "read x", "\udcff", ""])
        assert process.stdin is not None
        process.stdin.close()


def test_process_that_has_ended_has_no_words() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert command_line(process.pid) == []
