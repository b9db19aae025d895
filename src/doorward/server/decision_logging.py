"""The decision log of one decision point, replaced when its configuration changes.

Decisions pass the observers (the console, a shadow) on their way to the log, which writes them to
standard error, a file and a service.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from doorward.base.os_errors import describe_os_error
from doorward.base.records import record
from doorward.config.configuration import Config, ConfigError
from doorward.control.plane import Change, ControlPlane
from doorward.pdp.pdp import PDP, DecisionSink
from doorward.server.sidecar_options import SidecarOptions, StartupError
from doorward.telemetry.health import Health, State
from doorward.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from doorward.control.answers import Client
    from doorward.control.uploads import Uploads
    from doorward.decision_log.log import DecisionLog, Note
    from doorward.telemetry.tracing import Tracer

__all__ = ["DecisionLogging"]


class DecisionLogging:
    """Opens the decision log of a PDP, and opens another one when the configuration changes."""

    def __init__(
        self,
        options: SidecarOptions,
        pdp: PDP,
        plane: ControlPlane,
        health: Health,
        metrics: Metrics,
        *,
        write: Callable[[bytes], object],
        watched: Callable[[DecisionLog | None], DecisionSink | None],
        tracer: Tracer | None,
        note: Note | None = None,
    ) -> None:
        """Open the log of the active configuration, and let `pdp` log to it. `write` writes lines
        to the console; `watched` wraps a log, or None, in the observers of decisions. `note`
        returns what the console adds to an event.

        Raise StartupError if the log cannot be opened.
        """
        self._options = options
        self._pdp = pdp
        self._plane = plane
        self._health = health
        self._metrics = metrics
        self._write = write
        self._watched = watched
        self._tracer = tracer
        self._note = note
        self._lock = threading.Lock()
        """Held while `_open` is replaced, and while its uploads are started for the first time."""
        self._is_started = False
        self._settings = _settings_of(plane.config, plane.clients)
        try:
            self._open = self._open_log(plane.config, plane.clients)
        except ConfigError as error:
            raise StartupError(str(error)) from None
        pdp.log_to(watched(self._open.log))

    def start(self) -> None:
        """Start the uploads to a service, if there are any; until then events wait."""
        with self._lock:
            self._is_started = True
            self._start_uploads(self._open.uploads)

    def _start_uploads(self, uploads: Uploads | None) -> None:
        if uploads is not None:
            uploads.start()
            self._health.set("decision_logs", State.OK)

    def prepare(self, config: Config, clients: Mapping[str, Client]) -> Change:
        """Open the log of a new configuration, whose services have these clients by name. The
        change, once committed, uses it, then writes and closes the one before. Nothing is opened if
        the options of the log did not change. ConfigError if it cannot be opened.
        """
        settings = _settings_of(config, clients)
        if settings == self._settings:
            return Change()
        opened = self._open_log(config, clients)

        def commit() -> None:
            """Let the decision point log to the new log, write and close the one before, and start
            the uploads of the new one if `start` was called.
            """
            with self._lock:
                self._settings, self._open = settings, opened
                # Decided here: `start` may be called while the one before is closed.
                starts = self._is_started
            before = self._pdp.log_to(self._watched(opened.log))
            # What waits there is sent before the next begins.
            if before is not None:
                before.close()
            if starts:
                self._start_uploads(opened.uploads)

        return Change(commit, abandon=opened.close)

    def _open_log(self, config: Config, clients: Mapping[str, Client]) -> _OpenLog:
        """Open the decision log of a configuration, whose services have these clients by name,
        without starting its uploads; no log if the configuration has none. ConfigError if a file or
        spool cannot be opened.
        """
        options = config.decision_logs
        if not options.is_enabled:
            return _OpenLog(None, None)
        from doorward.control.outbox import SpoolError  # many log no decisions
        from doorward.control.uploads import Uploads
        from doorward.server.open_log import open_log

        uploads = None
        try:
            if options.upload is not None:
                uploads = Uploads(
                    options.upload,
                    clients[options.upload.service],
                    on_lost=self._metrics.lost,
                    on_status=self._plane.status.note_decision_logs,
                    parts=self._health.parts,
                )
            log = open_log(
                config,
                self._write,
                line_format=self._options.log_format,
                timestamp_format=self._options.log_timestamp_format,
                sinks=() if uploads is None else (uploads,),
                on_lost=self._metrics.lost,
                parts=self._health.parts,
                trace=None if self._tracer is None else self._tracer.logged,
                note=self._note,
            )
        except (OSError, SpoolError) as error:
            if uploads is not None:
                uploads.close()
            reason = str(error)
            if isinstance(error, OSError):
                reason = f"{error.filename}: {describe_os_error(error)}"
            raise ConfigError(f"decision_logs: {reason}") from None
        return _OpenLog(log, uploads)


@record
class _OpenLog:
    """An open decision log; None if there is none, or no upload to a service."""

    log: DecisionLog | None
    uploads: Uploads | None

    def close(self) -> None:
        """Write and send what waits, and close it."""
        if self.log is not None:
            self.log.close()


def _settings_of(config: Config, clients: Mapping[str, Client]) -> tuple[object, ...]:
    """Return what the decision log depends on: its options, the labels, and the client of the
    service that takes events (None without uploads).
    """
    upload = config.decision_logs.upload
    client = None if upload is None else clients.get(upload.service)
    return config.decision_logs, config.labels, client
