"""The YAML of one METADATA block to its fields, each as its type wants it.

The texts of errors are those of OPA's YAML library, whose rows the caller needs.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

__all__ = ["MAX_NODES", "YamlError", "read_yaml"]

MAX_NODES: Final = 10_000
"""How many YAML nodes one block may have, aliases counted as often as they are used."""

Node: TypeAlias = Any
"""A scalar, sequence or mapping node of the YAML library, told apart by its `id`."""

_BOOLS: Final = {"true": True, "True": True, "TRUE": True} | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_OLD_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_OLD_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INT: Final = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

# What our YAML library says, and OPA's in its place.
_WORDS: Final = (
    (
        re.compile("mapping values are not allowed here"),
        "mapping values are not allowed in this context",
    ),
    (re.compile("expected the node content, but found .*"), "did not find expected node content"),
    (re.compile("expected ',' or '\\]', but got .*"), "did not find expected ',' or ']'"),
    (re.compile("expected ',' or '}', but got .*"), "did not find expected ',' or '}'"),
    (re.compile("expected <block end>, but found .*"), "did not find expected key"),
    (re.compile("found undefined alias '(.*)'"), r"unknown anchor '\1' referenced"),
)


class YamlError(Exception):
    """The YAML cannot be read, or says what an annotation cannot be; the text is the library's."""


def read_yaml(text: str) -> dict[str, Any]:
    """The fields that a block sets; YamlError if it cannot be read or has wrong types."""
    return _Reader().read(text)


class _Reader:
    """One block's YAML: every field as its type wants it, type errors collected."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.left = MAX_NODES
        self.open: set[int] = set()

    def read(self, text: str) -> dict[str, Any]:
        root = _compose(text)
        if root is None:
            return {}
        if root.id != "mapping":
            self.fault(root, "ast.rawAnnotation")
        fields: dict[str, Any] = {}
        for key, node in self.pairs(root):
            match key:
                case "scope" | "title" | "description":
                    fields[key] = self.string(node)
                case "organizations":
                    fields[key] = [self.string(n) or "" for n in self.items(node, "[]string")]
                case "related_resources" | "authors":
                    fields[key] = [self.any(n) for n in self.items(node, "[]interface {}")]
                case "schemas":
                    items = self.items(node, "[]map[string]interface {}")
                    fields[key] = [self.map(n) for n in items]
                case "custom" | "compile":
                    fields[key] = self.map(node)
                case "labels" if node.id == "mapping":
                    fields[key] = self.map(node)
                case "entrypoint":
                    fields[key] = self.bool(node)
        if self.faults:
            raise YamlError("yaml: unmarshal errors:\n  " + "\n  ".join(self.faults))
        return fields

    def fault(self, node: Node, wanted: str) -> None:
        tag = {"mapping": "!!map", "sequence": "!!seq"}.get(node.id)
        if tag is None:
            text = node.value if len(node.value) <= 10 else node.value[:7] + "..."
            tag = f"{_tag(node)} `{text}`"
        line = node.start_mark.line + 1
        self.faults.append(f"line {line}: cannot unmarshal {tag} into {wanted}")

    def pairs(self, node: Node) -> Iterator[tuple[str, Node]]:
        seen: dict[str, int] = {}
        for key, value in node.value if node.id == "mapping" else ():
            name = key.value if key.id == "scalar" else ""
            line = key.start_mark.line + 1
            if name in seen:
                self.faults.append(
                    f'line {line}: mapping key "{name}" already defined at line {seen[name]}'
                )
                continue
            seen[name] = line
            yield name, value

    def items(self, node: Node, wanted: str) -> list[Node]:
        if node.id == "sequence":
            return list(node.value)
        if not _is_null(node):
            self.fault(node, wanted)
        return []

    def string(self, node: Node) -> str | None:
        if node.id != "scalar":
            self.fault(node, "string")
            return None
        return None if _is_null(node) else _binary(node)

    def bool(self, node: Node) -> bool:
        if node.id == "scalar":
            if node.value in _BOOLS:
                return _BOOLS[node.value]
            if node.value in _OLD_TRUE:
                return True
            if node.value in _OLD_FALSE or _is_null(node):
                return False
        self.fault(node, "bool")
        return False

    def map(self, node: Node) -> dict[str, Any]:
        if node.id == "mapping":
            return {key: self.any(value) for key, value in self.pairs(node)}
        if _tag(node) == "!!binary":
            _binary(node)
        if not _is_null(node):
            self.fault(node, "map[string]interface {}")
        return {}

    def any(self, node: Node) -> Any:
        self.left -= 1
        if self.left < 0 or id(node) in self.open:
            raise YamlError("yaml: document contains excessive aliasing")
        if node.id == "scalar":
            return _scalar(node)
        self.open.add(id(node))
        value: Any
        if node.id == "sequence":
            value = [self.any(item) for item in node.value]
        else:
            value = {key: self.any(item) for key, item in self.pairs(node)}
        self.open.discard(id(node))
        return value


def _compose(text: str) -> Node | None:
    # Here and not above: `import doorward.rego` must not bring in a YAML library.
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        message = error.problem or "unknown problem parsing YAML content"
        for pattern, words in _WORDS:
            message = pattern.sub(words, message)
        line = 0
        if not message.startswith("unknown anchor"):
            for mark in (error.context_mark, error.problem_mark):
                if mark is not None and mark.line and not line:
                    line = mark.line + isinstance(error, yaml.scanner.ScannerError)
        place = f"line {line}: " if line else ""
        raise YamlError(f"yaml: {place}{message}") from None
    except yaml.reader.ReaderError:
        raise YamlError("yaml: control characters are not allowed") from None


def _tag(node: Node) -> str:
    if node.id != "scalar":
        return "!!map" if node.id == "mapping" else "!!seq"
    if node.tag == "tag:yaml.org,2002:binary":
        return "!!binary"
    if node.style is None:
        match _plain(node.value):
            case None:
                return "!!null"
            case bool():
                return "!!bool"
            case int():
                return "!!int"
            case float():
                return "!!float"
    return "!!str"


def _is_null(node: Node) -> bool:
    return node.id == "scalar" and node.style is None and node.value in _NULLS


def _scalar(node: Node) -> object:
    text = _binary(node)
    return _plain(text) if node.style is None else text


def _plain(text: str) -> object:
    """A plain scalar by YAML 1.2's core schema."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def _binary(node: Node) -> str:
    if node.tag != "tag:yaml.org,2002:binary":
        return str(node.value)
    try:
        return base64.b64decode(node.value, validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from None
