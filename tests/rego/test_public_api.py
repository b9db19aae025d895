"""The names that programs import: which they are, and that others say where they went."""

from __future__ import annotations

import importlib
import warnings

import pytest

import doorward.rego
from doorward.rego import shared, tools

PUBLIC = {
    "Builtin",
    "BuiltinError",
    "CompileError",
    "Context",
    "Diagnostic",
    "Engine",
    "Environment",
    "EvalError",
    "Explanation",
    "InputError",
    "Number",
    "Options",
    "Partial",
    "PartialOptions",
    "PartialQuery",
    "Policies",
    "Query",
    "REGISTRY",
    "Registry",
    "RegoError",
    "UNDEFINED",
    "Undefined",
    "Value",
    "compile",
    "explain",
    "from_json",
    "from_python",
    "parse_term",
    "to_json",
    "to_python",
    "to_rego",
}
MODULES = {"golang", "shared", "tools", "types"}


def test_public_names_are_these_and_load_without_a_warning() -> None:
    """One that goes, or that another is added to, is a line of the changelog."""
    assert set(doorward.rego.__all__) == PUBLIC | MODULES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in doorward.rego.__all__:
            assert getattr(doorward.rego, name) is not None


def test_names_of_the_packages_of_doorward_load_and_are_no_public_ones() -> None:
    for module in (shared, tools):
        assert not PUBLIC & (set(module.__all__) - {"Builtin"})
        for name in module.__all__:
            assert getattr(module, name) is getattr(importlib.import_module(module.__name__), name)


def test_a_name_that_was_public_says_where_it_is() -> None:
    with pytest.warns(DeprecationWarning, match=r"import it from doorward\.rego\.shared"):
        assert doorward.rego.Span is shared.Span  # type: ignore[attr-defined]  # not any more
    with pytest.raises(AttributeError, match="no attribute 'Spam'"):
        doorward.rego.Spam  # type: ignore[attr-defined]  # noqa: B018  # there is none
