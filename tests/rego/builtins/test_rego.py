"""Rego about Rego: modules as objects, what is told of the process."""

from __future__ import annotations

from functools import partial

import pytest
from tests.rego.builtins.calls import invoke

from doorward.rego.builtins import REGISTRY, Context, Environment
from doorward.rego.errors import BuiltinError, LimitError

parse_module = partial(invoke, "rego.parse_module")


def test_a_module_is_an_object() -> None:
    module = parse_module("a.rego", "package a.b\n\nallow if input.x == 1\n")
    assert [part["value"] for part in module["package"]["path"]] == ["data", "a", "b"]
    assert module["rules"][0]["head"]["name"] == "allow"


def test_an_error_names_the_file_and_shows_the_line() -> None:
    with pytest.raises(BuiltinError) as caught:
        parse_module("a.rego", "package a\n\nß\n")
    assert str(caught.value) == (
        "1 error occurred: a.rego:3: rego_parse_error: illegal token\n\tß\n\t^"
    )


def test_a_module_too_long_is_refused() -> None:
    with pytest.raises(LimitError, match="longer than"):
        parse_module("a.rego", " " * (1024 * 1024 + 1))


def test_the_runtime_is_what_the_caller_told() -> None:
    context = Context(Environment(runtime={"version": "1", "env": {}}))
    assert REGISTRY["opa.runtime"].call(context) == {"version": "1", "env": {}}
    assert REGISTRY["opa.runtime"].call(Context(Environment())) == {}


def test_a_note_is_true() -> None:
    assert REGISTRY["trace"].call("here") is True


def test_bytes_that_are_no_text_are_read_as_the_replacement_character() -> None:
    module = parse_module("a.rego", 'package a\n# \udcff\np := "\udcff"')
    assert module["rules"][0]["head"]["value"]["value"] == "\ufffd"


def test_a_module_that_nests_too_deeply_is_refused() -> None:
    for term in (" + ".join(["1"] * 600), "[" * 5000 + "]" * 5000):
        with pytest.raises(BuiltinError, match=r"operators follow|max parsing recursion depth"):
            parse_module("a.rego", f"package a\n\np := {term}\n")


def test_a_long_chain_is_shown_where_python_can_follow_it() -> None:
    try:
        shown = str(parse_module("a.rego", f"package a\n\np := {' + '.join(['1'] * 400)}\n"))
    except LimitError as error:
        shown = str(error)
    # Python 3.13 can.
    assert shown == "module is nested too deeply" or shown.count("plus") == 399
