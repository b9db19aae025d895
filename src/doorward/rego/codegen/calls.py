"""Calls to Python: built-ins behind their operand check, functions by name, operators inline.

An operator that Python computes exactly on the operands at hand is written out. A built-in that
fails makes its expression undefined; the evaluation decides whether that is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.builtins import REGISTRY
from doorward.rego.builtins.registry import Builtin
from doorward.rego.builtins.registry.signature import AnyOf, ArrayType, ScalarType, SetType, Type
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
)
from doorward.rego.codegen.inline import (
    COMPARISONS,
    Inline,
    arithmetic,
    operand_tests,
    written_out,
)
from doorward.rego.codegen.operand import Operand
from doorward.rego.codegen.patterns import is_class, match
from doorward.rego.codegen.references import name_of_rules, rule_value
from doorward.rego.codegen.state import FunctionState
from doorward.rego.codegen.terms import constant, count, terms
from doorward.rego.errors import CALL_ERRORS
from doorward.rego.runtime.evaluation import Site
from doorward.rego.syntax.nodes import Call, Term

__all__ = ["call_into", "call_value", "condition", "has_output", "predicate"]


def call_value(state: FunctionState, term: Call) -> Operand:
    """Write a call whose value is used; return its operand, which is tested to be defined."""
    test = condition(state, term)
    if test is not None:
        return Operand(state.code.bind_temp(test), "boolean")
    return _value(state, term, term.args)


def condition(state: FunctionState, term: Call) -> ast.expr | None:
    """Return a Python test for a comparison or membership, after its operands were appended to the
    generated code. None, with nothing appended, for other calls and for built-ins that a `with` may
    replace.
    """
    if term.name in state.plan.mocked:
        return None
    write = COMPARISONS.get(term.name)
    if write is not None and len(term.args) == 2:
        left, right = terms(state, term.args)
        return write(left, right)
    if term.name == "internal.member_2" and len(term.args) == 2:
        return _member(*terms(state, term.args))
    if term.name == "internal.member_3" and len(term.args) == 3:
        key, item, collection = (operand.code for operand in terms(state, term.args))
        return call(runtime("contains_pair"), key, item, collection)
    return None


def _member(item: Operand, collection: Operand) -> ast.expr:
    """Return a test for `item in collection`. For a string this is Python's own `in`, with tests of
    the classes that are not known before run time; for other items it is a call of the runtime.
    """
    members = collection.value
    # The code is written twice, in the test of its class and in the comparison: it must be a name.
    names = isinstance(item.code, ast.Name) or item.kind == "string"
    general = call(runtime("contains"), item.code, collection.code)
    if not names:
        return general
    tests = [] if item.kind == "string" else [is_class(item.code, "str")]
    inside = ast.Compare(left=item.code, ops=[ast.In()], comparators=[collection.code])
    is_of_texts = collection.kind == "set" and collection.of == "string"
    if is_of_texts or (type(members) is frozenset and all(type(m) is str for m in members)):
        return all_of([*tests, inside])
    if not isinstance(collection.code, ast.Name):
        return general
    if collection.kind not in ("array", "set"):
        tests.append(is_class(collection.code, "list"))
    return Inline(inside, tests).otherwise(general)


def call_into(state: FunctionState, term: Call) -> None:
    """Write a call with its output as the last operand, such as `count(xs, n)`."""
    result = _value(state, term, term.args[:-1])
    match(state, term.args[-1], result)


def has_output(state: FunctionState, term: Call) -> bool:
    """Return True if `term` has one operand more than its callee declares."""
    arity = state.plan.callees.arity(term)
    return arity is not None and len(term.args) == arity + 1


def _value(state: FunctionState, term: Call, args: Sequence[Term]) -> Operand:
    """Write a call with these operands and return its value, which is tested to be defined. With a
    wrong number of operands the call is never defined: a test that always fails is written, and
    null returned.
    """
    callee = state.plan.callees.find(term)
    assert callee is not None, f"undefined function {term.name}"
    if callee.arity not in (None, len(args)):
        # OPA takes `eq` with any number of operands for a call that is never defined.
        state.code.test(ast.Constant(value=False))
        return constant(state, None)
    operands = terms(state, args)
    if callee.builtin is not None:
        return _builtin(state, callee.builtin, operands, term)
    assert callee.node is not None
    if not callee.node.is_function:
        return rule_value(state, callee.node)
    return _function(state, callee.node, [operand.code for operand in operands], term)


def _function(
    state: FunctionState, node: RuleNode, operands: list[ast.expr], term: Call
) -> Operand:
    """Append to the generated code a call of a policy's function, or of its replacement at run time
    if some `with` may replace it (`mocked`), and return its value, which is tested to be defined.
    Operands are computed once. The call is counted for the deadline.
    """
    state.counters.add_call()
    evaluation = load(state.env.evaluation)
    if node.name not in state.plan.mocked:
        direct = call(load(node.name), evaluation, *operands)
        temp = state.code.bind_temp(direct, holds=name_of_rules(node))
    else:
        # Used twice, in the call and in that of the replacement: computed once.
        names = [state.code.bind_temp(operand) for operand in operands]
        direct = call(load(node.name), evaluation, *names)
        choice = _mock_choice(state, node.name, direct, names, term)
        temp = state.code.bind_temp(choice, holds=name_of_rules(node))
    state.code.test_defined(temp)
    return Operand(temp)


def _builtin(
    state: FunctionState, builtin: Builtin, values: Sequence[Operand], term: Call
) -> Operand:
    """Append to the generated code a call of a built-in, in line where Python computes it exactly,
    and return its result, tested to be defined. An error of the built-in makes it undefined, or
    ends the evaluation, as that decides. A relation becomes a loop over its results; a built-in
    that a `with` may replace is looked up at run time.
    """
    operands = [operand.code for operand in values]
    function = state.constants.named(f"fn.{builtin.name}", builtin.call)
    args = operands
    if builtin.context:
        args = [load(state.env.evaluation), *operands]
    direct = call(function, *args)
    site = state.constants.add(Site(builtin.name, term.span), "at")
    if builtin.relation:
        return _relation(state, direct, site)
    # A replaced built-in must be looked up at run time, so nothing is written in line.
    if builtin.name in state.plan.mocked:
        return _mocked_builtin(state, builtin, direct, operands, term, site)
    written = _write_call(state, builtin, values)
    if written is not None:
        general = _check_call(state, function, site, args)
        temp = _temp_of(state, written, general, _last_name(builtin))
        if not written.is_total:
            state.code.test_defined(temp)
    else:
        temp = load(state.temps.holding(_last_name(builtin)))
        checked = _with_checks(state, builtin, values, direct)
        if checked is direct:
            state.counters.add_builtin()
        _guard(state, temp.id, checked, site)
        state.code.test_defined(temp)
    result = builtin.signature.result
    return _count(state, Operand(temp, _result_kind(result), of=_item_kind(result)), term)


def predicate(state: FunctionState, term: Call) -> ast.expr | None:
    """Return a Python test for a call of a built-in with a boolean result, after writing its
    operands. None for other calls, for built-ins that a `with` may replace, and for those that take
    the context; then nothing is written.
    """
    callee = state.plan.callees.find(term)
    builtin = callee.builtin if callee is not None else None
    if builtin is None or builtin.name in state.plan.mocked or builtin.context:
        return None
    signature = builtin.signature
    if _result_kind(signature.result) != "boolean" or len(term.args) != len(signature.args):
        return None
    values = terms(state, term.args)
    written = _write_call(state, builtin, values)
    if written is None:
        answer = _builtin(state, builtin, values, term)
        return ast.Compare(left=answer.code, ops=[ast.Is()], comparators=[ast.Constant(value=True)])
    function = state.constants.named(f"fn.{builtin.name}", builtin.call)
    site = state.constants.add(Site(builtin.name, term.span), "at")
    # What fails is UNDEFINED, which holds as little as False does.
    general = _check_call(state, function, site, [o.code for o in values])
    if not written.raises:
        return written.otherwise(general)
    return _temp_of(state, written, general, _last_name(builtin))


def _write_call(state: FunctionState, builtin: Builtin, values: Sequence[Operand]) -> Inline | None:
    """Return Python code in line that replaces a call of a built-in: with its constant operands
    prepared now, in Python's own operations or, for `time.now_ns`, by reading the evaluation's
    time. None if that is not possible.
    """
    if builtin.name == "time.now_ns" and builtin is REGISTRY.get(builtin.name):
        return Inline(attribute(load(state.env.evaluation), "now_ns"))
    return _prepare(state, builtin, values) or written_out(builtin, values)


def _last_name(builtin: Builtin) -> str:
    """Return the part of a built-in's name after the last dot: `verify_hs256` of
    `io.jwt.verify_hs256`.
    """
    return builtin.name.rpartition(".")[2]


def _temp_of(state: FunctionState, written: Inline, general: ast.expr, holds: str) -> ast.Name:
    """Write code that assigns the value of a call to a new local variable named after `holds`: the
    value of `written`, or that of the `general` call if the tests of `written` fail or it raises
    for another kind of operand. Return the variable.
    """
    if not written.raises:
        return state.code.bind_temp(written.otherwise(general), holds=holds)
    temp = state.temps.holding(holds)
    handler = except_clause(runtime("KIND_ERRORS"), temp, general)
    state.code.attempt(temp, written.otherwise(general), handler)
    return load(temp)


def _check_call(
    state: FunctionState, function: ast.expr, site: ast.expr, operands: Sequence[ast.expr]
) -> ast.expr:
    """Return code that calls a built-in, `function`, through the evaluation: if it fails, the error
    is recorded with the call's `site`, and the value is UNDEFINED.
    """
    return method_of(load(state.env.evaluation), "call_builtin", site, function, *operands)


def _count(state: FunctionState, result: Operand, term: Call) -> Operand:
    """Return `result`; if the plan limits items and the result can be large, what counts its size
    is appended to the generated code.
    """
    if state.plan.limited and result.kind not in _SMALL:
        count(state, "count_size", result.code, term.span)
    return result


def _with_checks(
    state: FunctionState, builtin: Builtin, values: Sequence[Operand], direct: ast.Call
) -> ast.expr:
    """Return code for the call: Python's operator for arithmetic, or the built-in with its operands
    tested in line. `direct` itself if the operands cannot be tested in line (`operand_tests`), or
    the built-in checks nothing.
    """
    computed = arithmetic(builtin.name, values, direct)
    if computed is not direct or builtin.call is builtin.body:
        return computed
    tests = operand_tests(builtin, values)
    if tests is None:
        return direct
    body = state.constants.named(f"body.{builtin.name}", builtin.body)
    return Inline(call(body, *direct.args), tests).otherwise(direct)


def _prepare(state: FunctionState, builtin: Builtin, values: Sequence[Operand]) -> Inline | None:
    """Return the call with its constant operands processed now, such as a compiled pattern. None if
    the built-in cannot be prepared, an operand other than the last is not constant or is invalid,
    or the last is not in a local variable.
    """
    if builtin.prepare is None or not all(o.is_constant for o in values[:-1]):
        return None
    last = values[-1]
    if last.is_constant or not isinstance(last.code, ast.Name):
        return None
    try:
        compiled = builtin.prepare(*[o.value for o in values[:-1]])
    # An invalid pattern is an error of the call, which the general form reports at run time.
    except CALL_ERRORS:
        return None
    tests = () if last.kind == "string" else [is_class(last.code, "str")]
    return Inline(_compile_call(state, compiled, last.code), tests)


def _compile_call(
    state: FunctionState, function: Callable[[str], Any], operand: ast.expr
) -> ast.expr:
    """Return code that calls a prepared function with `operand`. A method that only compares, such
    as `"a".__eq__`, becomes a Python comparison.
    """
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    operator = _OPERATORS.get((type(owner), name))
    if operator is None:
        return call(state.constants.add(function), operand)
    compared = ast.Constant(value=owner) if type(owner) is str else state.constants.add(owner)
    return ast.Compare(left=operand, ops=[operator], comparators=[compared])


def _guard(state: FunctionState, target: str, value: ast.expr, site: ast.expr) -> None:
    """Write `target = value`, where `value` calls a built-in. If that raises an error, the error is
    reported to the evaluation with the call's `site`, and `target` becomes what the evaluation
    returns: UNDEFINED unless errors are strict.
    """
    error = state.temps.holding("error")
    failed = method_of(load(state.env.evaluation), "failed", load(error), site)
    handler = except_clause(runtime("CALL_ERRORS"), target, failed, error)
    state.code.attempt(target, value, handler)


def _relation(state: FunctionState, direct: ast.expr, site: ast.expr) -> Operand:
    """Write a loop over the results of a built-in that may have several, which `direct` calls;
    return the operand for one result. `site`: the call, for errors.
    """
    temp = state.temps.fresh()
    _guard(state, temp, direct, site)
    state.code.test_defined(load(temp))
    item = state.temps.holding("answer")
    state.loop(store(item), method("related", load(temp)))
    return Operand(load(item))


# Functions and built-ins that some `with` replaces


def _mocked_builtin(
    state: FunctionState,
    builtin: Builtin,
    direct: ast.Call,
    operands: Sequence[ast.expr],
    term: Call,
    site: ast.expr,
) -> Operand:
    """Write a call of a built-in that some `with` replaces, which looks for the replacement at run
    time, and return its result, tested to be defined.
    """
    names = [state.code.bind_temp(o) for o in operands]
    temp = state.temps.holding(_last_name(builtin))
    context = direct.args[: len(direct.args) - len(names)]
    direct = call(direct.func, *context, *names)
    _guard(state, temp, _mock_choice(state, builtin.name, direct, names, term), site)
    state.code.test_defined(load(temp))
    return _count(state, Operand(load(temp)), term)


def _mock_choice(
    state: FunctionState, name: str, direct: ast.expr, operands: Sequence[ast.expr], term: Call
) -> ast.expr:
    """Write a lookup of the replacement of a function; return code that calls it if there is one,
    otherwise `direct`.
    """
    evaluation = load(state.env.evaluation)
    mocks = attribute(evaluation, "mocks")
    mock = state.code.bind_temp(method_of(mocks, "get", ast.Constant(value=name)), holds="mock")
    site = state.constants.add(Site(name, term.span), "at")
    use = method_of(evaluation, "mock", mock, site, *operands)
    none = ast.Compare(left=mock, ops=[ast.Is()], comparators=[ast.Constant(value=None)])
    return ast.IfExp(test=none, body=direct, orelse=use)


_OPERATORS: Final[Mapping[tuple[type, str], ast.cmpop]] = {
    (str, "__eq__"): ast.Eq(),
    (frozenset, "__contains__"): ast.In(),
}
"""By class and name, the methods whose calls are written as a comparison, and its Python
operator.
"""

_SMALL: Final = frozenset({"boolean", "null", "number"})
"""Kinds of results that are so small that they are not counted as items."""


def _result_kind(result: Type | None) -> str:
    return "" if result is None or isinstance(result, AnyOf) else result.kind


def _item_kind(result: Type | None) -> str:
    """Return the kind of all items in a built-in's result; "" if unknown."""
    match result:
        case ArrayType(items=(), rest=ScalarType(kind)) | SetType(of=ScalarType(kind)):
            return kind
    return ""
