"""docs/codegen.md shows what is generated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doorward.rego import Engine

PAGE = Path(__file__).resolve().parents[3] / "docs/codegen.md"


def blocks() -> list[tuple[str, str]]:
    """The fenced blocks, each with its language."""
    parts = PAGE.read_text(encoding="utf-8").split("```")[1::2]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def examples() -> list[tuple[str, str]]:
    """Each block of Python, with the policy that stands before it."""
    pairs, policy = [], ""
    for language, text in blocks():
        if language == "rego":
            policy = text
        elif language == "python":
            pairs.append((policy, text))
    return pairs


@pytest.mark.parametrize(("policy", "python"), examples(), ids=map(str, range(len(examples()))))
def test_an_example_is_what_is_generated(policy: str, python: str) -> None:
    engine = Engine({"p.rego": f"package a\n\n{policy}"})
    assert python.rstrip() in engine.emit()["p.rego"]


def test_the_page_names_files_and_functions_that_exist() -> None:
    root = PAGE.parents[1] / "src/doorward/rego"
    text = "\n".join([path.read_text(encoding="utf-8") for path in root.rglob("*.py")])
    prose = "".join(PAGE.read_text(encoding="utf-8").split("```")[::2])
    names = re.findall(r"`([A-Za-z_]\w+)`", prose)
    assert len(names) > 20
    assert set(names) <= set(re.findall(r"\w+", text))
