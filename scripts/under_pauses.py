"""Run the tests while all of their processes stop and go on together, at random moments.

    python scripts/under_pauses.py [--seed 1] [--seconds 3600] [--apart] -- --processes 2 tests/cli

What follows `--` is for pytest. A pause is what a cgroup without time, a virtual machine that moves
or a laptop that sleeps does to a program: a test that relies on two things happening within a time
of each other fails. With `--apart` some of the processes stop while the others go on, as on a
machine with fewer cores than processes: a test that asserts what another process is about to do
fails. The exit code is pytest's; that of `timeout` (124) where `--seconds` are over.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = (0.2, 2.0)
"""The least and the most seconds between two pauses."""
PAUSES: Final = (0.05, 0.3, 1.0, 3.0)
SHARE: Final = 0.5
"""The part of the processes that stops where they do not all stop together."""
TIMED_OUT: Final = 124


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="chooses the moments")
    parser.add_argument("--seconds", type=float, default=3600, help="at most so long")
    parser.add_argument("--apart", action="store_true", help="stop some of the processes only")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="for pytest")
    options = parser.parse_args()
    command = [sys.executable, "-m", "pytest", *options.arguments]
    code, count = run(command, Random(options.seed), options.seconds, is_apart=options.apart)
    print(f"{count} pauses")
    return code


def run(
    command: list[str], chance: Random, seconds: float, *, is_apart: bool = False
) -> tuple[int, int]:
    """Run a command under pauses; returns its exit code and the number of pauses."""
    deadline = time.monotonic() + seconds
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    count = 0
    try:
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(chance.uniform(*RUNS)), count
            processes = [*family(process.pid)]
            if is_apart:
                processes = [each for each in processes if chance.random() < SHARE]
            pause(processes, chance.choice(PAUSES))
            count += 1
        return TIMED_OUT, count
    finally:
        if process.poll() is None:
            send([*family(process.pid)], signal.SIGTERM)
            process.wait()


def pause(processes: Iterable[int], seconds: float) -> None:
    """Stop processes, and let them go on; not those that a test stopped."""
    running = [each for each in processes if state_of(each) != "T"]
    send(running, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        send(running, signal.SIGCONT)


def send(processes: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those of the processes that are still there."""
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def state_of(process: int) -> str:
    """The state of a process: `T` where it is stopped, "" where it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def family(process: int) -> Iterator[int]:
    """The process and all that it started, parents first."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                children[int(fields[1])].append(int(folder.name))
    waiting = [process]
    while waiting:
        yield (first := waiting.pop())
        waiting += children[first]


if __name__ == "__main__":
    sys.exit(main())
