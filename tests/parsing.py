"""Modules of Python as trees, made while nothing is collected.

Python 3.11 says of a good text that its "recursion depth" is wrong where a finalizer parses another
one meanwhile, as whatever formats a traceback does. What other tests left is finalized at any time.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from doorward.base.collector import gc_paused

__all__ = ["nodes_of", "parsed", "parsed_file", "trees_frozen"]


def parsed(text: str) -> ast.Module:
    with gc_paused():
        return ast.parse(text)


@cache
def parsed_file(path: Path) -> ast.Module:
    """The tree of a file of the repository, once for all rules that read it."""
    return parsed(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree, in the order of `ast.walk`, which takes ten times as long."""
    return tuple(ast.walk(parsed_file(path)))


@contextmanager
def trees_frozen() -> Iterator[None]:
    """Context for rules about all sources: the trees that are made in it stay, and no collection
    visits them, then or later. Looking for garbage in them takes longer than making them.
    """
    gc.collect()
    with gc_paused():
        yield
        gc.freeze()
