"""Worker processes: forked from one parent, watched, started again, and replaced together.

The parent forks while it has one thread, so that what it loaded is shared. Each worker has a
channel to it: the parent learns of a death by the end of the channel, and a worker that its parent
is gone.
A new generation of workers serves when all of them are prepared, or none of them ever does. What
the workers do, and what the messages say, is for the caller.
"""

from __future__ import annotations

import json
import logging
import os
import select
import selectors
import signal
import socket
import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import field
from time import monotonic
from typing import Any, Final, NoReturn, TypeAlias

from doorward.base.records import mutable
from doorward.edge import FAULTS, Edge

__all__ = ["Alarm", "Channel", "GenerationError", "Supervisor", "Work", "Worker", "run_child"]

SENDING: Final = 5.0
"""Seconds that sending a message may take."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0
"""The pauses in seconds before a dead worker is restarted: they double from the first to the
longest."""
STABLE: Final = 30.0
"""A worker that ran for this many seconds is restarted after the first pause again."""
PREPARING: Final = 60.0
"""Seconds that a generation of workers may take to prepare."""
SILENT: Final = 60.0
"""Seconds without a message after which a worker counts as stuck and is killed."""
LEAVING: Final = 3
"""The number of old generations that may still be ending when a new one begins."""
_EXTRA: Final = 5.0
"""Seconds after its grace at which a worker is killed."""
_ENDING: Final = 5.0
"""Seconds after SIGKILL at which a worker that has not ended is given up: the kernel may hold it
for as long as a disk or a network does not answer."""
_REAPING: Final = 0.05
"""Seconds between two looks at a worker that has not ended yet."""

_LENGTH: Final = struct.Struct(">I")
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("worker", "a worker process failed")


class GenerationError(Exception):
    """A worker of a new generation could not be started, so none of them serves."""


class Alarm:
    """Wakes a `select` or `poll` of this process from a signal handler or another thread."""

    def __init__(self) -> None:
        self._heard, self._rung = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def fileno(self) -> int:
        """Return the descriptor that is readable once the alarm rang."""
        return self._heard

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it has rung often enough
            os.write(self._rung, b"!")

    def clear(self) -> None:
        """Silence the alarm until it rings again."""
        with suppress(BlockingIOError):
            while os.read(self._heard, 4096):
                pass

    def close(self) -> None:
        os.close(self._heard)
        os.close(self._rung)


class Channel:
    """A channel of JSON messages between a worker and its parent; `is_open` is False once the other
    side is gone.
    """

    def __init__(self, end: socket.socket) -> None:
        """Take `end`, a connected socket whose other end the other process has."""
        self._end = end
        self._end.settimeout(SENDING)
        self._received = bytearray()
        self.is_open = True

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def is_watchable(self) -> bool:
        """True until this side is closed: there may be messages to read, also if `is_open` is
        False.
        """
        return self._end.fileno() >= 0

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; blocks at most `SENDING` seconds.

        If the other side is gone or does not read, the channel counts as closed and nothing is
        raised.
        """
        text = json.dumps(message).encode()
        if self.is_open:
            try:
                self._end.sendall(_LENGTH.pack(len(text)) + text)
            except OSError:
                self.is_open = False

    def receive(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that have arrived completely, without waiting for more; a part of one
        is kept for the next call. Clears `is_open` if the other side is gone, before what came from
        it is yielded. Raise ValueError for a message that is not JSON.
        """
        try:
            # A socket with a timeout does not block; its own `recv` would wait for that long.
            while data := os.read(self._end.fileno(), 1 << 16):
                self._received += data
            self.is_open = False
        except BlockingIOError:
            pass
        except OSError:
            self.is_open = False
        received = self._received
        while len(received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received)
            if len(received) < _LENGTH.size + length:
                return
            text = bytes(received[_LENGTH.size : _LENGTH.size + length])
            del received[: _LENGTH.size + length]
            yield json.loads(text)

    def wait(self, seconds: float, alarm: Alarm | None = None) -> None:
        """Block until a message has arrived, the other side is gone or the alarm rang; at most
        `seconds`. Clears the alarm.
        """
        waits = select.poll()
        waits.register(self._end, select.POLLIN)
        if alarm is not None:
            waits.register(alarm, select.POLLIN)
        waits.poll(seconds * 1000)
        if alarm is not None:
            alarm.clear()

    def close(self) -> None:
        self.is_open = False
        self._end.close()


Work: TypeAlias = Callable[[int, Channel], int]
"""The work of a worker process: gets its number and its channel, and returns the exit code. It must
send `{"is": "prepared"}`, wait for `{"is": "go"}` and serve, and end on SIGTERM or when the channel
closes."""


@mutable(eq=False)
class Worker:
    """A worker as its parent sees it."""

    number: int
    pid: int
    channel: Channel
    started: float
    is_prepared: bool = False
    is_serving: bool = False
    heard: float = 0.0
    stopping_since: float | None = None
    killed_since: float | None = None
    is_buried: bool = False
    """True once its process was reaped or given up: the pid may belong to another process."""
    state: dict[str, Any] = field(default_factory=dict)
    """The worker's last message with `"is": "state"`; empty before it serves."""


class Supervisor:
    """Keeps `count` worker processes running; to be used from the main and only thread."""

    def __init__(
        self,
        count: int,
        *,
        grace: float,
        on_end: Callable[[Worker], object] = lambda _worker: None,
        greet: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Prepare to supervise `count` workers; `begin` starts them.

        `grace` are the seconds that a worker may take to end. `on_end` is told each worker that
        ended after it had served. `greet` makes a message that each worker gets before it serves.
        """
        self._count = count
        self._grace = grace
        self._on_end = on_end
        self._greet = greet
        self._work: Work | None = None
        self._selector = selectors.DefaultSelector()
        self._starting: list[Worker] = []
        self._leaving: list[Worker] = []
        self._ending: list[Worker] = []
        """The workers that were killed or whose channel has closed, until they are reaped or given
        up."""
        self._given_up: list[int] = []
        """The pids of workers that SIGKILL has not ended yet."""
        self._due: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        self._alarm = Alarm()
        self._selector.register(self._alarm, selectors.EVENT_READ)
        self._watched: frozenset[int] = frozenset()
        self.news = 0
        """The number of state messages and of ended workers so far."""
        self.workers: dict[int, Worker] = {}
        """The workers of the current generation by number; a dead one is missing until its
        restart."""
        self.restarts = 0

    # Generations

    def begin(self, work: Work) -> None:
        """Replace the workers by a new generation that runs `work`, and block until it serves. The
        old ones are stopped when all new ones serve or one of them has died, `PREPARING` seconds
        after they were prepared at the latest. Older generations that still end may delay the
        begin.

        Raise GenerationError if a worker ends before it is prepared, or is not prepared within
        `PREPARING` seconds; the new ones are killed, and the old generation stays.
        """
        # Each generation holds its policies in memory: quick reloads must not pile them up.
        while len(self._leaving) > LEAVING * self._count:
            self.poll(0.1)
        self._starting = [self._fork(number, work) for number in range(self._count)]
        until = monotonic() + PREPARING
        while not all(each.is_prepared for each in self._starting):
            self.poll(0.1)
            has_ended = len(self._starting) < self._count
            if has_ended or monotonic() > until:
                for each in self._starting:
                    self._kill(each)
                # They are in no list of workers now, so that `_reap` restarts none.
                self._starting = []
                reason = "ended" if has_ended else f"was not ready within {PREPARING:g} s"
                raise GenerationError(f"a new worker {reason}: its error is in the log")
        # Not before all are prepared: a worker that dies meanwhile is restarted with the old work.
        before, self._work = list(self.workers.values()), work
        self.workers = {each.number: each for each in self._starting}
        self._starting, self._due, self._pauses = [], {}, {}
        for each in self.workers.values():
            self._release(each)
        until = monotonic() + PREPARING
        while not all(each.is_serving for each in self.workers.values()):
            self.poll(0.1)
            if len(self.workers) < self._count or monotonic() > until:
                break  # those that died are started again; the others serve already
        for each in before:
            if not each.is_buried:  # one may have died since
                self._stop(each)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to every worker, also to those that are ending."""
        for each in [*self.workers.values(), *self._leaving]:
            each.channel.send(message)

    def wake(self) -> None:
        """Make a waiting `poll` return; may be called from a signal handler."""
        self._alarm.ring()

    def watch(self, descriptors: Collection[int]) -> None:
        """Make `poll` return, too, when one of these descriptors can be read; replaces the earlier
        ones.
        """
        descriptors_to_watch = frozenset(descriptors)
        for each in self._watched - descriptors_to_watch:
            self._selector.unregister(each)
        for each in descriptors_to_watch - self._watched:
            self._selector.register(each, selectors.EVENT_READ)
        self._watched = descriptors_to_watch

    def poll(self, seconds: float) -> frozenset[int]:
        """Wait for messages of workers and note them, until a message or `wake` comes, a watched
        descriptor can be read, or something is due, at most `seconds`. Return the watched
        descriptors that can be read.

        Also restarts dead workers when their pause is over, kills workers that are stuck or too
        slow to end, and reaps those that have ended.
        """
        readable: set[int] = set()
        for key, _ in self._selector.select(min(seconds, self._until_due())):
            worker: Worker | None = key.data
            if worker is None:
                readable.add(key.fd)
                self._alarm.clear()
                continue
            for message in worker.channel.receive():
                self._note(worker, message)
            # After its messages: a worker that dies may have sent its last state before.
            if not worker.channel.is_open:
                self._bury(worker)
        for worker in list(self._ending):
            self._reap(worker)
        self._given_up = [pid for pid in self._given_up if not os.waitpid(pid, os.WNOHANG)[0]]
        now = monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            del self._due[number]
            assert self._work is not None
            self.workers[number] = self._fork(number, self._work)
            self.restarts += 1
        for worker in [*self.workers.values(), *self._leaving]:
            since = worker.stopping_since
            if worker.killed_since is not None:
                continue
            if since is not None and now - since > self._grace + _EXTRA:
                self._kill(worker)
            elif since is None and now - worker.heard > SILENT:
                _log.error(
                    "A worker process does not answer; it is killed.",
                    extra={"worker": worker.number},
                )
                self._kill(worker)
        return self._watched & readable

    def _until_due(self) -> float:
        """Return the seconds for which `poll` may wait: until the next restart or kill is due, or
        an ending worker must be checked again. 0.0 if one is overdue, `SILENT` if there is none.
        """
        due = [*self._due.values()]
        # Nothing tells the end of a process whose channel is closed.
        if self._ending:
            due.append(monotonic() + _REAPING)
        for worker in [*self.workers.values(), *self._leaving]:
            since = worker.stopping_since
            if worker.killed_since is None:
                due.append(worker.heard + SILENT if since is None else since + self._grace + _EXTRA)
        return max(0.0, min(due) - monotonic()) if due else SILENT

    def end(self) -> None:
        """Stop all workers with SIGTERM and block until they have ended, by SIGKILL after their
        grace, or are given up. Then close the supervisor, which cannot begin again.
        """
        self._due, self._work = {}, None
        for worker in list(self.workers.values()):
            self._stop(worker)
        self.workers = {}
        while self._leaving or self._ending:
            self.poll(0.1)
        self._selector.close()
        self._alarm.close()

    def _release(self, worker: Worker) -> None:
        """Let a prepared worker serve: send it the greeting, then `go`."""
        if self._greet is not None:
            worker.channel.send(self._greet())
        worker.channel.send({"is": "go"})

    def _note(self, worker: Worker, message: dict[str, Any]) -> None:
        """Record a message of a worker. `state`: the worker serves. `prepared`: it is ready to
        serve, and is released at once unless its generation is still starting.
        """
        worker.heard = monotonic()
        match message.get("is"):
            case "prepared":
                worker.is_prepared = True
                # A restart joins a generation that serves; in a new one all wait for each other.
                if worker not in self._starting:
                    self._release(worker)
            case "state":
                worker.is_serving = True
                self.news += 1
                worker.state = message

    def _stop(self, worker: Worker) -> None:
        """Send SIGTERM to a worker, which may take its grace to end."""
        worker.stopping_since = monotonic()
        self._leaving.append(worker)
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGTERM)

    def _kill(self, worker: Worker) -> None:
        """Send SIGKILL to a worker, which `poll` then reaps or gives up."""
        worker.killed_since = monotonic()
        self._expect_end(worker)
        with suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)

    def _expect_end(self, worker: Worker) -> None:
        """Make `poll` look whether the process of a worker has ended."""
        if worker not in self._ending:
            self._ending.append(worker)

    def _bury(self, worker: Worker) -> None:
        """Handle the end of a worker's channel: kill the worker, unless it is stopping and has the
        rest of its grace. Does not wait for its end, which `poll` notes.
        """
        # Before the channel closes: the selector needs its descriptor.
        self._selector.unregister(worker.channel)
        worker.channel.close()
        # Its channel is closed but the process may live, and could never be told to end.
        # INVARIANT: no wait for its end here. `poll` must kill it after its grace, and even SIGKILL
        # may take long.
        if worker.stopping_since is None and worker.killed_since is None:
            self._kill(worker)
        self._expect_end(worker)

    def _reap(self, worker: Worker) -> None:
        """Note the end of a worker's process without waiting for it; nothing happens while it runs
        or its channel is open. A worker that does not end within `_ENDING` seconds after SIGKILL is
        given up, which counts as its end.

        It is passed to `on_end` if it has sent a state. One of the current generation that was not
        stopped is restarted after a pause, which doubles up to `LONGEST_PAUSE`.
        """
        code = None
        # Not while its channel is open: its last state may be in there.
        if not worker.channel.is_watchable:
            reaped, status = os.waitpid(worker.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if reaped else None
        if code is None:
            since = worker.killed_since
            if since is None or monotonic() - since <= _ENDING:
                return
            self._give_up(worker)
        self.news += 1
        worker.is_buried = True
        self._ending.remove(worker)
        if worker.state:
            self._on_end(worker)
        if worker in self._leaving:
            self._leaving.remove(worker)
        elif worker in self._starting:
            self._starting.remove(worker)
        elif self.workers.get(worker.number) is worker:
            del self.workers[worker.number]
            pause = self._pauses.get(worker.number, FIRST_PAUSE)
            # A fault after long service is not a loop of crashes.
            if monotonic() - worker.started > STABLE:
                pause = FIRST_PAUSE
            self._pauses[worker.number] = min(pause * 2, LONGEST_PAUSE)
            self._due[worker.number] = monotonic() + pause
            extra = {"worker": worker.number, "exit": code, "pause": pause}
            _log.error("A worker process ended unexpectedly; it is started again.", extra=extra)

    def _give_up(self, worker: Worker) -> None:
        """Close the channel of a worker that does not end, and reap it whenever it ends."""
        extra = {"worker": worker.number, "pid": worker.pid}
        _log.error(
            "A worker process does not end after SIGKILL; it is no longer waited for.", extra=extra
        )
        if worker.channel.is_watchable:
            self._selector.unregister(worker.channel)
            worker.channel.close()
        self._given_up.append(worker.pid)

    def _fork(self, number: int, work: Work) -> Worker:
        """Fork a worker that runs `work`, and return it as its parent sees it."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            # Before the work: a worker that held another's channel would keep it open after that
            # one died.
            self.close_inherited()
            run_child(lambda: work(number, Channel(theirs)))
        theirs.close()
        now = monotonic()
        worker = Worker(number, pid, Channel(ours), started=now, heard=now)
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)
        return worker

    def close_inherited(self) -> None:
        """Close this object's descriptors, the channels of all workers among them, in a new process
        that inherited them and does not need them.
        """
        for worker in [
            *self.workers.values(),
            *self._leaving,
            *self._starting,
            *self._ending,
        ]:
            worker.channel.close()
        # Only closed, not unregistered: the parent shares what is registered in epoll.
        self._selector.close()
        self._alarm.close()


def run_child(work: Callable[[], int]) -> NoReturn:
    """Do the work of a new process and end it with the code that `work` returns; 1 after a fault.

    Ignores SIGINT and SIGHUP, which a terminal or `pkill` sends to every process: the parent
    decides. Its handlers would write to descriptors that are closed here, or another file by now.
    """
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        code = work()
    except FAULTS as fault:
        _EDGE.report(fault)
    finally:
        logging.shutdown()
        os._exit(code)
