"""Changed files are read and activated as a new snapshot; if they are broken, the old one stays.

The files are polled by name, which detects every way of replacing a file: written in place, renamed
over, or behind a symbolic link that is swapped, as Kubernetes does with a ConfigMap. Where the
kernel reports changes (`file_events`), a poll follows its events; elsewhere polls come at
intervals, and take a few system calls for a sidecar's handful of files.

A change is read when two polls in a row see the same files, so that a half-written file is not
read. Files that keep changing are read after `PATIENCE` seconds all the same, and once more when
they rest: a policy that was withdrawn must not stay active because other files change all the time.
A failed read is tried again, as its cause may be temporary.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, TypeAlias

from doorward.base.clock import SYSTEM_CLOCK, Clock
from doorward.bundles.loader import LoadError
from doorward.edge import FAULTS, Edge, Part, SignalSafeEvent, loop_thread
from doorward.pdp.file_events import FileEvents, open_events, watched_names
from doorward.pdp.snapshot import Snapshot
from doorward.pdp.store import NotReplacedError
from doorward.rego import RegoError
from doorward.telemetry.health import Health

__all__ = ["Stop", "Watcher", "changes", "read_signature"]

INTERVAL: Final = 0.25
"""Seconds between two polls."""
SETTLE: Final = 0.1
"""Seconds between a poll that finds a change and the one that must find the same."""
MOMENT: Final = 0.01
"""Seconds between an event of the kernel and the poll that it causes."""
PATIENCE: Final = 0.75
"""Seconds after which a change is read although the files keep changing."""
SELDOM: Final = 10.0
"""Seconds between two polls while the kernel reports changes, as it may have missed one."""
LOOKING: Final = 0.1
"""The share of one processor that polls may take: with many files, polls are less frequent."""
STUCK_AFTER: Final = 120.0
"""Seconds after which a round counts as stuck; 20 times the first read if that is longer."""
FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 30.0
"""The longest pause in seconds before files that could not be read are tried again; pauses double
from `FIRST_RETRY`.
"""
HALVES: Final = 5
"""The number of failed reads, while files keep changing, that are not reported: they may have seen
half of a change.
"""

_TURN: Final = 0.0005
"""The switch interval of the interpreter, in seconds, while a thread reads files."""

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("reload", "reload failed")
_WATCH: Final = Edge("policy-watch", "checking the files for changes failed")
Signature: TypeAlias = tuple[tuple[str, int, int, int, int, int], ...]

Files: TypeAlias = Callable[[], Iterable[str]]
"""Returns the names of the files to poll, as they are now; raises LoadError if they cannot be
listed.
"""


def read_signature(files: Files) -> Signature:
    """Return names, identities, sizes and times of the files, without reading them. Missing files
    are left out; () if the files cannot be listed.
    """
    try:
        names = files()
    except LoadError:
        return ()
    return tuple(filter(None, map(_signature, names)))


def changes(
    files: Files, known: Signature, wait: Callable[[float], object], interval: float = INTERVAL
) -> Iterator[None]:
    """Yield each time the files have changed and should be read, first compared with `known`.
    Between polls `wait` is called with a number of seconds; the iterator ends when it returns a
    true value.
    """
    polls = _Polls(files, known, interval)
    while not wait(polls.pause):
        if polls.is_due():
            with polls.reading():
                yield


class _Polls:
    """Decides when the files are polled next, and by the results, when they should be read."""

    def __init__(
        self,
        files: Files,
        known: Signature,
        interval: float,
        *,
        clock: Clock = SYSTEM_CLOCK,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        """Prepare to poll the files every `interval` seconds; `known` is their signature at the
        last read. `used` returns the processor time of this thread in seconds.
        """
        self._files = files
        self._interval = interval
        self._clock = clock
        self._used = used
        self._known: Signature | None = known
        self._before = known
        self._since: float | None = None
        self._pause = interval
        self._rest = 0.0

    @property
    def pause(self) -> float:
        """Seconds until the next poll; longer if polls or reads take much processor time."""
        return max(self._pause, self._rest)

    def is_due(self) -> bool:
        """Poll the files; return True if they should be read now. Sets `pause` for the next
        poll.
        """
        started = self._used()
        seen = read_signature(self._files)
        self._rest = (self._used() - started) / LOOKING
        due = self._judge(seen, self._clock.now())
        self._pause = self._interval if self._since is None else min(SETTLE, self._interval)
        self._before = seen
        return due

    def _judge(self, seen: Signature, now: float) -> bool:
        """Return True if the files should be read now: their signature `seen` has changed and is
        the same in two polls, or has kept changing for `PATIENCE` seconds. In the second case they
        are read once more when they have stopped changing.
        """
        if seen == self._known:
            self._since = None
            return False
        if seen == self._before:
            self._known, self._since = seen, None
            return True
        if self._since is None:
            self._since = now
        if now - self._since < PATIENCE:
            return False
        # Whatever they come to is read once more: this may be half of it.
        self._known, self._since = None, now
        return True

    @property
    def rest(self) -> float:
        """Seconds that must pass before the next poll, even after an event of the kernel."""
        return max(self._rest, MOMENT)

    @property
    def are_at_rest(self) -> bool:
        """True if the files have not changed since they were last read."""
        return self._since is None and self._known == self._before

    @property
    def are_changing(self) -> bool:
        """True if the files are read although they keep changing, so that the read may see half of
        a change.
        """
        return self._known is None

    def hurry(self) -> None:
        """Make the files due at the next poll even if they still change, because the last read saw
        only half of a change.
        """
        if self._since is not None:
            self._since -= PATIENCE

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Context manager around a read. The next pause is at least as long as the processor time
        of the read, to bound the load.
        """
        started = self._used()
        try:
            yield
        finally:
            self._rest = max(self._rest, self._used() - started)


