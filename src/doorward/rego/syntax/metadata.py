"""The YAML of one METADATA block to its fields, each of the type that it must have.

Scalars have the meaning that OPA's YAML library gives them: numbers and dates of YAML 1.1, booleans
of 1.2. The texts of errors are the library's; the caller needs their rows. Integers stay exact at
any size, where the library turns those past 63 bits into floating-point or negative numbers.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from calendar import monthrange
from collections.abc import Iterator
from decimal import Decimal
from math import isinf
from typing import Any, Final, NamedTuple

from doorward.rego.golang.yaml_nodes import Node, YamlError, compose, go_syntax
from doorward.rego.numbers import MAX_DIGITS, Number

__all__ = [
    "MAX_NODES",
    "General",
    "Key",
    "KeyTypeError",
    "YamlError",
    "read_yaml",
    "with_text_keys",
]

# Ten lines of ten aliases each, every one of the line before, would be 10^10 nodes.
MAX_NODES: Final = 10_000
"""The most YAML nodes of one block, where an aliased node counts for each use; more is a YamlError.
"""

_BOOLS: Final = {"true": True, "True": True, "TRUE": True} | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
# yaml.v3 takes these words of YAML 1.1 for booleans only where Go's field is a `bool`: that is
# `entrypoint`. In `custom` a `yes` is a string.
_OLD_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_OLD_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_SIMPLE_TAGS: Final = frozenset({"", "!!bool", "!!int", "!!float", "!!null", "!!timestamp"})
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
# yaml.v3's `allowedTimestampFormats`: months, days and hours may have one digit.
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:([Tt ])(\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)


class KeyTypeError(Exception):
    """A key is not a string in a place where annotations need strings."""


class Key(NamedTuple):
    """A key of a `General` mapping: Go's name for its type, and the key."""

    kind: str
    value: Any

    def __str__(self) -> str:
        return str(self.value)


class General(dict[Key, Any]):
    """A mapping whose keys are not all strings."""


_GO_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    Number: "float64",
    type(None): "nil",
}


def read_yaml(text: str) -> dict[str, Any]:
    """Return the fields that a block sets, {} for an empty one. YamlError, with all type errors, if
    it cannot be parsed or a field has the wrong type. Fields of any type may contain `General`
    mappings, which `with_text_keys` refuses.
    """
    try:
        return _Reader().read(text)
    except RecursionError:
        raise YamlError("yaml: exceeded max depth") from None


def with_text_keys(value: Any, path: tuple[str, ...] = ()) -> Any:
    """Return `value` with strings as keys. KeyTypeError, in OPA's words, for a mapping with other
    keys; deeper inside a mapping of strings, numbers are allowed and become strings. `path` is
    where `value` is, for the error.
    """
    if isinstance(value, list):
        return [with_text_keys(item, (*path, str(n))) for n, item in enumerate(value)]
    if isinstance(value, General):
        raise KeyTypeError(f"invalid map key type(s): {'/'.join(path)}")
    if isinstance(value, dict):
        # What is inside a mapping of strings alone leaves as JSON, where numbers may be keys.
        return {key: _with_json_keys(item) for key, item in value.items()}
    return value


def _with_json_keys(value: Any) -> Any:
    """Return a value with all keys in it, at any depth, as strings; KeyTypeError for a key in a
    mapping of general keys that is neither text nor a number.
    """
    if isinstance(value, list):
        return [_with_json_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value, General) and not {k.kind for k in value} <= {"string", "int", "float64"}:
        raise KeyTypeError("object member name must be a string")
    return {str(key): _with_json_keys(item) for key, item in value.items()}


