"""Changes of base data: each copies the containers on its path, and shares the rest.

What readers hold never changes. A container that one edit has copied belongs to it, and is not
copied again by its next operation: a patch of a thousand operations on one list copies that once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from doorward.rego import UNDEFINED, Undefined, Value
from doorward.rego.shared import Key

__all__ = [
    "OPERATORS",
    "Edit",
    "InvalidPatchError",
    "Operation",
    "Operator",
    "PathNotFoundError",
    "StorageError",
    "WriteConflictError",
    "path_text",
    "rebase",
]

Path: TypeAlias = tuple[str, ...]
Operator: TypeAlias = Literal["add", "remove", "replace"]

OPERATORS: Final[Mapping[str, Operator]] = {"add": "add", "remove": "remove", "replace": "replace"}

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII)


class StorageError(Exception):
    """A change that cannot be made, in OPA's words."""

    code = "storage_internal_error"

    def __str__(self) -> str:
        return f"{self.code}: {self.args[0]}"


class PathNotFoundError(StorageError):
    """There is nothing at a path."""

    code = "storage_not_found_error"

    def __init__(self, path: Sequence[str], why: str = "document does not exist") -> None:
        super().__init__(f"{path_text(path)}: {why}")


class WriteConflictError(StorageError):
    """A part of the path is not an object."""

    code = "storage_write_conflict_error"

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__(path_text(path))


class InvalidPatchError(StorageError):
    """An operation that means nothing where it is."""

    code = "storage_invalid_patch_error"


class Operation(NamedTuple):
    """One operation of a patch, at a path below `data`."""

    operator: Operator
    path: Path
    value: Value = None


def path_text(path: Sequence[str]) -> str:
    """`/a/b%2Fc`, as OPA writes a path."""
    return "".join("/" + quote(name, safe="$&+=:@~") for name in path) or "/"


class Edit:
    """A change in the making; `document` is what has come of it. For one thread."""

    def __init__(self, document: dict[Key, Value]) -> None:
        self.document = document
        self._own: dict[int, object] = {}
        """The containers made here, by identity; that keeps identities from being used again."""

    def read(self, path: Path) -> Value | Undefined:
        """Return the value at `path`, or UNDEFINED. PathNotFoundError for an index that is not
        valid."""
        here: Any = self.document
        for name in path:
            if isinstance(here, dict):
                here = here.get(name, UNDEFINED)
            elif isinstance(here, list):
                index = _index(name, here, path)
                here = here[index]
            else:
                return UNDEFINED
            if here is UNDEFINED:
                break
        value: Value | Undefined = here
        return value

    def apply(self, operation: Operation) -> None:
        """Apply one operation of a patch; raise `StorageError` if that is impossible."""
        operator, path, value = operation
        if not path:
            self._set_root(operator, value)
            return
        container = self._open(path)
        if isinstance(container, dict):
            _change_object(container, operation)
        else:
            _change_array(container, operation)

    def make_parents(self, path: Path) -> None:
        """Create objects at the parents of `path` that do not exist."""
        parents = path[:-1]
        there = len(parents)
        while there and self.is_missing(parents[:there]):
            there -= 1
        if not isinstance(self.read(parents[:there]), dict):
            raise WriteConflictError(parents[:there])
        for length in range(there + 1, len(parents) + 1):
            self.apply(Operation("add", parents[:length], {}))

    def is_missing(self, path: Path) -> bool:
        """Return True if there is nothing at `path`."""
        try:
            return self.read(path) is UNDEFINED
        except PathNotFoundError:
            return True

    def _set_root(self, operator: Operator, value: Value) -> None:
        """Replace the whole document, which must be an object."""
        if operator == "remove":
            raise InvalidPatchError("root cannot be removed")
        if not isinstance(value, dict):
            raise InvalidPatchError("root must be object")
        self.document = value

    def _open(self, path: Path) -> dict[Key, Value] | list[Value]:
        """The container of the last name of `path`, which may be changed."""
        here: Any = self._copy(self.document)
        self.document = here
        for name in path[:-1]:
            key: Any = name
            if isinstance(here, list):
                key = _index(name, here, path)
            elif name not in here:
                raise PathNotFoundError(path)
            inner = here[key]
            if not isinstance(inner, (dict, list)):
                raise PathNotFoundError(path)
            here[key] = inner = self._copy(inner)
            here = inner
        opened: dict[Key, Value] | list[Value] = here
        return opened

    def _copy(self, container: Any) -> Any:
        """Return a copy to be changed; a container copied before is returned as it is."""
        if id(container) in self._own:
            return container
        copied = container.copy()
        # The value keeps the copy alive, so that no other object gets the same id.
        self._own[id(copied)] = copied
        return copied


def _change_object(container: dict[Key, Value], operation: Operation) -> None:
    """Apply an operation to a key of an object; only `add` may create it."""
    operator, path, value = operation
    if operator != "add" and path[-1] not in container:
        raise PathNotFoundError(path)
    if operator == "remove":
        del container[path[-1]]
    else:
        container[path[-1]] = value


def _change_array(container: list[Value], operation: Operation) -> None:
    """Apply an operation to an index of an array; `-` is the end. `add` inserts."""
    operator, path, value = operation
    if path[-1] in ("-", str(len(container))):
        if operator != "add":
            raise InvalidPatchError(f"{path_text(path)}: invalid patch path")
        container.append(value)
        return
    index = _index(path[-1], container, path)
    if operator == "add":
        container.insert(index, value)
    elif operator == "remove":
        del container[index]
    else:
        container[index] = value


def _index(name: str, items: Sequence[Value], path: Path) -> int:
    """Parse an array index; raise `PathNotFoundError` if it is not one or out of range."""
    if not _INTEGER.match(name):
        raise PathNotFoundError(path, "array index must be integer")
    index = int(name)
    if not 0 <= index < len(items):
        raise PathNotFoundError(path, "array index out of range")
    return index


def rebase(current: Value, before: Value | Undefined, after: Value) -> Value:
    """`after`, which replaces `before`, with what `current` has added to `before`.

    What was not changed meanwhile is one comparison, however large it is.
    """
    if current is before or not (isinstance(current, dict) and isinstance(after, dict)):
        return after
    old = before if isinstance(before, dict) else {}
    merged = {
        key: rebase(current[key], old.get(key, UNDEFINED), value) if key in current else value
        for key, value in after.items()
    }
    return {key: each for key, each in current.items() if key not in old} | merged
