"""A command becomes what it printed, or a `RedirectError` that says what was in the way.

No shell: programs are found on the PATH (and where administrators' programs live) and get their
arguments as they are. Every call has a deadline and a minimal environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["MissingCapability", "RedirectError", "check_capability", "find_program", "run_program"]

DEADLINE: Final = 15.0
"""Seconds for one program; it may wait for the lock that all of them share."""
NET_ADMIN: Final = 12
_FOLDERS: Final = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_REFUSED: Final = re.compile(r"operation not permitted|permission denied|must be root", re.I)


class RedirectError(Exception):
    """The rules could not be read or changed; nothing is known to be active."""


class MissingCapability(RedirectError):
    """The kernel does not let this process change rules."""

    def __init__(self, message: str = "") -> None:
        super().__init__(
            "the capability NET_ADMIN is needed in this network namespace"
            + (f" (said: {message})" if message else "")
        )


def find_program(name: str) -> str | None:
    """The path of a program. None: it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS])
    return shutil.which(name, path=path)


def check_capability() -> None:
    """MissingCapability unless this process may administer networks at all."""
    status = Path("/proc/self/status").read_text()
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    if effective and not int(effective[1], 16) >> NET_ADMIN & 1:
        raise MissingCapability


def run_program(command: Sequence[str], script: str = "") -> str:
    """Run a program on the script and return its output; RedirectError when it fails."""
    name = os.path.basename(command[0])
    try:
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            env={"PATH": os.pathsep.join(_FOLDERS), "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RedirectError(f"{name} did not end in {DEADLINE:.0f} s") from None
    except OSError as error:
        raise RedirectError(f"{name} could not be started: {error.strerror}") from None
    if done.returncode != 0:
        message = _first_line(done.stderr)
        if _REFUSED.search(done.stderr):
            raise MissingCapability(f"{name}: {message}")
        raise RedirectError(f"{name}: {message or f'ended with {done.returncode}'}")
    return done.stdout


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
