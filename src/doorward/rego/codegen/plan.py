"""What code generation knows of the whole program: names, slots, which answers depend on what."""

from __future__ import annotations

from dataclasses import dataclass, field

from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.tree import RuleNode

__all__ = ["Plan"]


@dataclass(slots=True)
class Plan:
    """The program that functions are generated for.

    `constant`: nodes whose answers depend on data alone. `mocked`: names of functions and
    built-ins that some `with` replaces, so that their calls must ask. `prints`: somebody listens.
    """

    callees: Callees
    constant: frozenset[int] = frozenset()
    mocked: frozenset[str] = frozenset()
    prints: bool = False
    slots: dict[int, int] = field(default_factory=dict)

    @property
    def root(self) -> RuleNode:
        return self.callees.root

    def slot(self, node: RuleNode) -> int:
        """Where evaluations keep the answer of the rules at `node`."""
        return self.slots.setdefault(id(node), len(self.slots))

    def is_constant(self, node: RuleNode) -> bool:
        return id(node) in self.constant
