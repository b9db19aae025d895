"""The guarded edge: what nobody expected is logged, counted and answered, and ends no thread.

Code names the exceptions that it expects. What comes besides (a defect of ours, a built-in of a
user, memory that ran out) is caught at a few edges, which `tests/test_house_rules.py` lists: one
around each decision, each request, each round of a thread. An edge catches `FAULTS`, reports to its
`Edge`, and continues with what is safe: a denial, the old snapshot, the next round.

    _EDGE = Edge("decide", "evaluation failed")
    try:
        result = query.value(input)
    except FAULTS as fault:
        error = DecisionError(_EDGE.report(fault))

What is caught:

- `Exception`, and with it `MemoryError` and `RecursionError`: once the stack is unwound to the
  edge, the memory and the frames are free again, and the next request can be served.
- `SystemExit` and `KeyboardInterrupt`, but not in the main thread: there somebody ends the
  process, and `report` raises them again. In any other thread they come from a built-in, and mean
  no more than other faults.
- Not `CancelledError` and `GeneratorExit`: they belong to the event loop and to generators.

`Part` says whether a thread is still at work; `Parts` is what `/health` asks.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Final

__all__ = ["FAULTS", "Edge", "Part", "Parts", "SignalSafeEvent", "counts", "loop_thread", "repeat"]

FAULTS: Final = (Exception, KeyboardInterrupt, SystemExit)
"""What an edge catches, and hands to `Edge.report` at once."""

QUIET: Final = 1.0
"""Seconds between two lines in the log of one edge: requests can cause them."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
"""Seconds that `repeat` waits after a fault: they double from the first to the longest."""
TOO_MANY: Final = 3
"""Faults in a row from which a part counts as failing."""

_HEAD, _TAIL = 5, 20
_STOPS: Final = (KeyboardInterrupt, SystemExit)
_log: Final = logging.getLogger(__name__)


class Edge:
    """One kind of edge, by its name: counts what is caught there, and logs where it was raised."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self.count = 0
        self._message = message
        self._lock = threading.Lock()
        self._quiet_until = 0.0
        self._suppressed = 0
        _edges.append(self)

    def report(self, fault: BaseException, **fields: object) -> str:
        """Count `fault` and log its traceback; what may be said of it to those outside.

        The text of an exception may quote what a client sent: neither the log nor the answer holds
        it. Raises nothing but a fault that ends the process.
        """
        if isinstance(fault, _STOPS) and threading.current_thread() is threading.main_thread():
            raise fault
        kind = type(fault).__name__
        suppressed = self._note()
        if suppressed is not None:
            self._say(kind, fault.__traceback__, suppressed, fields)
        return f"internal error ({kind})"

    def _note(self) -> int | None:
        """Count one more; how many were left out of the log since the last, or None: so is this."""
        now = monotonic()
        with self._lock:
            self.count += 1
            if now < self._quiet_until:
                self._suppressed += 1
                return None
            self._quiet_until = now + QUIET
            suppressed, self._suppressed = self._suppressed, 0
            return suppressed

    def _say(
        self, kind: str, raised: TracebackType | None, suppressed: int, fields: dict[str, object]
    ) -> None:
        """Log a fault with the location of its traceback; nothing is raised if that fails."""
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
    """`file:line function` from the edge to the fault, without the source, which may hold secrets.

    Of a deep recursion the middle is left out.
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
    """A thread that must stay alive, and at work, for the process to be healthy.

    The thread calls `beat` in each round, and `rest` before it waits for something to do. It is
    dead when its thread ended, stuck when it works and `within` seconds passed without a beat, and
    failing after `TOO_MANY` faults in a row.
    """

    def __init__(self, name: str, *, within: float) -> None:
        self.name = name
        self.within = within
        self.thread: threading.Thread | None = None
        self._last = monotonic()
        self._works = False
        self._faults = 0

    def beat(self) -> None:
        """Say that a round begins, or has got further."""
        self._last = monotonic()
        self._works = True

    def rest(self) -> None:
        """Say that there is nothing to do: until the next beat the part cannot be late."""
        self._works = False

    def succeeded(self) -> None:
        """A round ended as it should."""
        self._faults = 0

    def failed(self) -> None:
        """A round ended with a fault."""
        self._faults += 1

    @property
    def problem(self) -> str | None:
        """`dead`, `stuck` or `failing`; None while all is well."""
        if self.thread is not None and not self.thread.is_alive():
            return "dead"
        if self._works and monotonic() - self._last > self.within:
            return "stuck"
        return "failing" if self._faults >= TOO_MANY else None


class Parts:
    """The parts of one process that must be alive; safe in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, Part] = {}

    def add(self, part: Part) -> None:
        """Watch `part` from now on."""
        with self._lock:
            self._parts[part.name] = part

    def remove(self, part: Part) -> None:
        """Stop watching `part`, which ended as intended."""
        with self._lock:
            self._parts.pop(part.name, None)

    @property
    def problems(self) -> dict[str, str | None]:
        """The problem of each part, or None, by name."""
        with self._lock:
            parts = list(self._parts.values())
        return {part.name: part.problem for part in parts}


class SignalSafeEvent(threading.Event):
    """An event that the handler of a signal may set, and for which one thread waits.

    A handler interrupts its thread anywhere, where that waits as well: to take the lock of an
    ordinary event there is to wait for ever. This one takes none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_told = False
        self._bell: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_told

    def set(self) -> None:
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
    step: Callable[[], bool], edge: Edge, *, stop: threading.Event, part: Part | None = None
) -> None:
    """Call `step` until it returns False or `stop` is set, whatever it raises.

    After a fault it is called again, later each time: a thread never ends because of one, and a
    fault that stays does not take the processor.
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
            stop.wait(pause)
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
) -> threading.Thread:
    """A thread, not started, that runs `step` in `repeat` and does not keep the process alive."""
    return threading.Thread(
        target=repeat,
        args=(step, edge),
        kwargs={"stop": stop, "part": part},
        name=name,
        daemon=True,
    )
