"""Random policies with every shape of head and value, inputs of every Python type, and nasty rows.

    package f
    default allow := …         allow := VALUE if { BODY } else := VALUE if { BODY }
    helper := VALUE if …       function(x) := VALUE if …       object[KEY] := VALUE if …

The rows are `input.doc`. `row_comparison` compares the lists of such policies with their decisions.
"""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from collections import UserString, deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tests.filters.random_functions import DOCUMENTS, Functions

__all__ = ["COLUMNS", "TEXTS", "Draw", "document", "draw_input", "draw_policy", "draw_rows"]

COLUMNS: Final[dict[str, Any]] = {
    "a": "number",
    "b": "number",
    "s": "text",
    "t": "text",
    "ok": "boolean",
    "u": "uuid",
    "d": "date",
    "e": "moment",
    "c": "choice",
    "m": "json",
    "g": "array",
}
PLAIN: Final = ["number", "text", "boolean"]
"""Kinds whose values are the same in every database and program."""
TEXTS: Final = ["", "a", "A", "b", "ab", "Ab", "a%", "a_", "%", "\\", "'", "a ", "ä", "Ä", "1"]
_CELLS: Final[dict[str, list[Any]]] = {
    "a": [None, 0, 1, 2, -1, 3, 10, 1.5, 0.25],
    "b": [None, 0, 1, 2, -1, 3, 10, 1.5, 0.25, 2.0**53],
    "s": [None, *TEXTS, "é", "𝄞"],
    "t": [None, *TEXTS, "deny", "true"],
    "ok": [None, True, False],
    "u": [None, *[str(uuid.UUID(int=each)) for each in (0, 5, 6, 0xABCDEF, 2**128 - 1)]],
    "d": [None, "0001-01-01", "1999-12-31", "2026-10-31", "2026-11-01", "2026-11-23", "9999-12-31"],
    "e": [
        None,
        "1600-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "2026-11-23T12:00:00Z",
        "2026-11-23T12:00:00.000001Z",
        "2026-11-23T12:00:00.500000Z",
        "2300-01-01T00:00:00Z",
    ],
    "c": [None, "a", "A", "b b"],
    "m": [
        None,
        {},
        [],
        "a",
        {"k": "a"},
        {"k": "A", "n": {"k": 1}},
        {"k": 1, "l": ["a", "A", 1]},
        {"k": 1.5, "l": []},
        {"k": None, "l": [None]},
        {"k": True, "n": {"k": "a"}},
        {"k": False, "l": [True, {"k": "a"}]},
        {"k": 9007199254740993, "n": 3},
        {"k": [1], "l": {"x": "a", "y": 2}},
        {"k": {}, "n": {"k": None}},
        {"k": "", "l": "", "n": "a"},
        "",
        {"l": [{"k": 1}, {"k": "b"}]},
        {"ä": "a", "n": {"ä": 1}},
        *DOCUMENTS,
    ],
    "g": [None, [], ["a"], ["A", "a"], ["b", None], ["", "ab"]],
}
_NUMBERS: Final = [0, 1, 2, -1, 3, 10, 1.5, 0.25, 2**53 + 1]
_OPERATORS: Final = ["==", "==", "!=", "<", "<=", ">", ">="]
_NAMES: Final = ["v", "w"]
_LISTS: Final = ["items", "others"]


class Status(enum.Enum):
    """An enumeration of texts."""

    FIRST = "a"
    SECOND = "A"


class Level(enum.IntEnum):
    """An enumeration of numbers."""

    LOW = 1
    HIGH = 3


class Name(str):
    """A subclass of `str`."""

    __slots__ = ()


@dataclass
class Pair:
    """A dataclass, which becomes an object."""

    left: Any
    right: Any


class Draw(Random):
    """The source of chance, with a shorthand for weights."""

    def chance(self, probability: float) -> bool:
        return self.random() < probability


# Inputs


def _scalars() -> list[Any]:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    return [
        *(None, True, False),
        *(0, 1, 2, -1, 10, Level.HIGH),
        *(0.0, -0.0, 1.0, 1.5, 0.25, 2.0, 3.0, 2.0**53, 1e20),
        *(Decimal("1.5"), Decimal("2"), Decimal("0.250"), Decimal("1E+1")),
        *(*TEXTS, Name("a"), UserString("b"), Status.FIRST, Status.SECOND),
        uuid.UUID(int=5),
        datetime.date(2026, 11, 23),
        datetime.datetime(2026, 11, 23, 12, tzinfo=zone),
    ]


