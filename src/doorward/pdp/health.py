"""What is up: the state of each part that serves, and whether the policies in force are the newest.

States and their names are OPA's plugin states. Who asks, and how the answer looks on a wire, is not
known here.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from enum import Enum

__all__ = ["Health", "State"]


class State(Enum):
    """The state of a part: only `OK` is up."""

    NOT_READY = "NOT_READY"
    OK = "OK"
    WARN = "WARN"
    ERROR = "ERROR"


class Health:
    """States by part, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, State] = {}
        self._reload_error: str | None = None

    def set(self, part: str, state: State) -> None:
        with self._lock:
            self._states[part] = state

    @property
    def states(self) -> dict[str, State]:
        with self._lock:
            return dict(self._states)

    def down(self, exclude: Collection[str] = ()) -> tuple[str, ...]:
        """The parts that are not up, less those in `exclude`."""
        return tuple(
            part
            for part, state in sorted(self.states.items())
            if state is not State.OK and part not in exclude
        )

    @property
    def reload_error(self) -> str | None:
        """Why the newest policies are not in force; None when they are."""
        return self._reload_error

    def reloaded(self, error: str | None) -> None:
        """Say how the last attempt to read the policies ended."""
        self._reload_error = error
