"""Bodies to Python: what must hold, what is bound, what is replaced meanwhile."""

from __future__ import annotations

import ast

from doorward.rego.analysis.bindings import as_call, names_function
from doorward.rego.analysis.calls import replaced_function
from doorward.rego.analysis.multiplicity import is_folder, ready_equations
from doorward.rego.codegen.calls import call_into, condition, has_output, predicate
from doorward.rego.codegen.emit.ast_nodes import (
    call,
    load,
    method,
    method_of,
    negation,
    runtime,
    store,
)
from doorward.rego.codegen.joins import join_of
from doorward.rego.codegen.lookups import lookup_item, loop_over
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.patterns import is_open, loop_target, match, match_target
from doorward.rego.codegen.reading_ahead import BodyReads
from doorward.rego.codegen.references import members_of_rules
from doorward.rego.codegen.state import FunctionState
from doorward.rego.codegen.terms import is_known, term
from doorward.rego.runtime.mocks import BuiltinMock
from doorward.rego.syntax.nodes import (
    And,
    Body,
    Call,
    Every,
    Expr,
    Not,
    Or,
    Ref,
    Rule,
    SomeDecl,
    SomeIn,
    Term,
    Var,
    With,
)
from doorward.rego.syntax.walk import walk
from doorward.rego.values import Key, to_key

__all__ = ["body", "expression", "expression_value", "trace"]


def body(state: FunctionState, body: Body) -> None:
    """Write code for `body`. Code written after this runs once for each solution, inside the loops
    and tests.
    """
    ahead = BodyReads(state, body)
    for n, expr in enumerate(body):
        ahead.before(n)
        trace(state, expr)
        state.join = join_of(state, body, n)
        expression(state, expr)
        state.join = None
        trace(state, expr, holds=True)


def trace(state: FunctionState, node: Rule | Expr, *, holds: bool = False) -> None:
    """Write a report to the tracer that `node` is about to be evaluated or, if `holds`, that it
    holds, with the variables bound so far. Nothing is written unless the plan is traced.
    """
    if not state.plan.traced:
        return
    used = dict.fromkeys(v.name for v in walk(node) if isinstance(v, Var))
    known = {name: state.env[name].code for name in used if name in state.env}
    bound = ast.Dict(keys=[ast.Constant(value=n) for n in known], values=[*known.values()])
    with state.code.at(node.span):
        args = state.constants.add(node), ast.Constant(value=holds), bound
        state.code.run(method_of(load(state.env.evaluation), "trace", *args))


def expression(state: FunctionState, expr: Expr) -> None:
    """Write code for `expr`, under its `with`. Code written after this runs once for each
    solution.
    """
    with state.code.at(expr.span), state.env.same_evaluation():
        # A replacement that is undefined makes a negated expression undefined too, not true.
        if expr.withs:
            _replace(state, expr)
        if expr.negated:
            _not(state, expr)
        else:
            _holds(state, expr.term)


def expression_value(state: FunctionState, expr: Expr) -> Operand:
    """Write code for the value of an expression that is a term, after the steps before it and under
    its `with` modifiers; return the operand.
    """
    assert not isinstance(expr.term, (SomeDecl, SomeIn, Every, Not, And, Or))
    with state.env.same_evaluation():
        for step in expr.before:
            expression(state, step)
        if expr.withs:
            _replace(state, expr)
        return term(state, expr.term)


def _holds(state: FunctionState, node: Term | SomeDecl | SomeIn | Every | Not | And | Or) -> None:
    """Append to the generated code what holds only where the term of an expression does; the code
    written after it runs once for each solution, with the term's variables bound. `print` is
    written only if its output is received.
    """
    match node:
        case SomeDecl():
            return
        case SomeIn():
            _some_in(state, node)
        case Every():
            _every(state, node)
        case Not():
            state.code.test(negation(_test(state, node.body)))
        case And():
            for side in (node.left, node.right):
                state.code.test(_test(state, side))
        case Or():
            _either(state, node)
        case Call(_, (left, right)) if node.name in ("eq", "assign"):
            _equation(state, left, right)
        case Call() if node.name in ("print", "internal.print"):
            _print(state, node)
        case Call() if has_output(state, node):
            call_into(state, node)
        case Call():
            test = condition(state, node) or predicate(state, node)
            if test is not None:
                state.code.test(test)
            else:
                _true(state, term(state, node))
        case _:
            _true(state, term(state, node))


