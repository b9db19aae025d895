"""Objects that generated code names."""

from __future__ import annotations

import ast

import pytest

from doorward.rego.codegen.constants import Constants, bind
from doorward.rego.shared import InternalError


def test_each_object_has_a_name_of_its_own() -> None:
    constants = Constants()
    names = [ast.unparse(constants.add(value)) for value in ([1], [1], "a")]
    assert names == ["k.0", "k.1", "k.2"]
    assert ast.unparse(constants.add("site", "at")) == "at.3"


def test_a_query_numbers_its_objects_behind_those_of_the_program() -> None:
    constants = Constants(shared={"k.0": 1, "path.a": ("a",)})
    assert ast.unparse(constants.add(2)) == "k.2"
    assert constants.path(["a"]).id == "path.a"
    assert constants.names == {"k.2": 2}


def test_a_name_of_the_program_stands_for_its_object() -> None:
    body = object()
    constants = Constants(shared={"fn.a": body})
    assert constants.named("fn.a", body).id == "fn.a"
    with pytest.raises(InternalError, match="stands for two things"):
        constants.named("fn.a", object())


def test_a_name_stands_for_one_object() -> None:
    names: dict[str, object] = {}
    value: list[int] = []
    bind(names, "a", value)
    bind(names, "a", value)
    with pytest.raises(InternalError, match="stands for two things"):
        bind(names, "a", [])
