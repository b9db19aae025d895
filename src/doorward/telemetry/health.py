"""Health: the state of each serving part, and if the active policies are the newest.

States and their names are OPA's plugin states. Threads report themselves as alive (`parts`).
Protocols of health checks are not known here.
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
"""The name in lists of parts that are down for policies that are too old."""
PATIENCE: Final = 300.0
"""Seconds of failing reloads after which the active policies count as too old."""


class State(Enum):
    """The state of a part; only `OK` counts as up."""

    NOT_READY = "NOT_READY"
    OK = "OK"
    WARN = "WARN"
    ERROR = "ERROR"


class Health:
    """The states of parts, of threads and of reloads. Safe in any number of threads."""

    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._reload_error: str | None = None
        self._failing_since: float | None = None
        self._patience = patience
        self.parts = Parts()
        """The threads of this process, whose liveness is checked."""
        self.failing_bundles: Mapping[str, str] = {}
        """Bundles that could not be downloaded or activated, each with the reason."""
        self.worker: int | None = None
        """The number of this worker; None in a single process."""
        self.workers: Sequence[Mapping[str, Any]] | None = None
        """The states of all workers that the parent sent, with the keys `worker`, `revision`,
        `down` and `stopped`; None in a single process.
        """
        self.stopped_in_parent: Sequence[tuple[str, str]] = ()
        """The stopped threads of the parent, like `own_stopped`."""

    def set(self, part: str, state: State) -> None:
        with self._lock:
            self._states[part] = state

    @property
    def states(self) -> dict[str, State]:
        with self._lock:
            return dict(self._states)

    def down(self, exclude: Collection[str] = ()) -> tuple[str, ...]:
        """Return the sorted names of all that is down, in any worker, without `exclude`: parts,
        threads, and `POLICIES` if they are too old. () if all is well.
        """
        down = self.own_down.union(*[worker["down"] for worker in self.workers or ()])
        down = down.union(name for name, _ in self.stopped_in_parent)
        return tuple(sorted(down.difference(exclude)))

    @property
    def own_down(self) -> frozenset[str]:
        """The names of all that is down in this process: parts that are not `OK`, stopped threads,
        and `POLICIES` if reloads have failed for too long.
        """
        down = {part for part, state in self.states.items() if state is not State.OK}
        down.update(name for name, _ in self.own_stopped)
        if self.is_outdated:
            down.add(POLICIES)
        return frozenset(down)

    @property
    def stopped(self) -> tuple[tuple[str, str], ...]:
        """The threads of all workers and of the parent that are dead, stuck or failing, each with
        the problem.
        """
        others = [each for each in self.workers or () if each["worker"] != self.worker]
        of_others = [
            (f"{name} of worker {each['worker']}", problem)
            for each in others
            for name, problem in each["stopped"]
        ]
        return (*self.own_stopped, *self.stopped_in_parent, *of_others)

    @property
    def own_stopped(self) -> tuple[tuple[str, str], ...]:
        """The threads of this process that are dead, stuck or failing, each with the problem, by
        name.
        """
        problems = self.parts.problems.items()
        return tuple((name, problem) for name, problem in sorted(problems) if problem is not None)

    @property
    def reload_error(self) -> str | None:
        """The reason why the newest policies are not active; None if they are."""
        return self._reload_error

    @property
    def is_outdated(self) -> bool:
        """True if reloads have failed for longer than `patience` seconds."""
        since = self._failing_since
        return since is not None and monotonic() - since > self._patience

    @property
    def failing_for(self) -> float:
        """Seconds since the first failed reload after the last success; 0 if the newest policies
        are active.
        """
        since = self._failing_since
        return 0.0 if since is None else monotonic() - since

    def reloaded(self, error: str | None) -> None:
        """Record the result of an attempt to read the policies: the error, or None for success."""
        with self._lock:
            self._reload_error = error
            if error is None:
                self._failing_since = None
            # The first failure counts: later ones must not restart the time.
            elif self._failing_since is None:
                self._failing_since = monotonic()
