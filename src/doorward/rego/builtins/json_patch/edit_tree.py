"""A document under edit: what json.patch works on.

The containers on the way to an edit are unfolded into nodes that change in place; everything else
stays the document's own. A value that is copied is shared, not duplicated, so a few operations
could make a value of 2**n items: what copies add is counted, and how deep the document becomes.
An error shows a container as it was when it was unfolded, as OPA's does.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Any, Final, NoReturn, TypeAlias

from doorward.rego.builtins.registry.context import Context
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.numbers import CLASSES, integer_of
from doorward.rego.values import (
    Key,
    Value,
    equal,
    from_key,
    kind_name,
    to_key,
    to_rego,
)

__all__ = ["MAX_COPIED", "MAX_DEPTH", "EditTree", "Path"]

MAX_COPIED: Final = 1_000_000
"""The most items that the copies of one patch may add; more is a LimitError. A text counts as one
item more for each `TEXT_OF_ITEM` characters.
"""

MAX_DEPTH: Final = 500
"""The most levels of nesting of an inserted value, those of its path included; more is a
LimitError.
"""

TEXT_OF_ITEM: Final = 64
_INDEX: Final = re.compile(r"[+-]?\d+\Z", re.ASCII)

Path: TypeAlias = "list[Value]"


class EditTree:
    """A document that is changed at paths; `value` is the changed document, and the original is not
    modified. `value` raises BuiltinError after the whole document was deleted.
    """

    def __init__(self, context: Context, document: Value) -> None:
        self._context = context
        self._root: _Node | None = _Node(document)
        self._sizes = _Sizes(context)
        self._copied = 0

    @property
    def value(self) -> Value:
        return self.value_at([])

    def value_at(self, path: Path) -> Value:
        """Return the present value at `path`. BuiltinError, in OPA's words, if there is none or the
        whole document was deleted.
        """
        if self._root is None:
            raise BuiltinError("the whole document is removed")
        node = self._root
        for step in path:
            node = node.read(step)
        return node.to_value()

    def insert(self, path: Path, value: Value) -> None:
        """Insert `value` at `path`: in an array before the item there, in an object under the key,
        in a set as the member that the last step must equal, with [] as the whole document.
        BuiltinError if the parent does not exist, is a scalar, or has no such index, if the last
        step into a set does not equal `value`, or if the whole document was removed before;
        LimitError above `MAX_DEPTH` levels.
        """
        depth = self._sizes.of(value)[1] if isinstance(value, _CONTAINERS) else 0
        if len(path) + depth > MAX_DEPTH:
            raise LimitError(f"the patched document is nested more than {MAX_DEPTH} deep")
        if path:
            self._open(path[:-1], "insert").insert(path[-1], value)
        else:
            self._root = _Node(value)

    def copy(self, source: Path, path: Path) -> None:
        """Insert the value at `source` also at `path`. Its items count against the evaluation's
        `max_items`. BuiltinError if there is no value at `source` or none can be inserted at
        `path`; LimitError above `MAX_COPIED` items in all copies, `max_items`, or `MAX_DEPTH`
        levels.
        """
        value = self.value_at(source)
        items, _ = self._sizes.of(value)
        self._copied += items
        if self._copied > MAX_COPIED:
            raise LimitError(f"the `copy` operations copy more than {MAX_COPIED} items")
        # The copy shares its parts with the source: the engine would count it as one item.
        self._context.charge(items)
        self.insert(path, value)

    def delete(self, path: Path) -> None:
        """Remove the value at `path`, or with [] the whole document, without which `value` is an
        error. BuiltinError, in OPA's words, if there is none.
        """
        if path:
            self._open(path[:-1], "delete").delete(path[-1])
            return
        if self._root is None:
            raise BuiltinError("deleted node encountered during delete operation")
        self._root = None

    def _open(self, path: Path, operation: str) -> _Node:
        """Return the node at `path`, and forget the computed values of it and all above it, since
        it is about to change. BuiltinError, naming `operation`, if the whole document was removed
        before; also if a step of `path` leads to nothing.
        """
        node = self._root
        if node is None:
            raise BuiltinError(f"deleted node encountered during {operation} operation")
        node.fresh = None
        for step in path:
            node = node.open(step)
            node.fresh = None
        return node


class _Sizes:
    """Measures the items and the depth of values. Each container is measured once, also if several
    values share it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[int, tuple[Value, tuple[int, int]]] = {}

    def of(self, value: Value) -> tuple[int, int]:
        """Return the number of items in `value`, itself included, and its depth: `[1, [2]]` has 4
        items and depth 2. A long text counts as several items. Checks the deadline on the way.
        """
        waiting = [value]
        checks = self._context.checked_iter(repeat(None), 256)
        while waiting:
            container = waiting[-1]
            unknown = [part for part in _parts(container) if not self._is_known(part)]
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            if isinstance(container, _CONTAINERS):
                next(checks)
                # The value is kept beside its size, so that its identity stays its own.
                self._known[id(container)] = container, self._sum(container)
        return self._size(value)

    def _is_known(self, value: Value) -> bool:
        return not isinstance(value, _CONTAINERS) or id(value) in self._known

    def _size(self, value: Value) -> tuple[int, int]:
        """The number of items and the depth of a value whose parts are already measured. A text
        counts as one more item for each `TEXT_OF_ITEM` characters.
        """
        if isinstance(value, _CONTAINERS):
            return self._known[id(value)][1]
        return 1 + (len(value) // TEXT_OF_ITEM if isinstance(value, str) else 0), 0

    def _sum(self, container: Value) -> tuple[int, int]:
        sizes = [self._size(part) for part in _parts(container)]
        return 1 + sum(size for size, _ in sizes), 1 + max((depth for _, depth in sizes), default=0)


_CONTAINERS: Final = (list, dict, frozenset)


def _parts(value: Value) -> list[Value]:
    """Return the items of a list (the list itself) or set, or the keys and then the values of an
    object; [] for other values.
    """
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [*map(from_key, value), *value.values()]
    return [*map(from_key, value)] if isinstance(value, frozenset) else []


class _Node:
    """A value on the path of edits. `original` is the value before; `parts` are the parts of a
    container by now, None for unchanged ones; `gone` are the deleted keys, each with the kind of
    its value; `fresh` is the value after the edits, if it has been computed.
    """

    __slots__ = ("fresh", "gone", "has_nodes", "original", "parts")

    def __init__(self, value: Value) -> None:
        self.original = value
        self.parts: Any = None
        self.has_nodes = False
        """True if a part may be a node, since something below was edited."""
        self.gone: dict[Key, str] = {}
        self.fresh: tuple[Value] | None = (value,)

    def to_value(self) -> Value:
        """Return the value after the edits of this node and those below, computed again only if
        something changed since; it must not be modified.
        """
        if self.fresh is None:
            self.fresh = (self._render(),)
        return self.fresh[0]

    def _render(self) -> Value:
        """Return the value after the edits of this node, which must have parts, and of the nodes
        below; the parts themselves are not changed. Members of a set that became equal are one.
        """
        parts = self.parts.copy()
        if self.has_nodes:
            items = enumerate(parts) if isinstance(parts, list) else self.parts.items()
            for position, part in items:
                if type(part) is _Node:
                    parts[position] = part.to_value()
        return frozenset(map(to_key, parts.values())) if self._is_set() else parts

    def _is_set(self) -> bool:
        return isinstance(self.original, frozenset)

    def _unfold(self) -> None:
        """Copy the container's items into `parts`, of a set by its members, so that they can be
        changed; do nothing if that was done, or for a scalar.
        """
        if self.parts is not None:
            return
        if isinstance(self.original, (list, dict)):
            self.parts = self.original.copy()
        elif isinstance(self.original, frozenset):
            self.parts = {key: from_key(key) for key in self.original}

    def _settle(self, step: Value) -> None:
        """Rebuild a set with its changed members, so that they are found by their new values. As in
        OPA, this happens at the next path through the set whose step is an array, object or set.
        """
        if self.parts is None or not isinstance(step, _CONTAINERS):
            return
        if not isinstance(self.original, frozenset):
            return
        if self.has_nodes or self.gone or len(self.parts) != len(self.original):
            self.original, self.parts = self._render(), None
            self.has_nodes, self.gone, self.fresh = False, {}, None

    def read(self, step: Value) -> _Node:
        """Return the child at `step` for reading: its node if it was opened for edits, otherwise a
        new node that is not attached, so it must not be changed. A changed set is first rebuilt if
        `step` is a container. BuiltinError if there is no such child, or if this is not a
        container.
        """
        self._settle(step)
        if self.parts is None and self._is_set():
            self._unfold()
        parts: Any = self.original if self.parts is None else self.parts
        key: Any = _index(step, len(parts)) if isinstance(parts, list) else to_key(step)
        if isinstance(parts, list):
            is_there = 0 <= key < len(parts)
        else:
            is_there = isinstance(parts, dict) and key in parts
        if not is_there:
            self._refuse(step, key)
        part = parts[key]
        return part if type(part) is _Node else _Node(part)

    def open(self, step: Value) -> _Node:
        """Return the child at `step` as a node whose changes become part of this one; BuiltinError
        if there is none. A scalar cannot be changed, so its node is not connected.
        """
        node = self.read(step)
        if isinstance(node.original, _CONTAINERS):
            self._unfold()
            key = _index(step, len(self.parts)) if type(self.parts) is list else to_key(step)
            self.parts[key] = node
            self.has_nodes = True
        return node

    def _refuse(self, step: Value, key: Any) -> NoReturn:
        """Raise the BuiltinError, in OPA's words, for a `step` that leads to nothing: this is not a
        container, the child was deleted before, or there is none. `key` is the index or key that
        `step` stands for; the message shows the container as it was before the edits.
        """
        if not isinstance(self.original, _CONTAINERS):
            raise BuiltinError(
                f"expected composite type for path {to_rego(step)}, found {_scalar(self.original)}"
            )
        if isinstance(self.original, list):
            step = key
        elif key in self.gone:
            raise BuiltinError(
                f"cannot unfold the already deleted {self.gone[key]} node for key {to_rego(step)}"
            )
        kind = kind_name(self.original)
        # OPA shows a step into a set as the beginning of a reference.
        step_text = step if self._is_set() and isinstance(step, str) else to_rego(step)
        raise BuiltinError(
            f"path {step_text} does not exist in {kind} term {to_rego(self.original)}"
        )

    def insert(self, step: Value, value: Value) -> None:
        """Insert `value` before the index, or under the key, `step`, where it replaces what an
        object has. BuiltinError for an index that is invalid or out of range (the length itself
        appends), for a value of a set that does not equal `step`, or in a scalar.
        """
        self._settle(step)
        self._unfold()
        if isinstance(self.parts, list):
            index = _index(step, len(self.parts))
            if not 0 <= index <= len(self.parts):
                raise BuiltinError("index for array insertion out of bounds")
            self.parts.insert(index, value)
            return
        if self._is_set() and not equal(step, value):
            raise BuiltinError(
                f"set key {to_rego(step)} does not equal value to be inserted {to_rego(value)}"
            )
        if self.parts is None:
            raise BuiltinError(f"expected composite type, found {_scalar(self.original)}")
        key = to_key(step)
        self.gone.pop(key, None)
        self.parts[key] = value

    def delete(self, step: Value) -> None:
        """Remove the child at `step`; items of an array behind it move up. In an object or set, the
        kind of the child is stored in `gone` for later errors. A changed set is first rebuilt if
        `step` is a container. BuiltinError, in OPA's words, if there is no such child or this is
        not a container.
        """
        self._settle(step)
        self._unfold()
        key = to_key(step)
        if isinstance(self.parts, list):
            index = _index(step, len(self.parts))
            if not 0 <= index < len(self.parts):
                raise BuiltinError("index for array delete out of bounds")
            del self.parts[index]
        elif self.parts is None:
            raise BuiltinError(f"expected composite type, found {_scalar(self.original)}")
        elif key not in self.parts:
            raise BuiltinError(f"cannot delete child key {to_rego(step)} that does not exist")
        else:
            part = self.parts.pop(key)
            is_composite = isinstance(part, _COMPOSITES)
            # OPA's error for a later step through this key names the kind of what was there.
            self.gone[key] = "composite" if is_composite else "scalar"


def _scalar(value: Value) -> str:
    return f"value: {to_rego(value)} (type: ast.{kind_name(value).capitalize()})"


def _index(step: Value, length: int) -> int:
    """The index of an array that a path step means: `-` is `length`, one past the end. The index
    may be out of range. BuiltinError for a step that is neither an integer nor its decimal text
    without leading zeros.
    """
    if isinstance(step, str):
        if step == "-":
            return length
        if not _INDEX.match(step):
            raise BuiltinError("invalid string for indexing")
        if step != "0" and step.startswith("0"):
            raise BuiltinError("leading zeros are not allowed in JSON paths")
        # A longer one is out of range in any case.
        return int(step) if len(step) < 20 else length + 1
    if type(step) in CLASSES:
        index = integer_of(step)  # type: ignore[arg-type] # a number by now
        if index is None:
            raise BuiltinError("invalid number type for indexing")
        return index
    raise BuiltinError("invalid type for indexing")


_COMPOSITES: Final = (_Node, *_CONTAINERS)
