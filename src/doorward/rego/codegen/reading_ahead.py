"""Reads ahead of their use: once before a loop, once for several definitions.

All of a body must hold, so a path that is not there may as well fail the body before a loop begins
as on each of its rounds. Reading is not an error, except that what is read may be the answer of a
rule: only what is read in any case is read ahead with a test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, get_args

from doorward.rego.codegen.lookups import constant_names, lookup_in, lookup_names, read, share
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.patterns import is_open
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.references import rule_answer
from doorward.rego.codegen.state import FunctionState
from doorward.rego.syntax.nodes import (
    Array,
    Body,
    Call,
    Expr,
    Object,
    Ref,
    Rule,
    Set,
    SomeIn,
    Term,
    Var,
    is_ground,
)
from doorward.rego.syntax.walk import Node, children, walk

__all__ = [
    "BodyReads",
    "never_fails",
    "plain_path",
    "plain_references",
    "prefetch",
    "read_for_rounds",
    "references_of",
    "share_reads",
]

MIN_SHARED: Final = 3
"""An object is read once and kept if it is used at least this many times."""

_QUIET: Final = frozenset(
    {"assign", "eq", "equal", "neq", "lt", "lte", "gt", "gte"}
    | {"internal.member_2", "internal.member_3"}
)
"""Operators whose calls never raise an error."""


class BodyReads:
    """The references that one body can read before its loops, expression by expression."""

    __slots__ = ("_body", "_noted", "_state", "_tested")

    def __init__(self, state: FunctionState, body: Body) -> None:
        self._state = state
        self._body = body
        self._tested = 0
        """The position in the body up to which paths were read ahead and tested; the expression
        before it may raise an error.
        """
        self._noted = False
        """True if the reads of the other expressions were collected too."""

    def before(self, position: int) -> None:
        """Before a loop at `position`, write the reads of paths that every round needs, with a
        test, and of those that the following expressions may need, without one. Nothing is written
        if the expression there begins no loop, or in exact and traced code.
        """
        if self._state.plan.in_order or not _loops(self._state, self._body[position]):
            return
        if position >= self._tested:
            self._read_tested(position)
        if not self._noted:
            # Those that begin later in the body are a part of these.
            self._noted = True
            self._read_quietly(position)

    def _read_tested(self, position: int) -> None:
        """Write reads of the paths that the expressions from `position` on always need, each with a
        test that fails the body, up to the first expression that may raise an error; `_tested`
        becomes the position behind that.
        """
        state = self._state
        self._tested = position
        for expr in self._body[position:]:
            if not never_fails(state.plan, expr):
                # What comes before it was read, and it is still in the way later on.
                self._tested += 1
                break
            self._tested += 1
            for ref in _read_in_any_case(expr):
                document, *names = plain_path(state.plan, ref) or ("",)
                if document:
                    with state.code.at(ref.span):
                        base = Operand(state.of_evaluation(document))
                        lookup_names(state, base, names, lookup_in(document))

    def _read_quietly(self, position: int) -> None:
        """Write reads, without a test, of the paths of the input and base data that the expressions
        from `position` on may need; expressions with `with` are left out.
        """
        state = self._state
        for expr in self._body[position:]:
            if not expr.withs:
                for ref in references_of(expr):
                    with state.code.at(ref.span):
                        _read_quietly(state, plain_path(state.plan, ref))


def _loops(state: FunctionState, expr: Expr) -> bool:
    """Return True if evaluating `expr` begins a loop: it is a `some … in`, or a reference in it has
    a variable without a value as operand.
    """
    if isinstance(expr.term, SomeIn) or any(_loops(state, each) for each in expr.before):
        return True
    return isinstance(expr.term, get_args(Term)) and any(
        is_open(state, arg) for ref in plain_references(expr.term) for arg in ref.args
    )


def never_fails(plan: Plan, expr: Expr) -> bool:
    """Return True if `expr` cannot raise an error: it has no `with`, calls only comparisons and
    memberships, and reads only the input and base data.
    """
    if expr.withs:
        return False
    for node in walk(expr):
        match node:
            case Call() if node.name not in _QUIET:
                return False
            case Ref(Var("data")) if not plain_path(plan, node):
                return False
    return True


def _read_quietly(state: FunctionState, path: tuple[str, ...]) -> None:
    """Write a read of a path that only some of the following code needs: the value may be UNDEFINED
    and is not tested. Nothing is written for () or for a path that was read before.
    """
    base = state.of_evaluation(path[0]) if path else None
    if not isinstance(base, ast.Name):
        return
    key = (base.id, *path[1:])
    if not state.reads.knows(key):
        state.reads.note(key, read(state, base, path[1:], lookup_in(path[0])))


def share_reads(state: FunctionState, references: Iterable[Ref]) -> None:
    """Write reads of the objects that at least `MIN_SHARED` of `references` pass through, once at
    the start of the function; a missing object is UNDEFINED. An object through which they only
    reach another one gets no read of its own. Nothing is written in exact and traced code.
    """
    if state.plan.in_order:
        return
    root = _Object()
    for reference in references:
        each = root
        # A tree, because the prefixes of one long reference would take quadratic memory.
        for name in plain_path(state.plan, reference)[:-1]:
            each = each.below.setdefault(name, _Object())
            each.uses += 1
    path: list[str] = []
    waiting = [(0, "", root)]
    while waiting:
        depth, name, each = waiting.pop()
        path[max(depth - 1, 0) :] = [name] if depth else []
        # An object that is only on the way to another one needs no name.
        is_on_the_way = any(lower.uses == each.uses for lower in each.below.values())
        if depth > 1 and each.uses >= MIN_SHARED and not is_on_the_way:
            share(state, path[0], tuple(path[1:]))
        waiting += [
            (depth + 1, name, lower)
            for name, lower in sorted(each.below.items(), reverse=True)
            if lower.uses >= MIN_SHARED
        ]


class _Object:
    """An object of the input or base data, with the number of references that pass through it."""

    __slots__ = ("below", "uses")

    def __init__(self) -> None:
        self.uses = 0
        self.below: dict[str, _Object] = {}


def prefetch(state: FunctionState, reference: Ref) -> None:
    """Write a read of the beginning of `reference`, from the input, base data or a rule, without a
    test. Later reads of the same part use it.
    """
    path = plain_path(state.plan, reference)
    node, rest = state.plan.rule_of(reference)
    if path:
        _read_quietly(state, path)
    elif node is not None:
        names = constant_names(rest)
        temp = rule_answer(state, node)
        state.reads.note_untested((state.env.evaluation, state.plan.slot(node)), temp)
        if names:
            state.reads.note_untested((temp.id, *names), read(state, temp, names))


def read_for_rounds(state: FunctionState, rule: Rule) -> None:
    """Write, before the loop over the definitions of a group, reads of those references that all of
    them contain and that need no rule. The values are not tested and may be UNDEFINED.
    """
    for reference in references_of(rule):
        with state.code.at(reference.span):
            _read_quietly(state, plain_path(state.plan, reference))


# Which references a node holds


def plain_path(plan: Plan, ref: Ref) -> tuple[str, ...]:
    """Return the document and the names, up to the first key that is not constant, that `ref` reads
    without evaluating a rule, such as `("input", "user")`; () for other references and for a bare
    `input`. Rules that only rename a path of the input are followed.
    """
    if not isinstance(ref.head, Var):
        return ()
    names = constant_names(ref.args)
    node, rest = plan.rule_of(ref)
    alias = plan.alias(node) if node is not None else None
    if alias is not None:
        return ("input", *constant_names(alias.args), *constant_names(rest))
    if names and _is_plain(plan, ref.head.name, names):
        return (ref.head.name, *names)
    return ()


def _is_plain(plan: Plan, document: str, names: Sequence[str]) -> bool:
    """Return True if a path is read from the input or base data without passing a rule."""
    if document != "data":
        return document == "input"
    return names[0] not in plan.root.children


def references_of(node: Expr | Rule) -> Iterator[Ref]:
    """Yield every reference in `node`, in inner bodies too, outer ones before those in them.
    Expressions with a `with`, which may redirect references, are left out.
    """
    waiting: list[Node] = [node]
    for item in waiting:
        kind = type(item)
        if kind is Ref:
            yield item  # type: ignore[misc] # it is one
        elif kind is Var or is_ground(item) or (kind is Expr and item.withs):  # type: ignore[union-attr] # it is one
            continue
        waiting += children(item)


def _read_in_any_case(expr: Expr) -> Iterator[Ref]:
    """Yield references that must be defined for `expr` to hold: those of its term, or of the
    collection of `some … in`, and of the calls before it; none of `not`, `every` and `with`.
    """
    for each in (*expr.before, expr):
        term = each.term.domain if isinstance(each.term, SomeIn) else each.term
        if not each.negated and isinstance(term, get_args(Term)):
            yield from plain_references(term)


def plain_references(term: Term) -> Iterator[Ref]:
    """Yield the references that evaluating `term` always reads, outer ones before those in their
    operands; none inside comprehensions and template strings, which may not be evaluated.
    """
    if is_ground(term):
        return
    match term:
        case Ref(head, args):
            yield term
            yield from plain_references(head)
            for arg in args:
                yield from plain_references(arg)
        case Call(_, args) | Array(args) | Set(args):
            for arg in args:
                yield from plain_references(arg)
        case Object(pairs):
            for key, value in pairs:
                yield from plain_references(key)
                yield from plain_references(value)
