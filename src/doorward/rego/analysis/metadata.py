"""Calls of rego.metadata.chain and rego.metadata.rule replaced by what they answer.

Annotations are known when modules are compiled, so that at run time there is nothing to look up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from doorward.base.records import replace
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    Annotations,
    Array,
    ArrayComprehension,
    Call,
    Expr,
    Module,
    Object,
    Ref,
    Rule,
    Scalar,
    Term,
    Var,
)
from doorward.rego.syntax.walk import Node, rewrite, walk
from doorward.rego.values import Key, from_key

__all__ = ["FUNCTIONS", "answer_metadata", "labels_at"]

FUNCTIONS: Final = frozenset({"rego.metadata.chain", "rego.metadata.rule"})


def answer_metadata(modules: Sequence[Module]) -> list[Module]:
    """Return the modules with each call of `rego.metadata.chain` and `rego.metadata.rule` replaced
    by its constant answer.
    """
    return [
        replace(
            module, rules=tuple(_insert_metadata(rule, module, modules) for rule in module.rules)
        )
        for module in modules
    ]


def _insert_metadata(rule: Rule, module: Module, modules: Sequence[Module]) -> Rule:
    """Return a rule in which calls of `rego.metadata.chain` and `rego.metadata.rule` are replaced
    by their answers from the annotations of `modules`. To its `else` branches its own annotations
    do not belong: `rule` answers {} there. The rule itself if it has no such call.
    """
    if not any(isinstance(node, Call) and node.name in FUNCTIONS for node in walk(rule)):
        return rule
    path, blocks = _rule_path(rule, module), list(_rule_blocks(rule, module))
    around = list(_around(rule, module, modules))
    # The annotations of a rule are not those of its `else` branches.
    branches: list[Rule] = []
    branch = rule.else_rule
    while branch is not None:
        chain = [{"path": path}, *around]
        branches.append(_insert_metadata_of_rule(replace(branch, else_rule=None), chain, {}))
        branch = branch.else_rule
    of_package = _document(blocks[0]) if blocks else {}
    chain = [*_own_entries(blocks, path), *around]
    answered = _insert_metadata_of_rule(replace(rule, else_rule=None), chain, of_package)
    following: Rule | None = None
    for each in reversed(branches):
        following = replace(each, else_rule=following)
    return replace(answered, else_rule=following)


def _insert_metadata_of_rule(
    rule: Rule, chain: list[dict[str, Any]], of_rule: dict[str, Any]
) -> Rule:
    """Return the rule with its metadata calls replaced: `rego.metadata.chain` by `chain`,
    `rego.metadata.rule` by `of_rule`. A call with an output operand becomes an equation.
    """

    matches: dict[int, tuple[Term, Call]] = {}

    def answer(node: Node) -> Node:
        """Return the answer in place of a metadata call; a call with an output operand becomes an
        equation of that with the answer, once its expression is visited, which comes after. Any
        other node is returned unchanged.
        """
        if isinstance(node, Call) and node.name in FUNCTIONS:
            value = _term(chain if node.name.endswith("chain") else of_rule)
            if not node.args:
                return value
            # An operand is matched with the answer, and then the call has no value of its own.
            operator = replace(node.operator, head=Var("eq", node.span), args=())
            match = Call(operator, (node.args[0], value), node.span, infix=True)
            never = _without_value(match)
            # With the term itself, so that no other term takes its identity.
            matches[id(never)] = never, match
            return never
        if isinstance(node, Expr) and id(node.term) in matches:
            return replace(node, term=matches[id(node.term)][1])
        return node

    return rewrite(rule, answer)


def labels_at(span: Span, modules: Sequence[Module]) -> dict[str, Any]:
    """Return the `labels` of METADATA that apply to the rule at `span`: its own, then those of its
    document, package and packages above. Of equal names the nearest wins. `modules` are as parsed;
    StopIteration if none has the source of `span`, ValueError if no rule begins at or before it.
    """
    labels: dict[str, Any] = {}
    rule, module = _rule_around(span, modules)
    for entry in _chain(rule, module, modules):
        labels_of_entry = entry.get("annotations", {}).get("labels", {})
        labels |= {name: value for name, value in labels_of_entry.items() if name not in labels}
    return labels


def _rule_around(span: Span, modules: Sequence[Module]) -> tuple[Rule, Module]:
    """Return the last rule that begins at or before `span`, with its module. StopIteration if no
    module has this source, ValueError if no rule begins at or before `span`.
    """
    module = next(each for each in modules if each.span.source == span.source)
    return max(
        ((rule, module) for rule in module.rules if rule.span.start <= span.start),
        key=lambda pair: pair[0].span.start,
    )


def _without_value(match: Call) -> Term:
    """Return a term that is type-checked like `match` and never has a value."""
    items = ArrayComprehension(Scalar(1), (Expr(match, span=match.span),), match.span)
    return Ref(items, (Scalar(1, match.span),), match.span)


def _rule_blocks(rule: Rule, module: Module) -> Iterator[Annotations]:
    """Yield the annotation blocks of scope `rule` between the rule before and `rule`, the nearest
    first.
    """
    # Blocks between the rule before and this one belong to this one.
    before = max((r.span.row for r in module.rules if r.span.row < rule.span.row), default=0)
    for block in reversed(module.annotations):
        if block.scope == "rule" and before <= block.span.row < rule.span.row:
            yield block


def _rule_path(rule: Rule, module: Module) -> list[Any]:
    """Return the constant parts of a rule's full path."""
    ref = rule.head.ref
    name = [ref.head.name] if isinstance(ref.head, Var) else []
    tail = [a.value for a in ref.args if isinstance(a, Scalar)]
    return [*module.package.path, *name, *tail]


