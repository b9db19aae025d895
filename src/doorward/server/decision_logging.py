"""The decision log of one decision point, replaced when its configuration changes.

Decisions pass the observers (the console, a shadow) on their way to the log, which writes them to
standard error, a file and a service.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from doorward.config.configuration import Config
from doorward.control.plane import ControlPlane
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
        """`write` writes lines to the console; `watched` wraps a log, or None, in the observers of
        decisions. `note` returns what the console adds to an event.

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
        self._uploads: Uploads | None = None
        self._followed = self._settings_of(plane.config)
        pdp.log_to(watched(self._log(plane.config)))

    def start(self) -> None:
        """Start the uploads to a service, if there are any; until then events wait."""
        if self._uploads is not None:
            self._uploads.start()
            self._health.set("decision_logs", State.OK)

    def follow(self, config: Config) -> None:
        """Open the log of a new configuration, then write and close the old one; nothing happens if
        its options did not change. Raise `StartupError` if it cannot be opened.
        """
        settings = self._settings_of(config)
        if settings == self._followed:
            return
        self._followed = settings
        before = self._pdp.log_to(self._watched(self._log(config)))
        # What waits there is sent before the next begins.
        if before is not None:
            before.close()
        self.start()

    def _settings_of(self, config: Config) -> tuple[object, ...]:
        return config.decision_logs, config.labels, self._client(config)

    def _client(self, config: Config) -> Client | None:
        """Return the client of the service that takes events; None without uploads."""
        upload = config.decision_logs.upload
        return None if upload is None else self._plane.client(upload.service)

    def _log(self, config: Config) -> DecisionLog | None:
        """Return the decision log of a configuration, with its uploads in `_uploads`; None if it is
        off. Raise StartupError if a file or spool cannot be opened.
        """
        options = config.decision_logs
        client = self._client(config)
        self._uploads = None
        if not options.is_enabled:
            return None
        from doorward.control.outbox import SpoolError  # many log no decisions
        from doorward.control.uploads import Uploads
        from doorward.server.open_log import open_log

        try:
            if options.upload is not None:
                assert client is not None
                self._uploads = Uploads(
                    options.upload,
                    client,
                    on_lost=self._metrics.lost,
                    on_status=self._plane.status.note_decision_logs,
                    parts=self._health.parts,
                )
            return open_log(
                config,
                self._write,
                line_format=self._options.log_format,
                timestamp_format=self._options.log_timestamp_format,
                sinks=() if self._uploads is None else (self._uploads,),
                on_lost=self._metrics.lost,
                parts=self._health.parts,
                trace=None if self._tracer is None else self._tracer.logged,
                note=self._note,
            )
        except (OSError, SpoolError) as error:
            reason = str(error) if isinstance(error, SpoolError) else f"{error.filename}: {error}"
            raise StartupError(f"decision_logs: {reason}") from None
