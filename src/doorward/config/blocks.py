"""Mappings of a configuration that know the line of each of their keys.

`yaml_block` reads them from YAML. The meaning of the keys is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeVar

from doorward.base.records import record
from doorward.rego.tools import near_name

__all__ = ["Block", "ConfigError", "kind_of", "overlaid"]

T = TypeVar("T")


class ConfigError(Exception):
    """A configuration that cannot be used; the message names the file and the line."""


@record
class Block:
    """One mapping of the file: its values, and the line of each key for error messages."""

    values: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    file: str = ""
    path: str = ""
    warnings: tuple[str, ...] = ()
    """Warnings of the topmost block about environment variables that are not set."""

    @classmethod
    def of(cls, values: Mapping[str, object], path: str = "") -> Block:
        """Convert plain nested mappings to blocks; they have no lines."""
        below = f"{path}." if path else ""
        return cls(
            {
                key: cls.of(value, below + key) if isinstance(value, Mapping) else value
                for key, value in values.items()
            },
            path=path,
        )

    def location(self, key: str) -> str:
        """Return where `key` is, for messages: `file:line: path.key`, without the file or line if
        it is not known. The key need not exist in the block.
        """
        line = self.lines.get(key)
        where = f"{self.file}:{line}: " if line else f"{self.file}: " if self.file else ""
        return where + (f"{self.path}.{key}" if self.path else key)

    def block(self, key: str) -> Block:
        """Return the block at `key`, a single key without dots. If it is absent or null, return an
        empty block with its path. Raise ConfigError if the value is not an object.
        """
        value = self.values.get(key)
        if value is None:
            return Block(file=self.file, path=f"{self.path}.{key}" if self.path else key)
        if not isinstance(value, Block):
            raise ConfigError(f"{self.location(key)} must be an object but is {kind_of(value)}")
        return value

    def get(self, key: str, kind: type[T], default: T) -> T:
        """Return the value at `key`; `default` if it is absent or null. An integer counts as a
        float. Raise ConfigError for a value of another type.
        """
        value = self.values.get(key)
        if value is None:
            return default
        # YAML's `5` is meant as `5.0`; `true`, which is an `int` in Python, is not.
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(
                f"{self.location(key)} must be {_KINDS[kind]} but is {kind_of(value)}"
            )
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """Return the list of strings at `key`; () if it is absent or null. Raise ConfigError for
        any other value.
        """
        value = self.get(key, list, [])
        for item in value:
            if not isinstance(item, str):
                raise ConfigError(f"{self.location(key)} must be a list of strings")
        return tuple(value)

    def unknown(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return a warning for each key that is not in `known`, with its location and the most
        similar known key.
        """
        others = [key for key in self.values if key not in known]
        return tuple(
            f"{self.location(key)}: unknown key, ignored{_hint(key, known)}" for key in others
        )

    def plain(self) -> dict[str, Any]:
        """Return the mapping and all blocks below it as plain dicts."""
        return {key: _plain(value) for key, value in self.values.items()}


def _hint(key: str, known: Sequence[str]) -> str:
    """Return a hint with the most similar known key: `: did you mean …?`; "" if none is similar."""
    close = near_name(key, known)
    return "" if close is None else f": did you mean `{close}`?"


def overlaid(below: Block, above: Block) -> Block:
    """Merge two blocks and the mappings nested in them; keep the warnings of both.

    If both have a value under a name, the one in `above` wins.
    """
    values, lines = dict(below.values), dict(below.lines)
    for key, value in above.values.items():
        inner = values.get(key)
        if isinstance(inner, Block) and isinstance(value, Block):
            value = overlaid(inner, value)
        values[key] = value
        if key in above.lines:
            lines[key] = above.lines[key]
    warnings = tuple(dict.fromkeys(below.warnings + above.warnings))
    return Block(values, lines, above.file or below.file, above.path, warnings)


_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
}


def kind_of(value: object) -> str:
    """Return the JSON type of a value for a message, with its article: `an object`."""
    if value is None:
        return "null"
    if isinstance(value, Block):
        return "an object"
    return _KINDS.get(type(value), "something else")


def _plain(value: Any) -> Any:
    """Return a value with plain dicts and lists in place of `Block`s, at any depth."""
    if isinstance(value, Block):
        return value.plain()
    return [_plain(item) for item in value] if isinstance(value, list) else value
