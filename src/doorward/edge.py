"""The guarded edge: an unexpected exception is logged, counted and answered, and ends no thread.

Code names the exceptions that it expects. Any other one (a defect of ours, a built-in of a user,
memory that ran out) is caught at a few edges, which `tests/test_house_rules.py` lists: one around
each decision, each request, each round of a thread. An edge catches `FAULTS`, reports to its
`Edge`, and continues with a safe result: a denial, the old snapshot, the next round.

    _EDGE = Edge("decide", "evaluation failed")
    try:
        result = query.value(input)
    except FAULTS as fault:
        error = DecisionError(_EDGE.report(fault))

These are caught:

- `Exception`, and with it `MemoryError` and `RecursionError`: once the stack is unwound to the
  edge, the memory and the frames are free again, and the next request can be served.
- `SystemExit` and `KeyboardInterrupt`, but not in the main thread: there somebody ends the
  process, and `report` raises them again. In any other thread they come from a built-in, and mean
  no more than other faults.
- Not `CancelledError` and `GeneratorExit`: they belong to the event loop and to generators.

A `Part` tells if a thread is still at work; `/health` reads all `Parts`.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final

from doorward.base.clock import SYSTEM_CLOCK, Clock

__all__ = ["FAULTS", "Edge", "Part", "Parts", "SignalSafeEvent", "counts", "loop_thread", "repeat"]

FAULTS: Final = (Exception, KeyboardInterrupt, SystemExit)
"""The exceptions that an edge catches and passes to `Edge.report` at once."""

QUIET: Final = 1.0
"""Seconds between two log lines of one edge, since clients can cause faults."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
"""The longest pause in seconds after a fault in `repeat`; pauses double from `FIRST_PAUSE`."""
TOO_MANY: Final = 3
"""The number of faults in a row after which a part counts as failing."""

_HEAD, _TAIL = 5, 20
_STOPS: Final = (KeyboardInterrupt, SystemExit)
_log: Final = logging.getLogger(__name__)


