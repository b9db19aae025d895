"""`rego.metadata.chain()` and `rego.metadata.rule()`: calls that are constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.oracle.scope import call

from doorward.rego.syntax.nodes import (
    Annotations,
    Array,
    Call,
    Module,
    Object,
    Rule,
    Scalar,
    Term,
    Var,
)
from doorward.rego.syntax.walk import rewrite
from doorward.rego.values import from_key

__all__ = ["answer_metadata"]

RULE: Final = "rego.metadata.rule"
CHAIN: Final = "rego.metadata.chain"


def answer_metadata(modules: Sequence[Module]) -> list[Module]:
    """The modules with the annotations themselves where a rule asks for them."""
    return [
        replace(m, rules=tuple(_answered(rule, _chain(rule, m, modules)) for rule in m.rules))
        for m in modules
    ]


def _answered(rule: Rule, chain: list[dict[str, Any]]) -> Rule:
    first = chain[0].get("annotations", {})
    answers = {CHAIN: chain, RULE: first if first.get("scope") == "rule" else {}}

    def answer(node: Any) -> Any:
        if not isinstance(node, Call) or node.name not in answers:
            return node
        value = _term(answers[node.name])
        if not node.args:
            return value
        return call("eq", node.args[0], value)

    answered = rewrite(replace(rule, else_rule=None), answer)
    if rule.else_rule is None:
        return answered
    bare = [{"path": chain[0]["path"]}] if first.get("scope") == "rule" else chain[:1]
    return replace(answered, else_rule=_answered(rule.else_rule, bare + chain[1:]))


def _chain(rule: Rule, module: Module, modules: Sequence[Module]) -> list[dict[str, Any]]:
    package = module.package.path
    path = _path(rule, module)
    own = [item for item in rule.annotations if item.scope == "rule"]
    chain: list[dict[str, Any]] = [_entry(own[0], path) if own else {"path": path}]
    documents = {
        id(item): item
        for other in modules
        for sibling in other.rules
        if _path(sibling, other) == path
        for item in sibling.annotations
        if item.scope == "document"
    }
    chain += [_entry(item, path) for item in documents.values()]
    around = [package[:length] for length in range(len(package), 0, -1)]
    for scope, places in (("package", [package]), ("subpackages", around)):
        for position in places:
            for other in modules:
                if other.package.path == position:
                    mine = [item for item in other.annotations if item.scope == scope]
                    chain += [_entry(item, list(position)) for item in mine]
    return chain


def _path(rule: Rule, module: Module) -> list[Any]:
    ref = rule.head.ref
    assert isinstance(ref.head, Var)
    below = [arg.value for arg in ref.args if isinstance(arg, Scalar)]
    return [*module.package.path, ref.head.name, *below]


def _entry(item: Annotations, path: list[Any]) -> dict[str, Any]:
    return {"annotations": {**item.fields, "scope": item.scope}, "path": path}


def _term(value: Any) -> Term:
    match value:
        case dict():
            return Object(tuple((_term(from_key(k)), _term(v)) for k, v in value.items()))
        case list() | tuple():
            return Array(tuple(map(_term, value)))
        case _:
            return Scalar(value)
