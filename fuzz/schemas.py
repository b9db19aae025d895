"""Random JSON Schemas and documents, answered by Doorward and by OPA 1.20.2.

    python fuzz/schemas.py [--seconds 60 | --calls N] [--seed 1]

A schema has keywords of all drafts, at times with values of the wrong kind, references to its parts
by pointer and by id, numbers in every form, formats and patterns. The document is written from the
schema, so that it mostly fits. Prints every difference between the answers of `json.match_schema`
and `json.verify_schema`; the exit code is 1 if there was one.

Not written: references without end (OPA's process overflows its stack), to files and other hosts
(nothing is fetched), and powers of ten beyond four digits (OPA computes them exactly, in minutes).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz.calls import campaign
from fuzz.pools import Choices

__all__ = ["call_of"]

DRAFTS: Final = (
    "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema",
)  # fmt: skip
ODD_DRAFTS: Final[tuple[Any, ...]] = (
    "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/schema#", "", "#",
    "https://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema#a",
    "http://json-schema.org/draft-07/schema/", "HTTP://json-schema.org/draft-04/schema#",
    "http://JSON-schema.org/draft-04/schema#", "http://json-schema.org/draft-04/schema?",
    "http://json-schema.org/draft-04/schema##", "a b", "http://[", "%zz", ":", 1, None, ["a"],
    "http://json-schema.org/%64raft-04/schema#", "\n",
)  # fmt: skip
NAMES: Final = ("a", "b", "c", "ab")
ODD_NAMES: Final = (
    "", "a/b", "a~b", "a b", "a%b", "é", "$ref", "$id", "id", "type", "properties", "const", "enum",
    "0", "1", "a.b", "#", "A", "(Root)", "<&>", "\u2028", "a\"b", "{{.x}}", "definitions",
)  # fmt: skip
KINDS: Final = ("array", "boolean", "integer", "number", "null", "object", "string")
PATTERNS: Final = (
    "^a", "b$", "^[a-z]+$", "a|b", "", "^.$", "[0-9]", "(?i)A", "\\d+", "^\\p{L}*$", "é", "\\bab",
    "a{2}", ".*", "^$", "(?s)a.b", "[[:alpha:]]", "\\x61", "\\Aa\\z",
)  # fmt: skip
BAD_PATTERNS: Final = ("(", "[", "(?=a)", "(?<n>a)", "(?P<n>a)", "a**", "\\", "\\1", "a{1001}",
                       "\\C", "(?!a)", "\\Z", "\\u0061", "[b-a]", "(?#a)", "\\pX",
                       "x{2,1}")  # fmt: skip
TEXTS: Final = ("", "a", "b", "ab", "aa", "1", "é", "a b", "A", "\U0001f600", "a\nb", "abc",
                "e\u0301", "{}", "null", "a\u0000b", "<&>")  # fmt: skip
NUMBERS: Final[tuple[Any, ...]] = (
    0, 1, 2, 3, -1, 10, 5, 1.0, 2.5, 0.1, 0.3, -0.0, 1e2, 1e21, 1e22, 1e-7, 5e-324, 2**53,
    2**53 + 1, 2**63, 2**63 - 1, -(2**63), 2**64, 10**30, 1.7e308, 0.30000000000000004, 100,
    1e6, 123456789012,
)  # fmt: skip
FORMS: Final = (
    "1.0", "1e0", "10e-1", "-0", "0.0", "-0.0", "0e5", "1E+2", "1e2", "100", "2.50", "0.1", "0.10",
    "1e-1", "9007199254740993", "9007199254740992.0", "9223372036854775808", "1e19", "1e400",
    "1e-400", "100000000000000000000.5", "3.0000000000000000000001", "12345678901", "1.5e300",
    "0.00001", "123456789.123456789", "4.9e-324", "2e-324", "1e308", "1.8e308", "5e0", "2.0",
)  # fmt: skip
FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "date": ("2024-02-29", "2023-02-29", "2024-1-1", "2024-01-01 ", "0000-01-01", "2024-13-01",
             "24-01-01", "2024-01-32", "٢٠٢٤-01-01", "2024-01-01T00:00:00Z", "-024-01-01"),
    "time": ("12:00:00", "12:00:00Z", "12:00:00+01:00", "12:00", "24:00:00", "12:00:60", "1:00:00",
             "12:00:00.5", "12:00:00,5", "12:00:00z", "12:00:00+0100", "12:00:00.", "12:00:00.5Z",
             "12:00:00+24:00", "12:00:00+23:60", "12:00:00-25:00", "12:00:00.123456789123Z",
             " 12:00:00", "9:00:00", "12:0:00", "12:00:0", "12:00:00Z ", "23:59:59+00:00"),
    "date-time": ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z",
                  "2024-01-01t00:00:00z", "2024-01-01T25:00:00Z", "2024-01-01", "12:00:00",
                  "2024-01-01T00:00:00.5+01:00", "2024-01-01T0:00:00Z", "12:00:00Z",
                  "2024-01-01T00:00:00,5Z", "2024-01-01T00:00:60Z", "2024-02-30T00:00:00Z",
                  "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+01:60", "2024-01-01T00:00Z",
                  "2024-01-01T00:00:00+0100", "2024-01-01T00:00:00 Z", "2024-01-01 00:00:00"),
    "hostname": ("a", "a.b", "-a", "a-", "a_b", "a..b", "a.", "A.B", "1.2.3.4", "é", "a\n", "",
                 "a" * 63, "a" * 64, ".".join(["a" * 60] * 5), "xn--a", "a b", ".", "a.b-c"),
    "email": ("a@b", "a@b.c", "a b@c", "A <a@b>", "a@", "@b", "a@b@c", '"a b"@c', "a.@b", ".a@b",
              "a..b@c", "a@b ", " a@b", "<a@b>", "a@b (c)", "é@b", "a@é", "a@[1.2.3.4]", "a@b.",
              "A B <a@b>", "a", "", "a@b,c@d", "a:b@c;", "a@b<c@d>", '""@b', "a+b@c", "a@b_c",
              "(c) a@b", "a@b (", "=?utf-8?q?a?= <a@b>", "=?x?q?a?= <a@b>", "a@b\n", "a\t@b",
              "a@b (c (d))", "A: a@b;", "A:;", "a @b", "a@ b", '"a\\"b"@c',
              "a!#$%&'*+-/=?^_`{|}~@b", "a@[IPv6:::1]", "a@[x]", "A. B. <a@b>", "a,b <a@b>",
              "\u00a0a@b", "a@b>", "<a@b", "a@-b", "a@b-", '"a" "b" <c@d>', '"é"@b', '"\x01"@b',
              "a\\@b", "a;b@c", "A<a@b>c"),
    "ipv4": ("1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.256", "1.2.3.4 ", "::1.2.3.4", "::ffff:1.2.3.4",
             "1.2.3.4.5", "", "a", "0.0.0.0", "1.2.3.٤", "1.2.3.4%eth0", "0x1.2.3.4", "1.2.3.-4",
             "1.2..4", "fe80::1.2.3.4", "1.2.3.004"),
    "ipv6": ("::1", "::", "1::2::3", "fe80::1%eth0", "1.2.3.4", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8",
             "1:2:3:4:5:6:7", "::12345", "g::", "[::1]", ":1", "1:", "1:2:3:4:5:6:7:8:9", "::1 ",
             "1:2:3:4:5:6:1.2.3.4", "::FFFF", "::01.2.3.4", "1:2:3:4:5:6:7::", "::1.2.3",
             "::00001", "1::2:3:4:5:6:7:8", ":::", "::1/64"),
    "uri": ("http://a", "a:b", "/a", "", "http://a b", "http://a/ b", "http://[::1]", "http://[",
            "a\\b:c", "http://a\\b", "HTTP://A", "1a:b", "a+b:c", ":a", "http://a:b", "http://a:1",
            "http://é", "http://a/é", "http://a/%zz", "http://a/%41", "mailto:a@b", "urn:a:b",
            "//a", "http:", "http://a@b@c", "http://a#b#c", "http://a?%zz", "http://a\x7f",
            "http://a#%zz", "data:,a", "a://b", "-a:b", "http://%41", "http://a%20b/"),
    "uri-reference": ("a", "#a", "?a", "//a", "a:b", "a b", "a\\b", "%zz", "1:2", "", "é", "/a:b",
                      "a/b:c", "\x00", "http://[::1", "*", "./a:b", "::", "#%zz"),
    "uri-template": ("a", "a{b}", "a{b", "a}b", "{a{b}}", "{}", "{a}{b}", "/a/{b}?c={d}", "{a\n}",
                     "a?{b", "a#{b", "http://{a}", "http://a/{b}", "http://a/{", "{a}:b", "a%7Bb",
                     "\\{a}", "{a}}", "}{", "{é}", "a\n{b}", "%zz{a}", "{:b}", "a:{b"),
    "uuid": ("00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000g",
             "00000000000000000000000000000000", "00000000-0000-0000-0000-000000000000\n", "",
             "{00000000-0000-0000-0000-000000000000}", "00000000-0000-0000-0000-0000000000000"),
    "regex": ("a", "(", "", "(?=a)", "[", "a{1001}", "\\C", "(?P<n>a)", "(?<n>a)", "\\", "a**"),
    "json-pointer": ("", "/", "/a", "a", "/~", "/~0", "/~2", "/a~1b", "#/a", "/\n", "/a\n", "//"),
    "relative-json-pointer": ("0", "1/a", "/a", "01", "0#", "1#", "#", "", "10/~0", "1/~", "-1",
                              "0\n", "1a", "٣", "0#/a", "0/\n"),
}  # fmt: skip
FORMATS["idn-email"] = FORMATS["email"]
FORMATS["iri"] = FORMATS["uri"]
FORMATS["iri-reference"] = FORMATS["uri-reference"]
FORMATS["idn-hostname"] = ("é", "")
FORMATS["x"] = ("a",)
FORMATS[""] = ("a",)
FORMATS["Date"] = ("a",)

SIGNS: Final = (
    *" \t\n.:;,-+_@<>()[]{}/\\?#%&=\"'~*!$019afzAFZTtéß٣\u2028\u00a0", "%41", "..", "::", "//",
    "=?",
)  # fmt: skip
"""What is put into the texts of formats."""

MAPS: Final = ("properties", "patternProperties", "definitions", "$defs", "dependencies")
SINGLE: Final = (
    "additionalProperties", "propertyNames", "items", "additionalItems", "contains", "not", "if",
    "then", "else",
)  # fmt: skip
SEVERAL: Final = ("oneOf", "anyOf", "allOf")
WRONG: Final[tuple[Any, ...]] = (
    None, True, False, 1, -1, 1.5, "a", "", [], {}, ["a"], [1], [{}], {"a": 1}, [[]], [None],
    ["a", "a"], {"a": {}}, {"a": ["b", "b"]}, {"a": [1]}, [True], {"a": []}, [1, 1.0], "1",
)  # fmt: skip


class _Form(str):
    """A number as its text in JSON."""


class _Writer(Choices):
    """Writes one call."""

    def call(self) -> tuple[str, list[Any]]:
        """The name of a built-in and its operands."""
        self.is_text = self.chance() < 0.5
        self.wrong = self.pick([0, 0, 0, 0.01, 0.05])
        self.odd = self.pick([0, 0.05, 0.2])
        self.ids = self.pick([0.03, 0.03, 0.2, 0.5])
        self.count = 0
        schema = self._root()
        if self.chance() < 0.2:
            return "json.verify_schema", [self._operand(schema)]
        self.root = schema
        document = self._document(schema, 0)
        return "json.match_schema", [self._operand(document), self._operand(schema)]

    def _operand(self, value: Any) -> Any:
        """A value as an operand: as it is, or as JSON text."""
        simple = not isinstance(value, dict | list)
        if self.is_text or (simple and self.chance() < 0.95):
            text = _written(value)
            if self.chance() < 0.02:
                text = self.pick([f" {text}\n", f"{text}x", text[:-1], f"{text} {text}", "", "{",
                                  f"\ufeff{text}", text.replace("a", "\\u0061"),
                                  text.replace("{", '{"a":1,"type":"null",', 1), "nul",
                                  text.replace('"', '"\\ud800', 1)])  # fmt: skip
            return text
        return _plain(value)

    # Schemas

    def _root(self) -> Any:
        if self.chance() < 0.02:
            return self.pick([True, False, None, 1, "a", [], [{}], {}])
        self.depth = self.pick([1, 2, 2, 3])
        schema = self._schema(0)
        if not isinstance(schema, dict):
            return schema
        if self.chance() < 0.5:
            schema["$schema"] = self.pick(DRAFTS)
        if self.chance() < 0.03:
            schema["$schema"] = self.pick(ODD_DRAFTS)
        if self.chance() < 0.5:
            holder = self.pick(["definitions", "definitions", "definitions", "$defs"])
            parts = {self._name(): self._schema(1) for _ in range(self.pick([1, 2, 3]))}
            known = schema.get(holder)
            schema[holder] = {**parts, **known} if isinstance(known, dict) else parts
        self._refer(schema)
        return schema

    def _schema(self, depth: int) -> Any:
        """A schema; one of the last level has no parts."""
        if self.chance() < (0.1 if depth else 0.01):
            return self.pick([True, False, {}, True, {}])
        schema: dict[str, Any] = {}
        kind = self.pick(KINDS[:1] + KINDS[4:] * 2 + KINDS)
        if self.chance() < 0.5:
            schema["type"] = kind if self.chance() < 0.8 else self._kinds()
        for _ in range(self.pick([0, 1, 1, 2, 3])):
            self._add(schema, kind, depth)
        if depth < self.depth:
            for _ in range(self.pick([0, 1, 1, 2])):
                keyword = self.pick(["properties"] * 4 + [*MAPS, *SINGLE, "items", *SEVERAL])
                schema[keyword] = self._parts(keyword, depth + 1)
        if self.chance() < 0.02:
            schema[self.pick(["title", "description", "default", "$comment", "examples", "x"])] = (
                "a"
            )
        if self.chance() < self.ids:
            schema[self.pick(["$id", "$id", "id"])] = self._id()
        if self.chance() < 0.01:
            schema["$schema"] = self.pick([*DRAFTS, *ODD_DRAFTS])
        if self.chance() < self.wrong:
            keyword = self.pick(
                [*MAPS, *SINGLE, *SEVERAL, *COUNTS, *LIMITS, "multipleOf", "type", "required",
                 "enum", "pattern", "format", "uniqueItems", "title", "description", "const",
                 "$ref", "$id", "id", "$schema", "exclusiveMinimum", "exclusiveMaximum", "default"]
            )  # fmt: skip
            schema[keyword] = self.pick(WRONG)
        return schema

    def _kinds(self) -> Any:
        chosen = [self.pick(KINDS) for _ in range(self.pick([1, 2, 2, 3]))]
        if self.chance() < 0.97:
            return list(dict.fromkeys(chosen))
        return self.pick([[*chosen, chosen[0]], [], ["any"], "any", "String", [1], "", None])

    def _parts(self, keyword: str, depth: int) -> Any:
        if keyword in SEVERAL:
            if self.chance() < 0.02:
                return []
            return [self._schema(depth) for _ in range(self.pick([1, 2, 2, 3]))]
        if keyword == "items" and self.chance() < 0.4:
            return [self._schema(depth) for _ in range(self.pick([0, 1, 2, 3]))]
        if keyword == "dependencies":
            return {self._name(): self._dependency(depth) for _ in range(self.pick([1, 2]))}
        if keyword == "patternProperties":
            return {self._pattern(): self._schema(depth) for _ in range(self.pick([1, 1, 2]))}
        if keyword in MAPS:
            return {self._name(): self._schema(depth) for _ in range(self.pick([0, 1, 2, 2, 3]))}
        if keyword in ("additionalProperties", "additionalItems") and self.chance() < 0.5:
            return self.pick([False, False, True])
        return self._schema(depth)

    def _dependency(self, depth: int) -> Any:
        if self.chance() < 0.5:
            return self._schema(depth)
        return [self._name() for _ in range(self.pick([0, 1, 1, 2]))]

    def _add(self, schema: dict[str, Any], kind: str, depth: int) -> None:
        """Add a keyword without parts, mostly one for values of `kind`."""
        if self.chance() < 0.1:
            kind = self.pick(KINDS)
        chosen = self.chance()
        if chosen < 0.15:
            schema["const"] = self._value(kind, 1)
        elif chosen < 0.3:
            values = [self._value(self.pick([kind, kind, "string"]), 1) for _ in range(3)]
            schema["enum"] = self.pick([values[:1], values[:2], values, values, []])
        elif kind == "string":
            self._add_text(schema)
        elif kind in ("number", "integer"):
            self._add_number(schema)
        elif kind == "array":
            keyword = self.pick(["minItems", "maxItems", "uniqueItems", "uniqueItems"])
            schema[keyword] = self._count() if keyword != "uniqueItems" else self.chance() < 0.9
        else:
            keyword = self.pick(["minProperties", "maxProperties", "required", "required"])
            if keyword == "required":
                names = [self._name() for _ in range(self.pick([0, 1, 1, 2]))]
                schema[keyword] = names if self.chance() < 0.02 else list(dict.fromkeys(names))
            else:
                schema[keyword] = self._count()

    def _add_text(self, schema: dict[str, Any]) -> None:
        chosen = self.chance()
        if chosen < 0.3:
            schema[self.pick(["minLength", "maxLength"])] = self._count()
        elif chosen < 0.55:
            schema["pattern"] = self._pattern()
        else:
            schema["format"] = self.pick(list(FORMATS))

    def _add_number(self, schema: dict[str, Any]) -> None:
        keyword = self.pick([*LIMITS, *LIMITS, "multipleOf"])
        if keyword == "multipleOf":
            number = self._number()
            if self.chance() < 0.95 and str(number).startswith(("-", "0")):
                number = self.pick([1, 2, 0.1, 0.01, 2.5, 3, 7, 1e-7])
            schema[keyword] = number
            return
        schema[keyword] = self._number()
        exclusive = f"exclusive{keyword.removeprefix('exclusive').capitalize()}"
        if self.chance() < 0.3:
            schema[exclusive] = (
                self.pick([True, True, False]) if self.chance() < 0.6 else self._number()
            )

    def _count(self) -> Any:
        if self.chance() < 0.93:
            return self.pick([0, 1, 1, 2, 2, 3, 5])
        return self._number()

    def _number(self) -> Any:
        if self.is_text and self.chance() < 0.4:
            return _Form(self.pick(FORMS))
        return self.pick(NUMBERS[:8] if self.chance() < 0.5 else NUMBERS)

    def _pattern(self) -> str:
        return self.pick(BAD_PATTERNS if self.chance() < self.wrong * 2 else PATTERNS)

    def _name(self) -> str:
        return self.pick(ODD_NAMES if self.chance() < self.odd else NAMES)

    def _id(self) -> Any:
        """An id; most of them differ."""
        self.count += 1
        number = self.count if self.chance() < 0.9 else 1
        return self.pick([
            f"#n{number}", f"n{number}.json", f"http://a.example/n{number}", f"/n{number}",
            f"http://a.example/n{number}#", f"n{number}/", f"../n{number}", f"?n{number}",
            f"http://a.example/n{number}#m", f"urn:n{number}", f"#/n{number}", f"n{number} b",
            *(["", "#", "%zz", "http://[", ":", "a:b", "//b/c"] if self.chance() < 0.2 else []),
        ])  # fmt: skip

    # References

    def _refer(self, schema: dict[str, Any]) -> None:
        """Put references into some parts of a schema.

        A part refers to parts behind it, as they are read, and to others only where a document
        gets smaller on the way.
        """
        parts: list[_Found] = []
        _collect(schema, "#", parts, smaller=False)
        several = self.pick([0, 0, 1, 1, 2, 3, 6])
        used: dict[str, dict[str, Any]] = {}
        if len(parts) < 2:
            return
        for _ in range(several):
            index = self.pick(range(len(parts)))
            part, path, smaller = parts[index]
            if part is schema and self.chance() < 0.7:
                continue
            behind = [each for each in parts[index + 1 :] if not each[1].startswith(f"{path}/")]
            if smaller and self.chance() < 0.3:
                behind = parts[:1]
            if not behind or "$ref" in part:
                continue
            target = self.pick(behind)
            # Two references could lead in a circle without a step into the document.
            if target[1] == "#" and any("$ref" in each[0] for each in parts):
                continue
            reference = self._pointer(target[1], target[0])
            for key in (target[1], reference):
                # What is beside the first of two equal references is not read, and which one is
                # the first depends on the order of a Go map.
                if isinstance(key, str) and (other := used.setdefault(key, part)) is not part:
                    part.clear()
                    other_reference = other["$ref"]
                    other.clear()
                    other["$ref"] = other_reference
            part["$ref"] = reference

    def _pointer(self, path: str, target: dict[str, Any]) -> Any:
        name = target.get("id", target.get("$id"))
        if isinstance(name, str) and self.chance() < 0.7:
            return self.pick(
                [name, name, f"{name}#", name.partition("#")[0], f"http://a.example/{name}"]
            )
        if self.chance() < 0.93:
            return path
        return self.pick([
            path.removeprefix("#"), f"{path}/", path.replace("/", "//", 1), path.upper(),
            f"{path}/x", f"{path}/0", f"{path}/type", path.replace("a", "%61"), f"#{path}",
            "#/", "#x", "x", "",
            "/", "http://localhost:1/x", "%zz", "http://[", f"x{path}", "#/definitions", "#%", ":",
            *DRAFTS, f"{DRAFTS[0]}/definitions/stringArray", f"{DRAFTS[2]}/properties/type",
            "#/required/0", 1, None, f"?{path}", f"{path}%20", f" {path}",
        ])  # fmt: skip

    # Documents

    def _value(self, kind: str, depth: int) -> Any:
        match kind:
            case "array":
                return [self._any(depth + 1) for _ in range(self.pick([0, 1, 2, 2, 3]))]
            case "boolean":
                return self.pick([True, False])
            case "integer" | "number":
                return self._number()
            case "null":
                return None
            case "object":
                return {self._name(): self._any(depth + 1) for _ in range(self.pick([0, 1, 2, 3]))}
            case _:
                return self.pick(TEXTS)

    def _any(self, depth: int) -> Any:
        return self._value(self.pick(KINDS if depth < 3 else KINDS[1:5]), depth)

    def _document(self, schema: Any, depth: int) -> Any:
        """A value that mostly fits a schema."""
        if not isinstance(schema, dict) or depth > 6 or self.chance() < 0.08:
            return self._any(depth)
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            return self._document(_at(self.root, reference), depth + 1)
        if "const" in schema and self.chance() < 0.8:
            return self._near(schema["const"])
        values = schema.get("enum")
        if isinstance(values, list) and values and self.chance() < 0.8:
            return self._near(self.pick(values))
        for keyword in (*SEVERAL, "then", "if"):
            parts = schema.get(keyword)
            if parts and self.chance() < 0.4:
                return self._document(
                    self.pick(parts) if isinstance(parts, list) else parts, depth + 1
                )
        return self._fitting(schema, self._kind(schema), depth)

    def _kind(self, schema: dict[str, Any]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            kind = self.pick(kind)
        if kind in KINDS and self.chance() < 0.95:
            return str(kind)
        for keyword, others in (
            (("properties", "patternProperties", "required", "additionalProperties",
              "dependencies", "minProperties", "maxProperties", "propertyNames"), "object"),
            (("items", "contains", "uniqueItems", "minItems", "maxItems"), "array"),
            (("format", "pattern", "minLength", "maxLength"), "string"),
            ((*LIMITS, "multipleOf"), "number"),
        ):  # fmt: skip
            if any(each in schema for each in keyword) and self.chance() < 0.9:
                return others
        return self.pick(KINDS)

    def _fitting(self, schema: dict[str, Any], kind: str, depth: int) -> Any:
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                parts = schema.get("items", schema.get("contains", True))
                count = self.pick([0, 1, 2, 3])
                parts = parts if isinstance(parts, list) else [parts] * count
                more = [schema.get("additionalItems", True)] * self.pick([0, 0, 1])
                items = [self._document(each, depth + 1) for each in [*parts, *more]]
                if items and self.chance() < 0.1:
                    items.append(self._near(items[0]))
                return items
            case "string":
                format_ = schema.get("format")
                if isinstance(format_, str) and self.chance() < 0.9:
                    return self._changed(self.pick(FORMATS.get(format_, ("a",))))
                return self.pick(TEXTS)
            case "integer" | "number":
                limits = [schema[each] for each in (*LIMITS, "multipleOf") if each in schema]
                return (
                    self._near(self.pick(limits))
                    if limits and self.chance() < 0.6
                    else self._number()
                )
            case _:
                return self._value(kind, depth)

    def _changed(self, text: str) -> str:
        """A text, in which some characters are at times others."""
        while self.chance() < 0.3:
            at = self.random.randint(0, len(text))
            end = min(len(text), at + self.pick([0, 0, 1, 1, 2]))
            text = text[:at] + self.pick([*SIGNS, "", text[:3], text[at:]]) + text[end:]
        return text

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        built: dict[str, Any] = {}
        properties = schema.get("properties")
        if isinstance(properties, dict):
            for name, part in properties.items():
                if self.chance() < 0.8:
                    built[name] = self._document(part, depth + 1)
        names = schema.get("required")
        for name in names if isinstance(names, list) else []:
            if isinstance(name, str) and self.chance() < 0.9:
                built.setdefault(name, self._any(depth + 1))
        other = schema.get("additionalProperties", True)
        for _ in range(self.pick([0, 0, 1, 2])):
            built.setdefault(self._name(), self._document(other, depth + 1))
        return built

    def _near(self, value: Any) -> Any:
        """A value, or one that is nearly it."""
        if self.chance() < 0.7:
            return value
        match value:
            case _Form():
                return self.pick([_Form(f"{value}0") if "." in value and "e" not in value.lower()
                                  else value, self._number()])  # fmt: skip
            case bool():
                return self.pick([1, 0, "true", not value])
            case int() | float():
                near = [value + 1, value - 1, -value, str(value), value * 2]
                return self.pick([*near, *([float(value)] if abs(value) < 2**1000 else [])])
            case str():
                return self.pick([f"{value}a", value[:-1], value.upper(), [value], f"{value}\n"])
            case list():
                return self.pick([[*value, 1], value[1:], value[::-1]])
            case dict():
                return self.pick([{**value, "a": 1}, dict(reversed(list(value.items())))])
            case _:
                return self.pick([False, 0, "null", ""])


COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


_Found: TypeAlias = tuple[dict[str, Any], str, bool]
"""A schema in a schema, its pointer, and whether a document gets smaller on the way to it."""
SMALLER: Final = (
    "properties", "patternProperties", "items", "additionalItems", "additionalProperties",
    "contains",
)  # fmt: skip


def _collect(node: Any, path: str, parts: list[_Found], *, smaller: bool) -> None:
    """Collect the schemas in a schema."""
    if not isinstance(node, dict):
        return
    parts.append((node, path, smaller))
    for keyword in (*SINGLE, *SEVERAL, *MAPS):
        part = node.get(keyword)
        deeper = smaller or keyword in SMALLER
        if isinstance(part, list):
            for index, each in enumerate(part):
                _collect(each, f"{path}/{keyword}/{index}", parts, smaller=deeper)
        elif isinstance(part, dict) and keyword in MAPS:
            for name, each in part.items():
                escaped = name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
                _collect(each, f"{path}/{keyword}/{escaped}", parts, smaller=deeper)
        else:
            _collect(part, f"{path}/{keyword}", parts, smaller=deeper)


def _at(root: Any, pointer: str) -> Any:
    """The part of a schema at a pointer; True where there is none."""
    here = root
    for part in pointer.split("/")[1:]:
        name = part.replace("%25", "%").replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict):
            here = here.get(name, True)
        elif isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            return True
    return here


def _written(value: Any) -> str:
    """A value as JSON, numbers in the form that they have."""
    match value:
        case _Form():
            return str(value)
        case dict():
            pairs = [f"{json.dumps(name)}: {_written(each)}" for name, each in value.items()]
            return "{" + ", ".join(pairs) + "}"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case _:
            return json.dumps(value)


def _plain(value: Any) -> Any:
    """A value with Python's numbers."""
    if isinstance(value, _Form):
        return json.loads(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def call_of(seed: int | str) -> tuple[str, list[Any]]:
    """The call of a seed: the name of a built-in and its operands."""
    return _Writer(Random(seed)).call()


if __name__ == "__main__":
    sys.exit(campaign(__doc__, call_of))
