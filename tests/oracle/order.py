"""Third step: bodies in an order in which every expression finds the variables that it needs.

Expressions keep their order but for those that must wait. What an expression gives depends on
what is known before it: an equation gives the variables that its sides can match, a reference
those that stand in brackets, a call with one operand too many those in the last one. A variable
that nothing gives is unsafe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from tests.oracle.plain import COMPREHENSIONS
from tests.oracle.scope import ROOTS, is_root, name_of

from doorward.rego.errors import UNSAFE_VAR_ERROR, CompileError, Diagnostic
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import Node, children

__all__ = ["Ordering", "UnsafeError", "variables"]

Names = frozenset[str]
NONE: Names = frozenset()


class UnsafeError(CompileError):
    """Variables that no order makes safe."""

    def __init__(self, names: Iterable[str]) -> None:
        texts = [f"var {name.partition('#')[0]} is unsafe" for name in sorted(names)]
        super().__init__([Diagnostic(UNSAFE_VAR_ERROR, text) for text in texts])


def variables(node: Node, *, closures: bool = False, keys: bool = True) -> Iterator[str]:
    """The variables below `node`; without those of closures and object keys unless wanted."""
    if isinstance(node, Var):
        if node.name not in ROOTS:
            yield node.name
        return
    if isinstance(node, Call):
        below: Iterator[Node] = iter(node.args)
    elif isinstance(node, COMPREHENSIONS) and not closures:
        return
    elif isinstance(node, Every) and not closures:
        below = iter((node.domain,))
    elif isinstance(node, Not | And | Or) and not closures:
        return
    elif isinstance(node, Object) and not keys:
        below = iter([value for _, value in node.items])
    elif isinstance(node, Expr):
        below = iter([node.term, *(part for item in node.withs for part in _with_parts(item))])
    else:
        below = iter(children(node))
    for child in below:
        yield from variables(child, closures=closures, keys=keys)


def _bound(node: Node) -> Iterator[str]:
    """The variables that a pattern binds: not those of its references, sets and keys."""
    if isinstance(node, Array):
        for item in node.items:
            yield from _bound(item)
    elif isinstance(node, Object):
        for _, value in node.items:
            yield from _bound(value)
    elif not isinstance(node, Ref | Set):
        yield from variables(node, keys=False)


def _closures(node: Node) -> Iterator[Node]:
    """The outermost bodies inside an expression."""
    if isinstance(node, COMPREHENSIONS):
        yield node
    elif isinstance(node, Every | Not):
        yield from node.body
    elif isinstance(node, And | Or):
        yield from node.left
        yield from node.right
    else:
        for child in children(node):
            yield from _closures(child)


def _negated(expr: Expr) -> Names:
    """What `not` without braces reads: only what has braces has variables of its own."""
    if not isinstance(expr.term, Not) or expr.term.braces:
        return NONE
    names = {name for inner in expr.term.body for name in variables(inner)}
    # Operands that have a name of their own by now are computed inside.
    return frozenset(name for name in names if not name.startswith("#"))


def _with_parts(item: With) -> list[Term]:
    """What a `with` reads: the brackets of its target, and its value."""
    return [*(item.target.args if isinstance(item.target, Ref) else ()), item.value]


class Ordering:
    """Orders bodies; `arity` says how many operands a function takes."""

    def __init__(self, arity: Callable[[str | tuple[object, ...]], int]) -> None:
        self.arity = arity

    def body(self, body: Body, safe: Names, *, head: Names = NONE) -> Body:
        """The body in order, closures too; UnsafeError if there is none.

        `safe`: what is known from outside; `head`: what must be known at the end.
        """
        mine = {name for expr in body for name in variables(expr)}
        if head - mine - safe:
            raise UnsafeError(head - mine - safe)
        ordered: list[Expr] = []
        known = safe
        waiting = list(body)
        while waiting:
            left: list[Expr] = []
            for expr in waiting:
                given = self._gives(expr, known)
                closed = {
                    name for c in _closures(expr.term) for name in variables(c, closures=True)
                }
                needed = set(variables(expr)) | (closed & mine) | _negated(expr)
                if needed <= known | given and closed & mine <= known:
                    ordered.append(expr)
                    known |= given
                else:
                    left.append(expr)
            if len(left) == len(waiting):
                missing = {n for expr in left for n in (*variables(expr), *_negated(expr))}
                raise UnsafeError(missing - known)
            waiting = left
        result: list[Expr] = []
        around = safe
        for expr in ordered:
            result.append(self._inside(expr, around | set(variables(expr))))
            around |= set(variables(expr))
        return tuple(result)

    def _inside(self, expr: Expr, safe: Names) -> Expr:
        """The expression with the bodies in it ordered."""
        match expr.term:
            case Every(key=key, value=value, body=body) as every:
                assert key is not None
                return replace(
                    expr, term=replace(every, body=self.body(body, safe | {key.name, value.name}))
                )
            case Not(body=body):
                return replace(expr, term=replace(expr.term, body=self.body(body, safe)))
            case And(left=left, right=right):
                return replace(expr, term=And(self.body(left, safe), self.body(right, safe)))
            case Or(left=left, right=right):
                return replace(expr, term=Or(self.body(left, safe), self.body(right, safe)))
            case SomeDecl() | SomeIn():
                raise AssertionError("is an equation by now")
            case term:
                return replace(expr, term=self._term(term, safe))

    def _term(self, term: Term, safe: Names) -> Term:
        match term:
            case ArrayComprehension(term=head, body=body) | SetComprehension(term=head, body=body):
                names = frozenset(variables(head))
                return replace(term, body=self.body(body, safe, head=names))
            case ObjectComprehension(key=key, value=value, body=body):
                names = frozenset([*variables(key), *variables(value)])
                return replace(term, body=self.body(body, safe, head=names))
            case Ref(args=args):
                return replace(term, args=tuple(self._term(arg, safe) for arg in args))
            case Call(args=args):
                return replace(term, args=tuple(self._term(arg, safe) for arg in args))
            case Array(items=items) | Set(items=items):
                return replace(term, items=tuple(self._term(item, safe) for item in items))
            case Object(items=pairs):
                new = tuple((self._term(k, safe), self._term(v, safe)) for k, v in pairs)
                return replace(term, items=new)
            case _:
                return term

    # What an expression gives

    def _gives(self, expr: Expr, known: Names) -> Names:
        if expr.negated or isinstance(expr.term, Not | And | Or):
            return NONE
        if any(set(variables(t)) - known for item in expr.withs for t in _with_parts(item)):
            return NONE
        term = expr.term
        assert not isinstance(term, SomeDecl | SomeIn)
        given = self._referenced(term.domain if isinstance(term, Every) else term, known)
        if not isinstance(term, Call):
            return given
        name = name_of(term)
        if name in ("eq", "assign") and len(term.args) == 2:
            left, right = term.args
            matching = _Matching(known | given, both_ways=name == "eq")
            matching.match(left, right)
            return given | matching.safe
        arity = self.arity(name)
        if len(term.args) <= arity:
            return given
        if any(set(variables(arg)) - given - known for arg in term.args[:arity]):
            return NONE
        return given | {n for arg in term.args[arity:] for n in variables(arg, keys=False)}

    def _referenced(self, term: Term, known: Names) -> Names:
        """What is in brackets of references whose document is known."""
        given: set[str] = set()
        waiting: list[Node] = [term]
        while waiting:
            node = waiting.pop()
            if isinstance(node, COMPREHENSIONS):
                continue
            if isinstance(node, Ref):
                if not is_root(node) and not set(variables(node.head)) <= known:
                    continue
                given.update(name for arg in node.args for name in _bound(arg))
            waiting.extend(node.args if isinstance(node, Call) else children(node))
        return frozenset(given)


class _Matching:
    """Which variables an equation binds, without knowing any value."""

    def __init__(self, known: Names, *, both_ways: bool) -> None:
        self.known = known
        self.both_ways = both_ways
        self.pairs: list[tuple[frozenset[str], frozenset[str]]] = []
        """The right ones are known as soon as all the left ones are."""

    @property
    def safe(self) -> Names:
        known = set(self.known)
        grown = True
        while grown:
            grown = False
            for needed, given in self.pairs:
                if needed <= known and not given <= known:
                    known |= given
                    grown = True
        return frozenset(known)

    def match(self, left: Term, right: Term) -> None:
        """Left and right are the sides of the equation, or parts at the same place of both."""
        match left, right:
            case (Array(items=first), Array(items=second)):
                if len(first) == len(second):
                    for a, b in zip(first, second, strict=True):
                        self.match(a, b)
            case (Object(items=first_pairs), Object(items=second_pairs)):
                others = dict(second_pairs)
                if len(first_pairs) == len(second_pairs):
                    for key, value in first_pairs:
                        if key in others:
                            self.match(value, others[key])
            case _:
                self._one_way(left, right)
                if self.both_ways:
                    self._one_way(right, left)

    def _one_way(self, pattern: Term, source: Term) -> None:
        """`pattern` can be bound where `source` has a value."""
        names = frozenset(_bound(pattern))
        if isinstance(pattern, Var) and not isinstance(source, Ref):
            self.pairs.append((frozenset(variables(source, keys=False)), names))
        elif isinstance(pattern, Var | Array | Object) and isinstance(source, Ref):
            needed = NONE if is_root(source) else frozenset(variables(source.head))
            self.pairs.append((needed, names))
        elif isinstance(pattern, Array | Object) and isinstance(source, Var):
            self.pairs.append((frozenset([source.name]), names))
        elif (isinstance(pattern, Array) and isinstance(source, ArrayComprehension)) or (
            isinstance(pattern, Object) and isinstance(source, ObjectComprehension)
        ):
            self.pairs.append((NONE, names))
