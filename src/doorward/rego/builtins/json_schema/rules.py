"""Rules of JSON Schema: one rule for each keyword, and the order in which they are applied.

A `Schema` is what `reader` makes of a text. `findings` lists the violations by a value, in the
words and the order of OPA: a value of the wrong type is not examined any further, and of several
alternatives that all fail, the errors of the one with the most points are reported, counted as OPA
counts them. Each match of a schema checks the deadline, since schemas can double their work at each
level.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf, isinf
from typing import Any, Final, TypeAlias

from doorward.rego.builtins.json_schema.formats import FORMATS
from doorward.rego.errors import BuiltinError, LimitError
from doorward.rego.golang.json import marshal
from doorward.rego.golang.yaml import json_float
from doorward.rego.numbers import Number, number_text
from doorward.rego.values import Value

__all__ = [
    "ALTERNATIVES",
    "KINDS",
    "Match",
    "Path",
    "Result",
    "Rule",
    "Schema",
    "canonical",
    "const",
    "contains",
    "count",
    "dependencies",
    "each_item",
    "enum",
    "exact_number",
    "findings",
    "format_",
    "if_",
    "items",
    "limit",
    "multiple_of",
    "not_",
    "other_names",
    "pattern",
    "properties",
    "property_names",
    "required",
    "unique_items",
]

KINDS: Final = ("array", "boolean", "integer", "number", "null", "object", "string")

Path: TypeAlias = "tuple[Path, str] | None"
"""The place of a value in the document: the path of its container, and its key there."""


class Schema:
    """One compiled schema: its types, and its rules by the phase in which they are applied, in
    order.
    """

    __slots__ = ("passes", "reference", "rules", "types")

    def __init__(self) -> None:
        self.passes: bool | None = None
        """True or False for the schema `true` or `false`, which decides alone; None for others."""
        self.reference: Schema | None = None
        """The schema that `$ref` refers to, which is matched in place of this one; None without
        `$ref`.
        """
        self.types: tuple[str, ...] = ()
        self.rules: dict[str, list[tuple[int, Rule]]] = {}

    def add(self, keyword: str, rule: Rule) -> None:
        """Add the rule of a keyword, at its position in the order in which gojsonschema applies the
        keywords.
        """
        phase, rank = _RANKS[keyword]
        placed = self.rules.setdefault(phase, [])
        placed.append((rank, rule))
        placed.sort(key=lambda one: one[0])


class Result:
    """The violations found so far (kind, path, message), and points: of several failed alternatives
    the one with the most points is reported.
    """

    __slots__ = ("errors", "points")

    def __init__(self) -> None:
        self.errors: list[tuple[str, Path, str]] = []
        self.points = 0

    def add(self, kind: str, path: Path, text: str) -> None:
        self.errors.append((kind, path, text))
        # One less in effect: gojsonschema, which counts like this, adds a point behind each phase.
        self.points -= 2

    def merge(self, other: Result, most: int) -> None:
        """Add the points of another result, and its first errors until there are `most`. One of its
        errors is added even if there are `most` already.
        """
        # At least one, since no errors mean that a document is valid.
        self.errors += other.errors[: max(1, most - len(self.errors))]
        self.points += other.points


Rule: TypeAlias = "Callable[[Match, Any, Path, Result], None]"


def findings(
    schema: Schema, value: Value, most: int, check_deadline: Callable[[], None]
) -> list[Value]:
    """Return the first `most` violations of `schema` by `value`, as the objects that
    json.match_schema lists; [] if it matches. `check_deadline` is called for every schema that is
    matched.
    """
    result = Match(most, check_deadline).result(schema, value, None)
    rows: list[Value] = []
    for kind, path, text in result.errors[:most]:
        field = _field(path)
        description = text.replace(_FIELD, field)
        rows.append(
            {"error": f"{field}: {description}", "type": kind, "field": field, "desc": description}
        )
    return rows


_FIELD: Final = "\0field\0"
"""A placeholder in messages for the place they are about; JSON Schema's messages contain no such
characters.
"""


def _field(path: Path) -> str:
    """The path of a value as text, such as `a.0.b`; `(Root)` for the document itself."""
    if path is None:
        return "(Root)"
    names: list[str] = []
    while path is not None:
        path, name = path
        names.append(name)
    return ".".join(reversed(names))


class Match:
    """One document that is matched with a schema; `most` is the number of errors that are
    reported.
    """

    def __init__(self, most: int, check_deadline: Callable[[], None]) -> None:
        self.most = most
        self.check_deadline = check_deadline

    def result(self, schema: Schema, value: Any, path: Path) -> Result:
        """Match `value` with `schema` and return a result of its own, which the caller may compare,
        merge or drop.
        """
        result = Result()
        self.add_violations(schema, value, path, result)
        return result

    def limit_errors(self, result: Result) -> None:
        """Drop the errors of `result` beyond the `most` that are reported, in place."""
        del result.errors[self.most :]

    def add_violations(self, schema: Schema, value: Any, path: Path, result: Result) -> None:
        """Match `value`, which is at `path`, with `schema`, follow its reference, add the
        violations to `result`, and count its points. A wrong type is the only violation reported of
        a value. A schema `false` refuses and `true` accepts all. Checks the deadline each time,
        whose error passes through.
        """
        self.check_deadline()
        if schema.reference is not None:
            schema = _follow_references(schema)
        if schema.passes is not None:
            if not schema.passes:
                result.add("false", path, "False always fails validation")
            return
        kind = _kind(value)
        types = schema.types
        if types and kind not in types and not (kind == "integer" and "number" in types):
            expected = types[0] if len(types) == 1 else f"[{','.join(types)}]"
            result.add("invalid_type", path, f"Invalid type. Expected: {expected}, given: {kind}")
            return
        for phase in _PHASES[kind]:
            for _, rule in schema.rules.get(phase, ()):
                rule(self, value, path, result)
            # In gojsonschema the other phases are functions, each of which ends with a point.
            result.points += phase != "properties"
        result.points += 1


def _follow_references(schema: Schema) -> Schema:
    """Return the schema at the end of a chain of `$ref`. LimitError if it is longer than
    `_MAX_REFERENCES`, as a cycle is.
    """
    for _ in range(_MAX_REFERENCES):
        if schema.reference is None:
            return schema
        schema = schema.reference
    raise LimitError("schema has a cycle of `$ref`")


_MAX_REFERENCES: Final = 1000
"""The most `$ref` that may follow each other; more, such as a cycle, is a LimitError. OPA's process
crashes on a cycle.
"""

_NUMBER: Final = (int, float)


def _kind(value: Any) -> str:
    """The JSON Schema type of a value; a number without a fraction is an `integer`."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    return "integer" if type(exact_number(value)) is int else "number"


