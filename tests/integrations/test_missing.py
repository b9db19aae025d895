"""A framework that is not installed: one line says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = {
    "doorward.filters.django": ("django", "doorward[django]"),
    "doorward.filters.sqlalchemy": ("sqlalchemy", "doorward[sqlalchemy]"),
    "doorward.integrations.django": ("django", "doorward[django]"),
    "doorward.integrations.django_rest": ("rest_framework", "djangorestframework"),
    "doorward.integrations.fastapi": ("fastapi", "doorward[fastapi]"),
    "doorward.integrations.flask": ("flask", "doorward[flask]"),
    "doorward.integrations.mcp": ("fastmcp", "doorward[mcp]"),
}


@pytest.mark.parametrize("module", PACKAGES)
def test_a_package_that_is_not_there_is_named_with_the_command_that_installs_it(
    module: str,
) -> None:
    package, wanted = PACKAGES[module]
    # As if it were not there, with everything that was imported of it.
    program = f"import sys; sys.modules[{package!r}] = None; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    *_, said = done.stderr.splitlines()
    assert said.startswith("ModuleNotFoundError: ")
    assert said.endswith(f"is not installed: pip install '{wanted}'")
