"""A document rule by rule: which value each of its rules gives, and what is left to ask for it.

A residual query says that a document has the value that was asked for. What another rule says, and
what follows where none does, is not in it: a reader that has to know asks for the definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from doorward.base.records import record
from doorward.rego.partial.conflicts import exclude_each_other, is_determined, path_of_rule
from doorward.rego.partial.context import SearchContext, Site
from doorward.rego.partial.core import (
    Body,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    Var,
    variables,
)
from doorward.rego.partial.program import Node
from doorward.rego.partial.propagation import Propagation
from doorward.rego.partial.residual import body_to_nodes, term_to_nodes
from doorward.rego.partial.state import body_of
from doorward.rego.source import Span
from doorward.rego.syntax import nodes
from doorward.rego.values import UNDEFINED, Undefined, Value

__all__ = ["Branch", "Definitions", "Outcome"]


class Outcome:
    """One solution of a rule: its value and the conditions under which the rule has it. `constant`
    is UNDEFINED if the value depends on something unknown.
    """

    def __init__(self, value: Term, body: Body, *, is_determined: bool) -> None:
        self.constant: Value | Undefined = value.value if type(value) is Constant else UNDEFINED
        self._value = value
        self.core_body = body
        self.is_determined = is_determined
        """True if the outcome has only one value for one set of documents."""

    @cached_property
    def value(self) -> nodes.Term:
        """The value as a term, whose variables are those of `body`."""
        return term_to_nodes(self._value)

    @cached_property
    def body(self) -> nodes.Body:
        """The conditions that are left."""
        return body_to_nodes(self.core_body)


@record
class Branch:
    """A rule, or an `else` of one. It applies only if no earlier branch of the same rule holds."""

    path: str
    span: Span
    outcomes: tuple[Outcome, ...]


@record
class Definitions:
    """The rules of one document, each with its branches, and the default value."""

    rules: tuple[tuple[Branch, ...], ...]
    default: Value | Undefined
    exclude: Callable[[Outcome, Outcome], bool]
    """True if two outcomes can never hold for the same documents."""

    @property
    def size(self) -> int:
        """The number of expressions in all branches that the search left, by which a reader limits
        its work.
        """
        return sum(
            len(outcome.core_body) for rule in self.rules for b in rule for outcome in b.outcomes
        )


def define(search: SearchContext, path: Ref) -> Definitions | None:
    """Return the definitions of the document at `path`, rule by rule; of a set, an object or base
    data, each solution counts as a rule. Return None if they add nothing to the residual queries:
    the document is a function, or is true where a rule holds and otherwise false or undefined.
    """
    node = search.program.find(path.parts)
    if node is None or not node.is_virtual:
        return _define_by_solutions(search, path)
    if node.rules and (node.rules[0].is_set or not node.is_ground):
        return _define_by_solutions(search, path)
    if node.is_function or _is_plain(node):
        return None
    rules = tuple([_branches(search, rule) for rule in node.rules])
    default: Any = UNDEFINED
    if node.default is not None:
        default = _default_of(search, node.default)
    return Definitions(rules, default, _excluder(search))


def _is_plain(node: Node) -> bool:
    """Return True if all rules have the constant value true, without `else`, and the default, if
    there is one, is false.
    """
    default = node.default
    if node.has_else or (default is not None and default.value != Constant(False)):
        return False
    return all(rule.value == Constant(True) for rule in node.rules)


def _excluder(search: SearchContext) -> Callable[[Outcome, Outcome], bool]:
    """Return a function that is True only if two outcomes certainly never hold for the same
    documents.
    """

    def exclude(one: Outcome, other: Outcome) -> bool:
        return exclude_each_other(search, one.core_body, other.core_body)

    return exclude


def _branches(search: SearchContext, rule: Rule) -> tuple[Branch, ...]:
    """Return the branches of a rule with the outcomes of each."""
    return tuple(
        [
            Branch(path_of_rule(branch), branch.span, tuple(_outcomes(search, branch)))
            for branch in rule.branches()
        ]
    )


def _outcomes(search: SearchContext, rule: Rule) -> Iterable[Outcome]:
    """Return the outcomes of one rule or branch. Outcomes whose conditions can never hold, because
    of their types, are left out.
    """
    bindings = search.child()
    outcomes = []
    assert rule.value is not None
    with search.apart() as saved:
        for _ in search.rule(rule, bindings):
            value = search.names.plug(rule.value, bindings)
            outcome = _outcome(search, value, body_of(saved, search.names))
            if outcome is not None:
                outcomes.append(outcome)
    return outcomes


def _outcome(search: SearchContext, value: Term, body: Body) -> Outcome | None:
    """Return the outcome for a value and a body; None if the body never holds by its types."""
    typed = search.well_typed(body)
    if typed is None:
        return None
    left = Propagation(search.program, set(variables(value)), whole=True).apply(typed)
    # With `whole`, a body without conditions is `true`; here it is ().
    if left == (Expr((Constant(True),)),):
        left = ()
    return Outcome(value, left, is_determined=is_determined(search, value, typed))


def _default_of(search: SearchContext, rule: Rule) -> Value | Undefined:
    """Return the value of a default rule; UNDEFINED if it is not constant or depends on something
    unknown.
    """
    outcomes = list(_outcomes(search, rule))
    if len(outcomes) == 1 and not outcomes[0].core_body:
        return outcomes[0].constant
    return UNDEFINED


def _define_by_solutions(search: SearchContext, path: Ref) -> Definitions:
    """Return definitions without a default, for documents that are not complete rules: each
    solution of a query for the document, a value with its conditions, is a rule with one branch.
    """
    bindings = search.child()
    name = Var("value")
    site = Site(Expr((path, name), "eq"), 0, bindings, bindings.number)
    span = site.expr.span
    branches = []
    with search.apart() as saved:
        for _ in search.expr(site):
            value = search.names.plug(name, bindings)
            outcome = _outcome(search, value, body_of(saved, search.names))
            if outcome is not None:
                branches.append((Branch(_path_text(path), span, (outcome,)),))
    return Definitions(tuple(branches), UNDEFINED, _excluder(search))


def _path_text(path: Ref) -> str:
    return path_of_rule(Rule(path.parts, None, None, None, (), 1))
