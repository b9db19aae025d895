"""Several worker processes as one decision point, for `--workers N`.

The parent reads and compiles the policies, binds every socket, and forks; a worker is a `Sidecar`
on the parent's snapshot and sockets. The parent serves nothing. It watches the files, follows
bundles and discovery (`parent_plane`), and replaces the workers by a new generation when something
changes. It also adds up the workers' states and sends the sum to each of them, so that any worker
can answer for all.
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
from collections.abc import Callable
from dataclasses import replace
from socket import AF_UNIX
from socket import socket as Socket
from typing import Any, Final

from doorward.base.collector import gc_paused
from doorward.config.configuration import EXT_AUTHZ, EXT_PROC, Config, ConfigError
from doorward.control.plane import Change, followed
from doorward.control.status import ToldStatus
from doorward.edge import Edge, SignalSafeEvent, repeat
from doorward.envoy.errors import StartError
from doorward.pdp.build_gate import BuildGate
from doorward.pdp.reload import Stop, Watcher
from doorward.pdp.snapshot import Snapshot, build
from doorward.pdp.store import NotReplacedError, Store
from doorward.server.asking import AskingProcess
from doorward.server.parent_plane import ParentPlane, has_asks, note_told, without_asks
from doorward.server.sidecar import Sidecar
from doorward.server.sidecar_options import (
    Shared,
    SidecarOptions,
    StartupError,
    announce,
    bind_all,
    envoy_options,
    ext_proc_options,
    identified_options,
    import_parts,
    load,
    reread,
    settings_of,
    tls_context,
    warm,
)
from doorward.server.worker_state import Totals, state_of
from doorward.telemetry.health import Health
from doorward.transport.peers import Mailbox, Peers
from doorward.transport.workers import Alarm, Channel, GenerationError, Supervisor, Worker

__all__ = ["WorkerGroup"]

STATES: Final = 1.0
"""Seconds between two reports of a worker while it works."""
SELDOM: Final = 10.0
"""Seconds between two reports of an idle worker."""
_RAN: Final = 10_000
"""Nanoseconds of CPU time of other threads from which a worker counts as working."""

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("workers", "supervising the workers failed")


class _Stop(Stop):
    """The event that tells the parent to end. Its `wait` does the parent's work meanwhile: it
    supervises the workers.
    """

    def __init__(self, group: WorkerGroup) -> None:
        super().__init__()
        self._group = group

    def set(self) -> None:
        super().set()
        self._group.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Supervise the workers until the event is set, `timeout` seconds (None: `SELDOM`) have
        passed, or there is something to read from the event's `descriptor`. Return True if the
        event is set.
        """
        until = time.monotonic() + (SELDOM if timeout is None else timeout)
        while not self.is_set():
            left = until - time.monotonic()
            if self._group.look_after(max(left, 0.0), self.descriptor) or left <= 0:
                break
        return self.is_set()


