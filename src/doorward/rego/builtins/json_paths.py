"""json.filter, json.remove and json.patch: selections and edits by JSON pointer.

A path is a string with `/` between its steps (`~1` for a slash, `~0` for a tilde), or an array of
steps. Values are never edited in place. A patch works on an `EditTree`, which bounds what it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from doorward.rego.builtins.json_patch.edit_tree import EditTree, Path
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import refuse_operand
from doorward.rego.builtins.registry.signature import any_, any_of, array, object_, set_, string
from doorward.rego.errors import BuiltinError
from doorward.rego.values import (
    Key,
    Value,
    equal,
    from_key,
    kind_name,
    sorted_values,
    to_key,
    to_rego,
)

__all__: list[str] = []

Object: TypeAlias = "dict[Key, Value]"

_OBJECT = object_(any_, any_)
_PATHS = any_of(
    set_(any_of(string, array(any_))),
    array(any_of(string, array(any_))),
)
_PATCHES = array(object_(any_, any_, op=string, path=any_))


@builtin("json.filter", _OBJECT, _PATHS, returns=any_, looks=True)
def json_filter(object_: Object, paths: list[Value] | frozenset[Key]) -> Value:
    """The object with only what lies at the paths."""
    return _filter(object_, _tree(paths))


@builtin("json.remove", _OBJECT, _PATHS, returns=any_, looks=True)
def json_remove(object_: Object, paths: list[Value] | frozenset[Key]) -> Value:
    """The object without what lies at the paths."""
    return _remove(object_, _tree(paths))


class _Tree(dict[Key, "_Tree | None"]):
    """Paths by their steps; None where one ends."""


def _tree(paths: list[Value] | frozenset[Key]) -> _Tree:
    root = _Tree()
    given = paths if isinstance(paths, list) else sorted_values(paths)
    for path in [_path(item) for item in given]:
        node: _Tree | None = root
        for step in path[:-1]:
            if node is not None:  # None: a shorter path ends here and takes everything below
                node = node.setdefault(to_key(step), _Tree())
        if path and node is not None:
            node[to_key(path[-1])] = None
    return root


def _path(given: Value) -> Path:
    if isinstance(given, str):
        if not given:
            return []
        steps = given.lstrip("/").split("/")
        return [step.replace("~1", "/").replace("~0", "~") for step in steps]
    if isinstance(given, list):
        return given
    wanted = "one of {set, array} containing string paths or array of path segments"
    refuse_operand(2, wanted, kind_name(given))


def _filter(value: Value, tree: _Tree | None) -> Value:
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
    if isinstance(value, dict):
        return {k: _less(v, tree, k) for k, v in value.items() if not _ends(tree, k)}
    if isinstance(value, list):
        kept = [(str(n), v) for n, v in enumerate(value) if not _ends(tree, str(n))]
        return [_less(v, tree, step) for step, v in kept]
    if isinstance(value, frozenset):
        kept_members = [k for k in value if not _ends(tree, k)]
        return frozenset(to_key(_less(from_key(k), tree, k)) for k in kept_members)
    return value


def _ends(tree: _Tree, step: Key) -> bool:
    return step in tree and tree[step] is None


def _less(value: Value, tree: _Tree, step: Key) -> Value:
    below = tree.get(step)
    return value if below is None else _remove(value, below)


@builtin("json.patch", any_, _PATCHES, returns=any_, context=True)
def json_patch(context: Context, document: Value, patches: list[Value]) -> Value:
    """The document after the operations of RFC 6902: add, remove, replace, move, copy, test.

    One operation that fails fails all. Members of a set are addressed by themselves.
    """
    tree = EditTree(context, document)
    for patch in context.paced(patches, 1):
        if not isinstance(patch, dict):
            raise BuiltinError(
                "must be an array of JSON-Patch objects, but at least one element is not an object"
            )
        path = _path(_attribute(patch, "path"))
        _OPERATIONS[_operation(patch)](tree, path, patch)
    return tree.value


def _operation(patch: Object) -> str:
    operation = _attribute(patch, "op")
    if not isinstance(operation, str):
        raise BuiltinError(f"attribute 'op' must be a string but found: {kind_name(operation)}")
    if operation not in _OPERATIONS:
        raise BuiltinError(f"unrecognized op: '{operation}'")
    return operation


def _attribute(patch: Object, name: str) -> Value:
    if name not in patch:
        raise BuiltinError(f"missing required attribute '{name}'")
    return patch[name]


def _add(tree: EditTree, path: Path, patch: Object) -> None:
    tree.insert(path, _attribute(patch, "value"))


def _remove_at(tree: EditTree, path: Path, patch: Object) -> None:
    tree.delete(path)


def _replace(tree: EditTree, path: Path, patch: Object) -> None:
    value = _attribute(patch, "value")
    tree.delete(path)
    tree.insert(path, value)


def _move(tree: EditTree, path: Path, patch: Object) -> None:
    source = _path(_attribute(patch, "from"))
    value = tree.value_at(source)
    tree.delete(source)
    tree.insert(path, value)


def _copy(tree: EditTree, path: Path, patch: Object) -> None:
    tree.copy(_path(_attribute(patch, "from")), path)


def _test(tree: EditTree, path: Path, patch: Object) -> None:
    value = tree.value_at(path)
    wanted = _attribute(patch, "value")
    if not equal(wanted, value):
        expected = f"Expected: {to_rego(wanted)}\n\nFound: {to_rego(value)}"
        raise BuiltinError(f"value from EditTree != patch value.\n\n{expected}")


_OPERATIONS: Final[dict[str, Callable[[EditTree, Path, Object], None]]] = {
    "add": _add,
    "copy": _copy,
    "move": _move,
    "remove": _remove_at,
    "replace": _replace,
    "test": _test,
}
