"""The tree of everything that rules define below `data`, and what may not stand together in it.

A rule hangs at the node of its constant prefix: `p.q[x].r := 1` of package `a` at `data.a.p.q`,
with the tail `[x].r` left to evaluation. A node has rules, or children, or both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from doorward.base.records import mutable, record
from doorward.rego.analysis.scope import operand_source, source_name
from doorward.rego.errors import COMPILE_ERROR, TYPE_ERROR, Diagnostic
from doorward.rego.syntax.nodes import Module, Ref, Rule, Scalar, Term, Var
from doorward.rego.values import (
    UNDEFINED,
    Key,
    Undefined,
    Value,
    from_key,
    to_key,
)

__all__ = [
    "Definition",
    "RuleNode",
    "build_tree",
    "check_base_data",
    "check_conflicts",
    "data_conflicts",
    "head_path",
    "path_text",
]


@record
class Definition:
    """One rule at its node: `tail` is the part of its reference after the constant prefix."""

    rule: Rule
    tail: tuple[Term, ...]
    module: Module

    @property
    def is_set(self) -> bool:
        return self.rule.head.key is not None

    @property
    def is_function(self) -> bool:
        return self.rule.head.args is not None

    @property
    def is_complete(self) -> bool:
        return not self.tail and not self.is_set and not self.is_function


@mutable(eq=False)
class RuleNode:
    """A path below `data`, with the rules defined there and the nodes below. `path` does not
    include `data`; its keys are values in key form.
    """

    path: tuple[Key, ...]
    children: dict[Key, RuleNode] = field(default_factory=dict)
    definitions: list[Definition] = field(default_factory=list)
    is_package: bool = False
    _name: str = ""

    @property
    def name(self) -> str:
        """The path as errors and generated code show it, such as `data.a.p`; computed once."""
        if not self._name:
            self._name = path_text(self.path)
        return self._name

    @property
    def default(self) -> Definition | None:
        return next((d for d in self.definitions if d.rule.default), None)

    @property
    def is_function(self) -> bool:
        return bool(self.definitions) and self.definitions[0].is_function

    @property
    def is_complete(self) -> bool:
        return bool(self.definitions) and all(d.is_complete for d in self.definitions)

    @property
    def is_set_of_members(self) -> bool:
        """True if the rules here build a set, not an object of sets, and no rules are below; False
        for a node without rules. The rules must have been checked to be of one kind.
        """
        # Checked to be of one kind, so that the first definition speaks for all.
        if self.children or not self.definitions:
            return False
        first = self.definitions[0]
        return first.is_set and not first.tail

    def walk(self) -> Iterator[RuleNode]:
        """Yield this node and all nodes below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def numbers(self) -> dict[int, int]:
        """Return the number of each node in the order of `walk`, from 0, by the `id` of the
        node.
        """
        return {id(node): number for number, node in enumerate(self.walk())}

    def find(self, path: Sequence[Key]) -> RuleNode | None:
        """Return the node at `path` below this one; None if there is none."""
        node: RuleNode | None = self
        for key in path:
            node = node.children.get(key) if node is not None else None
        return node


def path_text(path: Sequence[Key]) -> str:
    """Return a path below `data` as a reference, such as `data.a["b c"]`."""
    return "data" + "".join([operand_source(from_key(key)) for key in path])


def head_path(ref: Ref) -> tuple[tuple[Key, ...], tuple[Term, ...]]:
    """Return the constant prefix of a resolved rule reference, in key form and without `data`, and
    the operands after it: `data.a.p[x].y` has the prefix `("a", "p")` and the operands `x` and
    `"y"`.
    """
    path: list[Key] = []
    for n, arg in enumerate(ref.args):
        if not isinstance(arg, Scalar):
            return tuple(path), ref.args[n:]
        path.append(to_key(arg.value))
    return tuple(path), ()


def insert_rules(modules: Sequence[Module]) -> RuleNode:
    """Return a tree with all rules of the resolved `modules`, each at its constant prefix."""
    root = RuleNode(())
    for module in modules:
        _node(root, module.package.path).is_package = True
        for rule in module.rules:
            path, tail = head_path(rule.head.ref)
            _node(root, path).definitions.append(Definition(rule, tail, module))
    return root


def build_tree(modules: Sequence[Module]) -> RuleNode:
    """Return the tree used for evaluation. Rules below a node with variables in its rules' paths
    (`p.a.y` beside `p[x].y`) are moved to that node; functions and documents with a default stay.
    """
    root = insert_rules(modules)
    # A list, since gathering removes nodes from the tree.
    for node in list(root.walk()):
        if any(d.tail for d in node.definitions):
            _gather(node)
    return root


