"""A diff of a text and what is left of it is one that `patch` applies, for many lines too."""

from __future__ import annotations

import difflib
import json
import random
import subprocess
from pathlib import Path

import pytest

from doorward.learn.line_diff import diff_of_cut


def cut(rng: random.Random, lines: list[str]) -> list[str]:
    """Some of the lines, of which some have lost their comma."""
    left = [line for line in lines if rng.random() < 0.6]
    return [line.replace(",\n", "\n") if rng.random() < 0.2 else line for line in left]


@pytest.mark.parametrize("seed", range(20))
def test_the_diff_turns_the_text_into_what_is_left(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = [rng.choice(["{\n", "},\n", "[\n", f'"{n}",\n', "x\n"]) for n in range(40)]
    after = cut(rng, lines)
    patch = diff_of_cut(lines, after, "file")
    assert patch is not None
    (tmp_path / "file").write_text("".join(lines))
    subprocess.run(["git", "apply"], input="".join(patch), text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "file").read_text() == "".join(after)


def test_a_diff_of_one_member_is_the_one_of_difflib() -> None:
    lines = json.dumps({f"k{n}": f"v{n}" for n in range(9)}, indent=1).splitlines(keepends=True)
    after = [*lines[:4], *lines[6:]]
    patch = diff_of_cut(lines, after, "f")
    assert patch is not None
    assert list(patch) == list(difflib.unified_diff(lines, after, "a/f", "b/f"))


def test_equal_texts_have_no_diff() -> None:
    assert list(diff_of_cut(["a\n"], ["a\n"], "f") or ()) == []


def test_other_changes_are_not_a_cut() -> None:
    assert diff_of_cut(["a\n", "b\n"], ["b\n", "a\n"], "f") is None
    assert diff_of_cut(["a\n"], ["c\n"], "f") is None
    assert diff_of_cut([], ["c\n"], "f") is None
