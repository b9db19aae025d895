"""Residuals as syntax trees, which print and compile, and as the JSON of OPA's trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from doorward.rego.partial import core
from doorward.rego.partial.state import Path
from doorward.rego.syntax import nodes
from doorward.rego.syntax.term_order import expr_rank, rank
from doorward.rego.values import Value, from_key, sorted_keys, sorted_values

__all__ = [
    "body_to_json",
    "body_to_nodes",
    "module_to_json",
    "module_to_nodes",
    "plain_name",
    "sorted_rules",
    "term_to_nodes",
    "uses",
]

Json = dict[str, Any]


# Syntax trees


def body_to_nodes(body: core.Body) -> nodes.Body:
    return tuple([_expr(expr) for expr in body])


def term_to_nodes(term: core.Term) -> nodes.Term:
    return _term(term)


def module_to_nodes(package: Path, rules: Sequence[core.Rule]) -> nodes.Module:
    """Return the rules of a support package, whose path begins with `data`, as the syntax tree of a
    module without imports.
    """
    names = tuple([str(part.value) for part in package[1:] if isinstance(part, core.Constant)])
    return nodes.Module(nodes.Package(names), (), tuple([_rule(rule) for rule in rules]))


def sorted_rules(rules: Sequence[core.Rule]) -> list[core.Rule]:
    """Return the rules of a support module in OPA's order."""
    return sorted(rules, key=lambda rule: _rule_rank(_rule(rule)))


def _rule_rank(rule: nodes.Rule) -> tuple[Any, ...]:
    """Return the key by which OPA orders the rules of a support module: parameters, reference, key,
    value, `default`, body.
    """
    head = rule.head
    args = tuple(map(rank, head.args or ()))
    key = () if head.key is None else (rank(head.key),)
    value = () if head.value is None else (rank(head.value),)
    body = tuple(map(expr_rank, rule.body or (nodes.Expr(nodes.Scalar(True)),)))
    return (args, rank(head.ref), key, value, rule.default, body)


def _rule(rule: core.Rule) -> nodes.Rule:
    """Convert one branch of a rule to its syntax tree, its path taken behind the package; `else`
    branches are not included, and the body of a default is empty. The first part of the path must
    be a constant.
    """
    first, *rest = rule.path[rule.package :]
    assert isinstance(first, core.Constant)
    ref = nodes.Ref(nodes.Var(str(first.value)), tuple([_term(part) for part in rest]))
    head = nodes.Head(
        ref,
        None if rule.args is None else tuple([_term(arg) for arg in rule.args]),
        None if rule.key is None else _term(rule.key),
        None if rule.value is None else _term(rule.value),
        assign=True,
    )
    body = () if rule.default else body_to_nodes(rule.body)
    return nodes.Rule(head, body, rule.default)


def _expr(expr: core.Expr) -> nodes.Expr:
    """Return the syntax tree of an expression with its `not` and `with`; the key of an `every` is
    left out if its body does not read it. Its span, and that of its operator, are those of the
    policy.
    """
    withs = tuple([nodes.With(_target(item.target), _term(item.value)) for item in expr.withs])
    if expr.every is not None:
        every = expr.every
        key = _variable(every.key) if uses(every.key, every.body) else None
        body = body_to_nodes(every.body)
        node = nodes.Every(key, _variable(every.value), _term(every.domain), body)
        return nodes.Expr(node, expr.negated, withs, expr.span)
    args = tuple([_term(arg) for arg in expr.args])
    if expr.operator is None:
        return nodes.Expr(args[0], expr.negated, withs, expr.span)
    operator = replace(_operator(expr.operator), span=expr.location)
    call = nodes.Call(operator, args, infix=expr.operator == core.EQUALITY)
    return nodes.Expr(call, expr.negated, withs, expr.span)


def uses(term: core.Term, body: core.Body) -> bool:
    """Return True if `body`, of an `every`, reads the variable `term`, its key or value. Rego
    rejects a declared variable that is not read.
    """
    names = {n for e in body for each in core.expr_terms(e) for n in core.variables(each)}
    return isinstance(term, core.Var) and term.name in names


def _variable(term: core.Term) -> nodes.Var:
    """Convert a variable to its syntax tree."""
    node = _term(term)
    assert isinstance(node, nodes.Var)
    return node


