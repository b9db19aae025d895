"""Durations of the stages, under the names of OPA's metrics.

A caller passes one to an engine, and stages add their time to it. Nothing here decides
anything, and an engine without one does not read the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["NAMES", "Timers"]

NAMES: Final = (
    "rego_data_parse",
    "rego_external_resolve",
    "rego_load_files",
    "rego_module_compile",
    "rego_module_parse",
    "rego_query_compile",
    "rego_query_eval",
    "rego_query_parse",
)
"""The names of the timers. Doorward never resolves external data, so that timer stays at 0."""


class Timers:
    """Nanoseconds by stage, for use by one thread at a time. `names` are listed even if they
    are 0.
    """

    def __init__(self, names: Iterable[str] = NAMES) -> None:
        self._spent = dict.fromkeys(names, 0)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Context whose duration is added to the stage `name`."""
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.add(name, time.perf_counter_ns() - started)

    def add(self, name: str, spent: int) -> None:
        """Add `spent` nanoseconds to the stage `name`."""
        self._spent[name] = self._spent.get(name, 0) + spent

    def document(self) -> dict[str, int]:
        """Return the nanoseconds of each stage under OPA's names, such as
        `timer_rego_query_eval_ns`, in the order of `names`; other stages follow in the order of
        their first use.
        """
        return {f"timer_{name}_ns": spent for name, spent in self._spent.items()}
