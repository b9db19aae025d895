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
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

__all__ = ["SECONDS", "Scheduling", "scope_of"]

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


class Numbered(list[str]):
    """Names whose positions are known: pytest-xdist asks for that of each."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._positions = {name: position for position, name in enumerate(names)}

    def index(self, name: str, *_: Any) -> int:
        return self._positions[name]


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """Not by marks (`--dist loadgroup`), which pytest-xdist 3.8 overlooks with pytest 9.2."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._seconds = read_seconds()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Numbered(self.registered_collections[node])

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.split("::")[0])

    def _assign_work_unit(self, node: Any) -> None:
        costliest = max(self.workqueue, key=self._cost)
        self.workqueue.move_to_end(costliest, last=False)
        super()._assign_work_unit(node)

    def _cost(self, scope: str) -> float:
        return self._seconds.get(scope, len(self.workqueue[scope]) * _A_TEST)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """Forget what has ended: this is asked for after each test."""
        for scope in [scope for scope, unit in workload.items() if all(unit.values())]:
            del workload[scope]
        return sum(len(unit) - sum(unit.values()) for unit in workload.values())


def read_seconds() -> Mapping[str, float]:
    """The seconds that each part of a run takes, by what was measured of its files."""
    total: dict[str, float] = {}
    for file, (_, wall) in json.loads(SECONDS.read_text()).items():
        if (ROOT / file).is_file():
            total[scope_of(file)] = total.get(scope_of(file), 0.0) + wall
    return total
