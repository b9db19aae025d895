"""Answered decisions become events, one line each, in OPA's shape and outside of the request's
path.

A request's thread puts its decision into a queue, which is bounded in number and in bytes. Every
`_TURN`th of them builds the queued events, one after the other: passing each to another thread
costs more than building it, threads that compute side by side disturb each other, and a batch runs
the same code with warm caches. The log's own thread builds events that may take long (policies that
drop or mask, large documents), and the rest when no more requests arrive. It writes the lines that
have gathered in `GATHER` seconds; a crash may lose events of twice that time. If the queue is full,
the request waits for up to `WAIT` seconds, unless `when_full` is `drop`. An event that still has no
space, or could not be masked or written, is counted by its reason and reported: none is lost
without notice.

The order is OPA's: drop (on the unmasked event), then mask. Credentials are removed before the
rules of a mask policy are applied, so that a rule may replace them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from doorward.config.configuration import DecisionLogs
from doorward.decision_log.claims import claims_of
from doorward.decision_log.redaction.hiding import DOCUMENTS, hide_credentials
from doorward.decision_log.redaction.masking import Mask, MaskError, apply, as_json, read_masks
from doorward.decision_log.redaction.secret_texts import SecretTexts
from doorward.edge import FAULTS, Edge, Part, Parts, loop_thread
from doorward.pdp.decision import Answered, error_document
from doorward.pdp.rules import add_rules
from doorward.pdp.sizes import estimate_memory
from doorward.pdp.snapshot import Snapshot
from doorward.rego import UNDEFINED, BuiltinError, RegoError, Undefined, Value, to_json
from doorward.rego.shared import EvaluationAborted, Key
from doorward.telemetry.log import Line, Stamp, address_text, line_for, second_text, stamp_for

__all__ = ["DecisionLog", "EventSink", "event_of"]

WAIT: Final = 0.02
"""Seconds that a request waits for room in the queue before its event counts as lost."""

STUCK_AFTER: Final = 60.0
"""Seconds without progress after which the log's thread counts as stuck."""

GATHER: Final = 0.05
"""Seconds in which lines gather before they are written together."""

_TURN: Final = 32
"""The number of events that a request builds in its turn: less than a millisecond."""
_LARGE: Final = 16 * 1024
"""Bytes of input and result from which an event is built by the log's thread."""

_BATCH: Final = 1_000
_BATCH_BYTES: Final = 1 << 20
"""Lines are written together up to `_BATCH` of them, or up to so many bytes."""
_ENTRY: Final = 1024
"""The approximate memory of a queued decision besides its input and result, in bytes."""
_REPORT_EVERY: Final = 1.0
_TYPE: Final = "openpolicyagent.org/decision_logs"
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("decision-log", "writing decision log events failed")
_EVENT: Final = Edge("decision-log-event", "making a decision log event failed")


class _LogError(Exception):
    """An event that must not be written, as it could not be masked; the message is OPA's."""


class EventSink(Protocol):
    """A destination of events besides the console, each as a JSON text without a line break."""

    def write(self, lines: Sequence[bytes], /) -> None:
        """Write events; called from one thread. Raise OSError if that fails, and the events count
        as lost.
        """

    def close(self) -> None:
        """Release the sink; no more events follow."""


_Built: TypeAlias = tuple[bytes, bytes]
"""One event as a line for the console and as a text for the other sinks; b"" for one that is not
used.
"""


class _Batch(NamedTuple):
    """Events that were built together and wait to be written."""

    lines: bytes
    """The console's lines of all events that were neither dropped nor lost."""
    texts: list[bytes]
    """The same events for the other sinks; empty without any."""
    built: int
    taken: int
    size: int
    """The bytes with which the events counted in the queue."""


_TEXT: Final = line_for("json")


Note: TypeAlias = Callable[[Answered, Any, Any], Mapping[str, str]]
"""Returns what the console adds to an event, from the decision, its input after the masks of the
policy, and its masked result.
"""


