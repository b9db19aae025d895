"""Taking values apart: what `=` and `:=`, parameters and operands of loops bind and test."""

from __future__ import annotations

import ast

from doorward.base.records import replace
from doorward.rego.analysis.bindings import in_key_order
from doorward.rego.analysis.multiplicity import is_open as _is_open
from doorward.rego.analysis.negation import is_generated
from doorward.rego.codegen.emit.ast_nodes import (
    call,
    load,
    method_of,
    name_of,
    runtime,
    store,
    subscript,
)
from doorward.rego.codegen.operand import NOT_CONSTANT, Operand, constant_value
from doorward.rego.codegen.state import FunctionState
from doorward.rego.codegen.terms import constant, is_known, key, term, without_value
from doorward.rego.syntax.nodes import Array, Object, Term, Var
from doorward.rego.values import equal, to_key

__all__ = ["equality", "is_class", "is_open", "loop_target", "match", "match_target"]


def is_open(state: FunctionState, operand: Term) -> bool:
    """Return True if `operand` has variables that a loop must bind."""
    return _is_open(operand, state.env.names())


def match(state: FunctionState, pattern: Term, value: Operand) -> None:
    """Append to the generated code a match of `pattern` with `value`, which binds its unbound
    variables (wildcards are not bound). Code written after this runs only if it matches. A known
    pattern is compared as a whole; an object with unbound keys never matches.
    """
    match pattern:
        case Var(name) if is_open(state, pattern):
            if not pattern.is_wildcard:
                _bind(state, name, value)
            return
        case Array(items) if not is_known(state, pattern):
            _match_array(state, items, value)
            return
        case Object(pairs) if not is_known(state, pattern):
            if not all([is_known(state, name) for name, _ in pairs]):
                without_value(state, pattern)
                return
            _match_object(state, pairs, value)
            return
    state.code.test(equality(term(state, pattern), value))


def loop_target(state: FunctionState, pattern: Term, kind: str = "") -> ast.Name:
    """Return the name that a loop assigns: that of the variable if `pattern` is a new variable,
    which is then bound; otherwise a temporary, to be matched by `match_target`. `kind`: the kind of
    all values.
    """
    if isinstance(pattern, Var) and not pattern.is_wildcard and is_open(state, pattern):
        name = state.temps.fresh(pattern.name.partition("@")[0])
        state.env.bind(pattern.name, Operand(load(name), kind))
        return store(name)
    return store(state.temps.holding("item"))


def match_target(state: FunctionState, pattern: Term, target: ast.Name) -> None:
    """Write a match of `pattern` with the loop variable `target`; nothing if `loop_target` returned
    the pattern's own variable.
    """
    bound = state.env.get(pattern.name) if isinstance(pattern, Var) else None
    if bound is None or name_of(bound.code) != target.id:
        match(state, pattern, Operand(load(target.id)))


def _bind(state: FunctionState, name: str, value: Operand) -> None:
    """Bind a variable to a value in `state.env`. A literal is used as it is; for other values an
    assignment to a local variable is appended to the generated code. Outside of loops the variable
    is recorded in `state.stored`.
    """
    if not state.code.loops:
        state.stored.add(name)
    if value.is_constant and isinstance(value.code, ast.Constant):
        state.env.bind(name, value)
        return
    wish = "" if is_generated(name) else name.partition("@")[0]
    temp = state.code.bind_temp(value.code, wish)
    state.env.bind(name, replace(value, code=temp))


def _match_array(state: FunctionState, items: tuple[Term, ...], value: Operand) -> None:
    """Append to the generated code a match of `value` with an array pattern: tests of its class
    (unless that is known) and length, then each item is matched in order.
    """
    temp = state.code.bind_temp(value.code)
    state.code.test(_shape(temp, "" if value.kind == "array" else "list", len(items)))
    parts = [Operand(subscript(temp, n), value.of) for n in range(len(items))]
    # In order, since an item may use a variable that one before it binds, as in `[x, x] = y`.
    for item, part in zip(items, parts, strict=True):
        match(state, item, part)


def _match_object(
    state: FunctionState, pairs: tuple[tuple[Term, Term], ...], value: Operand
) -> None:
    """Append to the generated code a match of `value` with an object pattern: tests of its class
    and number of keys, then for each key in order the value under it, which must be there, is
    matched. Keys must be constant or known.
    """
    temp = state.code.bind_temp(value.code)
    state.code.test(_shape(temp, "dict", len({_key_text(k) for k, _ in pairs})))
    for name, pattern in in_key_order(pairs):
        constant_name = constant_value(name)
        if constant_name is NOT_CONSTANT:
            code = key(state, term(state, name))
        else:
            code = key(state, constant(state, constant_name))
        member = method_of(temp, "get", code, runtime("UNDEFINED"))
        part = state.code.bind_temp(
            member, holds=constant_name if isinstance(constant_name, str) else ""
        )
        state.code.test_defined(part)
        match(state, pattern, Operand(part))


def equality(a: Operand, b: Operand) -> ast.expr:
    """Return code (an AST expression) that tests if two values are equal as Rego defines it: with
    Python's `==` or `is` where what is known of the operands says that these give the same answer,
    otherwise with the runtime's `equal`; of two constants, the answer itself. Code of an operand
    that is a plain name may occur in it several times.
    """
    if a.is_constant and b.is_constant:
        return ast.Constant(value=equal(a.value, b.value))
    if a.is_constant:
        a, b = b, a
    if b.is_constant and (b.value is None or b.value is True or b.value is False):
        return ast.Compare(left=a.code, ops=[ast.Is()], comparators=[b.code])
    plain = ast.Compare(left=a.code, ops=[ast.Eq()], comparators=[b.code])
    if "string" in (a.kind, b.kind) or (a.kind == "number" and b.kind == "number"):
        return plain
    if a.is_plain or b.is_plain or (type(b.value) is int and b.value not in (0, 1)):
        return plain
    general = call(runtime("equal"), a.code, b.code)
    if isinstance(a.code, ast.Name) and isinstance(b.code, ast.Name):
        if not (a.is_tree or b.is_tree):
            # Python goes through collections without checking the clock.
            return ast.IfExp(test=is_class(a.code, "str"), body=plain, orelse=general)
        # Values that differ for Python differ for Rego; those that do not are compared again,
        # since `1 == True`.
        exact = ast.BoolOp(op=ast.Or(), values=[is_class(a.code, "str"), general])
        return ast.BoolOp(op=ast.And(), values=[plain, exact])
    return general


def is_class(value: ast.expr, name: str) -> ast.Compare:
    """Return code that tests if the Python class of `value` is `name`; the class tells a value's
    kind in Rego.
    """
    return ast.Compare(
        left=call(runtime("type"), value), ops=[ast.Is()], comparators=[runtime(name)]
    )


def _shape(value: ast.Name, kind: str, size: int) -> ast.expr:
    """Return code that tests if a collection has `size` items, and before that if its Python class
    is `kind`, unless that is "".
    """
    fits = ast.Compare(
        left=call(runtime("len"), value),
        ops=[ast.Eq()],
        comparators=[ast.Constant(value=size)],
    )
    return ast.BoolOp(op=ast.And(), values=[is_class(value, kind), fits]) if kind else fits


def _key_text(key: Term) -> object:
    """Return what tells the key of an object's pattern from others: its value if it is constant,
    otherwise its identity.
    """
    constant = constant_value(key)
    return id(key) if constant is NOT_CONSTANT else to_key(constant)
