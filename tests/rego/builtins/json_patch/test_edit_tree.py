"""json.patch: edits of the whole document, and what bounds a patch that copies."""

from __future__ import annotations

from typing import Any

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego import Engine, EvalError
from doorward.rego.builtins.json_patch.edit_tree import MAX_COPIED, MAX_DEPTH
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.values import Value, to_json

DOCUMENT: Any = {"a": {"b": [1, 2]}, "c": "x"}


def patched(document: Any, *operations: Any) -> Any:
    return invoke("json.patch", document, list(operations))


def doubling(count: int) -> list[dict[str, Any]]:
    """Each operation puts all of the document into itself."""
    return [{"op": "copy", "from": "", "path": f"/x{n}"} for n in range(count)]


WHOLE: list[tuple[list[dict[str, Any]], Value]] = [
    ([{"op": "move", "from": "", "path": ""}], DOCUMENT),
    ([{"op": "move", "from": "/a", "path": ""}], {"b": [1, 2]}),
    ([{"op": "copy", "from": "/a/b", "path": ""}], [1, 2]),
    ([{"op": "remove", "path": ""}, {"op": "add", "path": "", "value": 1}], 1),
    (
        [{"op": "replace", "path": "", "value": {}}, {"op": "add", "path": "/k", "value": 1}],
        {"k": 1},
    ),
    ([{"op": "test", "path": "", "value": DOCUMENT}], DOCUMENT),
]


@pytest.mark.parametrize(("operations", "want"), WHOLE, ids=str)
def test_the_whole_document_can_be_edited(operations: list[dict[str, Any]], want: Value) -> None:
    assert patched(DOCUMENT, *operations) == want


