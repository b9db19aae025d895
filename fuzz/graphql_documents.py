"""Random GraphQL schemas and queries, answered by Doorward and by OPA 1.20.2.

    python fuzz/graphql_documents.py [--seconds 60 | --calls N] [--seed 1]

A schema has types of every kind, directives and extensions; a query is written for it, with
fragments, variables, aliases and values of every kind. In most calls one or two places are wrong:
a name, a type, a value, a token, a part twice or not at all. Operands are texts or the objects that
`graphql.parse_query` and `graphql.parse_schema` give, at times changed. Prints every difference
between the answers of `graphql.*`; the exit code is 1 if there was one.

Not written: fragments that double the steps of a search at each level, for which OPA takes
exponential time, and objects with `null` for a part, at which it panics.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.calls import ask_ours, campaign
from fuzz.pools import Choices

__all__ = ["call_of"]

SCALARS: Final = ("Int", "Float", "String", "Boolean", "ID")
NAMES: Final = ("a", "b", "c", "d", "e")
ODD_NAMES: Final = (
    "__a", "_", "on", "type", "query", "fragment", "true", "null", "input", "extend", "A", "Query",
    "__typename", "implements", "repeatable", "schema", "Int",
)  # fmt: skip
WORDS: Final = (
    "query", "mutation", "subscription", "fragment", "on", "type", "interface", "union", "enum",
    "input", "scalar", "directive", "schema", "extend", "implements", "repeatable", "true", "null",
)  # fmt: skip
QUERY_LOCATIONS: Final = (
    "QUERY", "MUTATION", "SUBSCRIPTION", "FIELD", "FRAGMENT_DEFINITION", "FRAGMENT_SPREAD",
    "INLINE_FRAGMENT", "VARIABLE_DEFINITION",
)  # fmt: skip
SCHEMA_LOCATIONS: Final = (
    "SCHEMA", "SCALAR", "OBJECT", "FIELD_DEFINITION", "ARGUMENT_DEFINITION", "INTERFACE", "UNION",
    "ENUM", "ENUM_VALUE", "INPUT_OBJECT", "INPUT_FIELD_DEFINITION",
)  # fmt: skip
NUMBERS: Final = (
    "0", "1", "-1", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "1.5", "-0", "-0.0", "1e3", "1E-3", "1.0e+400", "1e400", "0.1", "1.50",
)  # fmt: skip
BAD_NUMBERS: Final = (
    "01",
    "1.",
    ".5",
    "1e",
    "-",
    "+1",
    "0x1",
    "1a",
    "1_000",
    "1.2.3",
    "-01",
    "1.e1",
)
STRINGS: Final = (
    '""', '"a"', '"a b"', '"é"', '"\\u00e9"', '"\\n"', '"\\""', '"\\\\"', '"\\/"', '"#"',
    '"\\ud83d\\ude00"',
    '"\\ud800"', '"\U0001f600"', '"on"', '"implements"', '"\\b\\f\\r\\t"', '"a\tb"', '"\\u0000"',
    '"<&>"',
)  # fmt: skip
BAD_STRINGS: Final = (
    '"', '"a', '"a\nb"', '"\\x"', '"\\u12"', '"\\u12g4"', '"\\', '"\x00"', '"\x7f"', '"\\u{1F600}"',
    "'a'", '"a\rb"', '"\x1f"', '"\\U0041"', '"""a', '"""a"', '"""a""', '"""\x00"""',
)  # fmt: skip
BLOCKS: Final = (
    '""""""', '"""a"""', '"""\na\n"""', '"""\n  a\n    b\n"""', '"""a\n  b"""', '"""  a\n  b"""',
    '"""\\""""""', '"""a\\"""b"""', '"""a\\nb"""', '"""\r\n\ta\r\n\t b\r"""', '""" \n \n"""',
    '""""a"""',
    '"""a"b""c"""', '"""é\n é"""', '"""a""""', '"""\n\n  a\n\n"""', '"""a\\"""', '"""   """',
)  # fmt: skip
BLANKS: Final = (" ", "\n", "\r\n", "\r", "\t", ",", "  ", " , ", "\ufeff", "# c\n", "#\n",
    "# a\r\n",
                 "\n# x\n# y\n", "#é\n", "# {\n", '# "\n')  # fmt: skip