class DecisionLog:
    """Builds events of decisions, and writes them to the console and the sinks from a thread of its
    own.
    """

    def __init__(
        self,
        write: Callable[[bytes], object] | None,
        line: Line,
        *,
        labels: Mapping[str, str],
        options: DecisionLogs,
        on_lost: Callable[[str], object] = lambda _reason: None,
        parts: Parts | None = None,
        sinks: Sequence[EventSink] = (),
        stamp: Stamp | None = None,
        trace: Callable[[str], tuple[str, str] | None] | None = None,
        secrets: Sequence[tuple[str, ...]] = (),
        note: Note | None = None,
    ) -> None:
        """Start the log's thread. `write` writes to the console; None: events go only to `sinks`.
        `line` and `stamp` format lines and times of the console. `on_lost` is called with the
        reason of each lost event. `trace` returns the ids of the current trace and span for a
        decision's id. `secrets` are paths of data whose values are removed from the answers of
        built-ins. `note` returns what the console adds to an event.
        """
        self._write = write
        self._line = line
        self._stamp = stamp or stamp_for("")
        self._sinks = tuple(sinks)
        self._trace = trace
        self._secrets = SecretTexts(secrets)
        self._note = note
        self._labels = dict(labels)
        self._options = options
        self._on_lost = on_lost
        self._queue: deque[Answered] = deque()
        """Decisions to build. Appended with `_lock` held, removed with `_building` held."""
        self._lines: deque[_Batch] = deque()
        self._building = threading.Lock()
        self._waits = threading.Event()
        self._is_urgent = threading.Event()
        self._limit = options.buffer_size
        self._limit_bytes = options.buffer_bytes
        self._put = self._put_bytes = 0
        """Entries queued so far, and their bytes. `_left` and `_left_bytes` have left the queues,
        counted by the log's thread: the differences are queued now."""
        self._left = self._left_bytes = 0
        self._turns = self._turns_seen = 0
        """Turns of requests so far, and those that the log's thread has seen: while they differ,
        requests build events."""
        self._lost: Counter[str] = Counter()
        self._unreported: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._reported = 0.0
        self._closed = False
        self._open = 0
        """The number of events that left the queues and are neither written nor lost yet."""
        self._ended = threading.Event()
        self._parts = parts or Parts()
        self._part = Part("decision-log", within=STUCK_AFTER)
        self._thread = loop_thread(
            self._step, _EDGE, name="decision-log", stop=self._ended, part=self._part
        )
        self._thread.start()
        self._part.thread = self._thread
        self._parts.add(self._part)

    @property
    def lost(self) -> Mapping[str, int]:
        """The number of events that were not written, by reason."""
        with self._lock:
            return dict(self._lost)

    def record(self, answered: Answered) -> None:
        """Queue an answered decision for the log. If the queue is full, wait for up to `WAIT`
        seconds (with `when_full: wait`), then count it as lost, as after `close`. May build some
        queued events on this thread.
        """
        if self._closed:
            self._lose("closed")
            return
        if answered.decision.builtins:
            size = answered.size + _size_of(answered.decision.builtins)
            answered = answered._replace(size=size)
        if self._trace is not None:
            trace = self._trace(answered.decision.decision_id)
            answered = answered._replace(trace=trace)
        reason = self._enqueue(answered)
        if reason and self._options.when_full == "wait":
            reason = self._wait_to_enqueue(answered)
        if reason:
            self._lose(reason)
        # Never waiting: while another thread builds, this request need not be held up.
        elif len(self._queue) >= _TURN and self._building.acquire(blocking=False):
            try:
                self._build_turn()
            finally:
                self._building.release()
            # While the last of them was built, nothing was queued: the log's thread may have
            # gone to sleep, and no later event would wake it.
            if not self._waits.is_set():
                self._waits.set()

    def _build_turn(self) -> None:
        """Build the queued events up to the first that may take long, at most `_TURN`; called with
        `_building` held.
        """
        queue, ready = self._queue, 0
        while ready < min(len(queue), _TURN) and not self._takes_long(queue[ready]):
            ready += 1
        if ready:
            self._turns += 1
            self._build(ready)

    def _takes_long(self, answered: Answered) -> bool:
        """Return True if only the log's thread may build the event: it is large, or policies drop
        or mask it.
        """
        return answered.size > _LARGE or self._has_policies(answered.snapshot)

    def _has_policies(self, snapshot: Snapshot) -> bool:
        """Return True if the snapshot has a policy that drops or masks events."""
        options = self._options
        return not (
            snapshot.is_nowhere(options.drop_decision)
            and snapshot.is_nowhere(options.mask_decision)
        )

    def _build(self, count: int) -> None:
        """Build the next `count` queued events into one batch; called with `_building` held. After
        a fault the batch contains those built so far.
        """
        built: list[_Built] = []
        taken = size = 0
        try:
            while taken < count:
                answered = self._queue.popleft()
                taken += 1
                size += answered.size + _ENTRY
                each = self._line_of(answered)
                if each is not None:
                    built.append(each)
        finally:
            # Together at once: the next events are built where these were, while that is cached.
            lines = b"".join([line for line, _ in built])
            texts = [text for _, text in built] if self._sinks else []
            self._lines.append(_Batch(lines, texts, len(built), taken, size))

    def _enqueue(self, answered: Answered) -> str:
        """Queue `answered`, wake the writer if need be, and return "". Otherwise return the reason:
        `queue_bytes` or `queue_full` without room (one larger than the limit of bytes is queued
        once no other waits), and `closed` after `close`.
        """
        with self._lock:
            # Here, too: the log may be closed while a request waits for room.
            if self._closed:
                return "closed"
            queued = self._put - self._left
            waiting = self._put_bytes - self._left_bytes
            # One that is larger than the limit waits alone.
            size = answered.size + _ENTRY
            is_large = waiting and waiting + size > self._limit_bytes
            if not is_large and queued < self._limit:
                self._put += 1
                self._put_bytes += size
                self._queue.append(answered)
                if not queued:
                    self._waits.set()
                elif queued * 2 > self._limit or waiting * 2 > self._limit_bytes:
                    self._is_urgent.set()
                return ""
        self._is_urgent.set()
        return "queue_bytes" if is_large else "queue_full"

    def _wait_to_enqueue(self, answered: Answered) -> str:
        """Try to queue `answered` for up to `WAIT` seconds; return "", or the reason if there was
        no room.
        """
        until = time.monotonic() + WAIT
        while True:
            time.sleep(WAIT / 20)
            reason = self._enqueue(answered)
            if not reason or reason == "closed" or time.monotonic() >= until:
                return reason

    def close(self, timeout: float = 5.0) -> None:
        """Write the queued events, for at most `timeout` seconds; the rest counts as lost, as do
        decisions recorded later. Closes the sinks. A second call does nothing.
        """
        with self._lock:
            if self._closed:
                return
            # First: what is recorded from now on is counted as lost, and waits for no thread.
            self._closed = True
        # Before it ends, since a thread that has ended counts as dead.
        self._parts.remove(self._part)
        self._waits.set()
        self._is_urgent.set()
        self._thread.join(timeout)
        # Of a batch that is being written some may still get through.
        built = sum([each.built for each in self._lines])
        for _ in range(self._open + built + len(self._queue)):
            self._lose("shutdown")
        for sink in self._sinks:
            sink.close()
        self._report(at_once=True)

    def _lose(self, reason: str) -> None:
        """Count a lost event under its reason, and call `on_lost`."""
        with self._lock:
            self._lost[reason] += 1
            self._unreported[reason] += 1
        self._on_lost(reason)

    def _report(self, *, at_once: bool = False) -> None:
        """Log the numbers of lost events since the last report, at most every `_REPORT_EVERY`
        seconds unless `at_once`.
        """
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
        """Write the events that are queued, or wait up to a second for one, and report; return
        False after `close`. Events that a fault leaves unfinished are counted as lost.
        """
        self._part.rest()
        if not self._waits.wait(_REPORT_EVERY):
            self._report()
            return True
        # The wait in which lines gather, cut short where the queue fills.
        is_urgent = self._is_urgent.wait(GATHER)
        # Read once: a round that began before `close` is not the last one.
        is_closed = self._closed
        if not is_closed:
            self._is_urgent.clear()
        # Before the queues are looked at: an event that comes later sets it again.
        self._waits.clear()
        # A thread that builds events while requests do takes the interpreter from them.
        builds = is_urgent or self._turns == self._turns_seen
        self._turns_seen = self._turns
        # No more than what is here, for the same reason.
        end = self._put
        try:
            while self._has_work(builds=builds, is_closed=is_closed):
                if self._left >= end and not is_closed:
                    break
                self._write_batch(builds=builds or is_closed)
        finally:
            # None is left but after a fault.
            for _ in range(self._open):
                self._lose("fault")
            self._open = 0
            if self._queue or self._lines or is_closed:
                self._waits.set()
            self._report()
        return not is_closed

    def _has_work(self, *, builds: bool, is_closed: bool) -> bool:
        """Return True if there are lines to write or, if `builds` or `is_closed`, events to build.
        With `is_closed`, False means that no thread has any event any more.
        """
        if not is_closed:
            return bool(self._lines or (self._queue and builds))
        # Those that a request builds are in neither queue meanwhile.
        with self._building:
            return bool(self._lines or self._queue)

    def _write_batch(self, *, builds: bool) -> None:
        """Build up to `_BATCH` queued events if `builds`; then write built events together,
        whichever thread built them, until `_BATCH` of them or about `_BATCH_BYTES` are taken.
        Called by the log's thread.
        """
        # The lock is taken once for each event, so that a request finds it free between two.
        for _ in range(min(len(self._queue), _BATCH) if builds else 0):
            self._part.beat()
            with self._building:
                if self._queue:
                    self._build(1)
        lines: list[bytes] = []
        texts: list[bytes] = []
        built = size = 0
        while self._lines and built < _BATCH and size < _BATCH_BYTES:
            each = self._lines.popleft()
            # Counted before they are written: a fault in between must not lose them without notice.
            self._open += each.built
            self._left += each.taken
            self._left_bytes += each.size
            lines.append(each.lines)
            texts += each.texts
            built += each.built
            size += each.size
        if built:
            self._part.beat()
            self._put_out(lines, texts)
        self._open = 0

    def _put_out(self, lines: list[bytes], texts: list[bytes]) -> None:
        """Write lines to the console, and texts to each sink even if another one fails. If any of
        them fails, each event of the batch counts as lost once.
        """
        puts: list[Callable[[], object]] = [partial(sink.write, texts) for sink in self._sinks]
        if self._write is not None:
            puts.insert(0, partial(self._write, b"".join(lines)))
        has_failed = False
        for put in puts:
            try:
                put()
            # A file that is closed raises ValueError.
            except (OSError, ValueError):
                has_failed = True
        if has_failed:
            for _ in range(self._open):
                self._lose("write")

    def _line_of(self, answered: Answered) -> _Built | None:
        """Build the event of a decision; None if it is dropped, or cannot be built and counts as
        lost.
        """
        try:
            event = self._build_event(answered)
            return None if event is None else self._build_line(event, answered.time_ns)
        except _LogError as error:
            _log.error(str(error), extra={"plugin": "decision_logs"})
        except FAULTS as fault:
            _EVENT.report(fault, plugin="decision_logs")
        self._lose("event")
        return None

    def _build_line(self, event: dict[str, Any], time_ns: int) -> _Built:
        """Return an event as a line for the console and as a text for the sinks; b"" for one that
        is not used. With a console, its own fields are added to `event`.
        """
        text = self._text(_TEXT, event).rstrip(b"\n") if self._sinks else b""
        if self._write is None:
            return b"", text
        # After the text for sinks, which has no fields of the console.
        event["level"], event["msg"], event["type"] = "info", "Decision Log", _TYPE
        event["time"] = self._stamp(time_ns)
        return self._text(self._line, event), text

    def _text(self, line: Line, event: dict[str, Any]) -> bytes:
        """Return the event as a line; if its documents cannot be written as JSON (too deep), they
        are removed and listed under `erased`.
        """
        try:
            return line(event)
        except (BuiltinError, EvaluationAborted):
            # The event is still logged, as a decision without an entry would be worse.
            return line(_without_documents(event))

    def _build_event(self, answered: Answered) -> dict[str, Any] | None:
        """Return the event of a decision as it is logged: without secrets, without what the mask
        policy hides and, with `mask_credentials`, without credentials; None if the drop policy
        drops it. Raise _LogError if one of the two policies fails.
        """
        event = event_of(answered, self._labels)
        if answered.snapshot.bundles:
            event["bundles"] = answered.snapshot.bundles
        context = answered.request_context
        if context is not None:
            if context.headers is not None:
                event["request_context"] = context.headers
            if context.number:
                event["req_id"] = context.number
                event["requested_by"] = address_text(context.client)
        if answered.trace is not None:
            event["trace_id"], event["span_id"] = answered.trace
        # Before the policies that drop and mask: these are a user's, and get no secret of
        # `secrets`.
        event = self._secrets.hide(event, answered.snapshot)
        masks: list[Mask] = []
        if self._has_policies(answered.snapshot):
            # What these policies read, and what paths of masks name, is the event as JSON: a set
            # that they took for an array would be logged without its mask.
            event = _as_json(event)
            if self._is_dropped(answered.snapshot, event):
                return None
            masks = self._masks(answered.snapshot, event)
        input = event.get("input", answered.input)
        if self._options.mask_credentials:
            event = hide_credentials(event)
        if masks:
            event = apply(event, masks)
        if self._options.claims:
            claims = claims_of(event, answered.input, answered.snapshot.engine.environment)
            if claims:
                event.setdefault("custom", {})["claims"] = claims
        if self._options.rules and answered.decision.marks is not None:
            add_rules(event, answered.decision.marks)
        if self._note is not None:
            # A token that is hidden by its name says who called; one that a policy masks does not.
            known = apply({"input": input}, masks).get("input")
            note = self._note(answered, known, event.get("result"))
            if note:
                event.setdefault("custom", {})["console"] = note
        metrics = event["metrics"] = answered.decision.metrics
        if context is not None and context.timers:
            metrics.update(context.timers)
        if answered.handler_ns is not None:
            metrics["timer_server_handler_ns"] = answered.handler_ns
        return event

    def _is_dropped(self, snapshot: Snapshot, event: dict[str, Any]) -> bool:
        """Return True if the drop policy is exactly `true` for the event; _LogError if it fails."""
        path = self._options.drop_decision
        try:
            # Only `true` drops an event: any other value of the policy keeps it.
            return bool(path) and snapshot.document(path).answer(event) is True
        except RegoError as error:
            raise _LogError(f"Log drop decision failed: {_first(error)}.") from None

    def _masks(self, snapshot: Snapshot, event: dict[str, Any]) -> list[Mask]:
        """Return the masks of the mask policy for the event; [] if no policy is configured or its
        document is undefined. Raise _LogError if the policy fails or its value is not valid.
        """
        path = self._options.mask_decision
        try:
            rules = snapshot.document(path).answer(event) if path else UNDEFINED
            return [] if isinstance(rules, Undefined) else read_masks(rules)
        except (RegoError, MaskError) as error:
            raise _LogError(f"Log event masking failed: {_first(error)}.") from None