@pytest.mark.parametrize(
    ("operations", "said"),
    [
        ([{"op": "remove", "path": ""}], "the whole document is removed"),
        (
            [{"op": "remove", "path": ""}, {"op": "replace", "path": "", "value": 1}],
            "deleted node encountered during delete operation",
        ),
        ([{"op": "move", "from": "", "path": "/a"}], "deleted node encountered during insert"),
        (
            [{"op": "remove", "path": ""}, {"op": "remove", "path": "/a"}],
            "deleted node encountered during delete",
        ),
        (
            [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/a/b/0", "value": 1}],
            'already deleted composite node for key "a"',
        ),
        (
            [{"op": "remove", "path": "/c"}, {"op": "test", "path": "/c", "value": 1}],
            'already deleted scalar node for key "c"',
        ),
    ],
)
def test_what_is_gone_cannot_be_used(operations: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(BuiltinError, match=said):
        patched(DOCUMENT, *operations)


def test_what_was_deleted_can_be_added_again() -> None:
    operations = [{"op": "remove", "path": "/a"}, {"op": "add", "path": "/a", "value": {"b": []}}]
    assert patched(DOCUMENT, *operations, {"op": "add", "path": "/a/b/-", "value": 9}) == {
        "a": {"b": [9]},
        "c": "x",
    }


def test_a_patch_leaves_the_document_and_the_values_as_they_are() -> None:
    value: Any = {"n": [1]}
    operations = [
        {"op": "add", "path": "/a/v", "value": value},
        {"op": "add", "path": "/a/v/n/-", "value": 2},
        {"op": "copy", "from": "/a", "path": "/d"},
        {"op": "remove", "path": "/a/v/n/0"},
        {"op": "add", "path": "/a/b/0", "value": 0},
    ]
    before = to_json([DOCUMENT, value])
    assert patched(DOCUMENT, *operations) == {
        "a": {"b": [0, 1, 2], "v": {"n": [2]}},
        "c": "x",
        "d": {"b": [1, 2], "v": {"n": [1, 2]}},
    }
    assert to_json([DOCUMENT, value]) == before


def test_members_of_sets_are_edited_in_place() -> None:
    document = {"s": frozenset({1, 2})}
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": ["s", 3], "value": 3},
        {"op": "remove", "path": ["s", 1]},
    ]
    assert patched(document, *operations) == {"s": frozenset({2, 3})}


@pytest.mark.parametrize(
    "operations",
    [
        doubling(60),
        [{"op": "add", "path": "/l", "value": [1] * 1000}]
        + [{"op": "copy", "from": "/l", "path": "/l/-"}] * 60,
        [
            {"op": "add", "path": "/t", "value": "x" * 65 * MAX_COPIED},
            {"op": "copy", "from": "/t", "path": "/u"},
        ],
    ],
    ids=["objects", "arrays", "texts"],
)
def test_copies_that_double_the_document_end_the_evaluation(operations: Any) -> None:
    with pytest.raises(LimitError, match=f"more than {MAX_COPIED} items"):
        patched({}, *operations)


def test_a_limit_is_no_answer_for_not() -> None:
    engine = Engine({"p.rego": "package p\nallow if not json.patch(input.d, input.p).denied\n"})
    query = engine.prepare("data.p.allow")
    with pytest.raises(EvalError) as raised:
        query.value({"d": {"denied": True}, "p": doubling(60)})
    assert raised.value.code == "eval_limit_error"


def test_copies_of_a_large_document_are_made() -> None:
    document: Any = {"a": list(range(MAX_COPIED // 2))}
    copy = patched(document, {"op": "copy", "from": "/a", "path": "/b"})
    assert copy == {"a": document["a"], "b": document["a"]}


def test_what_copies_add_counts_as_items() -> None:
    query = Engine(max_items=10_000).prepare("count(json.patch(input.d, input.p))")
    assert query.value({"d": {}, "p": doubling(12)}) == 12
    with pytest.raises(EvalError, match="more than 10000 items"):
        query.value({"d": {}, "p": doubling(14)})


def test_a_patch_nests_so_deep_and_no_deeper() -> None:
    deeper = []
    for _ in range(MAX_DEPTH):
        deeper += [
            {"op": "move", "from": "/a", "path": "/b/x"},
            {"op": "move", "from": "/b", "path": "/a"},
            {"op": "add", "path": "/b", "value": {}},
        ]
    assert "x" in to_json(patched({"a": {}, "b": {}}, *deeper[: 3 * (MAX_DEPTH - 3)]))
    with pytest.raises(LimitError, match="nested more than"):
        patched({"a": {}, "b": {}}, *deeper)


MEMBER = "{" + '"a": [1, 2]' + "}"


@pytest.mark.parametrize(
    ("operations", "want"),
    [
        # A member that was changed is found as what it has become, and no longer as what it was.
        (f'[{{"op": "remove", "path": [{MEMBER}, "a", 0]}}]', [{"a": [2]}]),
        (
            f'[{{"op": "remove", "path": [{MEMBER}, "a", 0]}},'
            ' {"op": "add", "path": [{"a": [2]}, "a", "-"], "value": 3}]',
            [{"a": [2, 3]}],
        ),
        (
            f'[{{"op": "remove", "path": [{MEMBER}, "a", 0]}},'
            f' {{"op": "add", "path": [{MEMBER}, "a", "-"], "value": 3}}]',
            'path {"a": [1, 2]} does not exist in set term {{"a": [2]}}',
        ),
        (
            f'[{{"op": "replace", "path": [{MEMBER}, "a", 0], "value": 3}}]',
            'path {"a": [1, 2]} does not exist in set term {{"a": [2]}}',
        ),
        (
            '[{"op": "add", "path": ["s b", "x"], "value": 3}]',
            'path s b does not exist in set term {{"a": [1, 2]}}',
        ),
    ],
)
def test_a_member_of_a_set_is_its_own_key(operations: str, want: Any) -> None:
    query = Engine().prepare(
        f"x := json.patch({{{MEMBER}}}, {operations})", strict_builtin_errors=True
    )
    if isinstance(want, str):
        with pytest.raises(EvalError) as caught:
            query.results()
        assert want in str(caught.value)
    else:
        assert query.results() == [{"x": want}]
