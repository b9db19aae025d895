"""Members are cut out of data files, and the rest stays as it was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from doorward.learn.data_patch import DataFile, cut_members
from doorward.learn.unused_data import Location, without_members

TEXT = """{
  "users": {
    "ann": ["a", "b"],
    "bob": ["b", "c",
            "d"],
    "eve": []
  },
  "n": 1.50
}
"""
YAML = """# Who may do what.
users:
  ann: [a, b]
  # not for long
  bob:
    - b
    - c
  eve: x
m: 1.50
"""


def cut(text: str, *locations: Location, path: str = "data.json") -> str | None:
    return cut_members(DataFile(path, (), text), list(locations))


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        ([("users", "ann")], TEXT.replace('"ann": ["a", "b"],\n    ', "")),
        ([("users", "eve")], TEXT.replace(',\n    "eve": []', "")),
        ([("users", "bob", 1)], TEXT.replace('"c",\n            ', "")),
        ([("users", "bob", 0), ("users", "bob", 1)], TEXT.replace('"b", "c",\n            ', "")),
        ([("users", "bob", 2)], TEXT.replace(',\n            "d"', "")),
        ([("users", "ann", 0), ("users", "ann", 1)], TEXT.replace('"a", "b"', "", 1)),
        ([("n",)], TEXT.replace(',\n  "n": 1.50', "")),
        ([("users", "ann"), ("users", "ann", 0)], TEXT.replace('"ann": ["a", "b"],\n    ', "")),
        ([("users", "ann", 0), ("users", "ann")], TEXT.replace('"ann": ["a", "b"],\n    ', "")),
        ([("users", "ann"), ("users", "eve"), ("n",)], None),
    ],
)
def test_the_rest_of_json_stays_as_written(locations: list[Location], expected: str | None) -> None:
    text = cut(TEXT, *locations)
    assert text is not None
    assert json.loads(text) == without_members(json.loads(TEXT), locations)
    assert expected in (None, text)


def test_all_subsets_of_members_are_cut() -> None:
    members: list[Location] = [("a",), ("b", 0), ("b", 1), ("b", 2), ("c", "d"), ("c", "e"), ("f",)]
    document = {"a": 1, "b": [1, "]", {}], "c": {"d": "}", "e": '\\",'}, "f": None}
    for text in (json.dumps(document), json.dumps(document, indent=1)):
        for bits in range(1 << len(members)):
            chosen = [each for number, each in enumerate(members) if bits >> number & 1]
            after = cut(text, *chosen)
            assert after is not None
            assert json.loads(after) == without_members(document, chosen)


def test_lines_of_yaml_are_cut() -> None:
    text = cut(YAML, ("users", "bob", 0), ("m",), path="data.yaml")
    assert text == YAML.replace("    - b\n", "").replace("m: 1.50\n", "")
    text = cut(YAML, ("users", "ann"), ("users", "eve"), path="data.yml")
    assert text is not None
    assert "# not for long" in text
    assert yaml.safe_load(text) == {"users": {"bob": ["b", "c"]}, "m": 1.5}


def test_yaml_that_begins_like_json_is_cut_by_lines() -> None:
    assert cut('"a":\n  b: 1\n  c: 2\n', ("a", "b"), path="data.yaml") == '"a":\n  c: 2\n'


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("users: {ann: 1, bob: 2}\n", ("users", "ann")),
        ("users:\n  ann: 1\n", ("users", "ann")),
        ("- - a\n  - b\n", (0, 0)),
        ("a: &x\n  - 1\n  - 2\nb: *x\n", ("a",)),
    ],
)
def test_yaml_that_cannot_be_cut_by_lines_has_no_patch(text: str, location: Location) -> None:
    assert cut(text, location, path="data.yaml") is None


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2', '{"a" 1}', "{a: 1}", "", '{"a": 1} 2'])
def test_text_that_is_read_in_another_way_has_no_patch(text: str) -> None:
    assert cut(text, ("a",)) is None


def test_rows_are_those_of_the_members() -> None:
    file = DataFile("data.json", ("x",), TEXT)
    inside = file.inside(
        [("x", "users", "bob"), ("y", "users"), ("x",), ("x", "no"), ("x", "n", 1)]
    )
    assert inside == [("users", "bob")]
    cut_members(file, inside)
    assert file.rows == {("users", "bob"): 4}


def test_members_of_a_copy_are_taken_out() -> None:
    data: dict[str, Any] = {"a": [1, 2, 3], "b": {"c": 1}}
    assert without_members(data, [("a", 0), ("a", 2), ("b", "c")]) == {"a": [2], "b": {}}
    assert data == {"a": [1, 2, 3], "b": {"c": 1}}


@pytest.mark.parametrize("locations", [[("b",), ("b", "c")], [("b", "c"), ("b",)]])
def test_a_member_is_taken_out_with_what_is_in_it(locations: list[Location]) -> None:
    assert without_members({"a": 1, "b": {"c": 1, "d": 2}}, locations) == {"a": 1}
