"""Network namespaces of a test's own: what is done to the rules in one is seen nowhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from tests.forking import run_command
from tests.waiting import PATIENCE

_PROGRAMS: Final = ("ip", "iptables", "nft")
_NUMBERS: Final = count()
_ROOT: Final = Path(__file__).parents[2]
PATH: Final = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


@dataclass(frozen=True, slots=True)
class Namespace:
    """One network namespace."""

    name: str

    def command(self, *command: str) -> list[str]:
        """The command that runs another one in here."""
        return [program("ip"), "netns", "exec", self.name, *command]

    def run(
        self, *command: str, input: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """What a program says in here, once it ended."""
        done = subprocess.run(
            self.command(*command),
            input=input,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "PATH": PATH},
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
        return done

    def doorward(
        self, *arguments: str, before: Sequence[str] = (), check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """`doorward …` in here, started by the command before it if there is one."""
        if before:
            return self.run(*before, *doorward(), *arguments, check=check)
        environment = {**os.environ, "PATH": PATH}
        done = run_command(arguments, namespace=self.name, environment=environment)
        if check and done.returncode != 0:
            raise AssertionError(f"{arguments} ended with {done.returncode}: {done.stderr}")
        return done


def doorward() -> list[str]:
    """The command of this checkout, whichever user runs it."""
    code = "from doorward.cli.main import main; main()"
    return [sys.executable, "-c", code]


def program(name: str) -> str:
    """Where a program is; the test skips where it is not."""
    path = shutil.which(name, path=PATH)
    if path is None:
        pytest.skip(f"`{name}` is not installed")
    return path


def need_namespaces() -> None:
    """Skip, with the reason, where network namespaces cannot be made."""
    for name in _PROGRAMS:
        program(name)
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    if not _can_make_namespaces():
        pytest.skip("network namespaces cannot be made here")


@cache
def _can_make_namespaces() -> bool:
    name = f"doorward-probe-{os.getpid()}"
    done = subprocess.run([program("ip"), "netns", "add", name], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run([program("ip"), "netns", "del", name], check=True)
    return done.returncode == 0


@contextmanager
def make_namespace(purpose: str) -> Iterator[Namespace]:
    """A new namespace with loopback up, for as long as the block lasts."""
    created = Namespace(f"doorward-{purpose}-{os.getpid()}-{next(_NUMBERS)}")
    subprocess.run([program("ip"), "netns", "add", created.name], check=True)
    try:
        created.run("ip", "link", "set", "lo", "up")
        yield created
    finally:
        subprocess.run([program("ip"), "netns", "del", created.name], check=True)
