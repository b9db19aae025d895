"""The key of a saved program: it differs with everything that the program depends on."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doorward.rego import REGISTRY, Environment, Options, Registry
from doorward.rego.saved import keys
from doorward.rego.saved.keys import LEAST_TEXT, key_of, name_of
from doorward.rego.shared import Capabilities, Source, parse_modules

TEXT = "package a\n\nallow if input.x\n" + "#" * LEAST_TEXT
POLICIES = {"a.rego": TEXT}
PLAIN = Options()


def test_the_same_policies_have_the_same_key() -> None:
    assert key_of(POLICIES, PLAIN) == key_of(dict(POLICIES), Options())
    assert key_of({"a.rego": Source("a.rego", TEXT)}, PLAIN) == key_of(POLICIES, PLAIN)
    two = {"a.rego": TEXT, "b.rego": "package b"}
    assert key_of(two, PLAIN) == key_of(dict(reversed(two.items())), PLAIN)


@pytest.mark.parametrize(
    "policies",
    [
        {"a.rego": TEXT + " "},
        {"b.rego": TEXT},
        {"a.rego": Source("shown.rego", TEXT)},
        {"a.rego": TEXT, "b.rego": "package b"},
    ],
)
def test_each_part_of_a_policy_counts(policies: dict[str, str | Source]) -> None:
    assert key_of(policies, PLAIN) != key_of(POLICIES, PLAIN)


@pytest.mark.parametrize(
    "change",
    [
        {"v0": True},
        {"rego_versions": {"a.rego": 0}},
        {"strict": True},
        {"max_errors": 3},
        {"metadata": True},
        {"marked": True},
        {"max_items": 5},
        {"environment": Environment(on_print=lambda *_: None)},
    ],
)
def test_each_option_of_the_compiler_counts(change: dict[str, object]) -> None:
    changed = replace(PLAIN, **change)  # type: ignore[arg-type]
    assert key_of(POLICIES, changed) not in (None, key_of(POLICIES, PLAIN))


@pytest.mark.parametrize(
    "change",
    [
        {"registry": Registry(REGISTRY)},
        {"capabilities": Capabilities(frozenset())},
        {"schemas": {}},
        {"traced": True},
    ],
)
def test_what_a_key_cannot_name_has_none(change: dict[str, object]) -> None:
    assert key_of(POLICIES, replace(PLAIN, **change)) is None  # type: ignore[arg-type]


def test_short_policies_and_parsed_ones_have_no_key() -> None:
    assert key_of({"a.rego": "package a"}, PLAIN) is None
    assert key_of(parse_modules(POLICIES), PLAIN) is None


def test_a_name_is_that_of_a_key_and_a_kind() -> None:
    names = {name_of(key, kind) for key in ("a", "b") for kind in ("code", "program")}
    assert len(names) == 4
    assert {len(name) for name in names} == {64}


def test_code_that_is_in_no_file_has_no_key() -> None:
    names: dict[str, Any] = {}
    exec(compile("def prepare(parsed): return parsed, None", "archive.zip/a.py", "exec"), names)
    assert key_of(POLICIES, PLAIN, names["prepare"]) is None
    assert key_of(POLICIES, PLAIN) is not None


@pytest.mark.long
def test_each_module_that_policies_are_compiled_with_counts(root: Path) -> None:
    package = root / "src/doorward"
    imported: set[str] = set()
    for path in (package / "rego").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
            elif isinstance(node, ast.Import):
                imported.update(name.name for name in node.names)
    outside = {
        name.removeprefix("doorward.").partition(".")[0]
        for name in imported
        if name.startswith("doorward.") and not name.startswith("doorward.rego")
    }
    assert outside == set(keys._BESIDE)


def test_a_file_with_the_time_and_size_of_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("x = 1")
    os.utime(path, (1, 1))
    before = keys._file(path)
    other = tmp_path / "other.py"
    other.write_text("x = 2")
    os.utime(other, (1, 1))
    os.replace(other, path)
    assert keys._file(path) != before
