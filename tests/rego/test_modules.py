"""All policies are parsed, or every error in them is reported."""

from __future__ import annotations

import pytest

from doorward.rego import CompileError, Options
from doorward.rego.shared import Capabilities, parse_modules

POLICY = "package a\n\np := 1\n"
BROKEN_METADATA = "package a\n\n# METADATA\n# scope: [\np := 1\n"


def test_modules_are_parsed_by_file_name() -> None:
    modules = parse_modules({"a.rego": POLICY, "b.rego": "package b\n"})
    assert [(file, tree.package.path) for file, tree in modules.items()] == [
        ("a.rego", ("a",)),
        ("b.rego", ("b",)),
    ]


def test_every_error_is_reported() -> None:
    with pytest.raises(CompileError) as caught:
        parse_modules({"a.rego": "package a\n\np {", "b.rego": "q := 1"})
    assert {error.span.file for error in caught.value.diagnostics} == {"a.rego", "b.rego"}


def test_a_parsed_module_is_taken_as_it_is() -> None:
    modules = parse_modules({"a.rego": POLICY})
    again = parse_modules({**modules, "b.rego": "package b\n"})
    assert again["a.rego"] is modules["a.rego"]


def test_capabilities_hold_for_parsed_modules_too() -> None:
    modules = parse_modules({"a.rego": POLICY})
    with pytest.raises(CompileError, match="rego_v1 feature required"):
        parse_modules(modules, Options(capabilities=Capabilities(frozenset())))


def test_metadata_is_read_only_where_a_policy_reads_it() -> None:
    reader = "package b\n\nq := rego.metadata.rule()\n"
    modules = parse_modules({"a.rego": BROKEN_METADATA})
    assert modules["a.rego"].annotations == ()
    with pytest.raises(CompileError, match="rego_parse_error"):
        parse_modules({"a.rego": BROKEN_METADATA, "b.rego": reader})
    with pytest.raises(CompileError, match="rego_parse_error"):
        parse_modules({"a.rego": BROKEN_METADATA}, Options(schemas={}))
    read = parse_modules({"a.rego": BROKEN_METADATA.replace("[", "rule"), "b.rego": reader})
    assert parse_modules(read) == read
