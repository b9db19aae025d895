"""Parts that may end an evaluation with an error: a conflict above all.

Generated code may leave out, or evaluate in another order, only what cannot fail: else an error
that OPA reports would be lost. This is the one answer to that question, and errs on the side of
failing. Errors of built-ins and limits are not failures here: such an error makes an expression
undefined, and where it ends the evaluation, code runs in OPA's order (`codegen/exact.py`).

A rule may fail if two of its answers may differ, if a part of it may fail by itself (a call of what
is not ours, an object comprehension, a `with`), or if it reads a rule that may fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from doorward.rego.analysis.calls import Callees, call_path
from doorward.rego.analysis.dependencies import (
    Dependencies,
    Uses,
    branches,
    parts_below,
    parts_of,
    targets,
)
from doorward.rego.analysis.environment import constant, is_constant
from doorward.rego.analysis.multiplicity import multiplicity_of_rules
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.builtins import REGISTRY, Builtin
from doorward.rego.syntax.nodes import (
    Body,
    Call,
    Expr,
    ObjectComprehension,
    Ref,
    Rule,
    Term,
    Var,
    With,
)
from doorward.rego.values import to_key

__all__ = ["Failures", "has_one_answer"]


class Failures:
    """The rules, bodies and expressions of a program that may fail: raise an error such as a
    conflict. An error that only makes an expression undefined, as those of Doorward's pure
    built-ins do, does not count. `mocked`: names of what some `with` replaces, perhaps by something
    that raises errors. `prints`: someone receives the output of `print`, so its order must be kept.
    """

    def __init__(
        self, callees: Callees, graph: Dependencies, mocked: frozenset[str], *, prints: bool
    ) -> None:
        self._callees = callees
        self._graph = graph
        self._mocked = mocked
        self._prints = prints
        self._rules: dict[int, tuple[Rule, bool]] = {}
        self._shared: dict[int, bool] = {}
        # INVARIANT: `node` follows the graph without looking for cycles, so every node on one is
        # known from the start. Only exact code can evaluate these.
        self._known: dict[int, bool] = dict.fromkeys(graph.circular, True)

    def rule(self, rule: Rule) -> bool:
        """Return True if evaluating a rule or one of its `else` branches may fail, by a part of its
        own or by a rule that it reads. Conflicts between the answers of several rules are not
        covered here; `node` covers them.
        """
        uses = self._graph.uses.get(id(rule))
        if uses is not None:
            return self._uses(uses)
        known = self._rules.get(id(rule))
        if known is None:
            may_fail = any(self._part(part) for part in parts_of(rule) if type(part) in _PARTS)
            # With the rule, so that no other one takes its identity.
            known = self._rules[id(rule)] = rule, may_fail
        return known[1]

    def _uses(self, uses: Uses) -> bool:
        """Return True if one of the built-ins or nodes in `uses` may fail, or the rule itself may
        (`may_raise`). The result is cached by the identity of `uses`, which equal rules share.
        """
        known = self._shared.get(id(uses))
        if known is None:
            known = self._shared[id(uses)] = (
                uses.may_raise
                or any(map(self._builtin, uses.builtins))
                or any(map(self.node, uses.nodes))
            )
        return known

    def body(self, body: Body) -> bool:
        """Return True if an expression of `body`, or a rule that it reads, may fail."""
        return any(map(self.expr, body))

    def expr(self, expr: Expr) -> bool:
        """Return True if an expression, or a rule that it reads, may fail."""
        return any(map(self._part, parts_below(expr)))

    def node(self, node: RuleNode) -> bool:
        """Return True if evaluating the rules at `node`, or any rules they read, may fail,
        conflicting values included. The result is cached; True for a node that the graph does not
        have.
        """
        known, waiting = self._known, [node]
        while waiting:
            current = waiting[-1]
            read = self._graph.reads.get(id(current))
            if id(current) in known:
                waiting.pop()
            # Without a graph nothing is known, and the safe answer is that it may fail.
            elif read is None or any(known.get(id(target), False) for target in read):
                known[id(current)] = True
            elif unknown := [target for target in read if id(target) not in known]:
                # By a stack instead of recursion, since chains of rules can be longer than
                # Python's limit.
                waiting += unknown
            else:
                known[id(current)] = self._itself(current)
        return known[id(node)]

    def _itself(self, node: RuleNode) -> bool:
        """Return True if the rules at `node` may fail (end the evaluation with an error, such as a
        conflict of two values) even if no rule that they read does: some `with` replaces the node,
        a part may fail by itself, or two definitions or answers may give different values.
        Otherwise False: it has only a default, it is a set without rules below it, or its rules can
        give only one answer. Errs on the side of True.
        """
        # A replacement may be code of any kind, which may raise an error.
        if node.name in self._mocked or any(map(self._part_itself, _parts(node))):
            return True
        rules = [d for d in node.definitions if not d.rule.default]
        if not rules or (not node.children and all(d.is_set and not d.tail for d in rules)):
            return False
        if node.is_complete or node.is_function:
            if has_one_answer([d.rule for d in rules]):
                return False
        # The rules below add members of their own, which may differ from those here.
        elif node.children:
            return True
        if len(rules) > 1:
            return True
        multiplicity = multiplicity_of_rules(rules, self._callees, prints=self._prints)
        return any(map(multiplicity.may_have_several, branches(rules[0].rule)))

    def _part(self, part: object) -> bool:
        """Return True if one part of a rule, or a rule or built-in that it uses, may fail; False
        for a part that can neither fail nor read.
        """
        if type(part) not in _PARTS:
            return False
        return self._part_itself(part) or any(map(self.node, targets(part, self._callees)))

    def _part_itself(self, part: object) -> bool:
        """Return True if one part of a rule may fail even if no rule it reads does."""
        if isinstance(part, Call):
            return call_path(part.operator) is None and self._builtin(part.name)
        # The pairs of an object may differ at a key; what a `with` puts down may not fit.
        return isinstance(part, (ObjectComprehension, With))

    def _builtin(self, name: str) -> bool:
        """Return True if a call of the built-in may end the evaluation: a `with` replaces it, it is
        not one of Doorward's pure ones, or it is `print` and its output is received. False for a
        name that the registry does not have.
        """
        builtin = self._callees.registry.get(name)
        return builtin is not None and (
            name in self._mocked or _may_halt(builtin) or (self._prints and name == "print")
        )


_PARTS: Final = frozenset({Call, ObjectComprehension, Ref, Var, With})
"""The parts of a rule that may raise an error, or read something that may."""


def has_one_answer(rules: Iterable[Rule]) -> bool:
    """Return True if all of `rules`, which are complete, and their `else` branches have the same
    constant as their value; a rule without a value has `true`.
    """
    values = [rule.head.value for top in rules for rule in branches(top)]
    constants = [to_key(True) if v is None else constant(v) for v in values if _is_written(v)]
    return len(constants) == len(values) and all(v == constants[0] for v in constants)


def _is_written(value: Term | None) -> bool:
    return value is None or is_constant(value)


def _parts(node: RuleNode) -> Iterator[object]:
    return (part for definition in node.definitions for part in parts_of(definition.rule))


def _may_halt(builtin: Builtin) -> bool:
    """Return True if a call may end the evaluation: the built-in is not Doorward's own, is not
    pure, or builds template strings.
    """
    # A template string is pure, but several values of a part are a conflict, which ends the
    # evaluation.
    is_ours = REGISTRY.get(builtin.name) is builtin
    return not is_ours or not builtin.pure or builtin.name == "internal.template_string"
