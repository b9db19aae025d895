"""The value of an option becomes a value of the engine API: a size, a number, a limit."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from doorward.base.addresses import is_ip_address
from doorward.docker.commands.options import CommandError

__all__ = [
    "read_cpus",
    "read_duration",
    "read_host",
    "read_integer",
    "read_size",
    "read_time",
    "read_ulimit",
]

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DIGITS: Final = 20
_DURATIONS: Final = {"h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1_000}

_SECONDS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_DATE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:T([0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:\.([0-9]{1,9}))?)?)?))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _decimal(text: str) -> Decimal:
    """Return a number without an exponent; raise ValueError for more than `_DIGITS` characters or
    other forms.
    """
    if len(text) > _DIGITS or not set(text) <= set("0123456789.-"):
        raise ValueError(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def read_size(text: str) -> int:
    """Return a size in bytes: `64m` -> 67108864; -1 means unlimited. The units are b, k, m, g and t
    in any case, powers of 1024, also written as in `64mb` and `64MiB`. Raise CommandError for other
    forms.
    """
    lower = text.lower().strip()
    if lower == "-1":
        return -1
    digits = lower.rstrip("bikmgt")
    unit = lower[len(digits) :].removesuffix("b").removesuffix("i")
    try:
        return int(_decimal(digits) * _UNITS[unit])
    except (KeyError, ValueError):
        raise CommandError(f"`{text}` is not a size: write it as 64m") from None


def read_integer(text: str) -> int:
    """Return an integer; `2.0` is one too. Raise CommandError for other values."""
    try:
        number = _decimal(text)
    except ValueError:
        number = Decimal("0.5")
    if number != int(number):
        raise CommandError(f"`{text}` is not an integer")
    return int(number)


def read_cpus(text: str) -> int:
    """Return a number of CPUs in billionths: `1.5` -> 1_500_000_000. Raise CommandError if it is
    not a number.
    """
    try:
        return int(_decimal(text) * 10**9)
    except ValueError:
        raise CommandError(f"`{text}` is not a number of CPUs: write it as 1.5") from None


def read_duration(text: str) -> int:
    """Return a duration in nanoseconds: `1m30s` -> 90_000_000_000; `""` is 0. The units are h, m,
    s, ms and us. Raise CommandError for other forms.
    """
    total, rest = 0, text
    while rest:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        rest = rest[len(digits) :]
        unit = rest[: len(rest) - len(rest.lstrip("hmsu"))]
        rest = rest[len(unit) :]
        try:
            total += int(_decimal(digits) * _DURATIONS[unit])
        except (KeyError, ValueError):
            raise CommandError(f"`{text}` is not a duration: write it as 30s") from None
    return total


def read_time(text: str, now: float) -> str:
    """Return a point in time as docker's client sends it, in seconds since 1970. `text` is such a
    number, which is returned unchanged, a duration before `now` (`10m`; `""` is `now`), or a date
    with or without time and zone (`2024-05-01T12:30`; in UTC without a zone). Raise CommandError
    for other forms.
    """
    if _SECONDS.fullmatch(text):
        return text
    try:
        return _read_date(text) or str(int(now - read_duration(text) / 10**9))
    except ValueError:  # of a CommandError too
        raise CommandError(
            f"`{text}` is not a time: write it as 10m or 2024-05-01T12:30Z"
        ) from None


def _read_date(text: str) -> str:
    """Return a date, `2024-05-01` with or without a time and a zone (UTC by default), in seconds
    since 1970 with nine decimals; `""` for another form. Raise ValueError for a day or time that
    does not exist.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        return ""
    day, time, fraction, zone = match.groups(default="")
    whole = datetime.fromisoformat(f"{day}T{time.partition('.')[0] or '00'}{zone or 'Z'}")
    return f"{int(whole.timestamp())}.{fraction:0<9}"


def read_ulimit(text: str) -> dict[str, Any]:
    """Return a resource limit, `NAME=SOFT[:HARD]`, as the engine API has it; the hard limit is by
    default the soft one. Raise CommandError for another form, and if a limit is not an integer.
    """
    name, equals, limits = text.partition("=")
    if not name or not equals:
        raise CommandError(f"`{text}` is not NAME=SOFT or NAME=SOFT:HARD, such as nofile=1024")
    soft, colon, hard = limits.partition(":")
    return {"Name": name, "Soft": read_integer(soft), "Hard": read_integer(hard if colon else soft)}


def read_host(text: str) -> str:
    """Return `NAME:ADDRESS` for a value of `--add-host`, which may also be written `NAME=ADDRESS`,
    and the address in brackets. CommandError if it is not an IP address or `host-gateway`.
    """
    name, _, address = text.partition("=" if "=" in text else ":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    if not name or (address != "host-gateway" and not is_ip_address(address)):
        raise CommandError(f"`{text}` is not NAME:ADDRESS with an IP address, such as db:10.0.0.2")
    return f"{name}:{address}"
