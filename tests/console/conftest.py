"""The console answers in the time that a person waits; its tests may take longer."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import pytest
from tests.waiting import PATIENCE

from doorward.console import (
    app,
    beginnings,
    differences,
    policy_texts,
    selection,
)

LIMITS: Final[tuple[tuple[ModuleType, str], ...]] = (
    (app, "SECONDS"),
    (beginnings, "SECONDS"),
    (differences, "SECONDS"),
    (policy_texts, "EACH"),
    (policy_texts, "SECONDS"),
    (selection, "SECONDS"),
)


@pytest.fixture(autouse=True)
def _is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine nothing is left out: a test of a limit sets it."""
    for module, name in LIMITS:
        assert getattr(module, name) < PATIENCE
        monkeypatch.setattr(module, name, PATIENCE)