class _Reader:
    """Reads the YAML of one block: every field as its expected type. Type errors are collected in
    `faults`; `left` is the number of nodes that may still be read.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.left = MAX_NODES
        self.open: set[int] = set()

    def read(self, text: str) -> dict[str, Any]:
        """Parse the YAML of a METADATA block and return its known fields by name, each of the type
        that it must have; {} if it is empty or null. Other fields are ignored, and `labels` that is
        not a mapping. YamlError if the text is not YAML, has too many nodes, or has fields of wrong
        types, which are all named.
        """
        root = compose(text)
        if root is None or _is_null(root):
            return {}
        if root.kind != "mapping":
            self.fault(root, "ast.rawAnnotation")
        fields: dict[str, Any] = {}
        for key, value in self.pairs(root):
            node = value.target
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
                case "labels" if node.kind == "mapping":
                    fields[key] = self.map(node)
                case "entrypoint":
                    fields[key] = self.bool(node)
        if self.faults:
            raise YamlError("yaml: unmarshal errors:\n  " + "\n  ".join(self.faults))
        return fields

    def fault(self, node: Node, wanted: str) -> None:
        """Record a type error in the words of Go's YAML library; `wanted` is the Go type that was
        expected.
        """
        tag = {"mapping": "!!map", "sequence": "!!seq"}.get(node.kind)
        if tag is None:
            text = node.value if len(node.value) <= 10 else node.value[:7] + "..."
            tag = f"{_resolve(node)[0]} `{text}`"
        self.faults.append(f"line {node.line}: cannot unmarshal {tag} into {wanted}")

    # Mappings

    def pairs(self, node: Node) -> Iterator[tuple[str, Node]]:
        """Yield the keys of a mapping as text (a scalar of any type, but not null) with their value
        nodes, those of merge keys (`<<`) last; the first of equal keys only. A collection as key is
        recorded as an error. Nothing for another kind of node or, with an error recorded, if a key
        is written twice.
        """
        names: set[str] = set()
        for key, value in self._pairs(node):
            name = self.string(key)
            if name is not None and name not in names:
                names.add(name)
                yield name, value

    def _pairs(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """Yield the key and value nodes of a mapping, then those that it merges in. Nothing for
        another kind of node or, with an error recorded, if a key occurs twice. YamlError if a merge
        key's value is not a mapping or a list of mappings, or contains itself.
        """
        if node.kind != "mapping" or self._has_key_twice(node):
            return
        merged: Node | None = None
        for key, value in node.value:
            if key.kind == "scalar" and key.plain and key.value == "<<":
                merged = value
            else:
                yield key.target, value
        if merged is not None:
            for mapping in _mappings(merged):
                with _Open(self.open, mapping):
                    yield from self._pairs(mapping.target)

    def _has_key_twice(self, node: Node) -> bool:
        """Return True if a key of the mapping is repeated, and add an error for each repetition to
        `faults`.
        """
        first: dict[tuple[str, str], Node] = {}
        before = len(self.faults)
        for key, _ in node.value:
            name = key.value if key.kind == "scalar" else ""
            other = first.setdefault((key.kind, name), key)
            if other is not key:
                self.faults.append(
                    f"line {key.line}: mapping key {_quote(name)} "
                    f"already defined at line {other.line}"
                )
        return len(self.faults) > before

    # Values of a type

    def items(self, node: Node, wanted: str) -> list[Node]:
        """Return the nodes in a sequence; [] for null or, with an error recorded, for another node.
        `wanted` is the Go type for that error.
        """
        if node.kind == "sequence":
            return list(node.value)
        if not _is_null(node):
            self.fault(node, wanted)
        return []

    def string(self, node: Node) -> str | None:
        """Return the text of a scalar of any type; None for null or, with an error recorded, for
        other nodes.
        """
        node = node.target
        if node.kind != "scalar":
            self.fault(node, "string")
            return None
        tag, value = _resolve(node)
        if value is None:
            return None
        return value if tag == "!!binary" else node.value  # type: ignore[no-any-return] # texts

    def bool(self, node: Node) -> bool:
        """Return a boolean, in YAML 1.1 spellings too; False for null and, with an error recorded,
        for other nodes.
        """
        if node.kind == "scalar":
            _, value = _resolve(node)
            if isinstance(value, bool) or value is None:
                return bool(value)
            if isinstance(value, str) and value in _OLD_TRUE | _OLD_FALSE:
                return value in _OLD_TRUE
        self.fault(node, "bool")
        return False

    def map(self, node: Node) -> dict[str, Any]:
        """Return a mapping with its keys as strings; {} for null or, with an error recorded, for
        another node.
        """
        node = node.target
        if node.kind == "mapping":
            return {key: self.any(value) for key, value in self.pairs(node)}
        if not _is_null(node):
            self.fault(node, "map[string]interface {}")
        return {}

    def any(self, node: Node) -> Any:
        """Return the value of any node; a mapping whose keys are not all strings is a `General`.
        YamlError for more than `MAX_NODES` nodes, an alias that contains itself, a scalar without
        the type of its tag, a collection as key, or a merge key of another type.
        """
        self.left -= 1
        if self.left < 0:
            raise YamlError("yaml: document contains excessive aliasing")
        if node.kind == "alias":
            with _Open(self.open, node):
                return self.any(node.target)
        if node.kind == "scalar":
            return _resolve(node)[1]
        if node.kind == "sequence":
            return [self.any(item) for item in node.value]
        if _is_text_map(node):
            return {key: self.any(value) for key, value in self.pairs(node)}
        return self._general(node)

    def _general(self, node: Node) -> General:
        """Return a mapping with keys of any scalar type. YamlError for a collection as key, or an
        invalid value, such as an alias that contains itself.
        """
        general = General()
        for key_node, value in self._pairs(node):
            key = self.any(key_node)
            if isinstance(key, (list, dict)):
                key_text = go_syntax(key_node, lambda scalar: _resolve(scalar)[1], _is_text_map)
                raise YamlError(f"yaml: invalid map key: {key_text}")
            general.setdefault(Key(_GO_TYPES[type(key)], key), self.any(value))
        return general


class _Open:
    """A context manager around reading the target of an alias. YamlError if it is entered for a
    node that is being read: the alias contains itself.
    """

    def __init__(self, open_: set[int], node: Node) -> None:
        self.open, self.node = open_, node

    def __enter__(self) -> None:
        if id(self.node) in self.open:
            raise YamlError(f"yaml: anchor '{self.node.tag}' value contains itself")
        self.open.add(id(self.node))

    def __exit__(self, *_raised: object) -> None:
        self.open.discard(id(self.node))


def _mappings(merged: Node) -> list[Node]:
    """Return the mapping nodes that a merge key names, in order of precedence; YamlError if one is
    another kind of node.
    """
    nodes: list[Node] = merged.value if merged.kind == "sequence" else [merged]
    if any(node.target.kind != "mapping" for node in nodes):
        raise YamlError("yaml: map merge requires map or sequence of maps as the value")
    return nodes


def _is_text_map(node: Node) -> bool:
    return all(_is_text_key(key) for key, _ in node.value)


def _is_text_key(key: Node) -> bool:
    """Return True if a key is a string or the merge key `<<`."""
    return key.kind == "scalar" and (
        (key.plain and key.value == "<<") or _resolve(key)[0] == "!!str"
    )


# Scalars


def _is_null(node: Node) -> bool:
    return node.kind == "scalar" and _resolve(node)[1] is None


def _resolve(node: Node) -> tuple[str, Any]:
    """Return the YAML tag of a scalar node, such as `!!int`, and its value. YamlError if the value
    does not have the type of an explicit tag.
    """
    text: str = node.value
    if node.tag == "!!binary":
        return node.tag, _binary(text)
    if node.tag == "!!str" or (node.tag == "" and not node.plain):
        return "!!str", text
    if node.tag not in _SIMPLE_TAGS:
        return node.tag, text
    tag, value = _plain(text, timestamps=node.tag in ("", "!!timestamp"))
    if node.tag == "!!float" and tag == "!!int":
        return "!!float", value
    if node.tag not in ("", tag):
        raise YamlError(f"yaml: cannot decode {tag} `{text}` as a {node.tag}")
    return tag, value


def _plain(text: str, *, timestamps: bool) -> tuple[str, Any]:
    """Return the tag and value of an unquoted scalar, by the rules of Go's YAML library; what is
    nothing else, also a number that is too large or long, is a string. `timestamps`: dates count as
    such and become RFC 3339 text.
    """
    if text in _NULLS:
        return "!!null", None
    if text in _BOOLS:
        return "!!bool", _BOOLS[text]
    # There is a first character: "" is null.
    if text[0] not in "+-.0123456789":
        return "!!str", text
    if timestamps and (moment := _timestamp(text)) is not None:
        return "!!timestamp", moment
    # As yaml.v3's `resolve`: `1_000` is a number, `._5` is not.
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return "!!int", integer
    if _FLOAT.fullmatch(plain) and len(plain) <= MAX_DIGITS and not isinf(float(plain)):
        return "!!float", _number(float(plain))
    return "!!str", text


def _integer(text: str) -> int | None:
    """Return the integer that a text denotes in base 2, 8, 10 or 16; None if it is not one, is
    longer than `MAX_DIGITS`, or in another base than 10 exceeds 64 bits.
    """
    match = _INTEGER.fullmatch(text)
    if match is None or len(text) > MAX_DIGITS:
        return None
    sign, *digits = match.groups()
    base, number = next((b, d) for b, d in zip((16, 2, 8, 10), digits, strict=True) if d)
    value = int(sign + number, base)
    # In bases other than 10 the library knows 64 bits.
    return value if base == 10 or -(1 << 63) <= value < 1 << 64 else None


def _number(value: float) -> int | Number:
    """Return a floating-point number with the text that Go prints for it: `1e+06`, but 100 for
    100.0.
    """
    sign, digits, power = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(power, int)  # neither infinite nor not a number
    exponent = power + len(digits) - 1
    # The limits of Go's `strconv.FormatFloat(f, 'g', -1, 64)`.
    if value and not -4 <= exponent < 6:
        point = "." + "".join(map(str, digits[1:])) if len(digits) > 1 else ""
        mark = "-" if exponent < 0 else "+"
        return Number(f"{'-' * sign}{digits[0]}{point}e{mark}{abs(exponent):02d}")
    if value.is_integer() and not (sign and not value):
        return int(value)
    return Number(f"{Decimal(repr(value)).normalize():f}")


def _timestamp(text: str) -> str | None:
    """Return a date or time in the form of RFC 3339, a date as midnight in UTC; None if the text is
    not one or the day does not exist. A time after `T` must have a zone, one after a space must
    have none and is in UTC; a fraction is cut at nanoseconds.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    # Python's calendar begins with year 1; leap years come round after 400.
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(year or 400, month)[1]:
        return None
    date = f"{year:04d}-{month:02d}-{day:02d}"
    if match[4] is None:
        return f"{date}T00:00:00Z"
    hour, minute, second = int(match[5]), int(match[6]), int(match[7])
    has_zone = match[9] is not None
    if hour > 23 or minute > 59 or second > 59 or has_zone == (match[4] == " "):
        return None
    fraction = (match[8] or "")[:9].rstrip("0")
    zone = "Z" if match[9] in (None, "Z", "+00:00", "-00:00") else match[9]
    return f"{date}T{hour:02d}:{minute:02d}:{second:02d}{'.' if fraction else ''}{fraction}{zone}"


def _binary(text: str) -> str:
    """Decode base64 to text, with U+FFFD for bytes that are not UTF-8; YamlError if it is
    invalid.
    """
    try:
        octets = base64.b64decode(re.sub("[\r\n]", "", text), validate=True)
        return octets.decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise YamlError("yaml: !!binary value contains invalid base64 data") from None


# Go's words


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
