"""A plugin for the tests whose coverage is measured: `make coverage`.

An engine whose lines are watched generates other code, and generates it while nobody watches: a
debugger is to stop in rules alone. With this plugin coverage.py does not count as watching, so that
the tests run the code of the engine that runs elsewhere, where coverage.py sees it.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from doorward.rego import code, queries

__all__ = ["debugger", "pytest_configure"]


def debugger() -> Any:
    """Return the function that traces this thread; None if that is coverage.py's or nobody's."""
    tracer = sys.gettrace()
    return None if type(tracer).__module__.partition(".")[0] == "coverage" else tracer


@pytest.hookimpl
def pytest_configure() -> None:
    """Let the engine ask for debuggers only."""
    queries.gettrace = debugger  # type: ignore[attr-defined] # imported there
    code.lines_are_watched = lambda: debugger() is not None  # type: ignore[attr-defined]
