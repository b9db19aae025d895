"""The folders and files of this host that control the daemon or the plugin, wherever they are.

The shipped policies protect the usual ones by name. What was put elsewhere (another data-root, a
folder of policies, an audit log, the environment that the plugin runs from) is in the input as
`protected`, so that no mount of a folder that users may otherwise use reaches it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["protected_paths"]


def protected_paths(used: Iterable[str]) -> tuple[str, ...]:
    """Return the paths in `used` and those of this program, absolute and with links followed,
    sorted.

    Skips `""` and `-`. `/`, `/usr` and `/usr/local` are left out: they would protect nearly
    everything.
    """
    programs = [sys.prefix, str(Path(__file__).parents[2]), sys.executable]
    paths: set[str] = set()
    for path in (*used, *programs):
        if path and path != "-":
            absolute = os.path.abspath(path.removeprefix("unix://"))
            paths |= {absolute, os.path.realpath(absolute)}
    # The root itself would protect everything: an interpreter that lives there is not ours alone.
    return tuple(sorted(paths - {"/", "/usr", "/usr/local"}))
