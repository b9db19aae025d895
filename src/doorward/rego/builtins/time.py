"""Times in nanoseconds since the epoch, in any zone, by Go's layouts.

Times are those that 64 bits of nanoseconds hold, 1677 to 2262; others are errors. Zones come from
the system's or the `tzdata` package's database; `Local` is UTC, so that a decision does not hang
on the machine it is made on.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin, operand_error
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import (
    exact_operand,
    is_number,
    machine_integer,
    refuse_operand,
)
from doorward.rego.builtins.registry.signature import any_of, number, string, tuple_
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.calendar import EPOCH_DAY, days_in_month, days_of, seconds_of
from doorward.rego.golang.layouts import (
    DAYS,
    Moment,
    as_bytes,
    format_time,
    parse_time,
    plain_layout,
    quote_bytes,
)
from doorward.rego.values import Value, kind_name

__all__: list[str] = []

Instant: TypeAlias = tuple[int, tzinfo]
"""A time in nanoseconds since the epoch, and its time zone."""

_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_LIMIT: Final = 1 << 63
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = 4
"""The day of the week of the epoch: a Thursday."""
_STAMP: Final = any_of(number, tuple_(number, string))
_STAMP_LAYOUT: Final = any_of(number, tuple_(number, string), tuple_(number, string, string))
_RFC3339: Final = "2006-01-02T15:04:05Z07:00"
_RFC3339_NANO: Final = "2006-01-02T15:04:05.999999999Z07:00"
_LAYOUTS: Final = {
    "ANSIC": "Mon Jan _2 15:04:05 2006",
    "UnixDate": "Mon Jan _2 15:04:05 MST 2006",
    "RubyDate": "Mon Jan 02 15:04:05 -0700 2006",
    "RFC822": "02 Jan 06 15:04 MST",
    "RFC822Z": "02 Jan 06 15:04 -0700",
    "RFC850": "Monday, 02-Jan-06 15:04:05 MST",
    "RFC1123": "Mon, 02 Jan 2006 15:04:05 MST",
    "RFC1123Z": "Mon, 02 Jan 2006 15:04:05 -0700",
    "RFC3339": _RFC3339,
    "RFC3339Nano": _RFC3339_NANO,
}


@builtin("time.now_ns", returns=number, pure=False, context=True)
def time_now_ns(context: Context) -> int:
    """The time of the decision in nanoseconds since the epoch: the same however often a policy
    asks.
    """
    return context.now_ns


@builtin("time.parse_ns", string, string, returns=number, inverse=inverse("parse_ns"))
def time_parse_ns(layout: str, value: str) -> int:
    """The time in nanoseconds that `value` states, in Go's `layout` or a layout's name; without a
    zone in it, in UTC. A text that does not fit the layout, or a time outside of 1677 to 2262, is
    an error.
    """
    layout = _LAYOUTS.get(layout, layout)
    known = _plain_iso(value) if layout in _ISO else None
    return _check(*(known or parse_time(layout, value)))


@builtin("time.parse_rfc3339_ns", string, returns=number, inverse=inverse("rfc3339"))
def time_parse_rfc3339_ns(value: str) -> int:
    """The time in nanoseconds that an RFC 3339 text stands for; another text, or a time outside of
    1677 to 2262, is an error.
    """
    return _check(*(_plain_iso(value) or parse_time(_RFC3339, value)))


_PLAIN_ISO: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)


def _plain_iso(value: str) -> tuple[int, int] | None:
    """The seconds since the epoch and the nanoseconds of a text `YYYY-MM-DDThh:mm:ss` with at most
    nine digits of fraction, and `Z` or `±hh:mm`; None for others, which `golang.layouts` reads.
    """
    match = _PLAIN_ISO.fullmatch(value)
    if match is None:
        return None
    text, fraction, sign, hours, minutes = match.groups()
    try:
        since = datetime.fromisoformat(text) - _EPOCH
    except ValueError:
        return None
    seconds = since.days * 86_400 + since.seconds
    if sign is not None:
        offset = int(hours) * 3_600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    return seconds, int(fraction) * 10 ** (9 - len(fraction)) if fraction else 0


def _check(seconds: int, nanoseconds: int) -> int:
    """Return `seconds` and `nanoseconds` as nanoseconds; BuiltinError if these do not fit 64
    bits.
    """
    total = seconds * _SECOND + nanoseconds
    if not -_LIMIT <= total < _LIMIT:
        raise BuiltinError("time outside of valid range")
    return total


@builtin(
    "time.format", _STAMP_LAYOUT, returns=string, checked=False, inverse=inverse("time_format")
)
def time_format(x: Value) -> str:
    """The time as text: in RFC 3339, with a fraction of a second if it is not zero, or for an
    operand `[ns, zone, layout]` in Go's layout (or a layout's name, such as RFC822). An unknown
    zone, or a time that is not an integer of 64 bits, is an error.
    """
    instant = _instant(x)
    layout = str(x[2]) if isinstance(x, list) and len(x) > 2 else ""
    layout = _LAYOUTS.get(layout, layout) or _RFC3339_NANO
    if instant[1] is UTC and layout in _ISO:
        return _iso(instant[0], fraction=layout == _RFC3339_NANO)
    plain = plain_layout(layout)
    return format_time(layout, _moment(instant)) if plain is None else plain(_local(instant))


_ISO: Final = frozenset({_RFC3339, _RFC3339_NANO})


def _iso(nanoseconds: int, *, fraction: bool) -> str:
    """Write nanoseconds since the epoch as RFC 3339 in UTC; a fraction of a second only if
    `fraction` is True and it is not zero.
    """
    seconds, rest = divmod(nanoseconds, _SECOND)
    text = (_EPOCH + timedelta(0, seconds)).isoformat()
    if fraction and rest:
        text += "." + f"{rest:09d}".rstrip("0")
    return text + "Z"


@builtin(
    "time.date",
    _STAMP,
    returns=tuple_(number, number, number),
    checked=False,
    inverse=inverse("date"),
)
def time_date(x: Value) -> list[int]:
    """The date as `[year, month, day]`, in UTC, or in the zone of an operand `[ns, zone]`."""
    local = _local(_instant(x))
    return [local.year, local.month, local.day]


@builtin(
    "time.clock",
    _STAMP,
    returns=tuple_(number, number, number),
    checked=False,
    inverse=inverse("clock"),
)
def time_clock(x: Value) -> list[int]:
    """The time of day as `[hour, minute, second]`, in UTC, or in the zone of an operand `[ns,
    zone]`.
    """
    instant = _instant(x)
    if instant[1] is UTC:
        minutes, second = divmod(instant[0] // _SECOND % 86_400, 60)
        return [*divmod(minutes, 60), second]
    local = _local(instant)
    return [local.hour, local.minute, local.second]


@builtin("time.weekday", _STAMP, returns=string, checked=False, inverse=inverse("weekday"))
def time_weekday(x: Value) -> str:
    """The English name of the weekday, in UTC, or in the zone of an operand `[ns, zone]`."""
    instant = _instant(x)
    if instant[1] is UTC:
        return DAYS[(instant[0] // (86_400 * _SECOND) + _EPOCH_DAY) % 7]
    return DAYS[_local(instant).isoweekday() % 7]


@builtin(
    "time.add_date",
    number,
    number,
    number,
    number,
    returns=number,
    checked=False,
    inverse=inverse("add_date"),
)
def time_add_date(x: Value, years: Value, months: Value, days: Value) -> int:
    """The time in nanoseconds with years, months and days added, in the calendar of its zone. Days
    beyond the end of a month go into the next one. A number that is not an integer of 64 bits, an
    unknown zone, and a result outside of 1677 to 2262, are errors.
    """
    instant = _instant(x)
    years, months, days = (
        operand
        if type(operand) is int and -_LIMIT <= operand < _LIMIT
        else machine_integer(position, operand)
        for position, operand in ((2, years), (3, months), (4, days))
    )
    if instant[1] is UTC:
        # The time of the day stays as it is.
        before = instant[0] // _DAY
        start = date.fromordinal(before + EPOCH_DAY + 1)
        after = days_of(start.year + years, start.month + months, start.day + days)
        return _check(0, instant[0] + (after - before) * _DAY)
    local = _local(instant)
    year, month, day = local.year + years, local.month + months, local.day + days
    seconds = seconds_of(year, month, day, local.hour, local.minute, local.second)
    # Far outside the range no zone is asked: Python's calendar has an end.
    _check(seconds - 2 * 86_400 if seconds > 0 else seconds + 2 * 86_400, 0)
    offset = _offset(seconds, instant[1])
    if offset:
        seconds -= _offset(seconds - offset, instant[1])
    return _check(seconds, instant[0] % _SECOND)


@builtin(
    "time.diff",
    _STAMP,
    _STAMP,
    returns=tuple_(*[number] * 6),
    checked=False,
    inverse=inverse("diff"),
)
def time_diff(ns1: Value, ns2: Value) -> list[int]:
    """The difference of two times as `[years, months, days, hours, minutes, seconds]`, in the zone
    of `ns1`. It is the same in either order, and never negative.
    """
    (first, zone), (second, _) = _instant(ns1), _instant(ns2)
    one, other = _local((min(first, second), zone)), _local((max(first, second), zone))
    seconds, minute, hour = (
        other.second - one.second,
        other.minute - one.minute,
        other.hour - one.hour,
    )
    day, month, year = other.day - one.day, other.month - one.month, other.year - one.year
    if seconds < 0:
        seconds, minute = seconds + 60, minute - 1
    if minute < 0:
        minute, hour = minute + 60, hour - 1
    if hour < 0:
        hour, day = hour + 24, day - 1
    if day < 0:
        day, month = day + days_in_month(one.year, one.month), month - 1
    if month < 0:
        month, year = month + 12, year - 1
    return [year, month, day, hour, minute, seconds]


def _instant(x: Value) -> Instant:
    """The nanoseconds and zone of a time operand, a number or `[number, zone, …]`; UTC without a
    zone. OperandError for another form; it names operand 1 always, as in OPA. BuiltinError for an
    unknown zone, or a time that has a fraction or does not fit 64 bits.
    """
    if type(x) is int and -_LIMIT <= x < _LIMIT:
        return x, UTC
    zone: tzinfo = UTC
    stamp = x
    if isinstance(x, list) and x:
        stamp = x[0]
        if not is_number(stamp):
            raise operand_error(1, stamp, "number")
        if len(x) > 1:
            name = x[1]
            if not isinstance(name, str):
                raise operand_error(1, name, "string")
            zone = _zone(name)
        if len(x) > 2 and not isinstance(x[2], str):  # the layout of time.format
            raise operand_error(1, x[2], "string")
    if not is_number(stamp):
        refuse_operand(1, "either number (ns) or [number (ns), string (tz)]", kind_name(x))
    value = exact_operand(stamp)  # type: ignore[arg-type] # a number by now
    if type(value) is not int or not -_LIMIT <= value < _LIMIT:
        raise BuiltinError("timestamp too big")
    return value, zone


def _zone(name: str) -> tzinfo:
    """The time zone `name` of the IANA database; UTC for "", "UTC" and "Local". BuiltinError for an
    unknown name, or one that is a path.
    """
    if name in {"", "UTC", "Local"}:
        return UTC
    # A name is a path below the database's folder: it must not lead out of it.
    if ".." in name or name.startswith(("/", "\\")):
        raise BuiltinError("time: invalid location name")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BuiltinError(f"unknown time zone {name}") from None


def _local(instant: Instant) -> datetime:
    """The local date and time in the instant's zone, without fractions of a second."""
    at = _START + timedelta(seconds=instant[0] // _SECOND)
    return at if instant[1] is UTC else at.astimezone(instant[1])


def _offset(seconds: int, zone: tzinfo) -> int:
    """The offset of the zone from UTC, in seconds, at a time in seconds since the epoch."""
    if zone is UTC:
        return 0
    offset = (_START + timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds())


def _moment(instant: Instant) -> Moment:
    """The fields of a time that Go's layouts can show: date, clock with nanoseconds, weekday (0 is
    Sunday), and the name and offset of its zone.
    """
    local = _local(instant)
    offset = local.utcoffset() or timedelta()
    return Moment(
        local.year,
        local.month,
        local.day,
        local.hour,
        local.minute,
        local.second,
        instant[0] % _SECOND,
        local.isoweekday() % 7,
        local.tzname() or "",
        int(offset.total_seconds()),
    )


_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3_600 * _SECOND,
    "d": 86_400 * _SECOND,
    "w": 7 * 86_400 * _SECOND,
    "y": 365 * 86_400 * _SECOND,
}
_MAX_DURATION: Final = 4096
_SEGMENT: Final = re.compile(r"(?P<whole>\d*)(?:\.(?P<part>\d*))?(?P<unit>[^.\d]*)", re.ASCII)