class Stop(SignalSafeEvent):
    """The event that ends a watch, and waits between two polls."""

    descriptor: int | None = None
    """A descriptor that also ends a wait when it becomes readable; None: only the event does."""


class _Home:
    """The working folder, if names of files are relative to it.

    If the folder is deleted and created again, this process would stay in the deleted one and never
    find a file again; `is_there` changes to the new one.
    """

    def __init__(self, roots: Sequence[str], files: Files) -> None:
        try:
            names = [*roots, *files()]
        except LoadError:
            names = [*roots]
        self.path = "" if all(map(os.path.isabs, names)) else os.getcwd()

    def is_there(self) -> bool:
        """Return True if the working folder exists or is not needed. If it was replaced by a new
        folder of the same name, change to that one first.
        """
        if self.path and not _has_current_folder():
            try:
                os.chdir(self.path)
            except OSError:
                return False
        return True


def _has_current_folder() -> bool:
    """Return True if the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


class Watcher:
    """A thread that polls files, or waits for the kernel's events about them, and activates new
    snapshots.
    """

    def __init__(
        self,
        files: Files,
        read: Callable[[], Snapshot],
        replace: Callable[[Snapshot], None] = lambda _snapshot: None,
        *,
        health: Health,
        on_reload: Callable[[bool], object] = lambda _failed: None,
        building: Callable[[], AbstractContextManager[None]] = nullcontext,
        roots: Sequence[str] = (),
        interval: float = INTERVAL,
        stop: Stop | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Prepare a watch in a thread that `start` begins.

        `files` lists the files to poll every `interval` seconds. `read` builds the snapshot,
        within the context manager `building`, and `replace` activates it, unless `read` does both.
        `on_reload` is called with True after a failure, and with False after a success.

        `roots` are the folders in which new files may appear. `stop` ends the watch and waits
        between two polls; without it, the thread sleeps until the kernel reports a change. `clock`
        decides when polls and retries are due; the sleep is the kernel's, and takes its time.
        """
        self._read = read
        self._replace = replace
        self._health = health
        self._on_reload = on_reload
        self._building = building
        self._stop = stop or Stop()
        self._sleeps = stop is None
        self._clock = clock
        self._files = files
        self._roots = roots
        self._home = _Home(roots, files)
        self._events: FileEvents | None = None
        self._is_stale = True
        """True if the files may be in other folders than the watched ones."""
        self._watch_at = 0.0
        self._polls = _Polls(files, read_signature(files), interval, clock=clock)
        self._said = ""
        self._halves = 0
        self._retry_pause = FIRST_RETRY
        self._retry_at: float | None = None
        self._part = Part("policy-watch", within=STUCK_AFTER, clock=clock)
        self._thread = loop_thread(
            self.run_once,
            _WATCH,
            name="policy-watch",
            stop=self._stop,
            part=self._part,
            clock=clock,
        )

    def start(self, *, reading: float = 0.0) -> None:
        """Start the thread, which `/health` watches from then on. `reading` is the duration of the
        first read in seconds: a round counts as stuck after 20 times as long, at least
        `STUCK_AFTER`.
        """
        self._part.within = max(STUCK_AFTER, 20 * reading)
        self._thread.start()
        self._part.thread = self._thread
        self._health.parts.add(self._part)

    def close(self) -> None:
        """End the watch; wait at most five seconds for its thread, which `/health` no longer
        watches.
        """
        self._health.parts.remove(self._part)
        self._stop.set()
        if self._events is not None:
            self._events.wake()
        if self._thread.is_alive():
            self._thread.join(5.0)
        # A thread that has not ended may still poll the descriptors.
        if self._events is not None and not self._thread.is_alive():
            self._events.close()

    def run_once(self) -> bool:
        """Wait for the next poll or event, poll, and reload if the files changed or a retry is due.
        Return False after `close`. A deleted working folder is reported as a failed reload.
        """
        if not self._wait():
            return False
        self._part.beat()
        # Where looking fails, it is tried again without waiting for an event.
        is_stale, self._is_stale = self._is_stale, True
        if not self._home.is_there():
            text = f"{self._home.path}: the folder of the relative file names was deleted"
            self._fail(text, text, is_final=False)
            return True
        with _shorten_switch_interval():
            if self._polls.is_due() or self._is_retry_due():
                with self._polls.reading():
                    self.reload()
        self._is_stale = is_stale
        return True

    def _wait(self) -> bool:
        """Wait for an event of the kernel, the next poll or the next retry, at most `SELDOM`
        seconds; return False after `close`. An event of a watched file sets `_is_stale`.
        """
        if not (self._polls.are_at_rest and self._is_watched()):
            return not self._pause(self._polls.pause)
        assert self._events is not None
        self._part.rest()
        seconds = SELDOM if self._retry_at is None else self._retry_at - self._clock.now()
        seconds = max(0.0, min(seconds, SELDOM))
        if self._sleeps:
            self._is_stale = self._events.wait(seconds)
            # What changes all the time is not to take all the time.
            return not self._pause(self._polls.rest)
        until = self._clock.now() + seconds
        self._stop.descriptor = self._events.fileno()
        try:
            while not (ended := self._pause(max(0.0, until - self._clock.now()))):
                self._is_stale = self._events.drain()
                if self._is_stale or self._clock.now() >= until:
                    break
        finally:
            self._stop.descriptor = None
        return not (ended or self._pause(self._polls.rest))

    def _pause(self, seconds: float) -> bool:
        """Wait for `seconds`, or until the watch ends; return True if it ends."""
        return self._clock.wait(self._stop, seconds)

    def _is_watched(self) -> bool:
        """Return True if the kernel reports all changes since the last poll. If other folders may
        have to be watched, begin to watch them and return False: one more poll is needed.
        """
        if not self._is_stale:
            return True
        now = self._clock.now()
        if now >= self._watch_at:
            with self._polls.reading():
                self._is_stale = not self._watch()
            if self._is_stale:
                self._watch_at = now + SELDOM
        # What changed before the kernel was told to watch is found by one poll more.
        return False

    def _watch(self) -> bool:
        """Let the kernel report changes of the current files; return False if that is impossible:
        without such events, if the files cannot be listed, or if the working folder was deleted.
        """
        self._events = self._events or open_events()
        if not self._home.is_there():
            return False
        try:
            files = self._files()
        except LoadError:
            return False
        return self._events is not None and self._events.watch(watched_names(self._roots, files))

    def _is_retry_due(self) -> bool:
        return self._retry_at is not None and self._clock.now() >= self._retry_at

    def reload(self) -> bool:
        """Read all files again and activate them; return True on success. After a failure the
        active snapshot stays, the health and the log say why, and False is returned; except for
        errors in the policies, another attempt is due after a pause that doubles.
        """
        self._retry_at = None
        try:
            with self._building():
                snapshot = self._read()
            # Outside of `building`: evaluations need not take turns any more.
            self._replace(snapshot)
        except RegoError as error:
            self._fail(
                str(error.diagnostics[0]), str(error)
            )  # as long as the files are as they are
        except LoadError as error:
            self._fail(error.messages[0], str(error))
            self._retry_later()
        except NotReplacedError as error:
            self._fail(str(error), str(error))
            self._retry_later()
        except FAULTS as fault:
            text = _EDGE.report(fault)
            self._fail(text, text)
            self._retry_later()
        else:
            self._said, self._retry_pause, self._halves = "", FIRST_RETRY, 0
            self._health.reloaded(None)
            self._on_reload(False)
            _log.info("Policies and data reloaded.", extra={"revision": snapshot.revision})
            return True
        return False

    def _fail(self, short: str, text: str, *, is_final: bool = True) -> None:
        """Report a failed reload: `short` to the health, `text` to the log if it is a new one, and
        True to `on_reload`. While files keep changing, the first `HALVES` failures are not
        reported; the next poll tries again. With `is_final=False` another attempt is scheduled,
        too.
        """
        if self._polls.are_changing and self._halves < HALVES:
            self._halves += 1
            # Half of a change was read: the other half is there soon, and nobody has to be told.
            self._polls.hurry()
            return
        if not is_final:
            self._retry_later()
        self._health.reloaded(short)
        self._on_reload(True)
        # A broken file is logged once, not with each attempt.
        if text != self._said:
            self._said = text
            _log.error("Reload failed; the previous policies stay active.", extra={"error": text})

    def _retry_later(self) -> None:
        """Make a retry due after the present pause, and double the pause, up to `LAST_RETRY`."""
        self._retry_at = self._clock.now() + self._retry_pause
        self._retry_pause = min(self._retry_pause * 2, LAST_RETRY)


def _signature(name: str) -> tuple[str, int, int, int, int, int] | None:
    """Return name, device, inode, size and times (ns) of a file; None if it does not exist."""
    try:
        status = os.stat(name)
    except OSError:
        return None
    # The time of the last change as well: the time of the last write can be set to anything.
    changed = status.st_ctime_ns
    return name, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, changed


class _Turns:
    """The number of threads that read files now, and the switch interval before the first of them
    started; shared by all watchers of the process.
    """

    lock = threading.Lock()
    readers = 0
    usual = 0.0


@contextmanager
def _shorten_switch_interval() -> Iterator[None]:
    """Context manager that shortens the interpreter's switch interval of this process, so that this
    thread gets its turn sooner while others compute.

    Each system call gives the interpreter away. Under load it comes back after 5 ms for each thread
    that computes, so that polling ten files takes a second.
    """
    with _Turns.lock:
        if not _Turns.readers:
            _Turns.usual = sys.getswitchinterval()
            sys.setswitchinterval(min(_TURN, _Turns.usual))
        _Turns.readers += 1
    try:
        yield
    finally:
        with _Turns.lock:
            _Turns.readers -= 1
            if not _Turns.readers:
                sys.setswitchinterval(_Turns.usual)
