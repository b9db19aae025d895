"""Numbers that all databases compare with a column as the policy does."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from doorward.filters.conditions import fault
from doorward.rego import Number
from doorward.rego.shared import number_text

__all__ = ["check_double", "check_range", "has_fraction", "is_double"]


def is_double(value: int | Number) -> bool:
    """Return True if a double is this number, so that databases compare it exactly with doubles.

    An integer must be equal to its double, another number must have the double's shortest text.
    """
    if type(value) is int and -_EXACT < value < _EXACT:
        return True
    decimal = Decimal(number_text(value))
    double = float(decimal)
    if not math.isfinite(double):
        return False
    if decimal == decimal.to_integral_value():
        return Decimal(double) == decimal
    return Decimal(repr(double)) == decimal


def has_fraction(value: int | Number) -> bool:
    """Return True if a number is not an integer.

    `=` with such a number must be written as `>=` and `<=`: where a column has an index, MariaDB
    (10.11) rounds the number to the type of the column, finds the rows in the index and does not
    compare them again, so that `n = 1.5` selects rows of 2.
    """
    if type(value) is int:
        return False
    decimal = Decimal(number_text(value))
    return decimal != decimal.to_integral_value()


def check_double(value: int | Number) -> None:
    """Raise FilterError for an integer that cannot be compared with a column of doubles in the same
    way by all databases.

    Some compare the double's exact value, others its shortest text: 2**63 as a double is shown as
    9223372036854776000. The error is raised if the integer equals only one of the two.
    """
    decimal = Decimal(number_text(value))
    double = float(decimal)
    if not math.isfinite(double) or decimal != decimal.to_integral_value():
        return
    if (Decimal(double) == decimal) != (Decimal(repr(double)) == decimal):
        raise fault(
            f"a column of doubles cannot be compared exactly with {decimal}: use an integer up to "
            "2**53, or a column of integers"
        )


_EXACT: Final = 1 << 53


def check_range(value: Number) -> None:
    """Raise FilterError for a number other than 0 that is nearer to 0 than 1e-30, since MariaDB
    compares it as 0.
    """
    decimal = Decimal(number_text(value))
    if decimal and abs(decimal) < _SMALLEST:
        raise fault(
            "a number nearer to 0 than 1e-30 cannot be compared exactly with a column: use 0"
        )


_SMALLEST: Final = Decimal("1e-30")
