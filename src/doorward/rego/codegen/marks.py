"""The numbers by which marked code notes its definitions, and what the notes mean.

    _marks[12] = 0     definition 12 answered
    _marks[12] = 34    it did not: the condition in row 34 of its file failed last

Of what fills a set or an object only answers are noted. Functions have no numbers, since one call
in a loop would cost as much as it notes: the condition that calls them is noted. Neither have rules
that depend on data alone, which are evaluated once for all decisions. In a loop nothing is noted:
where no round holds, the loop's own row is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from doorward.rego.analysis.dependencies import branches
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.syntax.nodes import Rule

__all__ = ["ANSWERED", "Mark", "MarkTable", "Marks"]

ANSWERED: Final = 0
MAX_LISTED: Final = 256
"""A program with at most this many definitions records outcomes in a list, which is faster to write
to; of a larger one an evaluation reaches only a few.
"""

Marks: TypeAlias = list[int | None] | dict[int, int]
"""The outcomes that one evaluation recorded, by the number of the definition."""


class Mark(NamedTuple):
    """The outcome of one definition; `path`: `data.a.p`. `failed`: the row of the condition that
    failed, 0 if the definition answered.
    """

    number: int
    path: str
    rule: Rule
    failed: int = ANSWERED


class MarkTable:
    """The definitions of a program in the order of its tree, with `else` branches."""

    __slots__ = ("_by_place", "blank", "definitions")

    def __init__(self, root: RuleNode, constant: frozenset[int]) -> None:
        """Number all definitions and `else` branches below `root`, except those of functions and of
        nodes in `constant`, whose answers depend only on data.
        """
        self.definitions: list[Mark] = []
        self._by_place: dict[tuple[int, int], int] = {}
        for node in root.walk():
            if node.is_function or id(node) in constant:
                continue
            for definition in node.definitions:
                for rule in () if definition.rule.default else branches(definition.rule):
                    number = len(self.definitions)
                    self.definitions.append(Mark(number, node.name, rule))
                    self._by_place[_place(rule)] = number
        count = len(self.definitions)
        self.blank: Marks = [None] * count if count <= MAX_LISTED else {}
        """The marks of an evaluation before it begins, to be copied."""

    def number(self, rule: Rule) -> int | None:
        """Return the number under which marks record the outcome of a definition; None if it has
        none. A copy of the definition that was rewritten in steps has the same number.
        """
        return self._by_place.get(_place(rule))

    def read(self, marks: Marks) -> Iterator[Mark]:
        """Yield the outcome of each definition that `marks` has recorded, in the order of their
        numbers; definitions without an outcome, which were not evaluated, are left out.
        """
        pairs = enumerate(marks) if isinstance(marks, list) else sorted(marks.items())
        for number, failed in pairs:
            if failed is not None:
                yield self.definitions[number]._replace(failed=failed)


def _place(rule: Rule) -> tuple[int, int]:
    """Return a key for the position of a rule: the identity of its source, and the offset."""
    # The table holds the rules, and so their sources: an identity stays one source's.
    return id(rule.span.source), rule.span.start
