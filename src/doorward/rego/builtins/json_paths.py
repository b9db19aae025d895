"""json.filter, json.remove and json.patch: selections and edits by JSON pointer.

A path is a string with `/` between its steps (`~1` for a slash, `~0` for a tilde), or an array of
steps. Values are never edited in place: each edit copies the containers along its path, and many
edits look at the clock.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from doorward.rego.builtins.context import Context
from doorward.rego.builtins.objects import child
from doorward.rego.builtins.operands import refuse_operand
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.signature import any_, any_of, array, object_, set_, string
from doorward.rego.errors import BuiltinError, OperandError
from doorward.rego.numbers import Number
from doorward.rego.values import (
    Key,
    Undefined,
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
Path: TypeAlias = "list[Value]"

_OBJECT = object_(any_, any_)
_PATHS = any_of(
    set_(any_of(string, array(any_))),
    array(any_of(string, array(any_))),
)
_PATCHES = array(object_(any_, any_, op=string, path=any_))
_INDEX: Final = re.compile(r"[+-]?\d+\Z", re.ASCII)


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
    for patch in context.paced(patches, 1):
        if not isinstance(patch, dict):
            raise BuiltinError(
                "must be an array of JSON-Patch objects, but at least one element is not an object"
            )
        operation, path = _operation(patch)
        document = _OPERATIONS[operation](document, path, patch)
    return document


def _operation(patch: Object) -> tuple[str, Path]:
    operation = _attribute(patch, "op")
    if not isinstance(operation, str):
        raise BuiltinError(f"attribute 'op' must be a string but found: {kind_name(operation)}")
    if operation not in _OPERATIONS:
        raise BuiltinError(f"unrecognized op '{operation}'")
    return operation, _path(_attribute(patch, "path"))


def _attribute(patch: Object, name: str) -> Value:
    if name not in patch:
        raise BuiltinError(f"missing required attribute '{name}'")
    return patch[name]


def _add(document: Value, path: Path, patch: Object) -> Value:
    return _insert(document, path, _attribute(patch, "value"))


def _replace(document: Value, path: Path, patch: Object) -> Value:
    value = _attribute(patch, "value")
    return _insert(_delete(document, path) if path else None, path, value)


def _move(document: Value, path: Path, patch: Object) -> Value:
    source = _path(_attribute(patch, "from"))
    value = _at(document, source)
    return _insert(_delete(document, source), path, value)


def _copy(document: Value, path: Path, patch: Object) -> Value:
    return _insert(document, path, _at(document, _path(_attribute(patch, "from"))))


def _test(document: Value, path: Path, patch: Object) -> Value:
    wanted, found = _attribute(patch, "value"), _at(document, path)
    if not equal(wanted, found):
        expected = f"Expected: {to_rego(wanted)}\n\nFound: {to_rego(found)}"
        raise BuiltinError(f"value from EditTree != patch value.\n\n{expected}")
    return document


_OPERATIONS: Final[dict[str, Callable[[Value, Path, Object], Value]]] = {
    "add": _add,
    "remove": lambda document, path, _patch: _delete(document, path),
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _at(value: Value, path: Path) -> Value:
    for step in path:
        value = _down(value, step)
    return value


def _down(value: Value, step: Value) -> Value:
    if isinstance(value, list):
        found = child(value, _index(step, len(value)))
        shown = _shown(_index(step, len(value)))
    else:
        found, shown = child(value, step), _shown(step)
    if isinstance(found, Undefined):
        kind = kind_name(value)
        if kind in {"object", "array", "set"}:
            raise BuiltinError(f"path {shown} does not exist in {kind} term {to_rego(value)}")
        raise BuiltinError(f"expected composite type for path {shown}, found {_scalar(value)}")
    return found


def _shown(step: Value) -> str:
    return to_rego(step)


def _scalar(value: Value) -> str:
    return f"value: {to_rego(value)} (type: ast.{kind_name(value).capitalize()})"


def _index(step: Value, length: int) -> int:
    if isinstance(step, str):
        if step == "-":
            return length
        if not _INDEX.match(step):
            raise BuiltinError("invalid string for indexing")
        if step != "0" and step.startswith("0"):
            raise BuiltinError("leading zeros are not allowed in JSON paths")
        return int(step) if len(step) < 20 else length + 1
    if type(step) is int:
        return step
    if isinstance(step, Number):
        raise BuiltinError("invalid number type for indexing")
    raise BuiltinError("invalid type for indexing")


def _edit(value: Any, path: Path, edit: Callable[[Any, Value], Value]) -> Value:
    """A copy of `value` where `edit` has changed the container that the path's last step is in."""
    step = path[0]
    if len(path) == 1:
        return edit(value, step)
    below = _edit(_down(value, step), path[1:], edit)
    if isinstance(value, list):
        index = _index(step, len(value))
        return [*value[:index], below, *value[index + 1 :]]
    if isinstance(value, dict):
        return {**value, to_key(step): below}
    return (value - {to_key(step)}) | {to_key(below)}  # type: ignore[no-any-return] # a set here


def _insert(document: Value, path: Path, value: Value) -> Value:
    def edit(container: Any, step: Value) -> Value:
        if isinstance(container, dict):
            return {**container, to_key(step): value}
        if isinstance(container, list):
            index = _index(step, len(container))
            if not 0 <= index <= len(container):
                raise BuiltinError("index for array insertion out of bounds")
            return [*container[:index], value, *container[index:]]
        if isinstance(container, frozenset):
            if not equal(step, value):
                raise BuiltinError(
                    f"set key {to_rego(step)} does not equal value to be inserted {to_rego(value)}"
                )
            return container | {to_key(value)}
        raise BuiltinError(f"expected composite type, found {_scalar(container)}")

    return _edit(document, path, edit) if path else value


def _delete(document: Value, path: Path) -> Value:
    def edit(container: Any, step: Value) -> Value:
        if isinstance(container, list):
            index = _index(step, len(container))
            if not 0 <= index < len(container):
                raise BuiltinError("index for array delete out of bounds")
            return [*container[:index], *container[index + 1 :]]
        if not isinstance(container, (dict, frozenset)):
            raise BuiltinError(f"expected composite type, found {_scalar(container)}")
        key = to_key(step)
        if key not in container:
            raise BuiltinError(f"cannot delete child key {to_rego(step)} that does not exist")
        if isinstance(container, dict):
            return {k: v for k, v in container.items() if k != key}
        return container - {key}

    if not path:
        raise OperandError("the whole document cannot be removed")
    return _edit(document, path, edit)
