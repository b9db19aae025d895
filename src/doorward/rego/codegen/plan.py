"""The whole program as code generation knows it: names, slots, which answers depend on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

from doorward.base.records import mutable
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.dependencies import Dependencies, parts_below, parts_of
from doorward.rego.analysis.failures import Failures
from doorward.rego.analysis.read_paths import ReadPaths
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.codegen.choice import Choice
from doorward.rego.codegen.marks import MarkTable
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Call, Expr, Ref, Rule, Scalar, Term, Var
from doorward.rego.values import Key, to_key

__all__ = ["Plan", "Table"]


@mutable
class Plan:
    """The program that functions are generated for, and how. `constant`: nodes whose answers depend
    on data alone. `mocked`: names of functions, built-ins and rules that some `with` replaces, so
    that callers must check. `prints`: someone receives the output of `print`. `graph`: which rules
    read which; if it is not known, any may fail. `traced`: every rule and expression reports to the
    evaluation's tracer, and nothing is evaluated early or left out. `marks`: the definitions whose
    outcomes are recorded. `limited`: the items of collections are counted. `exact`: the code is
    that of `exact.py`, and takes steps in OPA's order. `shares`: definitions that differ in
    constants alone may share code.
    """

    callees: Callees
    constant: frozenset[int] = frozenset()
    mocked: frozenset[str] = frozenset()
    prints: bool = False
    traced: bool = False
    marks: MarkTable | None = None
    limited: bool = False
    exact: bool = False
    shares: bool = False
    graph: Dependencies = field(default_factory=Dependencies)
    failures: Failures = field(init=False)
    """The rules and expressions that may raise errors; they are neither left out nor evaluated out
    of order.
    """
    slots: dict[int, int] = field(default_factory=dict)
    call_slots: dict[int, int] = field(default_factory=dict)
    """The number under which an evaluation keeps the answers of a function, by the function's
    identity.
    """
    printing: set[int] | None = None
    """The nodes that may print, by identity; None until it is needed."""
    tables: dict[str, Table] = field(default_factory=dict)
    listed: dict[int, bool] = field(default_factory=dict)
    """For the nodes of sets, by identity, whether `listed_sets` lists their members."""

    def __post_init__(self) -> None:
        self.failures = Failures(self.callees, self.graph, self.mocked, prints=self.prints)

    @property
    def root(self) -> RuleNode:
        return self.callees.root

    def mark(self, rule: Rule) -> int | None:
        """Return the number under which code records the outcomes of a definition; None without
        `marks`, and for a definition that the table does not have.
        """
        return None if self.marks is None else self.marks.number(rule)

    @property
    def in_order(self) -> bool:
        """True if nothing may be read ahead of its expression."""
        return self.traced or self.exact

    def is_virtual(self, path: Sequence[Any]) -> bool:
        """Return True if there are rules above, at or below `path`, the keys of a path below
        `data`.
        """
        node: RuleNode | None = self.root
        for key in path:
            node = node.children.get(key) if node is not None else None
            if node is None or node.definitions:
                return node is not None
        return True

    def is_read_above(self, path: Sequence[Key], expr: Expr) -> bool:
        """Return True if some rule, or the expression `expr`, reads as a whole a document above
        `path`, a path below `data`, of which that is a part. The paths that rules read are
        collected once, in `graph.paths`.
        """
        if self.graph.paths is None:
            rules = (d.rule for node in self.root.walk() for d in node.definitions)
            self.graph.paths = ReadPaths(part for rule in rules for part in parts_of(rule))
        return self.graph.paths.above(path) or ReadPaths(parts_below(expr)).above(path)

    def slot(self, node: RuleNode) -> int:
        """Return the number under which evaluations store the answer of the rules at `node`; a new
        one at the first call.
        """
        return self.slots.setdefault(id(node), len(self.slots))

    def call_slot(self, node: RuleNode) -> int:
        """Return the number under which evaluations store the answers of the function at `node`; a
        new one at the first call.
        """
        return self.call_slots.setdefault(id(node), len(self.call_slots))

    def may_print(self, node: RuleNode) -> bool:
        """Return True if `print` is enabled and evaluating the rules at `node` may call it."""
        if not self.prints:
            return False
        if self.printing is None:
            self.printing = self._printing_nodes()
        return id(node) in self.printing

    def _printing_nodes(self) -> set[int]:
        """Return the identities of the nodes of rules that call `print`, or read, directly or
        through others, nodes that do. The graph must be known.
        """
        printing = [node for node in self.root.walk() if any(map(_prints, node.definitions))]
        if not printing:
            return set()
        readers: dict[int, list[int]] = {}
        for reader, read in self.graph.reads.items():
            for node in read:
                readers.setdefault(id(node), []).append(reader)
        known = {id(node) for node in printing}
        waiting = list(known)
        while waiting:
            new = [each for each in readers.get(waiting.pop(), ()) if each not in known]
            known.update(new)
            waiting += new
        return known

    def is_constant(self, node: RuleNode) -> bool:
        return id(node) in self.constant

    def alias(self, node: RuleNode) -> Ref | None:
        """Return the path below `input` that the rule at `node` only renames (`http := input.a.b`,
        keys all constant strings), so that code may read it directly; None for other rules, for one
        that a `with` replaces, and for exact and traced code.
        """
        if self.in_order or len(node.definitions) != 1 or node.children:
            return None
        if node.name in self.mocked:
            return None
        definition = node.definitions[0]
        rule, value = definition.rule, definition.rule.head.value
        if not definition.is_complete or rule.body or rule.else_rule or rule.default:
            return None
        if not (isinstance(value, Ref) and isinstance(value.head, Var)):
            return None
        plain = all(isinstance(a, Scalar) and isinstance(a.value, str) for a in value.args)
        return value if plain and value.head.name == "input" else None

    def rule_of(self, term: Ref) -> tuple[RuleNode | None, Sequence[Term]]:
        """Return the node whose rules a reference reads along constant operands, and the operands
        after it. (None, ()) if it is not below `data`, reads base data, a function or a document
        above rules, or has an operand before the rules that is not constant.
        """
        if not isinstance(term.head, Var) or term.head.name != "data":
            return None, ()
        node: RuleNode | None = self.root
        for n, operand in enumerate(term.args):
            if node is None or not isinstance(operand, Scalar):
                return None, ()
            node = node.children.get(to_key(operand.value))
            # A reference to a function is undefined; only calls use it.
            if node is None or node.is_function:
                return None, ()
            if node.definitions:
                return node, term.args[n + 1 :]
        return None, ()

    def only_rule(self, expr: Expr) -> str | None:
        """Return the name of the rules if `expr` only tests their answer, as in `data.a.allow`;
        None for other expressions, such as with `not` or `with`, and for rules that depend only on
        data.
        """
        term = expr.term
        if expr.negated or expr.withs or not isinstance(term, Ref):
            return None
        node, rest = self.rule_of(term)
        return None if node is None or rest or self.is_constant(node) else node.name

    def is_keyed(self, node: RuleNode) -> bool:
        """Return True if the rules at `node` make a set or object key by key."""
        return any(d.tail or d.is_set for d in node.definitions)

    # Places whose definitions are chosen from a table

    def definition_name(self, node: RuleNode, number: int) -> str:
        """Return the name of the function of one definition, such as `data.a.p#3`."""
        return f"{node.name}#{number}"

    def table_name(self, node: RuleNode) -> str:
        return f"table.{node.name}"

    def add_table(
        self,
        node: RuleNode,
        choice: Choice,
        definitions: Sequence[Definition],
        rows: dict[int, tuple[int, tuple[Any, ...]]],
    ) -> None:
        """Record the table that chooses among the definitions of `node`. `rows`: for the number of
        a definition that shares code, the number of the definition with the code, and its own
        constants.
        """
        spans = [d.rule.span for d in definitions]
        name = self.table_name(node)
        assert name not in self.tables
        self.tables[name] = Table(node, choice, spans, rows)


class Table(NamedTuple):
    """The definitions of a node that are functions of their own, as `Plan.add_table` describes."""

    node: RuleNode
    choice: Choice
    spans: list[Span]
    rows: dict[int, tuple[int, tuple[Any, ...]]]


def _prints(definition: Definition) -> bool:
    """Return True if the definition, its `else` branches included, calls `print`; rules that it
    reads do not count.
    """
    rule = definition.rule
    # Most modules never name it, and need not be walked.
    return "print" in rule.span.source.text and any(
        isinstance(part, Call) and part.name == "print" for part in parts_of(rule)
    )
