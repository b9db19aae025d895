"""Several worker processes as one decision point: what `--workers N` starts.

The parent reads and compiles the policies, binds every socket, and forks; a worker is a `Sidecar`
on what it was given. The parent answers nothing: it watches the files, puts a new generation of
workers in place of the old one when they change, adds up what the workers say of themselves, and
tells each of them, so that any worker can answer for all.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import os
import signal
import sys
import threading
import time
from socket import AF_UNIX
from socket import socket as Socket
from typing import Any, Final

from doorward.cli.sidecar import (
    Shared,
    Sidecar,
    SidecarOptions,
    StartupError,
    announce,
    bind_all,
    envoy_options,
    identified_options,
    load,
    settings_of,
    tls_context,
    warm,
)
from doorward.edge import Edge, repeat
from doorward.envoy.server import PLUGIN, StartError, bind_workers
from doorward.pdp.health import Health
from doorward.pdp.loader import Loaded
from doorward.pdp.reload import Stop, Watcher
from doorward.pdp.snapshot import Snapshot, build
from doorward.pdp.worker_state import Totals, state_of
from doorward.transport.peers import Mailbox, Peers
from doorward.transport.workers import Alarm, Channel, GenerationError, Supervisor, Worker

__all__ = ["WorkerGroup"]

STATES: Final = 1.0
"""Seconds between two messages in which a worker says how it is, while it works."""
SELDOM: Final = 10.0
"""The same while nothing happens."""
_RAN: Final = 10_000
"""Nanoseconds of CPU of other threads from which on something happened."""

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("workers", "watching over the workers failed")


class _Stop(Stop):
    """The end of the parent; to wait for it is to look after the workers."""

    def __init__(self, group: WorkerGroup) -> None:
        super().__init__()
        self._group = group

    def set(self) -> None:
        super().set()
        self._group.wake()

    def wait(self, timeout: float | None = None) -> bool:
        until = time.monotonic() + (SELDOM if timeout is None else timeout)
        while not self.is_set():
            left = until - time.monotonic()
            if self._group.look_after(max(left, 0.0), self.descriptor) or left <= 0:
                break
        return self.is_set()


class WorkerGroup:
    """Every worker of one decision point. `start`, then `run` until told to stop."""

    def __init__(self, options: SidecarOptions) -> None:
        options = self._options = identified_options(options)
        self._stop = _Stop(self)
        self._health = Health()
        self._totals = Totals()
        self._reloads = {"success": 0, "failure": 0}
        self._told = 0.0
        self._told_of: tuple[int, str | None] | None = None
        self._errors = _SharedErrors()
        self._settings = settings_of(options)
        self._envoy = envoy_options(options.config)
        if options.tls is not None:
            tls_context(options.tls)  # what is wrong with it is said here, not by each worker
        self._watcher: Watcher | None = None
        if options.watch and options.sources:
            self._watcher = Watcher(
                options.sources.files,
                self._reload,
                health=self._health,
                on_reload=self._note_reload,
                roots=options.sources.roots,
                stop=self._stop,
            )
        self._loaded, self._snapshot = self._read()
        self._sockets, self._checks = self._bind()
        self._mailboxes: list[Mailbox] = []
        self._supervisor = Supervisor(
            options.workers, grace=options.grace, on_end=self._note_end, greet=self._group_state
        )

    def _read(self, before: Snapshot | None = None) -> tuple[Loaded, Snapshot]:
        loaded = load(self._options)
        snapshot = build(loaded, self._settings, before=before)
        warm(snapshot, self._options.config, self._envoy, self._options.access)
        return loaded, snapshot

    def _bind(self) -> tuple[list[Socket], list[list[Socket]]]:
        """The sockets of the HTTP API, and of each worker's gRPC server."""
        sockets = bind_all(self._options)
        if self._envoy is None:
            return sockets, [[] for _ in range(self._options.workers)]
        try:
            return sockets, bind_workers(self._envoy, self._options.workers)
        except StartError as error:
            _close(sockets)
            raise StartupError(f"{PLUGIN}: {error}") from None

    def start(self) -> None:
        """Serve. StartupError, with nothing left running, where a worker cannot."""
        announce(self._options, self._snapshot)
        try:
            self._begin()
        except GenerationError as error:
            self.close()
            raise StartupError(str(error)) from None
        self.look_after(0.0)
        _log.info("Server initialized.")

    def _begin(self) -> None:
        """Put workers to work that decide by what is read now."""
        # What the parent has is shared with the workers as long as nobody writes to it: the
        # collector would, in each of them.
        gc.collect()
        gc.freeze()
        loaded, snapshot = self._loaded, self._snapshot
        count = self._options.workers if self._options.console else 0
        mailboxes = [Mailbox() for _ in range(count)]

        def work(number: int, channel: Channel) -> int:
            shared = Shared(
                loaded,
                snapshot,
                self._sockets,
                self._checks[number],
                self._errors.write_bytes,
                Peers(number, mailboxes) if mailboxes else None,
            )
            for numbered, listeners in enumerate(self._checks):
                if numbered != number:
                    for each in listeners:
                        each.close()
            _log_to(self._errors)
            return _work(self._options, shared, number, channel)

        try:
            self._supervisor.begin(work)
        except GenerationError:
            _close_all(mailboxes)
            raise
        # Those of the generation before have theirs.
        _close_all(self._mailboxes)
        self._mailboxes = mailboxes

    def _reload(self) -> Snapshot:
        """Read everything again, and activate it in every worker, or in none."""
        before = self._loaded, self._snapshot
        self._loaded, self._snapshot = self._read(self._snapshot)
        try:
            self._begin()
        except GenerationError:
            self._loaded, self._snapshot = before
            raise
        return self._snapshot

    def stop(self) -> None:
        """Ask `run` to end; may be called from a signal handler."""
        self._stop.set()

    def ask_for_reload(self) -> None:
        """Say that several workers follow the configuration from the start only."""
        _log.warning("The configuration of several workers is followed after the next start.")

    def run(self) -> int:
        """Look after the workers until told to stop; the exit code."""
        step = self._watcher.run_once if self._watcher is not None else self._wait
        repeat(step, _EDGE, stop=self._stop)
        _log.info("Shutting down...", extra={"grace": self._options.grace})
        if self._options.wait > 0:
            time.sleep(self._options.wait)
        self.close()
        _log.info("Server shutdown.")
        return 0

    def _wait(self) -> bool:
        return not self._stop.wait(SELDOM)

    def close(self) -> None:
        """End every worker, and take the sockets away."""
        self._supervisor.end()
        _close_all(self._mailboxes)
        _close([*self._sockets, *[each for listeners in self._checks for each in listeners]])

    def wake(self) -> None:
        """End a wait for workers and files; for handlers of signals, too."""
        self._supervisor.wake()

    def look_after(self, seconds: float, descriptor: int | None = None) -> bool:
        """Do what is due for the workers within `seconds`, and tell them how all of them are.

        Whether `descriptor` can be read.
        """
        self._supervisor.watch(descriptor)
        pause = self._told + STATES / 2 - time.monotonic()
        if self._news != self._told_of and pause <= 0:
            self._told, self._told_of = time.monotonic(), self._news
            self._supervisor.send(self._group_state())
        elif self._news != self._told_of:
            seconds = min(seconds, pause)
        return self._supervisor.poll(seconds)

    @property
    def _news(self) -> tuple[int, str | None]:
        """Something else once the workers have to be told how all of them are."""
        return self._supervisor.news, self._health.reload_error

    def _group_state(self) -> dict[str, Any]:
        workers = self._supervisor.workers
        states = [each.state for each in workers.values() if each.state]
        known = {state["worker"]: state for state in states}
        shown = [
            {name: known[number][name] for name in ("worker", "revision", "down", "stopped")}
            if number in known
            else {"worker": number, "revision": "", "down": [f"worker-{number}"], "stopped": []}
            for number in range(self._options.workers)
        ]
        return {
            "is": "group",
            "workers": shown,
            "metrics": self._totals.render(states, self._supervisor.restarts, self._reloads),
            "reload_error": self._health.reload_error,
        }

    def _note_reload(self, failed: bool) -> None:
        self._reloads["failure" if failed else "success"] += 1

    def _note_end(self, worker: Worker) -> None:
        self._totals.end(worker.state)


