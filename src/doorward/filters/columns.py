"""Columns of a database as policies see them: one description for filters, documents and errors.

    a column's value ─`to_document`─▶ the value that a decision sees
    a comparison of that value ─`written_test`─▶ a comparison of the column's value

A UUID, a date and a moment are texts to a policy, a member of an enumeration is its value. A
filter compares none of these texts in the database: it says which values of the column have a text
that fulfils the comparison. What has no one value in Rego has a reason, which errors show.
"""

from __future__ import annotations

import datetime
import operator as operators
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from doorward.base.records import record
from doorward.filters.conditions import Scalar, fault
from doorward.filters.hints import DATES, MEMBERS, MOMENTS
from doorward.rego import InputError, Number, Value, from_python
from doorward.rego.shared import number_text, sorted_values, to_key

__all__ = [
    "FIRST_NS",
    "KINDS",
    "LAST_NS",
    "RANKS",
    "WRITTEN",
    "Bound",
    "Column",
    "Columns",
    "Kind",
    "Nulls",
    "Relation",
    "Relations",
    "Stored",
    "column_of",
    "decides",
    "moment_bound",
    "rank_of",
    "refused",
    "relations_below",
    "to_document",
    "written_test",
]

Kind: TypeAlias = Literal[
    "boolean", "number", "text", "uuid", "date", "moment", "choice", "json", "array"
]
Stored: TypeAlias = "bool | int | Number | str | UUID | datetime.date | datetime.datetime"
"""The value that a column stores for a value of a policy; dates and times are objects of
`datetime`.
"""

KINDS: Final[tuple[Kind, ...]] = (
    "boolean", "number", "text", "uuid", "date", "moment", "choice", "json", "array",
)  # fmt: skip
RANKS: Final[dict[Kind, int]] = {
    "boolean": 1, "number": 2, "text": 3, "uuid": 3, "date": 3, "moment": 3, "array": 4,
}  # fmt: skip
"""The rank of each kind in Rego's order of values: null, booleans, numbers, texts, collections."""
WRITTEN: Final = frozenset({"uuid", "date", "moment"})
"""Kinds of columns whose values are texts to a policy, but not to the database (UUID, date,
time).
"""
_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": operators.contains,
}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_LAST_DAY: Final = datetime.date.max.toordinal()
_LARGEST: Final = "\U0010ffff"


@record
class Column:
    """A column as policies see it: its kind, or None and the reason why policies cannot use it.

    `members` has, for an enumeration, the stored values with those that a policy sees; `item`
    describes the elements of an array.
    """

    kind: Kind | None
    reason: str = ""
    hint: str | None = None
    members: tuple[tuple[str, Scalar], ...] = ()
    item: Column | None = None


@record
class Relation:
    """A relation to the rows of `table`, a name in `Columns`. `on` gives for each column of those
    rows the column of this row that it is equal to. `many`: it leads to any number of rows,
    otherwise to one at most.
    """

    table: str
    on: Mapping[str, str]
    many: bool = True


Relations: TypeAlias = Mapping[str, Mapping[str, Relation]]
"""The relations of tables, by the names that the policy uses."""
Nulls: TypeAlias = Literal["null", "undefined"]
"""What a policy sees for NULL in a column: the value null, or a missing key."""


def refused(reason: str, hint: str | None = None) -> Column:
    """Return the description of a column that policies cannot use, with the reason and a hint for
    errors.
    """
    return Column(None, reason, hint)


def column_of(declared: Kind | Column | None) -> Column | None:
    """Return the description of a declared column; None if `declared` is None. An unknown kind
    gives a refused column, as do `choice` and `array` without a `Column` that describes their
    values.
    """
    if declared is None or isinstance(declared, Column):
        return declared
    if declared not in KINDS or declared in ("choice", "array"):
        known = ", ".join([each for each in KINDS if each not in ("choice", "array")])
        return refused(f"has the kind `{declared}`, which is not one of {known}")
    return Column(declared)


# Values that decisions see


