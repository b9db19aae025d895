"""Graphs as objects from a node to its neighbours, and `walk` through any value.

The paths of `graph.reachable_paths` may hold `MAX_STEPS` nodes in all; more is an error. Both ways
through a graph look at the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from doorward.rego.builtins.inversion import inverse
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.registry.context import Context
from doorward.rego.builtins.registry.operands import refuse_operand
from doorward.rego.builtins.registry.signature import any_, any_of, array, object_, set_, tuple_
from doorward.rego.errors import LimitError
from doorward.rego.values import (
    Boxed,
    Key,
    Value,
    from_key,
    iterate,
    kind_name,
    sorted_keys,
    to_key,
)

__all__: list[str] = []

MAX_STEPS: Final = 1_000_000
LOOK: Final = 10_000
"""The number of nodes visited between two checks of the deadline."""

_END: Final = Boxed("no more")

Graph: TypeAlias = "dict[Key, Value]"

_NODES = any_of(set_(any_), array(any_))
_GRAPH = object_(any_, any_of(set_(any_), array(any_)))


def _vertices(nodes: Value) -> list[Key]:
    """The nodes of an array or set as keys, a set's in Rego's order; [] for any other value."""
    if isinstance(nodes, list):
        return [to_key(node) for node in nodes]
    return sorted_keys(nodes) if isinstance(nodes, frozenset) else []


def _check(graph: Value, initial: Value) -> None:
    """Raise OperandError unless `graph` is an object and `initial` an array or set."""
    if not isinstance(graph, dict):
        refuse_operand(1, "object", kind_name(graph))
    if not isinstance(initial, (list, frozenset)):
        refuse_operand(2, "{array, set}", kind_name(initial))


@builtin(
    "graph.reachable",
    _GRAPH,
    _NODES,
    returns=set_(any_),
    context=True,
    checked=False,
    inverse=inverse("reachable"),
)
def graph_reachable(context: Context, graph: Graph, initial: Value) -> frozenset[Key]:
    """The set of nodes that can be reached from the initial nodes, these included. Nodes that are
    not keys of `graph` are left out, initial ones too.
    """
    _check(graph, initial)
    reached: dict[Key, None] = {}
    pending = _vertices(initial)
    left = 0
    for node in pending:
        if node in graph and node not in reached:
            reached[node] = None
            neighbours = _vertices(graph[node])
            pending += neighbours
            # What is put off is what will be looked at, so that this counts all there is to do.
            left -= len(neighbours) + 1
            if left < 0:
                context.check_deadline()
                left = LOOK
    return frozenset(reached)


@builtin(
    "graph.reachable_paths",
    _GRAPH,
    _NODES,
    returns=set_(array(any_)),
    context=True,
    checked=False,
)
def graph_reachable_paths(context: Context, graph: Graph, initial: Value) -> frozenset[Key]:
    """The set of paths from the initial nodes; each ends at a leaf, before a node that is not a key
    of `graph`, or before it would close a cycle. An initial node that is not a key gives none; one
    that is its own neighbour also gives paths that begin with it twice. LimitError if the paths
    hold more than `MAX_STEPS` nodes in all.
    """
    _check(graph, initial)
    paths = _Paths(context, graph)
    for root in _vertices(initial):
        if root in graph:
            neighbours = _vertices(graph[root])
            if not neighbours:
                paths.add((root,))
            for neighbour in neighbours:
                paths.follow(root, neighbour)
    return frozenset(paths.paths)


class _Paths:
    """The search of `graph.reachable_paths`. `paths` holds the paths found, without duplicates;
    `stack` holds each node of the present path with its neighbours not yet visited.
    """

    def __init__(self, context: Context, graph: Graph) -> None:
        self.context = context
        self.graph = graph
        self.paths: dict[Key, None] = {}
        self.size = 0
        self.stack: list[tuple[tuple[Key, ...], Iterator[Key]]] = []

    def count(self, path: tuple[Key, ...]) -> None:
        """Add a path's length to the number of nodes in all paths. LimitError above `MAX_STEPS`.
        Checks the deadline every `LOOK` nodes.
        """
        before = self.size // LOOK
        self.size += len(path)
        if self.size // LOOK != before:
            self.context.check_deadline()
        if self.size > MAX_STEPS:
            raise LimitError(f"the reachable paths hold more than {MAX_STEPS} nodes in all")

    def add(self, path: tuple[Key, ...]) -> None:
        self.count(path)
        self.paths[Boxed([from_key(node) for node in path])] = None

    def follow(self, root: Key, first: Key) -> None:
        """Collect in `paths` every path that starts with `root` and `first`. A path ends at a node
        without neighbours, at a node that is not in the graph (which is left out), or before a node
        that it already contains.
        """
        self.visit(first, (root,))
        # A stack instead of recursion: a path may be longer than Python's stack is deep.
        while self.stack:
            path, neighbours = self.stack[-1]
            node = next(neighbours, _END)
            if node is _END:
                self.stack.pop()
            elif node in path:
                self.add(path)
            else:
                self.visit(node, path)

    def visit(self, node: Key, path: tuple[Key, ...]) -> None:
        """Push the neighbours of `node` on the stack. If it has none, collect the path with it; if
        it is not in the graph, collect the path without it.
        """
        if node not in self.graph:
            self.add(path)
            return
        longer = (*path, node)
        self.count(longer)
        neighbours = _vertices(self.graph[node])
        if neighbours:
            self.stack.append((longer, iter(neighbours)))
        else:
            self.add(longer)


@builtin("walk", any_, returns=tuple_(array(any_), any_), relation=True)
def walk(x: Value) -> Iterator[list[Value]]:
    """Every `[path, value]` in `x`, depth first and in Rego's order: first `x` itself with an empty
    path, then its parts, each with the keys that lead to it.
    """
    yield [[], x]
    stack: list[tuple[list[Value], Iterator[tuple[Value, Value]]]] = [([], iterate(x))]
    while stack:
        path, below = stack[-1]
        for key, item in below:
            inner = [*path, key]
            yield [inner, item]
            if isinstance(item, (list, dict, frozenset)):
                stack.append((inner, iterate(item)))
                break
        else:
            stack.pop()
