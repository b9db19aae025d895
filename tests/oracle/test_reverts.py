"""The fixes that `fuzz/reverts.py` takes back are there to be taken back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz.reverts import SOURCES, Revert, reverts

REVERTS = reverts()


@pytest.mark.parametrize("revert", REVERTS, ids=[revert.what for revert in REVERTS])
def test_every_fix_can_be_taken_back(revert: Revert, tmp_path: Path) -> None:
    for file, _, _ in revert.edits:
        (tmp_path / "doorward" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCES / "doorward" / file, tmp_path / "doorward" / file)
    revert.apply(tmp_path)
    for file, _, _ in revert.edits:
        text = (tmp_path / "doorward" / file).read_text(encoding="utf-8")
        compile(text, file, "exec")


def test_every_fix_of_the_language_has_a_revert() -> None:
    assert {revert.number for revert in REVERTS} == set(range(1, 9))
