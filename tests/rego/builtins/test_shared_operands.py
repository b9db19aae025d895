"""Every built-in with operands of 2**n parts in n steps: it ends by the deadline, or by itself.

The registry is read, so that a built-in that is new is put to the test by that. Such values come
from policies (`x1 := [x0, x0]`) and from `json.patch`, which copies no part.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

import pytest
from tests.growth import slowness

from doorward.rego import REGISTRY, Engine, Environment, EvalError, Query
from doorward.rego.builtins.registry.signature import (
    AnyOf,
    ArrayType,
    ObjectType,
    ScalarType,
    SetType,
    Type,
)
from doorward.rego.values import Key, make_set, to_key

pytestmark = pytest.mark.long

DEADLINE: Final = 0.05
SLACK: Final = 0.25
"""Seconds of CPU time past the deadline."""
TRIES: Final = 3
DEPTH: Final = 60
SMALL: Final = {"string": "a", "number": 1, "boolean": True, "null": None}
OFFLINE: Final = Environment(allow_net=frozenset())
NETWORK: Final = frozenset({"http.send", "net.lookup_ip_addr"})
"""What would ask others; the environment refuses it before it looks at an operand."""


def shared(kind: str) -> Any:
    """A value of a kind with 2**DEPTH parts, of which DEPTH are in memory."""
    value: Any = {"array": [1], "object": {"a": 1}, "set": make_set([1])}[kind]
    for _ in range(DEPTH):
        match kind:
            case "array":
                value = [value, value]
            case "object":
                value = {"a": value, "b": value}
            case _:
                value = make_set([value, make_set([value])])
    return value


def large(type_: Type) -> Iterator[Any]:
    """Operands of a type that are as large as shared values can be."""
    match type_:
        case ScalarType("string"):
            yield "a" * 100_000
        case ScalarType(kind):
            yield SMALL[kind]
        case ArrayType(items, rest):
            if items:
                for n, item in enumerate(items):
                    for value in large(item):
                        yield [*map(small, items[:n]), value, *map(small, items[n + 1 :])]
            elif rest is not None:
                yield from ([value] * 1000 for value in large(rest))
                if rest == AnyOf(()):
                    yield shared("array")
        case SetType(of):
            yield from (make_set([value]) for value in large(of) if not is_deep(value))
            if of == AnyOf(()):
                yield shared("set")
        case ObjectType(fields, rest):
            yield from objects(fields, rest)
        case AnyOf(()):
            yield from map(shared, ("array", "object", "set"))
        case AnyOf(options):
            for option in options:
                yield from large(option)


def is_deep(value: Any) -> bool:
    """Whether the hash of a value goes through all parts of a shared one."""
    return isinstance(value, (list, dict)) and bool(value)


def objects(
    fields: tuple[tuple[Any, Type], ...], rest: tuple[Type, Type] | None
) -> Iterator[dict[Key, Any]]:
    whole = {key: small(of) for key, of in fields}
    for key, of in fields:
        yield from ({**whole, key: value} for value in large(of))
    if rest is not None:
        key_type, of = rest
        for value in large(of):
            yield {**whole, **{f"{to_key(small(key_type))}{n}": value for n in range(1000)}}
        if of == AnyOf(()):
            yield shared("object")


def small(type_: Type) -> Any:
    """A plain operand of a type."""
    match type_:
        case ScalarType(kind):
            return SMALL[kind]
        case ArrayType(items, rest):
            return [small(item) for item in items] or ([small(rest)] if rest is not None else [])
        case SetType(of):
            return make_set([small(of)])
        case ObjectType(fields, rest):
            known = {key: small(of) for key, of in fields}
            return known if rest is None or known else {to_key(small(rest[0])): small(rest[1])}
        case AnyOf(options):
            return small(options[0]) if options else "a"
    raise AssertionError(type_)


def operands(types: tuple[Type, ...]) -> Iterator[list[Any]]:
    """Lists of operands, one of them large, and all of them."""
    for n, type_ in enumerate(types):
        for value in large(type_):
            yield [*map(small, types[:n]), value, *map(small, types[n + 1 :])]
    if len(types) > 1:
        yield [next(large(type_)) for type_ in types]


NOT_CALLED: Final = frozenset({"assign", "eq"})
"""Equations, which are not calls; `equal` compares as they do."""
NAMES: Final = [
    each.name for each in REGISTRY if each.signature.args and each.name not in NETWORK | NOT_CALLED
]


@cache
def query_of(name: str, count: int) -> Query:
    """The call with operands that a function gives: the input itself shares no parts."""
    engine = Engine({"p.rego": "package p\n\nf(x) := x\n"}, environment=OFFLINE)
    bound = [f"x{n} := data.p.f(input[{n}])" for n in range(count)]
    call = f"{name}({', '.join(f'x{n}' for n in range(count))})"
    return engine.prepare("; ".join([*bound, call]), deadline=DEADLINE)


def spent(name: str, values: list[Any]) -> float:
    """Seconds of CPU time that a call takes."""
    query = query_of(name, len(values))
    began = time.process_time()
    with suppress(EvalError):
        query.rows_of(query.evaluation(values))
    return time.process_time() - began


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", NAMES)
def test_shared_operands_end_by_the_deadline(name: str) -> None:
    types = REGISTRY[name].signature.args
    spent(name, [small(type_) for type_ in types])  # loads what it needs
    for number, values in enumerate(operands(types)):
        limit = DEADLINE + SLACK * slowness()
        in_time = any(spent(name, values) < limit for _ in range(TRIES))
        # Nothing here prints the operands: that takes as long.
        assert in_time, f"operands {number}"