def _true(state: FunctionState, operand: Operand) -> None:
    """Write a test that a value is not false; the operand is already tested to be defined. A value
    whose kind is never false is computed without a test, since that may fail. Nothing is written
    for a constant other than false.
    """
    if operand.is_constant:
        if operand.value is False:
            state.code.test(ast.Constant(value=False))
    elif operand.kind == "boolean":
        state.code.test(_is(operand.code, ast.Is(), value=True))
    elif operand.kind == "":
        state.code.test(_is(operand.code, ast.IsNot(), value=False))
    else:
        # A value of another kind is never false. It is computed all the same: that may fail.
        state.code.bind_temp(operand.code)


def _is(code: ast.expr, operator: ast.cmpop, *, value: bool) -> ast.Compare:
    return ast.Compare(left=code, ops=[operator], comparators=[ast.Constant(value=value)])


def _equation(state: FunctionState, left: Term, right: Term) -> None:
    """Write code for `left = right`, part by part, in the order in which variables get bound."""
    env, arity = state.env, state.plan.callees.arity
    for pattern, value in ready_equations(left, right, env.names(), env.outer, arity):
        match(state, pattern, term(state, value))


# some, every, not


def _some_in(state: FunctionState, node: SomeIn) -> None:
    """Append to the generated code the loop of `some … in`: code written after this runs once for
    each pair that matches key and value. A key that is known is looked up, without a loop; over a
    folder of rules, each child is visited.
    """
    if is_folder(state.plan.root, node.domain):
        _some_in_folder(state, node)
        return
    if node.key is None or (isinstance(node.key, Var) and node.key.is_wildcard):
        domain = _collection_to_loop(state, node.domain)
        value = loop_target(state, node.value, domain.of)
        loop_over(state, value, domain)
    elif not is_open(state, node.key):
        match(state, node.value, lookup_item(state, term(state, node.domain), node.key))
        return
    else:
        domain = term(state, node.domain)
        key, value = loop_target(state, node.key), loop_target(state, node.value)
        target = ast.Tuple(elts=[key, value], ctx=ast.Store())
        state.loop(target, state.walk(domain.code, with_keys=True))
        match_target(state, node.key, key)
    match_target(state, node.value, value)


def _collection_to_loop(state: FunctionState, domain: Term) -> Operand:
    """Append to the generated code what gives the collection that a loop iterates, and return its
    operand. For all members of a set that rules make this may be their sorted list, which is
    cheaper than the set.
    """
    node, rest = state.plan.rule_of(domain) if isinstance(domain, Ref) else (None, ())
    if node is None or rest or state.plan.alias(node) is not None:
        return term(state, domain)
    return members_of_rules(state, node)


def _some_in_folder(state: FunctionState, node: SomeIn) -> None:
    """Write the loop of `some … in` for a path below `data` that has rules below it but none at it.
    The rules are evaluated one by one in the loop.
    """
    # `$` makes it a wildcard: it matches each key, and nothing is bound.
    key = node.key if node.key is not None else Var("$some", node.span)
    domain = node.domain
    if isinstance(domain, Ref):
        reference = Ref(domain.head, (*domain.args, key), node.span)
    else:
        reference = Ref(domain, (key,), node.span)
    match(state, node.value, state.writers.ref(state, reference))


