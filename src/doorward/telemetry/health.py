"""Health: the state of each part that serves, and whether the active policies are the newest.

States and their names are OPA's plugin states. Threads say by themselves that they are alive
(`parts`). Who asks, and how the answer looks on a wire, is not known here.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from time import monotonic
from typing import Any, Final

from doorward.edge import Parts

__all__ = ["POLICIES", "Health", "State"]

POLICIES: Final = "policies"
"""The name under which policies are down that are older than they may be."""
PATIENCE: Final = 300.0
"""Seconds that older policies may stay active while reloads fail."""


class State(Enum):
    """The state of a part: only `OK` is up."""

    NOT_READY = "NOT_READY"
    OK = "OK"
    WARN = "WARN"
    ERROR = "ERROR"


class Health:
    """States by part, from any thread."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._reload_error: str | None = None
        self._failing_since: float | None = None
        self._patience = patience
        self.parts = Parts()
        """The threads that must be at work."""
        self.failing_bundles: Mapping[str, str] = {}
        """Bundles that could not be fetched or put into force, each with the reason."""
        self.worker: int | None = None
        """The number of this worker, where there are several."""
        self.workers: Sequence[Mapping[str, Any]] | None = None
        """What the parent of several workers knows of them, this one among them: `worker`,
        `revision`, `down`, `stopped`."""
        self.stopped_in_parent: Sequence[tuple[str, str]] = ()
        """As `own_stopped`, of that parent."""

    def set(self, part: str, state: State) -> None:
        with self._lock:
            self._states[part] = state

    @property
    def states(self) -> dict[str, State]:
        with self._lock:
            return dict(self._states)

    def down(self, exclude: Collection[str] = ()) -> tuple[str, ...]:
        """Return the parts that are down, apart from `exclude`: parts, threads, and policies too
        old."""
        down = self.own_down.union(*[worker["down"] for worker in self.workers or ()])
        down = down.union(name for name, _ in self.stopped_in_parent)
        return tuple(sorted(down.difference(exclude)))

    @property
    def own_down(self) -> frozenset[str]:
        """The parts of this process that are down."""
        down = {part for part, state in self.states.items() if state is not State.OK}
        down.update(name for name, _ in self.own_stopped)
        if self.is_outdated:
            down.add(POLICIES)
        return frozenset(down)

    @property
    def stopped(self) -> tuple[tuple[str, str], ...]:
        """The threads that are dead, stuck or failing, each with which of these."""
        others = [each for each in self.workers or () if each["worker"] != self.worker]
        of_others = [
            (f"{name} of worker {each['worker']}", problem)
            for each in others
            for name, problem in each["stopped"]
        ]
        return (*self.own_stopped, *self.stopped_in_parent, *of_others)

    @property
    def own_stopped(self) -> tuple[tuple[str, str], ...]:
        """The same of this process."""
        problems = self.parts.problems.items()
        return tuple((name, problem) for name, problem in sorted(problems) if problem is not None)

    @property
    def reload_error(self) -> str | None:
        """Why the newest policies are not in force; None when they are."""
        return self._reload_error

    @property
    def is_outdated(self) -> bool:
        """Return True if reloads have failed for so long that the active policies may be old."""
        since = self._failing_since
        return since is not None and monotonic() - since > self._patience

    @property
    def failing_for(self) -> float:
        """Seconds since the newest policies could not be read; 0 when they are active."""
        since = self._failing_since
        return 0.0 if since is None else monotonic() - since

    def reloaded(self, error: str | None) -> None:
        """Say how the last attempt to read the policies ended."""
        with self._lock:
            self._reload_error = error
            if error is None:
                self._failing_since = None
            elif self._failing_since is None:
                self._failing_since = monotonic()
