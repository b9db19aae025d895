"""References that can reach nothing: `x.b` where `x` has no `b`, `xs["a"]` where `xs` is a list.

A variable in brackets gets the type of the keys it walks over. Beyond what rules define everything
is possible: base data may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from doorward.rego.analysis.environment import Scope, TypeNode, constant, is_constant
from doorward.rego.analysis.type_errors import Finding, bad_operand, not_a_collection
from doorward.rego.analysis.types import UNKNOWN, keys_of, select, unifies, values_of
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.builtins.registry.signature import (
    AnyOf,
    Function,
    ObjectType,
    Type,
    any_,
    string,
)
from doorward.rego.syntax.nodes import (
    And,
    Array,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    Or,
    Ref,
    Scalar,
    Set,
    Term,
    Var,
)
from doorward.rego.values import Key

__all__ = ["bodies_of", "check_references"]


class TermTypes(Protocol):
    """The part of type inference that checks of references use: the types of terms."""

    def type(self, term: Term, scope: Scope) -> Type: ...

    def fit(self, term: Term, type_: Type, scope: Scope, *, widen: bool = False) -> bool: ...


def check_references(expr: Expr, scope: Scope, types: TermTypes) -> Iterator[Finding]:
    """Yield the type errors in the references of a flat expression. Variables that are operands get
    the types of the keys, in `scope`.
    """
    for ref in _references(expr):
        problem = _Check(ref, scope, types).run()
        if problem is not None:
            yield problem


def bodies_of(expr: Expr) -> Body:
    """Return the expressions in the bodies of `every`, `not`, `and` and `or`, for which OPA infers
    no types: it only checks their references and comprehensions. () for other expressions.
    """
    match expr.term:
        case Every(_, _, _, body) | Not(body):
            return body
        case And(left, right) | Or(left, right):
            return (*left, *right)
    return ()


def _references(expr: Expr) -> Iterator[Ref]:
    """Yield the references of a flat expression, in the order in which OPA checks them: those of
    its bodies or operands, and those in a `with` only of an expression that has bodies.
    """
    term = expr.term
    if isinstance(term, Call):
        for arg in term.args:
            yield from _in_term(arg)
    elif isinstance(term, Term):
        yield from _in_term(term)
    else:
        for inner in bodies_of(expr):
            yield from _references(inner)
        # Of these OPA also looks at what is replaced (not below `not`), and by what.
        for item in expr.withs:
            if not isinstance(term, Not):
                yield from _in_term(item.target)
            yield from _in_term(item.value)


def _in_term(term: Term) -> Iterator[Ref]:
    """Yield the references in a flat term, outer ones first, also `input` and `data` alone (without
    operands). Calls, comprehensions and heads are not searched.
    """
    match term:
        case Ref(_, args):
            yield term
            for arg in args:
                yield from _in_term(arg)
        case Var(name) if name in ROOTS:
            yield Ref(term, (), term.span)
        case Array(items) | Set(items):
            for item in items:
                yield from _in_term(item)
        case Object(items):
            for key, value in items:
                yield from _in_term(key)
                yield from _in_term(value)


class _Check:
    """The check of one reference. Positions count from its head, which is 0."""

    def __init__(self, ref: Ref, scope: Scope, types: TermTypes) -> None:
        self.ref = ref
        self.scope = scope
        self.types = types

    def run(self) -> Finding | None:
        """Return the error in the reference: nothing can be there, or an operand can be no key.
        None if it has no error, or if its head is not a variable. If it starts with a variable
        without a type, that gets the type any, in the scope.
        """
        head = self.ref.head
        if not isinstance(head, Var):
            return None
        if head.name not in ROOTS:
            known = self.scope.variable(head.name)
            if known is None:
                known = self.scope.variables[head.name] = any_
            return self._below(known, 1)
        type_ = self.scope.reference(self.ref)
        if isinstance(type_, Function):
            return not_a_collection(self.ref, len(self.ref.args), type_)
        for tree in self.scope.documents:
            problem, left = self._walk(tree.children.get(head.name))
            if problem is not None or not left:
                return problem
        return self._below(any_, 1)

    def _walk(self, node: TypeNode | None) -> tuple[Finding | None, bool]:
        """Return the error in the part of the reference that the tree of types covers, or None, and
        True if the reference leads out of the tree without an error, so that other trees count.
        `node` is the tree's node for the head; None: the tree has nothing there.
        """
        for position, operand in enumerate(self.ref.args, start=1):
            if node is None:
                return None, True
            if node.type is not None:
                return self._below(node.type, position), False
            is_name = isinstance(operand, Scalar) and isinstance(operand.value, str)
            if position <= 2 and not is_name and not isinstance(operand, Var):
                have = self.types.type(operand, self.scope)
                return bad_operand(self.ref, position, have, string, node.written), False
            if isinstance(operand, Var):
                keys = keys_of(node.extent())
                problem = self._variable(operand, position, keys, node.written)
                if problem is not None:
                    return problem, False
            fixed = is_constant(operand)
            node = node.children.get(constant(operand)) if fixed else None
        return None, node is None

    def _variable(
        self, operand: Var, position: int, keys: Type, one_of: tuple[Key, ...]
    ) -> Finding | None:
        """Return the error if an operand variable has a type that none of the keys has, which are
        of type `keys`; else None. `one_of`: the known keys, for the message. A variable without a
        type gets the type `keys`, in the scope.
        """
        known = self.scope.variable(operand.name)
        if known is None:
            self.scope.variables[operand.name] = keys
        elif not unifies(keys, known):
            return bad_operand(self.ref, position, known, keys, one_of)
        return None

    def _below(self, type_: Type, position: int) -> Finding | None:
        """Return the error in the reference from operand `position` (from 1) on, followed inside a
        value of type `type_`; None if there is none.
        """
        for n, operand in enumerate(self.ref.args[position - 1 :], start=position):
            keys = keys_of(type_)
            if keys == UNKNOWN:
                return not_a_collection(self.ref, n - 1, type_)
            if isinstance(operand, Scalar):
                child = select(type_, operand.value)
                if child == UNKNOWN:
                    return bad_operand(self.ref, n, None, keys, _fields(type_))
                type_ = child
                continue
            problem = self._operand(operand, n, keys, type_)
            if problem is not None:
                return problem
            type_ = values_of(type_)
        return None

    def _operand(self, operand: Term, position: int, keys: Type, type_: Type) -> Finding | None:
        """Return the error if the operand at `position` cannot be a key of a value of type `type_`,
        whose keys have type `keys`; else None. A variable without a type gets the type `keys`, in
        the scope.
        """
        if isinstance(operand, Var):
            return self._variable(operand, position, keys, _fields(type_))
        if not self.types.fit(operand, keys, self.scope):
            have = self.types.type(operand, self.scope)
            return bad_operand(self.ref, position, have, keys, ())
        return None


def _fields(type_: Type) -> tuple[Key, ...]:
    """Return the keys that an object type names, or those of all options of a union; () for other
    types.
    """
    match type_:
        case ObjectType(fields):
            return tuple(key for key, _ in fields)  # type: ignore[misc]  # fields are in key form
        case AnyOf(options):
            return tuple(dict.fromkeys(key for option in options for key in _fields(option)))
    return ()
