"""Go's time layouts: how the reference time is written says how a time is printed and read.

`chunks` cuts a layout such as `Mon, 02 Jan 2006` into its elements; `format_time` prints
`Moment`s by them and `parse_time` reads what they describe. Texts are handled byte by byte, as Go
does, in strings with one character per byte (`as_bytes`). What is printed or read has no
nanosecond range: the built-ins check that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Final

from doorward.base.records import record
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.calendar import days_before_month, days_in_month, is_leap, seconds_of

__all__ = [
    "DAYS",
    "MAX_LAYOUT",
    "Moment",
    "format_time",
    "parse_time",
    "plain_layout",
    "quote_bytes",
    "read_by_elements",
    "time_text",
]

MAX_LAYOUT: Final = 4096
"""The most bytes of a layout; more is a LimitError."""
_SECOND: Final = 1_000_000_000

_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

# In the order in which Go tries them at one place. A fraction must not be followed by a digit,
# nor `Jan` and `Mon` by a small letter.
# `_2006` is an underscore and a year (Go's nextStdChunk).
_ELEMENT: Final = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|002|01|02|03|04|05|06|15|2006"
    r"|__2|_2(?!006)|(?<=_)2006|1|2|3|4|5|PM|pm"
    r"|[-Z]07:00:00|[-Z]070000|[-Z]07:00|[-Z]0700|[-Z]07"
    r"|[.,](?:0+|9+)(?!\d)",
    re.ASCII,
)


@record
class Moment:
    """A time in a time zone; `weekday` 0 is Sunday, `offset` is in seconds east of UTC."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    weekday: int
    zone: str
    offset: int

    @property
    def year_day(self) -> int:
        """The day of the year, from 1."""
        return days_before_month(self.year, self.month) + self.day


def as_bytes(text: str) -> str:
    """Return the UTF-8 bytes of `text` as a string with one character for each byte; a lone
    surrogate gives three.
    """
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def quote_bytes(text: str) -> str:
    """Return `text`, which has one character for each byte, in quotes as Go's time package writes
    it.
    """
    return '"' + "".join([_quote(char) for char in text]) + '"'


def _quote(char: str) -> str:
    """Return a character as an error shows it: escaped if it is not printable ASCII."""
    if char < " " or char >= "\x80":
        return f"\\x{ord(char):02x}"
    return "\\" + char if char in '"\\' else char


@lru_cache(maxsize=512)
def chunks(layout: str) -> tuple[tuple[str, str], ...]:
    """Split a layout into its elements, each with the text before it; the last pair has the text at
    the end and "". `Jan _2` -> `(("", "Jan"), (" ", "_2"), ("", ""))`. LimitError above
    `MAX_LAYOUT` bytes.
    """
    if len(layout) > MAX_LAYOUT:
        raise LimitError(f"layout is longer than {MAX_LAYOUT} bytes")
    parts: list[tuple[str, str]] = []
    at = 0
    for element in _ELEMENT.finditer(layout):
        parts.append((layout[at : element.start()], element.group()))
        at = element.end()
    return (*parts, (layout[at:], ""))


def format_time(layout: str, moment: Moment) -> str:
    """Format the moment by `layout`, Go's reference time written in the form of the result.
    LimitError for a layout above `MAX_LAYOUT` bytes.
    """
    out = "".join([text + _print(element, moment) for text, element in chunks(as_bytes(layout))])
    return out.encode("latin-1").decode("utf-8", "surrogatepass")


@lru_cache(maxsize=512)
def plain_layout(layout: str) -> Callable[[datetime], str] | None:
    """Return a function that formats a datetime by a layout whose only elements are year, month,
    day, hour (of 24), minute and second as numbers, such as `2006-01-02`; None for a layout with
    other elements or with none. LimitError above `MAX_LAYOUT` bytes. Cached.
    """
    template, names = "", list[str]()
    for text, element in chunks(as_bytes(layout)):
        template += text.replace("%", "%%")
        if element:
            width, name = _PLAIN.get(element, ("", ""))
            if not name:
                return None
            template += width
            names.append(name)
    if not names:
        return None
    template = template.encode("latin-1").decode("utf-8", "surrogatepass")
    read = attrgetter(*names)
    return lambda time: template % read(time)


