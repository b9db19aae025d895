"""Durations as Go's flags take them: `500ms`, `2s`, `1m`."""

from __future__ import annotations

import click

__all__ = ["seconds"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def seconds(duration: str, flag: str = "") -> float | None:
    """The seconds of a duration such as `500ms`; None for zero.

    Raise `UsageError`, naming `flag`, for other texts.
    """
    for unit, factor in _UNITS.items():
        number = duration.removesuffix(unit)
        if number != duration and number.replace(".", "", 1).isdecimal():
            return float(number) * factor or None
    raise click.UsageError(f'invalid argument "{duration}" for "{flag}" flag: e.g. 500ms or 2s')
