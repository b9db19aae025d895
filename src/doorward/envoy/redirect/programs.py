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

from doorward.base.os_errors import describe_os_error
from doorward.envoy.redirect.rules import Family

__all__ = [
    "MissingCapability",
    "RedirectError",
    "check_capability",
    "find_program",
    "has_legacy_table",
    "run_program",
]

DEADLINE: Final = 15.0
"""Seconds that one program may take, including its wait for the lock that all programs share."""
NET_ADMIN: Final = 12
_FOLDERS: Final = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_LEGACY_TABLES: Final[dict[Family, str]] = {
    "ip": "/proc/net/ip_tables_names",
    "ip6": "/proc/net/ip6_tables_names",
}
"""The kernel's list of the tables that legacy iptables made, by family."""
_REFUSED: Final = re.compile(r"operation not permitted|permission denied|must be root", re.I)


class RedirectError(Exception):
    """The rules could not be read or changed; it is unknown which of them are in force."""


class MissingCapability(RedirectError):
    """The process lacks NET_ADMIN, without which the kernel lets nobody change rules."""

    def __init__(self, message: str = "") -> None:
        super().__init__(
            "the capability NET_ADMIN is needed in this network namespace: give it to the container"
            + (f" (said: {message})" if message else "")
        )


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH or in the administrators' folders; None if not
    installed.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_FOLDERS])
    return shutil.which(name, path=path)


def has_legacy_table(table: str, family: Family) -> bool:
    """Return True if the kernel has a table of legacy iptables, or if this process may not read the
    list of tables; False if there is no such list.

    To ask legacy iptables itself would make the table.
    """
    try:
        return table in Path(_LEGACY_TABLES[family]).read_text().split()
    # The module is not loaded, so nobody can have made a table.
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # somebody else's namespace: let the program say so


def check_capability() -> None:
    """Raise MissingCapability if this process lacks the capability NET_ADMIN; do nothing if the
    kernel does not list capabilities.
    """
    status = Path("/proc/self/status").read_text()
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    if effective and not int(effective[1], 16) >> NET_ADMIN & 1:
        raise MissingCapability


def run_program(command: Sequence[str], script: str = "") -> str:
    """Run a program with `script` as its input, and return its output.

    Raise RedirectError if it cannot start, fails or takes longer than `DEADLINE` seconds, and its
    subclass MissingCapability if the kernel refused for lack of rights.
    """
    name = os.path.basename(command[0])
    try:
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            # English messages, which `_REFUSED` and the callers recognize.
            env={"PATH": os.pathsep.join(_FOLDERS), "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RedirectError(f"{name} did not end in {DEADLINE:.0f} s: try again") from None
    except OSError as error:
        raise RedirectError(f"{name} could not be started: {describe_os_error(error)}") from None
    if done.returncode != 0:
        message = _first_line(done.stderr)
        if _REFUSED.search(done.stderr):
            raise MissingCapability(f"{name}: {message}")
        raise RedirectError(f"{name}: {message or f'ended with {done.returncode}'}")
    return done.stdout


def _first_line(text: str) -> str:
    """Return the first line that is not blank, cut to 300 characters; "" if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
