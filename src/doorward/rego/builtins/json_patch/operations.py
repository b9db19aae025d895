"""The operations of RFC 6902 on a document under edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from doorward.rego.builtins.json_patch.edit_tree import EditTree, Path
from doorward.rego.builtins.json_patch.pointers import read_path
from doorward.rego.errors import BuiltinError
from doorward.rego.values import Key, Value, equal, kind_name, to_rego

__all__ = ["apply_patch"]

Object = dict[Key, Value]


def apply_patch(tree: EditTree, patch: Value) -> None:
    """Apply one operation of a JSON patch (RFC 6902) to the tree. BuiltinError, in OPA's words, if
    the operation is malformed or fails, LimitError above the limits of `EditTree`; the tree may
    then be changed in part.
    """
    if not isinstance(patch, dict):
        raise BuiltinError(
            "must be an array of JSON-Patch objects, but at least one element is not an object"
        )
    pointer = _attribute(patch, "path")
    name = _attribute(patch, "op")
    if not isinstance(name, str):
        raise BuiltinError(f"attribute 'op' must be a string but found: {kind_name(name)}")
    path = read_path(pointer)
    operation = _OPERATIONS.get(name)
    if operation is None:
        raise BuiltinError(f"unrecognized op: '{name}'")
    operation(tree, path, patch)


def _attribute(patch: Object, name: str) -> Value:
    """The attribute `name` of a patch operation; BuiltinError if it is missing."""
    if name not in patch:
        raise BuiltinError(f"missing required attribute '{name}'")
    return patch[name]


def _add(tree: EditTree, path: Path, patch: Object) -> None:
    tree.insert(path, _attribute(patch, "value"))


def _remove_at(tree: EditTree, path: Path, patch: Object) -> None:
    tree.delete(path)


def _replace(tree: EditTree, path: Path, patch: Object) -> None:
    """Replace the value at `path` by the operation's `value`. BuiltinError if `value` is missing or
    there is nothing at `path`; LimitError if the result nests too deeply.
    """
    value = _attribute(patch, "value")
    tree.delete(path)
    tree.insert(path, value)


def _move(tree: EditTree, path: Path, patch: Object) -> None:
    """Move the value at the operation's `from` to `path`. BuiltinError if `from` is missing or
    leads to nothing, or if the value cannot be inserted at `path`; LimitError if the result nests
    too deeply.
    """
    source = read_path(_attribute(patch, "from"))
    value = tree.value_at(source)
    tree.delete(source)
    tree.insert(path, value)


def _copy(tree: EditTree, path: Path, patch: Object) -> None:
    tree.copy(read_path(_attribute(patch, "from")), path)


def _test(tree: EditTree, path: Path, patch: Object) -> None:
    """Raise BuiltinError, with both values, if the value at `path` differs from the operation's
    `value`; also if there is nothing at `path` or no `value`.
    """
    value = tree.value_at(path)
    expected_value = _attribute(patch, "value")
    if not equal(expected_value, value):
        expected = f"Expected: {to_rego(expected_value)}\n\nFound: {to_rego(value)}"
        raise BuiltinError(f"value from EditTree != patch value.\n\n{expected}")


_OPERATIONS: Final[dict[str, Callable[[EditTree, Path, Object], None]]] = {
    "add": _add,
    "copy": _copy,
    "move": _move,
    "remove": _remove_at,
    "replace": _replace,
    "test": _test,
}