def _work(options: SidecarOptions, shared: Shared, number: int, channel: Channel) -> int:
    """In a worker: serve what the parent gave, and say how that is going."""
    stop, alarm = threading.Event(), Alarm()

    def end(_number: int, _frame: object) -> None:
        stop.set()
        alarm.ring()

    signal.signal(signal.SIGTERM, end)
    sidecar = Sidecar(options, shared)
    sidecar.health.worker = number
    # Until the parent says how all are, nobody knows.
    sidecar.health.workers = [
        {"worker": number, "revision": "", "down": ["workers"], "stopped": ()}
    ]
    channel.send({"is": "prepared"})
    if not _has_go(sidecar, channel, stop, alarm):
        sidecar.close()
        return 0
    sidecar.start()
    report = _Report(sidecar)
    while channel.is_open and sidecar.alive and not stop.is_set():
        if report.is_due():
            channel.send(_state(number, sidecar))
        sidecar.refresh()
        channel.wait(STATES, alarm)
        for message in channel.receive():
            _note_group(sidecar, message)
    code = 0 if stop.is_set() else 1
    sidecar.close()
    channel.send(_state(number, sidecar))
    return code


class _Report:
    """When a worker says how it is: every second while something happens, else seldom."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._health = sidecar.health
        self._next = 0.0
        self._latest = 0.0
        self._seen: tuple[object, object] | None = None
        self._ran = 0

    def is_due(self) -> bool:
        now = time.monotonic()
        seen = list(self._health.own_down), list(self._health.own_stopped)
        if now < self._next and seen == self._seen:
            return False
        # What a worker does is done by its other threads.
        ran = time.process_time_ns() - time.thread_time_ns()
        is_quiet = ran - self._ran < _RAN and seen == self._seen
        if is_quiet and now < self._latest:
            return False
        self._next, self._latest = now + STATES, now + SELDOM
        self._seen, self._ran = seen, ran
        return True


def _has_go(sidecar: Sidecar, channel: Channel, stop: threading.Event, alarm: Alarm) -> bool:
    """Whether this worker is to serve, once that is known."""
    while channel.is_open and not stop.is_set():
        channel.wait(SELDOM, alarm)
        for message in channel.receive():
            _note_group(sidecar, message)
            if message["is"] == "go":
                return True
    return False


def _state(number: int, sidecar: Sidecar) -> dict[str, Any]:
    revision = sidecar.pdp.snapshot.revision
    return {"is": "state", **state_of(number, revision, sidecar.health, sidecar.metrics)}


def _note_group(sidecar: Sidecar, message: dict[str, Any]) -> None:
    if message["is"] == "group":
        sidecar.health.workers = message["workers"]
        sidecar.metrics.of_workers = message["metrics"]
        if message["reload_error"] != sidecar.health.reload_error:
            sidecar.health.reloaded(message["reload_error"])


class _SharedErrors:
    """Standard error, to which several processes write whole lines."""

    def __init__(self) -> None:
        # A lock of the process, which ends with it; it is held while a batch is written.
        self._lock = os.memfd_create("doorward-log")
        self._own = threading.Lock()

    def write_bytes(self, lines: bytes) -> None:
        with self._own:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            try:
                sys.stderr.buffer.write(lines)
                sys.stderr.buffer.flush()
            finally:
                fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def write(self, text: str) -> int:
        self.write_bytes(text.encode("utf-8", errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Every write is flushed."""


def _log_to(errors: _SharedErrors) -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(errors)


def _close_all(mailboxes: list[Mailbox]) -> None:
    for each in mailboxes:
        each.close()


def _close(sockets: list[Socket]) -> None:
    for each in sockets:
        name = each.getsockname()
        if each.family == AF_UNIX and isinstance(name, str) and name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        each.close()
