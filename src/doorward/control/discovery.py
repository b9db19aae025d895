"""Discovery: a bundle whose document is configuration.

The bundle is evaluated alone, never together with the active policies. Values of the configuration
file win over discovered ones; the service and the keys on which discovery itself depends cannot
change. A configuration that cannot be applied leaves the one before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from doorward.base.os_errors import describe_os_error
from doorward.bundles.bundle import Bundle, BundleError, read_download
from doorward.bundles.loader import Limits, Loaded, LoadError
from doorward.bundles.manifest import ManifestError
from doorward.bundles.sources import with_bundles
from doorward.config.blocks import ConfigError
from doorward.config.bundle_options import DiscoveryOptions
from doorward.control.answers import WITHIN, Client
from doorward.control.bundle_status import BundleStatus
from doorward.control.bundles import FIRST_RETRY, backoff, choose_delay, failure_of, text_of
from doorward.control.downloads import Downloader, DownloadError, limits_for
from doorward.control.rounds import Job, Runner, Steps, Task, Threads, drive
from doorward.control.saved_bundles import DISCOVERY, SavedBundles
from doorward.edge import FAULTS, Edge, Parts
from doorward.pdp.snapshot import Settings, build
from doorward.rego import UNDEFINED, RegoError, Undefined, Value
from doorward.rego.shared import Timers

__all__ = ["Discovery"]

_log: Final = logging.getLogger(__name__)
_EDGE: Final = Edge("discovery", "applying the discovered configuration failed")
_POLL: Final = Edge("discovery-polling", "a round of discovery failed")
_FIELDS: Final = {"plugin": "discovery"}
_FAILURES: Final = (ConfigError, LoadError, ManifestError, RegoError)


class Discovery:
    """Downloads configuration in a thread of its own, and applies it."""

    def __init__(
        self,
        options: DiscoveryOptions,
        client: Client | None,
        apply: Callable[[Value], object],
        *,
        settings: Settings,
        saved: SavedBundles | None = None,
        on_change: Callable[[BundleStatus], object] = lambda _status: None,
        runner: Runner | None = None,
    ) -> None:
        """Prepare to download the configuration; `start` begins. `apply` applies a document, and
        raises ConfigError if that is impossible. `on_change` is called with each new status.
        """
        self.options = options
        self._apply = apply
        self._settings = settings
        self._saved = saved
        self._on_change = on_change
        self._downloader = Downloader(options.bundle, client, v0=settings.v0)
        self._active = ""
        self._forgets = 0
        """The number of calls of `forget`."""
        self._failures = 0
        self.status = BundleStatus("discovery")
        self._runner = runner or Threads(Parts())
        self._task: Task | None = None
        self._is_closed = False

    @property
    def is_ready(self) -> bool:
        """True if a discovered configuration has been applied."""
        return bool(self.status.last_successful_activation)

    def start(self) -> None:
        """Apply the saved configuration, if any, in this thread, then start to poll in the
        runner's. With a manual trigger nothing is polled; `poll` then downloads.
        """
        self.activate_saved()
        if self.options.bundle.trigger == "manual":
            return
        within = WITHIN + 2 * (self.options.bundle.polling.long_polling or 0) + 300.0
        self._task = self._runner.start(Job("discovery", _POLL, within, self._run_round))

    def forget(self) -> None:
        """Forget the ETag of the active configuration, so that the next download is applied even if
        it is unchanged.
        """
        self._forgets += 1
        self._active = self._downloader.etag = ""

    def close(self) -> None:
        """Stop polling, without waiting for a request in progress; its result is ignored."""
        self._is_closed = True
        if self._task is not None:
            self._task.stop()

    def poll(self) -> float:
        """Download and apply the configuration once, in this thread; return the seconds until it
        should be requested again. Failures are in `status`.
        """
        return drive(self._run_round())

    def _run_round(self) -> Steps[float]:
        """Download the discovery bundle once, and apply its configuration if it is new; return the
        seconds until the next round, longer after each failure in a row. Yields its request to the
        runner. Failures are logged and in `status`, not raised; after `close` nothing is applied.
        """
        polling, downloader = self.options.bundle.polling, self._downloader
        timers = Timers(())
        now = time.time_ns()
        status = replace(self.status, last_request=now)
        try:
            download = yield from downloader.fetch(timers)
        except DownloadError as error:
            if self._is_closed:
                return 0.0
            _log.error(f"Discovery download failed: {text_of(error)}", extra=_FIELDS)
            # The next request compares with the active version, not with one that failed.
            downloader.etag = self._active
            return self._fail(failure_of(status, error))
        if self._is_closed:
            return 0.0
        status = replace(status, last_successful_request=now)
        if download.bundle is None:
            if download.etag == self._active:
                status = replace(status, message="", http_code=None, diagnostics=())
            self._note(status)
        else:
            kind = "snapshot" if download.bundle.changes is None else "delta"
            size = len(download.content)
            status = replace(status, last_successful_download=now, type=kind, size=size)
            forgets = self._forgets
            if not self._apply_bundle(download.bundle, status):
                # Without an ETag the service sends the bundle again, so that it is tried again.
                downloader.etag = ""
                return self._fail(self.status)
            self._active = downloader.etag = download.etag
            # After the assignment, which undoes a `forget` meanwhile: a file was read again after
            # this configuration was laid over the one before.
            if self._forgets != forgets:
                self._active = downloader.etag = ""
            # Only now: a restart must not begin with a configuration that was refused.
            self._persist(download.content)
            newest = f" Etag updated to {download.etag}." if download.etag else ""
            _log.info(f"Discovery update processed successfully.{newest}", extra=_FIELDS)
        self._failures = 0
        if downloader.long_polls:
            # Not at once: a server may answer without waiting, each time.
            return FIRST_RETRY
        return choose_delay(polling.min_delay, polling.max_delay)

    def _fail(self, status: BundleStatus) -> float:
        """Record a failure; return the seconds until the next attempt, which grow with repeated
        failures.
        """
        self._note(status)
        pause = backoff(self.options.bundle.polling.max_delay, self._failures)
        self._failures += 1
        return pause

    def _note(self, status: BundleStatus) -> None:
        """Keep a status as the current one, and tell it."""
        self.status = status
        self._on_change(status)

    def _apply_bundle(self, bundle: Bundle, status: BundleStatus) -> bool:
        """Apply the configuration of a bundle. Return False, with the reason logged and in
        `status`, if it was refused.
        """
        try:
            self._apply(self._evaluate(bundle))
        except _FAILURES as error:
            self._refuse(status, error, text_of(error))
            return False
        except FAULTS as fault:
            text = _EDGE.report(fault)
            self._refuse(status, ConfigError(text), text)
            return False
        self._note(
            replace(
                status,
                active_revision=bundle.manifest.revision,
                last_successful_activation=time.time_ns(),
                message="",
                http_code=None,
                diagnostics=(),
            )
        )
        return True

    def _refuse(self, status: BundleStatus, error: Exception, text: str) -> None:
        """Note that a configuration was refused, and log the reason."""
        self._note(failure_of(status, error))
        _log.error(f"Discovery reconfiguration error occurred: {text}", extra=_FIELDS)

    def _evaluate(self, bundle: Bundle) -> Value:
        """Return the discovery document of a bundle, evaluated alone. ConfigError if it is
        undefined or the bundle is a delta; LoadError or RegoError if it cannot be compiled,
        RegoError if it cannot be evaluated.
        """
        if bundle.changes is not None:
            raise ConfigError("a discovery bundle must not be a delta bundle: serve it in full")
        loaded = with_bundles(Loaded(), {"discovery": bundle})
        snapshot = build(loaded, self._settings)
        value: Any = snapshot.document(self.options.decision).answer(UNDEFINED)
        if isinstance(value, Undefined):
            raise ConfigError("undefined configuration")
        return value  # type: ignore[no-any-return]  # a value of the language

    def activate_saved(self) -> None:
        """Apply the configuration that an earlier run saved to disk, if `persist` is set and there
        is one. A failure is logged and in `status`; nothing is raised.
        """
        options = self.options.bundle
        if self._saved is None or not options.persist:
            return
        try:
            content = self._saved.read(DISCOVERY, Limits().archive_bytes)
            if content is None:
                return
            bundle = read_download(
                "discovery",
                content,
                v0=self._settings.v0,
                verification=options.verification,
                limits=limits_for(options),
            )
        except (BundleError, OSError) as error:
            text = text_of(error)
            _log.error(f"Failed to load discovery bundle from disk: {text}", extra=_FIELDS)
            self._note(failure_of(self.status, error))
            return
        self._apply_bundle(bundle, self.status)

    def _persist(self, content: bytes) -> None:
        """Save the downloaded bundle to disk if the options say so; a failure to write is only
        logged.
        """
        if self._saved is None or not self.options.bundle.persist or not content:
            return
        try:
            self._saved.write(DISCOVERY, content)
        except OSError as error:
            reason = describe_os_error(error)
            _log.error(f"Persisting discovery bundle to disk failed: {reason}", extra=_FIELDS)
