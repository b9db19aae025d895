"""The decision log of a configuration: to the console, a file and other sinks.

Servers and `doorward exec` both use this function, so that a key of the configuration means the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from doorward.config.configuration import Config
from doorward.control.log_file import LogFile
from doorward.decision_log.log import DecisionLog, EventSink, Note
from doorward.edge import Parts
from doorward.telemetry.log import line_for, stamp_for

__all__ = ["open_log"]


def open_log(
    config: Config,
    write: Callable[[bytes], object],
    *,
    line_format: str,
    timestamp_format: str,
    sinks: Sequence[EventSink] = (),
    on_lost: Callable[[str], object] = lambda _reason: None,
    parts: Parts | None = None,
    trace: Callable[[str], tuple[str, str] | None] | None = None,
    note: Note | None = None,
) -> DecisionLog | None:
    """Open the decision log that a configuration describes; None if it is turned off. Raise OSError
    if its file cannot be opened.

    `write` writes the lines of the console log, if the configuration turns that on. `sinks` get the
    events too. `on_lost` is called with the reason for each lost event. `trace` returns the ids of
    the current trace and span; `note` returns the fields that Doorward's web console adds to an
    event.
    """
    options = config.decision_logs
    if not options.is_enabled:
        return None
    files = [] if options.file is None else [LogFile(options.file)]
    return DecisionLog(
        write if options.console else None,
        line_for(line_format),
        labels=config.labels,
        options=options,
        on_lost=on_lost,
        parts=parts,
        sinks=[*files, *sinks],
        stamp=stamp_for(timestamp_format),
        trace=trace,
        secrets=config.secrets,
        note=note,
    )
