"""The demo as a person starts it, and as it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, wait_until

DEMO = Path(__file__).parents[2] / "examples" / "people" / "demo.py"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_demo_ends_its_parts(number: signal.Signals, tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        parts = wait_until(lambda: _parts_of(demo.pid))
        demo.send_signal(number)
        demo.wait(PATIENCE)
        wait_until(lambda: not any(_is_alive(part) for part in parts))


def test_a_second_signal_does_not_disturb_the_end(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        parts = wait_until(lambda: _parts_of(demo.pid))
        wait_until(lambda: "until Ctrl-C" in (tmp_path / "out").read_text())
        demo.send_signal(signal.SIGINT)
        wait_until(lambda: "Stopping." in (tmp_path / "out").read_text())
        for number in (signal.SIGINT, signal.SIGTERM):
            demo.send_signal(number)
        assert demo.wait(PATIENCE) == 0
        assert not any(_is_alive(part) for part in parts)
    assert "Stopped before" not in (tmp_path / "out").read_text()


def test_a_part_that_ends_takes_all_down(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        parts = wait_until(lambda: _parts_of(demo.pid))
        wait_until(lambda: "until Ctrl-C" in (tmp_path / "out").read_text())
        os.kill(parts[-1], signal.SIGKILL)
        assert demo.wait(PATIENCE) == 1
        wait_until(lambda: not any(_is_alive(part) for part in parts))
    said = (tmp_path / "out").read_text()
    assert "envoy ended with -9" in said
    logs = Path(said.partition("The logs are in ")[2].partition("\n")[0])
    assert {file.name for file in logs.glob("*.log")} == {"people.log", "doorward.log", "envoy.log"}
    assert not (logs / "secrets.json").exists()
    shutil.rmtree(logs)


@contextmanager
def _demo(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "out").open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, DEMO], stdout=out, stderr=out, env={**os.environ, "PORT_BASE": "0"}
        )
    try:
        yield demo
    finally:
        demo.kill()
        demo.wait(PATIENCE)


def _parts_of(process: int) -> list[int]:
    """The three parts in the order of their start, once they are all there."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    parts = [int(part) for part in text.split()]
    return parts if len(parts) == 3 else []


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it is gone, or goes while we look
        return False
    return state != "Z"
