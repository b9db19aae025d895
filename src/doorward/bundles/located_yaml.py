"""YAML text becomes values that know their lines: for configuration, and for lint.

Sizes are bounded, aliases included. What the keys mean is not known here. Policies and data are
read by `rego.golang.yaml`, as Go reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from doorward.base.records import record
from doorward.rego.golang import compose_yaml

__all__ = ["Located", "LocatedError", "read_documents"]

MAX_NODES: Final = 200_000
MAX_DEPTH: Final = 60


class LocatedError(Exception):
    """Text that is not valid YAML or exceeds a limit; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@record
class Located:
    """A value with its line. Mappings contain `Located` values by key, and lists `Located`
    items.
    """

    value: Any
    line: int
    text_line: int = 0
    """The line of the text itself; for a block (`|` or `>`) this is the line below the key's."""

    @property
    def scalar(self) -> Any:
        """The value, which can be in a set; None for a mapping or a list."""
        return None if isinstance(self.value, dict | list) else self.value

    def get(self, *keys: str | int) -> Located:
        """Return the value at nested keys and indexes; if it is missing, a `Located` None with the
        line of the nearest parent.
        """
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
        """Return the items of a list; [] for any other value."""
        return self.value if isinstance(self.value, list) else []

    def fields(self) -> dict[str, Located]:
        """Return the fields of a mapping; {} for any other value."""
        return self.value if isinstance(self.value, dict) else {}

    def plain(self) -> Any:
        """Return the value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value

    def walk(self) -> Iterator[Located]:
        """Yield this value and all values below it, depth first."""
        yield self
        for item in [*self.fields().values(), *self.items()]:
            yield from item.walk()


def read_documents(
    text: str, offset: int = 0, *, scalar: Callable[[yaml.ScalarNode], Any] | None = None
) -> list[Located]:
    """Return the documents of a YAML text, [] if it is empty; its first line is line `offset + 1`
    of its file. Raise LocatedError if it is not valid, too large or too deep, or repeats a key.

    `scalar` converts each scalar node; the default follows YAML 1.1.
    """
    try:
        # Nodes, not values: only a node knows its line.
        nodes = compose_yaml(text)
        reader = _Reader(offset, scalar or yaml.SafeLoader("").construct_object)
        return [reader.read(node, 0) for node in nodes]
    except yaml.MarkedYAMLError as error:
        # The end of a text without a final line break counts as the line below it.
        line = min(error.problem_mark.line, text.count("\n")) if error.problem_mark else 0
        raise LocatedError(_message_of(error), offset + line + 1) from None
    except (yaml.YAMLError, ValueError) as error:
        raise LocatedError(str(error).partition("\n")[0], offset + 1) from None
    except RecursionError:
        raise LocatedError("the YAML is nested too deeply", offset + 1) from None


def _message_of(error: yaml.MarkedYAMLError) -> str:
    """Return PyYAML's message; for a repeated anchor, of which PyYAML says only "second
    occurrence", a clearer one.
    """
    if error.problem == "second occurrence":
        return "an anchor of this name is already defined"
    return str(error.problem)


class _Reader:
    """Converts YAML nodes to `Located` values, at most `MAX_NODES` of them."""

    def __init__(self, offset: int, scalar: Callable[[yaml.ScalarNode], Any]) -> None:
        self._offset = offset
        self._left = MAX_NODES
        self._scalar = scalar

    def read(self, node: yaml.Node, depth: int, key_line: int | None = None) -> Located:
        """Convert a node and all below it, and count them. The line of the result is `key_line`,
        that of its key, or without one the line of the node. Raise `LocatedError` if this reader
        has read more than `MAX_NODES` nodes, with aliases expanded, or the tree is too deep.
        """
        line = self._offset + node.start_mark.line + 1 if key_line is None else key_line
        self._left -= 1  # aliases are followed, so that a small file can be a large tree
        if depth > MAX_DEPTH:
            raise LocatedError(f"the YAML is nested deeper than {MAX_DEPTH} levels", line)
        if self._left < 0:
            raise LocatedError(
                f"the YAML has more than {MAX_NODES} values with its aliases expanded", line
            )
        match node:
            case yaml.MappingNode():
                return Located(self._fields(node, depth), line)
            case yaml.SequenceNode():
                return Located([self.read(item, depth + 1) for item in node.value], line)
            case _:
                assert isinstance(node, yaml.ScalarNode)
                return Located(self._scalar(node), line, line + (node.style in ("|", ">")))

    def _fields(self, node: yaml.MappingNode, depth: int) -> dict[str, Located]:
        """Return the fields of a mapping, each with the line of its key; a scalar of any type is a
        key by its text. `depth` is the depth of the mapping. Raise `LocatedError` for a repeated
        key, for one that is not a scalar, and for a value that `read` refuses.
        """
        fields: dict[str, Located] = {}
        for key, item in node.value:
            line = self._offset + key.start_mark.line + 1
            # JSON has only strings as keys, and configuration is what JSON can express.
            if not isinstance(key, yaml.ScalarNode):
                raise LocatedError("a key of a YAML mapping must be a string", line)
            if key.value in fields:
                raise LocatedError(f"the key `{key.value}` is repeated", line)
            fields[key.value] = self.read(item, depth + 1, line)
        return fields