def _target(target: core.Ref) -> nodes.Ref | nodes.Var:
    """Convert the target of a `with` to its syntax tree."""
    node = _term(target)
    assert isinstance(node, (nodes.Ref, nodes.Var))
    return node


def _operator(operator: core.Operator) -> nodes.Ref:
    """Return a function's path, or a built-in's name split at its dots, as a reference of the
    syntax tree.
    """
    if isinstance(operator, str):
        first, *rest = operator.split(".")
        return nodes.Ref(nodes.Var(first), tuple([nodes.Scalar(part) for part in rest]))
    node = _term(operator)
    assert isinstance(node, nodes.Ref)
    return node


def plain_name(name: str) -> str:
    """Return a variable's name in the text of a residual: `$1` becomes `_1`. A wildcard that occurs
    twice is one variable, so it needs a name.
    """
    return f"_{name[1:].removeprefix('_')}" if name.startswith("$") else name


def _term(term: core.Term) -> nodes.Term:
    """Convert a term of the evaluator to its syntax tree, with the bodies of comprehensions;
    variables get names that can be written in Rego. A reference whose head is a reference becomes
    one reference, one of a single part that part. Spans are kept only for operators of calls.
    """
    match term:
        case core.Constant(value=value):
            return _value(value)
        case core.Var(name):
            return nodes.Var(plain_name(name))
        case core.Ref(parts):
            head, *rest = [_term(part) for part in parts]
            if isinstance(head, nodes.Ref):
                return nodes.Ref(head.head, (*head.args, *rest))
            return nodes.Ref(head, tuple(rest)) if rest else head
        case core.Array(items):
            return nodes.Array(tuple([_term(item) for item in items]))
        case core.Set(items):
            return nodes.Set(tuple([_term(item) for item in items]))
        case core.Object(pairs):
            return nodes.Object(tuple([(_term(key), _term(value)) for key, value in pairs]))
        case core.Call(operator, args):
            named = replace(_operator(operator), span=term.location)
            return nodes.Call(named, tuple([_term(arg) for arg in args]))
        case core.Comprehension(kind, key, head, body):
            inner = body_to_nodes(body)
            if key is not None:
                return nodes.ObjectComprehension(_term(key), _term(head), inner)
            if kind == "array":
                return nodes.ArrayComprehension(_term(head), inner)
            return nodes.SetComprehension(_term(head), inner)
    raise AssertionError(term)


def _value(value: Value) -> nodes.Term:
    """Return the syntax tree of a constant (a Rego value); members of sets and pairs of objects are
    in Rego's order.
    """
    if isinstance(value, list):
        return nodes.Array(tuple([_value(item) for item in value]))
    if isinstance(value, dict):
        keys = sorted_keys(value)
        return nodes.Object(tuple([(_value(from_key(key)), _value(value[key])) for key in keys]))
    if isinstance(value, frozenset):
        return nodes.Set(tuple([_value(item) for item in sorted_values(value)]))
    return nodes.Scalar(value)  # type: ignore[arg-type]  # a number is an int or a Number


# OPA's JSON


def module_to_json(package: Path, rules: Sequence[core.Rule]) -> Json:
    """Convert a support module to JSON in the form of OPA's AST."""
    path = [_var("data"), *[term_to_json(part) for part in package[1:]]]
    return {"package": {"path": path}, "rules": [_rule_to_json(rule) for rule in rules]}


def _rule_to_json(rule: core.Rule) -> Json:
    """Convert a rule to JSON in the form of OPA's AST."""
    result: Json = {"body": body_to_json(rule.body)}
    if rule.default:
        result["default"] = True
    return {**result, "head": _head_to_json(rule)}


def _head_to_json(rule: core.Rule) -> Json:
    """Return the head of a rule as JSON in the form of OPA's AST, its reference taken behind the
    package. `name` and `key` are present only for the forms of rules for which OPA prints them,
    `args` only for functions.
    """
    first, *rest = rule.path[rule.package :]
    assert isinstance(first, core.Constant)
    is_object = rule.value is not None and rule.args is None and len(rest) == 1
    has_name = not rest or (is_object and not core.is_ground(rest[0]))
    result: Json = {}
    if has_name or is_object:
        result["name"] = first.value
    if rule.args:
        result["args"] = [term_to_json(arg) for arg in rule.args]
    if rule.key is not None:
        result["key"] = term_to_json(rule.key)
    elif is_object:
        result["key"] = term_to_json(rest[0])
    if rule.value is not None:
        result["value"] = term_to_json(rule.value)
    return {**result, "ref": [_var(str(first.value)), *map(term_to_json, rest)]}


