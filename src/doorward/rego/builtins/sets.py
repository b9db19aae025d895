"""Sets out of sets: `&`, `|`, and the same over a set of sets."""

from __future__ import annotations

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.operands import refuse_operand
from doorward.rego.builtins.registry.signature import any_, set_
from doorward.rego.values import Key, from_key, kind_name, sorted_keys

__all__: list[str] = []


@builtin(
    "and",
    set_(any_),
    set_(any_),
    returns=set_(any_),
    infix="&",
    inverse=inverse("intersection"),
)
def and_(x: frozenset[Key], y: frozenset[Key]) -> frozenset[Key]:
    """The members that are in both `x` and `y`."""
    return y & x  # as OPA: of equal members that of the smaller set, or of the first, stays


@builtin("or", set_(any_), set_(any_), returns=set_(any_), infix="|", inverse=inverse("set_union"))
def or_(x: frozenset[Key], y: frozenset[Key]) -> frozenset[Key]:
    """The members that are in `x`, in `y` or in both."""
    return x | y


@builtin(
    "intersection",
    set_(set_(any_)),
    returns=set_(any_),
    checks_deadline=True,
    inverse=inverse("set_of_sets"),
)
def intersection(sets: frozenset[Key]) -> frozenset[Key]:
    """The members that are in all the sets; the empty set if there are no sets. A member of `sets`
    that is not a set is an error.
    """
    members = _sets(sets)
    return members[0].intersection(*members[1:]) if members else frozenset()


@builtin(
    "union",
    set_(set_(any_)),
    returns=set_(any_),
    checks_deadline=True,
    inverse=inverse("set_of_sets"),
)
def union(sets: frozenset[Key]) -> frozenset[Key]:
    """The members that any of the sets has. A member of `sets` that is not a set is an error."""
    return frozenset().union(*_sets(sets))


def _sets(sets: frozenset[Key]) -> list[frozenset[Key]]:
    """The members of a set of sets, in Rego's order; OperandError if one is not a set."""
    members: list[frozenset[Key]] = []
    for key in sorted_keys(sets):
        member = from_key(key)
        if not isinstance(member, frozenset):
            refuse_operand(1, "set", kind_name(member))
        members.append(member)
    return members


@builtin(
    "set_diff",
    set_(any_),
    set_(any_),
    returns=set_(any_),
    deprecated="use `-`",
    inverse=inverse("minus"),
)
def set_diff(x: frozenset[Key], y: frozenset[Key]) -> frozenset[Key]:
    """The members of `x` that are not in `y`."""
    return x - y