_SCALARS: Final = _scalars()
_EDGES: Final = [1e300, 5e-324, 2.0**63, -(2.0**63), 1e-7, 2**63, 2**64, Decimal("1e-30")]
"""Numbers that databases hold otherwise, or not at all."""


def _scalar(draw: Draw) -> Any:
    return draw.choice(_EDGES) if draw.chance(0.05) else draw.choice(_SCALARS)


def _collection(draw: Draw) -> Any:
    items = [_scalar(draw) for _ in range(draw.randint(0, 4))]
    make: list[Callable[[list[Any]], Any]] = [
        list,
        tuple,
        deque,
        _as_set,
        _as_frozenset,
        lambda each: dict(zip("abcd", each, strict=False)),
        lambda each: MappingProxyType(dict(zip("abcd", each, strict=False))),
        lambda each: Pair(each[0], each[-1]) if each else Pair(1, "a"),
        lambda each: [each, *each],
    ]
    return draw.choice(make)(items)


def _as_set(items: list[Any]) -> set[Any]:
    return {each for each in items if each.__hash__ is not None}


def _as_frozenset(items: list[Any]) -> frozenset[Any]:
    return frozenset(_as_set(items))


def draw_input(draw: Draw) -> dict[str, Any]:
    """What the policy knows: scalars under `v` and `w`, collections under `items` and `others`."""
    known = {name: _scalar(draw) for name in _NAMES}
    known |= {name: _collection(draw) for name in _LISTS}
    if draw.chance(0.1):
        known[draw.choice(_NAMES)] = _collection(draw)
    if draw.chance(0.1):
        del known[draw.choice([*_NAMES, *_LISTS])]
    return known


# Rows


def draw_rows(draw: Draw, count: int) -> list[tuple[Any, ...]]:
    """Rows of `doc`, each with its number before its columns."""
    return [(n, *[draw.choice(_CELLS[name]) for name in COLUMNS]) for n in range(count)]


def document(row: tuple[Any, ...], *, nulls: str) -> dict[str, Any]:
    """A row as the policy sees it."""
    fields = dict(zip(COLUMNS, row[1:], strict=True))
    return {k: v for k, v in fields.items() if v is not None or nulls == "null"}


# Policies


def draw_policy(draw: Draw, *, typed: bool = False) -> str:
    """A policy with the document `allow`; `typed`: columns are compared with their own kinds."""
    return _Policy(draw, typed=typed).text()


