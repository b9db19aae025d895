"""Small random programs: each a list of rules in any order, and the input they read."""

from __future__ import annotations

from random import Random
from typing import Any, Final

__all__ = ["COMPARISONS", "INPUT", "document", "lookups", "program", "question"]

INPUT: Final[dict[str, Any]] = {
    "n": 3,
    "s": "abc",
    "xs": [3, 1, 2, 3],
    "ss": ["b", "a", "a/b"],
    "o": {"k": 1, "l": [1, 2], "m": {"z": None}},
    "t": True,
    "f": False,
}

COMPARISONS: Final = (
    "same(a, b) if a == b",
    "less(a, b) if a < b",
    "less_equal(a, b) if a <= b",
)
"""Behind a function, operands have no type that would refuse them before they are compared."""

_NUMBERS: Final = ("0", "1", "2", "-3", "10", "input.n", "count(input.xs)", "x", "sum(input.xs)")
_STRINGS: Final = ('"a"', '"b"', '""', "input.s", 'concat("-", input.ss)', "upper(input.s)")
_OTHERS: Final = ("null", "true", "false", "input.o", "input.missing", "input.o.l", "{1, 2}", "{}")


def _number(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.4:
        return r.choice(_NUMBERS)
    a, b = _number(r, depth - 1), _number(r, depth - 1)
    kind = r.randrange(6)
    if kind < 3:
        return f"({a} {r.choice('+-*')} {b})"
    return (f"abs({a})", f"max([{a}, {b}])", f"count({_collection(r, depth - 1)})")[kind - 3]


def _string(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.5:
        return r.choice(_STRINGS)
    a, b = _string(r, depth - 1), _string(r, depth - 1)
    return r.choice(
        [f"lower({a})", f'concat("/", [{a}, {b}])', f'replace({a}, "a", {b})', f"trim({a}, {b})"]
    )


def _collection(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.3:
        return r.choice(["input.xs", "input.ss", "input.o", "[x, 1]", "{x, 2}", "set()", "[]"])
    inner = _term(r, depth - 1)
    kind = r.randrange(7)
    if kind == 0:
        return f"[y | some y in {_collection(r, depth - 1)}; not same(y, {inner})]"
    if kind == 1:
        return f"{{[y, {inner}] | some y in {_collection(r, depth - 1)}}}"
    if kind == 2:
        return f"{{y: z | some y, z in {_collection(r, depth - 1)}; less(z, {inner})}}"
    if kind == 3:
        return f"[{inner}, {_term(r, depth - 1)}]"
    if kind == 4:
        return f'{{"a": {inner}, "b": {_term(r, depth - 1)}}}'
    if kind == 5:
        return f"sort([{_term(r, depth - 1)}, {inner}])"
    return f"array.concat([{inner}], input.xs)"


def _term(r: Random, depth: int) -> str:
    kinds = (_number, _string, _collection)
    if depth == 0 or r.random() < 0.2:
        return r.choice(_OTHERS)
    return r.choice(kinds)(r, depth)


def _condition(r: Random, depth: int) -> str:
    a, b = _term(r, depth), _term(r, depth)
    kind = r.randrange(7)
    if kind == 0:
        return f"not same({a}, {b})"
    if kind == 1:
        return f"every y in {_collection(r, depth)} {{ not same(y, {b}) }}"
    if kind == 2:
        return f"{a} in {_collection(r, depth)}"
    if kind == 3:
        return f"same({a}, {a})"
    return f"{r.choice(['same', 'less', 'less_equal'])}({a}, {b})"


def _body(r: Random) -> str:
    conditions = [_condition(r, 2) for _ in range(r.randrange(1, 3))]
    return "; ".join(["some x in input.xs", *conditions])


def question(seed: int) -> str:
    """A body that binds `v`, with one thing asked in it."""
    r = Random(seed)
    text = f"v := {_term(r, 2)}" if seed % 2 else f"{_condition(r, 1)}; v := 1"
    return f"x := 3; {text}"


def program(seed: int) -> list[str]:
    """The rules of one package; `data.p` is what they answer."""
    r = Random(seed)
    rules = list(COMPARISONS)
    for n in range(r.randrange(1, 4)):
        rules.append(f"set{n} contains v if {{ {_body(r)}; v := {_term(r, 2)} }}")
        rules.append(f"set{n} contains v if {{ {_body(r)}; v := {_term(r, 1)} }}")
        rules.append(f"object{n}[x] := {_string(r, 1)} if {{ {_body(r)} }}")
        rules.append(f"holds{n} if {{ {_body(r)} }}")
        rules.append(f"default value{n} := {r.randrange(5)}")
        rules.append(f"value{n} := count(set{n}) if not holds{n}")
        rules.append(f"twice{n} := f{n}(value{n})")
        rules.append(f"f{n}(x) := {_number(r, 2)} if x > 1")
        rules.append(f"f{n}(x) := [x, {_string(r, 1)}] if x <= 1")
    return rules


# Rules that look into documents which may be shaped otherwise

_NAMES: Final = "abcd"
_LEAVES: Final[tuple[Any, ...]] = (None, True, False, 0, 1, 1.0, "", "ab", "a.b", "b")


def document(r: Random, depth: int = 4) -> Any:
    """JSON whose objects have few names, so that paths are often there and often are not."""
    kind = r.randrange(10)
    if depth == 0 or kind < 2:
        return r.choice(_LEAVES)
    if kind == 2:
        return [document(r, depth - 1) for _ in range(r.randrange(12))]
    return {name: document(r, depth - 1) for name in _NAMES if r.random() < 0.7}


def _reference(r: Random) -> str:
    start = r.choice(
        ["input", "input", "input.a", "input.a.b", "data.base", "data.base.a", "alias"]
    )
    return ".".join([start, *[r.choice(_NAMES) for _ in range(r.randrange(1, 4))]])


def _test(r: Random) -> str:
    a, b = _reference(r), _reference(r)
    text = r.choice(['"a"', '"ab"', '""', b])
    return r.choice(
        [
            a,
            f"not {a}",
            f"{a} == {r.choice(['1', 'true', 'null', text])}",
            f"{a} != {b}",
            f"{a} < {b}",
            f"startswith({a}, {text})",
            f"not endswith({a}, {text})",
            f"contains({a}, {text})",
            f"count({a}) > 1",
            f"lower({a}) == upper({b})",
            f'split({a}, ".")[0] == {text}',
            f"substring({a}, 0, 1) == {text}",
            f'concat(".", [{a}, {b}]) != {text}',
            f'object.get({a}, "a", 1) == 1',
            f"is_string({a})",
            f'regex.match("^(a|b)", {a})',
            f"{a} in {b}",
            f"{b}[{a}]",
            f"{a}[0]",
            f"some v in {a}; v == {b}",
            f"some v in {a}; not v.a.b == {b}",
            f"some k, v in {a}; v.c.d != k",
            f"some v in {a}; some w in {b}; v == w",
            f"{a}[i] == {b}[i]",
            f"every v in {a} {{ v != {b} }}",
            f"not held({a})",
            f"count([v | some v in {a}; v.a == {b}]) > 0",
            f"{{v.a | some v in {a}}} == {{w.b | some w in {b}}}",
            f'simple with input as {{"a": {a}}}',
            f"simple with input.a.b as {a}",
            f"not simple with data.base.a as {a}",
        ]
    )


def lookups(seed: int) -> list[str]:
    """Rules that look into `input` and `data.base`."""
    r = Random(seed)
    rules = [
        "alias := input.a.b",
        'simple if { input.a.b.c; not data.base.a.b == "b" }',
        "held(x) if { some v in x; v == input.a.b }",
        "held(x) if { x.a == input.a.c; x.b != input.a.d }",
    ]
    for n in range(r.randrange(2, 7)):
        body = "; ".join(_test(r) for _ in range(r.randrange(1, 4)))
        rules.append(f"reasons contains {n} if {{ {body} }}")
    rules.append(f"default value := 0\n\nvalue := {_reference(r)} if {{ {_test(r)} }}")
    rules.append(f"either if {{ {_test(r)} }} else := {_reference(r)} if {{ {_test(r)} }}")
    return rules