_KINDS: Final[dict[type, str]] = {
    bool: "boolean",
    dict: "object",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}

_PHASES: Final = {
    "array": ("schema", "array", "common"),
    "boolean": ("schema", "common"),
    "integer": ("schema", "number", "common"),
    "null": ("schema", "common"),
    "number": ("schema", "number", "common"),
    "object": ("schema", "object", "common", "properties"),
    "string": ("schema", "common", "string"),
}
"""The phases in which the rules for a value of each kind are applied, in order."""

_ORDER: Final = {
    "schema": ("anyOf", "oneOf", "allOf", "not", "dependencies", "if"),
    "array": ("items", "minItems", "maxItems", "uniqueItems", "contains"),
    "common": ("const", "enum", "format"),
    "object": (
        "minProperties",
        "maxProperties",
        "required",
        "additionalProperties",
        "propertyNames",
    ),
    "properties": ("properties",),
    "number": ("multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    "string": ("minLength", "maxLength", "pattern"),
}
_RANKS: Final = {
    keyword: (phase, rank)
    for phase, keywords in _ORDER.items()
    for rank, keyword in enumerate(keywords)
}


# Numbers and texts


def exact_number(number: Any) -> int | Fraction:
    """The exact value of a number, an int if it has no fraction. `numbers.exact` would round it to
    64 bits of mantissa.
    """
    if type(number) is int:
        return number
    value = Fraction(number_text(number))
    return value.numerator if value.denominator == 1 else value


def canonical(value: Any) -> str:
    """JSON that is the same for values that OPA takes as equal: each number is the nearest double.
    BuiltinError for a number that is larger than any.
    """
    return marshal(_plain(value))


def _plain(value: Any) -> Any:
    """Return a JSON value (without sets) with the nearest double, as Go writes it, in place of each
    number, so that equal doubles become equal values; integers up to 2**53 stay. BuiltinError for a
    number beyond a double's range.
    """
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, bool) or not isinstance(value, _NUMBER):
        return value
    if type(value) is int and -_EXACT <= value <= _EXACT:
        return value
    try:
        double = float(value) if type(value) is int else float(number_text(value))
    except OverflowError:
        double = inf
    if isinf(double):
        raise BuiltinError(f"cannot compare the number {number_text(value)}: it is too large")
    return Number(json_float(double))


