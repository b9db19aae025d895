"""Coverage of policies: the rules that held and the expressions that were evaluated.

The report is the document that `opa test --coverage` prints. The expressions are those that OPA
would evaluate: the policies are traced, and rules that OPA's index excludes are not evaluated
(`indexed`). To OPA, a call or reference inside an expression is an expression before it with a line
of its own; that line is covered where the expression held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from doorward.rego.golang import indent, object_text
from doorward.rego.shared import Evaluation, Span
from doorward.rego.tools import (
    Array,
    ArrayComprehension,
    Call,
    Every,
    Expr,
    Module,
    Node,
    Object,
    ObjectComprehension,
    Ref,
    Rule,
    Set,
    SetComprehension,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    walk,
)
from doorward.testing.finding import TELL_CASE

__all__ = ["Coverage", "lines_of"]

_EVALUATED: Final = (Ref, Call, ArrayComprehension, SetComprehension, ObjectComprehension)
"""Terms for which OPA's coverage has an expression of its own."""


class Coverage:
    """A tracer that records the covered lines: `hits` holds the file and row of each. One object
    may trace several evaluations.
    """

    def __init__(self) -> None:
        self.hits: set[tuple[str, int]] = set()
        self._seen: dict[int, Node] = {}
        self._below: dict[int, set[int]] = {}
        """The rows of operands that are covered when a node holds, by the id of the node."""

    def enter(self, evaluation: Evaluation, name: str, operands: tuple[Any, ...]) -> None:
        """Do nothing: rules are recorded by their definitions, in `trace`."""

    def leave(self, name: str, answer: Any) -> None:
        """Do nothing: nothing is recorded at the end of a rule."""

    def trace(
        self, evaluation: Evaluation, node: Rule | Expr, holds: bool, bound: Mapping[str, Any]
    ) -> None:
        """Record the row of a rule that holds, or of an expression that is about to be evaluated
        (`holds` is False); if either holds, also the rows of the operands evaluated with it. `some
        x` and the reports of test cases are ignored.
        """
        if _is_case(node) or (isinstance(node, Expr) and isinstance(node.term, SomeDecl)):
            return
        if holds is isinstance(node, Rule):
            self.hits.add((node.span.file, node.span.row))
        if holds:
            self.hits.update((node.span.file, row) for row in self._below.get(id(node), ()))
        elif id(node) not in self._seen:
            self._seen[id(node)] = node  # and with it what is below it: no other has its number
            for owner, rows in list(_operands(node)):
                self._below.setdefault(id(owner), set()).update(rows)

    def note(self, span: Span, *, holds: bool, is_rule: bool) -> None:
        """Record, from a partial evaluation, the row of a rule that holds (`is_rule`), or of an
        expression that is about to be evaluated (`holds` is False); nothing of an expression that
        holds or a rule that is about to be evaluated.
        """
        if holds is is_rule:
            self.hits.add((span.file, span.row))

    def percent(self, trees: Mapping[str, Module]) -> float:
        """Return the covered lines of these policies in percent; 0 if they have no lines."""
        covered, missed = self._count(trees)
        return 100 * covered / (covered + missed) if covered + missed else 0.0

    def report(self, trees: Mapping[str, Module]) -> str:
        """Return the coverage of these policies as indented JSON in OPA's form, with files sorted
        by name.
        """
        files: dict[str, str] = {}
        for name, tree in sorted(trees.items()):
            files[name] = self._file(name, self._lines(name, tree))
        covered, missed = self._count(trees)
        fields = {
            "files": object_text(files),
            "covered_lines": str(covered),
            "not_covered_lines": str(missed),
            "coverage": _number(self.percent(trees)),
        }
        return indent(object_text(fields), "", "  ")

    def _file(self, name: str, rows: set[int]) -> str:
        """Return one file's coverage as JSON: the covered and the missed ones of `rows`, which are
        all rows that can be covered.
        """
        covered = sorted(row for row in rows if (name, row) in self.hits)
        missed = sorted(row for row in rows if (name, row) not in self.hits)
        fields: dict[str, str] = {}
        if covered:
            fields["covered"] = _ranges(covered)
        if missed:
            fields["not_covered"] = _ranges(missed)
        if covered:
            fields["covered_lines"] = str(len(covered))
        if missed:
            fields["not_covered_lines"] = str(len(missed))
        if covered:
            fields["coverage"] = _number(100 * len(covered) / len(rows))
        return object_text(fields)

    def _lines(self, name: str, tree: Module) -> set[int]:
        """Return the rows of a file that can be covered, and those that are; as in OPA, the row of
        a `some` is only among the latter.
        """
        always = set(_rows(tree, (SomeDecl, SomeIn)))
        return always | {row for file, row in self.hits if file == name}

    def _count(self, trees: Mapping[str, Module]) -> tuple[int, int]:
        """Return the numbers of covered and of missed lines."""
        covered = total = 0
        for name, tree in trees.items():
            rows = self._lines(name, tree)
            total += len(rows)
            covered += sum((name, row) in self.hits for row in rows)
        return covered, total - covered


