"""Bundles that are polled and activated by the store.

    request -> Download -> verified Bundle -> Store.activate -> status, metrics, health

Each bundle has a thread, since a service may keep a request waiting (long poll). One bundle at a
time is activated. A failure changes nothing, and the bundle is requested again, after a longer
pause each time, up to the longest delay. A bundle that conflicts with the policies of others is
kept, and tried again together with the next one that comes: two that need each other become valid
at once.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from doorward.base.os_errors import describe_os_error
from doorward.bundles.bundle import Bundle, BundleError, read_download
from doorward.bundles.edit import StorageError
from doorward.bundles.loader import Limits, LoadError
from doorward.bundles.manifest import ManifestError
from doorward.bundles.owners import OwnedError
from doorward.config.bundle_options import BundleOptions
from doorward.control.answers import WITHIN, Client
from doorward.control.bundle_status import BundleStatus
from doorward.control.downloads import Download, Downloader, DownloadError, limits_for
from doorward.control.rounds import Job, Runner, Steps, Task, Threads, drive
from doorward.control.saved_bundles import SavedBundles
from doorward.edge import FAULTS, Edge, Parts
from doorward.pdp.error_documents import errors_text
from doorward.pdp.store import BusyError, NotReplacedError, Store
from doorward.rego import CompileError, RegoError
from doorward.rego.shared import ParseError, Timers

__all__ = ["FIRST_RETRY", "Bundles", "backoff", "choose_delay", "failure_of"]

FIRST_RETRY: Final = 0.1
"""The seconds before the first retry, and the least seconds between two requests."""
_FAILURES: Final = (
    BusyError,
    LoadError,
    ManifestError,
    NotReplacedError,
    OwnedError,
    RegoError,
    StorageError,
)
_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("bundles", "activating a bundle failed")
_POLL: Final = Edge("bundle-polling", "polling a bundle failed")

Statuses = Mapping[str, BundleStatus]


def backoff(longest: float, attempt: int) -> float:
    """Return the seconds to wait after a failure that `attempt` others preceded in a row:
    `FIRST_RETRY` after the first one, 1.6 times as long each time up to `longest`, less a random
    part.
    """
    if attempt <= 0:
        return min(FIRST_RETRY, longest)
    # The exponent is bounded, since a float overflows after some thousand failures.
    waits = min(FIRST_RETRY * 1.6 ** min(attempt, 60), longest)
    return waits * random.uniform(0.66, 1.0)


def _fields(name: str) -> dict[str, object]:
    return {"fields": {"name": name, "plugin": "bundle"}}


def choose_delay(lowest: float, highest: float) -> float:
    """Return random seconds between `lowest` and `highest` until the next request, so that many
    servers do not send theirs at the same moment; at least `FIRST_RETRY`.
    """
    return max(random.uniform(lowest, highest), FIRST_RETRY)


def failure_of(status: BundleStatus, error: Exception) -> BundleStatus:
    """Return a copy of the status for an attempt that failed with `error`, with OPA's message, the
    HTTP status and the diagnostics.
    """
    cause = error.cause if isinstance(error, (BundleError, DownloadError)) else error
    # Not of an evaluation, as of a discovery bundle: its text is the message.
    diagnostics = cause.diagnostics if isinstance(cause, (CompileError, ParseError)) else ()
    message = "error(s) occurred while compiling module(s)" if diagnostics else text_of(error)
    code = error.status if isinstance(error, DownloadError) else None
    return replace(status, message=message, http_code=code, diagnostics=diagnostics)


def text_of(error: Exception) -> str:
    """Return the message of an error as one text, several compile errors in OPA's form; the name of
    its class if it has none.
    """
    cause = error.cause if isinstance(error, (BundleError, DownloadError)) else error
    if isinstance(cause, (CompileError, ParseError)):
        return str(error).replace(str(cause), errors_text(cause))
    if isinstance(error, LoadError) and not isinstance(error, BundleError):
        return error.messages[0]
    return str(error) or type(error).__name__


class Bundles:
    """All bundles of the configuration: `configure` sets them, `start` begins polling.
    Thread-safe.
    """

    def __init__(
        self,
        store: Store,
        *,
        v0: bool = False,
        saved: SavedBundles | None = None,
        on_change: Callable[[Statuses], object] = lambda _statuses: None,
        runner: Runner | None = None,
    ) -> None:
        """Prepare to download bundles into `store`; `configure` names them.

        `saved`: where bundles with `persist` are stored; None: nowhere. `on_change` is called
        after each attempt with the statuses of all bundles. `runner` runs the polling, by default a
        thread for each bundle.
        """
        self._store = store
        self._v0 = v0
        self._saved = saved
        self._on_change = on_change
        self._runner = runner or Threads(Parts())
        self._lock = threading.RLock()
        """Held while a bundle is activated, and while statuses change."""
        self._pollers: dict[str, _Poller] = {}
        self._statuses: Statuses = {}
        self._pending: dict[str, tuple[Bundle, Download]] = {}
        """The bundles that could not be activated, by name; another bundle may make them valid."""

    @property
    def statuses(self) -> Statuses:
        """The status of each bundle, by its name."""
        return self._statuses

    @property
    def is_ready(self) -> bool:
        """True if each bundle has been activated once; also if there are none."""
        return all(each.last_successful_activation for each in self._statuses.values())

    @property
    def failing(self) -> Mapping[str, str]:
        """The bundles whose last attempt failed, each with the reason."""
        return {name: each.message for name, each in self._statuses.items() if each.is_failing}

    def configure(
        self,
        options: Mapping[str, BundleOptions],
        clients: Mapping[str, Client],
        *,
        starts: bool = True,
    ) -> None:
        """Poll the bundles in `options` from now on, by name, and deactivate those that it does not
        have. Bundles whose options have not changed continue; of new ones, those saved by an
        earlier run are activated at once. With `starts` False, polling begins when `start` is
        called.

        Raise CompileError if other policies need a bundle to deactivate, BusyError or
        NotReplacedError; then the bundles of the earlier options are still polled.
        """
        remaining = {
            name: poller
            for name, poller in self._pollers.items()
            if options.get(name) == poller.options
            and clients.get(poller.options.service) is poller.client
        }
        for name, poller in self._pollers.items():
            # Before the lock is taken: a running round looks at it under the lock, and could
            # otherwise activate again what is deactivated below.
            if name not in remaining:
                poller.stop()
        with self._lock:
            gone = [name for name in self._pollers if name not in options]
            if in_force := [name for name in gone if name in self._store.bundles]:
                with ExitStack() as undo:
                    undo.callback(self._poll_again, starts=starts)
                    self._store.deactivate(in_force)
                    undo.pop_all()
            known = self._statuses
            self._statuses = {name: known.get(name, BundleStatus(name)) for name in options}
            # Not those of changed options: they were verified with other keys, or come from another
            # service, and would still be activated with the next bundle.
            self._pending = {
                name: each for name, each in self._pending.items() if name in remaining
            }
            self._pollers = {
                name: remaining.get(name) or _Poller(self, one, clients.get(one.service), self._v0)
                for name, one in options.items()
            }
        new = [name for name in options if name not in known]
        self._activate_saved([name for name in new if options[name].persist])
        self._on_change(self._statuses)
        if starts:
            self.start()

    def _poll_again(self, *, starts: bool) -> None:
        """Replace the pollers that were stopped, which would never poll again, by new ones.
        `starts`: they begin to poll now.
        """
        self._pollers = {
            name: _Poller(self, each.options, each.client, self._v0) if each.is_stopped else each
            for name, each in self._pollers.items()
        }
        if starts:
            self.start()

    def start(self) -> None:
        """Start polling all bundles; those that are polled already continue, and those with a
        manual trigger are not polled.
        """
        for poller in self._pollers.values():
            poller.start(self._runner)

    def close(self) -> None:
        """Stop polling, without waiting for requests in progress; their results are ignored."""
        for poller in self._pollers.values():
            poller.stop()

    def poll(self, name: str) -> float:
        """Download and activate a bundle once, in this thread; return the seconds until it should
        be requested again. Failures are in `statuses`; an unknown name raises KeyError.
        """
        return drive(self._pollers[name].round())

    def _activate_saved(self, names: list[str]) -> None:
        """Activate those of the named bundles, which must be configured, that an earlier run saved
        to disk; others are skipped. A bundle that cannot be read, verified or activated is logged
        and its status says so.
        """
        bundles: dict[str, Bundle] = {}
        for name in names:
            try:
                bundle = self._read_saved(name)
            except (BundleError, OSError) as error:
                _log.error(
                    f"Failed to load bundle from disk: {text_of(error)}",
                    extra=_fields(name),
                )
                self._note(failure_of(self._statuses[name], error))
                continue
            if bundle is not None:
                bundles[name] = bundle
        for name, bundle in bundles.items():
            self._take_bundle(name, bundle, Download(bundle), Timers(()))

    def _read_saved(self, name: str) -> Bundle | None:
        """Read the bundle that an earlier run saved, and verify its signature again; None if there
        is none. BundleError or OSError if it cannot be used.
        """
        options = self._pollers[name].options
        if self._saved is None:
            return None
        content = self._saved.read(name, Limits().archive_bytes)
        if content is None:
            return None
        return read_download(
            name,
            content,
            v0=self._v0,
            verification=options.verification,
            limits=limits_for(options),
        )

    def _note(self, status: BundleStatus) -> None:
        """Set the status of a bundle, unless it is no longer configured."""
        with self._lock:
            if status.name in self._statuses:
                self._statuses = {**self._statuses, status.name: status}

    def failed(self, poller: _Poller, error: Exception, timers: Timers) -> None:
        """Record and log that the download of a poller's bundle failed, and call `on_change`;
        nothing happens if the poller is stopped. The active bundle stays.
        """
        name, now = poller.options.name, time.time_ns()
        with self._lock:
            if poller.is_stopped:
                return
            status = replace(self._statuses[name], last_request=now, metrics=timers.document())
            self._note(failure_of(status, error))
        _log.error(f"Bundle load failed: {text_of(error)}", extra=_fields(name))
        self._on_change(self._statuses)

    def take(self, poller: _Poller, download: Download, timers: Timers) -> bool:
        """Record a download that arrived, and activate its bundle if there is a new one; nothing
        happens if its poller is stopped. Return True if the newest bundle is active now; a refused
        one is logged and in `statuses`.
        """
        name, now = poller.options.name, time.time_ns()
        with self._lock:
            # Decided under the lock: `configure` stops a poller before it waits for the lock to
            # deactivate its bundle. So either it deactivates what is activated here, or nothing is.
            if poller.is_stopped:
                return False
            status = replace(
                self._statuses[name],
                last_request=now,
                last_successful_request=now,
                metrics=timers.document(),
            )
            if download.bundle is None:
                # What could not be used stays said, until something that can be used comes.
                is_current = not status.is_failing or status.http_code is not None
                is_current = is_current and bool(status.last_successful_activation)
                if is_current:
                    status = replace(status, message="", http_code=None, diagnostics=())
                self._note(status)
            else:
                self._note(replace(status, last_successful_download=now))
                is_current = self._take_bundle(name, download.bundle, download, timers)
        self._on_change(self._statuses)
        return is_current

    def _take_bundle(self, name: str, bundle: Bundle, download: Download, timers: Timers) -> bool:
        """Activate a bundle that was downloaded or read from disk, save it if its options say so,
        and set its status. Return False if it was refused; the reason is logged and in its status,
        and the bundle before it stays active. A fault is reported and refuses it too.
        """
        with self._lock:
            try:
                self._activate(name, bundle, timers)
                # Only after the activation: a restart must not begin with a bundle that was
                # refused.
                self._persist(name, download)
            except _FAILURES as error:
                self._refuse(name, bundle, download, error, text_of(error), timers)
                return False
            except FAULTS as fault:
                text = _EDGE.report(fault)
                self._refuse(name, bundle, download, DownloadError(text), text, timers)
                return False
            self._accept(name, bundle, download, timers)
            return True

    def _activate(self, name: str, bundle: Bundle, timers: Timers) -> None:
        """Put a bundle into the store. If that fails, as when it conflicts with another bundle, try
        it together with the refused bundles in `_pending`; after a success, try those too. Those
        that become active are saved and their statuses set, which for `bundle` itself is the
        caller's part. Raise the store's error if `bundle` cannot be activated.
        """
        waiting = {other: each for other, each in self._pending.items() if other != name}
        try:
            self._store.activate({name: bundle}, timers=timers)
        except (LoadError, ManifestError, RegoError):
            # These errors another bundle may cure, by other roots or a rule that was missing; not
            # the others of `_FAILURES`.
            if not waiting or bundle.changes is not None:
                raise
            try:
                bundles = {other: each for other, (each, _) in waiting.items()}
                self._store.activate({**bundles, name: bundle}, timers=timers)
            except _FAILURES:
                waiting = {}
            # Outside of the inner `except`, so that the error of this bundle alone is raised, and
            # not that of all together.
            if not waiting:
                raise
        else:
            # Those that wait may be valid now.
            if not waiting:
                return
            try:
                self._store.activate(
                    {other: each for other, (each, _) in waiting.items()}, timers=timers
                )
            # They stay refused; the log and the status of each say why already.
            except _FAILURES:
                return
        for other, (each, download) in waiting.items():
            self._persist(other, download)
            self._accept(other, each, download, Timers(()))
            if poller := self._pollers.get(other):
                poller.accept(download.etag)

    def _persist(self, name: str, download: Download) -> None:
        """Save the downloaded bundle to disk if its options say so; a failure to write is only
        logged.
        """
        poller = self._pollers[name]
        if self._saved is None or not poller.options.persist or not download.content:
            return
        try:
            self._saved.write(name, download.content)
        except OSError as error:
            reason = describe_os_error(error)
            _log.error(
                f"Persisting bundle to disk failed: {reason}",
                extra=_fields(name),
            )

    def _accept(self, name: str, bundle: Bundle, download: Download, timers: Timers) -> None:
        """Record and log that a bundle is active, log its warnings, and remove it from the refused
        bundles that wait for another attempt.
        """
        self._pending.pop(name, None)
        for each in bundle.notes:
            _log.warning(each)
        status = self._statuses[name]
        self._note(
            replace(
                status,
                active_revision=bundle.manifest.revision,
                type=_type(bundle),
                size=len(download.content),
                last_successful_activation=time.time_ns(),
                message="",
                http_code=None,
                diagnostics=(),
                metrics=timers.document() or status.metrics,
            )
        )
        newest = f" Etag updated to {download.etag}." if download.etag else ""
        _log.info(
            f"Bundle loaded and activated successfully.{newest}",
            extra=_fields(name),
        )

    def _refuse(
        self,
        name: str,
        bundle: Bundle,
        download: Download,
        error: Exception,
        text: str,
        timers: Timers,
    ) -> None:
        """Record and log why a bundle was not activated. Unless it is a delta, keep it to try it
        again together with another bundle: a conflict of roots or a missing rule may end then.
        """
        if bundle.changes is None:
            self._pending[name] = bundle, download
        status = failure_of(self._statuses[name], error)
        # What is in force keeps its type.
        kind = status.type if status.last_successful_activation else _type(bundle)
        self._note(replace(status, type=kind, metrics=timers.document()))
        _log.error(f"Bundle activation failed: {text}", extra=_fields(name))


def _type(bundle: Bundle) -> str:
    """`snapshot` or `delta`, the kind of a bundle in the status."""
    return "snapshot" if bundle.changes is None else "delta"


class _Poller:
    """Requests one bundle repeatedly."""

    def __init__(
        self, bundles: Bundles, options: BundleOptions, client: Client | None, v0: bool
    ) -> None:
        self.options = options
        self.client = client
        self._bundles = bundles
        self._downloader = Downloader(options, client, v0=v0)
        self._active = ""
        """The ETag of the active bundle; "" if there is none."""
        self._failures = 0
        self.is_stopped = False
        """True after `stop`: a stopped poller never polls again."""
        self._task: Task | None = None

    def start(self, runner: Runner) -> None:
        """Start polling with `runner`; does nothing if it is started, or its trigger is manual."""
        options = self.options
        if self._task is not None or options.trigger == "manual":
            return
        # Longer than a request may take (`Downloader` adds a minute to its wait); the rest is for
        # reading and activating the bundle.
        within = WITHIN + 2 * (options.polling.long_polling or 0) + 300.0
        self._task = runner.start(Job(f"bundle-{options.name}", _POLL, within, self.round))

    def stop(self) -> None:
        """Stop polling, without waiting; the result of a request in progress is ignored."""
        self.is_stopped = True
        if self._task is not None:
            self._task.stop()

    def accept(self, etag: str) -> None:
        """Record that the download with this ETag, refused before, is active now."""
        self._active = self._downloader.etag = etag

    def round(self) -> Steps[float]:
        """Download the bundle once, and activate it if it is new. Return the seconds until the next
        round, longer after each failure in a row. Yields its request to the runner. Failures are
        logged and in the status, not raised; a stopped poller changes nothing.
        """
        polling, downloader = self.options.polling, self._downloader
        timers = Timers(())
        try:
            download = yield from downloader.fetch(timers)
        except DownloadError as error:
            self._bundles.failed(self, error, timers)
            downloader.etag = self._active
            return self._pause_after_failure()
        is_current = self._bundles.take(self, download, timers)
        if self.is_stopped:
            return 0.0
        if is_current:
            self._active = downloader.etag = download.etag
        elif download.bundle is None:
            # The server says that there is nothing new, but what came last is not in force: it is
            # to send it again.
            downloader.etag = ""
        else:
            # The ETag of what is in force, so that the refused bundle is sent, and tried, again.
            downloader.etag = self._active
            return self._pause_after_failure()
        self._failures = 0
        if downloader.long_polls:
            # Not at once: a server may answer without waiting, each time.
            return FIRST_RETRY
        return choose_delay(polling.min_delay, polling.max_delay)

    def _pause_after_failure(self) -> float:
        """Count a failure, and return the seconds until the next attempt."""
        pause = backoff(self.options.polling.max_delay, self._failures)
        self._failures += 1
        return pause
