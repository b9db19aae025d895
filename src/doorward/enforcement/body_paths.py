"""Paths in the body of a response, and the values that they reach.

    ["items", "*", "ssn"]        `*` is any key or index

What is missing, or null, is not reached. A path that goes on below a text or a number, by a key
into an array or by an index into an object does not fit the body, and that is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from doorward.rego import Value

__all__ = ["ANY", "Name", "Path", "PathError", "values_at"]

ANY: Final = "*"
Name: TypeAlias = "str | int"
Path: TypeAlias = tuple[Name, ...]


class PathError(Exception):
    """A path is malformed, or does not fit the body."""


def values_at(body: Value, path: Path) -> Iterator[tuple[Path, Value]]:
    """Yield pairs of path and value for each value that a path with wildcards reaches; none if it
    is missing.

    Raise PathError before the first one if the path does not fit the body.
    """
    reached: list[tuple[Path, Value]] = [((), body)]
    for name in path:
        reached = [inner for each in reached for inner in _below(*each, name)]
    yield from reached


def _below(path: Path, value: Value, name: Name) -> Iterator[tuple[Path, Value]]:
    """Yield pairs of path and value for the members of `value` that `name` selects, `*` all of
    them; none if `value` is null or has no such member. `path` is that of `value`.

    Raise PathError for a name of the wrong kind: a key into an array, an index into an object, or
    anything into a value without members.
    """
    if value is None:
        return
    if isinstance(value, dict) and isinstance(name, str):
        members: Mapping[Any, Value] = value if name == ANY else {}
        if name != ANY and name in value:
            members = {name: value[name]}
    elif isinstance(value, list) and (isinstance(name, int) or name == ANY):
        if name == ANY:
            members = dict(enumerate(value))
        else:
            members = {name: value[name]} if isinstance(name, int) and name < len(value) else {}
    else:
        raise PathError("a path does not fit the response body")
    for key, member in members.items():
        yield (*path, key), member
