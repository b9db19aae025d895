"""The cases of a table test: `test_x[name] if …` is one test with a case for each `name` tried.

What the rule's value says of a case counts; a case that was tried and is not in the value failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from doorward.rego.golang import marshal
from doorward.rego.shared import from_key

__all__ = ["Case", "case_name", "cases_of"]


@dataclass(slots=True)
class Case:
    """One test case, or a group of cases by the next part of the name."""

    name: str
    passed: bool = True
    cases: dict[str, Case] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Case]:
        """The cases below, or this one."""
        return [leaf for case in self.cases.values() for leaf in case.leaves] or [self]

    def fail(self, path: Sequence[str]) -> bool:
        """Record that the case `path` was tried; return True unless it is known to have passed."""
        name, *rest = path
        case = self.cases.get(name)
        if case is None:
            case = self.cases[name] = Case(name, passed=False)
        if rest and case.fail(rest):
            case.passed = False
        return not case.passed

    def sort(self) -> None:
        """Sort the cases by name, at all levels."""
        self.cases = dict(sorted(self.cases.items()))
        for case in self.cases.values():
            case.sort()


def cases_of(answer: Any, tried: Iterable[Sequence[str]]) -> Case:
    """Return the test as a case with all its cases: those in its value, and those that were
    tried.
    """
    top = _case("", answer)
    for path in tried:
        if top.fail(path):
            top.passed = False
    top.sort()
    return top


def _case(name: str, value: Any) -> Case:
    """Return the case for a value: an object has cases below, anything but true fails."""
    if value is None:
        return Case("")  # OPA forgets the name of a case without a value, which passes
    if not isinstance(value, dict):
        return Case(name, passed=value is True)
    cases = {case_name(from_key(key)): each for key, each in value.items()}
    below = {name: _case(name, each) for name, each in cases.items()}
    return Case(name, passed=all(case.passed for case in below.values()), cases=below)


def case_name(value: Any) -> str:
    """Return the name of one part of a case: a string itself, another value as JSON."""
    return value if isinstance(value, str) else marshal(value)
