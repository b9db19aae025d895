"""The tree that `opa parse` prints for people: a line for each node, a blank deeper at each level.

It is made from the JSON of a module, whose nodes it names; a member's key and METADATA of rules are
left out, as in OPA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from doorward.rego import to_rego

__all__ = ["tree_lines"]

Json = Mapping[str, Any]

_PARTS: Final = {
    "arraycomprehension": ("term", "body"),
    "setcomprehension": ("term", "body"),
    "objectcomprehension": ("key", "value", "body"),
}


def tree_lines(module: Json) -> Iterator[str]:
    """Yield the lines of OPA's tree for the JSON of a module from `module_to_json`."""
    yield "module"
    yield " package"
    yield from _refs(module["package"]["path"], 2)
    for item in module.get("imports", ()):
        yield " import"
        yield from _term(item["path"], 2)
        yield "  " + item.get("alias", "")
    for rule in module.get("rules", ()):
        yield from _rule(rule, 1)
    yield from (" annotations" for _ in module.get("annotations", ()))
    yield from (" comment" for _ in module.get("comments", ()))


def _rule(rule: Json, depth: int) -> Iterator[str]:
    """Yield the lines of a rule and of its `else` branches."""
    yield f"{' ' * depth}rule"
    head = rule["head"]
    yield f"{' ' * depth} head"
    yield from _refs(head["ref"], depth + 2)
    if head.get("args"):
        yield f"{' ' * depth}  args"
        yield from _terms(head["args"], depth + 3)
    if "value" in head:
        yield from _term(head["value"], depth + 2)
    yield from _body(rule["body"], depth + 1)
    if "else" in rule:
        yield from _rule(rule["else"], depth + 1)


def _body(body: Sequence[Json], depth: int) -> Iterator[str]:
    """Yield the lines of a body and of its expressions, indented by `depth` spaces."""
    yield f"{' ' * depth}body"
    for expr in body:
        yield from _expr(expr, depth + 1)


def _expr(expr: Json, depth: int) -> Iterator[str]:
    """Yield the lines of an expression, given as its JSON, and of its `with` modifiers; the first
    line is indented by `depth` spaces.
    """
    negated = "negated " if expr.get("negated") else ""
    yield f"{' ' * depth}expr {negated}index={expr['index']}"
    terms = expr["terms"]
    if isinstance(terms, list):
        yield from _terms(terms, depth + 1)
    elif "symbols" in terms:
        yield f"{' ' * depth} somedecl"
        yield from _terms(terms["symbols"], depth + 2)
    elif "domain" in terms:
        yield f"{' ' * depth} every"
        named = [terms[name] for name in ("key", "value", "domain") if terms[name] is not None]
        yield from _terms(named, depth + 2)
        yield from _body(terms["body"], depth + 2)
    elif terms["type"] in ("not", "and", "or"):
        yield f"{' ' * depth} {terms['type']}"
        for name in ("body", "left", "right"):
            if name in terms:
                yield from _body(terms[name], depth + 2)
    else:
        yield from _term(terms, depth + 1)
    for item in expr.get("with", ()):
        yield f"{' ' * depth} with"
        yield from _terms([item["target"], item["value"]], depth + 2)


def _terms(terms: Sequence[Json], depth: int) -> Iterator[str]:
    for term in terms:
        yield from _term(term, depth)


def _refs(parts: Sequence[Json], depth: int) -> Iterator[str]:
    yield f"{' ' * depth}ref"
    yield from _terms(parts, depth + 1)


def _term(term: Json, depth: int) -> Iterator[str]:
    """Yield the lines of a term: scalars and variables on one line, others with their parts."""
    kind, value = term["type"], term["value"]
    lead = " " * depth
    if kind in ("null", "boolean", "number", "string"):
        yield lead + to_rego(None if kind == "null" else value)
    elif kind == "var":
        yield lead + ("_" if value.startswith("$") else value)
    else:
        yield lead + kind
        yield from _below(kind, value, depth + 1)


def _below(kind: str, value: Any, depth: int) -> Iterator[str]:
    """Yield the lines of the parts of a composite term, indented by `depth` spaces; `kind` and
    `value` are the members `type` and `value` of its JSON.
    """
    if kind in _PARTS:
        for name in _PARTS[kind]:
            yield from (_body if name == "body" else _term)(value[name], depth)
    elif kind == "templatestring":
        for part in value["parts"]:
            yield from (_expr if "terms" in part else _term)(part, depth)
    elif kind == "object":
        for pair in value:
            yield from _terms(pair, depth)
    else:
        yield from _terms(value, depth)