_PLAIN: Final = {
    "2006": ("%04d", "year"),
    "01": ("%02d", "month"),
    "1": ("%d", "month"),
    "02": ("%02d", "day"),
    "2": ("%d", "day"),
    "_2": ("%2d", "day"),
    "15": ("%02d", "hour"),
    "04": ("%02d", "minute"),
    "4": ("%d", "minute"),
    "05": ("%02d", "second"),
    "5": ("%d", "second"),
}


def time_text(layout: str, time_ns: int) -> str:
    """Format nanoseconds since the epoch, in UTC, by Go's `layout`. OverflowError or ValueError for
    a year outside of 1 to 9999, LimitError for a layout above `MAX_LAYOUT` bytes.
    """
    seconds, nanosecond = divmod(time_ns, _SECOND)
    t = datetime.fromtimestamp(seconds, UTC)
    weekday = t.isoweekday() % 7
    moment = Moment(
        t.year, t.month, t.day, t.hour, t.minute, t.second, nanosecond, weekday, "UTC", 0
    )
    return format_time(layout, moment)


def _print(element: str, t: Moment) -> str:
    """Return the text of one element of a layout, such as `Jan` or `.000`, for a moment; "" for the
    element "". A zone without a name is printed as its offset. The element must be one that
    `chunks` yields.
    """
    simple = _PRINTED.get(element)
    if simple is not None:
        return simple.format(t=t, m=_MONTHS[t.month - 1], d=DAYS[t.weekday], h=t.hour % 12 or 12)
    if element in {"PM", "pm"}:
        half = "PM" if t.hour >= 12 else "AM"
        return half if element == "PM" else half.lower()
    if element in {"06", "MST"}:
        return f"{t.year % 100:02d}" if element == "06" else t.zone or _offset("-0700", t.offset)
    if element[:1] in {"-", "Z"}:
        return _offset(element, t.offset)
    return _fraction(element, t.nanosecond) if element else ""


_PRINTED: Final = {
    "January": "{m}",
    "Jan": "{m:.3}",
    "1": "{t.month}",
    "01": "{t.month:02d}",
    "Monday": "{d}",
    "Mon": "{d:.3}",
    "2": "{t.day}",
    "02": "{t.day:02d}",
    "_2": "{t.day:2d}",
    "002": "{t.year_day:03d}",
    "__2": "{t.year_day:3d}",
    "15": "{t.hour:02d}",
    "3": "{h}",
    "03": "{h:02d}",
    "4": "{t.minute}",
    "04": "{t.minute:02d}",
    "5": "{t.second}",
    "05": "{t.second:02d}",
    "2006": "{t.year:04d}",
}


