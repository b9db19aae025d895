"""What random programs are made of: names, keys, constants, built-ins; and what a program is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

__all__ = [
    "BUILTINS",
    "CONSTANTS",
    "JOINS",
    "MISSING",
    "NAMES",
    "ODD_KEYS",
    "ODD_NAMES",
    "ODD_VARIABLES",
    "PLAIN_KEYS",
    "RESERVED",
    "VARIABLES",
    "Choices",
    "Program",
    "Term",
    "fits",
    "kind_of",
    "literal",
    "put",
]

PLAIN_KEYS: Final = ("a", "b", "c", "k")
ODD_KEYS: Final = (
    "", " ", "0", "1", "$", "_", "x-1", "y-1", "a/b", "é", "\u2028", "a\nb", "\\", '"', "'", "{}",
    "if", "in", "not", "data", "input", "class", "None", "True", "lambda", "__debug__", "__class__",
    "ctx", "get", "items", "rt", "default", "true", "null", "import", "self", "a.b.c", "a|b",
)  # fmt: skip
JOINS: Final = (".", "-", "/", '"]["', '"].', "_", " ", ",", "#")
"""What is between two keys that are to look like another one."""
NAMES: Final = ("p", "q", "r", "s", "t", "u")
ODD_NAMES: Final = (
    "__debug__", "lambda", "None", "ctx", "class", "str", "len", "rt", "out", "__class__", "arg0",
    "self", "def", "_0", "found", "True", "type", "print_", "x_1",
)  # fmt: skip
VARIABLES: Final = ("x", "y", "z", "v", "w", "i", "j", "n")
ODD_VARIABLES: Final = (
    "__debug__", "lambda", "ctx", "out", "class", "len", "_1", "def", "None", "self", "arg0", "rt",
)  # fmt: skip
CONSTANTS: Final[tuple[Any, ...]] = (
    0, 1, 2, -1, 3, 10, 1.5, "a", "b", "ab", "", "1", "a.b", "/admin", True, False, None,
    [], {}, [1], ["a"], ["a", "b"], {"a": 1}, {"k": "a"}, [[1, "a"]], "A", "x-1",
)  # fmt: skip
RESERVED: Final = frozenset(
    {"as", "contains", "data", "default", "else", "every", "false", "if", "import", "in", "input"}
    | {"not", "null", "package", "set", "some", "true", "with", "and", "or"}
)
T = TypeVar("T")

MISSING: Final = object()
"""No input at all."""

BUILTINS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    ("lower", ("str",), "str"),
    ("upper", ("str",), "str"),
    ("trim_space", ("str",), "str"),
    ("trim", ("str", "str"), "str"),
    ("trim_left", ("str", "str"), "str"),
    ("trim_prefix", ("str", "str"), "str"),
    ("trim_suffix", ("str", "str"), "str"),
    ("replace", ("str", "str", "str"), "str"),
    ("substring", ("str", "small", "small"), "str"),
    ("indexof", ("str", "str"), "num"),
    ("split", ("str", "str"), "arr"),
    ("concat", ("str", "texts"), "str"),
    ("sprintf", ("format", "values"), "str"),
    ("count", ("coll",), "num"),
    ("count", ("any",), "num"),
    ("sum", ("numbers",), "num"),
    ("max", ("arr",), "any"),
    ("min", ("arr",), "any"),
    ("sort", ("arr",), "arr"),
    ("abs", ("num",), "num"),
    ("round", ("num",), "num"),
    ("to_number", ("any",), "num"),
    ("to_number", ("str",), "num"),
    ("type_name", ("any",), "str"),
    ("json.marshal", ("any",), "str"),
    ("json.unmarshal", ("str",), "any"),
    ("object.get", ("obj", "key", "any"), "any"),
    ("object.get", ("obj", "keys", "any"), "any"),
    ("object.keys", ("obj",), "set"),
    ("object.union", ("obj", "obj"), "any"),
    ("object.remove", ("obj", "keys"), "any"),
    ("array.concat", ("arr", "arr"), "arr"),
    ("array.slice", ("arr", "small", "small"), "arr"),
    ("array.reverse", ("arr",), "arr"),
    ("numbers.range", ("small", "small"), "arr"),
    ("startswith", ("str", "str"), "bool"),
    ("endswith", ("str", "str"), "bool"),
    ("contains", ("str", "str"), "bool"),
    ("is_string", ("any",), "bool"),
    ("is_number", ("any",), "bool"),
    ("is_array", ("any",), "bool"),
    ("is_object", ("any",), "bool"),
    ("is_null", ("any",), "bool"),
    ("regex.match", ("pattern", "str"), "bool"),
    ("regex.replace", ("str", "pattern", "str"), "str"),
    ("glob.match", ("glob", "delimiters", "str"), "bool"),
    ("union", ("sets",), "set"),
    ("json.remove", ("obj", "keys"), "any"),
    ("json.filter", ("obj", "keys"), "any"),
    ("strings.any_prefix_match", ("str", "str"), "bool"),
    ("format_int", ("num", "base"), "str"),
)  # fmt: skip
"""Name, kinds of operands, kind of result."""

_ADMITTED: Final[Mapping[str, frozenset[str]]] = {
    "coll": frozenset({"arr", "obj", "set"}),
    "numbers": frozenset(),
}


class Term(str):
    """A term's text with the kind of its value, `any` where the type checker knows nothing."""

    kind: str

    def __new__(cls, text: str, kind: str = "any") -> Term:
        term = super().__new__(cls, text)
        term.kind = kind
        return term


@dataclass
class Program:
    """Modules by file name, base data, inputs (some may be missing) and queries."""

    modules: dict[str, str]
    data: Any
    inputs: list[Any]
    queries: list[str]
    v0: bool = False
    strict: bool = False


def fits(kind: str, wanted: str) -> bool:
    """Whether a value of `kind` may be one that is `wanted`."""
    if wanted == "unknown":
        return kind == "any"
    return "any" in (kind, wanted) or kind == wanted or kind in _ADMITTED.get(wanted, ())


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "num"
        case str():
            return "str"
        case list():
            return "arr"
        case _:
            return "obj"


def literal(value: Any) -> str:
    """A constant as Rego text."""
    return json.dumps(value, ensure_ascii=False)


def put(document: Any, path: Sequence[Any], value: Any) -> Any:
    """`document` with `value` at `path`; an object or array that is there already is kept."""
    if not path:
        return document if isinstance(document, dict | list) and document else value
    key = path[0]
    if type(key) is int:
        items = list(document) if isinstance(document, list) else []
        items += [value] * (key + 1 - len(items))
        items[key] = put(items[key], path[1:], value)
        return items
    if not isinstance(key, str):
        return value
    inner = dict(document) if isinstance(document, dict) else {}
    inner[key] = put(inner.get(key), path[1:], value)
    return inner


class Choices:
    """The random choices of a generator."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.chance = random.random
        self.pick = random.choice

    def weighted(self, *options: tuple[float, Callable[[], T]]) -> T:
        """The result of one of the options, chosen by their weights."""
        at = self.chance() * sum(weight for weight, _ in options)
        for weight, option in options:
            at -= weight
            if at <= 0:
                return option()
        return options[-1][1]()
