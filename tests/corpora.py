"""Where the recorded answers are, and what the run says of those that are not here.

`tests/data` holds what was recorded for this project. OPA's conformance suite, and programs made
of its cases (`mutants`), are not ours to copy: `scripts/get-corpora` fetches the suite. Tests that
need one of them carry `needs`, and a run without it says so in one line at its end.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["DATA", "GOLDEN", "MISSING", "MUTANTS", "PARTIAL", "SUITE", "needs", "rows"]

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = ROOT / "tests/data"
GOLDEN: Final = DATA / "golden"
_SHARED: Final = ROOT / os.environ.get("DOORWARD_SHARED", "../shared") / "data"
_FETCHED: Final = ROOT / "build/corpora"

MISSING: Final = "programs of OPA's own are not here"
"""The reason of each test that is skipped for the want of them."""


def _first(*paths: Path) -> Path:
    """The first that is there; else the last."""
    return next((path for path in paths if path.is_file()), paths[-1])


def _suite() -> Path:
    if "OPA_CASES" in os.environ:
        return ROOT / os.environ["OPA_CASES"]
    return _first(_SHARED / "rego-v1.jsonl.gz", _FETCHED / "rego-v1.jsonl.gz")


SUITE: Final = _suite()
"""OPA's conformance suite, one case a line (`OPA_CASES`)."""

PARTIAL: Final = _first(_SHARED / "golden/partial.jsonl.gz", GOLDEN / "partial.jsonl.gz")
"""Residuals of partial evaluation; those of OPA's own programs are not in `GOLDEN`."""

MUTANTS: Final = _SHARED / "golden/mutants.jsonl.gz"
"""Mutations of its cases with OPA's answers; nobody publishes them."""


def needs(file: Path) -> pytest.MarkDecorator:
    """The mark of a test that reads `file`."""
    return pytest.mark.skipif(not file.is_file(), reason=MISSING)


def rows(file: Path, decode: Callable[[str], Any] = json.loads) -> Iterator[Any]:
    """The rows of a recorded set; `decode` says how a line is read."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield decode(line)
