"""The check of calls: every called function exists, takes as many operands as it is given, and is
current.

A call that stands as an expression may have one operand more, the one its result is matched with;
inside another term it may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from doorward.base.records import record
from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.environment import Globals, Scope
from doorward.rego.analysis.inference import Inference
from doorward.rego.analysis.opa_diagnostics.call_errors import in_reported_order
from doorward.rego.analysis.type_errors import arguments_error, ref_text
from doorward.rego.analysis.types import UNKNOWN
from doorward.rego.builtins.registry.signature import Function, Type
from doorward.rego.errors import TYPE_ERROR, Diagnostic
from doorward.rego.source import NOWHERE, Span
from doorward.rego.syntax.nodes import (
    ArrayComprehension,
    Body,
    Call,
    Expr,
    Module,
    ObjectComprehension,
    SetComprehension,
    TemplateString,
    Term,
    Var,
    With,
    is_ground,
)
from doorward.rego.syntax.walk import Node, children, walk

__all__ = [
    "CallSite",
    "Sites",
    "all_calls",
    "called_builtins",
    "check_calls",
    "check_deprecated",
    "check_values",
    "sites_of",
]

CallSite = tuple[Call, Span, bool]
"""A call, the span at which its errors are reported, and True if it is inside another term."""


@record(guarded=False)
class Sites:
    """The calls and the `with` replacements of a module or a query, in the order of the text."""

    calls: list[CallSite]
    withs: list[With]


def all_calls(sites: Iterable[Sites]) -> Iterator[CallSite]:
    """Yield the calls of several modules, module by module, each in the order of its text."""
    return (call for each in sites for call in each.calls)


def called_builtins(calls: Iterable[CallSite]) -> frozenset[str]:
    """Return the names without a dot that `calls` call. The names must be resolved, so that these
    are built-ins; built-ins with a dot in their names are left out.
    """
    operators = (call.operator for call, _, _ in calls)
    heads = (operator.head for operator in operators if not operator.args)
    return frozenset(head.name for head in heads if isinstance(head, Var))


def sites_of(top: Module | Body) -> Sites:
    """Return every call and every `with` in a module or query, each in the order of the text. A
    call comes with the span that errors name, which is that of its expression for a call that is
    one and NOWHERE in a template string, and with True if its value is needed, False if it stands
    as an expression.
    """
    calls: list[CallSite] = []
    withs: list[With] = []
    first: tuple[Node, ...] = top if isinstance(top, tuple) else (top,)
    waiting: list[tuple[Node, Span | None]] = [(node, None) for node in reversed(first)]
    while waiting:
        node, span = waiting.pop()
        below: Iterable[Node] = children(node)
        if isinstance(node, Expr) and isinstance(node.term, Call) and span is None:
            calls.append((node.term, node.span, False))
            # Without the first child: that is the term, which would be listed again as a value.
            below = chain(children(node.term), islice(below, 1, None))
        elif isinstance(node, Call):
            calls.append((node, node.span if span is None else span, True))
        elif isinstance(node, With):
            withs.append(node)
        # OPA has no position for the operands of a template string.
        if isinstance(node, TemplateString):
            span = NOWHERE
        elif not isinstance(node, Expr):
            span = None
        rest = [(each, span) for each in below if type(each) is not Var and not is_ground(each)]
        # Reversed, because the stack is popped from its end.
        waiting += reversed(rest)
    return Sites(calls, withs)


def check_values(calls: Iterable[CallSite], callees: Callees) -> list[Diagnostic]:
    """Return an error for each call of a built-in without a result that is used as a value, such as
    `x := print(1)`.
    """
    errors = []
    for call, span, is_value in calls:
        callee = callees.find(call) if is_value else None
        declared = callee.builtin if callee is not None else None
        if declared is not None and declared.signature.result is None:
            errors.append(Diagnostic(TYPE_ERROR, f"{call.span.text} used as value", span))
    return errors


def check_calls(
    calls: Iterable[CallSite], callees: Callees, tops: Sequence[Module | Body]
) -> list[Diagnostic]:
    """Return an error for each call of an unknown function or with a wrong number of operands, in
    OPA's order. `tops` are the modules or queries that contain the calls.
    """
    wrong = {
        id(call): errors
        for call, span, is_value in calls
        if (errors := list(_check(call, span, callees, is_value=is_value)))
    }
    if not wrong:
        return []
    # Whatever the order leaves out, what is wrong never becomes nothing.
    return in_reported_order(tops, wrong) or [*chain.from_iterable(wrong.values())]


def _check(call: Call, span: Span, callees: Callees, *, is_value: bool) -> Iterator[Diagnostic]:
    """Yield the error of one call, if it has one: the function is unknown, or the number of
    operands is wrong. A call that is an expression may have one operand more, for its result. With
    `is_value`, inside a term, nothing for `eq` and for a policy's function called without operands:
    the check of safety reports these.
    """
    callee = callees.find(call)
    argument_count = len(call.args)
    if callee is not None and callee.arity in (None, argument_count):
        return
    name = ref_text(call.operator)
    if callee is None:
        hint = _similar(name, callees)
        yield Diagnostic(TYPE_ERROR, f"undefined function {name}", span, hint=hint)
        return
    if is_value and name == "eq":
        return  # OPA appends the result and finds the equation unsafe, if it has three sides
    arity = callee.arity
    assert arity is not None  # any number of operands is right above
    if argument_count == arity + 1 and not is_value:
        return
    if callee.builtin is not None:
        signature = Globals(callees.registry).builtin(callee.builtin.name)
        assert signature is not None  # that of a built-in which is there
        yield _builtin_arity(call, name, signature, span, callees, is_value=is_value)
    elif argument_count or not is_value:
        counted = f"{argument_count} argument{'' if argument_count == 1 else 's'}"
        yield Diagnostic(TYPE_ERROR, f"function {name} has arity {arity}, got {counted}", span)


def _similar(name: str, callees: Callees) -> str | None:
    """Return the hint "did you mean …?" with the most similar name: of a function of the policies
    for a name below `data`, otherwise of a built-in that is not deprecated. None if no name is
    similar.
    """
    from difflib import get_close_matches  # only policies with errors pay for it

    known = [builtin.name for builtin in callees.registry if not builtin.deprecated]
    if name.startswith("data."):
        known = [node.name for node in callees.root.walk() if node.is_function]
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"did you mean `{close[0]}`?" if close else None


def _builtin_arity(
    call: Call, name: str, signature: Function, span: Span, callees: Callees, *, is_value: bool
) -> Diagnostic:
    """Return the error for a built-in called with a wrong number of operands, with their types.
    With `is_value`, inside a term, the result counts as an operand of unknown type, as in OPA.
    """
    have = [_type(arg, callees) for arg in call.args]
    if is_value:
        have.append(UNKNOWN)
    return arguments_error(name, "arity mismatch", have, signature.args, span).diagnostic


def _type(term: Term, callees: Callees) -> Type:
    """Return the type of a term by itself; variables and rules are unknown at this stage, and so is
    a term with a comprehension.
    """
    if any(isinstance(node, _COMPREHENSIONS) for node in walk(term)):
        return UNKNOWN
    known = Globals(callees.registry)
    return Inference(known).type(term, Scope(known))


_COMPREHENSIONS = (ArrayComprehension, SetComprehension, ObjectComprehension)


def check_deprecated(calls: Iterable[CallSite], callees: Callees) -> list[Diagnostic]:
    """Return an error for each call of a built-in that the registry calls deprecated, which Rego v1
    removed, with what it says as the hint.
    """
    errors = []
    for call, span, _ in calls:
        callee = callees.find(call)
        if callee is not None and callee.builtin is not None and callee.builtin.deprecated:
            message = f"deprecated built-in function calls in expression: {call.name}"
            errors.append(Diagnostic(TYPE_ERROR, message, span, hint=callee.builtin.deprecated))
    return errors