_EXACT: Final = 1 << 53
"""Integers up to this one are doubles, written with all of their digits."""


def _show(number: int | Fraction) -> str:
    """Write a number with the fewest digits that tell it from its neighbours, as Go prints a
    `big.Float`: `1e+06`, `0.30000000000000004`. Its mantissa has 64 bits, or those of the number.
    """
    if not number:
        return "0"
    sign = "-" if number < 0 else ""
    digits, exponent = _shortest(-number if sign else number)
    if -4 <= exponent < 6:
        return f"{sign}{Decimal((0, tuple(map(int, digits)), exponent - len(digits) + 1)):f}"
    point = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _shortest(number: int | Fraction) -> tuple[str, int]:
    """Return the shortest digits that tell a number above 0 apart from its neighbours as a binary
    float, without zeros at the end, and the exponent of ten of the first digit. The mantissa has 64
    bits, or as many as the numerator or denominator has if that is more. A tie between two
    candidates goes to the even digit.
    """
    bits = max(64, number.numerator.bit_length(), number.denominator.bit_length())
    if number.denominator == 1:
        bits = max(64, number.numerator.bit_length())
    power = number.numerator.bit_length() - number.denominator.bit_length() - bits
    scaled = Fraction(number) / Fraction(2) ** power
    if scaled >= 1 << bits:
        scaled, power = scaled / 2, power + 1
    mantissa = round(scaled)
    if mantissa == 1 << bits:
        mantissa, power = mantissa >> 1, power + 1
    # The neighbours are half a unit of the last bit away; they count if that bit is 0.
    lower, exact, upper = (
        _decimal(Fraction(2 * mantissa + step) * Fraction(2) ** (power - 1)) for step in (-1, 0, 1)
    )
    is_even = mantissa % 2 == 0
    digits, exponent = exact
    for index, digit in enumerate(digits):
        low, high = _digit(lower[0], index), _digit(upper[0], index)
        may_fall = low != digit or (is_even and index + 1 == len(lower[0]))
        may_rise = digit != high and (
            is_even or int(digit) + 1 < int(high) or index + 1 < len(upper[0])
        )
        if may_fall or may_rise:
            kept = digits[: index + 1]
            rest = digits[index + 1 :]
            nearest_rises = rest > "5" or (rest == "5" and int(digit) % 2 == 1)
            if may_rise and (nearest_rises or not may_fall):
                return _raise(kept, exponent)
            return kept.rstrip("0"), exponent
    return digits, exponent


def _raise(digits: str, exponent: int) -> tuple[str, int]:
    """Return digits and exponent of the number with one more in the last digit."""
    digits = digits.rstrip("9")
    if not digits:
        return "1", exponent + 1
    return f"{digits[:-1]}{int(digits[-1]) + 1}", exponent


