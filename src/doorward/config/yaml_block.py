"""YAML text, and assignments of a command line, become blocks that know their lines.

`${VAR}` inside a value is replaced by the environment variable. If it is not set, the text stays,
as in OPA, with a warning that names it. In `keys`, `credentials` and `client_secret` this is an
error, since the secret would be a text that everybody knows. The text of a variable remains inside
its value and can never add keys to the file. The type of a value that is not quoted is decided
after the replacement (`port: ${PORT}`).

The meaning of the keys is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from doorward.base.os_errors import describe_os_error
from doorward.bundles.located_yaml import Located, LocatedError, read_documents
from doorward.config.blocks import Block, ConfigError, kind_of

__all__ = ["override", "override_by_file", "read_block"]

_VARIABLE: Final = re.compile(r"\$\{([^}\n]*)\}")
# While the file is parsed, marks stand for the variables: braces mean something to YAML.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")

_KEY: Final = re.compile(r"([^\[\]]+)((?:\[[0-9]{1,3}\])*)")
_INDEX: Final = re.compile(r"\[([0-9]{1,3})\]")
_NEXT: Final = re.compile(r"[\w.\[\]\\-]+=")
_MAX_FILE: Final = 4 << 20
_SECRET: Final = frozenset({"client_secret", "credentials", "keys"})
"""Keys below which a variable that is not set is an error."""


def read_block(text: str, *, file: str, environment: Mapping[str, str]) -> Block:
    """Parse `text` as one mapping; an empty text is an empty one. Raise ConfigError if it is not
    YAML or another value.
    """
    return _Reader(file, environment).top(text)


def override(top: Block, setting: str, *, environment: Mapping[str, str]) -> Block:
    r"""Return `top` with the assignment `a.b=value` applied, or several separated by commas. Raise
    ConfigError if one is not valid.

    `a[0].b` is in a list, `\.` is a dot in a key, `\,` a comma in a value. A value is read as
    YAML, with variables replaced from `environment`; `{a,b}` is a list. The warnings of this are
    added to those of `top`.
    """
    for assignment in _assignments(setting):
        path, equals, text = assignment.partition("=")
        keys = _keys(path)
        if not equals or not keys:
            raise ConfigError(f"--set `{path}`: expected KEY.KEY=VALUE")
        reader = _Reader("--set", environment)
        changed = _put(top, keys, _value_of(text.replace("\\,", ","), path, reader), path)
        top = replace(changed, warnings=(*top.warnings, *reader.warnings))
    return top


def override_by_file(top: Block, setting: str) -> Block:
    """Return `top` with the text of a file at a key; `setting` is `KEY=PATH`. Raise ConfigError if
    it has another form, if the key cannot be set (`_put`), or if the file cannot be read, is not
    UTF-8 or exceeds `_MAX_FILE` characters.
    """
    path, equals, file = setting.partition("=")
    keys = _keys(path)
    if not equals or not keys or not file:
        raise ConfigError(f"--set-file `{setting}`: expected KEY.KEY=FILE")
    try:
        with open(file, encoding="utf-8") as content:
            text = content.read(_MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"--set-file: open {file}: {describe_os_error(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"--set-file: {file}: the file is not UTF-8 at byte {error.start}"
        ) from None
    if len(text) > _MAX_FILE:
        raise ConfigError(f"--set-file: {file}: the file is larger than {_MAX_FILE} characters")
    changed: Block = _put(top, keys, text, path)
    return replace(changed, warnings=top.warnings)


def _assignments(setting: str) -> list[str]:
    """Split `a=1,b=2` -> `a=1`, `b=2`. A comma separates only if a key follows and it is outside of
    brackets.
    """
    parts = [""]
    depth = 0
    for number, character in enumerate(setting):
        depth += (character in "[{") - (character in "]}")
        escaped = number > 0 and setting[number - 1] == "\\"
        if character == "," and depth == 0 and not escaped and _NEXT.match(setting, number + 1):
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _keys(path: str) -> list[str | int]:
    r"""Split a path: `a[0].b` -> `a`, 0, `b`; `\.` is a dot within a key. [] if the path is not
    valid.
    """
    keys: list[str | int] = []
    for part in path.replace("\\.", "\0").split("."):
        match = _KEY.fullmatch(part)
        if match is None:
            return []
        keys.append(match[1].replace("\0", "."))
        keys += [int(index) for index in _INDEX.findall(match[2])]
    return keys


def _value_of(text: str, path: str, reader: _Reader) -> Any:
    """Parse the value of `--set`: a list for `{a,b}`, as in OPA, if it has no `:`; "" for no text;
    else YAML.
    """
    if text.startswith("{") and text.endswith("}") and ":" not in text:
        items = text[1:-1].split(",") if text != "{}" else []
        return [reader.top_value(item, path) for item in items]
    return reader.top_value(text, path) if text else ""


class _Reader:
    """Converts YAML to blocks with lines, and replaces variables; collects warnings."""

    def __init__(self, file: str, environment: Mapping[str, str]) -> None:
        self.file = file
        self.environment = environment
        self.warnings: list[str] = []

    def top(self, text: str) -> Block:
        """Read the text as one block, empty for an empty text; raise `ConfigError` if it is not an
        object.
        """
        value = self.top_value(text, "")
        if value is None:
            return Block(file=self.file)
        if not isinstance(value, Block):
            raise ConfigError(
                f"{self.file}:1: the configuration must be an object but is {kind_of(value)}"
            )
        return replace(value, warnings=tuple(self.warnings))

    def top_value(self, text: str, path: str) -> Any:
        """Read the text as one value; None if it is empty. Raise ConfigError if it is not YAML or
        has several documents.

        Variables are marked first, so that their values are not parsed as YAML.
        """
        text = _VARIABLE.sub(rf"{_OPEN}\1{_CLOSE}", text)
        try:
            documents = read_documents(text, scalar=lambda node: node)
        except LocatedError as error:
            raise ConfigError(f"{self.file}:{error.line}: {error}") from None
        if len(documents) > 1:
            raise ConfigError(
                f"{self.file}:{documents[1].line}: the file must contain only one YAML document"
            )
        return self.value(documents[0], path) if documents else None

    def value(self, item: Located, path: str) -> Any:
        """Convert parsed YAML to blocks, lists and scalars at any depth, with variables replaced;
        `path` is the dotted path of `item`, "" for the whole file. Raise ConfigError for a scalar
        or a variable that cannot be used; a variable that is not set may only add a warning.
        """
        if isinstance(item.value, dict):
            values = {
                key: self.value(inner, f"{path}.{key}" if path else key)
                for key, inner in item.value.items()
            }
            lines = {key: inner.line for key, inner in item.value.items()}
            return Block(values, lines, self.file, path)
        if isinstance(item.value, list):
            return [self.value(inner, path) for inner in item.value]
        return self.scalar(item.value, path)

    def scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        """Return the value of a scalar with its variables replaced; the type of an unquoted one is
        decided after that. A date stays text. Raise ConfigError if it cannot be read.
        """
        text = str(node.value)
        tag = node.tag
        replaced = _MARK.sub(lambda match: self.variable(match, node, path), text)
        # A quoted scalar stays a text, whatever the variable contains.
        if replaced != text and node.style is None:
            tag = yaml.SafeLoader("").resolve(  # type: ignore[no-untyped-call]  # the stubs' gap
                yaml.ScalarNode, replaced, (True, False)
            )
        scalar = yaml.ScalarNode(tag, replaced, node.start_mark, node.end_mark)
        try:
            value = yaml.SafeLoader("").construct_object(scalar)
        # What PyYAML raises for a text that does not fit its tag.
        except (yaml.YAMLError, ValueError, LookupError, ArithmeticError, AttributeError):
            raise ConfigError(
                f"{self.location(node, path)} is not a valid YAML value with its variables "
                "replaced: put it in quotes"
            ) from None
        return value if isinstance(value, (str, bool, int, float)) or value is None else replaced

    def variable(self, match: re.Match[str], node: yaml.Node, path: str) -> str:
        """Return the value of an environment variable. If it is not set, add a warning and return
        `${VAR}` unchanged; in credentials raise ConfigError.
        """
        name = match[1].strip()
        if name in self.environment:
            return self.environment[name]
        warning = f"{self.location(node, path)}: environment variable `{name}` is not set"
        if not _SECRET.isdisjoint(path.split(".")):
            raise ConfigError(warning)
        self.warnings.append(f"{warning}: `${{{name}}}` stays as it is")
        return f"${{{match[1]}}}"

    def location(self, node: yaml.Node, path: str) -> str:
        return f"{self.file}:{node.start_mark.line + 1}: {path}"


def _put(container: Any, keys: Sequence[str | int], value: Any, path: str) -> Any:
    """Return a copy of `container` with `value` at `keys`; missing blocks and lists are created.
    Raise ConfigError for an index beyond the end of a list, and for an index or a name below a
    value that is not a list or an object.
    """
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    kind: Any = list if isinstance(key, int) else Block
    if container is not None and not isinstance(container, kind):
        raise ConfigError(
            f"--set `{path}`: `{key}` cannot be set: it would be below {kind_of(container)}"
        )
    if isinstance(key, int):
        items = list(container or ())
        if key > len(items):
            raise ConfigError(
                f"--set `{path}`: item {key} cannot be set: the list has only {len(items)} items"
            )
        inner = items[key] if key < len(items) else None
        return [*items[:key], _put(inner, rest, value, path), *items[key + 1 :]]
    block = container if isinstance(container, Block) else Block(path=path)
    inner = block.values.get(key)
    if rest and isinstance(rest[0], str) and not isinstance(inner, Block):
        inner = block.block(key)
    # The line in the file says nothing of a value from the command line.
    lines = {name: line for name, line in block.lines.items() if name != key or rest}
    values = {**block.values, key: _put(inner, rest, value, path)}
    return Block(values, lines, block.file, block.path)