def to_document(column: Column | None, value: Any, name: str) -> Value:
    """Return a column's value as the policy sees it; times in UTC, as `2026-11-23T10:00:00Z`. Raise
    InputError if the column or the value has no form in Rego, or for a text in a column of UUIDs
    that is not one.
    """
    if column is None or (column.kind is None and value is not None):
        reason = "has no value in Rego" if column is None else column.reason
        raise InputError(f"{name} {reason}")
    if column.kind == "moment" and isinstance(value, datetime.datetime):
        return _moment_text(_aware(value, name))
    if column.kind == "uuid" and isinstance(value, str):
        return _uuid_text(value, name)
    return from_python(value, name, copy=True)


def relations_below(relations: Iterable[str] | None, known: Iterable[str]) -> dict[str, list[str]]:
    """Return the relations of a row, each with the relations to follow from its rows.

    `["a.b", "c"]` -> `{"a": ["b"], "c": []}`; None gives all of `known` without further ones. Raise
    LookupError for a relation that is not known.
    """
    names = list(known)
    if relations is None:
        return {name: [] for name in names}
    below: dict[str, list[str]] = {}
    for path in relations:
        name, _, rest = path.partition(".")
        if name not in names:
            only = f", only {', '.join(names)}" if names else ""
            raise LookupError(f"the model has no relation {name}{only}")
        below.setdefault(name, []).extend([rest] if rest else [])
    return below


def _uuid_text(text: str, name: str) -> str:
    """Return a UUID in its usual form, in lower case and with hyphens, from any form that Python
    reads; raise InputError if the text is not a UUID.
    """
    try:
        return str(UUID(text))
    except ValueError:
        raise InputError(f"the value of {name} is not a UUID") from None


def _aware(value: datetime.datetime, name: str) -> datetime.datetime:
    """Return a time in UTC; raise InputError if it has no zone."""
    if value.utcoffset() is None:
        raise InputError(f"the value of {name} is a time without a time zone: add one")
    return value.astimezone(datetime.UTC)


def _moment_text(value: datetime.datetime) -> str:
    return value.replace(tzinfo=None).isoformat() + "Z"


def _parse_moment(text: str) -> datetime.datetime | None:
    """Return the time, in UTC, of a text in the form of times that the policy sees, such as
    `2024-01-31T12:00:00Z`; None for any other text.
    """
    try:
        value = datetime.datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        return None
    # The same time written in another way is another text to the policy, and equal to no column.
    if value.tzinfo is not None or value.isoformat() + "Z" != text:
        return None
    return value.replace(tzinfo=datetime.UTC)


def _parse_date(text: str) -> datetime.date | None:
    """Return the date of a text `YYYY-MM-DD`; None for any other text."""
    try:
        value = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    return value if value.isoformat() == text else None


def _parse_uuid(text: str) -> UUID | None:
    """Return the UUID of a text in lower case with hyphens; None for any other text."""
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text else None


_PARSERS: Final[dict[str, Callable[[str], Stored | None]]] = {
    "date": _parse_date,
    "moment": _parse_moment,
    "uuid": _parse_uuid,
}


# Comparisons of values that decisions see


Bound: TypeAlias = "tuple[str, Stored] | bool"
"""A comparison to make in the database: an operator and the stored value; or True if it holds for
every value of the column, False if for none.
"""


def written_test(kind: Kind, operator: str, text: str) -> list[Bound]:
    """Return conditions on a column that together mean `operator text` on the text that a policy
    sees: each an operator with a stored value, or a boolean for all values or none.

    `operator` is eq, lt, lte, startswith, endswith or contains. Raise FilterError for what a
    database cannot compare, such as the order of UUIDs.
    """
    if operator == "eq":
        value = _PARSERS[kind](text)
        return [False if value is None else ("eq", value)]
    if kind != "date":
        kind_text = "times (whose texts are not in order)" if kind == "moment" else "UUIDs"
        raise fault(f"a column of {kind_text} can only be compared by == and in", _HINTS[kind])
    match operator:
        case "lt":
            return [_before(_first_day(text))]
        case "lte":
            # In the order of texts nothing stands between `text` and this one.
            return [_before(_first_day(text + "\0"))]
        case "startswith":
            # No text of a date has this letter: all that begin with `text`, and no others, come
            # before.
            first, end = _first_day(text), _first_day(text + _LARGEST)
            return [_not_before(first), _before(end)]
    raise fault("a filter cannot search for a part of a date", DATES)