def _decimal(number: Fraction) -> tuple[str, int]:
    """Return the digits of a number whose denominator is a power of two, and the exponent of the
    first one.
    """
    shift = number.denominator.bit_length() - 1
    text = str(Decimal(number.numerator * 5**shift))  # `str` of an int refuses many digits
    return text.rstrip("0"), len(text) - 1 - shift


def _digit(digits: str, index: int) -> str:
    return digits[index] if index < len(digits) else "0"


# The rules. A rule of a phase sees the kinds of values that the phase is for.


def _require_one(
    match: Match,
    tries: Iterable[tuple[Schema, Any, Path]],
    finding: tuple[str, Path, str],
    result: Result,
) -> None:
    """Match each value of `tries` (schema, value and its path) until one matches. If none does, add
    `finding` to `result`, and the errors of the attempt with the most points.
    """
    best: Result | None = None
    for schema, value, path in tries:
        one = match.result(schema, value, path)
        if not one.errors:
            return
        if best is None or one.points > best.points:
            best = one
    result.add(*finding)
    if best is not None:
        result.merge(best, match.most)


def alternatives_any(schemas: Sequence[Schema]) -> Rule:
    """Return the rule of `anyOf`: at least one schema must match."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        finding = "number_any_of", path, "Must validate at least one schema (anyOf)"
        _require_one(match, ((schema, value, path) for schema in schemas), finding, result)

    return rule


def alternatives_one(schemas: Sequence[Schema]) -> Rule:
    """Return the rule of `oneOf`: exactly one of `schemas` must match a value. If none does, the
    errors of the one with the most points (the first of equals) are reported as well.
    """

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Add an error to `result` unless exactly one schema matches; if none does, also the errors
        and points of the one with the most points, the first of equals.
        """
        best: Result | None = None
        count = 0
        for schema in schemas:
            one = match.result(schema, value, path)
            if not one.errors:
                count += 1
            elif count == 0 and (best is None or one.points > best.points):
                best = one
        if count != 1:
            result.add("number_one_of", path, "Must validate one and only one schema (oneOf)")
            if count == 0 and best is not None:
                result.merge(best, match.most)

    return rule


def alternatives_all(schemas: Sequence[Schema]) -> Rule:
    """Return the rule of `allOf`: every one of `schemas` must match. The errors of each that does
    not are reported, and then one for the keyword.
    """

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Add the errors of every schema that does not match, and if there was one, an error for
        the keyword.
        """
        wrong = False
        for schema in schemas:
            one = match.result(schema, value, path)
            wrong |= bool(one.errors)
            result.merge(one, match.most)
        if wrong:
            result.add("number_all_of", path, "Must validate all the schemas (allOf)")

    return rule


def not_(schema: Schema) -> Rule:
    """Return the rule of `not`: the schema must not match."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if not match.result(schema, value, path).errors:
            result.add("number_not", path, "Must not validate the schema (not)")

    return rule


