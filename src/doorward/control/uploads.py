"""Decision logs to a service, as OPA sends them: chunks of events, with delays and a bound.

    lines of the decision log -> ChunkEncoder -> Outbox -> request, by a few threads -> gone

Nothing of this delays a decision. A slow service gets several requests at once; after a failure the
same chunk is sent again later. Events for which there is no room are counted by reason.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from doorward.base.clock import SYSTEM_CLOCK, Clock
from doorward.config.upload_options import UploadOptions
from doorward.control.answers import Client, ServiceError, status_text
from doorward.control.bundles import backoff, choose_delay
from doorward.control.chunks import Chunk, ChunkEncoder
from doorward.control.deliveries import count_rejected, delivery_of
from doorward.control.outbox import DiskOutbox, MemoryOutbox, Outbox
from doorward.edge import Edge, Part, Parts, loop_thread

__all__ = ["Uploads"]

# One at a time, a service that takes 200 ms would get five chunks a second.
THREADS: Final = 4
"""The most chunks that are sent at the same time."""
# Longer than one request may take (`answers.WITHIN`).
_WITHIN: Final = 1000.0
"""The seconds after which an upload without progress counts as stuck in `/health`."""
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("decision-log-upload", "sending decision logs failed")
_FIELDS: Final = {"plugin": "decision_logs"}


class _UploadError(Exception):
    """A service did not accept a chunk; `status` is that of its response, None without one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Uploads:
    """Sends events to one service. `write` is for one thread, all other methods for any."""

    def __init__(
        self,
        options: UploadOptions,
        client: Client,
        *,
        on_lost: Callable[[str, int], object] = lambda _reason, _count: None,
        on_status: Callable[[Mapping[str, Any]], object] = lambda _status: None,
        parts: Parts | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare uploads to the service of `client`; `start` begins them.

        `on_lost` is called with a reason and a number of lost events; `on_status` with the outcome
        of each attempt, {} after a success. SpoolError if the folder of the spool cannot be used.
        """
        self.options = options
        self._clock = clock
        self._client = client
        self._on_lost = on_lost
        self._on_status = on_status
        self._encoder = ChunkEncoder(options.chunk_bytes)
        self._events: deque[bytes] = deque()
        """The events that are not encoded yet, with the buffer type `event`."""
        self._encoding = threading.Lock()
        """Held while events move: into the queue, out of it, and through the encoder."""
        self._outbox = self._make_outbox()
        self._allowed = max(options.rate or 0.0, 1.0)
        self._counted = clock.now()
        self._failures = 0
        self._failed = False
        self._has_ended = False
        self._due = threading.Event()
        self._stop = threading.Event()
        self._flushes = threading.Event()
        self._draining = 0
        """The number of threads that send chunks now."""
        self._drained = threading.Condition()
        self._parts = parts or Parts()
        self._part = Part("decision-log-upload", within=_WITHIN, clock=clock)
        self._threads: list[threading.Thread] = []

    def _make_outbox(self) -> Outbox:
        """Return the outbox of the configuration: on disk if a spool folder is set, otherwise in
        memory.
        """
        options = self.options
        if not options.spool:
            return MemoryOutbox(options.buffer_bytes)
        return DiskOutbox(
            options.spool, options.spool_bytes, encode=self._encode, on_lost=self._on_lost
        )

    def start(self) -> None:
        """Start the threads that send chunks, of which `/health` watches the first one: it decides
        when an upload begins, the others only help to send.
        """
        for number in range(THREADS):
            # Only the first thread decides when to send; the others help it to empty the outbox.
            target = self._lead if number == 0 else self._help
            part = self._part if number == 0 else None
            thread = loop_thread(
                target,
                _EDGE,
                name=f"decision-log-upload-{number}",
                stop=self._stop,
                part=part,
                clock=self._clock,
            )
            self._threads.append(thread)
            thread.start()
        self._part.thread = self._threads[0]
        self._parts.add(self._part)

    # What comes from the decision log

    def write(self, lines: Sequence[bytes]) -> None:
        """Queue events, each a JSON text without line breaks. Events above the rate are lost and
        counted; above the buffer's limit the oldest ones are. With the trigger `immediate`, a full
        chunk wakes the thread that sends. OSError if the spool's journal cannot be written.
        """
        lines = self._within_rate(lines)
        if not lines:
            return
        if self.options.buffer_type == "event" and not self.options.spool:
            # An upload takes events as well: it must not take those that are dropped here.
            with self._encoding:
                self._events.extend(lines)
                lost = len(self._events) - self.options.buffer_events
                # As in OPA, the oldest events are dropped.
                for _ in range(lost):
                    self._events.popleft()
            self._lose("buffer_size_limit_exceeded", lost)
            return
        with self._encoding:
            # First into the journal: what only the encoder has is lost if the process is killed.
            self._outbox.note(lines)
            # A list, as every line must be added, also after one that completes a chunk.
            if any([self._encoder.add(line) for line in lines]):
                self._put(self._encoder.flush())
                # Not in `_put`, which an upload calls as well: it would cause the next one.
                if self.options.trigger == "immediate":
                    self._due.set()

    def _within_rate(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the events that the rate limit allows now; the others are logged and counted as
        lost. Unused allowance accumulates for at most one second.
        """
        rate = self.options.rate
        if rate is None:
            return lines
        now = self._clock.now()
        # At least 1: at a rate below one event a second, no event would ever be allowed.
        self._allowed = min(self._allowed + (now - self._counted) * rate, max(rate, 1.0))
        self._counted = now
        taken = min(int(self._allowed), len(lines))
        self._allowed -= taken
        if taken < len(lines):
            _log.error(
                "Decision log dropped as rate limit exceeded. Reduce reporting interval or "
                "increase rate limit.",
                extra=_FIELDS,
            )
            self._lose("rate_limit_exceeded", len(lines) - taken)
        return lines[:taken]

    def _encode(self, lines: list[bytes]) -> list[Chunk]:
        """Compress events, which an earlier process left in a journal, and return them as
        chunks.
        """
        for line in lines:
            self._encoder.add(line)
        return self._encoder.flush()

    def _put(self, chunks: list[Chunk]) -> None:
        """Put chunks into the outbox; log and count the events that were dropped or are too
        large.
        """
        self._note_lost(self._outbox.put(chunks))
        if self._encoder.too_large:
            size, limit = self._encoder.too_large[0], self.options.chunk_bytes
            _log.error(
                f"Log encoding failed: received a decision event size ({size}) that exceeded the "
                f"upload_size_limit_bytes ({limit}). No ND cache to drop.",
                extra=_FIELDS,
            )
            self._lose("encoding_failure", len(self._encoder.too_large))
            self._encoder.too_large.clear()

    def _note_lost(self, events: int) -> None:
        """Log and count events that the outbox dropped; does nothing for 0."""
        if events > 0:
            _log.error(
                f"Dropped {events} events from buffer. Reduce reporting interval or increase "
                "buffer size.",
                extra=_FIELDS,
            )
            self._lose("buffer_size_limit_bytes_exceeded", events)

    def _lose(self, reason: str, events: int) -> None:
        if events > 0:
            self._on_lost(reason, events)

    # What goes to the service

    def _lead(self) -> bool:
        """Wait until the next upload is due, then send all events that wait, with the help of the
        other threads. It is due after a random delay, with the trigger `immediate` also when a
        chunk is full, and after a failure later each time. Return False, which ends the thread,
        once `close` is called; with a manual trigger just wait for that.
        """
        options = self.options
        self._part.rest()
        if options.trigger == "manual":
            self._stop.wait()
            return False
        if self._failed:
            pause = backoff(options.max_delay, self._failures - 1)
        else:
            pause = choose_delay(options.min_delay, options.max_delay)
        # After a failure a full chunk does not end the pause: the service would be asked at once,
        # again and again.
        if options.trigger == "immediate" and not self._failed:
            self._clock.wait(self._due, pause)
        else:
            self._clock.wait(self._stop, pause)
        self._due.clear()
        if self._stop.is_set():
            return False
        self._part.beat()
        self.send()
        return True

    def _help(self) -> bool:
        """Wait until an upload begins, and help to send its chunks. False after `stop`, which ends
        the thread.
        """
        self._flushes.wait()
        if self._stop.is_set():
            return False
        # A call of `send` between the two lines is not heard: then it sends all without this
        # thread.
        self._drain()
        self._flushes.clear()
        return True

    def send(self) -> bool:
        """Send all events that wait, and what closed outboxes of the folder have left, now,
        together with the other threads; return True if no chunk failed. Waits for the chunks that
        other threads send. The outcome is passed to `on_status`.
        """
        with self._encoding:
            # INVARIANT: under this lock. `adopt` encodes what others left, and empties the journal
            # of the events that the encoder holds (`DiskOutbox`).
            self._outbox.adopt()
            while self._events:
                if self._encoder.add(self._events.popleft()):
                    self._put(self._encoder.flush())
            self._put(self._encoder.flush())
        self._failed = False
        self._flushes.set()
        sent = self._drain()
        with self._drained:
            self._drained.wait_for(lambda: not self._draining)
        if not self._failed:
            self._failures = 0
            if sent:
                _log.info("Logs uploaded successfully.", extra=_FIELDS)
            self._on_status({})
        return not self._failed

    def _drain(self) -> int:
        """Send chunks until none is left or one fails in any thread; return how many this thread
        sent. A chunk that fails is put back, and the failure recorded.
        """
        with self._drained:
            self._draining += 1
        try:
            return self._send_chunks()
        finally:
            with self._drained:
                self._draining -= 1
                self._drained.notify_all()

    def _send_chunks(self) -> int:
        """Send chunks until none is left or one fails in any thread; return how many this thread
        sent. A chunk that fails is put back, and the failure recorded. The caller has counted this
        thread among those that send.
        """
        sent = 0
        # One failure stops all threads: the service would probably refuse the other chunks, too.
        while not self._failed and (taken := self._outbox.take()) is not None:
            self._part.beat()
            key, chunk = taken
            try:
                self._post(chunk)
            except _UploadError as error:
                self._give_back(key, chunk)
                self._note_failure(error)
                break
            self._outbox.done(key)
            sent += 1
        return sent

    def _give_back(self, key: object, chunk: Chunk) -> None:
        """Put back a chunk that was not sent; after the end, count its events as lost if they were
        only in memory.
        """
        with self._encoding:
            if self._has_ended and not self.options.spool:
                self._lose("shutdown", chunk.events)
            else:
                self._note_lost(self._outbox.give_back(key, chunk))

    def _post(self, chunk: Chunk) -> None:
        """Send a chunk to the service. Events that an accepted response rejects one by one are
        counted as lost. Raise _UploadError if there is no response or its status is not 2xx: the
        whole chunk counts as not sent.
        """
        method, path, headers, content = delivery_of(chunk, self.options)
        try:
            answer = self._client.request(method, path, headers=headers, content=content)
        except ServiceError as error:
            raise _UploadError(f"log upload failed: {error}") from None
        if not 200 <= answer.status < 300:
            text = status_text(answer.status)
            message = f"log upload failed, server replied with HTTP {answer.status} {text}"
            raise _UploadError(message, answer.status)
        self._lose("rejected", count_rejected(self.options, answer.body))

    def _note_failure(self, error: _UploadError) -> None:
        """Log the first failure of an upload and pass it to `on_status`; further ones of the same
        upload are ignored.
        """
        if self._failed:
            return
        self._failed = True
        self._failures += 1
        _log.error(f"{error}.", extra=_FIELDS)
        status: dict[str, Any] = {"code": "decision_log_error", "message": str(error)}
        if error.status is not None:
            status["http_code"] = error.status
        self._on_status(status)

    def close(self, timeout: float = 5.0) -> None:
        """Stop the threads, send what waits for at most `timeout` seconds unless the trigger is
        manual, and close the outbox. Events that are left stay on disk with a spool; without one
        they are counted as lost, a chunk that is still being sent once it fails.
        """
        self._parts.remove(self._part)
        self._stop.set()
        self._due.set()
        self._flushes.set()
        until = self._clock.now() + timeout
        for thread in self._threads:
            thread.join(max(until - self._clock.now(), 0.0))
        if self.options.trigger != "manual" and self._clock.now() < until:
            self._send_within(until - self._clock.now())
        left = 0
        with self._encoding:
            self._has_ended = True
            if not self.options.spool:
                left = len(self._events) + len(self._encoder)
                self._events.clear()
                self._encoder.flush()
                while (taken := self._outbox.take()) is not None:
                    left += taken[1].events
            self._outbox.close()
        self._lose("shutdown", left)

    def _send_within(self, seconds: float) -> None:
        """Send what waits, and wait for that for at most `seconds`."""
        # In a thread of its own: a service may keep a request for a quarter of an hour.
        late = threading.Event()

        def send() -> bool:
            """Send once; False, so that the thread ends."""
            self.send()
            return False

        thread = loop_thread(
            send, _EDGE, name="decision-log-upload-last", stop=late, clock=self._clock
        )
        thread.start()
        thread.join(seconds)
        late.set()
