"""Terms to Python expressions: what they need first is written as statements on the way.

After `term(state, t)` everything written next runs once for each value that `t` has; the operand
it returns is that value. References are in `references`, calls in `calls`, comprehensions in
`comprehensions`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from doorward.rego.analysis.multiplicity import in_order, open_names
from doorward.rego.analysis.multiplicity import is_known as _is_known
from doorward.rego.analysis.variables import ROOTS
from doorward.rego.codegen.emit.ast_nodes import call, load, method, runtime
from doorward.rego.codegen.operand import NOT_CONSTANT, Operand, constant_value, items_kind
from doorward.rego.codegen.state import FunctionState
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import (
    Array,
    ArrayComprehension,
    Call,
    Object,
    ObjectComprehension,
    Ref,
    Set,
    SetComprehension,
    TemplateString,
    Term,
    Var,
)
from doorward.rego.values import Value, kind_name, to_key

__all__ = ["constant", "count", "count_item", "is_known", "key", "term", "terms", "without_value"]

_LITERAL: Final = frozenset({bool, str, int})


def is_known(state: FunctionState, term: Term) -> bool:
    """Return True if `term` can be computed from the variables that are bound now."""
    return _is_known(term, state.env.names(), state.env.outer, state.plan.callees.arity)


def constant(state: FunctionState, value: Value) -> Operand:
    """Return the operand for a constant. Its code is a Python literal for null, booleans, integers
    and strings; other values get a name among the constants.
    """
    code: ast.expr
    if value is None or (isinstance(value, (bool, str, int)) and type(value) in _LITERAL):
        code = ast.Constant(value=value)
    else:
        code = state.constants.add(value)
    return Operand(code, kind_name(value), value, of=items_kind(value))


def term(state: FunctionState, term: Term) -> Operand:
    """Append to the generated code what computes `term`, and return its value as an operand. Code
    written after this runs once for each of the term's values, and not at all if it has none;
    unbound variables in operands of references are bound by that.
    """
    value = constant_value(term)
    if value is not NOT_CONSTANT:
        return constant(state, value)
    with state.code.at(term.span):
        match term:
            case Var(name):
                return _variable(state, name)
            case Ref(head):
                if isinstance(head, Var) and head.name not in ROOTS and head.name not in state.env:
                    return without_value(state, term)
                return state.writers.ref(state, term)
            case Call():
                return state.writers.call(state, term)
            case Set() | Object() if not is_known(state, term):
                return without_value(state, term)
            case Array(items):
                parts = [operand.code for operand in terms(state, items)]
                return Operand(ast.List(elts=parts, ctx=ast.Load()), "array")
            case Set(items):
                members = [key(state, operand) for operand in terms(state, items)]
                inner = ast.Tuple(elts=members, ctx=ast.Load())
                return Operand(call(runtime("frozenset"), inner), "set")
            case Object(pairs):
                return _object(state, pairs)
            case ArrayComprehension() | SetComprehension() | ObjectComprehension():
                return state.writers.comprehension(state, term)
            case TemplateString():  # pragma: no branch - scalars are constants
                return _template(state, term)
    raise AssertionError(term)


def without_value(state: FunctionState, term: Term) -> Operand:
    """Write that nothing matches `term`: as in OPA, a set, the key of an object or a reference with
    a variable that nothing before it binds equals no value. The variables are bound to null, only
    so that the code behind, which never runs, can be written.
    """
    null = constant(state, None)
    for name in open_names(term, state.env.names()):
        state.env.bind(name, null)
    state.code.test(ast.Constant(value=False))
    return null


def _variable(state: FunctionState, name: str) -> Operand:
    """Return the operand for a variable's value. For `input`, code is written that tests if there
    is one; for `data`, code that reads the whole document.
    """
    if name == "input":
        document = state.of_evaluation("input")
        state.code.test_defined(document)
        return Operand(document)
    if name == "data":
        return state.writers.ref(state, Ref(Var("data"), ()))
    return state.env[name]


def _object(state: FunctionState, pairs: tuple[tuple[Term, Term], ...]) -> Operand:
    """Append to the generated code what computes the keys and values of an object literal, all of
    them known, and return it as an operand. Code written after runs once for each combination of
    their values.
    """
    operands = terms(state, [term for pair in pairs for term in pair])
    keys: list[ast.expr | None] = [key(state, each) for each in operands[::2]]
    values = [value.code for value in operands[1::2]]
    return Operand(ast.Dict(keys=keys, values=values), "object")


def terms(state: FunctionState, terms: Sequence[Term]) -> list[Operand]:
    """Write the values of several terms and return them in the order of `terms`. They are computed
    in another order if a term needs variables that a later one binds.
    """
    env = state.env
    operands: dict[int, Operand] = {}
    for n in in_order(terms, env.names(), env.outer, state.plan.callees.arity):
        operands[n] = term(state, terms[n])
    return [operands[n] for n in range(len(terms))]


def key(state: FunctionState, operand: Operand) -> ast.expr:
    """Return code for a value in its form as a dict key or set member: that which `to_key` returns
    for it, the value itself for a text.
    """
    if operand.is_constant:
        constant = to_key(operand.value)
        plain = constant is None or type(constant) in (str, int)
        return ast.Constant(value=constant) if plain else state.constants.add(constant)  # type: ignore[arg-type]
    if operand.kind == "string" or operand.is_plain:
        return operand.code
    return call(runtime("to_key"), operand.code)


def count_item(state: FunctionState) -> None:
    """Append to the generated code that a collection has one more item, if the plan limits items;
    otherwise nothing.
    """
    if state.plan.limited:
        count(state, "count_items", ast.Constant(value=1), state.code.span)


def count(state: FunctionState, method_name: str, amount: ast.expr, span: Span) -> None:
    """Write a call of `count_items` or `count_size` of the evaluation, which count against the
    limit of items. `amount` is code for the number of items, or for the value whose items count.
    """
    state.code.run(method(method_name, amount, state.constants.add(span)))


def _template(state: FunctionState, term: TemplateString) -> Operand:
    """Append to the generated code what makes the text of a template string, and return it as an
    operand. An expression in it that has no value reads `<undefined>`; its variables are not bound
    behind it. The size of the text is counted if items are limited.
    """
    parts: list[ast.expr] = []
    for part in term.parts:
        if isinstance(part, str):
            parts.append(ast.Constant(value=part))
            continue
        temp = state.temps.holding("part")
        state.code.assign(temp, runtime("UNDEFINED"))
        with state.env.scope(), state.scope():
            state.code.assign(temp, state.writers.expression_value(state, part).code)
        # An expression that nests too deeply for one Python function assigns it in an inner one.
        state.temps.share(temp)
        parts.append(call(runtime("template_text"), load(temp)))
    joined = ast.Tuple(elts=parts, ctx=ast.Load())
    span = state.constants.add(term.span)
    text = state.code.bind_temp(call(runtime("template"), joined, span), holds="text")
    if state.plan.limited:
        count(state, "count_size", text, term.span)
    return Operand(text, "string")
