"""The steps by which a conjunction is refuted: a refuter emits them, and a checker replays them.

A conjunction is a list of expressions. A step names an expression by its position, and a term by
its text in Rego. A step either closes the conjunction (no input makes it true), or changes it in a
way that keeps every input that makes it true, and is followed by a step for each conjunction that
results.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from doorward.base.records import record

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


@record
class Contradiction:
    """A step of a proof: the expression at `negative` is `not` of the one at `positive`."""

    positive: int
    negative: int


@record
class Cycle:
    """A step of a proof: comparisons lead from a term back to itself in Rego's total order, and at
    least one of them is strict. Where two comparisons meet in two constants, their order is a link
    too, and so is the order of a term and its sum with an integer.
    """

    positions: tuple[int, ...]


@record
class Bounds:
    """A step of a proof: a comparison does not hold, by the bounds that the other comparisons give
    to its two sides, which may be sums and multiples.
    """

    position: int


@record
class Denied:
    """A step of a proof: `not` of a support rule cannot hold, since the expressions of one body of
    the rule do. `negative`: the position of the negation; `rule`: the numbers of the support module
    and of its rule; `body`: the positions of the body's expressions in the conjunction.
    """

    negative: int
    rule: tuple[int, int]
    body: tuple[int, ...]


@record
class Fails:
    """A step of a proof: the expression at `position` does not hold with the values that `Cases`
    around it assume.
    """

    position: int


@record
class Undefined:
    """A step of a proof: `call`, a call in a positive expression, is undefined with the assumed
    values, or because an operand is not the text that it must be.
    """

    position: int
    call: str


@record
class Texts:
    """A step of a proof: no text satisfies all of these expressions about one term."""

    term: str
    positions: tuple[int, ...]


@record
class Empty:
    """A step of a proof: the expression at `empty` limits the number of items of a collection, and
    the one at `member` reads an item beyond the limit.
    """

    empty: int
    member: int


@record
class Shape:
    """A step of a proof: the expression at `negative` denies that a part of the input is an object,
    and the one at `reader` reads a field of it by a text key.
    """

    negative: int
    reader: int


# Steps that change a conjunction


@record
class Cases:
    """A step of a proof: a term has one of the values that the expression at `source` allows; one
    step follows for each value. The source is an equation, a membership, or the negation of the
    term. A negated term is false or undefined; the expression at `reader`, which needs its value,
    excludes the latter.
    """

    term: str
    source: int
    cases: tuple[tuple[Any, Step], ...]
    reader: int | None = None


@record
class Same:
    """A step of a proof: two equations have the same call on one side, so their other sides are
    equal. The variables of the second one's other side are replaced by those of the first.
    """

    first: int
    second: int
    then: Step


@record
class Alias:
    """A step of a proof: the expression at `position` is an equation of a variable with a reference
    or a call, which replaces the variable everywhere.
    """

    position: int
    then: Step


@record
class Instance:
    """A step of a proof: an `every` holds for an item of its domain that another expression reads;
    its body for that item is added.
    """

    every: int
    member: int
    item: str
    then: Step


@record
class Derived:
    """A step of a proof: a support rule holds, since its body, with `values` for its variables
    (written in Rego), is the expressions at the positions `body`. The fact that the rule is true,
    or that its set has a member, is added. `rule`: the numbers of the support module and of its
    rule.
    """

    rule: tuple[int, int]
    values: tuple[tuple[str, str], ...]
    body: tuple[int, ...]
    then: Step


@record
class Named:
    """A step of a proof: the support rule at `path` has the value of a part of the input. The
    expression at `position`, which reads that part, is added with a reference to the rule in its
    place.
    """

    position: int
    path: tuple[str, ...]
    then: Step


@record
class Opposite:
    """A step of a proof: the opposites of negated comparisons, and of negated memberships in
    constants, are added at the end in the same order: `not a < b` gives `a >= b`. In Rego such a
    negation only holds if all operands have values. `not a == b` also holds without them, so it has
    no opposite.
    """

    positions: tuple[int, ...]
    then: Step


@record
class Split:
    """A step of a proof: a support rule, or a member of a support set, has to hold, so one of its
    bodies does; one step follows for each body, in the order of the rules.
    """

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
