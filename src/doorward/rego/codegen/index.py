"""The index of definitions that can apply: found by one look at what most of them test.

A definition that cannot hold unless `input.method == "GET"` need not be tried for a POST. Of the
paths below `input`, and the parameters, that definitions compare with constants, the one that
leaves the fewest candidates is chosen; a table from its value to the candidates is made when the
program is linked. Ten thousand definitions then cost what ten do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from doorward.rego.analysis.failures import Failures
from doorward.rego.analysis.tree import Definition
from doorward.rego.codegen.choice import Choice, Source
from doorward.rego.codegen.operand import NOT_CONSTANT, constant_value
from doorward.rego.runtime.operations import values
from doorward.rego.syntax.nodes import Call, Expr, Ref, Scalar, Term, Var
from doorward.rego.values import Key, to_key

__all__ = ["choose"]

FEWEST: Final = 8
"""A rule with fewer definitions than this gets no table, since trying each of them is as fast."""
MOST_ENTRIES: Final = 100
"""The most entries of a table, for each definition in it. Half of 10,000 definitions for each of
5,000 values would be 25 million.
"""


def choose(definitions: Sequence[Definition], failures: Failures) -> Choice | None:
    """Return the best table for choosing among `definitions`. None if there are fewer than
    `FEWEST`, or no table with at most `MOST_ENTRIES` entries for each leaves at most half of them
    on average. Of a definition that may fail, only the tests before its first such expression
    count.
    """
    if len(definitions) < FEWEST:
        return None
    tests = [dict(_tests(definition, failures)) for definition in definitions]
    sources = {source for constants in tests for source in constants}
    # By `repr`, since names and numbers do not compare. In order, since of equal splits the first
    # is taken: the code must not depend on the hashes of a process.
    splits = (_Split(source, tests) for source in sorted(sources, key=repr))
    most = MOST_ENTRIES * len(definitions)
    best = min(
        (split for split in splits if split.entries <= most),
        key=lambda split: split.cost,
        default=None,
    )
    return best.choice() if best is not None and best.cost * 2 <= len(definitions) else None


class _Split:
    """The positions of definitions, grouped by the value that they require of one source."""

    def __init__(self, source: Source, tests: Sequence[dict[Source, list[Key]]]) -> None:
        self.source = source
        self.named: dict[Key, list[int]] = defaultdict(list)
        self.always: list[int] = []
        """Definitions that do not test the source: they are tried with every value."""
        for position, constants in enumerate(tests):
            if source not in constants:
                self.always.append(position)
            for key in dict.fromkeys(constants.get(source, ())):
                self.named[key].append(position)

    @property
    def sizes(self) -> list[int]:
        """The number of definitions to try for each value of the source."""
        return [len(positions) + len(self.always) for positions in self.named.values()]

    @property
    def entries(self) -> int:
        """The number of entries for all values in the table together."""
        return sum(self.sizes)

    @property
    def cost(self) -> float:
        """The estimated number of definitions to try for one value of the source; values that many
        definitions name are assumed to be frequent.
        """
        sizes = self.sizes
        # Values that more definitions name are taken to be more frequent.
        return max(sum(size * size for size in sizes) / max(sum(sizes), 1), len(self.always))

    def choice(self) -> Choice:
        """Return the table, in which definitions that do not test the source are candidates for
        every value.
        """
        candidates = {
            key: tuple(sorted([*numbers, *self.always])) for key, numbers in self.named.items()
        }
        return Choice(self.source, candidates, tuple(self.always))


def _tests(definition: Definition, failures: Failures) -> Iterator[tuple[Source, list[Key]]]:
    """Yield the conditions without which a definition cannot hold: the number of a parameter or a
    path below `input`, with the constants one of which it must equal. Only expressions before the
    first that may fail count; with `else`, only parameters.
    """
    for number, parameter in enumerate(definition.rule.head.args or ()):
        value = constant_value(parameter)
        if value is not NOT_CONSTANT:
            yield number, [to_key(value)]
    # If the body fails, an `else` may still answer; only the parameters are those of all branches.
    if definition.rule.else_rule is not None:
        return
    body: Iterable[Expr] = definition.rule.body
    if failures.rule(definition.rule):
        body = takewhile(lambda expr: not failures.expr(expr), body)
    for expr in body:
        yield from _test(expr)


def _test(expr: Expr) -> Iterator[tuple[Source, list[Key]]]:
    """Yield the input path that an expression compares with a constant, or looks up in a constant
    collection, with these constants. Nothing if the expression is negated, under a `with`, or of
    another form.
    """
    call = expr.term
    if expr.negated or expr.withs or not isinstance(call, Call) or len(call.args) != 2:
        return
    left, right = call.args
    if call.name in ("eq", "equal", "assign"):
        for ref, constant in ((left, right), (right, left)):
            source, value = _source(ref), constant_value(constant)
            if source is not None and value is not NOT_CONSTANT:
                yield source, [to_key(value)]
    elif call.name == "internal.member_2":
        source, collection = _source(left), constant_value(right)
        if source is not None and collection is not NOT_CONSTANT:
            yield source, [to_key(member) for member in _members(collection)]


def _members(collection: Any) -> list[Any]:
    return list(values(collection))


def _source(term: Term) -> Source | None:
    """Return the names of a path below `input`, () for `input` itself; None for other terms, and
    for a path with an operand that is not a constant string.
    """
    if not (isinstance(term, Ref) and isinstance(term.head, Var) and term.head.name == "input"):
        return None
    names = [a.value for a in term.args if isinstance(a, Scalar) and isinstance(a.value, str)]
    return tuple(names) if len(names) == len(term.args) else None
