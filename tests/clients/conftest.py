"""The plugin of schemathesis takes two seconds to load: only its own tests need it."""

from __future__ import annotations

import pytest


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Before the module imports the package, whose assertions are rewritten."""
    if collector.path.name == "test_schemathesis.py":
        collector.config.pluginmanager.import_plugin("schemathesis.pytest.plugin")