def _every(state: FunctionState, node: Every) -> None:
    """Append to the generated code the loop of an `every`, which ends with the first item for which
    the body does not hold, and a test that there was none. The test fails too if the domain is not
    a collection; for an empty one it holds. Nothing that the body binds is bound behind it.
    """
    has_keys = not (node.key is None or node.key.is_wildcard)
    collection = term(state, node.domain) if has_keys else _collection_to_loop(state, node.domain)
    # `every` over a value that is not a collection is undefined, not true.
    domain = state.code.bind_temp(collection.code, holds="domain")
    state.code.test(call(runtime("is_collection"), domain))
    holds = state.temps.holding("holds")
    state.code.assign(holds, ast.Constant(value=True))
    outer = state.env.outer | state.multiplicity.outer(node.body)
    with state.env.scope(outer), state.scope():
        value = loop_target(state, node.value)
        if not has_keys:
            loop_over(state, value, Operand(domain))
        else:
            assert node.key is not None
            key = loop_target(state, node.key)
            target = ast.Tuple(elts=[key, value], ctx=ast.Store())
            state.loop(target, method("items", domain))
        stop: list[ast.stmt] = [
            ast.Assign(targets=[store(holds)], value=ast.Constant(value=False)),
            ast.Break(),
        ]
        fails = negation(_exists(state, node.body, node.body))
        state.code.add(ast.If(test=fails, body=stop, orelse=[]))
    # A body that nests too deeply for one Python function assigns it in an inner one
    # (`ensure_depth`).
    state.temps.share(holds)
    state.code.test(load(holds))


def _test(state: FunctionState, body: Body) -> ast.expr:
    """Return a test that a body with its own variables has a solution."""
    with state.env.scope(state.env.outer | state.multiplicity.outer(body)):
        return _exists(state, body, body)


def _either(state: FunctionState, node: Or) -> None:
    """Write code for an `or`; the right side is evaluated only if the left does not hold."""
    left = _test(state, node.left)
    holds = state.code.bind_temp(left, state.temps.holding("holds"))
    state.temps.share(holds.id)
    # The right side is written inside the test, so it runs only if the left failed.
    with state.scope():
        state.code.test(negation(holds))
        state.code.assign(holds.id, _test(state, node.right))
    state.code.test(holds)


def _not(state: FunctionState, expr: Expr) -> None:
    """Write a test that a negated expression has no solution. Its operands are evaluated first: if
    one is undefined, the test fails too.
    """
    _operands_first(state, expr.before)
    positive = Expr(expr.term, False, (), expr.span)
    with state.env.scope():
        holds = _exists(state, (positive,), expr)
    state.code.test(negation(holds))


def _operands_first(state: FunctionState, before: Body) -> None:
    """Write the equations in `before`, each of which binds an operand of a negated term to a
    variable, in the order in which their own variables get bound.
    """
    waiting = [expr.term for expr in before]
    while waiting:
        known = (t for t in waiting if isinstance(t, Call) and is_known(state, t.args[1]))
        # None is known where an operand has a wildcard or a variable of its own: the first one then
        # loops over it.
        equation = next(known, waiting[0])
        assert isinstance(equation, Call)
        waiting.remove(equation)
        local, value = equation.args
        with state.code.at(value.span):
            match(state, local, term(state, value))


def _exists(state: FunctionState, body: Body, node: Expr | Body) -> ast.expr:
    """Return a test that `body` has a solution; the caller must use it before it writes anything
    else. `node` is the expression or body under which `state.multiplicity` knows `body`.

    The test is the condition itself, a flag, or, if the body loops, the call of an inner function,
    whose first success ends all loops.
    """
    name = state.temps.holding("holds")
    always, tails = state.reads.always, len(state.code.tails)
    loops = state.counters.loops
    in_function = state.multiplicity.may_have_several(node)
    leave = (lambda: ast.Constant(value=False)) if in_function else None
    with state.code.capture() as statements:
        with state.scope(), state.code.leaving(leave):
            state.writers.body(state, body)
            assert in_function or state.counters.loops == loops, "an answer for each round"
            # A body that nests too deeply goes on in an inner function (`ensure_depth`), whose
            # answer is returned and not assigned.
            in_function |= len(state.code.tails) != tails
            if in_function:
                state.code.return_value(ast.Constant(value=True))
            else:
                state.code.assign(name, ast.Constant(value=True))
        if in_function:
            state.code.return_value(ast.Constant(value=False))
    if in_function:
        # Names that were bound inside belong to the inner function.
        state.reads.forget_since(always)
        state.code.inner_function(name, statements)
        return call(load(name))
    *others, last = statements
    if _is_test_of(last, name):
        assert isinstance(last, ast.If)  # it is such a test
        state.code.splice(others)
        return last.test
    state.code.assign(name, ast.Constant(value=False))
    state.code.splice(statements)
    return load(name)


