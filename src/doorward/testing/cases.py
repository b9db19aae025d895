"""The cases of a table test: `test_x[name] if …` is one test with a case for each `name` tried.

A case that fails leaves nothing in the rule's answer, so that only a tracer can know of it: a case
is tried as soon as everything that names it has a value, and passed if the rule then holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from doorward.rego.analysis.tree import head_path
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.syntax.nodes import Expr, Rule, Scalar, Term, Var
from doorward.rego.values import Key, from_key, to_rego

__all__ = ["Case", "CaseTracer", "case_name"]


@dataclass(slots=True)
class Case:
    """One case, or a group of them by the next part of the name."""

    name: str
    passed: bool = True
    cases: dict[str, Case] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Case]:
        """The cases below, or this one."""
        return [leaf for case in self.cases.values() for leaf in case.leaves] or [self]

    def settle(self) -> None:
        """A group passed if all in it did; names come in order."""
        for case in self.cases.values():
            case.settle()
        self.cases = dict(sorted(self.cases.items()))
        if self.cases:
            self.passed = all(case.passed for case in self.cases.values())


class CaseTracer:
    """Hears which cases the rules at `path` try."""

    def __init__(self, name: str, path: Sequence[Key]) -> None:
        self.name = name
        self.path = tuple(path)
        self.tried: dict[tuple[str, ...], bool] = {}
        """The names of the cases, and whether the rule held."""
        self._stack: list[str] = []
        self._rule: Rule | None = None
        self._bound: dict[str, Any] = {}
        self._binder: dict[str, int] = {}
        self._order: dict[int, int] = {}

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        self._stack.append(name)

    def leave(self, name: str, answer: Any) -> None:
        self._stack.pop()

    def step(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        if not self._stack or not self._is_own(self._stack[-1]):
            return
        if isinstance(node, Rule):
            if not holds:
                self._rule = node
                self._bound, self._binder, self._order = {}, {}, {}
            self._note(node, holds=holds)
        elif self._rule is not None and any(node is each for each in self._rule.body):
            self._learn(node, bound)
            self._note(self._rule, holds=False)

    def _is_own(self, name: str) -> bool:
        """Whether `name` is the test, or a case of it that is written by itself."""
        return name == self.name or name.startswith((f"{self.name}.", f"{self.name}["))

    def _learn(self, expr: Expr, bound: Mapping[str, Any]) -> None:
        """Remember what `expr` bound, and forget what later ones bound on an earlier round."""
        place = self._order.setdefault(id(expr), len(self._order))
        for name in [n for n, binder in self._binder.items() if binder > place]:
            del self._binder[name], self._bound[name]
        for name, value in bound.items():
            self._bound[name] = value
            self._binder.setdefault(name, place)

    def _note(self, rule: Rule, *, holds: bool) -> None:
        prefix, tail = head_path(rule.head.ref)
        names = [case_name(from_key(key)) for key in prefix[len(self.path) :]]
        for term in tail:
            value = self._value(term)
            if value is None:
                return
            names.append(value)
        case = tuple(names)
        self.tried[case] = self.tried.get(case, False) or holds

    def _value(self, term: Term) -> str | None:
        if isinstance(term, Scalar):
            return case_name(term.value)
        if isinstance(term, Var) and term.name in self._bound:
            return case_name(self._bound[term.name])
        return None


def case_name(value: Any) -> str:
    """How one part of a case is called: strings by themselves, other values as Rego."""
    return value if isinstance(value, str) else to_rego(value)