class Edge:
    """One kind of edge, by its name: it counts the faults that are caught there, and logs their
    tracebacks.
    """

    def __init__(self, name: str, message: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.count = 0
        self._message = message
        self._now = clock.now
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._suppressed = 0
        _edges.append(self)

    def report(self, fault: BaseException, **fields: object) -> str:
        """Count `fault` and log its traceback; return a text for clients, such as `internal error
        (ValueError)`. `fields` are added to the log line.

        The text of an exception may quote a client's input: neither the log nor the returned text
        contains it. Logs at most one line in `QUIET` seconds. Raises only KeyboardInterrupt or
        SystemExit, again, in the main thread.
        """
        # Before anything is counted: Ctrl-C is not a fault.
        if isinstance(fault, _STOPS) and threading.current_thread() is threading.main_thread():
            raise fault
        kind = type(fault).__name__
        suppressed = self._note()
        if suppressed is not None:
            self._log_fault(kind, fault.__traceback__, suppressed, fields)
        return f"internal error ({kind})"

    def _note(self) -> int | None:
        """Count a fault. Return None if it must not be logged now; else the number of faults that
        were not logged since the last line.
        """
        now = self._now()
        with self._lock:
            self.count += 1
            if now < self._quiet_until:
                self._suppressed += 1
                return None
            self._quiet_until = now + QUIET
            suppressed, self._suppressed = self._suppressed, 0
            return suppressed

    def _log_fault(
        self, kind: str, raised: TracebackType | None, suppressed: int, fields: dict[str, object]
    ) -> None:
        """Log a fault with the name of its exception class, its traceback, and `suppressed`, the
        number of faults that were not logged since the last line; if logging fails, nothing is
        raised.
        """
        try:
            frames = _frames(raised)
            extra = {
                **fields,
                "edge": self.name,
                "fault": kind,
                "at": frames[-1] if frames else "",
                "traceback": frames,
                "more": suppressed,
            }
            _log.error(self._message, extra=extra)
        except Exception:
            # Without memory, descriptors or a working log the fault is still counted.
            return


def _frames(raised: TracebackType | None) -> list[str]:
    """Return `file:line function` for each frame from the edge to the fault, without source lines,
    which may contain secrets.

    The middle of a deep recursion is left out.
    """
    frames = [
        f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(raised)
    ]
    if len(frames) <= _HEAD + _TAIL:
        return frames
    return [*frames[:_HEAD], f"… {len(frames) - _HEAD - _TAIL} frames", *frames[-_TAIL:]]


_edges: Final[list[Edge]] = []


def counts() -> dict[str, int]:
    """Return the number of faults caught at the edges of this process, by name."""
    totals: dict[str, int] = {}
    for edge in _edges:
        totals[edge.name] = totals.get(edge.name, 0) + edge.count
    return totals


# Threads


class Part:
    """A thread that must be alive and at work for the process to be healthy.

    The thread calls `beat` in each round, and `rest` before it waits for work. It is dead when its
    thread has ended, stuck when `within` seconds of work passed without a beat, and failing after
    `TOO_MANY` faults in a row.
    """

    def __init__(self, name: str, *, within: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name = name
        self.within = within
        self.thread: threading.Thread | None = None
        self._now = clock.now
        self._last = self._now()
        self._works = False
        self._faults = 0

    def beat(self) -> None:
        """Record that a round begins or makes progress."""
        self._last = self._now()
        self._works = True

    def rest(self) -> None:
        """Record that the thread waits for work: until the next beat it cannot be stuck."""
        self._works = False

    def succeeded(self) -> None:
        """Record that a round ended without a fault; resets the count of faults."""
        self._faults = 0

    def failed(self) -> None:
        """Record that a round ended with a fault."""
        self._faults += 1

    @property
    def problem(self) -> str | None:
        """The problem of the part: `dead` if its thread has ended, `stuck` if it works without a
        beat for longer than `within`, `failing` after `TOO_MANY` faults in a row; None if it is
        well.
        """
        if self.thread is not None and not self.thread.is_alive():
            return "dead"
        if self._works and self._now() - self._last > self.within:
            return "stuck"
        return "failing" if self._faults >= TOO_MANY else None


class Parts:
    """The parts of one process that must be alive; safe in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: list[Part] = []

    def add(self, part: Part) -> None:
        """Watch `part` from now on, also beside others of the same name."""
        with self._lock:
            # A new list, since `problems` goes through the old one without the lock.
            self._parts = [*self._parts, part]

    def remove(self, part: Part) -> None:
        """Stop watching a part that ends as intended; nothing happens if it is not watched."""
        with self._lock:
            # Not by name: while a log is replaced, there are two.
            self._parts = [each for each in self._parts if each is not part]

    @property
    def problems(self) -> dict[str, str | None]:
        """The problem of each part by name; None for a part that is well. Of several parts with one
        name it is that of the first that has one.
        """
        with self._lock:
            parts = self._parts
        problems: dict[str, str | None] = {}
        for part in parts:
            problems[part.name] = problems.get(part.name) or part.problem
        return problems


class SignalSafeEvent(threading.Event):
    """An event that a signal handler may set, and for which one thread waits.

    A handler interrupts its thread anywhere, also while it waits and holds the lock of an ordinary
    event: taking that lock would block for ever. This event takes no lock.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_told = False
        # Its `put` may interrupt another call of it, as Python documents.
        self._bell: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_told

    def set(self) -> None:
        # First, so that a thread which the bell wakes finds the event set.
        self._is_told = True
        self._bell.put(None)

    def clear(self) -> None:
        """Reset the event; the next `wait` blocks again."""
        self._is_told = False
        with suppress(Empty):
            while True:
                self._bell.get_nowait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most `timeout` seconds; return True if it is set."""
        if not self._is_told:
            with suppress(Empty):
                self._bell.get(timeout=timeout)
        return self._is_told


def repeat(
    step: Callable[[], bool],
    edge: Edge,
    *,
    stop: threading.Event,
    part: Part | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Call `step` until it returns False or `stop` is set; exceptions are reported to `edge`, not
    raised.

    After a fault the next call follows after a pause, which doubles from `FIRST_PAUSE` to
    `LONGEST_PAUSE`; a success resets it. Results are recorded in `part`, if any.
    """
    pause = FIRST_PAUSE
    while not stop.is_set():
        try:
            if not step():
                return
        except FAULTS as fault:
            edge.report(fault)
            if part is not None:
                part.failed()
                part.rest()
            clock.wait(stop, pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        else:
            pause = FIRST_PAUSE
            if part is not None:
                part.succeeded()


def loop_thread(
    step: Callable[[], bool],
    edge: Edge,
    *,
    name: str,
    stop: threading.Event,
    part: Part | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> threading.Thread:
    """Return a daemon thread, not started, that calls `step` until it returns False or `stop` is
    set, with pauses after faults (`repeat`).
    """
    return threading.Thread(
        target=repeat,
        args=(step, edge),
        kwargs={"stop": stop, "part": part, "clock": clock},
        name=name,
        daemon=True,
    )
