"""The steps by which a conjunction is refuted: what a refuter emits and a checker replays.

A conjunction is a list of expressions. An expression is named by its position, a term by its text
in Rego. A step either closes the conjunction (no input makes it true), or changes it in a way that
keeps every input that makes it true, and is followed by a step for each conjunction that results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = [
    "Alias",
    "Bounds",
    "Cases",
    "Contradiction",
    "Cycle",
    "Denied",
    "Derived",
    "Empty",
    "Fails",
    "Instance",
    "Named",
    "Opposite",
    "Same",
    "Shape",
    "Split",
    "Step",
    "Texts",
    "Undefined",
]


# Steps that close a conjunction


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An expression, and its negation."""

    positive: int
    negative: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Comparisons that lead from a term back to itself, in Rego's total order: at least one of
    them is strict. Where two comparisons meet in two constants, their order is a link too, and so
    is the order of a term and its sum with an integer."""

    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """A comparison that does not hold, by the bounds that the others give to its sides, which may
    be sums and multiples."""

    position: int


@dataclass(frozen=True, slots=True)
class Denied:
    """`not` of a support rule that holds: `body` are the expressions that one of its bodies has."""

    negative: int
    rule: tuple[int, int]
    body: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fails:
    """An expression that does not hold with the values that terms have."""

    position: int


@dataclass(frozen=True, slots=True)
class Undefined:
    """A call in an expression that is not negated: with the values that terms have it has none, or
    an operand is not the text that it must be."""

    position: int
    call: str


@dataclass(frozen=True, slots=True)
class Texts:
    """No text satisfies all of these expressions about one term."""

    term: str
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Empty:
    """A collection has few items, as one expression says of its count, and one that another
    expression reads is not among them."""

    empty: int
    member: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A part of the input that is not an object, as one expression says, and a field of it with a
    text as its key, which another one reads."""

    negative: int
    reader: int


# Steps that change a conjunction


@dataclass(frozen=True, slots=True)
class Cases:
    """A term has one of some values, as the expression at `source` says; a step for each value.

    The source is an equation, a membership, or the negation of the term: then the term is false,
    or it has no value, which is not so where the expression at `reader` needs it.
    """

    term: str
    source: int
    cases: tuple[tuple[Any, Step], ...]
    reader: int | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """Two equations with the same call on one side: the variables of the second one's other side
    are those of the first one's."""

    first: int
    second: int
    then: Step


@dataclass(frozen=True, slots=True)
class Alias:
    """An equation of a variable and a reference or a call: the variable is replaced by it."""

    position: int
    then: Step


@dataclass(frozen=True, slots=True)
class Instance:
    """An `every`, and an item of its domain that another expression reads: the body holds for
    it, and is added."""

    every: int
    member: int
    item: str
    then: Step


@dataclass(frozen=True, slots=True)
class Derived:
    """A support rule that holds: with some values of its variables, in Rego, its body is these
    expressions. That the rule is true, or that its set has a member, is added."""

    rule: tuple[int, int]
    values: tuple[tuple[str, str], ...]
    body: tuple[int, ...]
    then: Step


@dataclass(frozen=True, slots=True)
class Named:
    """A support rule that has the value of a part of the input: the expression at `position`, which
    reads that part, is added with the rule in its position."""

    position: int
    path: tuple[str, ...]
    then: Step


@dataclass(frozen=True, slots=True)
class Opposite:
    """Negated comparisons and memberships in constants, whose operands all have values: what holds
    instead is added, in their order. An equation does not need its operands, and is not one."""

    positions: tuple[int, ...]
    then: Step


@dataclass(frozen=True, slots=True)
class Split:
    """A support rule or a member of a support set that has to hold: one of its bodies does, and is
    added; a step for each, in the order of the rules."""

    position: int
    cases: tuple[Step, ...]


Step: TypeAlias = (
    Contradiction
    | Cycle
    | Bounds
    | Denied
    | Fails
    | Texts
    | Undefined
    | Empty
    | Shape
    | Cases
    | Same
    | Alias
    | Instance
    | Derived
    | Named
    | Opposite
    | Split
)
