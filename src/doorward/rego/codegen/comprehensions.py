"""Comprehensions to Python loops that fill a list, a set or a dictionary.

    counts[user] := count([e | some e in input.events; e.user == user]) if {
        some user in [e.user | some e in input.events]
    }

A comprehension in a loop that depends on one variable alone has one result for each of its values,
and a loop meets most values again and again. So its result is looked up before it is evaluated
(`runtime/comprehensions.py`), as OPA does. Nothing in it may be noticed when it is left out: it
calls nothing that may fail, print or change, and reads no rule.

A comprehension that ends with a comparison of that variable with a value that it computes does the
same work for each value of the variable, up to the comparison:

    ids := {e.id | some e in input.events; [kind(e), e.user] == group}

So it is evaluated once without the comparison, for all values: its items are collected in groups by
what is compared, and each value has its group, as in OPA.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from doorward.base.records import record
from doorward.rego.analysis.dependencies import is_seen_outside
from doorward.rego.codegen.emit.ast_nodes import call, load, method, method_of, runtime
from doorward.rego.codegen.lookups import constant_names, read
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.reading_ahead import never_fails
from doorward.rego.codegen.state import Comprehension, FunctionKind, FunctionState
from doorward.rego.codegen.terms import count_item, key, term, terms
from doorward.rego.runtime.comprehensions import Site
from doorward.rego.syntax.keywords import ROOTS
from doorward.rego.syntax.nodes import (
    And,
    Array,
    ArrayComprehension,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Object,
    ObjectComprehension,
    Or,
    Ref,
    Scalar,
    Set,
    SetComprehension,
    Term,
    Var,
)
from doorward.rego.syntax.walk import Node, children, walk

__all__ = ["comprehension", "dependency_of"]

_CLOSURES = (ArrayComprehension, SetComprehension, ObjectComprehension, Every, Not, And, Or)

_EQUATIONS = ("equal", "eq")


def comprehension(state: FunctionState, node: Comprehension) -> Operand:
    """Append to the generated code what computes a comprehension, and return the collection as an
    operand; its loops are closed again, and its variables not bound behind it. If it depends on a
    single variable, its result is looked up by the variable's value first, and stored under it.
    """
    out = state.temps.holding("collected")
    outer = state.env.outer | state.multiplicity.outer(node.body, _heads(node))
    with state.env.scope(outer), state.counters.one_value():
        grouping = _grouping_of(state, node)
        if grouping is not None:
            return _write_groups(state, grouping, out)
        dependency = dependency_of(state, node)
        if dependency is None:
            return _write_collection(state, node, out)
        value = state.code.bind_temp(state.env[dependency.name].code, holds="value")
        if dependency.path:
            value = read(state, value, dependency.path)
        site = state.constants.add(Site())
        state.code.assign(out, method("recall", site, value))
        with state.scope():
            is_new = ast.Compare(load(out), [ast.Is()], [ast.Constant(value=None)])
            state.code.test(is_new)
            result = _write_collection(state, node, out)
            state.code.run(method("remember", site, value, result.code))
            if isinstance(node, SetComprehension):
                # The members were collected in `out`; the finished set has a name of its own.
                state.code.assign(out, result.code)
        return Operand(load(out), result.kind)


def _heads(node: Comprehension) -> tuple[Term, ...]:
    return (node.key, node.value) if isinstance(node, ObjectComprehension) else (node.term,)


def _write_collection(state: FunctionState, node: Comprehension, out: str) -> Operand:
    """Append to the generated code an empty collection in the variable `out` and the loops that
    fill it, and return the finished list, set (frozen) or object as an operand.
    """
    match node:
        case ArrayComprehension():
            state.code.assign(out, ast.List(elts=[], ctx=ast.Load()))
            _collect(state, node, out)
            return Operand(load(out), "array")
        case SetComprehension():
            state.code.assign(out, call(runtime("set")))
            _collect(state, node, out)
            members = call(runtime("frozenset"), load(out))
            return Operand(state.code.bind_temp(members, holds="members"), "set")
        case ObjectComprehension():  # pragma: no branch - the last of them
            state.code.assign(out, ast.Dict(keys=[], values=[]))
            _collect(state, node, out)
            return Operand(load(out), "object")


def _collect(state: FunctionState, node: Comprehension, out: str) -> None:
    """Append to the generated code the body of a comprehension, which for each of its solutions
    adds the head's value to the collection in the variable `out`; two values for one key of an
    object are an error at run time. Items are counted if they are limited.
    """
    with state.scope():
        state.writers.body(state, node.body)
        match node:
            case ArrayComprehension(inner):
                state.code.run(method_of(load(out), "append", term(state, inner).code))
            case SetComprehension(inner):
                state.code.run(method_of(load(out), "add", key(state, term(state, inner))))
            case ObjectComprehension(name, value):  # pragma: no branch - the last of them
                pair = [operand.code for operand in terms(state, (name, value))]
                span = state.constants.add(name.span)
                state.code.run(call(runtime("collect"), load(out), *pair, span))
        count_item(state)


@record
class Grouping:
    """A comprehension whose items are collected in groups: `body` is its body without the equation
    of the variable `name` with `value`.
    """

    node: ArrayComprehension | SetComprehension
    name: str
    value: Term
    body: Body


def _write_groups(state: FunctionState, grouping: Grouping, out: str) -> Operand:
    """Write a look into the groups of the comprehension, which are collected first where they are
    not there yet, and return the group of the variable's value.
    """
    node = grouping.node
    kind = "set" if isinstance(node, SetComprehension) else "array"
    site = state.constants.add(Site())
    # In key form, so that any value has a group, unlike in `recall`: the variable occurs in the
    # equation alone, where only its equality counts.
    wanted = state.code.bind_temp(key(state, state.env[grouping.name]), holds="value")
    state.code.assign(out, method("group", site, wanted))
    with state.scope():
        state.code.test(ast.Compare(load(out), [ast.Is()], [ast.Constant(value=None)]))
        groups = state.temps.holding("groups")
        state.code.assign(groups, ast.Dict(keys=[], values=[]))
        with state.scope():
            state.writers.body(state, grouping.body)
            group = key(state, term(state, grouping.value))
            item = term(state, node.term)
            if kind == "set":
                members = method_of(load(groups), "setdefault", group, call(runtime("set")))
                state.code.run(method_of(members, "add", key(state, item)))
            else:
                empty = ast.List(elts=[], ctx=ast.Load())
                members = method_of(load(groups), "setdefault", group, empty)
                state.code.run(method_of(members, "append", item.code))
        is_set = ast.Constant(value=kind == "set")
        state.code.assign(out, method("keep_groups", site, load(groups), wanted, is_set))
    return Operand(load(out), kind)


def _grouping_of(state: FunctionState, node: Comprehension) -> Grouping | None:
    """Return how the items of a comprehension are grouped. It must be evaluated more than once and
    depend on one variable alone, used only in an equation with a value that the expressions
    before it compute; those that follow it only name parts of values.

    None for other comprehensions and for objects, whose keys may disagree; where something could be
    seen from outside; under a `with`; and in exact, traced and counting code.
    """
    plan = state.plan
    if plan.in_order or plan.limited or state.env.evaluation != "ctx":
        return None
    if not state.code.loops and state.kind is not FunctionKind.FUNCTION:
        return None  # it is evaluated once
    if isinstance(node, ObjectComprehension):
        return None
    outside = [each.name for each in walk(node) if isinstance(each, Var) and each.name in state.env]
    # A list: a variable that occurs a second time decides about more than the group.
    if len(outside) != 1 or state.env[outside[0]].is_constant or _is_seen_outside(state, node):
        return None
    (name,) = outside
    position = len(node.body) - 1
    # What only names parts behind the equation leaves out the same items of each group.
    while position > 0 and _names_a_part(node.body[position], node.body[:position]):
        position -= 1
    value = _compared_with(node.body[position], name)
    before = node.body[:position]
    if value is None or isinstance(value, Ref) or any(expr.withs for expr in node.body):
        return None  # a loop over what is stored is left to `joins`
    # With `=`, the equation could bind a variable of the value instead of comparing it.
    if not {var.name for var in _open_vars((value,))} <= {v.name for v in _open_vars(before)}:
        return None
    # Up to the equation, all items are evaluated in any case. What is behind it is evaluated now
    # for the items of other groups, too.
    if not never_fails(plan, Expr(node.term, span=node.span)):
        return None
    return Grouping(node, name, value, (*before, *node.body[position + 1 :]))


def _is_seen_outside(state: FunctionState, node: Comprehension) -> bool:
    """Return True if the comprehension calls a built-in or function of which someone could notice
    how often it runs, such as one that may print, so that it must be evaluated each time.
    """
    for each in walk(node):
        if isinstance(each, Call):
            callee = state.plan.callees.find(each)
            if callee is None:
                continue
            if callee.builtin is not None and is_seen_outside(callee.builtin):
                return True
            if callee.node is not None and state.plan.may_print(callee.node):
                return True
    return False


def _names_a_part(expr: Expr, before: Body) -> bool:
    """Return True for `x := y.a["b"]`, also with `=`, where `x` is new behind the expressions
    `before`: it may be undefined, and does nothing else.
    """
    equation = expr.term
    if expr.negated or expr.before or not isinstance(equation, Call):
        return False
    if equation.name not in ("assign", "eq") or len(equation.args) != 2:
        return False
    left, right = equation.args
    head, args = (right.head, right.args) if isinstance(right, Ref) else (right, ())
    return (
        isinstance(left, Var)
        and left not in _open_vars(before)
        and isinstance(head, Var)
        and head.name not in ROOTS
        and all(isinstance(arg, Scalar) for arg in args)
    )


def _compared_with(expr: Expr, name: str) -> Term | None:
    """Return the term that an equation compares with the variable `name`; None for other
    expressions, negated ones, and for a side that is a reference, constant or comprehension.
    """
    equation = expr.term
    if expr.negated or expr.before or not isinstance(equation, Call):
        return None
    if equation.name not in _EQUATIONS or len(equation.args) != 2:
        return None
    left, right = equation.args
    if Var(name) not in (left, right):
        return None
    value = right if left == Var(name) else left
    return value if isinstance(value, (Array, Call, Object, Set, Var)) else None


def _open_vars(nodes: Iterable[Node]) -> Iterator[Var]:
    """Yield the variables of `nodes` outside of closures, once for each occurrence, in no
    particular order. `input`, `data` and the names of functions are left out.
    """
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Var):
            if node.name not in ROOTS:
                yield node
        elif isinstance(node, Call):
            waiting += node.args
        elif not isinstance(node, _CLOSURES):
            waiting += children(node)


@record
class Dependency:
    """A variable on which a comprehension depends, by name; `path` are the names that lead to the
    only part of it that is read.
    """

    name: str
    path: tuple[str, ...]


def dependency_of(state: FunctionState, node: Comprehension) -> Dependency | None:
    """Return the variable by whose values the results of a comprehension should be cached, with the
    path below it that is read: the only variable bound outside that the comprehension reads, if it
    reads one path of it and compares it in an equation.

    None for other comprehensions, for those that are evaluated once or may fail, under a `with`,
    and in exact, traced and counting code.
    """
    plan = state.plan
    # Exact, traced and counting code evaluates everything; under `with` the cache is another one.
    if plan.in_order or plan.limited or state.env.evaluation != "ctx":
        return None
    if not state.code.loops and state.kind is not FunctionKind.FUNCTION:
        return None  # it is evaluated once
    nodes = list(walk(node))
    names = {each.name for each in nodes if isinstance(each, Var) and each.name in state.env}
    if len(names) != 1:
        return None
    (name,) = names
    if state.env[name].is_constant or not any(_compares(expr, name) for expr in node.body):
        return None
    heads = [Expr(head, span=node.span) for head in _heads(node)]
    inner = [each for each in nodes if isinstance(each, Expr)]
    path = _common_path(nodes, name)
    if path is None or not all(never_fails(plan, expr) for expr in (*heads, *inner)):
        return None
    return Dependency(name, path)


def _common_path(nodes: list[Node], name: str) -> tuple[str, ...] | None:
    """Return the constant names that follow the variable `name` wherever it occurs, such as
    `("owner", "team")` of `x.owner.team`; () if each occurrence uses it as a whole, None if the
    occurrences differ or there are none.
    """
    references = _references(nodes, name)
    paths = {tuple(constant_names(ref.args)) for ref in references}
    if nodes.count(Var(name)) != len(references):
        paths.add(())
    return paths.pop() if len(paths) == 1 else None


def _references(nodes: list[Node], name: str) -> list[Ref]:
    return [each for each in nodes if isinstance(each, Ref) and each.head == Var(name)]


def _compares(expr: Expr, name: str) -> bool:
    """Return True if `expr` is an equation (`==` or `=`) with the variable, or a reference that
    begins with it, on one side; also if negated.
    """
    equation = expr.term
    return (
        isinstance(equation, Call)
        and equation.name in _EQUATIONS
        and any(
            side == Var(name) or (isinstance(side, Ref) and side.head == Var(name))
            for side in equation.args
        )
    )