def body_to_json(body: core.Body) -> list[Json]:
    return [_expr_to_json(expr, index) for index, expr in enumerate(body)]


def _expr_to_json(expr: core.Expr, index: int) -> Json:
    """Convert an expression to the JSON of OPA's AST. `index` is its position in the body;
    `generated`, `negated` and `with` are only there if they apply.
    """
    result: Json = {}
    if expr.generated:
        result["generated"] = True
    result["index"] = index
    if expr.negated:
        result["negated"] = True
    if expr.every is not None:
        every = expr.every
        result["terms"] = {
            "body": body_to_json(every.body),
            "domain": term_to_json(every.domain),
            "key": term_to_json(every.key),
            "value": term_to_json(every.value),
        }
    elif expr.operator is None:
        result["terms"] = term_to_json(expr.args[0])
    else:
        result["terms"] = [_operator_to_json(expr.operator), *map(term_to_json, expr.args)]
    if expr.withs:
        result["with"] = [
            {"target": term_to_json(item.target), "value": term_to_json(item.value)}
            for item in expr.withs
        ]
    return result


def _operator_to_json(operator: core.Operator) -> Json:
    """Return an operator, the path of a function or the name of a built-in split at its dots, as
    the JSON of a reference.
    """
    if not isinstance(operator, str):
        return term_to_json(operator)
    first, *rest = operator.split(".")
    parts = [_var(first), *[{"type": "string", "value": part} for part in rest]]
    return {"type": "ref", "value": parts}


def _var(name: str) -> Json:
    return {"type": "var", "value": name}


def term_to_json(term: core.Term) -> Json:
    """Return a term of the residual as JSON in the form of OPA's AST, an object with `type` and
    `value`, its parts and the bodies of comprehensions likewise. Items of sets and pairs of objects
    are in OPA's order.
    """
    match term:
        case core.Constant(value=value):
            return _value_to_json(value)
        case core.Var(name):
            return _var(name)
        case core.Ref(parts):
            return {"type": "ref", "value": [term_to_json(part) for part in parts]}
        case core.Array(items):
            return {"type": "array", "value": [term_to_json(item) for item in items]}
        case core.Set(items):
            ordered = sorted(items, key=lambda item: rank(_term(item)))
            return {"type": "set", "value": [term_to_json(item) for item in ordered]}
        case core.Object(pairs):
            members = sorted(pairs, key=lambda pair: rank(_term(pair[0])))
            return {
                "type": "object",
                "value": [[term_to_json(k), term_to_json(v)] for k, v in members],
            }
        case core.Call(operator, args):
            return {
                "type": "call",
                "value": [_operator_to_json(operator), *map(term_to_json, args)],
            }
    assert isinstance(term, core.Comprehension)
    result: Json = {"term": term_to_json(term.term), "body": body_to_json(term.body)}
    if term.key is not None:
        result = {"key": term_to_json(term.key), "value": term_to_json(term.term)}
        result["body"] = body_to_json(term.body)
    return {"type": f"{term.kind}comprehension", "value": result}


def _value_to_json(value: Any) -> Json:
    """Return a constant (a Rego value) as an object with `type` and `value`, as in OPA's AST, its
    parts likewise; members of sets and pairs of objects are in Rego's order.
    """
    if value is None:
        return {"type": "null", "value": {}}
    if isinstance(value, bool):
        return {"type": "boolean", "value": value}
    if isinstance(value, str):
        return {"type": "string", "value": value}
    if isinstance(value, list):
        return {"type": "array", "value": [_value_to_json(item) for item in value]}
    if isinstance(value, dict):
        pairs = [(from_key(key), value[key]) for key in sorted_keys(value)]
        return {
            "type": "object",
            "value": [[_value_to_json(k), _value_to_json(v)] for k, v in pairs],
        }
    if isinstance(value, frozenset):
        return {"type": "set", "value": [_value_to_json(item) for item in sorted_values(value)]}
    return {"type": "number", "value": value}