def _offset(element: str, offset: int) -> str:
    """Format a zone's offset, in seconds east of UTC, as an element such as `-07:00` or `Z0700`;
    the latter gives `Z` for 0.
    """
    if element[0] == "Z" and offset == 0:
        return "Z"
    seconds = abs(offset)
    # Go looks at whole minutes for the sign.
    sign = "-" if offset <= -60 else "+"
    digits = [seconds // 3600, seconds // 60 % 60, seconds % 60]
    digits_of_part = digits[: len(element.replace(":", "")) // 2]
    return sign + (":" if ":" in element else "").join([f"{n:02d}" for n in digits_of_part])


def _fraction(element: str, nanosecond: int) -> str:
    """Format a fraction of a second as an element such as `.000` (always so many digits) or `.999`
    (without trailing zeros, "" for none).
    """
    digits = f"{nanosecond:09d}".ljust(len(element) - 1, "0")[: len(element) - 1]
    if element[1] == "9":
        digits = digits.rstrip("0")
    return element[0] + digits if digits else ""


class _BadValueError(Exception):
    """A part of a time does not match the layout."""


class _RangeError(Exception):
    """A part of a time matches the layout, but is out of range."""


def parse_time(layout: str, value: str) -> tuple[int, int]:
    """Parse `value` by Go's `layout`. Return the seconds since the epoch and the nanoseconds;
    without a zone it is a time in UTC, also with an abbreviation such as `CET`, whose offset is
    unknown. BuiltinError, in Go's words, if it does not match or a part is out of range; LimitError
    for a layout above `MAX_LAYOUT` bytes.
    """
    at_once = _read_at_once(layout, value)
    return read_by_elements(layout, value) if at_once is None else at_once


def read_by_elements(layout: str, value: str) -> tuple[int, int]:
    """Parse `value` by Go's `layout`, any layout, element by element. Return the seconds since the
    epoch and the nanoseconds. BuiltinError, in Go's words, if it does not match or a part is out of
    range; LimitError for a layout above `MAX_LAYOUT` bytes.
    """
    reader = _Reader(as_bytes(value))
    layout = as_bytes(layout)
    head = f"parsing time {quote_bytes(reader.rest)}"

    def skip(text: str) -> None:
        """Skip literal text of the layout; BuiltinError if the value has other text."""
        try:
            reader.skip(text)
        except _BadValueError:
            raise _cannot(head, layout, reader.rest, text) from None

    elements = chunks(layout)
    for (before, element), following in pairwise(elements):
        skip(before)
        start = reader.rest
        try:
            reader.read(element, following)
        except _RangeError as error:
            raise BuiltinError(f"{head}: {error} out of range") from None
        except _BadValueError:
            raise _cannot(head, layout, start, element) from None
    skip(elements[-1][0])
    if reader.rest:
        raise BuiltinError(f"{head}: extra text: {quote_bytes(reader.rest)}")
    try:
        return reader.instant()
    except _RangeError as error:
        raise BuiltinError(f"{head}: {error}") from None


# Most layouts have a place for each element, and most values are right: such a value is cut up and
# read at once. What is not so simple, and each value that is wrong, is read element by element.

_WIDTHS: Final = {"2006": 4, "01": 2, "02": 2, "15": 2, "04": 2, "05": 2}
_ARGUMENTS: Final = ("2006", "01", "02", "15", "04", "05")
_ZONES: Final = {"Z07:00": "00:00", "-07:00": "00:00", "Z0700": "0000", "-0700": "0000"}
_ZEROS: Final = str.maketrans("123456789", "000000000")
_EPOCH: Final = datetime(1970, 1, 1)


@record
class _Shape:
    """The positions of a layout's elements in a value, for layouts in which they are fixed; `text`
    is the layout with zeros for digits, `zone` its zone element or "".
    """

    text: str
    slices: tuple[slice, ...]
    """The positions of year, month, day, hour, minute and second, in this order, as far as the
    layout has them.
    """
    takes_fraction: bool
    zone: str


@lru_cache(maxsize=512)
def _shape(layout: str) -> _Shape | None:
    """Return the fixed form of a layout, by which texts are read quickly: year, month and day as
    numbers, then perhaps hour, minute and second, each once in any order, and perhaps a fraction
    and a zone at the end. None for a layout that has other elements, a digit or a character beyond
    ASCII between them, two spaces in a row, or text behind the seconds or the zone. Cached.
    """
    text = zone = ""
    places: dict[str, slice] = {}
    takes_fraction = False
    for before, element in chunks(layout):
        if before and (takes_fraction or zone or not before.isascii() or "  " in before):
            return None
        # Digits become zeros in `text`: a literal one would stand for any digit.
        if any(map(str.isdigit, before)):
            return None
        text += before
        if element in _WIDTHS and element not in places and not takes_fraction and not zone:
            places[element] = slice(len(text), len(text) + _WIDTHS[element])
            text += "0" * _WIDTHS[element]
        elif element in _ZONES and not zone:
            zone = element
        elif element[:2] in {".9", ",9"} and list(places)[-1:] == ["05"] and not zone:
            takes_fraction = True
        elif element:
            return None
        # Go reads a fraction behind the seconds also where the layout has none.
        takes_fraction = takes_fraction or (element == "05")
    names = [name for name in _ARGUMENTS if name in places]
    if names != list(_ARGUMENTS[: len(names)]) or len(names) < 3:
        return None
    text = text.translate(_ZEROS)
    return _Shape(text, tuple(places[name] for name in names), takes_fraction, zone)


def _read_at_once(layout: str, value: str) -> tuple[int, int] | None:
    """Parse a value whose layout has fixed positions. Return the seconds since the epoch and the
    nanoseconds. None if the layout or the value is not that simple, or the value is invalid: then
    call `read_by_elements`, which parses it or raises the error. LimitError for a layout above
    `MAX_LAYOUT` bytes.
    """
    shape = _shape(layout)
    if shape is None or not value.isascii():
        return None
    size = len(shape.text)
    form = value.translate(_ZEROS)
    if not form.startswith(shape.text):
        return None
    nanosecond = 0
    end = size
    if shape.takes_fraction and form[size : size + 2] in {".0", ",0"}:
        digits = form[size + 1 :]
        end = len(form) - len(digits.lstrip("0"))
        nanosecond = int(value[size + 1 : min(end, size + 10)].ljust(9, "0"))
    offset = 0
    zone = form[end:]
    if shape.zone:
        if zone == "Z" and shape.zone[0] == "Z":
            pass
        elif zone[1:] == _ZONES[shape.zone] and zone[0] in "+-":
            hours, minutes = int(value[end + 1 : end + 3]), int(value[-2:])
            if hours > 24 or minutes > 60:
                return None
            offset = (hours * 60 + minutes) * 60
            if value[end] == "-":
                offset = -offset
        else:
            return None
    elif zone:
        return None
    numbers = [int(value[each]) for each in shape.slices]
    year, month, day, hour, minute, second = (*numbers, 0, 0, 0)[:6]
    try:
        since = datetime(year, month, day, hour, minute, second) - _EPOCH
    except ValueError:
        return None
    return since.days * 86_400 + since.seconds - offset, nanosecond


def _cannot(head: str, layout: str, rest: str, element: str) -> BuiltinError:
    """Build, but do not raise, Go's error for a part of the value that does not match an
    element.
    """
    problem = f"cannot parse {quote_bytes(rest)} as {quote_bytes(element)}"
    return BuiltinError(f"{head} as {quote_bytes(layout)}: {problem}")


_DIGITS: Final = frozenset("0123456789")


class _Reader:
    """Parses the elements of a layout from a value and stores what they mean; `rest` is the text
    not read so far. Its methods raise _BadValueError for text that does not match, and _RangeError
    for a number out of range.
    """

    def __init__(self, value: str) -> None:
        self.rest = value
        self.year = self.hour = self.minute = self.second = self.nanosecond = 0
        self.month = self.day = self.year_day = -1
        self.half = ""
        self.offset = 0
        self.is_utc = False

    def take(self, count: int) -> str:
        """Remove `count` characters from the start of `rest` and return them; _BadValueError if
        there are fewer.
        """
        if len(self.rest) < count:
            raise _BadValueError
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def is_digit(self, at: int) -> bool:
        """Return True if `rest` has an ASCII digit at index `at`."""
        return self.rest[at : at + 1] in _DIGITS and at < len(self.rest)

    def skip(self, text: str) -> None:
        """Skip the literal `text`. A run of spaces in it matches one or more spaces, or none at the
        end of the value. _BadValueError if other text follows.
        """
        while text:
            if text[0] == " ":
                if self.rest and self.rest[0] != " ":
                    raise _BadValueError
                text, self.rest = text.lstrip(" "), self.rest.lstrip(" ")
            elif not self.rest or self.rest[0] != text[0]:
                raise _BadValueError
            else:
                text, self.rest = text[1:], self.rest[1:]

    def number(self, *, fixed: bool, digits: int = 2) -> int:
        """Read a number of up to `digits` (2 by default) ASCII digits, or of exactly that many if
        `fixed`, from `rest` and return it; _BadValueError if there are too few.
        """
        count = 0
        while count < digits and self.is_digit(count):
            count += 1
        if count == 0 or (fixed and count != digits):
            raise _BadValueError
        return int(self.take(count))

    def within(self, name: str, low: int, high: int, *, fixed: bool) -> int:
        """Read and return a number of up to two digits, of exactly two if `fixed`. _BadValueError
        if there is none; _RangeError, with `name`, if it is not from `low` to `high`.
        """
        number = self.number(fixed=fixed)
        if not low <= number <= high:
            raise _RangeError(name)
        return number

    def name(self, names: tuple[str, ...]) -> int:
        """Read the first of `names` with which `rest` begins, in any case, and return its index;
        _BadValueError if there is none.
        """
        for number, name in enumerate(names):
            if self.rest[: len(name)].lower() == name.lower():
                self.rest = self.rest[len(name) :]
                return number
        raise _BadValueError

    def read(self, element: str, following: tuple[str, str]) -> None:
        """Read one element of the layout, such as `Jan` or `15`, from `rest` and store what it
        means (the names of weekdays mean nothing). `following` is the text and element that come
        next in the layout: behind seconds, a fraction is read even if the layout has none there.
        _BadValueError for text that does not match, _RangeError for a part out of range; days are
        compared with the month later.
        """
        match element:
            case "06":
                year = _parse_signed(self.take(2))
                # As in Go, `69` is 1969 and `68` is 2068.
                self.year = year + (1900 if year >= 69 else 2000)
            case "2006":
                if not self.is_digit(0):
                    raise _BadValueError
                self.year = _parse_signed(self.take(4))
            case "Jan":
                self.month = self.name(tuple(name[:3] for name in _MONTHS)) + 1
            case "January":
                self.month = self.name(_MONTHS) + 1
            case "Mon":
                self.name(tuple(name[:3] for name in DAYS))
            case "Monday":
                self.name(DAYS)
            case "1" | "01":
                self.month = self.within("month", 1, 12, fixed=element == "01")
            case "2" | "_2" | "02":
                if element == "_2":
                    self.rest = self.rest.removeprefix(" ")
                # Whether the month has such a day is asked in `instant`: the month may come later.
                self.day = self.number(fixed=element == "02")
            case "__2" | "002":
                if element == "__2":
                    self.rest = self.rest.removeprefix(" ").removeprefix(" ")
                self.year_day = self.number(fixed=element == "002", digits=3)
            case "15":
                # Never fixed, as in Go's Parse: `9:30` fits `15:04`.
                self.hour = self.within("hour", 0, 23, fixed=False)
            case "3" | "03":
                self.hour = self.within("hour", 0, 12, fixed=element == "03")
            case "4" | "04":
                self.minute = self.within("minute", 0, 59, fixed=element == "04")
            case "5" | "05":
                self.second = self.within("second", 0, 59, fixed=element == "05")
                self.extra_fraction(following)
            case "PM" | "pm":
                self.read_half(element)
            case "MST":
                self.zone_name()
            case _ if element[0] in "-Z":
                self.zone_offset(element)
            case _:
                self.fraction(element)

    def read_half(self, element: str) -> None:
        """Read `AM` or `PM` for the element `PM`, `am` or `pm` for `pm`, into `half` as capitals;
        _BadValueError for other text.
        """
        half = self.take(2)
        if half not in ({"AM", "PM"} if element == "PM" else {"am", "pm"}):
            raise _BadValueError
        self.half = half.upper()

    def extra_fraction(self, following: tuple[str, str]) -> None:
        """Read a fraction of a second into `nanosecond` behind the seconds although the layout has
        none there, as Go does; do nothing if the value has none, or if the layout's next element,
        in `following`, is a fraction.
        """
        if self.rest[:1] in {".", ","} and self.is_digit(1):
            _, element = following
            if element[:1] not in {".", ","}:
                self.nanoseconds(self.count_digits() + 1)

    def count_digits(self) -> int:
        """Return the number of digits in `rest` after its first character. Nothing is removed from
        `rest`.
        """
        count = 0
        while self.is_digit(count + 1):
            count += 1
        return count

    def fraction(self, element: str) -> None:
        """Read a fraction of a second, with its `.` or `,`, into `nanosecond`: with as many digits
        as the element `.000` has, or _BadValueError; with any number of digits, or none, for
        `.999`.
        """
        if element[1] == "0":
            if len(self.rest) < len(element):
                raise _BadValueError
            self.nanoseconds(len(element))
        elif self.rest[:1] in {".", ","} and self.rest and self.is_digit(1):
            self.nanoseconds(self.count_digits() + 1)

    def nanoseconds(self, size: int) -> None:
        """Read a point or comma and digits, `size` characters in all, and store them; digits after
        the ninth are ignored. _BadValueError for other text.
        """
        text = self.take(size)
        digits = text[1:10]
        if text[0] not in ".," or not (digits.isascii() and digits.isdigit()):
            raise _BadValueError
        self.nanosecond = int(digits.ljust(9, "0"))

    def zone_offset(self, element: str) -> None:
        """Read a zone's offset in the form of the layout's `element`, such as `-07:00`, and store
        it in `offset`, in seconds east of UTC. For an element that begins with `Z`, a `Z` sets
        `is_utc` instead. _BadValueError for text of another form, _RangeError for an hour above 24
        or a minute or second above 60.
        """
        if element[0] == "Z" and self.rest.startswith("Z"):
            self.rest = self.rest[1:]
            self.is_utc = True
            return
        text = self.take(len(element))
        if any(text[n] != ":" for n, char in enumerate(element) if char == ":"):
            raise _BadValueError
        parts = [text[n : n + 2] for n in ((1, 4, 7) if ":" in element else (1, 3, 5))]
        parts = [part for part in parts if part]
        numbers: list[int] = []
        for part in parts:
            if not (part.isascii() and part.isdigit()):
                raise _BadValueError
            numbers.append(int(part))
        # Go's own, inclusive, and the last part that is too large gives the error: its checks
        # overwrite each other.
        limits = (24, 60, 60)
        names = ("hour", "minute", "second")
        wrong = [name for n, limit, name in zip(numbers, limits, names, strict=False) if n > limit]
        if wrong:
            raise _RangeError(f"time zone offset {wrong[-1]}")
        hour, minute, second = (*numbers, 0, 0)[:3]
        if text[0] not in "+-":
            raise _BadValueError
        offset = (hour * 60 + minute) * 60 + second
        self.offset = -offset if text[0] == "-" else offset

    def zone_name(self) -> None:
        """Skip a zone's abbreviation; its offset is unknown, so it counts as UTC. _BadValueError if
        there is none.
        """
        # `UTC` and `Z` are the zone, whatever offset stands beside them.
        is_utc = self.rest.startswith("UTC")
        self.is_utc = self.is_utc or is_utc
        length = 3 if is_utc else _zone_length(self.rest)
        if not length:
            raise _BadValueError
        self.rest = self.rest[length:]

    def instant(self) -> tuple[int, int]:
        """Return the seconds since the epoch and the nanoseconds of what was read, as local time at
        the offset that was read (UTC without one); parts that were not read are 0, month and day 1.
        `PM` and `AM` change the hour. _RangeError for a day that does not exist in its month.
        """
        hour = self.hour
        if self.half == "PM" and hour < 12:
            hour += 12
        elif self.half == "AM" and hour == 12:
            hour = 0
        month, day = self.date()
        if not 1 <= day <= days_in_month(self.year, month):
            raise _RangeError("day out of range")
        seconds = seconds_of(self.year, month, day, hour, self.minute, self.second)
        # To Go an offset of -1 second is none.
        offset = 0 if self.is_utc or self.offset == -1 else self.offset
        return seconds - offset, self.nanosecond

    def date(self) -> tuple[int, int]:
        """Return month and day as they were read (1 by default), even if the month has no such day.
        If a day of the year was read, return its date; _RangeError if the year has no such day, or
        if a month or day that was read too differs.
        """
        if self.year_day < 0:
            return (self.month if self.month >= 0 else 1), (self.day if self.day >= 0 else 1)
        if not 1 <= self.year_day <= 365 + is_leap(self.year):
            raise _RangeError("day-of-year out of range")
        month = next(m for m in range(12, 0, -1) if days_before_month(self.year, m) < self.year_day)
        day = self.year_day - days_before_month(self.year, month)
        if self.month >= 0 and self.month != month:
            raise _RangeError("day-of-year does not match month")
        if self.day >= 0 and self.day != day:
            raise _RangeError("day-of-year does not match day")
        return month, day


def _parse_signed(text: str) -> int:
    """Parse an integer with an optional sign; _BadValueError for other texts."""
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise _BadValueError
    return int(text)


def _zone_length(text: str) -> int:
    """Return the length of the zone abbreviation at the start of `text`, as Go recognises one:
    `MST`, `GMT+3`, `+03`, `ChST`; 0 if there is none.
    """
    if len(text) < 3:
        return 0
    if text.startswith(("ChST", "MeST")):
        return 4
    if text.startswith("GMT"):
        return 3 + _zone_offset_length(text[3:])
    if text[0] in "+-":
        return _zone_offset_length(text)
    match = re.match(r"[A-Z]{3,6}", text)
    name = match[0] if match else ""
    if len(name) == 3 or (len(name) in {4, 5} and name[-1] == "T") or name == "WITA":
        return len(name)
    return 0


def _zone_offset_length(text: str) -> int:
    """Return the length of a sign and a number of hours up to 23 at the start of `text`, with any
    number of leading zeros; 0 if there is none.
    """
    match = re.match(r"[+-]0*(\d+)", text, re.ASCII)
    return match.end() if match and len(match[1]) <= 2 and int(match[1]) <= 23 else 0