def _is_test_of(statement: ast.stmt, flag: str) -> bool:
    """Return True if `statement` is an `if` whose body is one assignment to `flag`. The caller
    knows that it assigns True and that there is no `else`.
    """
    match statement:
        case ast.If(body=[ast.Assign(targets=[ast.Name(id=name)])]):
            return name == flag
    return False


# with


def _replace(state: FunctionState, expr: Expr) -> None:
    """Append to the generated code the start of an evaluation under the `with` modifiers of `expr`,
    whose values are computed in the one around; code written after this reads from the new one,
    until the caller leaves it in `state.env`.
    """
    inputs: list[ast.expr] = []
    data: list[ast.expr] = []
    functions: list[ast.expr] = []
    read_above = False
    for item in expr.withs:
        name = replaced_function(item, state.plan.callees)
        if name is not None:
            mock = _mock(state, name, item.value)
            functions.append(_pair(ast.Constant(value=name), mock))
            continue
        value = _document(state, item)
        head, path = _target(item)
        pair = _pair(state.constants.add(path), value)
        (inputs if head == "input" else data).append(pair)
        read_above |= head == "data" and state.plan.is_read_above(path, expr)
    lists = [ast.Tuple(elts=part, ctx=ast.Load()) for part in (inputs, data, functions)]
    span = state.constants.add(state.code.span)
    arguments: list[ast.expr] = [*lists, span]
    if read_above and not state.plan.exact:
        arguments.append(ast.Constant(value=True))
    replaced = method_of(load(state.env.evaluation), "replace", *arguments)
    # After the values of all `with`, which are read in the evaluation around.
    state.env.enter(state.code.bind_temp(replaced, holds="ctx").id)


def _document(state: FunctionState, item: With) -> ast.expr:
    """Return code for the value that replaces a document under a `with`, after appending what
    computes it; UNDEFINED if the value names a function, which is not a document.
    """
    if names_function(item, state.plan.callees.arity):
        return runtime("UNDEFINED")
    return term(state, item.value).code


def _mock(state: FunctionState, name: str, value: Term) -> ast.expr:
    """Return code for what stands in for the function `name` under a `with`: another function, or a
    value, whose code is appended before. If `name` is a built-in without code (`Builtin.absent`),
    calling it still ends the evaluation, whatever the value is.
    """
    target = as_call(value)
    callee = state.plan.callees.find(target) if target is not None else None
    if callee is not None and callee.builtin is not None:
        return state.constants.add(BuiltinMock(callee.builtin))
    if callee is not None and callee.node is not None and callee.node.is_function:
        return call(runtime("FunctionMock"), load(callee.node.name))
    mock = call(runtime("ValueMock"), term(state, value).code)
    replaced = state.plan.callees.registry.get(name)
    if replaced is not None and replaced.absent:
        # OPA looks for the code before it looks at the value.
        return state.constants.add(BuiltinMock(replaced))
    return mock


# print


def _print(state: FunctionState, node: Call) -> None:
    """Append to the generated code a call of `print`, if its output is received; otherwise nothing.
    The values of each operand are collected in a list, since an operand may have none or several;
    its variables are not bound behind it.
    """
    if not state.plan.prints:
        return
    outs: list[ast.expr] = []
    for arg in node.args:
        out = state.temps.holding("printed")
        state.code.assign(out, ast.List(elts=[], ctx=ast.Load()))
        with state.env.scope(), state.scope():
            state.code.run(method_of(load(out), "append", term(state, arg).code))
        outs.append(load(out))
    span = state.constants.add(node.span)
    state.code.run(method_of(load(state.env.evaluation), "print", span, *outs))


def _pair(first: ast.expr, second: ast.expr) -> ast.expr:
    return ast.Tuple(elts=[first, second], ctx=ast.Load())


def _target(item: With) -> tuple[str, tuple[Key, ...]]:
    """Return the document that a `with` replaces, `input` or `data`, and the path below it, with
    None in place of an operand that is not constant.
    """
    target = item.target
    if isinstance(target, Var):
        return target.name, ()
    head = target.head
    assert isinstance(head, Var)
    path = [arg for arg in target.args]
    return head.name, tuple(to_key(getattr(arg, "value", None)) for arg in path)