def _chain(rule: Rule, module: Module, modules: Sequence[Module]) -> Iterator[dict[str, Any]]:
    """Yield the entries of `rego.metadata.chain` for a rule, from its own METADATA to the outermost
    package.
    """
    yield from _own_entries(list(_rule_blocks(rule, module)), _rule_path(rule, module))
    yield from _around(rule, module, modules)


def _own_entries(blocks: Sequence[Annotations], path: list[Any]) -> list[dict[str, Any]]:
    return [_entry(block, path) for block in blocks] or [{"path": path}]


def _around(rule: Rule, module: Module, modules: Sequence[Module]) -> Iterator[dict[str, Any]]:
    """Yield the entries of `rego.metadata.chain` above the rule itself: the `document` blocks of
    all rules at its path, each once, the `package` blocks of its package, and the `subpackages`
    blocks of its package and then of those above it, nearest first. `modules` are all modules of
    the program.
    """
    path = _rule_path(rule, module)
    document: dict[object, Annotations] = {}
    for other in modules:
        for sibling in other.rules:
            if _rule_path(sibling, other) == path:
                for block in sibling.annotations:
                    if block.scope == "document":
                        document.setdefault(block.span, block)
    yield from (_entry(block, path) for block in document.values())
    package = module.package.path
    for scope, paths in (
        ("package", [package]),
        ("subpackages", [package[:n] for n in range(len(package), 0, -1)]),
    ):
        for package_path in paths:
            for other in modules:
                if other.package.path == package_path:
                    for block in other.annotations:
                        if block.scope == scope:
                            yield _entry(block, list(package_path))


def _entry(block: Annotations, path: list[Any]) -> dict[str, Any]:
    return {"annotations": _document(block), "path": path}


def _document(block: Annotations) -> dict[str, Any]:
    """Return an annotation block as policies see it: its fields, without `compile`, and its
    scope.
    """
    # What a policy can read of itself does not have what partial evaluation is told.
    fields = {name: value for name, value in block.fields.items() if name != "compile"}
    return {**fields, "scope": block.scope}


def _term(value: Any) -> Term:
    """Return annotation data (JSON, perhaps with tuples) as a constant term, keys as texts."""
    if isinstance(value, dict):
        return Object(tuple((_key(k), _term(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return Array(tuple(_term(item) for item in value))
    return Scalar(value)


def _key(key: Key) -> Term:
    return _term(from_key(key))