def if_(condition: Schema, branches: Mapping[str, Schema]) -> Rule:
    """Return the rule of `if`: if the condition matches, the branch `then` must match too,
    otherwise the branch `else`. A branch that is missing matches.
    """

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Match the branch that the condition selects with `value`. If it fails, add an error for
        `then` or `else` to `result`, followed by those of the branch; errors of the condition
        itself do not count.
        """
        holds = not match.result(condition, value, path).errors
        name = "then" if holds else "else"
        if name not in branches:
            return
        one = match.result(branches[name], value, path)
        if one.errors:
            was = "valid" if holds else "not valid"
            result.add(f"condition_{name}", path, f'Must validate "{name}" as "if" was {was}')
            result.merge(one, match.most)

    return rule


def dependencies(schema_of_name: Mapping[str, Schema | list[str]]) -> Rule:
    """Return the rule of `dependencies`: for each name in `schema_of_name` that an object has, it
    must match the name's schema or have all names in its list. Other values match.
    """

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """For each name with a dependency that the object has, match the object with its schema, or
        add an error for each required name that is missing. Values that are not objects match.
        """
        if not isinstance(value, dict):
            return
        for name, other in schema_of_name.items():
            if name not in value:
                continue
            if isinstance(other, Schema):
                match.add_violations(other, value, path, result)
                continue
            for missing in other:
                if missing not in value:
                    result.add("missing_dependency", path, f"Has a dependency on {missing}")

    return rule


def each_item(schema: Schema) -> Rule:
    """Return the rule of `items` with one schema that every item must match."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Match every item of an array with the schema, and add the violations, at the item's path,
        to `result`, which is cut to the errors that are reported.
        """
        for index, item in enumerate(value):
            match.add_violations(schema, item, (path, str(index)), result)
            match.limit_errors(result)

    return rule


def items(schemas: Sequence[Schema], more: Schema | bool) -> Rule:
    """Return the rule of `items` with one schema for each position. Items after those must match
    `more`; True allows any, False forbids them.
    """

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Match each item with the schema of its position. Items behind the last schema, if there
        is one, are matched with `more`; if it is False, they are an error.
        """
        for index, (schema, item) in enumerate(zip(schemas, value, strict=False)):
            match.add_violations(schema, item, (path, str(index)), result)
        if not schemas or len(value) <= len(schemas):
            return
        if isinstance(more, Schema):
            for index in range(len(schemas), len(value)):
                match.add_violations(more, value[index], (path, str(index)), result)
                match.limit_errors(result)
        elif not more:
            result.add("array_no_additional_items", path, "No additional items allowed on array")

    return rule


def unique_items(match: Match, value: Any, path: Path, result: Result) -> None:
    """Apply `uniqueItems` to the array `value`: add an error for each item that equals an earlier
    one, up to the limit of errors in `match`. Checks the deadline at each item.
    """
    seen: dict[str, int] = {}
    for index, item in enumerate(value):
        match.check_deadline()
        # Texts in a dictionary: comparing each item with each would be quadratic.
        text = canonical(item)
        if text in seen:
            result.add("unique", path, f"array items[{seen[text]},{index}] must be unique")
            match.limit_errors(result)
        seen[text] = index


def contains(schema: Schema) -> Rule:
    """Return the rule of `contains`: at least one item must match the schema."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Add an error, and those of the closest item, unless one item matches."""
        items = ((schema, item, (path, str(index))) for index, item in enumerate(value))
        finding = "contains", path, "At least one of the items must match"
        _require_one(match, items, finding, result)

    return rule


def required(names: Sequence[str]) -> Rule:
    """Return the rule of `required`: an object must have all these names."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Add an error to `result` for each name that is missing, and a point for each that is
        there.
        """
        for name in names:
            if name in value:
                result.points += 1
            else:
                result.add("required", path, f"{name} is required")

    return rule


Matcher: TypeAlias = Callable[[str], bool]


def other_names(
    known: frozenset[str], patterns: Sequence[tuple[Matcher, Schema]], others: Schema | bool
) -> Rule:
    """Return the rule of `patternProperties` and `additionalProperties`. A value whose name matches
    patterns must match their schemas; one whose name is neither matched nor in `known` must match
    `others`, and False forbids it.
    """

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Match the values whose names fit patterns with those schemas, and those of other unknown
        names with `others`; report such a name if `others` is False. A name that fits a pattern
        also adds a point to `result`. In the order of the names; checks the deadline.
        """
        for name in sorted(value):
            match.check_deadline()
            match.limit_errors(result)
            fits = [schema for matches, schema in patterns if matches(name)]
            for schema in fits:
                match.add_violations(schema, value[name], (path, name), result)
            if fits:
                result.points += 1
            elif name in known:
                pass
            elif isinstance(others, Schema):
                match.add_violations(others, value[name], (path, name), result)
            elif not others:
                text = f"Additional property {name} is not allowed"
                result.add("additional_property_not_allowed", path, text)

    return rule


def property_names(schema: Schema) -> Rule:
    """Return the rule of `propertyNames`: each name of an object must match the schema."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Add an error for each name that does not match, followed by that match's own errors."""
        for name in sorted(value):
            one = match.result(schema, name, path)
            if one.errors:
                text = f'Property name of "{name}" does not match'
                result.add("invalid_property_name", path, text)
                result.merge(one, match.most)

    return rule