class WorkerGroup:
    """All workers of one decision point. Call `start`, then `run`, which returns after `stop`."""

    def __init__(self, options: SidecarOptions) -> None:
        """Load the policies and bind all sockets, without starting a worker. Raise StartupError,
        ConfigError, LoadError or CompileError if that is impossible.
        """
        options = self._options = identified_options(options)
        self._stop = _Stop(self)
        self._health = Health()
        self._reloads = {"success": 0, "failure": 0}
        self._rereads = False
        self._serves = False
        self._has_begun = False
        self._told = 0.0
        self._told_of: tuple[object, ...] | None = None
        # Before anything is loaded: what this process holds at a fork, the other one keeps.
        self._asking = AskingProcess(self._close_inherited)
        if has_asks(options.config):
            self._asking.start()
        self._errors = _SharedErrors()
        self._settings = settings_of(options)
        self._envoy = envoy_options(options.config)
        self._ext_proc = ext_proc_options(options.config)
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
        import_parts(options)
        with gc_paused():
            loaded = load(options)
            snapshot = build(loaded, self._settings)
            self._warm(snapshot)
            # Until `_begin` looks at everything: the collector would, as soon as it runs again.
            gc.freeze()
        self._active = _Active(snapshot, self._begin)
        # `gc_paused`: `_begin` collects, and freezes what is left.
        self._store = Store(
            self._active, loaded, self._settings, prepare=self._warm, building=gc_paused
        )
        self._mailboxes: list[Mailbox] = []
        self._supervisor = Supervisor(
            options.workers, grace=options.grace, on_end=self._note_end, greet=self._group_state
        )
        self._plane = ParentPlane(
            options.config,
            self._store,
            self._health,
            self._asking,
            self._settings,
            prepare=self._prepare,
            metrics=lambda: {"prometheus": self._totals.documents()},
        )
        self._totals = Totals(self._plane.registry)
        self._sockets, self._checks, self._processors = self._bind()

    def _warm(self, snapshot: Snapshot) -> None:
        options = self._options
        warm(snapshot, options.config, self._envoy, self._ext_proc, options.access)

    def _close_inherited(self) -> None:
        """Close in the process that asks services the descriptors that only the parent needs."""
        if self._serves:
            self._supervisor.close_inherited()

    def _bind(self) -> tuple[list[Socket], list[list[Socket]], list[list[Socket]]]:
        """Bind and return the sockets of the HTTP API, those of each worker for Envoy's checks, and
        those of each worker for external processing. Raise StartupError, with all closed, if one
        cannot be bound.
        """
        sockets, workers = bind_all(self._options), self._options.workers
        checks: list[list[Socket]] = [[] for _ in range(workers)]
        processors: list[list[Socket]] = [[] for _ in range(workers)]
        plugin = EXT_AUTHZ
        try:
            if self._envoy is not None:
                from doorward.envoy.server import bind_workers  # it brings Envoy's types

                checks = bind_workers(self._envoy, workers)
            plugin = EXT_PROC
            if self._ext_proc is not None:
                from doorward.envoy.http2_server import bind_each

                options = self._ext_proc
                processors = bind_each(options.addr, workers, mode=options.socket_mode)
        except StartError as error:
            _close([*sockets, *[each for listeners in checks for each in listeners]])
            raise StartupError(f"{plugin}: {error}") from None
        return sockets, checks, processors

    def start(self) -> None:
        """Start the workers and return. With `ready_timeout`, wait for the bundles first; a `stop`
        meanwhile ends the wait, and no worker is started.

        Raise StartupError, with everything closed, if bundles are late or a worker does not start.
        """
        options = self._options
        announce(options, self._active.snapshot)
        if options.ready_timeout > 0:
            self._plane.start()
            if not self._wait_until_ready(options.ready_timeout):
                return
        self._serves = True
        try:
            self._begin()
        except GenerationError as error:
            self.close()
            raise StartupError(str(error)) from None
        self.look_after(0.0)
        _log.info("Server initialized.")
        if options.ready_timeout <= 0:
            self._plane.start()

    def _wait_until_ready(self, timeout: float) -> bool:
        """Supervise until bundles and discovery are active; return False if `stop` is called
        before. After `timeout` seconds close everything and raise StartupError.
        """
        until = time.monotonic() + timeout
        while not self._plane.is_ready:
            left = until - time.monotonic()
            if self._stop.is_set():
                return False
            if left <= 0:
                _log.error("Failed to wait for plugins activation.", extra={"err": "timeout"})
                self.close()
                raise StartupError(
                    f"bundles were not ready within {timeout:g} s (--ready-timeout): see the log"
                )
            self.look_after(left)
        return True

    def _begin(self) -> None:
        """Replace the workers by a generation with the active snapshot and options. Raise
        GenerationError, with the old workers still serving, if the new ones do not start. Does
        nothing before `start`.
        """
        if not self._serves:
            return
        # What the parent has is shared with the workers as long as nobody writes to it: the
        # collector would, in each of them. What was frozen before and is not used any more goes.
        if self._has_begun:
            gc.unfreeze()
            gc.collect()
        self._has_begun = True
        gc.freeze()
        snapshot = self._active.snapshot
        options = replace(self._options, config=without_asks(self._options.config))
        mailboxes = [Mailbox() for _ in range(options.workers if options.console else 0)]

        def work(number: int, channel: Channel) -> int:
            """Run in a new worker: close the sockets of the other workers, and serve until the end;
            return the exit code of the process.
            """
            self._asking.close_inherited()
            shared = Shared(
                snapshot,
                self._sockets,
                self._checks[number],
                self._processors[number],
                self._errors.write_bytes,
                Peers(number, mailboxes) if mailboxes else None,
            )
            for others in (self._checks, self._processors):
                for listeners in [*others[:number], *others[number + 1 :]]:
                    for each in listeners:
                        each.close()
            _log_to(self._errors)
            return _work(options, shared, number, channel)

        try:
            self._supervisor.begin(work)
        except GenerationError:
            _close_all(mailboxes)
            raise
        # Those of the generation before have theirs.
        _close_all(self._mailboxes)
        self._mailboxes = mailboxes

    def _reload(self) -> Snapshot:
        """Read all files again and activate them in all workers, or raise LoadError, CompileError
        or NotReplacedError and change none.
        """
        return self._store.load(load(self._options))

    def _prepare(self, config: Config, _clients: object) -> Change:
        """Replace the workers by ones with a new configuration; to abandon it replaces them again.
        ConfigError, with the old workers kept, if the new ones do not start.
        """
        before = self._options
        self._begin_with(replace(before, config=followed(config, before.config)))
        return Change(abandon=lambda: self._begin_with(before))

    def _begin_with(self, options: SidecarOptions) -> None:
        """Replace the workers by ones with other options; ConfigError, with the old ones kept, if
        the new ones do not start.
        """
        # Set before, since the new workers are forked with these options.
        before, self._options = self._options, options
        try:
            self._begin()
        except GenerationError as error:
            self._options = before
            raise ConfigError(str(error)) from None

    def stop(self) -> None:
        """Ask `run` to end; may be called from a signal handler."""
        self._stop.set()

    def ask_for_reload(self) -> None:
        """Ask `run` to read the configuration again; may be called from a signal handler."""
        self._rereads = True
        self.wake()

    def run(self) -> int:
        """Supervise the workers until `stop` is called, wait for the `wait` seconds of the options,
        close everything, and return the exit code 0.
        """
        run_round = self._watcher.run_once if self._watcher is not None else self._wait
        repeat(run_round, _EDGE, stop=self._stop)
        _log.info("Shutting down...", extra={"grace": self._options.grace})
        if self._options.wait > 0:
            time.sleep(self._options.wait)
        self.close()
        _log.info("Server shutdown.")
        return 0

    def _wait(self) -> bool:
        return not self._stop.wait(SELDOM)

    def close(self) -> None:
        """End all workers, close the sockets and remove the files of Unix sockets."""
        self._plane.close()
        self._supervisor.end()
        _close_all(self._mailboxes)
        numbered = [*self._checks, *self._processors]
        _close([*self._sockets, *[each for listeners in numbered for each in listeners]])

    def wake(self) -> None:
        """End a wait of the parent; may be called from a signal handler."""
        self._supervisor.wake()

    def look_after(self, seconds: float, descriptor: int | None = None) -> bool:
        """Run due downloads and reloads, send the workers the state of the group if it changed, and
        wait for their messages for at most `seconds`.

        Return True if `descriptor` became readable.
        """
        if self._rereads:
            self._rereads = False
            reread(self._options, self._plane.reload)
        until = time.monotonic() + seconds
        # What runs may take long, and close what is watched.
        self._supervisor.watch(())
        due = self._plane.run_due()
        seconds = max(0.0, min(until - time.monotonic(), due))
        watched = {each for each in (descriptor, self._plane.descriptor) if each is not None}
        self._supervisor.watch(watched)
        self._plane.note_workers(self._states())
        # At most two messages in `STATES` seconds: news of several workers is sent together.
        pause = self._told + STATES / 2 - time.monotonic()
        if self._news != self._told_of and pause <= 0:
            self._told, self._told_of = time.monotonic(), self._news
            self._supervisor.send(self._group_state())
        elif self._news != self._told_of:
            seconds = min(seconds, pause)
        return descriptor in self._supervisor.poll(seconds)

    @property
    def _news(self) -> tuple[object, ...]:
        """A value that changes when the workers must be sent the state of the group."""
        return self._supervisor.news, self._health.reload_error, *self._plane.news

    def _states(self) -> list[dict[str, Any]]:
        """Return the last state of each worker that has sent one."""
        return [each.state for each in self._supervisor.workers.values() if each.state]

    def _group_state(self) -> dict[str, Any]:
        """Return the message about the group that is sent to each worker: the state of every
        worker, the metrics of all, the error of the last reload, and the state of bundles and
        discovery (`plane`). A worker that has not reported yet counts as down.
        """
        states = self._states()
        known = {state["worker"]: state for state in states}
        workers = [
            {name: known[number][name] for name in ("worker", "revision", "down", "stopped")}
            if number in known
            else {"worker": number, "revision": "", "down": [f"worker-{number}"], "stopped": []}
            for number in range(self._options.workers)
        ]
        return {
            "is": "group",
            "workers": workers,
            "metrics": self._totals.render(states, self._supervisor.restarts, self._reloads),
            "reload_error": self._health.reload_error,
            "plane": self._plane.told(),
        }

    def _note_reload(self, failed: bool) -> None:
        self._reloads["failure" if failed else "success"] += 1

    def _note_end(self, worker: Worker) -> None:
        self._totals.end(worker.state)


