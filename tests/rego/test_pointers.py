"""Pointers to names, in every place that reads them: the same names."""

from __future__ import annotations

import pytest

from doorward.rego import Engine
from doorward.rego.pointers import read_name, read_patch_path, read_pointer


@pytest.mark.parametrize(
    ("part", "name"),
    [("a", "a"), ("a~1b", "a/b"), ("a~0b", "a~b"), ("~01", "~1"), ("~10", "/0"), ("a~2", "a~2")],
)
def test_a_step_is_a_name(part: str, name: str) -> None:
    assert read_name(part) == name
    assert read_pointer(f"/x/{part}") == ["x", name]
    assert read_patch_path(f"/x/{part}/") == ("x", name)
    query = Engine().prepare(
        'json.patch({}, [{"op": "add", "path": concat("/", ["", input]), "value": 1}])'
    )
    assert query.value(part) == {name: 1}


def test_a_path_of_a_change_has_escapes_of_urls_too() -> None:
    assert read_patch_path("/a%2Fb/c%7E1d/%C3%A9+") == ("a/b", "c/d", "é+")
    assert read_patch_path("/") == read_patch_path("") == ()
    assert read_patch_path("/a%zz%20/b%20") == ("a%zz%20", "b ")


def test_an_empty_pointer_is_the_document() -> None:
    assert read_pointer("") == []
    assert read_pointer("/") == [""]
