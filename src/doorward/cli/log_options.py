"""The options of the commands that log: the lowest level, the format and the time of a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from doorward.config.log_options import FORMATS, LEVELS

__all__ = ["log_options"]

F = TypeVar("F", bound=Callable[..., Any])

_TIME: Final = click.option(
    "--log-timestamp-format",
    default="",
    envvar=["DOORWARD_LOG_TIMESTAMP_FORMAT", "OPA_LOG_TIMESTAMP_FORMAT"],
    metavar="LAYOUT",
    help="Format of timestamps in the log, in Go's layout: 2006-01-02T15:04:05.000Z07:00.",
)


def log_options(*, level: str) -> Callable[[F], F]:
    """Return a decorator that gives a command the options of logging; `level` is the default of
    --log-level.
    """
    options = [
        click.option(
            "-l",
            "--log-level",
            type=click.Choice(sorted(LEVELS)),
            default=level,
            show_default=True,
            help="Lowest level of log messages that are written.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(FORMATS),
            default="json",
            show_default=True,
            help="Format of log messages.",
        ),
        _TIME,
    ]

    def declare(command: F) -> F:
        """Add the options to a command; the first one is listed first in its help."""
        for option in reversed(options):
            command = option(command)
        return command

    return declare