class _Active:
    """The active snapshot of the workers; `replace` starts a new generation of them."""

    def __init__(self, snapshot: Snapshot, begin: Callable[[], object]) -> None:
        self.snapshot = snapshot
        self.build_gate = BuildGate()
        self._begin = begin

    def replace(self, snapshot: Snapshot) -> None:
        """Activate a snapshot in all workers; raise `NotReplacedError`, and keep the old one, if
        the new workers do not start.
        """
        # Set before, since the new workers are forked with this snapshot.
        before, self.snapshot = self.snapshot, snapshot
        try:
            self._begin()
        except GenerationError as error:
            self.snapshot = before
            raise NotReplacedError(str(error)) from None


def _work(options: SidecarOptions, shared: Shared, number: int, channel: Channel) -> int:
    """Run a worker: serve on the parent's sockets, and report the state over `channel`. Return the
    exit code: 0 after SIGTERM, 1 if the parent or the HTTP server is gone, or if a part cannot be
    created, as a log that cannot be opened. A parent that is gone before the worker may serve gives
    0.
    """
    stop, alarm = SignalSafeEvent(), Alarm()

    def end(_number: int, _frame: object) -> None:
        """Handle SIGTERM: end the worker's loop."""
        stop.set()
        alarm.ring()

    signal.signal(signal.SIGTERM, end)
    try:
        sidecar = Sidecar(options, shared)
    except (ConfigError, StartupError) as error:
        _log.error("A worker process cannot start.", extra={"worker": number, "error": str(error)})
        return 1
    sidecar.health.worker = number
    # Until the parent says how all are, nobody knows.
    sidecar.health.workers = [
        {"worker": number, "revision": "", "down": ["workers"], "stopped": ()}
    ]
    channel.send({"is": "prepared"})
    if not _has_go(sidecar, shared.status, channel, stop, alarm):
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
            _note_group(sidecar, shared.status, message)
    code = 0 if stop.is_set() else 1
    sidecar.close()
    # Once more, with what closing has counted: the parent keeps the totals of ended workers.
    channel.send(_state(number, sidecar))
    return code


