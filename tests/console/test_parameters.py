"""Parameters of requests are the fields of a dataclass, and short."""

from __future__ import annotations

import pytest

from doorward.base.records import record
from doorward.console.parameters import LONGEST, check_parameters


@record
class Fields:
    b: str = ""
    a: str = ""


class FieldError(Exception):
    """What is wrong with a parameter."""


def test_known_and_short_parameters_pass() -> None:
    check_parameters({"a": "x" * LONGEST}, Fields, FieldError)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"c": "1"}, "unknown query parameter: c: use one of a, b"),
        ({"c" * 300: "1"}, f"unknown query parameter: {'c' * LONGEST}: use one of a, b"),
        ({"a": "x" * (LONGEST + 1)}, "the query parameter a is longer than 200 characters"),
    ],
)
def test_others_are_refused_with_the_error_of_the_caller(
    parameters: dict[str, str], message: str
) -> None:
    with pytest.raises(FieldError) as raised:
        check_parameters(parameters, Fields, FieldError)
    assert str(raised.value) == message
