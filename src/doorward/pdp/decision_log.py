"""Answered decisions become events, one line each, in OPA's shape and off the request's path.

A request's thread only puts what it knows into a queue, which is bounded in number and in bytes; a
thread of the log's own builds the event, asks the policies what to drop and mask, and writes. When
the queue is full the request waits for a moment. An event that still has no space, and each that
could not be masked or written, is counted by its reason and reported: nothing is lost in silence.

Order, as OPA's: drop (sees everything), then mask. Credentials are taken out before a mask policy's
own rules, so that a rule may put something in their place.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from doorward.edge import FAULTS, Edge, Part, Parts, repeat
from doorward.pdp.config import DecisionLogs
from doorward.pdp.decision import Decision, error_document
from doorward.pdp.hiding import hide_credentials
from doorward.pdp.log import Line, now, second_text
from doorward.pdp.masking import Mask, MaskError, apply, read_masks
from doorward.pdp.snapshot import Snapshot
from doorward.rego import UNDEFINED, BuiltinError, EvaluationAborted, RegoError, Undefined, Value

__all__ = ["DecisionLog", "event_of"]

WAIT: Final = 0.02
"""Seconds that a request waits for a place in the queue before its event counts as lost."""

STUCK_AFTER: Final = 60.0
"""Seconds, and eight deadlines of the policies that mask and drop, in which a line is written."""

_BATCH: Final = 200
_BATCH_BYTES: Final = 1 << 20
"""Lines are written together up to so many of them, or up to so many bytes."""
_ENTRY: Final = 1024
"""Bytes that a decision takes besides its input and result."""
_REPORT_EVERY: Final = 1.0
_TYPE: Final = "openpolicyagent.org/decision_logs"
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("decision-log", "writing decision log events failed")
_EVENT: Final = Edge("decision-log-event", "making a decision log event failed")


class _LogError(Exception):
    """An event that may not be written; the message is OPA's."""


class _Entry(NamedTuple):
    decision: Decision
    input: Value | Undefined
    snapshot: Snapshot
    handler_ns: int | None
    request_context: Value | None
    time_ns: int
    size: int


