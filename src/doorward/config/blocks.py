"""Mappings of a configuration that can say where each of their keys stands.

What reads them from YAML is `yaml_block`; what the keys mean is not known here.
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
    """Of the top: the environment variables in it that are not set."""

    @classmethod
    def of(cls, values: Mapping[str, object], path: str = "") -> Block:
        """Return plain values as a block without lines."""
        below = f"{path}." if path else ""
        return cls(
            {
                key: cls.of(value, below + key) if isinstance(value, Mapping) else value
                for key, value in values.items()
            },
            path=path,
        )

    def location(self, key: str) -> str:
        """The location of a key for messages, `file:line: path.key`, as far as it is known."""
        line = self.lines.get(key)
        where = f"{self.file}:{line}: " if line else f"{self.file}: " if self.file else ""
        return where + (f"{self.path}.{key}" if self.path else key)

    def block(self, key: str) -> Block:
        """The object at `key`, empty if it is absent; raise `ConfigError` for other values."""
        value = self.values.get(key)
        if value is None:
            return Block(file=self.file, path=f"{self.path}.{key}" if self.path else key)
        if not isinstance(value, Block):
            raise ConfigError(f"{self.location(key)} must be an object but is {kind_of(value)}")
        return value

    def get(self, key: str, kind: type[T], default: T) -> T:
        """The value at `key`, which must be of type `kind`; `default` if it is absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(
                f"{self.location(key)} must be {_KINDS[kind]} but is {kind_of(value)}"
            )
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """The list of strings at `key`; empty if it is absent."""
        value = self.get(key, list, [])
        for item in value:
            if not isinstance(item, str):
                raise ConfigError(f"{self.location(key)} must be a list of strings")
        return tuple(value)

    def increasing(self, key: str) -> tuple[float, ...]:
        """The list of increasing numbers at `key`; empty if it is absent."""
        listed = self.get(key, list, [])
        numbers = [float(each) for each in listed if type(each) in (int, float)]
        if len(numbers) < len(listed) or numbers != sorted(set(numbers)):
            raise ConfigError(f"{self.location(key)} must be numbers that increase")
        return tuple(numbers)

    def unknown(self, known: Sequence[str]) -> tuple[str, ...]:
        """A warning for each key that is not in `known`, with the most similar known key."""
        others = [key for key in self.values if key not in known]
        return tuple(
            f"{self.location(key)}: unknown key, ignored{_hint(key, known)}" for key in others
        )

    def plain(self) -> dict[str, Any]:
        """The mapping and all below it as plain dicts."""
        return {key: _plain(value) for key, value in self.values.items()}


def _hint(key: str, known: Sequence[str]) -> str:
    close = near_name(key, known)
    return "" if close is None else f": did you mean `{close}`?"


def overlaid(below: Block, above: Block) -> Block:
    """Both mappings as one; where both have a value, that of `above` counts."""
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
    """Name the JSON type of a value for a message, with its article: `an object`."""
    if value is None:
        return "null"
    if isinstance(value, Block):
        return "an object"
    return _KINDS.get(type(value), "something else")


def _plain(value: Any) -> Any:
    if isinstance(value, Block):
        return value.plain()
    return [_plain(item) for item in value] if isinstance(value, list) else value
