"""Rules as the search asks for them, and what the caller wants of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from doorward.base.records import mutable, record
from doorward.rego.analysis.calls import Callees
from doorward.rego.builtins.registry import Builtin
from doorward.rego.partial.core import DATA, Constant, Operator, Ref, Rule, Term
from doorward.rego.partial.index import in_index_order
from doorward.rego.values import SYSTEM, Key, sorted_keys, to_key

__all__ = ["Node", "Program", "Settings"]


@record
class Settings:
    """The options of one search. `documents`: what is unknown, as paths that begin with `input` or
    `data`. `disabled`: documents to which references stay in the residual. `shallow`: references to
    rules that use something unknown stay too. `nondeterministic`: built-ins that are not pure are
    evaluated. `namespace`: the package of the support, below `data`; None: rules keep their
    packages.
    """

    documents: tuple[tuple[Term, ...], ...]
    disabled: tuple[tuple[Term, ...], ...] = ()
    shallow: bool = False
    nondeterministic: bool = False
    namespace: str | None = "partial"
    name: str = "partial"
    max_size: int = 1_000_000
    truth: bool = False
    """True if only the truth of a rule counts, so that a default of false is left out. As in OPA's
    filters, rules are then tried without the index, and so in another order.
    """
    keep_else: bool = False
    """True if the residual refers to rules with `else` even in `truth` mode, as OPA's does."""


@mutable(eq=False)
class Node:
    """The rules at one path below `data`, and its children by key. `own`: the rules whose constant
    prefix is this path. `rules`: all rules without `default` that define a part of the document
    here, in index order. `branches`: the same, each followed by its `else` branches. `hidden`: the
    path is below `data.system`.
    """

    key: Key = None
    children: dict[Key, Node] = field(default_factory=dict)
    own: list[Rule] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    branches: list[Rule] = field(default_factory=list)
    default: Rule | None = None
    hidden: bool = False

    @property
    def is_virtual(self) -> bool:
        """True if rules or a default define this document."""
        return bool(self.rules) or self.default is not None

    @property
    def is_function(self) -> bool:
        """True if the first rule, or the default, has parameters. The node must be virtual."""
        first = self.default or self.rules[0]
        return bool(first.args)

    @property
    def is_ground(self) -> bool:
        """True if no rule has a variable in its reference and all references have the same length:
        the rules define one document.
        """
        return all(
            rule.is_ground and len(rule.path) == len(self.rules[0].path) for rule in self.rules
        )

    @property
    def has_else(self) -> bool:
        return any(rule.otherwise is not None for rule in self.rules)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def sorted(self) -> list[Node]:
        return [self.children[key] for key in sorted_keys(self.children)]


class Program:
    """An index of the rules of all modules by their paths. `all_rules`: the rules of a path are in
    the order of OPA's filters, which use the rule index without a lookup.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        packages: Iterable[Sequence[Key]],
        callees: Callees,
        *,
        all_rules: bool = False,
    ) -> None:
        self.callees = callees
        self._all_rules = all_rules
        self.root = Node()
        # A package without rules is a node too: it is an empty object and not undefined.
        for package in packages:
            node = self.root
            for key in package:
                node = self._child(node, key)
        for rule in rules:
            node = self.root
            for part in _constant_prefix(rule.path[1:]):
                node = self._child(node, to_key(part.value))
            node.own.append(rule)
        for node in list(self.root.walk()):
            self._gather(node)

    def _child(self, node: Node, key: Key) -> Node:
        """Return the child of a node under a key, created if missing. `data.system` and the nodes
        below it are created as hidden.
        """
        child = node.children.get(key)
        if child is None:
            # What is below data.system is not part of data.
            hidden = node.hidden or (node is self.root and key == SYSTEM)
            child = node.children[key] = Node(key, hidden=hidden)
        return child

    def _gather(self, node: Node) -> None:
        """Set a node's `default`, `rules` (in the order of OPA's index) and `branches`. If a rule
        of the node continues with a variable, the rules of all nodes below are included, without
        functions and defaults. All rules must be in `own` of their nodes.
        """
        node.default = next((rule for rule in node.own if rule.default), None)
        rules = [rule for rule in node.own if not rule.default]
        if any(not rule.is_ground for rule in rules):
            for below in node.walk():
                if below is not node:
                    # Functions and defaults below belong to documents of their own.
                    rules += [rule for rule in below.own if not (rule.default or rule.args)]
        node.rules = in_index_order(rules, self._is_virtual, all_rules=self._all_rules)
        node.branches = [branch for rule in node.rules for branch in rule.branches()]

    def _is_virtual(self, ref: Ref) -> bool:
        """Return True if the reference leads to a rule, to a part of one, or to a package or prefix
        of rules; False for base data, and if an operand before the rule is not constant.
        """
        if ref.parts[0] != DATA:
            return False
        node = self.root
        for part in ref.parts[1:]:
            child = node.children.get(to_key(part.value)) if type(part) is Constant else None
            if child is None:
                return False
            if child.own:
                return True
            node = child
        return True

    def builtin(self, name: str) -> Builtin | None:
        return self.callees.registry.get(name)

    def arity(self, operator: Operator) -> int | None:
        """Return the number of operands that a built-in (a name) or a function of the policies (a
        reference) declares, without an output; None for a variadic or unknown one.
        """
        if type(operator) is str:
            declared = self.builtin(operator)
            if declared is None or declared.signature.variadic is not None:
                return None
            return len(declared.signature.args)
        node = self.function(operator)
        return None if node is None else len((node.default or node.rules[0]).args or ())

    def find(self, path: Sequence[Term]) -> Node | None:
        """Return the node at `path`, whose first part is `data`; None if there is none, or if
        another part is not constant.
        """
        node: Node | None = self.root
        for part in path[1:]:
            if type(part) is not Constant or node is None:
                return None
            node = node.children.get(to_key(part.value))
        return node

    def function(self, operator: Operator) -> Node | None:
        """Return the node of the function with this path; None if the policies have no such
        function, or `operator` is the name of a built-in.
        """
        if type(operator) is not Ref or operator.parts[0] != DATA:
            return None
        node = self.find(operator.parts)
        return node if node is not None and node.is_virtual and node.is_function else None

    def reachable(self, path: Sequence[Term]) -> Iterator[Rule]:
        """Yield every rule that a reference may lead to, those below it included, some twice. A
        part that is not constant stands for any key, except those below `data.system`.
        """
        yield from self._reachable(self.root, path, 1)

    def _reachable(self, node: Node, path: Sequence[Term], pos: int) -> Iterator[Rule]:
        """Yield the rules on and below a path, from `pos` on below `node`; the rules at its end
        come twice. A part that is not constant stands for every key that is not hidden; in an
        object that rules with keys of their own fill, it stands for everything below, since a
        decision builds the object as a whole.
        """
        if pos >= len(path) or (node.own and type(path[pos]) is not Constant):
            for below in node.walk():
                if not below.hidden or below is node:
                    yield from below.own
            return
        part = path[pos]
        if type(part) is Constant:
            child = node.children.get(to_key(part.value))
            nodes = [] if child is None else [child]
        else:
            nodes = [child for child in node.children.values() if not child.hidden]
        for child in nodes:
            yield from child.own
            yield from self._reachable(child, path, pos + 1)


def _constant_prefix(path: Sequence[Term]) -> Iterator[Constant]:
    """Yield the parts of a path up to the first that is not constant."""
    for part in path:
        if type(part) is not Constant:
            return
        yield part
