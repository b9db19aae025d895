"""The check of calls: every called function exists, and takes as many operands as it is given.

Also the one place that knows how many operands a resolved call wants (`Callees.arity`).
"""

from __future__ import annotations

from doorward.base.records import record
from doorward.rego.analysis.bindings import as_call
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.builtins.registry import Builtin, Registry
from doorward.rego.syntax.nodes import Call, Ref, Scalar, Var, With
from doorward.rego.values import Key, to_key

__all__ = ["Callee", "Callees", "call_path", "replaced_function", "replaced_names"]


def call_path(operator: Ref) -> tuple[Key, ...] | None:
    """Return the path below `data` of a resolved operator, in key form and without operands that
    are not constant; None for a built-in.
    """
    if not (isinstance(operator.head, Var) and operator.head.name == "data"):
        return None
    return tuple(to_key(a.value) for a in operator.args if isinstance(a, Scalar))


@record
class Callee:
    """The target of a call: a built-in, or the node of a function."""

    builtin: Builtin | None = None
    node: RuleNode | None = None

    @property
    def arity(self) -> int | None:
        """The number of declared operands; None for a variadic built-in, 0 for a rule that is not a
        function.
        """
        if self.builtin is not None:
            if self.builtin.signature.variadic is not None:
                return None
            return len(self.builtin.signature.args)
        assert self.node is not None  # it is one of the two
        return len(self.node.definitions[0].rule.head.args or ())


class Callees:
    """Finds what calls refer to, in one registry and one tree of rules."""

    def __init__(self, registry: Registry, root: RuleNode) -> None:
        self.registry = registry
        self.root = root
        self._builtins: dict[str, Callee | None] = {}

    def find(self, call: Call) -> Callee | None:
        """Return the built-in or rule that a call refers to, even a rule that is not a function.
        None if there is none, or if other rules are below it.
        """
        path = call_path(call.operator)
        if path is None:
            return self._builtin(call.name)
        node = self.root.find(path)
        if node is None or not node.definitions or node.children:
            return None
        return Callee(node=node)

    def _builtin(self, name: str) -> Callee | None:
        """Return the callee for the built-in `name`, None if the registry has none; cached."""
        if name not in self._builtins:
            builtin = self.registry.get(name)
            self._builtins[name] = None if builtin is None else Callee(builtin=builtin)
        return self._builtins[name]

    def operands(self, call: Call) -> int | None:
        """Return the number of declared operands of the callee; 0 for a rule that is not a
        function, None for a variadic or unknown callee.
        """
        callee = self.find(call)
        return None if callee is None else callee.arity

    def arity(self, call: Call) -> int | None:
        """Return the number of declared operands of the function or built-in that is called; None
        if it is unknown, variadic, or a rule that is not a function.
        """
        callee = self.find(call)
        if callee is None or (callee.node is not None and not callee.node.is_function):
            return None
        return callee.arity


def replaced_names(item: With, callees: Callees) -> list[str]:
    """Return the names that a `with` replaces: one function or built-in, or all rules at and below
    a path of data; [] for the input or base data.
    """
    name = replaced_function(item, callees)
    if name is not None:
        return [name]
    path = call_path(item.target) if isinstance(item.target, Ref) else None
    if isinstance(item.target, Var) and item.target.name == "data":
        path = ()
    node = None if path is None else callees.root.find(path)
    return [] if node is None else [below.name for below in node.walk() if below.definitions]


def replaced_function(item: With, callees: Callees) -> str | None:
    """Return the name of the function or built-in that the target of `item` refers to; None for
    documents, for rules that are not functions, and for unknown names.
    """
    target = as_call(item.target)
    callee = callees.find(target) if target is not None else None
    if callee is None:
        return None
    if callee.builtin is not None:
        return callee.builtin.name
    return callee.node.name if callee.node is not None and callee.node.is_function else None