_HINTS: Final = {"date": DATES, "moment": MOMENTS, "uuid": MEMBERS}


def _first_day(text: str) -> int:
    """Return the number of the first day whose text does not sort before this text; the number
    after the last day if there is none.
    """
    # Texts of dates have a fixed width, so they are in the order of the days.
    days = range(1, _LAST_DAY + 1)
    return 1 + bisect_left(days, text, key=lambda day: datetime.date.fromordinal(day).isoformat())


def _before(day: int) -> Bound:
    """Return the condition for days before number `day`; a boolean if it always or never holds."""
    if day == 1 or day > _LAST_DAY:
        return day > _LAST_DAY
    return "lt", datetime.date.fromordinal(day)


def _not_before(day: int) -> Bound:
    """Return the condition for days from number `day` on; a boolean if it always or never holds."""
    if day == 1 or day > _LAST_DAY:
        return day == 1
    return "gte", datetime.date.fromordinal(day)


LEAST_NS: Final = -(1 << 63)
MOST_NS: Final = (1 << 63) - 1


def moment_bound(operator: str, nanoseconds: int | Number) -> Bound:
    """Return a comparison of a time's nanoseconds as one of the stored time, which has
    microseconds.

    `operator` is eq, lt or lte. A boolean if it holds for all times or none.
    """
    micros = Fraction(number_text(nanoseconds)) / 1000
    if operator == "eq":
        moment = _moment(int(micros)) if micros.denominator == 1 else None
        return False if moment is None else ("eq", moment)
    # The last microsecond for which it holds.
    last = floor(micros) if operator == "lte" else ceil(micros) - 1
    moment = _moment(last)
    if moment is None:
        # After the last time it holds for all, before the first for none.
        return last > 0
    return "lte", moment


def _moment(micros: int) -> datetime.datetime | None:
    """Return the time, in UTC, at microseconds since the epoch; None if it is out of range."""
    try:
        return _EPOCH + micros * _MICROSECOND
    except OverflowError:
        return None


FIRST_NS: Final = _EPOCH - (-LEAST_NS // 1000) * _MICROSECOND
LAST_NS: Final = _EPOCH + (MOST_NS // 1000) * _MICROSECOND
"""The first and the last time for which `time.parse_rfc3339_ns` has an answer."""


def decides(value: Scalar, operator: str, other: Scalar | list[Scalar]) -> bool:
    """Return True if a comparison of two known values holds in Rego, where values of all types are
    ordered. `other` is a list for the operator `in`.
    """
    if operator == "in":
        assert isinstance(other, list)
        return any(decides(value, "eq", each) for each in other)
    assert not isinstance(other, list)
    if operator in _SEARCHES:
        both = isinstance(value, str) and isinstance(other, str)
        return both and _SEARCHES[operator](value, other)  # type: ignore[arg-type]  # both texts
    same = to_key(value) == to_key(other)
    if operator in ("eq", "ne"):
        return same == (operator == "eq")
    if same:
        return operator in ("lte", "gte")
    first = to_key(sorted_values([value, other])[0])
    return (first == to_key(value)) == (operator in ("lt", "lte"))


def rank_of(value: Scalar) -> int:
    """Return the rank of a value's type in Rego's order, from 0 for null."""
    match value:
        case None:
            return 0
        case bool():
            return 1
        case str():
            return 3
    return 2


Columns: TypeAlias = Mapping[str, Mapping[str, "Kind | Column"]]
"""The columns of tables, by the names that the policy uses."""
