"""YAML text becomes values that know their lines.

Sizes are bounded, aliases included. What the keys mean is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

__all__ = ["Located", "LocatedError", "read_documents"]

_NODES: Final = 200_000
_DEPTH: Final = 60


class LocatedError(Exception):
    """Text that is no YAML, or too much of it."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Located:
    """A value and its line: mappings hold `Located` by key, lists hold them in order."""

    value: Any
    line: int
    text_line: int = 0
    """Of a block of text, the line of its first one."""

    def get(self, *keys: str | int) -> Located:
        """What is below; something empty, at the nearest line, where nothing is."""
        node = self
        for key in keys:
            match node.value, key:
                case dict() as mapping, str() if key in mapping:
                    node = mapping[key]
                case list() as items, int() if key < len(items):
                    node = items[key]
                case _:
                    return Located(None, node.line)
        return node

    def items(self) -> list[Located]:
        """The items of a list; none where it is none."""
        return self.value if isinstance(self.value, list) else []

    def fields(self) -> dict[str, Located]:
        """The fields of a mapping; none where it is none."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value

    def walk(self) -> Iterator[Located]:
        """This and everything below."""
        yield self
        for item in [*self.fields().values(), *self.items()]:
            yield from item.walk()


def read_documents(text: str, offset: int = 0) -> list[Located]:
    """The documents of a text, whose first line is line `offset + 1` of its file."""
    try:
        nodes = list(yaml.compose_all(text, yaml.SafeLoader))
        reader = _Reader(offset)
        return [reader.read(node, 0) for node in nodes]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise LocatedError(str(error.problem), offset + line + 1) from None
    except (yaml.YAMLError, ValueError) as error:
        raise LocatedError(str(error).partition("\n")[0], offset + 1) from None
    except RecursionError:
        raise LocatedError("too deep", offset + 1) from None


class _Reader:
    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._left = _NODES
        self._scalars = yaml.SafeLoader("")

    def read(self, node: yaml.Node, depth: int, key_line: int | None = None) -> Located:
        line = self._offset + node.start_mark.line + 1 if key_line is None else key_line
        self._left -= 1
        if self._left < 0 or depth > _DEPTH:
            raise LocatedError("too large", line)
        match node:
            case yaml.MappingNode():
                return Located(dict(self._fields(node, depth)), line)
            case yaml.SequenceNode():
                return Located([self.read(item, depth + 1) for item in node.value], line)
            case _:
                value = self._scalars.construct_object(node)
                return Located(
                    value, line, line + 1 if getattr(node, "style", "") in ("|", ">") else line
                )

    def _fields(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, Located]]:
        for key, item in node.value:
            line = self._offset + key.start_mark.line + 1
            yield str(getattr(key, "value", "")), self.read(item, depth + 1, line)
