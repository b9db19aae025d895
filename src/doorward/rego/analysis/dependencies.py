"""Dependencies of rules: the graph behind recursion errors and answers that need no input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import Final

from doorward.base.records import mutable, record
from doorward.rego.analysis.calls import Callees, call_path
from doorward.rego.analysis.environment import constant, is_constant
from doorward.rego.analysis.read_paths import ReadPaths
from doorward.rego.analysis.shapes import Shapes
from doorward.rego.analysis.tree import Definition, RuleNode, head_path
from doorward.rego.analysis.type_errors import ref_text
from doorward.rego.builtins.registry import Builtin
from doorward.rego.errors import RECURSION_ERROR, Diagnostic
from doorward.rego.syntax.nodes import (
    Body,
    Call,
    ObjectComprehension,
    Ref,
    Rule,
    Term,
    Var,
    With,
    is_ground,
)
from doorward.rego.syntax.walk import Node, children

__all__ = [
    "Dependencies",
    "Uses",
    "branches",
    "build_dependencies",
    "check_recursion",
    "constant_nodes",
    "definitions_in_order",
    "has_effects",
    "in_order",
    "is_seen_outside",
    "longest_chain",
    "nodes_read",
    "parts_below",
    "parts_of",
    "targets",
]

_REMOTE: Final = frozenset({"http.send", "net.lookup_ip_addr"})
"""Built-ins that send requests to a server."""
_HEARD: Final = frozenset({"internal.test_case", "print", "trace"})
"""Built-ins that have an effect outside although their result is always the same; each evaluation
must call them.
"""
_SEEN_OUTSIDE: Final = _HEARD | _REMOTE


@record
class Uses:
    """The built-ins and rule nodes that a rule and its `else` branches use. `reads_world`: it reads
    the input, or calls a built-in whose answer can differ between two decisions or that prints,
    traces or records a test case. `may_raise`: it contains an object comprehension or a `with`,
    which may raise errors by themselves. Rules with equal uses share one object.
    """

    builtins: frozenset[str]
    nodes: tuple[RuleNode, ...]
    reads_world: bool
    may_raise: bool


@mutable
class Dependencies:
    """For each node with rules, the nodes it reads. `own` has the nodes with a rule whose own uses
    have `reads_world`. `circular` has the nodes that read themselves although none of their rules
    does (`p.a := p.b` beside `p[x] := 1`), and the nodes that read these: to evaluate all of their
    rules would never end, to look up one key in exact code does.
    """

    reads: dict[int, list[RuleNode]] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)
    circular: frozenset[int] = frozenset()
    uses: dict[int, Uses] = field(default_factory=dict)
    """The uses of each rule, by the `id` of the rule; empty if the program was restored from an
    earlier run.
    """
    paths: ReadPaths | None = None
    """The paths below `data` that the rules read; None until a `with` needs them."""


def build_dependencies(
    root: RuleNode, callees: Callees, shapes: Shapes | None = None
) -> Dependencies:
    """Build the graph of dependencies among all rules below `root`. Rules with the same number in
    `shapes` have the same uses.
    """
    graph = Dependencies()
    finder = _Finder(callees, shapes or Shapes())
    for node in root.walk():
        if node.definitions:
            graph.reads[id(node)] = list(_reads(node, graph, finder))
    return graph


def _reads(node: RuleNode, graph: Dependencies, finder: _Finder) -> Iterator[RuleNode]:
    """Yield the nodes that the rules of a node read, each once; nodes below it are among them. Also
    records the uses of each rule in `graph.uses`, and the node in `graph.own` if one of them has
    `reads_world`.
    """
    seen: set[int] = set()
    for definition in node.definitions:
        uses = graph.uses[id(definition.rule)] = finder.uses(definition.rule)
        if uses.reads_world:
            graph.own.add(id(node))
        for target in uses.nodes:
            if id(target) not in seen:
                seen.add(id(target))
                yield target
    # A document holds those below it: `data.p` reads `data.p.q`.
    for child in node.children.values():
        for inner in child.walk():
            if inner.definitions and id(inner) not in seen:
                seen.add(id(inner))
                yield inner


class _Finder:
    """Finds the uses of rules; equal ones are one object."""

    def __init__(self, callees: Callees, shapes: Shapes) -> None:
        self._callees = callees
        self._shapes = shapes
        self._equal: dict[object, Uses] = {}
        self._of_shape: dict[int, Uses] = {}

    def uses(self, rule: Rule) -> Uses:
        """Return the uses of a rule and its `else` branches; rules of one shape share those of the
        first.
        """
        shape = self._shapes.number(rule)
        if shape is None:
            return self._read(rule)
        uses = self._of_shape.get(shape)
        if uses is None:
            uses = self._of_shape[shape] = self._read(rule)
        return uses

    def _read(self, rule: Rule) -> Uses:
        """Return the uses of a rule and its `else` branches: the built-ins it calls, the nodes of
        the rules it may read, whether its answer can differ between decisions with the same data or
        each evaluation must compute it (it reads `input`, or calls a built-in that is not pure or
        that prints or traces), and whether it has an object comprehension or `with`, which may
        raise. Rules with equal uses share one object.
        """
        builtins: set[str] = set()
        nodes: dict[int, RuleNode] = {}
        reads_world = may_raise = False
        for part in parts_of(rule):
            if type(part) is Call and call_path(part.operator) is None:
                builtins.add(part.name)
            elif type(part) in _READERS:
                reads_world = reads_world or _is_input(part)
                for node in targets(part, self._callees):
                    nodes[id(node)] = node
            elif type(part) is ObjectComprehension or type(part) is With:
                may_raise = True
        registry = self._callees.registry
        reads_world = reads_world or any(_differs(registry.get(each)) for each in builtins)
        # Thousands of rules of one kind use the same few things.
        key = frozenset(builtins), tuple(nodes), reads_world, may_raise
        uses = self._equal.get(key)
        if uses is None:
            uses = Uses(key[0], tuple(nodes.values()), reads_world, may_raise)
            self._equal[key] = uses
        return uses


def parts_of(rule: Rule) -> Iterator[Node]:
    """Yield all nodes inside a rule and its `else` branches, except the constant name in the head.
    A constant such as `[1, 2]` is one node. The variable with which a reference starts is left out,
    and so are targets of `with` that are `input` or a single name such as `count`.
    """
    if rule.else_rule is None:
        return _branch_parts(rule)
    return chain.from_iterable(map(_branch_parts, branches(rule)))


def _branch_parts(rule: Rule) -> Iterator[Node]:
    """Yield all nodes inside one branch of a rule, without its `else` branches; see `parts_of` for
    the parts that are left out.
    """
    head = rule.head
    tops = (*head.ref.args, *(head.args or ()), head.key, head.value, *rule.body)
    return _parts([top for top in reversed(tops) if top is not None])


def parts_below(top: Node) -> Iterator[Node]:
    """Yield `top` and all nodes inside it; a constant such as `[1, 2]` is one node. Left out are
    the variable with which a reference starts, and the target of a `with` if it is `input` or a
    single name such as `count`; other targets count as read.
    """
    return _parts([top])


def _parts(waiting: list[Node]) -> Iterator[Node]:
    """Yield the nodes in `waiting`, which is emptied, and all nodes inside them; a constant such as
    `[1, 2]` is one node, and rules that nodes refer to are not followed. Left out are the variable
    with which a reference starts, and the target of a `with` if it is `input` or a single name such
    as `count`; other targets count as read, as in OPA.
    """
    while waiting:
        node = waiting.pop()
        yield node
        if type(node) is Var or is_ground(node):
            continue
        if isinstance(node, With):
            waiting.append(node.value)
            # What is replaced counts as read, as in OPA; replacing the input reads nothing.
            if isinstance(node.target, Ref) or node.target.name == "data":
                waiting.append(node.target)
        elif isinstance(node, Ref) and isinstance(node.head, Var):
            waiting += node.args
        else:
            waiting += children(node)


_READERS: Final = frozenset({Call, Ref, Var})
"""The parts of a rule that read documents."""


def _is_input(part: object) -> bool:
    top = part.head if isinstance(part, Ref) else part
    return isinstance(top, Var) and top.name == "input"


def _differs(builtin: Builtin | None) -> bool:
    """Return True if the answers of a built-in can differ between two decisions, or if each
    evaluation must call it.
    """
    return builtin is not None and (not builtin.pure or builtin.name in _HEARD)


def targets(part: object, callees: Callees) -> Iterator[RuleNode]:
    """Yield the nodes of the rules that one part of a rule reads: the callee of a call if it is a
    rule, or the rules that a reference to `data` or below it may reach. Nothing for other parts.
    """
    if isinstance(part, Call):
        callee = callees.find(part)
        if callee is not None and callee.node is not None:
            yield callee.node
    elif isinstance(part, Ref) and isinstance(part.head, Var) and part.head.name == "data":
        yield from _matching(callees.root, part.args)
    elif isinstance(part, Var) and part.name == "data":
        yield from (n for n in callees.root.walk() if n.definitions)


def _matching(node: RuleNode, operands: Sequence[Term]) -> Iterator[RuleNode]:
    """Yield the nodes with rules that a reference with these operands can reach from `node`. An
    operand that is not constant matches every key. If the reference ends above rules, all of them
    are reached.
    """
    for n, operand in enumerate(operands):
        if node.definitions:
            break
        if not is_constant(operand):
            for child in node.children.values():
                yield from _matching(child, operands[n + 1 :])
            return
        below = node.children.get(constant(operand))
        if below is None:
            return
        node = below
    yield from (node,) if node.definitions else (n for n in node.walk() if n.definitions)


def in_order(root: RuleNode, graph: Dependencies) -> Iterator[RuleNode]:
    """Yield the nodes with rules, each after those that it reads; of those on a cycle, some come
    before a node that they read.
    """
    seen: set[int] = set()
    for start in root.walk():
        if not start.definitions or id(start) in seen:
            continue
        seen.add(id(start))
        # By a stack of iterators: thousands of rules in a row would end the recursion of Python.
        waiting = [(start, iter(graph.reads.get(id(start), ())))]
        while waiting:
            node, targets = waiting[-1]
            following = next((n for n in targets if id(n) not in seen), None)
            if following is None:
                waiting.pop()
                yield node
            else:
                seen.add(id(following))
                waiting.append((following, iter(graph.reads.get(id(following), ()))))


def definitions_in_order(
    root: RuleNode, graph: Dependencies, callees: Callees
) -> Iterator[Definition]:
    """Yield all rules, each after those it reads. The rules of nodes in `graph.circular`, which
    read themselves or such a node, come last, ordered rule by rule: no single one is recursive.
    """
    circular: list[RuleNode] = []
    for node in in_order(root, graph):
        if id(node) in graph.circular:
            circular.append(node)
        else:
            yield from sorted(node.definitions, key=_position)
    rules = _Rules(circular, callees)
    seen: set[int] = set()
    for definition in sorted((d for node in circular for d in node.definitions), key=_position):
        if id(definition) in seen:
            continue
        seen.add(id(definition))
        waiting = [(definition, iter(rules.read(definition)))]
        while waiting:
            current, targets = waiting[-1]
            following = next((d for d in targets if id(d) not in seen), None)
            if following is None:
                waiting.pop()
                yield current
            else:
                seen.add(id(following))
                waiting.append((following, iter(rules.read(following))))


def _position(definition: Definition) -> tuple[str, int]:
    span = definition.rule.span
    return span.file, span.start


def nodes_read(body: Body, callees: Callees, graph: Dependencies) -> list[RuleNode]:
    """Return the nodes whose rules a query reads, directly or through other rules, each once and in
    no particular order. `graph` must have the reads of all rules.
    """
    parts = (part for expr in body for part in parts_below(expr))
    waiting = [node for part in parts for node in targets(part, callees)]
    nodes: dict[int, RuleNode] = {}
    while waiting:
        node = waiting.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            waiting += graph.reads.get(id(node), ())
    return list(nodes.values())


def has_effects(nodes: Iterable[RuleNode], callees: Callees) -> bool:
    """Return True if the rules of one of these nodes call a built-in with an effect outside: one
    that prints, traces, records a test case or uses the network. Rules that they read are not
    followed.
    """
    for node in nodes:
        for definition in node.definitions:
            for part in parts_of(definition.rule):
                if isinstance(part, Call):
                    callee = callees.find(part)
                    builtin = callee.builtin if callee is not None else None
                    if builtin is not None and is_seen_outside(builtin):
                        return True
    return False


def is_seen_outside(builtin: Builtin) -> bool:
    """Return True if calls of `builtin` have an effect outside: it prints, traces, records a test
    case or uses the network.
    """
    return builtin.name in _SEEN_OUTSIDE


def longest_chain(root: RuleNode, graph: Dependencies) -> int:
    """Return the number of nodes in the longest chain in which each node reads the next; 0 without
    rules. A cycle is cut at one of its nodes.
    """
    lengths: dict[int, int] = {}
    for node in in_order(root, graph):
        read = graph.reads.get(id(node), ())
        lengths[id(node)] = 1 + max([lengths.get(id(target), 0) for target in read], default=0)
    return max(lengths.values(), default=0)


def constant_nodes(root: RuleNode, graph: Dependencies) -> frozenset[int]:
    """Return the `id`s of the nodes whose answers depend only on data: neither they nor the nodes
    that they read are in `graph.own`.
    """
    readers: dict[int, list[int]] = {}
    for reader, targets in graph.reads.items():
        for target in targets:
            readers.setdefault(id(target), []).append(reader)
    # From those that read the world backwards to their readers: each edge is followed once.
    tainted = set(graph.own)
    waiting = list(tainted)
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if reader not in tainted:
                tainted.add(reader)
                waiting.append(reader)
    return frozenset(graph.reads.keys() - tainted)


def check_recursion(root: RuleNode, graph: Dependencies, callees: Callees) -> list[Diagnostic]:
    """Return an error for each rule that can read itself. If there is none, the nodes on cycles or
    reading one are recorded in `graph.circular`.
    """
    nodes = _cyclic(root, graph)
    rules = _Rules(nodes, callees)
    errors: list[Diagnostic] = []
    for definition in (d for node in nodes for d in node.definitions):
        for branch in branches(definition.rule):
            path = rules.path(definition, branch)
            if path is not None:
                name = ref_text(branch.head.ref)
                between = (ref_text(d.rule.head.ref) for d in path)
                message = f"rule {name} is recursive: {' -> '.join([name, *between, name])}"
                errors.append(Diagnostic(RECURSION_ERROR, message, branch.span))
    if not errors:
        graph.circular = frozenset(map(id, nodes))
    return errors


class _Rules:
    """Dependencies of the single rules of some nodes. A reference reads a rule unless a constant in
    it differs from the rule's constant prefix, as in OPA.
    """

    def __init__(self, nodes: Sequence[RuleNode], callees: Callees) -> None:
        self._callees = callees
        self._nodes = {id(node) for node in nodes}
        self._read: dict[int, list[Definition]] = {}

    def read(self, definition: Definition) -> list[Definition]:
        """Return the definitions in the nodes of this object that a definition and its `else`
        branches read.
        """
        known = self._read.get(id(definition))
        if known is None:
            known = self._read[id(definition)] = self._targets(parts_of(definition.rule))
        return known

    def path(self, start: Definition, branch: Rule) -> list[Definition] | None:
        """Return the rules on a shortest cycle from a branch of `start` back to `start`, in the
        order in which they are read, without `start`: [] if the branch reads `start` directly, None
        if nothing that the branch reads leads back to it. Only rules of the nodes of this object
        count.
        """
        first = self._targets(_branch_parts(branch))
        if start in first:
            return []
        # Breadth first, so that the path in the error is a shortest one.
        came: dict[int, Definition | None] = {id(d): None for d in first}
        waiting = list(first)
        for definition in waiting:
            for target in self.read(definition):
                if target is start:
                    path: list[Definition] = []
                    back: Definition | None = definition
                    while back is not None:
                        path.append(back)
                        back = came[id(back)]
                    return path[::-1]
                if id(target) not in came:
                    came[id(target)] = definition
                    waiting.append(target)
        return None

    def _targets(self, parts: Iterable[Node]) -> list[Definition]:
        """Return the definitions in the nodes of this object that the parts read; one that a
        constant in a reference rules out is not read.
        """
        rules: dict[int, Definition] = {}
        for part in parts:
            operands = part.args if isinstance(part, Ref) else ()
            for node in targets(part, self._callees):
                if id(node) in self._nodes:
                    rest = operands[len(node.path) :]
                    rules |= {id(d): d for d in node.definitions if _agrees(d, node, rest)}
        return list(rules.values())


def _agrees(definition: Definition, node: RuleNode, operands: Sequence[Term]) -> bool:
    """Return True if a reference can reach the definition: none of its `operands`, which follow the
    path of `node`, is a constant that differs from the name at that place in the definition's head.
    Only the heads of rules that were moved up to `node` (`p.a` to `p`) have names there; for others
    the result is True.
    """
    names = head_path(definition.rule.head.ref)[0][len(node.path) :]
    pairs = zip(names, operands, strict=False)
    return all(not is_constant(operand) or constant(operand) == name for name, operand in pairs)


def branches(rule: Rule) -> Iterator[Rule]:
    """Yield a rule and each of its `else` branches."""
    branch: Rule | None = rule
    while branch is not None:
        yield branch
        branch = branch.else_rule


def _cyclic(root: RuleNode, graph: Dependencies) -> list[RuleNode]:
    """Return the nodes that are on a cycle or read one: the rest after repeatedly removing nodes
    that read none of the rest.
    """
    nodes = [node for node in root.walk() if node.definitions]
    readers: dict[int, list[int]] = {}
    count = {}
    for reader, targets in graph.reads.items():
        # INVARIANT: `_reads` lists each target once; otherwise the count would never come to 0.
        count[reader] = len(targets)
        for target in targets:
            readers.setdefault(id(target), []).append(reader)
    waiting = [node for node, unread in count.items() if not unread]
    # The list grows while it is read.
    for node in waiting:
        for reader in readers.get(node, ()):
            count[reader] -= 1
            if not count[reader]:
                waiting.append(reader)
    gone = set(waiting)
    return [node for node in nodes if id(node) not in gone]
