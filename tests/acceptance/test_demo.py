"""The demo as a person starts it, and as it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "people" / "demo.py"
WITHIN = 60.0
T = TypeVar("T")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_demo_ends_its_parts(number: signal.Signals, tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        parts = _wait_for(lambda: _parts_of(demo.pid))
        demo.send_signal(number)
        demo.wait(WITHIN)
        _wait_for(lambda: not any(_is_alive(part) for part in parts))


def test_a_part_that_ends_takes_all_down(tmp_path: Path) -> None:
    with _demo(tmp_path) as demo:
        parts = _wait_for(lambda: _parts_of(demo.pid))
        _wait_for(lambda: "until Ctrl-C" in (tmp_path / "out").read_text())
        os.kill(parts[-1], signal.SIGKILL)
        assert demo.wait(WITHIN) == 1
        _wait_for(lambda: not any(_is_alive(part) for part in parts))
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
        demo.wait(WITHIN)


def _parts_of(process: int) -> list[int]:
    """The three parts in the order of their start, once they are all there."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    parts = [int(part) for part in text.split()]
    return parts if len(parts) == 3 else []


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait_for(condition: Callable[[], T]) -> T:
    until = time.monotonic() + WITHIN
    while not (value := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return value