class DecisionLog:
    """Writes events with `write` (bytes of whole lines) from a thread of its own."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        line: Line,
        *,
        labels: Mapping[str, str],
        options: DecisionLogs,
        on_lost: Callable[[str], object] = lambda _reason: None,
        parts: Parts | None = None,
    ) -> None:
        self._write = write
        self._line = line
        self._labels = dict(labels)
        self._options = options
        self._on_lost = on_lost
        self._queue: SimpleQueue[_Entry | None] = SimpleQueue()
        self._limit = options.buffer_size
        self._limit_bytes = options.buffer_bytes
        self._put_bytes = 0
        """Of all entries so far; `_taken_bytes`: of those that are not queued any more."""
        self._taken_bytes = 0
        self._lost: Counter[str] = Counter()
        self._unreported: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._reported = 0.0
        self._closed = False
        self._open = 0
        """Events that were taken from the queue, and are neither written nor lost yet."""
        self._ended = threading.Event()
        self._parts = parts or Parts()
        self._part = Part("decision-log", within=STUCK_AFTER)
        self._thread = threading.Thread(
            target=repeat,
            args=(self._step, _EDGE),
            kwargs={"stop": self._ended, "part": self._part},
            name="decision-log",
            daemon=True,
        )
        self._thread.start()
        self._part.thread = self._thread
        self._parts.add(self._part)

    @property
    def lost(self) -> Mapping[str, int]:
        """Events that were not written, by reason."""
        with self._lock:
            return dict(self._lost)

    def record(
        self,
        decision: Decision,
        input: Value | Undefined,
        snapshot: Snapshot,
        *,
        handler_ns: int | None = None,
        request_context: Value | None = None,
        size: int = 0,
    ) -> None:
        """Queue one answered decision, whose input and result take `size` bytes."""
        entry = _Entry(
            decision, input, snapshot, handler_ns, request_context, time.time_ns(), size + _ENTRY
        )
        if self._closed:
            self._lose("closed")
        elif reason := self._refusal(entry) and self._refusal_after_a_while(entry):
            self._lose(reason)

    def _refusal(self, entry: _Entry) -> str:
        """Queue `entry`, or say why there is no room for it."""
        with self._lock:
            if self._queue.qsize() >= self._limit:
                return "queue_full"
            waiting = self._put_bytes - self._taken_bytes
            # One that is larger than the limit waits alone.
            if waiting and waiting + entry.size > self._limit_bytes:
                return "queue_bytes"
            self._put_bytes += entry.size
            self._queue.put(entry)
        return ""

    def _refusal_after_a_while(self, entry: _Entry) -> str:
        until = time.monotonic() + WAIT
        while True:
            time.sleep(WAIT / 20)
            reason = self._refusal(entry)
            if not reason or time.monotonic() >= until:
                return reason

    def close(self, timeout: float = 5.0) -> None:
        """Write what is queued, for `timeout` seconds at most; the rest is counted as lost."""
        if self._closed:
            return
        self._closed = True
        self._parts.remove(self._part)
        self._queue.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            # What is being written may still get through; the mark for the end is no event.
            for _ in range(self._open + self._queue.qsize() - 1):
                self._lose("shutdown")
        self._report(at_once=True)

    def _lose(self, reason: str) -> None:
        with self._lock:
            self._lost[reason] += 1
            self._unreported[reason] += 1
        self._on_lost(reason)

    def _report(self, *, at_once: bool = False) -> None:
        if not self._unreported or (
            not at_once and time.monotonic() - self._reported < _REPORT_EVERY
        ):
            return
        self._reported = time.monotonic()
        with self._lock:
            lost, self._unreported = self._unreported, Counter()
        _log.error(
            "Decision log events lost", extra={"plugin": "decision_logs", "lost": dict(lost)}
        )

    def _step(self) -> bool:
        """Write what waits, or wait a moment for something; False at the end."""
        self._part.rest()
        try:
            entry = self._queue.get(timeout=_REPORT_EVERY)
        except Empty:
            self._report()
            return True
        try:
            return self._write_from(entry)
        finally:
            # None is left but after a fault.
            for _ in range(self._open):
                self._lose("fault")
            self._open = 0
            self._report()

    def _write_from(self, entry: _Entry | None) -> bool:
        """Write the events from `entry` on; whether there will be more."""
        lines: list[bytes] = []
        size = 0
        while entry is not None:
            self._part.beat()
            self._open += 1
            self._taken_bytes += entry.size
            line = self._line_of(entry)
            if line is not None:
                lines.append(line)
                size += len(line)
            if len(lines) >= _BATCH or size >= _BATCH_BYTES or self._queue.empty():
                break
            entry = self._queue.get()
        self._put_out(lines)
        return entry is not None

    def _put_out(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self._part.beat()
        try:
            self._write(b"".join(lines))
        except (OSError, ValueError):
            for _ in lines:
                self._lose("write")
        self._open -= len(lines)

    def _line_of(self, entry: _Entry) -> bytes | None:
        """The line of an event; None for one that is dropped, or lost."""
        try:
            event = self._event(entry)
            if event is None:
                self._open -= 1
                return None
            event["time"] = now()
            return self._written(event)
        except _LogError as error:
            _log.error(str(error), extra={"plugin": "decision_logs"})
        except FAULTS as fault:
            _EVENT.report(fault, plugin="decision_logs")
        self._open -= 1
        self._lose("event")
        return None

    def _written(self, event: dict[str, Any]) -> bytes:
        """The line of an event; without its documents where they nest too deep to be written."""
        try:
            return self._line(event)
        except (BuiltinError, EvaluationAborted):
            documents = [name for name in ("input", "result") if name in event]
            kept = {name: value for name, value in event.items() if name not in documents}
            kept["erased"] = [*kept.get("erased", ()), *[f"/{name}" for name in documents]]
            return self._line(kept)

    def _event(self, entry: _Entry) -> dict[str, Any] | None:
        event = event_of(entry.decision, entry.input, self._labels, entry.time_ns)
        if entry.snapshot.bundles:
            event["bundles"] = entry.snapshot.bundles
        if entry.request_context is not None:
            event["request_context"] = entry.request_context
        try:
            if self._drops(entry.snapshot, event):
                return None
        except RegoError as error:
            raise _LogError(f"Log drop decision failed: {_first(error)}.") from None
        try:
            masks = self._masks(entry.snapshot, event)
        except (RegoError, MaskError) as error:
            raise _LogError(f"Log event masking failed: {_first(error)}.") from None
        if self._options.mask_credentials:
            event = hide_credentials(event)
        if masks:
            event = apply(event, masks)
        event["metrics"] = entry.decision.metrics
        if entry.handler_ns is not None:
            event["metrics"]["timer_server_handler_ns"] = entry.handler_ns
        return event | {"level": "info", "msg": "Decision Log", "type": _TYPE}

    def _drops(self, snapshot: Snapshot, event: dict[str, Any]) -> bool:
        path = self._options.drop_decision
        return bool(path) and snapshot.document(path).answer(event) is True

    def _masks(self, snapshot: Snapshot, event: dict[str, Any]) -> list[Mask]:
        path = self._options.mask_decision
        rules = snapshot.document(path).answer(event) if path else UNDEFINED
        return [] if isinstance(rules, Undefined) else read_masks(rules)


def event_of(
    decision: Decision, input: Value | Undefined, labels: Mapping[str, str], time_ns: int
) -> dict[str, Any]:
    """The event as drop and mask policies see it."""
    event: dict[str, Any] = {
        "decision_id": decision.decision_id,
        "labels": dict(labels),
        "timestamp": _timestamp(time_ns),
    }
    if decision.batch_decision_id:
        event["batch_decision_id"] = decision.batch_decision_id
    if decision.query is not None:
        event["query"] = decision.query
    elif decision.path:
        event["path"] = decision.path
    if not isinstance(input, Undefined):
        event["input"] = input
    if decision.error is not None:
        event["error"] = error_document(decision.error)
    elif not isinstance(decision.result, Undefined):
        event["result"] = decision.result
    return event


def _timestamp(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{second_text(seconds)}{fraction}Z"


def _first(error: Exception) -> str:
    return str(error.diagnostics[0]) if isinstance(error, RegoError) else str(error)
