"""Durations as Go's flags take them: `500ms`, `2s`, `1m`."""

from __future__ import annotations

import click

from doorward.base.digits import parse_digits

__all__ = ["seconds"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def seconds(duration: str, flag: str = "") -> float | None:
    """Return a duration in seconds: `500ms` -> 0.5, `1m` -> 60.0; None for zero. The units are ms,
    s and m. Raise UsageError, naming `flag`, for any other form.
    """
    for unit, factor in _UNITS.items():
        number = duration.removesuffix(unit)
        if number != duration and parse_digits(number.replace(".", "", 1)) is not None:
            return float(number) * factor or None
    raise click.UsageError(
        f'invalid argument "{duration}" for "{flag}" flag: use a duration such as 500ms, 2s or 1m'
    )
