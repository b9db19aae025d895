"""Parts of v0 that v1 does not have, which `opa fmt --v0-v1` refuses to write."""

from __future__ import annotations

from collections.abc import Container, Iterator

from doorward.rego.errors import (
    COMPILE_ERROR,
    PARSE_ERROR,
    TYPE_ERROR,
    CompileError,
    Diagnostic,
)
from doorward.rego.source import Span
from doorward.rego.syntax.keywords import KEYWORDS, ROOTS, V1_KEYWORDS
from doorward.rego.syntax.nodes import Call, Expr, Module, Ref, Rule, Scalar, Term, Var
from doorward.rego.syntax.walk import walk

__all__ = ["check_is_v1"]


def check_is_v1(module: Module, removed: Container[str]) -> None:
    """Raise CompileError with all that v1 forbids and no new spelling can repair: imports with the
    same name, rules, parameters and variables named `input` or `data`, calls of built-ins in
    `removed`, and rules named like a keyword.
    """
    shadowing = list(_imports(module))
    deprecated: list[Diagnostic] = []
    keywords: list[Diagnostic] = []
    for rule in module.rules:
        shadowing += _shadowing_heads(rule)
        for node in walk(rule):
            if isinstance(node, Expr):
                shadowing += _shadowing_assignments(node)
            elif isinstance(node, Call) and node.name in removed:
                deprecated.append(_deprecated(node))
        keywords += _keywords(rule)
    errors = [*shadowing, *deprecated, *keywords]
    if errors:
        raise CompileError(errors)


def _imports(module: Module) -> Iterator[Diagnostic]:
    """Yield an error for each import whose name (its alias, or the last part of its path) an
    earlier one has.
    """
    seen: dict[str, str] = {}
    for item in module.imports:
        ref = item.path if isinstance(item.path, Ref) else Ref(item.path, ())
        last = ref.args[-1] if ref.args else ref.head
        name = item.alias or _name(last)
        if name in seen:
            yield _error(f"import must not shadow {seen[name]}", item.span)
        else:
            seen[name] = item.span.text


def _name(term: Term) -> str:
    """Return the name of a variable or constant as text; "" for other terms."""
    return (
        term.name if isinstance(term, Var) else str(term.value) if isinstance(term, Scalar) else ""
    )


def _shadowing_heads(rule: Rule) -> Iterator[Diagnostic]:
    """Yield an error if the rule is named `input` or `data`, and one for each parameter that has
    such a variable. Parameters of `else` branches are those of the rule.
    """
    name = _name(rule.head.ref.head)
    if name in ROOTS:
        yield _error(f"rules must not shadow {name} (use a different rule name)", rule.span)
    for arg in rule.head.args or ():
        for node in walk(arg):
            if isinstance(node, Var) and node.name in ROOTS:
                message = f"args must not shadow {node.name} (use a different variable name)"
                yield _error(message, arg.span)


def _shadowing_assignments(expr: Expr) -> Iterator[Diagnostic]:
    """Yield an error if an expression assigns a variable named `input` or `data` by `:=`."""
    target = _assigned_name(expr)
    if target in ROOTS:
        message = f"variables must not shadow {target} (use a different variable name)"
        yield _error(message, expr.span)


def _assigned_name(expr: Expr) -> str:
    """Return the name of the variable that an expression assigns with `:=`; "" for other
    expressions and for patterns.
    """
    call = expr.term
    if isinstance(call, Call) and call.infix and call.name == "assign":
        return _name(call.args[0])
    return ""


def _deprecated(call: Call) -> Diagnostic:
    message = f"deprecated built-in function calls in expression: {call.name}"
    return Diagnostic(TYPE_ERROR, message, call.span)


def _keywords(rule: Rule) -> Iterator[Diagnostic]:
    """Yield an error if the rule's name is a keyword of v1."""
    name = _name(rule.head.ref.head)
    if not rule.head.ref.args and name in KEYWORDS | V1_KEYWORDS:
        yield Diagnostic(PARSE_ERROR, f"{name} keyword cannot be used for rule name", rule.span)


def _error(message: str, span: Span) -> Diagnostic:
    return Diagnostic(COMPILE_ERROR, message, span)
