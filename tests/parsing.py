"""Modules of Python as trees, made while nothing is collected.

Python 3.11 says of a good text that its "recursion depth" is wrong where a finalizer parses another
one meanwhile, as whatever formats a traceback does. What other tests left is finalized at any time.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from doorward.base.collector import gc_paused

__all__ = ["parsed", "parsed_file"]


def parsed(text: str) -> ast.Module:
    with gc_paused():
        return ast.parse(text)


@cache
def parsed_file(path: Path) -> ast.Module:
    """The tree of a file of the repository, once for all rules that read it."""
    return parsed(path.read_text(encoding="utf-8"))
