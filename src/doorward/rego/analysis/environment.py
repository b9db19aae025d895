"""Types of variables and references: scopes of variables over the tree of rules.

A scope is a body; closures and queries have scopes of their own inside the one they are in. The
outermost knows what rules define below `data`, the built-ins, and the type of `input`. What nobody
defines below `data` is base data, of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from doorward.base.records import mutable
from doorward.rego.analysis.types import (
    UNKNOWN,
    canonical,
    merge,
    object_of,
    select,
    type_of,
    union,
    values_of,
)
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.builtins.registry import Registry
from doorward.rego.builtins.registry.signature import Function, ObjectType, Type, any_, string
from doorward.rego.syntax.nodes import Array, Object, Ref, Scalar, Set, Term, Var, is_ground
from doorward.rego.values import Key, Value, from_key, to_key

__all__ = ["Globals", "Scope", "TypeNode", "constant", "is_constant", "select_path"]


@mutable(eq=False)
class TypeNode:
    """The type of the document at one path below `data`, as far as it is known, with those of the
    paths below it.
    """

    type: Type | None = None
    children: dict[Key, TypeNode] = field(default_factory=dict)

    def extent(self) -> Type:
        """Return the type of the whole document at this path, to which base data may add. Keys that
        are null or composite are left out.
        """
        if self.type is not None:
            return self.type
        fields: list[tuple[Key, Any]] = []
        for key, child in self.children.items():
            inner = child.extent()
            # As in OPA, a function is a part like any other, which nothing can be done with.
            if isinstance(from_key(key), (str, int, float)):
                fields.append((key, inner))
        return object_of(fields, (string, any_))

    @property
    def written(self) -> tuple[Key, ...]:
        """The keys of the children; without the key that stands for the open keys of rules."""
        return tuple(key for key in self.children if not isinstance(from_key(key), tuple))

    def put(self, path: Sequence[Key], type_: Type) -> None:
        """Set the type at `path`, whatever was there."""
        self._child(path).type = type_

    def insert(self, path: Sequence[Key], type_: Type) -> None:
        """Add a rule's type at `path`, merged with the types of other rules there. It is also added
        to the object types above; if it is an object type itself, the types of rules below are
        added to it. Functions are not added to object types.
        """
        node = self
        for n, key in enumerate(path):
            node = node.children.setdefault(key, TypeNode())
            rest = path[n + 1 :]
            if rest and isinstance(node.type, ObjectType) and not isinstance(type_, Function):
                node.type = _insert_into(node.type, rest, type_)
        node.type = merge(node.type, type_)
        if isinstance(type_, ObjectType):
            # Rules below may have come first: an object's type includes their documents too.
            for below, leaf in list(node.leaves()):
                if isinstance(node.type, ObjectType) and not isinstance(leaf, Function):
                    node.type = _insert_into(node.type, below, leaf)

    def leaves(self) -> list[tuple[tuple[Key, ...], Type]]:
        """Return the types of the nearest nodes below this one that have a type, with their paths
        from here.
        """
        typed: list[tuple[tuple[Key, ...], Type]] = []
        for key, child in self.children.items():
            if child.type is not None:
                typed.append(((key,), child.type))
            else:
                typed += [((key, *path), type_) for path, type_ in child.leaves()]
        return typed

    def _child(self, path: Sequence[Key]) -> TypeNode:
        """Return the node at a path, created if missing."""
        node = self
        for key in path:
            node = node.children.setdefault(key, TypeNode())
        return node


def _insert_into(object_: ObjectType, path: Sequence[Key], type_: Type) -> ObjectType:
    """Return `object_` with a type for the values at `path` added. An object need not have the key,
    so the type is not added to a constant field: the first key and the type below it are merged
    into the type of the object's further pairs.
    """
    key = type_of(from_key(path[0]))
    below = type_ if len(path) == 1 else _insert_into(ObjectType(), path[1:], type_)
    rest = object_.rest
    new = (key, below) if rest is None else (union(rest[0], key), union(rest[1], below))
    return ObjectType(object_.fields, new)


@mutable(eq=False)
class Globals:
    """The names that every body can use: the built-ins, and those that rules define below `data`.
    `called`: the built-ins that are called somewhere. If a rule's body does not declare a variable
    with such a name, the variable stands for the function, as in OPA.
    """

    registry: Registry
    called: frozenset[str] = frozenset()
    rules: TypeNode = field(default_factory=TypeNode)
    signatures: dict[str, Function] = field(default_factory=dict)
    readers: Callable[[tuple[Key, ...]], Iterable[tuple[Key, ...]]] | None = None
    """The rules that read a document at a path below `data`, or a part of it; None where only
    built-ins are asked for.
    """

    def with_calls(self, called: frozenset[str]) -> Globals:
        """Return a copy in which more built-ins count as called; it shares all else with this
        object.
        """
        called |= self.called
        return Globals(self.registry, called, self.rules, self.signatures, self.readers)

    def builtin(self, name: str) -> Function | None:
        """Return the type of a built-in with its parts in OPA's order; None if the registry has
        none with this name. Cached in `signatures`.
        """
        function = self.signatures.get(name)
        if function is None:
            declared = self.registry.get(name)
            if declared is None:
                return None
            signature = declared.signature
            function = self.signatures[name] = Function(
                tuple(map(canonical, signature.args)),
                signature.result and canonical(signature.result),
                signature.variadic and canonical(signature.variadic),
            )
        return function


class Scope:
    """The variables of one body, inside those of the enclosing bodies. `documents` are trees of the
    known types of `input` and `data`, innermost first.
    """

    __slots__ = ("documents", "globals", "parent", "variables")

    def __init__(
        self,
        globals_: Globals,
        parent: Scope | None = None,
        documents: tuple[TypeNode, ...] | None = None,
    ) -> None:
        self.globals = globals_
        self.parent = parent
        self.variables: dict[str, Type] = {}
        self.documents: tuple[TypeNode, ...] = documents or (
            parent.documents if parent is not None else (globals_.rules,)
        )

    def below_replacements(self, replaced: Iterable[tuple[Ref | Var, Type]]) -> Scope:
        """Return a scope for an expression whose `with` replaces documents. A replaced document has
        the union of its type and that of the new value; rules that read a replaced document below
        `data` have type any. Variables are shared with this scope. Return `self` if no document is
        replaced.
        """
        tree = TypeNode()
        documents = [(_document_path(target), target, value) for target, value in replaced]
        readers = self.globals.readers
        assert readers is not None  # the types of rules are known
        for path, _, _ in documents:
            if path is not None and path[0] == "data":
                for reader in readers(path[1:]):
                    tree.put(("data", *reader), any_)
        for path, target, value in documents:
            before = self.reference(target)
            if path is not None and not isinstance(before, Function):
                tree.put(path, union(before, value))
        if not tree.children:
            return self
        scope = Scope(self.globals, self.parent, (tree, *self.documents))
        # Shared, not copied: what the expression binds belongs to the enclosing body.
        scope.variables = self.variables
        return scope

    def variable(self, name: str) -> Type | None:
        """Return the type of a variable here or in an enclosing scope; None if it is not known yet.
        A name that no scope knows has the function type of a built-in of this name that is called
        somewhere.
        """
        scope: Scope | None = self
        while scope is not None:
            type_ = scope.variables.get(name)
            if type_ is not None:
                return type_
            scope = scope.parent
        return self.globals.builtin(name) if name in self.globals.called else None

    def reference(self, ref: Ref | Var) -> Type:
        """Return the type of what a reference leads to. Of a document it is that of the innermost
        tree in `documents` that knows the path, and any if none does. UNKNOWN if the head is
        neither a document nor a variable with a type, or if nothing can be there.
        """
        head, args = (ref.head, ref.args) if isinstance(ref, Ref) else (ref, ())
        if not isinstance(head, Var):
            return UNKNOWN
        if head.name in ROOTS:
            for tree in self.documents:
                type_ = _look_up(tree.children.get(head.name), args)
                if type_ is not None:
                    return type_
            return any_
        known = self.variable(head.name)
        return UNKNOWN if known is None else select_path(known, args)


def _document_path(target: Ref | Var) -> tuple[Key, ...] | None:
    """Return the path of a replaced document, with `input` or `data` as first key and without
    operands that are not constant; None for a built-in.
    """
    head, args = (target.head, target.args) if isinstance(target, Ref) else (target, ())
    if not isinstance(head, Var) or head.name not in ROOTS:
        return None
    return (head.name, *(to_key(arg.value) for arg in args if isinstance(arg, Scalar)))


def _look_up(node: TypeNode | None, path: Sequence[Term]) -> Type | None:
    """Return the type that `path` leads to from `node`. Where a node with a type has no child for
    an operand, and from an operand that is not constant on, the rest is followed in the type:
    UNKNOWN if nothing can be there. None if the path leaves the tree at a node without a type.
    """
    for n, operand in enumerate(path):
        if node is None:
            return None
        fixed = is_constant(operand)
        child = node.children.get(constant(operand)) if fixed else None
        if child is None and (node.type is not None or not fixed):
            return select_path(node.extent(), path[n:])
        node = child
    return None if node is None else node.extent()


def select_path(type_: Type, path: Sequence[Term]) -> Type:
    """Return the type that `path` leads to in a value of `type_`; UNKNOWN if there can be no such
    part. Operands that are not scalars stand for any key.
    """
    for operand in path:
        if isinstance(operand, Scalar):
            type_ = select(type_, operand.value)
        else:
            type_ = values_of(type_)
    return type_


def is_constant(term: Term) -> bool:
    """Return True if a term contains no variable, reference, call or comprehension."""
    return is_ground(term)


def constant(term: Term) -> Key:
    """Return the value of a term for which `is_constant` is True, in key form."""
    return to_key(_value(term))


def _value(term: Term) -> Value:
    """Return the Rego value of a constant term: a scalar, or a collection of constants."""
    match term:
        case Scalar(value):
            return value
        case Array(items):
            return [_value(item) for item in items]
        case Set(items):
            return frozenset(to_key(_value(item)) for item in items)
    assert isinstance(term, Object)  # nothing else is constant
    return {to_key(_value(k)): _value(v) for k, v in term.items}
