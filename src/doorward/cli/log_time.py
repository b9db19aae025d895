"""`--log-timestamp-format`: how the time of a line of the log is written."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["log_time_option"]

log_time_option: Final = click.option(
    "--log-timestamp-format",
    default="",
    envvar=["DOORWARD_LOG_TIMESTAMP_FORMAT", "OPA_LOG_TIMESTAMP_FORMAT"],
    metavar="LAYOUT",
    help="Format of timestamps in the log, in Go's layout: 2006-01-02T15:04:05.000Z07:00.",
)
"""The option of every command that logs."""
