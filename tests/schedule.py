"""The order of the files among the processes of a test run: the costliest first.

Processes end together when what is left at the end is small, so `tests/seconds.json` says how long
the files take; `make costs` writes it. A file that is not there counts by its number of tests.
What shares a daemon or a database server stays together in one process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

__all__ = ["SECONDS", "Scheduling", "scope_of"]

SECONDS: Final = Path(__file__).with_name("seconds.json")
TOGETHER: Final = {"docker": "the daemon", "people": "the server of databases"}
"""The folders whose files share what takes long to start, and what that is. The files beside the
folders are rules about all sources, whose trees they share."""
_A_TEST: Final = 0.02
"""Seconds of a test of which nothing is known."""


@cache
def scope_of(file: str) -> str:
    """The part of a run that one process takes: a file, or a folder that shares a server."""
    folder, inside, _ = file.removeprefix("tests/").partition("/")
    if not inside:
        return "rules"
    return folder if folder in TOGETHER else file


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
        return sum(not ended for unit in workload.values() for ended in unit.values())


def read_seconds() -> Mapping[str, float]:
    """The seconds of each part of a run, by what was measured of its files."""
    total: dict[str, float] = {}
    for file, seconds in json.loads(SECONDS.read_text()).items():
        total[scope_of(file)] = total.get(scope_of(file), 0.0) + seconds
    return total
