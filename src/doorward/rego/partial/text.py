"""Residuals as Rego text that can be parsed again.

A variable that the residual names `$1` is `_1`: as a wildcard it would lose its identity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from doorward.rego.partial import core
from doorward.rego.partial.residual import plain_name, uses
from doorward.rego.partial.state import Path
from doorward.rego.values import (
    Value,
    from_key,
    operand_text,
    sorted_keys,
    sorted_values,
    to_rego,
)

__all__ = ["body_text", "module_text"]

_BRACKETS: Final = {"array": ("[", "]"), "set": ("{", "}"), "object": ("{", "}")}


def module_text(package: Path, rules: Sequence[core.Rule]) -> str:
    """Return the text of a support module: the package line, an empty line, one line for each
    rule.
    """
    return "\n".join([f"package {_path(package[1:])}", "", *map(_rule, rules), ""])


def _path(parts: Sequence[core.Term]) -> str:
    first, *rest = [part.value for part in parts if isinstance(part, core.Constant)]
    return f"{first}" + "".join(map(operand_text, rest))


def _rule(rule: core.Rule) -> str:
    """Return one branch of a rule as Rego text, on one line: its head behind the package, with
    `contains` or `:=`, and `if` with its body in braces, or `default` before it and no body. `else`
    branches are not included.
    """
    first, *rest = rule.path[rule.package :]
    assert isinstance(first, core.Constant)
    head = f"{first.value}{_operands(rest)}"
    if rule.args is not None:
        head += f"({_list(rule.args)})"
    if rule.value is None:
        assert rule.key is not None
        head += f" contains {term_text(rule.key)}"
    else:
        head += f" := {term_text(rule.value)}"
    if rule.default:
        return f"default {head}"
    return f"{head} if {{ {body_text(rule.body)} }}"


def body_text(body: core.Body) -> str:
    """Return a body as one line of Rego, the expressions separated by `; `; "" for an empty
    body.
    """
    return "; ".join(map(_expr, body))


def _expr(expr: core.Expr) -> str:
    """Return an expression as Rego text, with its `not` and `with`."""
    text = ("not " if expr.negated else "") + _bare(expr)
    for item in expr.withs:
        text += f" with {term_text(item.target)} as {term_text(item.value)}"
    return text


def _bare(expr: core.Expr) -> str:
    """Return an expression as Rego text, without its `not` and `with`. A variable of `every` that
    the body does not read is left out if it is the key, and becomes `_` if it is the value.
    """
    if expr.every is not None:
        every = expr.every
        key = f"{term_text(every.key)}, " if uses(every.key, every.body) else ""
        value, domain = term_text(every.value), term_text(every.domain)
        if not uses(every.value, every.body):
            value = "_"
        return f"every {key}{value} in {domain} {{ {body_text(every.body)} }}"
    if expr.operator is None:
        return term_text(expr.args[0])
    if expr.is_equation:
        left, right = map(term_text, expr.args)
        return f"{left} = {right}"
    return _call(expr.operator, expr.args)


def _value_text(value: Value) -> str:
    """Return a constant (a Rego value) as Rego text on one line: strings in double quotes with
    characters beyond ASCII as they are, members of objects and sets in Rego's order, the empty set
    as `set()`.
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, dict):
        pairs = [(from_key(key), value[key]) for key in sorted_keys(value)]
        return "{" + ", ".join([f"{_value_text(k)}: {_value_text(v)}" for k, v in pairs]) + "}"
    if isinstance(value, frozenset) and value:
        return f"{{{', '.join(map(_value_text, sorted_values(value)))}}}"
    return to_rego(value)


def _call(operator: core.Operator, args: Sequence[core.Term]) -> str:
    name = operator if isinstance(operator, str) else term_text(operator)
    return f"{name}({_list(args)})"


def _list(terms: Sequence[core.Term]) -> str:
    return ", ".join(map(term_text, terms))


def _operands(parts: Sequence[core.Term]) -> str:
    return "".join([_operand(part) for part in parts])


def _operand(part: core.Term) -> str:
    """Return one operand of a reference as Rego text: `.name` for a constant that can be written
    so, otherwise in brackets.
    """
    if isinstance(part, core.Constant) and isinstance(part.value, str):
        text = operand_text(part.value)
        if text.startswith("."):
            return text
    return f"[{term_text(part)}]"


def term_text(term: core.Term) -> str:
    """Return a term of the residual as Rego text that parses to it again, on one line; calls of
    operators are written as the operators, and variables under names that Rego allows.
    """
    match term:
        case core.Constant(value=value):
            return _value_text(value)
        case core.Var(name):
            return plain_name(name)
        case core.Ref(items):
            return term_text(items[0]) + _operands(items[1:])
        case core.Array(items):
            return f"[{_list(items)}]"
        case core.Set(items):
            return f"{{{_list(items)}}}"
        case core.Object(pairs):
            return "{" + ", ".join([f"{term_text(k)}: {term_text(v)}" for k, v in pairs]) + "}"
        case core.Call(operator, args):
            return _call(operator, args)
    assert isinstance(term, core.Comprehension)
    head = term_text(term.term)
    if term.key is not None:
        head = f"{term_text(term.key)}: {head}"
    opening, closing = _BRACKETS[term.kind]
    return f"{opening}{head} | {body_text(term.body)}{closing}"
