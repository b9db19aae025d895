"""The cases of a table test: `test_x[name] if …` is one test with a case for each `name` tried.

A case passes if the rule's value has it as true. A case that was tried and is not in the value
failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from doorward.base.records import mutable
from doorward.rego.golang import marshal
from doorward.rego.shared import from_key

__all__ = ["Case", "case_name", "cases_of"]


@mutable
class Case:
    """One test case, or a group of cases with the same first parts of the name; a group passes if
    all of its cases do.
    """

    name: str
    passed: bool = True
    cases: dict[str, Case] = field(default_factory=dict)

    @property
    def leaves(self) -> list[Case]:
        """The cases at the lowest level below this one; this one alone if there are none."""
        return [leaf for case in self.cases.values() for leaf in case.leaves] or [self]

    def fail(self, path: Sequence[str]) -> bool:
        """Add the case at `path` below this one as failed if it is unknown; a known case keeps its
        result. Groups between fail with a case in them. Return True if the case or group `path[0]`
        has failed; then the caller lets this group fail.
        """
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
    """Return a table test as a case with all of its cases, sorted by name: those in its value
    `answer` and those in `tried`, which failed if the value does not have them.
    """
    top = _case("", answer)
    for path in tried:
        if top.fail(path):
            top.passed = False
    top.sort()
    return top


def _case(name: str, value: Any) -> Case:
    """Return the case for a value of a table test, with the cases below it if the value is an
    object.

    Of other values only true passes. None passes too, as a case without a name, since OPA treats it
    so.
    """
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