def event_of(answered: Answered, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the unmasked event of a decision, without what `DecisionLog` adds to it, such as
    bundles, metrics and claims. Fields without a value are left out. Documents and labels are not
    copied.
    """
    decision, input = answered.decision, answered.input
    event: dict[str, Any] = {
        "decision_id": decision.decision_id,
        "labels": labels,
        "timestamp": _timestamp(answered.time_ns),
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
    if decision.builtins is not None:
        event["nd_builtin_cache"] = decision.builtins
    if decision.custom is not None:
        event["custom"] = dict(decision.custom)
    if decision.erased:
        event["erased"] = list(decision.erased)
    return event


def _as_json(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with its documents as JSON has them; the same object if they are so already.
    Those that cannot be converted are removed and listed under `erased`.
    """
    documents = {name: event[name] for name in DOCUMENTS if name in event}
    try:
        converted = as_json(documents)
    except (BuiltinError, EvaluationAborted, RecursionError):  # members of a set that are too deep
        return _without_documents(event)
    return event if converted is documents else event | converted


def _without_documents(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event without its documents, which are listed under `erased`."""
    documents = [name for name in DOCUMENTS if name in event]
    remaining = {name: value for name, value in event.items() if name not in documents}
    remaining["erased"] = [*remaining.get("erased", ()), *[f"/{name}" for name in documents]]
    return remaining


def _size_of(notes: Mapping[str, dict[Key, Value]]) -> int:
    """Estimate the memory of the answers of built-ins, in bytes; `_LARGE` if they cannot be written
    as JSON.
    """
    try:
        return sum(
            [estimate_memory(to_json(each).encode(errors="replace")) for each in notes.values()]
        )
    except (BuiltinError, EvaluationAborted):
        return _LARGE


def _timestamp(time_ns: int) -> str:
    """Return nanoseconds since the epoch as RFC 3339 in UTC, with as many digits of the second as
    needed: `2026-01-31T12:00:00.5Z`.
    """
    seconds, rest = divmod(time_ns, 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{second_text(seconds)}{fraction}Z"


def _first(error: Exception) -> str:
    """Return the text of an error; of a RegoError only its first diagnostic."""
    return str(error.diagnostics[0]) if isinstance(error, RegoError) else str(error)
