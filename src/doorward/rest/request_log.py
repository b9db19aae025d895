"""One line of the log for each answered request, in OPA's words, off the request's path.

A request puts what it knows into a queue, which is bounded; a thread writes what has gathered in a
moment. A line that has no room is counted and said. Bodies and queries are never written: they may
hold secrets.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from time import time_ns
from typing import Any, Final

from doorward.edge import Edge, Part, Parts, loop_thread
from doorward.telemetry.log import Line, Stamp, address_text

__all__ = ["RequestLog"]

GATHER: Final = 0.05
"""Seconds for which lines are collected before they are written together."""
MAX_WAITING: Final = 20_000
"""The largest number of lines that wait to be written; further ones are lost and counted."""
STUCK_AFTER: Final = 60.0
_BATCH: Final = 1_000
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("request-log", "writing the log of requests failed")

_Entry = tuple[int, int, str, str, str, int, int, float]


class RequestLog:
    """Logs answered requests from a thread of its own.

    `write` gets the bytes of whole lines, `line` formats an entry, `stamp` a time.
    """

    def __init__(
        self, write: Callable[[bytes], object], line: Line, stamp: Stamp, *, parts: Parts
    ) -> None:
        """Start the thread and register it with `parts`, which report it if it is stuck."""
        self._write = write
        self._line = line
        self._stamp = stamp
        self._entries: deque[_Entry] = deque()
        self._numbers = itertools.count(1)
        self._lost = 0
        self._losing = threading.Lock()
        """Held while the number of lost lines changes."""
        self._stop = threading.Event()
        self._waits = threading.Event()
        self._parts = parts
        self._part = Part("request-log", within=STUCK_AFTER)
        self._thread = loop_thread(
            self._step, _EDGE, name="request-log", stop=self._stop, part=self._part
        )
        self._thread.start()
        self._part.thread = self._thread
        parts.add(self._part)

    def number(self) -> int:
        """Return the number of the next request, for `note` and for the decisions of that
        request.
        """
        return next(self._numbers)

    def note(
        self,
        number: int,
        client: Any,
        method: str,
        path: str,
        status: int,
        size: int,
        seconds: float,
    ) -> None:
        """Queue the line of an answered request; it is counted as lost if too many lines wait.

        `client` is the address of its socket, `path` as it was sent without query, `size` the body
        bytes of the answer.
        """
        entries = self._entries
        # Without a lock: threads that come at the same time exceed the limit by a line each.
        if len(entries) >= MAX_WAITING:
            with self._losing:
                self._lost += 1
            return
        entry = time_ns(), number, address_text(client), method, path, status, size, seconds
        entries.append(entry)
        # `set` takes a lock and `is_set` none, and mostly the thread is awake already.
        if not self._waits.is_set():
            self._waits.set()

    def close(self, timeout: float = 5.0) -> None:
        """End the thread, waiting at most `timeout` seconds, and write the lines that wait; they
        are lost if the thread still runs then.
        """
        self._parts.remove(self._part)
        self._stop.set()
        self._waits.set()
        self._thread.join(timeout)
        # Never beside the thread: two writers would mix the order of lines.
        if not self._thread.is_alive():
            self._write_waiting()

    def _step(self) -> bool:
        """Wait for entries, let more gather for `GATHER` seconds, and write them; False once
        stopped.
        """
        self._part.rest()
        self._waits.wait()
        # Not `sleep`: `close` ends the wait.
        self._stop.wait(GATHER)
        # Before the lines are taken: one that comes now sets it again, and is not left waiting.
        self._waits.clear()
        self._part.beat()
        self._write_waiting()
        return not self._stop.is_set()

    def _write_waiting(self) -> None:
        """Write all waiting lines, in batches of at most `_BATCH`, and log how many were dropped
        since the last call. Never called by two threads at the same time.
        """
        entries = self._entries
        while entries:
            batch = [entries.popleft() for _ in range(min(len(entries), _BATCH))]
            self._write(b"".join(map(self._text, batch)))
        with self._losing:
            lost, self._lost = self._lost, 0
        if lost:
            _log.error(
                "Lines of the request log were dropped: too many waited to be written.",
                extra={"lost": lost},
            )

    def _text(self, entry: _Entry) -> bytes:
        """Return the log line of a request, with OPA's field names; the duration is in
        milliseconds.
        """
        when, number, client, method, path, status, size, seconds = entry
        return self._line(
            {
                "client_addr": client,
                "level": "info",
                "msg": "Sent response.",
                "req_id": number,
                "req_method": method,
                "req_path": path,
                "resp_bytes": size,
                "resp_duration": round(seconds * 1000, 6),
                "resp_status": status,
                "time": self._stamp(when),
            }
        )