def _gather(node: RuleNode) -> None:
    """Move all rules below `node`, whose own rules have variables in their path (`p[x].y` beside
    `p.a.y`), to the node, and remove the nodes that become empty. Functions and nodes with a
    default stay.
    """
    for below in list(node.walk()):
        if below is node or below.is_function or below.default:
            continue
        steps = tuple(Scalar(from_key(k)) for k in below.path[len(node.path) :])  # type: ignore[arg-type]
        # One function evaluates all of them, since a lookup may reach each by some key.
        for d in below.definitions:
            node.definitions.append(Definition(d.rule, steps + d.tail, d.module))
        below.definitions = []
    _prune(node)


def _prune(node: RuleNode) -> None:
    """Remove from the tree, in place, the nodes below `node` without rules at or below them."""
    for key, child in list(node.children.items()):
        _prune(child)
        if not child.children and not child.definitions:
            del node.children[key]


def _node(root: RuleNode, path: Sequence[Key]) -> RuleNode:
    """Return the node at a path below `root`; the nodes on the way that are missing are created."""
    node = root
    for n, key in enumerate(path):
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = RuleNode(tuple(path[: n + 1]))
        node = child
    return node


def check_conflicts(modules: Sequence[Module]) -> list[Diagnostic]:
    """Return the errors of rules and packages that define the same path in incompatible ways."""
    errors: list[Diagnostic] = []
    # Not the tree of `build_tree`, which has rules of different paths at one node.
    for node in insert_rules(modules).walk():
        if node.definitions:
            errors += _check_rules(node)
            errors += _check_package(node)
    return errors


def _check_rules(node: RuleNode) -> Iterator[Diagnostic]:
    """Yield one error if the rules at a node, at least one, conflict: rules of a fixed path with
    rules below it, sets with other kinds, different numbers of parameters, fixed with computed
    keys, or several defaults. Nothing otherwise.
    """
    # As OPA finds them: a package before those inside it.
    rules = sorted(node.definitions, key=lambda d: d.module.package.path)
    kinds = {d.is_set for d in rules}
    arities = {len(d.rule.head.args or ()) for d in rules}
    fixed = [not d.tail for d in rules]
    defaults = [d for d in rules if d.rule.default]
    name = node.name + "".join(_tail_text(term) for term in rules[-1].tail)
    span = rules[0].rule.span
    if any(fixed) and node.children:
        below = " ".join(_nearest(node))
        yield Diagnostic(TYPE_ERROR, f"rule {name} conflicts with [{below}]", span)
    elif len(kinds) > 1 or len(arities) > 1 or any(fixed) != all(fixed):
        yield Diagnostic(TYPE_ERROR, f"conflicting rules {name} found", span)
    elif len(defaults) > 1:
        spans = ", ".join(str(d.rule.span) for d in defaults)
        message = f"multiple default rules {name} found at {spans}"
        yield Diagnostic(TYPE_ERROR, message, defaults[0].module.package.span)


def _nearest(node: RuleNode) -> list[str]:
    """Return the sorted names of the nearest nodes with rules below `node`."""
    names: list[str] = []
    for child in node.children.values():
        names += [child.name] if child.definitions else _nearest(child)
    return sorted(names)


def _check_package(node: RuleNode) -> Iterator[Diagnostic]:
    """Yield an error for each rule with a fixed path that is also that of a package; nothing if
    `node` is not a package.
    """
    if not node.is_package:
        return
    for definition in node.definitions:
        if not definition.tail:
            rule, package = definition.rule, definition.module.package
            here = ".".join(str(key) for key in node.path)
            name = ".".join(str(key) for key in node.path[len(package.path) :])
            message = f"package {here} conflicts with rule {name} defined at {rule.span}"
            yield Diagnostic(TYPE_ERROR, message, package.span)


def check_base_data(modules: Sequence[Module], data: Value) -> list[Diagnostic]:
    """Return an error for each path with rules at which base data has a value, or above which it
    has a value that is not an object; [] if there is none. The REST API refuses such data, while in
    an engine rules win. `modules` are resolved.
    """
    return list(data_conflicts(insert_rules(modules), data))


def data_conflicts(node: RuleNode, data: Value | Undefined) -> Iterator[Diagnostic]:
    """Yield an error, at the first rule, for each node with rules below `node` at whose path `data`
    has a value, or above whose path it has one that is not an object. `data` is the value at
    `node`; paths with keys that are not strings do not count.
    """
    for key, child in node.children.items():
        if not isinstance(key, str):
            continue  # only names lead to data
        base = data.get(key, UNDEFINED) if isinstance(data, dict) else data
        if base is UNDEFINED:
            continue
        if child.definitions:
            message = f"conflicting rule for data path {'/'.join(map(str, child.path))} found"
            yield Diagnostic(COMPILE_ERROR, message, child.definitions[0].rule.span)
        else:
            yield from data_conflicts(child, base)


def _tail_text(term: Term) -> str:
    """Return an operand behind the constant part of a rule's reference as text, as errors show it:
    `.name` or `["a b"]` for a string, otherwise in brackets.
    """
    if isinstance(term, Scalar) and isinstance(term.value, str):
        return operand_source(term.value)
    return f"[{source_name(term.name) if isinstance(term, Var) else term.span.text}]"