def properties(schemas: Mapping[str, Schema]) -> Rule:
    """Return the rule of `properties`: a value under one of these names must match its schema."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        """Match each value whose name has a schema and is in the object with that schema, and add
        the violations, at the value's path, to `result`.
        """
        for name, schema in schemas.items():
            if name in value:
                match.add_violations(schema, value[name], (path, name), result)

    return rule


def const(expected: str) -> Rule:
    """Return the rule of `const`; `expected` is the canonical JSON text of the only valid value."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if canonical(value) != expected:
            result.add("const", path, f"{_FIELD} does not match: {expected}")

    return rule


def enum(allowed: Sequence[str]) -> Rule:
    """Return the rule of `enum`; `allowed` are the canonical JSON texts of the valid values."""
    known = frozenset(allowed)
    listed = ", ".join(allowed)

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if canonical(value) not in known:
            result.add("enum", path, f"{_FIELD} must be one of the following: {listed}")

    return rule


def format_(name: str) -> Rule:
    """Return the rule of `format`; a format without a check accepts everything."""
    is_valid = FORMATS.get(name)

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if is_valid is not None and not is_valid(value):
            result.add("format", path, f"Does not match format '{name}'")

    return rule


def pattern(text: str, matches: Matcher) -> Rule:
    """Return the rule of `pattern`; `matches` is the compiled expression `text`."""

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if not matches(value):
            result.add("pattern", path, f"Does not match pattern '{text}'")

    return rule


def multiple_of(divisor: Any) -> Rule:
    """Return the rule of `multipleOf`; it computes with exact numbers."""
    exact = exact_number(divisor)

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if exact_number(value) % exact:
            result.add("multiple_of", path, f"Must be a multiple of {_show(exact)}")

    return rule


_LIMITS: Final[dict[str, tuple[str, str, Callable[[Any, Any], bool]]]] = {
    "maximum": ("number_lte", "less than or equal to", operator.le),
    "exclusiveMaximum": ("number_lt", "less than", operator.lt),
    "minimum": ("number_gte", "greater than or equal to", operator.ge),
    "exclusiveMinimum": ("number_gt", "greater than", operator.gt),
}


def limit(keyword: str, number: Any) -> Rule:
    """Return the rule of `minimum`, `maximum`, `exclusiveMinimum` or `exclusiveMaximum`; it
    computes with exact numbers.
    """
    kind, words, holds = _LIMITS[keyword]
    exact = exact_number(number)

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if not holds(exact_number(value), exact):
            result.add(kind, path, f"Must be {words} {_show(exact)}")

    return rule


_COUNTS: Final[dict[str, tuple[str, str]]] = {
    "minLength": ("string_gte", "String length must be greater than or equal to {}"),
    "maxLength": ("string_lte", "String length must be less than or equal to {}"),
    "minItems": ("array_min_items", "Array must have at least {} items"),
    "maxItems": ("array_max_items", "Array must have at most {} items"),
    "minProperties": ("array_min_properties", "Must have at least {} properties"),
    "maxProperties": ("array_max_properties", "Must have at most {} properties"),
}


def count(keyword: str, number: int) -> Rule:
    """Return the rule of a bound on a length, such as `minItems` or `maxLength`; strings are
    counted in characters.
    """
    kind, words = _COUNTS[keyword]
    holds = operator.ge if keyword.startswith("min") else operator.le

    def rule(match: Match, value: Any, path: Path, result: Result) -> None:
        if not holds(len(value), number):
            result.add(kind, path, words.format(number))

    return rule


ALTERNATIVES: Final = {
    "allOf": alternatives_all,
    "anyOf": alternatives_any,
    "oneOf": alternatives_one,
}
