"""The Gregorian calendar for any year, before Python's year 1 and after its 9999 too."""

from __future__ import annotations

from typing import Final

__all__ = ["EPOCH_DAY", "days_before_month", "days_in_month", "days_of", "is_leap", "seconds_of"]

_BEFORE: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
EPOCH_DAY: Final = 719_162
"""The days from the first of January of year 1 to that of 1970."""


def is_leap(year: int) -> bool:
    """Return True if the year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_before_month(year: int, month: int) -> int:
    """The number of days of the year before the first of `month` (from 1)."""
    return _BEFORE[month - 1] + (month > 2 and is_leap(year))


def days_in_month(year: int, month: int) -> int:
    """The number of days in `month` (from 1) of a year."""
    return _BEFORE[month] - _BEFORE[month - 1] + (month == 2 and is_leap(year))


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since the epoch of a date; negative before 1970. A month or day out of range
    carries over: month 13 is the next January.
    """
    carried, index = divmod(month - 1, 12)
    year += carried
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    return days + days_before_month(year, index + 1) + day - 1 - EPOCH_DAY


def seconds_of(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Return the seconds since the epoch of a time in UTC; the date as for `days_of`."""
    return ((days_of(year, month, day) * 24 + hour) * 60 + minute) * 60 + second
