"""Modules that a test wrote are forgotten after it, and no others.

What else is imported meanwhile stays: a library that is imported twice has two of each class.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

__all__ = ["forgetting"]


@contextmanager
def forgetting(folder: Path) -> Iterator[None]:
    """Around imports of modules that lie in `folder`."""
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()):
            if any(Path(location).is_relative_to(folder) for location in _locations(module)):
                del sys.modules[name]


def _locations(module: ModuleType) -> list[str]:
    """The file of a module, or the folders of a package that has none."""
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return []
    return [*filter(None, [spec.origin]), *(spec.submodule_search_locations or ())]
