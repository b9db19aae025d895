"""What of a body stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from doorward.enforcement.body_paths import Path, PathError, values_at
from doorward.envoy.ext_proc.changes import HIDDEN, MAX_LENGTH, change, read_path

BODY: Any = {"a": 1, "b": {"c": 2, "d": [{"e": 3, "f": 4}, {"e": 5}]}, "n": None}


@pytest.mark.parametrize(
    ("keep", "remove", "set", "left"),
    [
        (None, [("a",)], [], {"b": BODY["b"], "n": None}),
        (None, [("b", "d", "*", "e")], [], {**BODY, "b": {"c": 2, "d": [{"f": 4}, {}]}}),
        (None, [("b", "d", 0)], [], {**BODY, "b": {"c": 2, "d": [{"e": 5}]}}),
        (None, [("b", "d", 0), ("b", "d", 1)], [], {**BODY, "b": {"c": 2, "d": []}}),
        (None, [("b", "d", 0), ("b", "d", "*", "e")], [], {**BODY, "b": {"c": 2, "d": [{}]}}),
        (None, [("x",), ("b", "x", "y"), ("b", "d", 9)], [], BODY),
        (None, [("n", "x")], [], BODY),
        (None, [()], [], HIDDEN),
        ([("a",)], [], [], {"a": 1}),
        ([], [], [], {}),
        ([()], [], [], BODY),
        ([()], [("a",)], [], {"b": BODY["b"], "n": None}),
        ([("b", "d", "*", "f")], [], [], {"b": {"d": [{"f": 4}, {}]}}),
        ([("a", "x"), ("n", "x")], [], [], {}),
        ([("b",)], [("b", "c")], [], {"b": {"d": BODY["b"]["d"]}}),
        (None, [], [(("a",), 9)], {**BODY, "a": 9}),
        (None, [], [(("x",), 9)], BODY),
        (None, [], [((), "whole")], "whole"),
        (
            None, [], [(("b", "d", "*", "e"), 0)],
            {**BODY, "b": {"c": 2, "d": [{"e": 0, "f": 4}, {"e": 0}]}},
        ),
        (None, [("a",)], [(("a",), 9)], {"b": BODY["b"], "n": None}),
        ([("b",)], [], [(("a",), 9)], {"b": BODY["b"]}),
        ([("b", "c")], [], [(("b",), {"c": 7, "new": 8})], {"b": {"c": 7}}),
        ([("b", "c")], [], [(("b",), "text")], {}),
        (None, [("b", "c")], [(("b",), {"c": 7, "z": 8})], {**BODY, "b": {"z": 8}}),
        (None, [], [(("b",), 1), (("b", "c"), 2)], {**BODY, "b": 1}),
        (None, [("*",)], [], {}),
        (None, [("*", "c")], [], PathError),
        (None, [("a", "x")], [], PathError),
        (None, [("b", 0)], [], PathError),
        (None, [("b", "d", "e")], [], PathError),
        (None, [], [(("b", "d", "e"), 1)], PathError),
        (None, [], [(("a",), 1), (("a",), True)], PathError),
        (None, [], [(("b", "d", 0), 1), (("b", "d", "*"), 2)], PathError),
        (None, [], [(("n",), None), (("n",), 1)], PathError),
    ],
)  # fmt: skip
def test_what_is_left(
    keep: Sequence[Path] | None, remove: Sequence[Path], set: Sequence[Any], left: Any
) -> None:
    before = repr(BODY)
    if left is PathError:
        with pytest.raises(PathError):
            change(BODY, keep=keep, remove=remove, set=set)
    else:
        assert change(BODY, keep=keep, remove=remove, set=set) == left
    assert repr(BODY) == before


KEYS = st.sampled_from(["a", "b", "c", "*"])
BODIES: Any = st.recursive(
    st.none() | st.integers(0, 3) | st.text("xy", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner)
    ),
    max_leaves=12,
)
PATHS = st.lists(st.lists(KEYS | st.integers(0, 2), max_size=4).map(tuple), max_size=4)


def leaves(value: Any, path: Path = ()) -> dict[Path, Any]:
    """Every value, by its path in the body."""
    values = {path: value}
    members: Any = value.items() if isinstance(value, dict) else ()
    members = enumerate(value) if isinstance(value, list) else members
    for step, each in members:
        values |= leaves(each, (*path, step))
    return values


def matches(pattern: Path, path: Path) -> bool:
    """Whether a path is at a pattern, or below it."""
    return len(pattern) <= len(path) and all(
        one == "*" or (one == other and type(one) is type(other))
        for one, other in zip(pattern, path, strict=False)
    )


def marked(value: Any, path: Path = ()) -> Any:
    """The same body with its path in place of each value without members."""
    if isinstance(value, dict):
        return {key: marked(each, (*path, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [marked(each, (*path, index)) for index, each in enumerate(value)]
    return None if value is None else f"at {path}"


def texts(value: Any) -> set[str]:
    return {each for each in leaves(value).values() if isinstance(each, str)}


@given(BODIES, st.none() | PATHS, PATHS)
def test_exactly_what_is_kept_and_not_removed_is_left(
    body: Any, keep: list[Path] | None, remove: list[Path]
) -> None:
    try:
        left = change(marked(body), keep=keep, remove=remove, set=[])
    except PathError:
        assert remove
        return
    expected = {
        f"at {path}"
        for path, value in leaves(body).items()
        if value is not None
        and not isinstance(value, dict | list)
        and (keep is None or any(matches(each, path) for each in keep))
        and not any(matches(each, path) for each in remove)
    }
    assert (set() if left is HIDDEN else texts(left)) == expected


SETS = st.lists(st.lists(KEYS, max_size=3).map(lambda path: (tuple(path), "set")), max_size=3)


@given(BODIES, PATHS, SETS)
def test_a_removed_value_is_not_shown_by_setting_another(
    body: Any, remove: list[Path], set: list[tuple[Path, Any]]
) -> None:
    try:
        left = change(marked(body), keep=None, remove=remove, set=set)
    except PathError:
        return
    shown = texts(left) if left is not HIDDEN else {}
    for path in leaves(body):
        if any(matches(each, path) for each in remove):
            assert f"at {path}" not in shown


DROPS = st.dictionaries(
    st.lists(KEYS, max_size=2).map(tuple), st.sets(st.integers(0, 2), min_size=1), max_size=1
)


def below(patterns: Sequence[Path], name: str | int) -> list[Path]:
    """The rests of the patterns that a member matches."""
    return [each[1:] for each in patterns if each and matches(each[:1], (name,))]


def changed(
    body: Any,
    keep: Sequence[Path] | None,
    remove: Sequence[Path],
    set: Sequence[Path],
    drop: Sequence[tuple[Path, Any]],
    *,
    value: Any,
    is_set: bool = False,
) -> Any:
    """What `change` returns, without plans; `value` is set at each path of `set`."""
    if () in remove:
        return HIDDEN
    keep = None if keep is not None and () in keep else keep
    if () in set:
        return changed(value, keep, remove, [], drop, value=value, is_set=True)
    dropped = {index for path, indexes in drop if path == () for index in indexes}
    steps = [each[0] for each in (*remove, *set, *[path for path, _ in drop]) if each]
    if not isinstance(body, dict | list):
        if keep is not None:
            return HIDDEN
        if (steps or dropped) and body is not None and not is_set:
            raise PathError
        return body
    wrong = str if isinstance(body, list) else int
    if any(isinstance(each, wrong) and each != "*" for each in steps) and not is_set:
        raise PathError
    if dropped and isinstance(body, dict) and not is_set:
        raise PathError
    left: dict[Any, Any] = {}
    for name, each in body.items() if isinstance(body, dict) else enumerate(body):
        kept = None if keep is None else below(keep, name)
        if kept == [] or (isinstance(body, list) and name in dropped):
            continue
        drops = [(path[1:], rows) for path, rows in drop if below([path], name)]
        member = changed(
            each, kept, below(remove, name), below(set, name), drops, value=value, is_set=is_set
        )
        if member is not HIDDEN:
            left[name] = member
    return list(left.values()) if isinstance(body, list) else left


LIST: Any = {"b": [{"a": 1, "c": 2}, None, [{"a": 1}], []]}


@given(BODIES, st.none() | PATHS, PATHS, PATHS, BODIES, DROPS)
@example(LIST, None, [("b", "*", "*", "a")], [], None, {})
@example({"b": [{"a": 1}, None]}, None, [("b", "*", "a")], [], None, {})
@example(LIST, [("b", "*", "c")], [], [], None, {("b",): {0}})
@example({"a": 1}, None, [("a", 0)], [("a",)], {"b": 1}, {})
@example({"a": 1}, None, [("a", "b")], [("a",)], [1], {})
@example({"a": 1}, None, [], [("a",)], {"b": 1}, {("a",): {0}})
def test_plans_change_a_body_as_its_paths_say(
    body: Any,
    keep: list[Path] | None,
    remove: list[Path],
    set: list[Path],
    value: Any,
    drop: dict[Path, Any],
) -> None:
    try:
        expected = changed(body, keep, remove, set, list(drop.items()), value=value)
    except PathError:
        expected = PathError
    try:
        sets = [(path, value) for path in set]
        left = change(body, keep=keep, remove=remove, set=sets, drop=drop)
    except PathError:
        left = PathError
    assert left == expected


def test_items_are_dropped_by_their_index_in_the_body_as_it_came() -> None:
    def left(**more: Any) -> Any:
        arguments: dict[str, Any] = {"keep": None, "remove": [], "set": [], **more}
        return change(BODY, drop={("b", "d"): {0}}, **arguments)["b"]["d"]

    assert left() == [{"e": 5}]
    assert left(remove=[("b", "d", 1, "e")]) == [{}]
    assert left(remove=[("b", "d", "*", "f")]) == [{"e": 5}]
    assert left(set=[(("b", "d", "*"), 1)]) == [1]
    assert left(set=[(("b", "d", 0), 1)]) == [{"e": 5}]
    assert left(keep=[("b", "d", "*", "f")]) == [{}]
    with pytest.raises(PathError):
        change(BODY, keep=None, remove=[], set=[], drop={("b",): {0}})


@pytest.mark.parametrize(
    "value", ["a", None, {"a": 1}, [1.5], [True], [-1], [None], [["a"]], ["a"] * (MAX_LENGTH + 1)]
)
def test_what_is_no_path(value: Any) -> None:
    with pytest.raises(PathError):
        read_path(value)


def test_values_are_found_with_their_paths() -> None:
    values = list(values_at(BODY, ("b", "d", "*", "e")))
    assert values == [(("b", "d", 0, "e"), 3), (("b", "d", 1, "e"), 5)]
    assert list(values_at(BODY, ())) == [((), BODY)]
    assert list(values_at(BODY, ("x", "y"))) == []
    assert list(values_at(BODY, ("n", "y"))) == []
    assert list(values_at(BODY, ("b", "d", 1))) == [(("b", "d", 1), {"e": 5})]
    assert list(values_at(BODY, ("b", "d", 7))) == []


@pytest.mark.parametrize("path", [("a", "x"), ("b", 0), ("b", "d", "x")])
def test_a_path_that_does_not_fit_finds_nothing(path: Path) -> None:
    with pytest.raises(PathError):
        list(values_at(BODY, path))


def test_many_wildcards_take_no_time() -> None:
    body: Any = {"a": 1}
    for _ in range(30):
        body = {"a": body, "b": 1}
    paths: list[Path] = [
        tuple("*" if number == skipped else "a" for number in range(40)) for skipped in range(40)
    ]
    assert change(body, keep=paths, remove=[], set=[]) is not None
