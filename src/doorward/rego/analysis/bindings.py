"""The variables that an expression needs before it can run, and those that it binds.

Everything rests on three positions a variable can be in. As a *value* it must be bound. As an
*operand* of a reference (`xs[i]`) it is bound by walking the collection. In a *pattern*, a side of
`=` or `:=` or the output of a call, it is bound by taking the value apart. Variables inside a
closure (comprehension, `every`) that also are outside of it are values there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cmp_to_key
from typing import TypeAlias

from doorward.base.records import mutable
from doorward.rego.analysis.variables import ROOTS, part_vars, term_vars
from doorward.rego.syntax.nodes import (
    Array,
    Call,
    Object,
    Ref,
    Scalar,
    Set,
    TemplateString,
    Term,
    Var,
    With,
    is_ground,
)
from doorward.rego.values import compare

__all__ = [
    "Arity",
    "Binding",
    "as_call",
    "equations",
    "in_key_order",
    "names_function",
]

Pairs: TypeAlias = tuple[tuple[Term, Term], ...]

Arity: TypeAlias = Callable[[Call], int | None]
"""The number of operands that the called function declares; None if it is not known."""


@mutable
class Binding:
    """The variables that an expression needs, and those that it binds, given the variables bound
    before it.
    """

    bound: AbstractSet[str]
    outer: AbstractSet[str]
    """The variables of the enclosing bodies outside their closures. A closure needs them bound; its
    other variables are its own.
    """
    arity: Arity
    needs: dict[str, Var] = field(default_factory=dict)
    binds: set[str] = field(default_factory=set)

    def missing(self) -> list[Var]:
        """Return the needed variables that are neither in `bound` nor bound by what was added, in
        the order of the text; [] if there are none.
        """
        return [v for name, v in self.needs.items() if not self._is_bound(name)]

    def _is_bound(self, name: str) -> bool:
        return name in self.bound or name in self.binds

    def need(self, variables: Iterable[Var]) -> None:
        """Record each of `variables` that is not bound yet as needed; of several with one name the
        first is kept.
        """
        for var in variables:
            if not self._is_bound(var.name):
                self.needs.setdefault(var.name, var)

    def value(self, term: Term) -> None:
        """Record what `term` needs as a value: its variables that are not bound, except that
        operands of references are read by `operand`, which may bind them (unless they have a
        variable of the collection, as in `x[x]`), and of the variables inside comprehensions only
        those count that also are outside.
        """
        if is_ground(term):
            return
        match term:
            case Var(name):
                if name not in ROOTS:
                    self.need((term,))
            case Ref(head, args):
                self.value(head)
                # What the collection is made of is not bound by walking it: `x[x]`.
                names = {var.name for var in term_vars(head)}
                for arg in args:
                    if names and any(var.name in names for var in term_vars(arg)):
                        self.value(arg)
                    else:
                        self.operand(arg)
            case Call(operator, args):
                for part in operator.args:
                    self.value(part)
                for arg in args:
                    self.value(arg)
            case Array(items) | Set(items):
                for item in items:
                    self.value(item)
            case Object(items):
                for key, item in items:
                    self.value(key)
                    self.value(item)
            case TemplateString(parts):
                for inner in parts:
                    if not isinstance(inner, str):
                        self.need(part_vars(inner, closures=False))
                        self.closure(part_vars(inner))
            case _:  # a comprehension
                self.closure(term_vars(term))

    def closure(self, variables: Iterable[Var]) -> None:
        """Record as needed those of a closure's variables that also occur outside of it and are not
        bound yet.
        """
        self.need(v for v in variables if v.name in self.outer)

    def operand(self, term: Term) -> None:
        """Add `term` as an operand of a reference: a variable is bound by iteration, an array or
        object is a pattern for the keys, any other term is needed as a value.
        """
        match term:
            case Var(name):
                if name not in ROOTS:
                    self.binds.add(name)
            case Array() | Object():
                self.pattern(term)
            case _:
                self.value(term)

    def pattern(self, term: Term) -> None:
        """Record what matching a known value with `term` binds in `binds`: variables in it, in
        items of arrays and values of objects. What object keys and other terms need as values goes
        into `needs`.
        """
        match term:
            case Var(name):
                if name not in ROOTS:
                    self.binds.add(name)
            case Array(items):
                for item in items:
                    self.pattern(item)
            case Object(items):
                for key, item in items:
                    self.value(key)
                    self.pattern(item)
            case _:
                self.value(term)


def equations(left: Term, right: Term) -> Iterator[tuple[Term, Term]]:
    """Yield the equations that `left = right` consists of: arrays of equal length, and objects with
    the same keys if all keys are scalars or variables, are matched part by part, other terms as a
    whole.
    """
    match left, right:
        case Array(a), Array(b) if len(a) == len(b):
            for x, y in zip(a, b, strict=True):
                yield from equations(x, y)
        case Object(c), Object(d) if _same_keys(c, d):
            others = dict(d)
            for key, value in in_key_order(c, tuple(others.values())):
                yield from equations(value, others[key])
        case _:
            yield left, right


def in_key_order(pairs: Pairs, beside: Sequence[Term] = ()) -> Pairs:
    """Return the members of an object pattern in the order in which they are matched. They are
    sorted by key, as in OPA, if a value in `pairs` or `beside` contains a set or an object key with
    variables, since an earlier member may bind these. Otherwise, or if a key is not a scalar,
    `pairs` is returned unchanged. `beside`: the values that the members are matched with, if known.
    """
    scalars = {key: key.value for key, _ in pairs if isinstance(key, Scalar)}
    parts = (*[value for _, value in pairs], *beside)
    if len(scalars) != len(pairs) or not any(map(_has_closed_part, parts)):
        return pairs
    by_key = cmp_to_key(compare)
    return tuple(sorted(pairs, key=lambda pair: by_key(scalars[pair[0]])))  # type: ignore[index]


def _has_closed_part(term: Term) -> bool:
    """Return True if a pattern has, at any depth of arrays and values of objects, a set or key with
    variables, which a match does not bind.
    """
    match term:
        case Set():
            return not term.is_ground
        case Array(items):
            return any([_has_closed_part(item) for item in items])
        case Object(pairs):
            return any([not is_ground(key) or _has_closed_part(value) for key, value in pairs])
    return False


def _same_keys(a: Pairs, b: Pairs) -> bool:
    """Return True if two objects, as pairs, have equal sets of keys, which all are scalars or
    variables, and each key once.
    """
    keys_a, keys_b = {k for k, _ in a}, {k for k, _ in b}
    plain = all(isinstance(k, (Scalar, Var)) for k in keys_a)
    return plain and keys_a == keys_b and len(keys_a) == len(a) == len(b)


def names_function(item: With, arity: Arity) -> bool:
    """Return True if `item` replaces a function or data by a function, so that its value is a name,
    not a term. False if the number of operands of the new function is not known, as for a variadic
    built-in.
    """
    target, value = as_call(item.target), as_call(item.value)
    if target is None or value is None or arity(value) is None:
        return False
    # A document may be replaced by a function only below `data`.
    return arity(target) is not None or (_is_data(item.target) and _is_data(item.value))


def _is_data(term: Term) -> bool:
    head = term.head if isinstance(term, Ref) else term
    return isinstance(head, Var) and head.name == "data"


def as_call(value: Term) -> Call | None:
    """Return a variable, or a reference that starts with one, as a call without operands, since a
    name such as `count` or `data.lib.f` may stand for a function. None for any other term. The
    function need not exist.
    """
    if isinstance(value, Var):
        return Call(Ref(value, (), value.span), (), value.span)
    if isinstance(value, Ref) and isinstance(value.head, Var):
        return Call(value, (), value.span)
    return None
