"""Targets that a `with` may replace: `input`, data that is not a rule's inside, functions,
built-ins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from doorward.rego.analysis.bindings import as_call
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.environment import constant, is_constant
from doorward.rego.analysis.tree import RuleNode
from doorward.rego.analysis.type_errors import ref_text
from doorward.rego.builtins.registry import Builtin
from doorward.rego.errors import COMPILE_ERROR, TYPE_ERROR, Diagnostic
from doorward.rego.syntax.nodes import Ref, Term, Var, With

__all__ = ["check_arities", "check_replacements"]

_FIXED = frozenset({"eq", "rego.metadata.chain", "rego.metadata.rule"})


def check_replacements(withs: Iterable[With], callees: Callees) -> list[Diagnostic]:
    """Return the errors in the targets of `with`."""
    return [problem for item in withs if (problem := _check(item, callees)) is not None]


def _check(item: With, callees: Callees) -> Diagnostic | None:
    """Return the error if the target of a `with` cannot be replaced: it lies inside a rule's
    document, is neither a document nor a function, or is a built-in that OPA does not replace. None
    if it can be.
    """
    target = item.target
    head = target.head if isinstance(target, Ref) else target
    if isinstance(head, Var) and head.name == "input":
        return None
    if isinstance(head, Var) and head.name == "data":
        path = target.args if isinstance(target, Ref) else ()
        if _passes_a_rule(callees.root, path[:-1]):
            message = "with keyword cannot partially replace virtual document(s)"
            return Diagnostic(COMPILE_ERROR, message, target.span)
        return None
    call = as_call(target)
    callee = callees.find(call) if call is not None else None
    if callee is None or callee.builtin is None:
        message = "with keyword target must reference existing input, data, or a function"
        return Diagnostic(TYPE_ERROR, message, target.span)
    reason = _irreplaceable(callee.builtin)
    if reason is None:
        return None
    message = f"with keyword replacing built-in function: {reason}"
    return Diagnostic(COMPILE_ERROR, message, target.span)


def check_arities(withs: Iterable[With], callees: Callees) -> list[Diagnostic]:
    """Return an error for each `with` that replaces a function by one with another number of
    operands. The check of types reports most of these, with the types; OPA's, like this one, does
    not look into the bodies of `every` and `not { … }`, where OPA goes on with either function.
    """
    errors = []
    for item in withs:
        target, value = as_call(item.target), as_call(item.value)
        if target is None or value is None:
            continue
        have, want = callees.arity(value), callees.arity(target)
        if have is not None and want is not None and have != want:
            names = ref_text(value.operator), ref_text(target.operator)
            message = f"{names[1]} has arity {want}, and {names[0]}, which replaces it, {have}"
            errors.append(Diagnostic(TYPE_ERROR, message, item.span))
    return errors


def _passes_a_rule(node: RuleNode, path: Sequence[Term]) -> bool:
    """Return True if a rule of the tree `node` is at the path or above it; the path counts up to
    its first operand that is not constant.
    """
    for operand in path:
        child = node.children.get(constant(operand)) if is_constant(operand) else None
        if child is None:
            return False
        if child.definitions:
            return True
        node = child
    return False


def _irreplaceable(builtin: Builtin) -> str | None:
    """Return the reason why `with` cannot replace a built-in, in OPA's words; None if it can."""
    name = builtin.name
    if name in _FIXED:
        return f'replacement of "{name}" invalid'
    if name.startswith("internal."):
        return f'replacement of internal function "{name}" invalid'
    if builtin.relation:
        return "target must not be a relation"
    if builtin.signature.result is None:
        return "target must not be a void function"
    return None