def lines_of(tree: Module) -> set[int]:
    """Return the rows on which a rule or an expression of a policy begins, without those of `some
    x`.
    """
    return set(_rows(tree, SomeDecl))


def _rows(tree: Module, but: type[Node] | tuple[type[Node], ...]) -> Iterator[int]:
    """Yield the rows of rules and expressions; expressions whose term is of the class `but` are
    left out.
    """
    for node in (node for rule in tree.rules for node in walk(rule)):
        if isinstance(node, Rule) or (isinstance(node, Expr) and not isinstance(node.term, but)):
            yield node.span.row


def _operands(node: Rule | Expr) -> Iterator[tuple[Node, set[int]]]:
    """Yield nodes (the rule or expression, and the bodies of comprehensions in it), each with the
    rows of the operands that count as covered when it holds. The sets are filled while the iterator
    is consumed.
    """
    members: set[int] = set()
    yield node, members
    waiting: list[tuple[Term, set[int]]] = []
    if isinstance(node, Rule):
        terms = [term for term in (node.head.key, node.head.value) if term is not None]
    else:
        terms = [modifier.value for modifier in node.withs]
    # OPA assigns these before, if there is something to evaluate in them.
    members.update(
        term.span.row for term in terms if any(isinstance(n, _EVALUATED) for n in walk(term))
    )
    waiting += [(term, members) for term in terms]
    match node:
        case Expr(term=Call(args=args) as call):
            for arg in args:
                if call.name in ("eq", "assign") and isinstance(arg, Ref):
                    # An equation asks for its sides itself.
                    waiting += [(part, members) for part in arg.args]
                else:
                    waiting.append((arg, members))
        case Expr(term=Every(domain=domain)):
            waiting.append((domain, members))
        case Expr(term=Ref(args=args)):
            waiting += [(arg, members) for arg in args]
    while waiting:
        term, rows = waiting.pop()
        inner: list[Term] = []
        match term:
            case Ref():
                rows.add(term.span.row)
                inner = [*term.args, *([] if isinstance(term.head, Var) else [term.head])]
            case Call():
                rows.add(term.span.row)
                inner = [*term.args]
            case Array() | Set():
                inner = [*term.items]
            case Object():
                inner = [item for pair in term.items for item in pair]
            case ArrayComprehension() | SetComprehension():
                rows.add(term.span.row)
                yield term.body[-1], (rows := set())
                inner = [term.term]
            case ObjectComprehension():
                rows.add(term.span.row)
                yield term.body[-1], (rows := set())
                inner = [term.key, term.value]
        waiting += [(part, rows) for part in inner]


def _is_case(node: Rule | Expr) -> bool:
    """Return True if the expression is the report of a test case, which the test runner added."""
    term = node.term if isinstance(node, Expr) else None
    return isinstance(term, Call) and term.name == TELL_CASE


def _ranges(rows: list[int]) -> str:
    """Return sorted rows as a JSON list of ranges, `start` and `end`."""
    places = []
    for first, last in _runs(rows):
        start, end = object_text({"row": str(first)}), object_text({"row": str(last)})
        places.append(object_text({"start": start, "end": end}))
    return "[" + ",".join(places) + "]"


def _runs(rows: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last row of each run of consecutive rows; `rows` must not be empty."""
    first = last = rows[0]
    for row in rows[1:]:
        if row != last + 1:
            yield first, last
            first = row
        last = row
    yield first, last


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
