"""Records are values: compared and hashed by their fields, with slots, quick to make. Mutable
classes are the same, but their fields are set.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, fields

import pytest

from doorward.base.records import HashedOnce, mutable, record, replace
from doorward.rego.syntax.nodes import Array, Scalar, Var


@record(guarded=False)
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
    assert dataclasses.replace(Point(1, 2), y=3) == Point(1, 3)
    assert copy.copy(Point(1, 2)) == pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_a_copy_has_other_values_of_some_fields() -> None:
    old = Point(1, 2, "a")
    new = replace(old, y=3)
    assert (new.x, new.y, new.note) == (1, 3, "a")
    assert (old.x, old.y) == (1, 2)
    assert replace(old) == old
    assert replace(old) is not old
    with pytest.raises(AttributeError):
        replace(old, z=3)


def test_a_copy_of_a_frozen_record_is_frozen() -> None:
    new = replace(Options("a", [1]), name="b")
    assert new == Options("b", [1])
    with pytest.raises(FrozenInstanceError):
        new.name = "c"  # type: ignore[misc] # that is the point


def test_a_copy_knows_nothing_of_what_its_original_remembers() -> None:
    written = Array((Scalar(1),))
    assert written.is_ground
    assert not replace(written, items=(Var("x"),)).is_ground


def test_a_class_may_say_itself_what_is_equal() -> None:
    assert Scalar(True) != Scalar(1)
    assert len({Scalar(True), Scalar(1), Var("x"), Var("x")}) == 3


@record
class Options:
    """What can be chosen."""

    name: str
    parts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")


@record(kw_only=True)
class Named:
    first: int
    second: int = 2


@record
class Nothing:
    pass


def test_a_frozen_record_cannot_be_changed_at_run_time() -> None:
    options = Options("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        options.name = "b"  # type: ignore[misc] # that is the point
    with pytest.raises(FrozenInstanceError):
        del options.name
    assert options == copy.copy(options) == pickle.loads(pickle.dumps(options))


def test_a_node_of_the_syntax_tree_cannot_be_changed() -> None:
    variable = Var("x")
    keys = {variable: 1}
    with pytest.raises(FrozenInstanceError):
        variable.name = "y"  # type: ignore[misc] # that is the point
    assert keys[variable] == 1


def test_defaults_are_made_for_each_record_and_checked() -> None:
    assert Options("a").parts is not Options("a").parts
    assert Options("a", [1]).parts == [1]
    with pytest.raises(ValueError, match="no name"):
        Options("")


def test_arguments_are_those_of_a_dataclass() -> None:
    assert Named(first=1) == Named(second=2, first=1)
    with pytest.raises(TypeError, match=r"Named\.__init__\(\) takes 1 positional argument"):
        Named(1)  # type: ignore[call-arg] # that is the point
    with pytest.raises(TypeError, match="missing 1 required"):
        Point()  # type: ignore[call-arg] # that is the point
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_a_record_says_what_it_holds() -> None:
    assert repr(Point(1, note="a")) == "Point(x=1, y=0, note='a')"
    assert (repr(Nothing()), Nothing() == Nothing(), hash(Nothing())) == (
        "Nothing()",
        True,
        hash(()),
    )
    assert Options.__doc__ == "What can be chosen."


@record
class Tree(HashedOnce):
    parts: tuple[Tree | Counted, ...]


class Counted:
    hashed = 0

    def __hash__(self) -> int:
        Counted.hashed += 1
        return 1


def test_a_large_record_is_hashed_once() -> None:
    leaf = Counted()
    tree = Tree((Tree((leaf,)), Tree((leaf,))))
    assert {tree: 1}[tree] == 1
    assert Counted.hashed == 2
    assert hash(replace(tree, parts=())) == hash(Tree(()))
    assert pickle.loads(pickle.dumps(Tree(()))) == Tree(())


@mutable
class Count:
    name: str
    number: int = 0
    notes: list[str] = field(default_factory=list, compare=False)
    unit: str = field(default="items", init=False)
    seen: set[str] = field(default_factory=set, init=False)
    last: str = field(init=False, repr=False, compare=False)


@mutable(eq=False)
class Node:
    children: list[Node]


@mutable
class Same:
    name: str

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return self.name


def test_fields_of_a_mutable_class_are_set() -> None:
    count = Count("a")
    assert (count.number, count.notes, count.unit, count.seen) == (0, [], "items", set())
    assert not hasattr(count, "last")
    count.number += 1
    assert count == Count("a", 1, ["x"]) != Count("a")
    assert repr(count) == "Count(name='a', number=1, notes=[], unit='items', seen=set())"
    assert Count("b").notes is not Count("b").notes
    with pytest.raises(AttributeError):
        count.other = 1  # type: ignore[attr-defined] # that is the point


def test_a_mutable_class_with_equality_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(Count("a"))
    assert Node([]) != Node([])
    assert len({Node([]), Node([])}) == 2


def test_a_mutable_class_is_a_dataclass() -> None:
    assert [each.name for each in fields(Count)][:2] == ["name", "number"]
    count = Count("a", 2)
    assert copy.deepcopy(Same("a")) == pickle.loads(pickle.dumps(Same("b")))
    match count:
        case Count("a", number):
            assert number == 2


def test_methods_that_a_mutable_class_defines_remain() -> None:
    assert Same("a") == Same("b")
    assert repr(Same("a")) == "a"
