"""The order in which OPA's rule index gives the rules of a document.

No answer depends on it; the order of residual queries does. The index is a trie whose levels are
the references that bodies equate with scalars, arrays or variables, the most frequent one first.
A rule without such an equation precedes all others. At each level come the rules that do not name
its reference, then variables, arrays and scalars; with `all_rules` variables, the rules that do not
name it, scalars and arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from doorward.rego.analysis.variables import ROOTS
from doorward.rego.partial.core import (
    Array,
    Constant,
    Expr,
    Ref,
    Rule,
    Term,
    Var,
    is_ground,
)

__all__ = ["in_index_order"]

Tests: TypeAlias = dict[Term, Term]
"""The terms that a rule compares with constants, and the constants."""

Rank: TypeAlias = tuple[tuple[int, int, int], ...]
"""The position of a rule in the trie, which decides the order of rules."""

_NAMED: Final = Var("__any__")


def in_index_order(
    rules: Sequence[Rule], is_virtual: Callable[[Ref], bool], *, all_rules: bool = False
) -> list[Rule]:
    """Return `rules` in the order in which OPA's rule index yields them; rules of equal rank keep
    their order. `is_virtual` returns True if a reference leads to rules, which are not indexed.
    `all_rules`: the order in which OPA walks the index without a lookup.
    """
    if len(rules) < 2:
        return list(rules)
    frequency: Counter[Term] = Counter()
    tested = []
    for rule in rules:
        tests = [_tests(branch, is_virtual, frequency) for branch in rule.branches()]
        tested.append((rule, tests))
    count = len(frequency)
    # The most frequent subject has the highest level: it is the root of the trie.
    levels = {term: count - number for number, (term, _) in enumerate(frequency.most_common())}
    scalars: dict[tuple[Term, Term], int] = {}

    def level(term: Term, value: Term) -> tuple[int, int, int]:
        """Return the rank of one level of the index for a test: level, kind of value, number."""
        kind, number = _value_rank(term, value, scalars)
        if all_rules:
            # Below zero: before the rules that do not name the level.
            return (-levels[term] if kind == _VARIABLE else levels[term], -kind, number)
        return (levels[term], kind, number)

    def rank(tests: Tests) -> Rank:
        """Return the rank of a rule from the levels that it tests."""
        named = [level(term, value) for term, value in tests.items()]
        # Levels that a rule does not name are left out; the end comes before all that it names.
        return (*sorted(named, key=lambda each: -abs(each[0])), (0, 0, 0))

    def least(tests: Sequence[Tests]) -> tuple[bool, Rank]:
        ranks = [(bool(each), rank(each)) for each in tests]
        return min(ranks)  # a branch without tests precedes everything

    ranked = [(least(tests), rule) for rule, tests in tested]
    return [rule for _, rule in sorted(ranked, key=lambda pair: pair[0])]


_VARIABLE: Final = 1
_ARRAY: Final = 2
_SCALAR: Final = 3


def _value_rank(level: Term, value: Term, scalars: dict[tuple[Term, Term], int]) -> tuple[int, int]:
    """Return the sort key of a tested value: its kind (variables before arrays before scalars) and,
    for a scalar, its number, otherwise 0. A new scalar gets the next number in `scalars`, by level
    and value.
    """
    if type(value) is Var:
        return (_VARIABLE, 0)
    if type(value) is Array or (type(value) is Constant and isinstance(value.value, list)):
        return (_ARRAY, 0)
    return (_SCALAR, scalars.setdefault((level, value), len(scalars)))


def _tests(rule: Rule, is_virtual: Callable[[Ref], bool], frequency: Counter[Term]) -> Tests:
    """Return the indexable tests of a rule as a dict from subject to value; a later test of the
    same subject replaces an earlier one. Also counts each subject in `frequency`.
    """
    tests: Tests = {}
    for expr in rule.body:
        test = None if expr.withs or expr.negated or expr.every else _test(rule, expr, is_virtual)
        if test is not None:
            tests[test[0]] = test[1]
            frequency[test[0]] += 1
    return tests


def _test(rule: Rule, expr: Expr, is_virtual: Callable[[Ref], bool]) -> tuple[Term, Term] | None:
    """Return the subject and the value of a test that OPA indexes: `input.a = 1` in either order,
    or `input.a` alone with `_NAMED` as the value; None for other expressions.
    """
    if expr.operator is None:
        subject = _subject(rule, expr.args[0], is_virtual)
        return None if type(subject) is not Ref else (subject, _NAMED)
    if not expr.is_equation:
        return None
    left, right = expr.args
    for one, other in ((left, right), (right, left)):
        subject = _subject(rule, one, is_virtual)
        if subject is not None and _is_indexed(other):
            return subject, other
    return None


def _subject(rule: Rule, term: Term, is_virtual: Callable[[Ref], bool]) -> Term | None:
    """Return what a level of the index compares: a constant path of base documents (no rules there,
    by `is_virtual`), or for a parameter of the function its position as a `Constant`; None for
    other terms.
    """
    if type(term) is Var:
        args = rule.args or ()
        return Constant(args.index(term)) if term in args else None
    if type(term) is not Ref or not is_ground(term):
        return None
    head, *operands = term.parts
    if type(head) is not Var or head.name not in ROOTS or is_virtual(term):
        return None
    return term if all(type(part) is Constant for part in operands) else None


def _is_indexed(term: Term) -> bool:
    """Return True for a term with which the rule index can compare a reference: a scalar, a
    variable, or an array of these (a constant array of scalars alone).
    """
    if type(term) is Array:
        return all(type(item) is Var or _is_scalar(item) for item in term.items)
    if type(term) is Constant and isinstance(term.value, list):
        return all(_is_scalar(Constant(item)) for item in term.value)
    return type(term) is Var or _is_scalar(term)


def _is_scalar(term: Term) -> bool:
    return type(term) is Constant and not isinstance(term.value, (list, dict, frozenset))