BAD_BLANKS: Final = (
    "\x00",
    "\x0b",
    "\u00a0",
    "\x7f",
    "\u2028",
    ";",
    "%",
    "?",
    "~",
    "é",
    "# \x00\n",
    "..",
)
TOKENS: Final = ("!", "$", "&", "(", ")", "...", ":", "=", "@", "[", "]", "{", "}", "|")
DEPTHS: Final = ("fields", "interfaces", "possibleTypes", "inputFields", "ofType")


class _Type:
    """A type of the random schema."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.interfaces: list[str] = []
        self.fields: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {}
        """By name the type, and the arguments, each with its type and default."""
        self.members: list[str] = []
        self.one_of = False


class _Writer(Choices):
    """Writes one call."""

    def call(self) -> tuple[str, list[Any]]:
        """The name of a built-in and its operands."""
        self.wrong = self.pick([0, 0, 0.004, 0.01, 0.02])
        self.comments = self.pick([0, 0, 0.05, 0.2])
        self.odd = self.pick([0, 0, 0.02])
        self.types: dict[str, _Type] = {}
        self.directives: dict[str, tuple[dict[str, tuple[str, str]], list[str], bool]] = {}
        self.roots: dict[str, str] = {}
        schema = self._damaged(self._schema())
        name = self.pick(
            ["graphql.parse", "graphql.parse", "graphql.parse_query", "graphql.parse_schema",
             "graphql.parse_and_verify", "graphql.is_valid", "graphql.is_valid", "graphql.is_valid",
             "graphql.schema_is_valid", "graphql.schema_is_valid"]
        )  # fmt: skip
        if name == "graphql.parse_schema":
            return name, [schema]
        if name == "graphql.schema_is_valid":
            return name, [self._operand(schema, "graphql.parse_schema")]
        query = self._damaged(self._query())
        if name == "graphql.parse_query":
            return name, [query]
        return name, [
            self._operand(query, "graphql.parse_query"),
            self._operand(schema, "graphql.parse_schema"),
        ]

    def _operand(self, text: str, parse: str) -> Any:
        """A document as an operand: mostly its text, at times its object or something else."""
        chosen = self.chance()
        if chosen < 0.8:
            return text
        if chosen < 0.82:
            return self.pick(["", " ", "{}", {}, [], None, 1, "#", {"Operations": []}, {"a": 1}])
        tree = parsed(parse, text)
        if tree is None:
            return text
        while self.chance() < 0.3:
            self._change(tree)
        return tree

    def _change(self, tree: Any) -> None:
        """Change one part of an object."""
        parts: list[dict[str, Any]] = []
        waiting = [tree]
        while waiting:
            here = waiting.pop()
            if isinstance(here, dict):
                parts.append(here)
                waiting += here.values()
            elif isinstance(here, list):
                waiting += here
        part = self.pick(parts)
        if not part:
            return
        key = self.pick(sorted(part))
        value = part[key]
        match self.pick(["other", "drop", "case", "twice", "more", "kind"]):
            case "drop":
                if key not in ("Type", "Value", "Elem", "NamedType", "Kind"):
                    del part[key]
            case "case":
                part[self.pick([key.lower(), key.upper()])] = part.pop(key)
            case "twice" if isinstance(value, list) and value:
                value.append(value[0])
            case "more":
                part[self.pick(["x", "Comment", "Position", "BuiltIn"])] = self.pick([{}, True])
            case "kind" if key == "Kind" and isinstance(value, int):
                part[key] = self.pick(range(10))
            case _ if isinstance(value, str):
                # OPA leaves out a selection with a directive that it cannot read.
                odd = [1, True] if key in ("Alias", "Operation", "Variable", "Kind") else []
                part[key] = self.pick(["", "a", "A", "Q", "__a", "a b", "query", "Int", *odd])

    # Text

    def _damaged(self, text: str) -> str:
        """A text, at times with another token, or without one."""
        if self.chance() > self.wrong * 12:
            return text
        at = self.random.randint(0, len(text))
        end = min(len(text), at + self.pick([0, 0, 0, 1, 1, 2, 9]))
        put = self.pick(
            [
                *TOKENS,
                *WORDS,
                *NAMES,
                *BAD_NUMBERS,
                *BAD_STRINGS,
                *BAD_BLANKS,
                *STRINGS[:4],
                "",
                "",
                text,
            ]
        )
        return text[:at] + put + text[end:]

    def _blank(self) -> str:
        return self.pick(BLANKS) if self.chance() < self.comments else " "

    def _joined(self, *parts: str) -> str:
        """Parts with blanks between them."""
        text = ""
        for part in parts:
            if part:
                text += part + self._blank()
                if text.endswith("\ufeff"):
                    text += " "
        return text

    def _some(self, least: int, most: int, write: Callable[[], str]) -> str:
        return self._joined(*[write() for _ in range(self.random.randint(least, most))])

    def _name(self) -> str:
        return self.pick(ODD_NAMES if self.chance() < self.odd else NAMES)

    def _is_wrong(self) -> bool:
        return self.chance() < self.wrong

    # Schemas

    def _schema(self) -> str:
        counts = (("type", "T", 3), ("interface", "I", 2), ("union", "U", 1), ("enum", "E", 1),
                  ("input", "N", 2), ("scalar", "S", 1))  # fmt: skip
        for kind, letter, most in counts:
            for number in range(self.random.randint(0, most)):
                self._declare(kind, f"{letter}{number}")
        self._declare("type", "Q")
        self.has_schema = self.chance() < 0.5
        if not self.has_schema:
            self.types["Query"] = self.types.pop("Q")
            self.types["Query"].name = "Query"
        self.roots["query"] = "Q" if self.has_schema else "Query"
        for word in ("mutation", "subscription"):
            if self.chance() < 0.3:
                name = word[0].upper() if self.has_schema else word.capitalize()
                self._declare("type", name)
                self.roots[word] = name
        for number in range(self.random.randint(0, 2)):
            self._declare_directive(f"d{number}")
        for each in self.types.values():
            self._fill(each)
        parts = [self._definition(each) for each in self.types.values()]
        parts += [self._directive_definition(name) for name in self.directives]
        if self.has_schema:
            parts.append(self._schema_definition("schema"))
        while self.chance() < 0.3:
            parts.append(self._extension())
        if self._is_wrong():
            parts.append(self.pick(
                [*parts, "scalar Int", "scalar S0", "type Q { a: Int }", "union U = Nope", "enum E",
                 "type __A { a: Int }", "schema { query: Q }", "extend type Nope { a: Int }",
                 "extend scalar S0", "type A", "type A {}", "interface I9 { a: I9 }", "query { a }",
                 "directive @include(if: Boolean!) on FIELD", "directive @d0 on FIELD",
                 "extend schema",
                 "directive @d9 on NOPE", "directive @d9(a: Int @d9) on ARGUMENT_DEFINITION",
                 "directive @d9 on | FIELD | QUERY", "union U9 = | T0 | T0", "input N9 { a: N9! }",
                 "type A implements I0", "type A implements & I0 & I1 { a: Int }", "{ a }",
                 "enum E9 { true }", "enum E9 { A A }", "input N9 @oneOf { a: Int b: Int }",
                 "extend",
                 "extend type Q { z: Int }", "input N9 { a: Int! = null }", "fragment F on Q { a }",
                 '"d" extend type Q { z: Int }', '"" extend type Q { z: Int }', "schema {}",
                 "scalar",
                 "directive @__d on FIELD", "type A { a(b: T0): Int }", "type A { a: N0 }",
                 "union U9",
                 "input N9 { a: T0 }", "extend input N0 @d0", "extend enum E0 { B }",
                 "scalar S9 @d0",
                 "directive @d9 repeatable on FIELD", "extend union U0 = T1",
                 "type A { a: Int a: Int }",
                 "interface A implements A { a: Int }", "scalar S9 @specifiedBy",
                 "schema @d0 { query: Q }",
                 'scalar S9 @specifiedBy(url: "a")', "enum E9 { A @deprecated(reason: null) }",
                 "on",
                 "scalar S9 @specifiedBy(url: null)", "scalar S9 @specifiedBy(url: 1, x: 2)",
                 "type A { a: [Int!]! @deprecated @deprecated }", "extend type __Type { z: Int }",
                 "input __A { a: Int }", "directive @defer on FIELD", "directive @oneOf on FIELD"]
            ))  # fmt: skip
        self.random.shuffle(parts)
        return self._joined(*parts)

    def _declare(self, kind: str, name: str) -> None:
        self.types[name] = _Type(kind, name)

    def _declare_directive(self, name: str) -> None:
        locations = [self.pick(QUERY_LOCATIONS + SCHEMA_LOCATIONS) for _ in range(6)]
        locations += ["FIELD"] * (self.chance() < 0.7)
        self.directives[name] = {}, list(dict.fromkeys(locations)), self.chance() < 0.3
        self.directives[name][0].update(self._parameters(self.pick([0, 0, 1, 2])))

    def _of_kind(self, *kinds: str) -> list[str]:
        return [each.name for each in self.types.values() if each.kind in kinds]

    def _input_type(self) -> str:
        names = [*SCALARS, *self._of_kind("enum", "input", "scalar"), *self._of_kind("input")]
        return self._wrapped(self.pick(names), 0.3)

    def _output_type(self) -> str:
        objects = self._of_kind("type", "interface", "union")
        names = [*SCALARS, *objects, *objects, *objects, *self._of_kind("enum", "scalar")]
        return self._wrapped(self.pick(names), 0.3)

    def _wrapped(self, name: str, chance: float) -> str:
        if self._is_wrong():
            name = self.pick(["Nope", "T0", "N0", "__Type", "Int", "__Nope"])
        text = name
        while self.chance() < chance:
            text = f"[{text}]" if self.chance() < 0.5 else f"{text.rstrip('!')}!"
        return text

    def _parameters(self, count: int) -> dict[str, tuple[str, str]]:
        parameters = {}
        for _ in range(count):
            kind = self._input_type()
            default = self._value(kind, [], 0) if self.chance() < 0.3 else ""
            parameters[self._name()] = (kind, default)
        return parameters

    def _fill(self, each: _Type) -> None:
        """Write the fields or members of a type."""
        if each.kind == "union":
            objects = self._of_kind("type")
            each.members = list(dict.fromkeys(self.pick(objects) for _ in range(2)))
        elif each.kind == "enum":
            each.members = ["A", "B", "C"][: self.pick([1, 2, 3])]
        elif each.kind == "input":
            each.one_of = self.chance() < 0.2
            for name, (kind, default) in self._parameters(self.pick([1, 2, 3])).items():
                each.fields[name] = (f"{kind} = {default}" if default else kind), {}
        elif each.kind != "scalar":
            for _ in range(self.pick([1, 2, 3, 3, 4])):
                each.fields[self._name()] = (
                    self._output_type(),
                    self._parameters(self.pick([0, 0, 1, 2])),
                )
            self._implement(each)

    def _implement(self, each: _Type) -> None:
        known = [
            name for name in self._of_kind("interface") if name < each.name or each.kind == "type"
        ]
        known = [name for name in known if self.types[name].fields and name != each.name]
        if not known or self.chance() < 0.4:
            return
        chosen = self.pick(known)
        for name in [chosen, *self.types[chosen].interfaces]:
            if name not in each.interfaces:
                each.interfaces.append(name)
            each.fields.update(self.types[name].fields)
        if self._is_wrong():
            each.interfaces.pop()
        if self._is_wrong():
            each.fields.popitem()
        if self._is_wrong() and each.fields:
            name = self.pick(sorted(each.fields))
            each.fields[name] = self._output_type(), self._parameters(1)

    def _description(self) -> str:
        if self.chance() < 0.9:
            return ""
        return self.pick(BAD_STRINGS if self._is_wrong() else STRINGS + BLOCKS)

    def _definition(self, each: _Type, *, extend: bool = False) -> str:
        head = "" if extend else self._description()
        used = self._uses(
            {"type": "OBJECT", "input": "INPUT_OBJECT"}.get(each.kind, each.kind.upper()), []
        )
        if each.one_of and not extend:
            used = self._joined("@oneOf", used)
        match each.kind:
            case "scalar":
                rest = used
            case "union":
                lead = "| " * (self.chance() < 0.1)
                rest = self._joined(used, "=", lead + " | ".join(each.members))
            case "enum":
                values = [self._joined(self._description(), name, self._uses("ENUM_VALUE", []))
                          for name in each.members]  # fmt: skip
                rest = self._joined(used, "{", *values, "}")
            case _:
                lead = "& " * (self.chance() < 0.1)
                listed = (
                    f"implements {lead}{' & '.join(each.interfaces)}" if each.interfaces else ""
                )
                fields = [self._field_definition(each, name) for name in each.fields]
                rest = self._joined(listed, used, "{", *fields, "}")
        return self._joined(head, "extend" * extend, each.kind, each.name, rest)

    def _field_definition(self, each: _Type, name: str) -> str:
        kind, parameters = each.fields[name]
        location = "INPUT_FIELD_DEFINITION" if each.kind == "input" else "FIELD_DEFINITION"
        return self._joined(
            self._description(),
            name,
            self._parameter_list(parameters),
            ":",
            kind,
            self._uses(location, []),
        )

    def _parameter_list(self, parameters: dict[str, tuple[str, str]]) -> str:
        if not parameters:
            return "()" if self._is_wrong() else ""
        parts = []
        for name, (kind, default) in parameters.items():
            parts.append(self._joined(
                self._description(), name, ":", kind, f"= {default}" if default else "",
                self._uses("ARGUMENT_DEFINITION", []),
            ))  # fmt: skip
        return self._joined("(", *parts, ")")

    def _directive_definition(self, name: str) -> str:
        parameters, locations, repeatable = self.directives[name]
        return self._joined(
            self._description(), "directive", f"@{name}", self._parameter_list(parameters),
            "repeatable" if repeatable else "", "on", " | ".join(locations),
        )  # fmt: skip

    def _schema_definition(self, word: str) -> str:
        roots = [f"{operation}: {name}" for operation, name in self.roots.items()]
        if self._is_wrong():
            roots.append(
                self.pick(["query: Q", "mutation: Nope", "subscription: T0", "a: Q", '"query": Q'])
            )
        return self._joined(
            self._description() if word == "schema" else "", word, self._uses("SCHEMA", []),
            "{", *roots, "}",
        )  # fmt: skip

    def _extension(self) -> str:
        known = self.pick(list(self.types.values()))
        extra = _Type(known.kind, known.name)
        extra.fields = {"z": ("Int", {})} if known.fields else {}
        extra.members = {"enum": ["Z"], "union": ["T0"]}.get(known.kind, [])
        if self._is_wrong():
            extra.kind = self.pick(["type", "input", "interface", "enum", "scalar"])
        return self._definition(extra, extend=True)

    # Directives and values

    def _uses(self, location: str, variables: list[tuple[str, str]]) -> str:
        """Directives at a location, mostly ones that may be there."""
        known = {
            **self.directives,
            "include": ({"if": ("Boolean!", "")}, ["FIELD", "FRAGMENT_SPREAD", "INLINE_FRAGMENT"],
            False),
            "deprecated": ({"reason": ("String", '"a"')},
                           ["FIELD_DEFINITION", "ARGUMENT_DEFINITION", "INPUT_FIELD_DEFINITION",
                               "ENUM_VALUE"],
                           False),
            "specifiedBy": ({"url": ("String!", "")}, ["SCALAR"], False),
            "defer": ({"label": ("String", ""), "if": ("Boolean", "true")},
                      ["FRAGMENT_SPREAD", "INLINE_FRAGMENT"], False),
        }  # fmt: skip
        text = ""
        while self.chance() < 0.08:
            names = [name for name, (_, places, _) in known.items() if location in places]
            if self._is_wrong() or (names and self._is_wrong()):
                names = [*known, "nope", "__d", "skip"]
            if not names:
                break
            name = self.pick(names)
            if f"@{name}" in text and name in known and not known[name][2] and not self._is_wrong():
                break
            parameters = known[name][0] if name in known else {}
            text = self._joined(text, f"@{name}", self._arguments(parameters, variables))
        return text

    def _arguments(
        self, parameters: dict[str, tuple[str, str]], variables: list[tuple[str, str]]
    ) -> str:
        parts = []
        for name, (kind, default) in parameters.items():
            is_needed = kind.endswith("!") and not default and not self._is_wrong()
            if is_needed or self.chance() < 0.5:
                parts.append(f"{name}: {self._value(kind, variables, 0)}")
        if self._is_wrong():
            parts.append(self.pick([f"{self._name()}: 1", *parts]))
        if not parts:
            return "()" if self._is_wrong() else ""
        return self._joined("(", *parts, ")")

    def _value(self, kind: str, variables: list[tuple[str, str]], depth: int) -> str:
        """A value that mostly is of a type."""
        if self._is_wrong():
            return self.pick(
                [*NUMBERS, *BAD_NUMBERS, *STRINGS, *BAD_STRINGS, *BLOCKS, "null", "true", "A", "Z",
                    "[]",
                 "{}", "$nope", "{a: 1}", "[1, [2]]", "{a: 1, a: 2}", "[$nope]", "{a: $nope}",
                 "on", "$"]
            )  # fmt: skip
        fitting = [name for name, other in variables if other == kind or other == f"{kind}!"]
        if variables and self.chance() < 0.3:
            others = [name for name, _ in variables] if self._is_wrong() else fitting
            if others:
                return f"${self.pick(others)}"
        if not kind.endswith("!") and self.chance() < 0.1:
            return "null"
        kind = kind.partition(" = ")[0].rstrip("!")
        if kind.startswith("["):
            if self.chance() < 0.2 and depth < 3:
                return self._value(kind[1:-1].rstrip("!") + "!", variables, depth + 1)
            items = [
                self._value(kind[1:-1], variables, depth + 1) for _ in range(self.pick([0, 1, 2]))
            ]
            return self._joined("[", *items, "]")
        return self._named_value(kind, variables, depth)

    def _named_value(self, kind: str, variables: list[tuple[str, str]], depth: int) -> str:
        match kind:
            case "Int":
                return self.pick(NUMBERS[:7] if self.chance() < 0.9 else NUMBERS)
            case "Float":
                return self.pick(NUMBERS[:3] + NUMBERS[8:12])
            case "String":
                return self.pick(STRINGS + BLOCKS if self.chance() < 0.3 else STRINGS[:3])
            case "ID":
                return self.pick(["1", '"a"', '""'])
            case "Boolean":
                return self.pick(["true", "false"])
        known = self.types.get(kind)
        if known is None or known.kind == "scalar":
            return self.pick(["1", '"a"', "A", "{a: 1}", "[1]", "true", "{}", "1e400"])
        if known.kind == "enum":
            return self.pick(known.members or ["A"])
        if known.kind != "input" or depth > 3:
            return "{}"
        fields = []
        for name, (other, _) in known.fields.items():
            other, _, default = other.partition(" = ")
            if (other.endswith("!") and not default) or self.chance() < 0.4:
                fields.append(f"{name}: {self._value(other, variables, depth + 1)}")
        if known.one_of and not self._is_wrong():
            fields = fields[:1]
        return self._joined("{", *fields, "}")

    # Queries

    def _query(self) -> str:
        self.fragments: dict[str, str] = {}
        self.known_fragments: list[tuple[str, str]] = []
        objects = self._of_kind("type", "interface", "union")
        parts = []
        for number in range(self.pick([0, 0, 1, 2])):
            # A fragment may spread those that were written before it.
            name, on = f"F{number}", self.pick(objects)
            if self._is_wrong():
                name = self.pick(["F0", "on", "F9"])
            text = self._joined(
                "fragment", name, "on", "Nope" if self._is_wrong() else on,
                self._uses("FRAGMENT_DEFINITION", []), self._selections(on, [], 1),
            )  # fmt: skip
            self.known_fragments.append((name, on))
            parts.append(text)
        operations = [self.pick(list(self.roots))]
        operations += [self.pick(list(self.roots))] * (self.chance() < 0.1)
        for number, word in enumerate(operations):
            parts.append(self._operation(word, "" if len(operations) == 1 else f"O{number}"))
        if self._is_wrong():
            parts.append(self.pick(
                [*parts, "{ a }", "query { a }", "subscription { a b }", "fragment F0 on Q { a }",
                 "fragment F on F { a }", "fragment X on Q { ...X }", "query O0 { __typename }",
                 "{ __schema { types { name } } }", '{ __type(name: "a") { name } }',
                 "{ __type { name } }",
                 "mutation { __schema { types { name } } }", "subscription { __typename }",
                 "query O",
                 "query ($a: Int) { a }", "query ($a: Int, $a: Int) { a }", "query () { a }",
                 "type A",
                 "fragment F($a: Int = 1) on Q { a }", "query ($a: [Int!]! = 1) { a }", "{}",
                 "query @d0",
                 '{ ... "on" Q { __typename } }',
                 "{ a: __typename a: __schema { types { name } } }"]
            ))  # fmt: skip
        if self.chance() < 0.05:
            parts.append(f"query D {{ {self._depth()} }}")
        self.random.shuffle(parts)
        return self._joined(*parts)

    def _depth(self) -> str:
        names = [self.pick(DEPTHS) for _ in range(self.pick([1, 3, 4, 5]))]
        text = "name"
        for name in names:
            inner = f"type {{ {text} }}" if name in ("fields", "inputFields") else text
            text = f"{name} {{ {inner} }}"
        return self.pick([f"__schema {{ types {{ {text} }} }}", f'__type(name: "a") {{ {text} }}'])

    def _operation(self, word: str, name: str) -> str:
        variables = [
            (f"v{number}", self._input_type()) for number in range(self.pick([0, 0, 1, 2]))
        ]
        declared = []
        for each, kind in variables:
            default = f"= {self._value(kind, [], 0)}" if self.chance() < 0.2 else ""
            declared.append(
                self._joined(f"${each}:", kind, default, self._uses("VARIABLE_DEFINITION", []))
            )
        selections = self._selections(self.roots[word], variables, 0)
        if self.chance() < 0.9:
            declared = [text for text, (each, _) in zip(declared, variables, strict=True)
                        if f"${each}" in selections]  # fmt: skip
        head = self._joined("(", *declared, ")") if declared else ""
        if word == "query" and not head and not name and self.chance() < 0.5:
            return selections
        name = name or self.pick(["", "", self._name()])
        return self._joined(word, name, head, self._uses(word.upper(), variables), selections)

    def _selections(self, parent: str, variables: list[tuple[str, str]], depth: int) -> str:
        known = self.types.get(parent)
        count = self.pick([1, 1, 2, 2, 3])
        parts = [self._selection(known, variables, depth) for _ in range(count)]
        return self._joined("{", *parts, "}")

    def _selection(self, known: _Type | None, variables: list[tuple[str, str]], depth: int) -> str:
        chosen = self.chance()
        if chosen < 0.12 and self.known_fragments:
            fitting = [
                name
                for name, on in self.known_fragments
                if known and self._overlaps(known.name, on)
            ]
            names = [name for name, _ in self.known_fragments] if self._is_wrong() else fitting
            if names:
                return self._joined(
                    "...", self.pick(names), self._uses("FRAGMENT_SPREAD", variables)
                )
        if chosen < 0.25 and known and depth < 4:
            others = [name for name in self._of_kind("type", "interface", "union")
                      if self._is_wrong() or self._overlaps(known.name, name)]  # fmt: skip
            on = self.pick([*others, ""])
            return self._joined(
                "...", f"on {on}" if on else "", self._uses("INLINE_FRAGMENT", variables),
                self._selections(on or known.name, variables, depth + 1),
            )  # fmt: skip
        if known is None or not known.fields or chosen > 0.93:
            return "__typename"
        name = self.pick(sorted(known.fields))
        kind, parameters = known.fields[name]
        if self._is_wrong():
            name = self.pick([self._name(), "nope", "__typename"])
        alias = f"{self.pick([*NAMES, 'x', 'y', 'z', 'w'])}:" if self.chance() < 0.5 else ""
        inner = ""
        base = kind.strip("[]!")
        composite = base in self.types and self.types[base].kind in ("type", "interface", "union")
        if composite != self._is_wrong():
            inner = "{ __typename }" if depth > 3 else self._selections(base, variables, depth + 1)
        return self._joined(
            alias,
            name,
            self._arguments(parameters, variables),
            self._uses("FIELD", variables),
            inner,
        )

    def _overlaps(self, one: str, other: str) -> bool:
        return bool(self._possible(one) & self._possible(other))

    def _possible(self, name: str) -> set[str]:
        known = self.types[name]
        if known.kind == "union":
            return set(known.members)
        if known.kind == "interface":
            return {each.name for each in self.types.values()
                    if name in each.interfaces and each.kind == "type"}  # fmt: skip
        return {name}


def parsed(name: str, text: str) -> Any:
    """The object of a text as Doorward parses it; None for a text that it refuses."""
    answer = ask_ours(name, [text])
    return json.loads(answer, object_hook=_plain) if answer.startswith("{") else None


def _plain(value: dict[str, Any]) -> Any:
    return int(value["number"]) if set(value) == {"number"} else value


def call_of(seed: int | str) -> tuple[str, list[Any]]:
    """The call of a seed: the name of a built-in and its operands."""
    return _Writer(Random(seed)).call()


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of))