class _Policy:
    def __init__(self, draw: Draw, *, typed: bool) -> None:
        self._draw = draw
        self._typed = typed
        self._is_plain = draw.chance(0.5)
        """Whether heads are true, as in most policies."""
        self._is_logical = draw.chance(0.2)
        """Whether `and`, `or` and the `not` of bodies are imported."""
        self._helpers: dict[str, str] = {}
        known = ["input.v", "input.w", "data.v"]
        self._functions = Functions(draw, "input.doc", COLUMNS, self._function_rule, known)

    def text(self) -> str:
        draw = self._draw
        if draw.chance(0.35):
            return self._short_text()
        rules = []
        if draw.chance(0.5):
            default = "false" if self._is_plain or draw.chance(0.6) else self._constant()
            rules.append(f"default allow := {default}")
        for _ in range(draw.randint(1, 3)):
            rules.append(self._rule("allow", "" if self._is_plain else None))
        rules += self._helpers.values()
        draw.shuffle(rules)
        words = ["and", "or", "not"] if self._is_logical else []
        imports = [f"import future.keywords.{word}" for word in words]
        return "\n\n".join(["package f", *imports, *rules]) + "\n"

    def _short_text(self) -> str:
        """A policy of one or two expressions, mostly calls: no others hide what they select."""
        draw = self._draw
        draw_body = self._simple if self._typed else self._functions.expression
        is_true = self._typed or draw.chance(0.7)
        head = "allow" if is_true else f"allow := {self._functions.value()}"
        body = [self._negated(draw_body()) for _ in range(draw.choice([1, 1, 1, 2]))]
        rules = [f"{head} if {{\n\t" + "\n\t".join(body) + "\n}"]
        if draw.chance(0.25):
            value = "true" if self._typed else draw.choice(["true", "true", "false"])
            rules.append(f"allow := {value} if {self._simple()}")
        if draw.chance(0.25):
            default = "false" if self._typed else draw.choice(["true", "false"])
            rules.append(f"default allow := {default}")
        return "\n\n".join(["package f", *rules, *self._helpers.values()]) + "\n"

    def _negated(self, text: str) -> str:
        can_be = not text.startswith("not ")
        return f"not {text}" if can_be and self._draw.chance(0.4) else text

    def _rule(self, head: str, value: str | None) -> str:
        """`value` None: any; "": true, unsaid."""
        text = f"{head}{self._assigned(value)} if {self._body()}"
        if self._draw.chance(0.06):
            text += f" else{self._assigned(value)} if {self._body()}"
        return text

    def _assigned(self, value: str | None) -> str:
        value = self._value() if value is None else value
        return f" := {value}" if value else ""

    def _value(self) -> str:
        draw = self._draw
        chance = draw.random()
        if chance < 0.45:
            return "true"
        if chance < 0.6:
            return "false"
        if chance < 0.7:
            return self._column()
        if chance < 0.75:
            return draw.choice(["input.v", "data.v", "input.items"])
        if chance < 0.79 and not self._typed:
            return self._functions.value()
        if chance < 0.83 and not self._typed:
            return draw.choice([self._truth, self._call, self._function])()
        return self._constant()

    def _constant(self) -> str:
        objects = [
            '{"allowed": true}',
            '{"allowed": true, "level": 3}',
            '{"allowed": true, "headers": 5}',
            '{"allowed": false, "body": "suspended"}',
            '{"allowed": "yes"}',
            '{"reason": "none"}',
            f'{{"allowed": {self._column()}}}',
            f'{{"allowed": {self._column()}, "body": "x"}}',
            f'{{"allowed": true, "owner": {self._column()}}}',
        ]
        plain = ["true", "false", '"deny"', '""', "0", "1", "null", "[]", "[true]", "{}", "{1}"]
        return self._draw.choice([*plain, *objects])

    def _column(self, kind: str | None = None) -> str:
        kinds = [kind] if kind else PLAIN if self._typed or self._draw.chance(0.8) else None
        names = [name for name, each in COLUMNS.items() if kinds is None or each in kinds]
        return f"input.doc.{self._draw.choice(names)}"

    def _body(self) -> str:
        count = self._draw.choice([1, 1, 2, 2, 3])
        return "{\n\t" + "\n\t".join([self._expr() for _ in range(count)]) + "\n}"

    def _expr(self) -> str:
        if self._is_logical and self._draw.chance(0.4):
            return self._logical()
        return self._plain()

    def _logical(self) -> str:
        """Operands of `and` and `or`, or a negated body. A `:=` needs braces."""
        draw = self._draw
        if draw.chance(0.2):
            return f"not {{ {self._inner()} }}"
        return f"{self._side()} {draw.choice(['and', 'and', 'or'])} {self._side()}"

    def _side(self) -> str:
        if self._draw.chance(0.4):
            return f"{{ {self._inner()} }}"
        text = self._plain()
        return f"{{ {self._inner()} }}" if "\n" in text else text

    def _inner(self) -> str:
        count = self._draw.choice([1, 1, 2])
        return "; ".join([self._plain().replace("\n\t", "; ") for _ in range(count)])

    def _plain(self) -> str:
        draw = self._draw
        chance = draw.random()
        if not self._typed and draw.chance(0.3):
            text = self._of_own_type()
        elif chance < 0.35:
            text = self._compared()
        elif chance < 0.5:
            text = self._member()
        elif chance < 0.58:
            text = self._search()
        elif chance < 0.63:
            text = self._column()
        elif chance < 0.68:
            text = draw.choice(["input.v == 1", 'input.v != "a"', "data.v > 0", "input.w"])
        elif chance < 0.73:
            name, kind = f"x{draw.randint(1, 99)}", self._kind()
            return f"{name} := {self._column(kind)}\n\t{self._compared(name, kind)}"
        else:
            text = self._helper()
        return f"not {text}" if draw.chance(0.3) else text

    def _of_own_type(self) -> str:
        """What is said of columns that only applications have."""
        kinds = [self._of_text, self._of_moment, self._of_document, self._of_array, self._folded]
        kinds += [self._of_count, self._of_pattern, self._with_default]
        kinds += [self._functions.expression] * 4
        return self._draw.choice(kinds)()

    def _of_text(self) -> str:
        """Columns that are texts to a policy alone."""
        draw = self._draw
        name = draw.choice(["u", "d", "d", "e", "c", "c"])
        cells = [each for each in _CELLS[name] if each is not None]
        known = draw.choice([*cells, *cells, "", "2026-1", "2026-11-", "~", "a", None, 5, True])
        chance = draw.random()
        if chance < 0.2:
            return f"input.doc.{name} in {json.dumps(draw.sample(_CELLS[name], 2))}"
        if chance < 0.3:
            return f"startswith(input.doc.{name}, {json.dumps(str(known)[:4])})"
        operators = _OPERATORS if name in "dc" else ["==", "!="]
        return f"input.doc.{name} {draw.choice(operators)} {json.dumps(known)}"

    def _of_moment(self) -> str:
        draw = self._draw
        known = draw.choice(
            [0, -1, 1, 1795435200000000000, 1795435200000000001, 1795435200000001000, 10**30, 1.5]
        )
        text = "time.parse_rfc3339_ns(input.doc.e)"
        if draw.chance(0.3):
            clock = draw.choice(["time.now_ns()", "time.now_ns() - 3600000000000"])
            return f"{text} {draw.choice(_OPERATORS)} {clock}"
        return f"{text} {draw.choice(_OPERATORS)} {json.dumps(known)}"

    def _of_document(self) -> str:
        draw = self._draw
        known = json.dumps(draw.choice(["a", "A", "", 1, 1.5, 2**53 + 1, 0, True, False, None]))
        path = draw.choice([".k", ".k", ".n.k", ".l", ".x", ".k.k", '["ä"]', '.n["ä"]'])
        chance = draw.random()
        if chance < 0.5:
            return f"input.doc.m{path} {draw.choice(_OPERATORS)} {known}"
        if chance < 0.6:
            return f"input.doc.m{path}"
        if chance < 0.75:
            return f"{known} in input.doc.m.{draw.choice('ln')}"
        if chance < 0.85:
            return f"some_{self._row_rule('input.doc.m.l', f'row.k == {known}')}"
        return f"some_{self._row_rule('input.doc.m.l', f'row != {known}')}"

    def _of_array(self) -> str:
        draw = self._draw
        known = json.dumps(draw.choice(["a", "A", "b", "", None, 1]))
        chance = draw.random()
        if chance < 0.4:
            return f"{known} in input.doc.g"
        if chance < 0.5:
            return "input.doc.t in input.doc.g"
        if chance < 0.6:
            return f"input.doc.g {draw.choice(_OPERATORS)} {known}"
        operator = draw.choice(_OPERATORS)
        return f"some_{self._row_rule('input.doc.g', f'row {operator} {known}')}"

    def _row_rule(self, collection: str, test: str) -> str:
        """A rule about one element, or about each."""
        name = str(len(self._helpers))
        body = f"some row in {collection}\n\t{test}"
        if self._draw.chance(0.3):
            body = f"every row in {collection} {{ {test} }}"
        self._helpers[f"some_{name}"] = f"some_{name} if {{\n\t{body}\n}}"
        return name

    def _function_rule(self, body: str, parameter: str) -> str:
        name = self._name("calls")
        head = f"{name}({parameter})" if parameter else name
        self._helpers[name] = f"{head} if {{\n\t{body}\n}}"
        return name

    def _folded(self) -> str:
        draw = self._draw
        call = draw.choice(["lower({})", "upper({})", "trim_space({})", 'trim({}, "ab ")'])
        text = call.format(f"input.doc.{draw.choice('st')}")
        known = json.dumps(draw.choice(TEXTS))
        chance = draw.random()
        if chance < 0.5:
            return f"{text} {draw.choice(['==', '!='])} {known}"
        if chance < 0.7:
            return f"{text} in {json.dumps(draw.sample(TEXTS, 2))}"
        return f"{draw.choice(['startswith', 'endswith', 'contains'])}({text}, {known})"

    def _of_count(self) -> str:
        draw = self._draw
        collection = draw.choice(["g", "m.l", "m.k", "m.n", "m"])
        number = draw.choice(["0", "0", "1", "2", "-1", "0.5", '"a"', "null"])
        return f"count(input.doc.{collection}) {draw.choice(_OPERATORS)} {number}"

    def _with_default(self) -> str:
        draw = self._draw
        name, default = draw.choice("abstdcu"), json.dumps(draw.choice([None, True, 1, 1.5, "a"]))
        column = f'object.get(input.doc, "{name}", {default})'
        chance = draw.random()
        if chance < 0.2:
            return column
        if chance < 0.4:
            return f"{column} in {json.dumps(draw.sample(_CELLS[name], 2))}"
        operators = _OPERATORS if name != "u" else ["==", "!="]
        known = draw.choice([*_CELLS[name], *_NUMBERS, "a", "", True])
        return f"{column} {draw.choice(operators)} {json.dumps(known)}"

    def _of_pattern(self) -> str:
        draw = self._draw
        column = f"input.doc.{draw.choice('stdc')}"
        text = draw.choice(["a", "A", "ab", "b", "1", ""])
        if draw.chance(0.5):
            pattern = f"{draw.choice(['', '^'])}{text}{draw.choice(['', '$'])}"
            return f"regex.match({json.dumps(pattern)}, {column})"
        pattern = f"{draw.choice(['', '**'])}{text}{draw.choice(['', '**'])}"
        return f"glob.match({json.dumps(pattern)}, {draw.choice(['[]', 'null'])}, {column})"

    def _kind(self) -> str:
        return self._draw.choice(["number", "number", "text", "text", "boolean"])

    def _compared(self, left: str = "", kind: str = "") -> str:
        draw = self._draw
        kind = kind or self._kind()
        column = left or self._column(kind)
        operator = draw.choice(_OPERATORS)
        other = self._operand(kind)
        if draw.chance(0.2):
            other = self._column(kind if self._typed else None)
        if draw.chance(0.2):
            return f"{other} {operator} {column}"
        return f"{column} {operator} {other}"

    def _operand(self, kind: str) -> str:
        draw = self._draw
        if draw.chance(0.35) and not self._typed:
            return draw.choice(["input.v", "input.w", "data.v", "data.w"])
        if draw.chance(0.3) and not self._typed:
            kind = draw.choice(["number", "text", "boolean", "null"])
        return json.dumps(self._literal(kind))

    def _literal(self, kind: str) -> Any:
        known: dict[str, list[Any]] = {
            # Of doubles the text of the HTTP interface knows no other number.
            "number": _NUMBERS[:-1] if self._typed else _NUMBERS,
            "text": TEXTS,
            "boolean": [True, False],
            "null": [None],
        }
        return self._draw.choice(known[kind])

    def _member(self) -> str:
        draw = self._draw
        kind = draw.choice(["number", "text"])
        if draw.chance(0.5) and not self._typed:
            known = draw.choice(["input.items", "input.others", "data.items", "data.others"])
        else:
            kinds = [kind] if self._typed else [kind, kind, "number", "text", "null", "boolean"]
            drawn = [self._literal(draw.choice(kinds)) for _ in range(draw.randint(0, 4))]
            known = json.dumps(drawn)
        return f"{self._column(kind)} in {known}"

    def _search(self) -> str:
        name = self._draw.choice(["startswith", "endswith", "contains"])
        return f"{name}({self._column('text')}, {json.dumps(self._draw.choice(TEXTS))})"

    # Rules that the document refers to

    def _helper(self) -> str:
        kinds = [self._truth, self._truth, self._level, self._function, self._call]
        kinds += [self._members, self._object]
        return self._draw.choice(kinds)()

    def _defined(self, name: str, heads: list[str], values: list[str], default: str) -> None:
        """Rules under `name`, with simple bodies."""
        draw = self._draw
        rules = []
        if default and draw.chance(0.3):
            rules.append(f"default {name} := {default}")
        for _ in range(draw.randint(1, 2)):
            value = draw.choice(values)
            head = draw.choice(heads)
            body = [self._simple() for _ in range(draw.randint(1, 2))]
            lines = "\n\t".join(body)
            text = f"{head} := {value}" if value else head
            rule = f"{text} if {{\n\t{lines}\n}}"
            if draw.chance(0.04 if self._typed else 0.25) and "[" not in head and value != "":
                rule += self._otherwise(values)
            elif draw.chance(0.04) and "[" not in head and "contains" not in head:
                rule += f" else := {value or 'true'} if {self._simple()}"
            rules.append(rule)
        self._helpers[name] = "\n\n".join(rules)

    def _otherwise(self, values: list[str]) -> str:
        """One or two rules after `else`, the last of them perhaps without a body."""
        draw = self._draw
        rules = []
        for _ in range(draw.randint(1, 2)):
            body = " if {\n\t" + "\n\t".join([self._simple() for _ in range(draw.randint(1, 2))])
            rules.append(f" else := {draw.choice(values)}{body}\n}}")
        if draw.chance(0.2):
            rules.append(f" else := {draw.choice(values)}")
        return "".join(rules)

    def _simple(self) -> str:
        text = self._draw.choice([self._compared, self._compared, self._member, self._search])()
        return f"not {text}" if self._draw.chance(0.3) else text

    def _name(self, stem: str) -> str:
        return f"{stem}{len(self._helpers)}"

    def _truth(self) -> str:
        name = self._name("truth")
        values = [""] if self._draw.chance(0.7) else ["true", "false", "1", "null", '"x"']
        self._defined(name, [name], values, "false")
        return name

    def _level(self) -> str:
        name = self._name("level")
        values = ["1", "2", "3", "4", "5"]
        if not self._typed:
            values = ["1", "2", '"low"', "true", self._column()]
        chosen = self._draw.sample(values, self._draw.choice([1, 2]))
        self._defined(name, [name], chosen, self._draw.choice(["0", "1", "false", '"low"', "null"]))
        return f"{name} {self._draw.choice(_OPERATORS)} {self._draw.choice(chosen)}"

    def _function(self) -> str:
        name = self._name("check")
        draw = self._draw
        kind = self._kind() if self._typed else None
        bodies = ["x == 1", "x > 1", "not x == 2", 'x == "a"', "x", "input.doc.ok"]
        if kind is not None:
            constant = json.dumps(self._literal(kind))
            bodies = [f"x == {constant}", f"x > {constant}", "input.doc.ok"]
        body = draw.choice(bodies)
        values = ["", "", "", " := true", " := false", " := x"]
        rules = [f"{name}(x){draw.choice(values)} if {body}"]
        if draw.chance(0.4):
            others = ["input.doc.ok == false", "x == 2", "x < 1", 'x == "A"']
            other = others[0] if self._typed else draw.choice(others)
            rules.append(f"{name}(x){draw.choice(values)} if {other}")
        if draw.chance(0.04 if self._typed else 0.25):
            rules[-1] += f" else{draw.choice(values)} if {draw.choice(bodies)}"
        self._helpers[name] = "\n\n".join(rules)
        return f"{name}({self._column(kind)})"

    def _call(self) -> str:
        name = self._name("value")
        draw = self._draw
        values = ["1", "2", "3"] if self._typed else ["1", "2", "true", "x", '"a"']
        bodies = ["x > 1", "x <= 1", "not x == 1", "x in [1, 2]", "x == 3"]
        if not self._typed:
            bodies.append('x == "a"')
        rules = [f"{name}(x) := {draw.choice(values)} if {body}" for body in draw.sample(bodies, 2)]
        if draw.chance(0.04 if self._typed else 0.3):
            rules = [" else ".join([rules[0], rules[1].removeprefix(f"{name}(x) ")])]
            if draw.chance(0.5):
                rules[0] += f" else := {draw.choice(values)}"
        self._helpers[name] = "\n\n".join(rules)
        column = self._column("number" if self._typed else None)
        return f"{name}({column}) == {draw.choice(values[:3])}"

    def _members(self) -> str:
        name = self._name("members")
        draw = self._draw
        keys = [self._column(), '"a"', "1", "input.v"]
        if self._typed:
            keys = [self._column("text"), '"a"', '"b"']
        self._defined(name, [f"{name} contains {key}" for key in draw.sample(keys, 2)], [""], "")
        wanted = draw.choice(keys)
        return f"{wanted} in {name}"

    def _object(self) -> str:
        name = self._name("object")
        draw = self._draw
        choices: list[list[str]] = [["true"], ["1", "2"], ["true", "false"]]
        if not self._typed:
            choices.append(["1", self._column()])
        values = draw.choice(choices)
        heads = draw.sample([f'{name}["k"]', f"{name}.k", f"{name}[input.v]"], 2)
        self._defined(name, heads, values, "")
        return draw.choice([f"{name}.k", f"{name}.k == {draw.choice(values)}", f'{name}["k"]'])