@builtin("time.parse_duration_ns", string, returns=number, inverse=inverse("duration"))
def time_parse_duration_ns(duration: str) -> int:
    """The nanoseconds in a duration such as `1h30m` or `1.5d`, negative after `-`, cut to whole
    ones; units are ns, us, ms, s, m, h, d, w and y (365 days), and only 0 may have none. Another
    text, or more than 64 bits, is an error; LimitError for a text of more than 4,096 characters.
    """
    rest = duration[1:] if duration[:1] in {"+", "-"} else duration
    if rest == "0":
        return 0
    if not rest:
        raise _invalid_duration(duration)
    if len(rest) > _MAX_DURATION:
        raise LimitError(f"duration is longer than {_MAX_DURATION} characters")
    total = 0
    # Each segment begins where the one before ends, the last, empty one at the end of the text.
    for integer, part, name in _SEGMENT.findall(rest)[:-1]:
        unit = _UNITS.get(name)
        if unit is None or not (integer or part):
            raise _invalid_segment(integer or part, name, duration)
        if integer:
            total += int(integer) * unit
        if part:
            total += _part(part, unit)
    if "μ" in duration and not {"d", "w", "y"}.isdisjoint(duration):
        # Go reads a Greek mu, and OPA, which adds days, weeks and years, does not.
        raise _invalid_duration(duration)
    if total > _LIMIT or (total == _LIMIT and duration[0] != "-"):
        raise _invalid_duration(duration)
    return -total if duration[0] == "-" else total


def _invalid_segment(digits: str, name: str, duration: str) -> BuiltinError:
    """The error about a number without digits, without a unit or with an unknown one."""
    if not digits:
        return _invalid_duration(duration)
    if not name:
        return BuiltinError(f"time: missing unit in duration {_quote(duration)}")
    return BuiltinError(f"time: unknown unit {_quote(name)} in duration {_quote(duration)}")


def _invalid_duration(duration: str) -> BuiltinError:
    return BuiltinError(f"time: invalid duration {_quote(duration)}")


def _quote(text: str) -> str:
    return quote_bytes(as_bytes(text))


def _part(digits: str, unit: int) -> int:
    """The decimal fraction `digits` of a unit, in nanoseconds: `_part("5", 1_000_000_000)` is
    500_000_000. Digits after the 18th are ignored. Computed in floating point as Go does; 0 for "".
    """
    digits = digits[:18]
    return int(int(digits) * (unit / _POWERS[len(digits)])) if digits else 0


_POWERS: Final = tuple(10.0**exponent for exponent in range(19))
