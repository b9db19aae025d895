"""Candidate policies beside the active ones: a thread decides the same requests with them.

    PDP ─record─▶ queue ─its own thread─▶ candidate ─compare─▶ counters, a line in the log

A request only appends to a queue. The thread uses at most a `share` of one processor. A decision
that waits too long, or that finds the queue full, is dropped and counted. The candidate has no
access to other services: a decision that needs `http.send` or a random number is counted as not
comparable.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from doorward.config.configuration import Shadow as ShadowOptions
from doorward.edge import Edge, Part, Parts, loop_thread
from doorward.pdp.decision import Answered
from doorward.replay.causes import cause_of
from doorward.replay.compare import UNCHANGED, kind_of
from doorward.replay.deciding import Version, comparable, recorded_answer
from doorward.replay.events import Event
from doorward.telemetry.rate_limited_log import RateLimitedLog

__all__ = ["Shadow"]

STUCK_AFTER: Final = 60.0
"""The shadow thread counts as stuck if one decision takes longer than this many seconds."""
MAX_PENDING: Final = 200
"""The maximum number of recent differences in `Shadow.document`."""
_ROUND: Final = 1.0
"""The time in seconds that the thread waits for work before it reports that it is alive."""
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("shadow", "a decision of the candidate policies failed")


class Shadow:
    """Decides the requests that the active policies answer once more, with the candidate policies,
    and compares both answers; `observe` can be called by any number of threads.
    """

    def __init__(
        self,
        candidate: Version,
        options: ShadowOptions,
        *,
        on_kind: Callable[[str], object],
        on_dropped: Callable[[str], object],
        parts: Parts | None = None,
    ) -> None:
        """Start the thread that decides with the candidate.

        `on_kind` is called with the kind of each comparison, `on_dropped` with the reason for each
        decision that was not compared.
        """
        self._candidate = candidate
        self._options = options
        self._on_kind = on_kind
        self._on_dropped = on_dropped
        self._kinds: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._differences: deque[dict[str, Any]] = deque(maxlen=MAX_PENDING)
        self._queue: deque[tuple[Answered, float]] = deque()
        self._waits = threading.Event()
        self._stop = threading.Event()
        self._quiet = RateLimitedLog()
        self._parts = parts or Parts()
        self._part = Part("shadow", within=STUCK_AFTER)
        self._thread = loop_thread(
            self._round, _EDGE, name="shadow", stop=self._stop, part=self._part
        )
        self._part.thread = self._thread
        self._parts.add(self._part)
        self._thread.start()

    def observe(self, answered: Answered) -> None:
        """Queue an answered decision, or count it as dropped (`busy`) if the queue is full. Returns
        at once.
        """
        # Several threads may pass the check together: the bound is the number of threads off.
        if len(self._queue) >= self._options.queue:
            self._drop("busy")
            return
        self._queue.append((answered, time.monotonic()))
        self._waits.set()

    def close(self) -> None:
        """Stop the thread, and wait at most `_ROUND` seconds for its end. Queued decisions are
        discarded.
        """
        self._parts.remove(self._part)
        self._stop.set()
        self._waits.set()
        self._thread.join(_ROUND)

    def _round(self) -> bool:
        """Wait at most `_ROUND` seconds for decisions, and decide those in the queue with the
        candidate. Pauses after each, so that this thread uses at most `share` of a processor.
        Return True to be called again, False when stopped.
        """
        self._part.rest()
        if not self._waits.wait(_ROUND):
            return True
        # Before the queue is read: a decision that comes meanwhile sets it again.
        self._waits.clear()
        while self._queue and not self._stop.is_set():
            self._part.beat()
            began = time.thread_time()
            self._decide(*self._queue.popleft())
            spent = time.thread_time() - began
            # A pause that makes the work `share` of the time of both.
            self._stop.wait(spent * (1 / self._options.share - 1))
        return not self._stop.is_set()

    def _decide(self, answered: Answered, since: float) -> None:
        """Decide one event with the candidate and count the kind of difference; a change is also
        logged and stored. A decision that was queued (`since`, of the monotonic clock) too long ago
        is counted as dropped (`late`).
        """
        if time.monotonic() - since > self._options.max_age:
            self._drop("late")
            return
        decision = answered.decision
        custom = decision.custom or {}
        # The input of other decisions is complete here; only of a response the body is missing.
        hidden = tuple(decision.erased) if "response" in custom else ()
        event = Event(
            decision.decision_id,
            decision.path,
            decision.query or "",
            answered.input,
            decision.result,
            decision.error is not None,
            answered.time_ns,
            hidden,
            {},
            {"response": custom["response"]} if "response" in custom else {},
        )
        before = recorded_answer(event)
        now = comparable(event, self._candidate.answer(event))
        kind = kind_of(before, now)
        self._on_kind(kind)
        self._kinds[kind] += 1
        if kind not in (UNCHANGED, "not-replayable"):
            self._report(event, kind)

    def _report(self, event: Event, kind: str) -> None:
        """Store a difference, find its cause, and log it without its input. Only the first
        difference of a kind and path in each second is logged and gets a cause; the others are only
        stored.
        """
        more = self._quiet.suppressed(f"{kind} {event.path}")
        if more is None:
            self._keep(event, kind)
            return
        cause = cause_of(kind, None, self._candidate.trail(event), frozenset())
        fields = {
            "decision_id": event.decision_id,
            "path": event.path or event.query,
            "kind": kind,
            "rule": cause.rule,
            "cause": cause.text,
            "more": more,
        }
        self._keep(event, kind, cause.rule, cause.text)
        _log.info("The candidate policies decide a request differently.", extra=fields)

    def _keep(self, event: Event, kind: str, rule: str = "", cause: str = "") -> None:
        """Add a difference to the recent ones; the oldest of more than `MAX_PENDING` is dropped."""
        self._differences.append(
            {
                "id": event.decision_id,
                "time_ms": (event.time_ns or 0) // 1_000_000,
                "path": event.path or event.query,
                "kind": kind,
                "rule": rule,
                "cause": cause,
            }
        )

    def _drop(self, reason: str) -> None:
        self._on_dropped(reason)
        self._dropped[reason] += 1

    def document(self) -> dict[str, Any]:
        """Return a document for JSON: the candidate's revision, counts since the start by kind and
        of dropped decisions by reason, and the recent differences, newest first. Some of these have
        an empty cause, since it was not computed.
        """
        return {
            "candidate": self._candidate.snapshot.revision,
            "kinds": dict(self._kinds),
            "dropped": dict(self._dropped),
            "differences": list(self._differences)[::-1],
        }
