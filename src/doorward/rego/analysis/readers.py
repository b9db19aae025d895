"""The rules that read what a `with` replaces, in themselves or through others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doorward.rego.analysis.dependencies import Dependencies
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.values import Key

__all__ = ["Readers"]


class Readers:
    """For each rule of a program, the rules that read it. The graph is reversed when it is first
    needed.
    """

    def __init__(self, root: RuleNode, graph: Dependencies) -> None:
        self._root = root
        self._graph = graph
        self._readers: dict[int, list[RuleNode]] | None = None

    def of(self, path: Sequence[Key]) -> list[tuple[Key, ...]]:
        """Return the paths below `data` of the rules that read rules at or below `path`, directly
        or through others, without those rules themselves. [] if there are no rules at or below
        `path`.
        """
        replaced = self._root.find(path)
        if replaced is None:
            return []
        readers = self._readers_by_node()
        waiting = [node for node in replaced.walk() if node.definitions]
        seen = {id(node) for node in waiting}
        paths = []
        while waiting:
            for reader in readers.get(id(waiting.pop()), ()):
                if id(reader) not in seen:
                    seen.add(id(reader))
                    waiting.append(reader)
                    paths.append(reader.path)
        return paths

    def _readers_by_node(self) -> dict[int, list[RuleNode]]:
        """Return the nodes whose rules read each node directly, by its `id`; computed once."""
        if self._readers is None:
            readers: dict[int, list[RuleNode]] = {}
            for reader, read in self._reads():
                readers.setdefault(id(read), []).append(reader)
            self._readers = readers
        return self._readers

    def _reads(self) -> Iterator[tuple[RuleNode, RuleNode]]:
        """Yield each node of rules with a node that it reads directly, once for each such pair."""
        for node in self._root.walk():
            for read in self._graph.reads.get(id(node), ()):
                yield node, read
