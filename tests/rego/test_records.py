"""Records are values: compared and hashed by their fields, with slots, quick to make."""

from __future__ import annotations

import copy
import pickle
from dataclasses import field, fields, replace

import pytest

from doorward.rego.records import record
from doorward.rego.syntax.nodes import Scalar, Var


@record
class Point:
    x: int
    y: int = 0
    note: str = field(default="", compare=False)


def test_records_are_compared_and_hashed_by_their_fields() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert {Point(1, 2, "a"), Point(1, 2, "b")} == {Point(1, 2)}
    assert Point(1) != Point(2)


def test_a_record_has_no_other_attributes() -> None:
    assert not hasattr(Point(1), "__dict__")
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined] # that is the point


def test_the_type_checker_refuses_to_change_one() -> None:
    point = Point(1)
    point.x = 2  # type: ignore[misc] # mypy reports this comment if nothing is refused here


def test_a_record_is_a_dataclass() -> None:
    assert [each.name for each in fields(Point)] == ["x", "y", "note"]
    assert replace(Point(1, 2), y=3) == Point(1, 3)
    assert copy.copy(Point(1, 2)) == pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_a_class_may_say_itself_what_is_equal() -> None:
    assert Scalar(True) != Scalar(1)
    assert len({Scalar(True), Scalar(1), Var("x"), Var("x")}) == 3
