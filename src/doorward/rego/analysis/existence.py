"""Whether every called function exists and takes as many operands as it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doorward.rego.analysis.calls import Callees
from doorward.rego.analysis.scope import source_name
from doorward.rego.errors import TYPE_ERROR, Diagnostic
from doorward.rego.syntax.nodes import Body, Call, Module
from doorward.rego.syntax.walk import walk

__all__ = ["check_calls"]


def check_calls(tops: Sequence[Module | Body], callees: Callees) -> list[Diagnostic]:
    """What is wrong with the calls of modules, or of the body of a query."""
    found: list[Diagnostic] = []
    for top in tops:
        for part in top if isinstance(top, tuple) else (top,):
            for node in walk(part):
                if isinstance(node, Call):
                    found += _check(node, callees)
    return found


def _check(call: Call, callees: Callees) -> Iterator[Diagnostic]:
    callee = callees.find(call)
    name = ".".join(source_name(part) for part in call.name.split("."))
    if callee is None:
        yield Diagnostic(TYPE_ERROR, f"undefined function {name}", call.span)
        return
    arity = callee.arity
    given = len(call.args)
    if arity is None or given in (arity, arity + 1):
        return
    if callee.builtin is not None:
        yield Diagnostic(TYPE_ERROR, f"{name}: arity mismatch", call.span)
    else:
        counted = f"{given} argument{'' if given == 1 else 's'}"
        yield Diagnostic(TYPE_ERROR, f"function {name} has arity {arity}, got {counted}", call.span)
