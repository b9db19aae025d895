"""The built-ins that policies need, as OPA's compiler finds out: those that are called, and those
that it calls itself where it takes expressions apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final

from doorward.rego.analysis.resolve import import_name
from doorward.rego.builtins import Registry
from doorward.rego.syntax.keywords import ROOTS
from doorward.rego.syntax.nodes import (
    ArrayComprehension,
    Call,
    Every,
    Expr,
    Module,
    ObjectComprehension,
    Ref,
    Rule,
    SetComprehension,
    SomeIn,
    Var,
)
from doorward.rego.syntax.walk import Node, children, walk

__all__ = ["required_builtins"]

_ASSIGNED: Final = (Ref, ArrayComprehension, SetComprehension, ObjectComprehension)
"""Terms that OPA assigns to a variable before the expression if they are inside another term."""
_REPLACED: Final = frozenset({"rego.metadata.chain", "rego.metadata.rule"})
"""Built-ins whose calls are replaced by values when a policy is compiled."""


def required_builtins(modules: Iterable[Module], registry: Registry) -> list[str]:
    """Return the sorted names of the built-ins that parsed `modules` need, and `eq` if OPA's
    compiler would add equations; functions that are not in `registry`, and `rego.metadata.chain`
    and `.rule`, do not count.
    """
    names: set[str] = set()
    for module in modules:
        rule_names = {
            rule.head.ref.head.name for rule in module.rules if type(rule.head.ref.head) is Var
        }
        documents = rule_names | {import_name(each) for each in module.imports} | ROOTS
        for rule in module.rules:
            names.update(
                name for name in _functions_called(rule, documents) if name not in rule_names
            )
    return sorted(name for name in names - _REPLACED if name in registry)


def _functions_called(rule: Rule, documents: Set[str]) -> Iterator[str]:
    """Yield the names of the functions that a rule calls, with repetitions, and `eq` wherever OPA's
    compiler assigns a part to a variable first. `documents`: names that are documents and not
    variables.
    """
    for node in walk(rule):
        terms: tuple[Node | None, ...] = ()
        match node:
            case Call():
                yield node.name
                if node.name in ("assign", "equal") or node.name in _REPLACED:
                    yield "eq"
                terms = node.args if node.name != "eq" else ()
            case SomeIn() | Every():
                yield "eq"
            case Expr(term=term, withs=withs):
                terms = (*_operands(term), *(modifier.value for modifier in withs))
            case Rule(head=head, default=False):
                terms = (head.key, head.value)
            case ArrayComprehension() | SetComprehension():
                terms = (node.term,)
            case ObjectComprehension():
                terms = (node.key, node.value)
        if any(term is not None and _is_assigned(term, documents) for term in terms):
            yield "eq"


def _operands(term: Node) -> Iterator[Node]:
    """Yield the parts of an expression's term that OPA may assign to variables: the operands of a
    reference, all parts of other terms. Nothing for a call, which is examined as a node of its own.
    """
    match term:
        case Call():
            return iter(())
        case Ref(head=Var(), args=args):
            return iter(args)
        case _:
            return iter(children(term))


def _is_assigned(term: Node, documents: Set[str]) -> bool:
    """Return True if OPA's compiler assigns the term, or a term in it, to a variable before the
    expression: a reference, a comprehension, or a name in `documents`.
    """
    if isinstance(term, Var):
        return term.name in documents
    if isinstance(term, _ASSIGNED):
        return True
    inside = term.args if isinstance(term, Call) else children(term)
    return any(_is_assigned(each, documents) for each in inside)
