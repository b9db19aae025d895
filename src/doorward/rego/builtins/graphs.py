"""Graphs as objects from a node to its neighbours, and `walk` through any value.

`graph.reachable_paths` can have exponentially many answers: past `MAX_STEPS` it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from doorward.rego.builtins.operands import refuse_operand
from doorward.rego.builtins.registry import builtin
from doorward.rego.builtins.signature import any_, any_of, array, object_, set_, tuple_
from doorward.rego.errors import BuiltinError
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

Graph: TypeAlias = "dict[Key, Value]"

_NODES = any_of(set_(any_), array(any_))
_GRAPH = object_(any_, any_of(set_(any_), array(any_)))


def _vertices(nodes: Value) -> list[Key]:
    if isinstance(nodes, list):
        return [to_key(node) for node in nodes]
    return sorted_keys(nodes) if isinstance(nodes, frozenset) else []


def _check(graph: Value, initial: Value) -> None:
    if not isinstance(graph, dict):
        refuse_operand(1, "object", kind_name(graph))
    if not isinstance(initial, (list, frozenset)):
        refuse_operand(2, "{array, set}", kind_name(initial))


@builtin("graph.reachable", _GRAPH, _NODES, returns=set_(any_), checked=False)
def graph_reachable(graph: Graph, initial: Value) -> frozenset[Key]:
    """The nodes that can be reached from the initial ones, these included."""
    _check(graph, initial)
    reached: dict[Key, None] = {}
    pending = _vertices(initial)
    for node in pending:
        if node in graph and node not in reached:
            reached[node] = None
            pending += _vertices(graph[node])
    return frozenset(reached)


@builtin("graph.reachable_paths", _GRAPH, _NODES, returns=set_(array(any_)), checked=False)
def graph_reachable_paths(graph: Graph, initial: Value) -> frozenset[Key]:
    """The longest paths from the initial nodes, each ending at a leaf or before a loop closes."""
    _check(graph, initial)
    paths: dict[Key, None] = {}
    steps = 0
    stack: list[tuple[tuple[Key, ...], Key]]
    stack = [((), root) for root in reversed(_vertices(initial)) if root in graph]
    while stack:
        path, node = stack.pop()
        steps += len(path) + 1  # what is counted is the size of the answer
        if steps > MAX_STEPS:
            raise BuiltinError(f"paths hold more than {MAX_STEPS} nodes")
        if node in path or node not in graph:
            paths[_path(path)] = None
            continue
        longer = (*path, node)
        neighbours = _vertices(graph[node])
        if not neighbours:
            paths[_path(longer)] = None
        stack += [(longer, neighbour) for neighbour in reversed(neighbours)]
    return frozenset(paths)


def _path(nodes: tuple[Key, ...]) -> Key:
    return Boxed([from_key(node) for node in nodes])


@builtin("walk", any_, returns=tuple_(array(any_), any_), relation=True)
def walk(x: Value) -> Iterator[list[Value]]:
    """Every `[path, value]` in `x`, itself first with an empty path."""
    stack: list[tuple[list[Value], Value]] = [([], x)]
    while stack:
        path, value = stack.pop()
        yield [path, value]
        if isinstance(value, (list, dict, frozenset)):
            below = [([*path, key], item) for key, item in iterate(value)]
            stack += reversed(below)
