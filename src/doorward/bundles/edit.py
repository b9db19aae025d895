"""Changes of base data: each copies the containers on its path and shares the rest.

Documents that readers hold never change. A container that an edit has copied belongs to it, and its
next operation does not copy it again: a patch of a thousand operations on one list copies the list
once.
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

# What Go's `strconv.Atoi` reads. No array has an index of more digits, and `int` raises ValueError
# for some thousand of them.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}\Z", re.ASCII)


class StorageError(Exception):
    """A change of data that is not possible; `code` and message are OPA's."""

    code = "storage_internal_error"

    def __str__(self) -> str:
        return f"{self.code}: {self.args[0]}"


class PathNotFoundError(StorageError):
    """Nothing is at the path, or an array index is not valid."""

    code = "storage_not_found_error"

    def __init__(self, path: Sequence[str], why: str = "document does not exist") -> None:
        super().__init__(f"{path_text(path)}: {why}")


class WriteConflictError(StorageError):
    """A parent on the path exists and is not an object."""

    code = "storage_write_conflict_error"

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__(path_text(path))


class InvalidPatchError(StorageError):
    """An operation that is not possible at its path, such as the removal of the root."""

    code = "storage_invalid_patch_error"


class Operation(NamedTuple):
    """One operation of a patch, at a path below `data`."""

    operator: Operator
    path: Path
    value: Value = None


def path_text(path: Sequence[str]) -> str:
    """Return a path as OPA writes it: `("a", "b/c")` -> `/a/b%2Fc`, and `/` for ()."""
    return "".join("/" + quote(name, safe="$&+=:@~") for name in path) or "/"


class Edit:
    """A sequence of changes to a document. `document` is the changed copy; the original never
    changes. Not thread-safe.
    """

    def __init__(self, document: dict[Key, Value]) -> None:
        self.document = document
        self._own: dict[int, object] = {}
        """The containers that this edit has copied, by identity. The reference keeps them alive, so
        that no other object gets the same identity.
        """

    def read(self, path: Path) -> Value | Undefined:
        """Return the value at `path`; UNDEFINED if there is none. Raise PathNotFoundError for an
        array index that is not valid or out of range.
        """
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
        """Apply one operation of a patch; raise `StorageError` if that is impossible. The value
        itself is not copied.
        """
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
        """Create objects at the missing parents of `path`; raise WriteConflictError if the nearest
        existing parent is not an object.
        """
        here: Any = self.document
        for length, name in enumerate(path[:-1]):
            inner = _member(here, name)
            if isinstance(inner, Undefined):
                if not isinstance(here, dict):
                    raise WriteConflictError(path[:length])
                # All at once: by one operation for each, long paths would take quadratic time.
                new: dict[Key, Value] = {}
                for below in reversed(path[length + 1 : -1]):
                    new = {below: new}
                self.apply(Operation("add", path[: length + 1], new))
                return
            here = inner
        if not isinstance(here, dict):
            raise WriteConflictError(path[:-1])

    def is_missing(self, path: Path) -> bool:
        """Return True if there is nothing at `path`, also for an invalid array index."""
        return self.get(path) is UNDEFINED

    def get(self, path: Path) -> Value | Undefined:
        """Return the value at `path`; UNDEFINED if there is none, also for an invalid array
        index.
        """
        try:
            return self.read(path)
        except PathNotFoundError:
            return UNDEFINED

    def _set_root(self, operator: Operator, value: Value) -> None:
        """Apply an operation on the root: replace the whole document by `value`, for any operator
        but `remove`. Raise InvalidPatchError for `remove`, or if the value is not an object.
        """
        if operator == "remove":
            raise InvalidPatchError("root cannot be removed")
        if not isinstance(value, dict):
            raise InvalidPatchError("root must be object")
        self.document = value

    def _open(self, path: Path) -> dict[Key, Value] | list[Value]:
        """Return the container of the last name of `path`. It and all containers on the way to it,
        from `self.document` on, are replaced by copies that may be changed. Raise PathNotFoundError
        if it does not exist, or is neither an object nor an array.
        """
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
        """Return a copy of a container; one that this edit has copied before is returned
        unchanged.
        """
        if id(container) in self._own:
            return container
        copied = container.copy()
        # The value keeps the copy alive, so that no other object gets the same id.
        self._own[id(copied)] = copied
        return copied


def _change_object(container: dict[Key, Value], operation: Operation) -> None:
    """Apply an operation to a key of an object. `add` sets the key, whether it exists or not;
    `replace` and `remove` raise PathNotFoundError if it is missing.
    """
    operator, path, value = operation
    # RFC 6902, 4.1: `add` replaces the value of an existing key.
    if operator != "add" and path[-1] not in container:
        raise PathNotFoundError(path)
    if operator == "remove":
        del container[path[-1]]
    else:
        container[path[-1]] = value


def _change_array(container: list[Value], operation: Operation) -> None:
    """Apply an operation to an index of an array. `add` inserts before the index; the index `-`, or
    one equal to the length, appends. Raise InvalidPatchError for another operator at the end of the
    array, and PathNotFoundError for an index that is not a number or beyond the end.
    """
    operator, path, value = operation
    # RFC 6902, 4.1, and RFC 6901, 4: `-` is the member after the last one.
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


def _member(value: Any, name: str) -> Value | Undefined:
    """Return the value under `name` in an object or array; UNDEFINED if there is none."""
    if isinstance(value, list):
        try:
            member: Value = value[_index(name, value, ())]
        except PathNotFoundError:
            return UNDEFINED
        return member
    return value.get(name, UNDEFINED) if isinstance(value, dict) else UNDEFINED


def _index(name: str, items: Sequence[Value], path: Path) -> int:
    """Return the array index `name`; raise `PathNotFoundError` if it is not an integer or out of
    range.
    """
    if not _INTEGER.match(name):
        raise PathNotFoundError(path, "array index must be integer")
    index = int(name)
    if not 0 <= index < len(items):
        raise PathNotFoundError(path, "array index out of range")
    return index


def rebase(current: Value, before: Value | Undefined, after: Value) -> Value:
    """Merge two changes of the same value `before`: return `after`, the result of one, with the
    object keys that the other change, which gave `current`, has added. If both set a key, `after`
    wins; other changes in `current`, such as removed keys, are lost.

    Data that was not changed is recognised by identity, however large it is.
    """
    if current is before or not (isinstance(current, dict) and isinstance(after, dict)):
        return after
    old = before if isinstance(before, dict) else {}
    merged = {
        key: rebase(current[key], old.get(key, UNDEFINED), value) if key in current else value
        for key, value in after.items()
    }
    # A key of `before` that `after` lacks was removed by that change, and stays removed.
    return {key: each for key, each in current.items() if key not in old} | merged
