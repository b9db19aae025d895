"""The order of the files among the processes of a test run: the longest first.

Processes end together when what is left at the end is small, so `tests/seconds.json` says how long
the files take; `make costs` writes it. What counts is for how long a file keeps its process, and
not its CPU: one that waits leaves the processor to others, as long as there are others. A file that
is not there counts by its number of tests. What shares a daemon, a database server or a browser
stays together in one process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["SECONDS", "parts_of", "scope_of"]

SECONDS: Final = Path(__file__).with_name("seconds.json")
ROOT: Final = SECONDS.parent.parent
DAEMON: Final = re.compile(r"^from \S+ import .*\b(?:PrivateDaemon|proxied)\b", re.MULTILINE)
"""What files import that need a Docker daemon, which takes long to start: those of a folder share
one. Other files of the folder are on their own."""
_A_TEST: Final = 0.02
"""Seconds of a test of which nothing is known."""


@cache
def scope_of(file: str) -> str:
    """The part of a run that one process takes: a file, or those of a folder that share a server.
    The files beside the folders are rules about all sources, whose trees they share."""
    folder, _, inside = file.removeprefix("tests/").partition("/")
    if not inside:
        return "rules"
    if folder == "people":  # the server of databases
        return folder
    if file.startswith("tests/console/pages/"):  # the browser
        return "console/pages"
    if folder == "docker" and DAEMON.search((ROOT / file).read_text(encoding="utf-8")):
        return "docker/proxy" if inside.startswith("proxy/") else folder
    return file


def parts_of(names: Sequence[str]) -> list[list[int]]:
    """Return the parts of a run, the costliest first: each as the indices of its tests in `names`,
    the names of the collected tests.
    """
    parts: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        parts.setdefault(scope_of(name.split("::")[0]), []).append(index)
    seconds = read_seconds()
    costs = {scope: seconds.get(scope, len(part) * _A_TEST) for scope, part in parts.items()}
    return [parts[scope] for scope in sorted(parts, key=costs.__getitem__, reverse=True)]


def read_seconds() -> Mapping[str, float]:
    """The seconds that each part of a run takes, by what was measured of its files."""
    total: dict[str, float] = {}
    for file, (_, wall) in json.loads(SECONDS.read_text()).items():
        if (ROOT / file).is_file():
            total[scope_of(file)] = total.get(scope_of(file), 0.0) + wall
    return total
