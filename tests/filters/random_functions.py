"""Random expressions that call functions of columns of every kind, and of values in documents.

    lower(input.doc.m.k) in ["a", 5]        not count(input.doc.s) > 0
    some_3 if { some row in input.doc.m.l; not startswith(trim_space(row.k), "a") }

Most operands are values in documents, which may be of any type or missing; the others are columns
whose kind may not suit the function. `random_policies` and `hard_comparison` put them in policies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

__all__ = ["DOCUMENTS", "Functions"]

DOCUMENTS: Final[list[Any]] = [
    {"k": "A", "n": "a", "l": ["A", " a", "B"]},
    {"k": " Ab ", "n": {"k": "AB"}, "l": [" ", "", "b"]},
    {"k": "ab", "n": {"k": " "}, "l": [{"k": "A"}, {"k": " a "}, {"k": 1}]},
    {"k": "İ", "n": "K", "l": ["ß", "ſ", None]},
    {"k": "1", "n": 1, "l": ["1", 1, 1.5, "true", True]},
    {"k": "null", "n": None, "l": {"x": "A", "y": {"k": "A"}, "z": 1}},
    {"k": "2026-11-23T12:00:00Z", "n": "2026-11-23T12:00:00+02:00", "l": ["2026-11-23"]},
    {"k": {"k": "A"}, "n": {"k": {"k": "a"}}, "l": {"k": " a"}},
    {"k": ["A"], "n": {"k": ["a"]}, "l": [["a"], {"k": ["A"]}]},
    "A",
    ["A", "a", 1],
]
"""Documents whose texts functions change, and values that they are undefined for."""
_PATHS: Final = [".k", ".k", ".k", ".n", ".n.k", ".l", ".x", ".k.k", '["0"]', '[""]']
_TEXTS: Final = ["a", "A", "ab", "AB", "b", "", " ", " a", "1", "i̇", "k", "ss", "true", "null"]
_SCALARS: Final = [None, True, False, 0, 1, 1.5, 5, "5"]
_CALLS: Final = [
    *("lower({})", "upper({})", "trim_space({})", 'trim({}, " a")', 'trim({}, "")'),
    *('trim_left({}, " aA")', 'trim_right({}, " bB")'),
]
_OPERATORS: Final = ["==", "==", "==", "!=", "!=", "<", "<=", ">", ">="]
_SEARCHES: Final = ["startswith", "endswith", "contains"]
_TIMES: Final = [0, 1, 1795435200000000000, 1795428000000000001, 10**30, "a", None, True]
_CLOCK: Final = "time.parse_rfc3339_ns({})"


class Functions:
    """Draws expressions about a row.

    `row` is its reference, such as `input.doc`; `kinds` has the kinds of its columns; `known` are
    references to scalars of any type. `add_rule` adds a rule with a body and, for a function, a
    parameter, and returns its name.
    """

    def __init__(
        self,
        draw: Random,
        row: str,
        kinds: Mapping[str, str],
        add_rule: Callable[[str, str], str],
        known: Sequence[str] = (),
    ) -> None:
        self._draw = draw
        self._columns = [f"{row}.{name}" for name in kinds]
        self._documents = [f"{row}.{name}" for name, kind in kinds.items() if kind == "json"]
        self._times = [f"{row}.{name}" for name, kind in kinds.items() if kind == "moment"]
        self._lists = [f"{row}.{name}" for name, kind in kinds.items() if kind == "array"]
        self._add_rule = add_rule
        self._known = known

    def expression(self) -> str:
        """An expression without `not`, or the name of a rule."""
        return self._with(self._operand())

    def value(self) -> str:
        """The value of a function, or the outcome of an expression."""
        operand = self._operand()
        kinds = [self._called, self._called, self._searched, self._matched, self._compared]
        kinds += [self._member, self._timed, self._counted]
        return self._draw.choice(kinds)(operand)

    def _with(self, operand: str) -> str:
        kinds = [self._compared, self._compared, self._searched, self._member, self._counted]
        kinds += [self._timed, self._misused, self._compared_with_column, self._matched]
        if operand.startswith("input."):
            kinds += [self._in_rule, self._about_elements, self._about_elements]
            kinds += [self._in_function] * 3
        return self._draw.choice(kinds)(operand)

    def _operand(self) -> str:
        draw = self._draw
        if self._documents and draw.random() < 0.7:
            return draw.choice(self._documents) + draw.choice(_PATHS)
        return draw.choice(self._columns)

    def _called(self, operand: str) -> str:
        return self._draw.choice(_CALLS).format(operand)

    def _scalar(self) -> str:
        draw = self._draw
        if self._known and draw.random() < 0.3:
            return draw.choice(self._known)
        return json.dumps(draw.choice(_TEXTS if draw.random() < 0.8 else _SCALARS))

    def _text(self) -> str:
        return json.dumps(self._draw.choice(_TEXTS))

    # Kinds of expressions

    def _compared(self, operand: str) -> str:
        draw = self._draw
        sides = [self._called(operand), self._scalar()]
        if draw.random() < 0.2:
            sides.reverse()
        return f"{sides[0]} {draw.choice(_OPERATORS[:6])} {sides[1]}"

    def _searched(self, operand: str) -> str:
        draw = self._draw
        text = self._called(operand) if draw.random() < 0.7 else operand
        call = f"{draw.choice(_SEARCHES)}({text}, {self._text()})"
        if draw.random() < 0.2:
            return f"{call} {draw.choice(['==', '!='])} {draw.choice(['true', 'false'])}"
        return call

    def _member(self, operand: str) -> str:
        draw = self._draw
        items = [draw.choice([*_TEXTS, *_SCALARS]) for _ in range(draw.randint(0, 3))]
        chance = draw.random()
        if chance < 0.6:
            return f"{self._called(operand)} in {json.dumps(items)}"
        collection = self._operand() if chance < 0.9 else draw.choice(self._lists or ["[]"])
        one = self._called(operand) if chance < 0.75 else operand
        return f"{one} in {collection}"

    def _counted(self, operand: str) -> str:
        draw = self._draw
        number = draw.choice(["0", "0", "0", "1", "-1", "0.5", '"a"', "null", "true"])
        chance = draw.random()
        if chance < 0.1:
            return f"count({operand}) in [0, -1, null]"
        if chance < 0.2:
            return f"count({operand})"
        if chance < 0.3:
            return f"{number} {draw.choice(_OPERATORS)} count({operand})"
        return f"count({operand}) {draw.choice(_OPERATORS)} {number}"

    def _timed(self, operand: str) -> str:
        draw = self._draw
        if self._times and draw.random() < 0.7:
            operand = draw.choice(self._times)
        left, chance = _CLOCK.format(operand), draw.random()
        if chance < 0.25:
            other = draw.choice(self._times) if self._times else self._operand()
            return f"{left} {draw.choice(_OPERATORS)} {_CLOCK.format(other)}"
        if chance < 0.35:
            return left
        if chance < 0.45:
            return f"{left} in {json.dumps(draw.sample(_TIMES, 2))}"
        if chance < 0.55:
            return f"{left} {draw.choice(_OPERATORS)} time.now_ns()"
        return f"{left} {draw.choice(_OPERATORS)} {json.dumps(draw.choice(_TIMES))}"

    def _misused(self, operand: str) -> str:
        """The operand alone, as if it was of another kind."""
        draw = self._draw
        chance = draw.random()
        if chance < 0.2:
            return self._called(operand)
        if chance < 0.4:
            return f"{operand}.k {draw.choice(_OPERATORS)} {self._scalar()}"
        if chance < 0.6:
            return f"{self._scalar()} in {operand}"
        if chance < 0.7:
            return f'object.get({operand}, "k", {self._scalar()}) == {self._scalar()}'
        if chance < 0.8:
            return f"{self._called(operand + '.k')} == {self._scalar()}"
        return f"{operand} {draw.choice(_OPERATORS)} {self._scalar()}"

    def _compared_with_column(self, operand: str) -> str:
        draw = self._draw
        # Values in documents can only be compared with known ones.
        if draw.random() < 0.7:
            operand = draw.choice(self._columns)
        left, right = operand, draw.choice(self._columns)
        if draw.random() < 0.1:
            right = self._operand()
        if draw.random() < 0.15:
            left = self._called(left)
        if draw.random() < 0.1:
            return f"{draw.choice(_SEARCHES)}({left}, {right})"
        return f"{left} {draw.choice(_OPERATORS)} {right}"

    def _matched(self, operand: str) -> str:
        draw = self._draw
        text = self._called(operand) if draw.random() < 0.3 else operand
        known = draw.choice(["a", "A", "ab", "1", ""])
        if draw.random() < 0.5:
            pattern = f"{draw.choice(['', '^'])}{known}{draw.choice(['', '$'])}"
            return f"regex.match({json.dumps(pattern)}, {text})"
        pattern = f"{draw.choice(['', '**'])}{known}{draw.choice(['', '**'])}"
        return f"glob.match({json.dumps(pattern)}, {draw.choice(['[]', 'null'])}, {text})"

    # Rules

    def _in_rule(self, operand: str) -> str:
        """A rule in whose body the operand, or its function, is the value of a variable."""
        draw = self._draw
        value = self._called(operand) if draw.random() < 0.6 else operand
        if value is operand:
            test = self._compared("x").replace("row", "x")
        else:
            test = f"x {draw.choice(_OPERATORS[:5])} {self._scalar()}"
        no = "not " if draw.random() < 0.5 else ""
        return self._add_rule(f"x := {value}\n\t{no}{test}", "")

    def _in_function(self, operand: str) -> str:
        """A call of a function with the operand, which may be the value of a built-in."""
        draw = self._draw
        no = "not " if draw.random() < 0.3 else ""
        name = self._add_rule(f"{no}{self._with('x')}", "x")
        return f"{name}({operand if draw.random() < 0.8 else self._called(operand)})"

    def _about_elements(self, operand: str) -> str:
        """A rule about one element of the operand, or about each."""
        draw = self._draw
        collection = operand
        if draw.random() < 0.5:
            collections = [*self._lists, *[f"{each}.l" for each in self._documents]]
            collection = draw.choice(collections or [operand])
        test = self._with(draw.choice(["row", "row", "row.k"]))
        no = "not " if draw.random() < 0.4 else ""
        if draw.random() < 0.35:
            return self._add_rule(f"every row in {collection} {{ {no}{test} }}", "")
        return self._add_rule(f"some row in {collection}\n\t{no}{test}", "")