class _Report:
    """Decides when a worker reports its state: every `STATES` seconds while it works, else every
    `SELDOM` seconds.
    """

    def __init__(self, sidecar: Sidecar) -> None:
        self._health = sidecar.health
        self._next = 0.0
        self._latest = 0.0
        self._seen: tuple[object, object] | None = None
        self._ran = 0

    def is_due(self) -> bool:
        """Return True if the worker should report now: if its health has changed, if it has used
        the processor and `STATES` seconds have passed since its last report, or if `SELDOM` seconds
        have. True counts as that report.
        """
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


def _has_go(
    sidecar: Sidecar, status: ToldStatus, channel: Channel, stop: threading.Event, alarm: Alarm
) -> bool:
    """Wait for the parent's message `go`, and apply the states of the group that come before it.
    Return True if this worker may serve, False if the parent ended or `stop` is set.
    """
    while channel.is_open and not stop.is_set():
        channel.wait(SELDOM, alarm)
        for message in channel.receive():
            _note_group(sidecar, status, message)
            if message["is"] == "go":
                return True
    return False


def _state(number: int, sidecar: Sidecar) -> dict[str, Any]:
    """Return the message with the state of one worker to the parent."""
    revision = sidecar.pdp.snapshot.revision
    return {
        "is": "state",
        "decision_logs": sidecar.plane.status.decision_logs,
        **state_of(number, revision, sidecar.health, sidecar.metrics),
    }


def _note_group(sidecar: Sidecar, status: ToldStatus, message: dict[str, Any]) -> None:
    """Apply the parent's message about the group to health, metrics and status of a worker; other
    messages are ignored.
    """
    if message["is"] == "group":
        sidecar.health.workers = message["workers"]
        sidecar.metrics.of_workers = message["metrics"]
        note_told(message["plane"], sidecar.health, status)
        if message["reload_error"] != sidecar.health.reload_error:
            sidecar.health.reloaded(message["reload_error"])


class _SharedErrors:
    """Standard error for several processes: lines are written whole."""

    def __init__(self) -> None:
        # A lock of the process, which ends with it; it is held while a batch is written.
        self._lock = os.memfd_create("doorward-log")
        self._own = threading.Lock()

    def write_bytes(self, lines: bytes) -> None:
        """Write lines to standard error; blocks while another process or thread does."""
        # `lockf` locks out other processes only, not the threads of this one.
        with self._own:
            fcntl.lockf(self._lock, fcntl.LOCK_EX)
            try:
                sys.stderr.buffer.write(lines)
                sys.stderr.buffer.flush()
            finally:
                fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def write(self, text: str) -> int:
        """Write a text in UTF-8 to standard error, with `?` for lone surrogates; blocks while
        another process or thread writes. Return its number of characters.
        """
        self.write_bytes(text.encode("utf-8", errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing, since every write is flushed."""


def _log_to(errors: _SharedErrors) -> None:
    """Redirect the stream handlers of the root logger to `errors`."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(errors)


def _close_all(mailboxes: list[Mailbox]) -> None:
    for each in mailboxes:
        each.close()


def _close(sockets: list[Socket]) -> None:
    """Close listening sockets, and remove the files of Unix sockets."""
    for each in sockets:
        name = each.getsockname()
        if each.family == AF_UNIX and isinstance(name, str) and name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        each.close()
