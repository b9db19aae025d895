"""The acceptance matrix once more, from outside the pod, by way of the application's port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.redirect.conftest import Run

from acceptance.check import run_row
from acceptance.matrix import ROWS
from acceptance.row import Row


@pytest.fixture(scope="module", autouse=True)
def redirected(run: Run) -> Iterator[None]:
    run.pod.init("--capture-loopback")
    yield
    run.pod.remove_redirect()


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.group}: {row.name}" for row in ROWS])
def test_row(run: Run, row: Row) -> None:
    outcome = run_row(run.pod, row, run.tokens)
    assert not outcome.problems, outcome.answer
