"""Lookups in a value to Python: paths of names, operands, and loops over what is open.

Which documents and rules there are is not known here; `references` follows those.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from doorward.rego.codegen.emit.ast_nodes import (
    all_of,
    attribute,
    call,
    except_clause,
    load,
    method,
    method_of,
    runtime,
    store,
    subscript,
)
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.patterns import is_class, is_open, loop_target, match_target
from doorward.rego.codegen.state import FunctionKind, FunctionState
from doorward.rego.codegen.terms import term
from doorward.rego.runtime.operations import values
from doorward.rego.syntax.nodes import Scalar, Term, Var

__all__ = [
    "constant_names",
    "lookup_in",
    "lookup_item",
    "lookup_names",
    "lookup_path",
    "loop_over",
    "read",
    "share",
]

SHORT: Final = 8
"""A loop over a list of at most this many items is not counted."""

MAX_STEPS: Final = 16
"""The most names of a path that are looked up in one Python expression, which nests as deep."""

MAX_UNCOUNTED: Final = 16
"""Among this many loops in a function, at least one counts its rounds."""


def lookup_path(
    state: FunctionState, base: Operand, operands: Sequence[Term], lookup: str = "lookup"
) -> Operand:
    """Write the code of `base[a][b]…`, with tests that each step is defined, and return the value.
    Constant names in sequence are one step. For an open operand a loop is written, and code that is
    written afterwards runs in it. `lookup` names the runtime function for a step: `lookup_data` in
    `data`, otherwise `lookup`.
    """
    n = 0
    while n < len(operands):
        run = constant_names(operands[n:])
        if run:
            base = lookup_names(state, base, run, lookup)
            n += len(run)
        else:
            base = lookup_item(state, base, operands[n], lookup)
            n += 1
    return base


def lookup_in(document: str) -> str:
    """Return the name of the runtime function that looks up a key in a document: `lookup_data` for
    "data", otherwise `lookup`.
    """
    return "lookup_data" if document == "data" else "lookup"


def lookup_names(
    state: FunctionState, base: Operand, names: Sequence[str], lookup: str = "lookup"
) -> Operand:
    """Write `base[name]…` with a test that it is defined, and return the value. Objects on the way
    that were read before are not read again. `lookup` names the runtime function for a step:
    `lookup_data` in `data`, otherwise `lookup`.
    """
    code = state.code.bind_temp(base.code)
    key = (state.temps.original(code.id), *names)
    known = state.reads.recall(key)
    if known is None:
        known = read(state, code, names, lookup)
        state.reads.remember(key, known)
    return Operand(known, is_tree=base.is_tree)


def read(
    state: FunctionState, base: ast.Name, names: Sequence[str], lookup: str = "lookup"
) -> ast.Name:
    """Write `base[name]…` without a test; return the variable, whose value may be UNDEFINED.
    `lookup` names the runtime function for a step where Python's own lookup does not do:
    `lookup_data` in `data`, otherwise `lookup`.
    """
    base, names = state.reads.nearest(base, names)
    getter = state.reads.getter(base)
    if getter is not None and len(names) == 1:
        member = call(load(getter), ast.Constant(value=names[0]), runtime("UNDEFINED"))
        return state.code.bind_temp(member, holds=names[0])
    slow = call(runtime(f"{lookup}_path"), base, state.constants.path(names))
    if len(names) > MAX_STEPS:
        return state.code.bind_temp(slow, holds=names[-1])
    temp = state.temps.holding(names[-1])
    handlers = [except_clause(runtime("LOOKUP_ERRORS"), temp, slow)]
    code: ast.expr = base
    if state.reads.is_of_data(base):
        # What a policy reads of its own data is there.
        state.reads.mark_data(temp)
        # In front of the others, which contain KeyError: of subscripts it says that all values on
        # the way were objects, so that nothing has to be looked up in another way.
        handlers.insert(0, except_clause(runtime("KeyError"), temp, runtime("UNDEFINED")))
        for name in names:
            code = subscript(code, name)
    else:
        # What may well be missing must not cost an exception: of the input the end of a path,
        # of an item that a loop came to anything.
        for name in names[:-1]:
            is_input = base.id == "input"
            code = subscript(code, name) if is_input else _get(code, name, runtime("NOTHING"))
        code = _get(code, names[-1], runtime("UNDEFINED"))
    state.code.attempt(temp, code, *handlers)
    return load(temp)


def lookup_item(
    state: FunctionState, base: Operand, operand: Term, lookup: str = "lookup"
) -> Operand:
    """Write `base[operand]` with a test that it is defined, and return it. For an open operand,
    write a loop that binds it to each key; code written after this runs in it. `lookup` names the
    runtime function for the step: `lookup_data` in `data`, otherwise `lookup`.
    """
    if is_open(state, operand):
        return _loop(state, base, operand)
    key = term(state, operand)
    value = _look_up(base, key, call(runtime(lookup), base.code, key.code))
    temp = state.code.bind_temp(value, holds="item")
    if state.reads.is_of_data(base.code):
        state.reads.mark_data(temp.id)
    state.code.test_defined(temp)
    return Operand(temp, base.of, is_tree=base.is_tree)


def _loop(state: FunctionState, base: Operand, operand: Term) -> Operand:
    """Append to the generated code a loop over the value of `base` in which the open `operand` is
    bound to each key, or matched with it; return the operand for the values. Code written next is
    in the loop. A value that is not a collection gives no round.
    """
    value = state.temps.holding("item")
    if isinstance(operand, Var) and operand.is_wildcard:
        loop_over(state, store(value), base)
        return Operand(load(value), base.of, is_tree=base.is_tree)
    key = loop_target(state, operand)
    target = ast.Tuple(elts=[key, store(value)], ctx=ast.Store())
    if state.reads.is_of_data(base.code):
        state.reads.mark_data(value)
    state.loop(target, state.walk(base.code, with_keys=True))
    match_target(state, operand, key)
    return Operand(load(value), is_tree=base.is_tree)


def loop_over(state: FunctionState, target: ast.Name, collection: Operand) -> None:
    """Write a loop over the values of `collection` that binds each to `target`. The values of a
    constant collection are sorted now and not at run time. A short loop leaves the deadline check
    to the loops around and before it.
    """
    if collection.is_constant:
        # In Rego's order, so that no evaluation sorts it again.
        ordered = list(values(collection.value))
        items = state.constants.add(ordered)
        # A short one is like so many lines of the policy.
        short = not state.counters.uncounted and len(ordered) <= SHORT
        state.loop(target, items if short else method("checked_items", items), counted=not short)
        return
    uncounted = _may_go_uncounted(state)
    name = state.code.bind_temp(collection.code)
    if state.reads.is_of_data(name):
        state.reads.mark_data(target.id)
    iterable = state.walk(name)
    if uncounted:
        size = ast.Compare(
            left=call(runtime("len"), name),
            ops=[ast.LtE()],
            comparators=[ast.Constant(value=SHORT)],
        )
        short_list = ast.BoolOp(op=ast.And(), values=[is_class(name, "list"), size])
        iterable = ast.IfExp(test=short_list, body=name, orelse=iterable)
    state.loop(target, iterable, counted=not uncounted)


def _may_go_uncounted(state: FunctionState) -> bool:
    """Return True if the next loop may iterate a short list without counting its rounds. Inside a
    counted loop, one such loop is allowed; with no counted loop around, two nested ones in a rule,
    which runs once, and none in other functions. The calls for allowed loops are counted, and every
    `MAX_UNCOUNTED`-th returns False.
    """
    allowed = 1
    if state.code.loops == state.counters.uncounted:
        allowed = 2 if state.kind is FunctionKind.RULE else 0
    if state.counters.uncounted >= allowed:
        return False
    return state.counters.number_uncounted_loop() % MAX_UNCOUNTED != 0


def share(state: FunctionState, document: str, names: Sequence[str]) -> None:
    """Write a read of an object of which several members will be read, and bind a function that
    reads one of its members. Later reads of members use that function; a missing object is
    UNDEFINED, and so are its members.
    """
    base = state.of_evaluation(document)
    assert isinstance(base, ast.Name)
    temp = read(state, base, names, lookup_in(document))
    getter = state.temps.holding(f"{names[-1]}_get" if names else "get")
    getter_of_value, other = attribute(temp, "get"), call(runtime("getter"), temp)
    state.code.assign(
        getter, ast.IfExp(test=is_class(temp, "dict"), body=getter_of_value, orelse=other)
    )
    state.reads.share((base.id, *names), temp, getter)


def _get(value: ast.expr, name: str, default: ast.expr) -> ast.expr:
    return method_of(value, "get", ast.Constant(value=name), default)


def _look_up(base: Operand, key: Operand, general: ast.expr) -> ast.expr:
    """Return code for `base[key]`, or UNDEFINED if there is no such key: Python's own lookup behind
    a test of classes, where what is known of the operands allows it, otherwise `general`, code that
    is right for all values. `base` and `key` are evaluated several times in it only if they are
    names or constants.
    """
    if not isinstance(base.code, ast.Name):
        return general
    if key.is_constant:
        # A negative index counts from the end in Python, and is undefined in Rego.
        if type(key.value) is not int or key.value < 0:
            return general
        there = ast.Compare(
            left=call(runtime("len"), base.code), ops=[ast.Gt()], comparators=[key.code]
        )
        item = ast.Subscript(value=base.code, slice=key.code, ctx=ast.Load())
        if base.kind == "array":
            return ast.IfExp(test=there, body=item, orelse=runtime("UNDEFINED"))
        fits = ast.BoolOp(op=ast.And(), values=[is_class(base.code, "list"), there])
        return ast.IfExp(test=fits, body=item, orelse=general)
    if not isinstance(key.code, ast.Name) or key.kind not in ("", "string"):
        return general
    tests = [is_class(base.code, "dict")] if base.kind != "object" else []
    tests += [is_class(key.code, "str")] if key.kind != "string" else []
    member = method_of(base.code, "get", key.code, runtime("UNDEFINED"))
    return ast.IfExp(test=all_of(tests), body=member, orelse=general) if tests else member


def constant_names(operands: Sequence[Term]) -> list[str]:
    """Return the strings at the start of `operands`, up to the first that is not a constant string;
    [] if there are none.
    """
    names: list[str] = []
    for operand in operands:
        if not (isinstance(operand, Scalar) and isinstance(operand.value, str)):
            break
        names.append(operand.value)
    return names
