"""Changes of data copy their path, share the rest, and fail in OPA's words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doorward.bundles.edit import Edit, Operation, Operator, StorageError, path_text, rebase
from doorward.rego import UNDEFINED

DATA: dict[Any, Any] = {"x": {"a": {"b": 1}, "l": [1, 2, 3]}, "y": {"z": {}}}


def changed(operator: Operator, path: str, value: Any = None) -> Any:
    edit = Edit(deepcopy(DATA))
    edit.apply(Operation(operator, tuple(path.split("/")) if path else (), value))
    return edit.document


def test_what_is_not_on_the_path_is_shared_and_nothing_old_changes() -> None:
    before = deepcopy(DATA)
    edit = Edit(DATA)
    edit.apply(Operation("add", ("x", "a", "c"), 2))
    assert before == DATA
    assert edit.document["x"]["a"] == {"b": 1, "c": 2}  # type: ignore[index, call-overload]
    assert edit.document["y"] is DATA["y"]
    assert edit.document["x"]["l"] is DATA["x"]["l"]  # type: ignore[index, call-overload]


def test_a_container_is_copied_once_in_a_change() -> None:
    edit = Edit({"l": list(range(10))})
    edit.apply(Operation("add", ("l", "-"), 10))
    first = edit.document["l"]
    edit.apply(Operation("remove", ("l", "0")))
    assert edit.document["l"] is first
    assert first == list(range(1, 11))


@pytest.mark.parametrize(
    ("operator", "path", "expected"),
    [
        ("add", "x/l/0", {"x": {"a": {"b": 1}, "l": [9, 1, 2, 3]}, "y": {"z": {}}}),
        ("add", "x/l/3", {"x": {"a": {"b": 1}, "l": [1, 2, 3, 9]}, "y": {"z": {}}}),
        ("replace", "x/l/+1", {"x": {"a": {"b": 1}, "l": [1, 9, 3]}, "y": {"z": {}}}),
        ("remove", "x/l/2", {"x": {"a": {"b": 1}, "l": [1, 2]}, "y": {"z": {}}}),
        ("remove", "x/a", {"x": {"l": [1, 2, 3]}, "y": {"z": {}}}),
    ],
)
def test_an_operation_does_what_it_says(operator: Operator, path: str, expected: Any) -> None:
    assert changed(operator, path, 9) == expected


@pytest.mark.parametrize(
    ("operator", "path", "message"),
    [
        ("add", "x/q/r", "storage_not_found_error: /x/q/r: document does not exist"),
        ("add", "x/a/b/c", "storage_not_found_error: /x/a/b/c: document does not exist"),
        ("replace", "q", "storage_not_found_error: /q: document does not exist"),
        ("remove", "x/l/7", "storage_not_found_error: /x/l/7: array index out of range"),
        ("remove", "x/l/-1", "storage_not_found_error: /x/l/-1: array index out of range"),
        ("add", "x/l/one", "storage_not_found_error: /x/l/one: array index must be integer"),
        ("add", "x/l/1/q", "storage_not_found_error: /x/l/1/q: document does not exist"),
        ("remove", "x/l/-", "storage_invalid_patch_error: /x/l/-: invalid patch path"),
        ("replace", "x/l/3", "storage_invalid_patch_error: /x/l/3: invalid patch path"),
        ("remove", "", "storage_invalid_patch_error: root cannot be removed"),
        ("add", "", "storage_invalid_patch_error: root must be object"),
    ],
)
def test_what_cannot_be_done_is_said_as_opa_says_it(
    operator: Operator, path: str, message: str
) -> None:
    with pytest.raises(StorageError) as caught:
        changed(operator, path, 9)
    assert str(caught.value) == message


def test_objects_are_made_on_the_way_but_not_through_other_things() -> None:
    edit = Edit({"s": 1, "l": []})
    edit.make_parents(("a", "b", "c"))
    assert edit.document == {"s": 1, "l": [], "a": {"b": {}}}
    for path in (("s", "x"), ("l", "x", "y")):
        with pytest.raises(StorageError, match=f"storage_write_conflict_error: /{path[0]}"):
            edit.make_parents(path)


def test_a_path_of_very_many_names_is_made() -> None:
    # One operation for each name took minutes for this path.
    path = ("a",) * 20_000
    edit = Edit({"a": {"b": 1}})
    edit.make_parents(path)
    edit.apply(Operation("add", path, 2))
    assert edit.read(path) == 2
    assert edit.read(("a", "b")) == 1


def test_a_path_is_written_with_escapes() -> None:
    assert path_text(("a/b", "c d", "é", "x@y")) == "/a%2Fb/c%20d/%C3%A9/x@y"
    assert path_text(()) == "/"


JSON = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(before=OBJECT, after=OBJECT)
def test_what_nobody_changed_becomes_what_is_new(before: Any, after: Any) -> None:
    assert rebase(before, before, after) is after


@pytest.mark.long
@given(before=OBJECT, after=OBJECT, added=JSON)
def test_what_was_added_beside_stays(before: Any, after: Any, added: Any) -> None:
    assert rebase({**before, "new": added}, before, after) == {**after, "new": added}


@given(current=OBJECT, after=OBJECT)
def test_what_is_new_wins(current: Any, after: Any) -> None:
    merged = rebase(current, UNDEFINED, after)
    assert isinstance(merged, dict)
    for key, value in after.items():
        if not isinstance(value, dict):
            assert merged[key] == value
