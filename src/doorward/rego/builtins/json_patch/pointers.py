"""Documents with only, or without, what lies at some pointers.

A pointer is a text (`doorward.rego.pointers`), or an array of steps. Values are never edited in
place.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from doorward.rego.builtins.registry.operands import refuse_operand
from doorward.rego.pointers import read_pointer
from doorward.rego.values import Key, Value, from_key, kind_name, to_key

__all__ = ["Path", "read_path", "select", "without"]

Path = list[Value]
"""The steps of a JSON pointer; the list is never modified."""

SHORT: Final = 128
"""The steps of a pointer with at most this many characters are cached."""


def read_path(operand: Value) -> Path:
    """The steps of a JSON pointer text, or a path array itself; the caller must not modify it.
    OperandError for other values.
    """
    if isinstance(operand, str):
        return _cached_steps(operand) if len(operand) <= SHORT else _steps(operand)
    if isinstance(operand, list):
        return operand
    expected = "one of {set, array} containing string paths or array of path segments"
    refuse_operand(2, expected, kind_name(operand))


def _steps(pointer: str) -> Path:
    return [*read_pointer(pointer)]


_cached_steps: Final = lru_cache(maxsize=512)(_steps)
"""The cache of parsed pointers, since policies use the same pointers again and again."""


def select(value: Value, paths: Iterable[Value]) -> Value:
    """The value with only what lies at the paths, and the containers around it. Of a path that
    leads to nothing, what exists on the way stays: containers, emptied, and a scalar where the path
    goes on. Without paths it is an empty collection. OperandError for an item of `paths` that is
    not a path.
    """
    return _filter(value, _tree(paths))


def without(value: Value, paths: Iterable[Value]) -> Value:
    """The value without what lies at the paths; paths that lead to nothing, and empty ones, are
    ignored. OperandError for an item of `paths` that is not a path.
    """
    return _remove(value, _tree(paths))


class _Tree(dict[Key, "_Tree | None"]):
    """A tree of paths: the keys are steps, and below each is the tree of the further steps, or None
    where a path ends.
    """


def _tree(paths: Iterable[Value]) -> _Tree:
    """Merge paths into a tree of their steps. A path covers longer ones that begin with it; an
    empty path is ignored. OperandError for a value that is not a path.
    """
    root = _Tree()
    for path in map(read_path, paths):
        node: _Tree | None = root
        for step in path[:-1]:
            if node is not None:  # None: a shorter path ends here and takes everything below
                node = node.setdefault(to_key(step), _Tree())
        if path and node is not None:
            node[to_key(path[-1])] = None
    return root


def _filter(value: Value, tree: _Tree | None) -> Value:
    """Return the parts of `value` at the paths of the tree, with the containers around them, also
    where a path then leads to nothing; all of `value` if `tree` is None. A scalar where a path goes
    on is returned as it is. For `json.filter`.
    """
    if tree is None:
        return value
    if isinstance(value, dict):
        keys = tree if len(value) < len(tree) else value
        return {k: _filter(value[k], tree[k]) for k in keys if k in value and k in tree}
    if isinstance(value, list):
        return [_filter(v, tree[str(n)]) for n, v in enumerate(value) if str(n) in tree]
    if isinstance(value, frozenset):
        return frozenset(to_key(_filter(from_key(k), tree[k])) for k in value if k in tree)
    return value


def _remove(value: Value, tree: _Tree) -> Value:
    """Return `value` without the parts at the paths of the tree, in sets by the member itself;
    paths that lead to nothing are ignored. The value is copied along the paths, never changed. For
    `json.remove`.
    """
    if isinstance(value, dict):
        return {k: _remove_below(v, tree, k) for k, v in value.items() if not _is_end(tree, k)}
    if isinstance(value, list):
        remaining = [(str(n), v) for n, v in enumerate(value) if not _is_end(tree, str(n))]
        return [_remove_below(v, tree, step) for step, v in remaining]
    if isinstance(value, frozenset):
        members = [k for k in value if not _is_end(tree, k)]
        return frozenset(to_key(_remove_below(from_key(k), tree, k)) for k in members)
    return value


def _is_end(tree: _Tree, step: Key) -> bool:
    return step in tree and tree[step] is None


def _remove_below(value: Value, tree: _Tree, step: Key) -> Value:
    """Return the value at `step` without what the tree has below it; the value itself if that is
    nothing.
    """
    below = tree.get(step)
    return value if below is None else _remove(value, below)
