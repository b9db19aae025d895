"""Calls to Python: built-ins behind their operand check, functions by name, operators inline.

An operator that Python computes exactly on the operands at hand is written out. A built-in that
fails makes its expression undefined; the evaluation decides whether that is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.builtins.registry import Builtin
from doorward.rego.builtins.signature import ScalarType, Type, kinds
from doorward.rego.codegen.block import call, load, method, runtime, store
from doorward.rego.codegen.patterns import equality, is_class
from doorward.rego.codegen.references import References
from doorward.rego.codegen.terms import Operand
from doorward.rego.errors import BuiltinError
from doorward.rego.runtime.evaluation import Site
from doorward.rego.syntax.nodes import Call, Term
from doorward.rego.values import compare

__all__ = ["Calls"]

Comparison = Callable[[Operand, Operand], ast.expr]


class Calls(References):
    """Writes calls."""

    def call(self, term: Call) -> Operand:
        """The value of a call that stands where a value is wanted."""
        condition = self.condition(term)
        if condition is not None:
            return Operand(self.hold(condition), "boolean")
        return self._value(term, term.args)

    def condition(self, term: Call) -> ast.expr | None:
        """A Python test for a call of a comparison or membership; None for other calls."""
        if term.name in self.plan.mocked:
            return None
        write = _COMPARISONS.get(term.name)
        if write is not None and len(term.args) == 2:
            left, right = self.terms(term.args)
            return write(left, right)
        if term.name == "internal.member_2" and len(term.args) == 2:
            return self._member(*self.terms(term.args))
        if term.name == "internal.member_3" and len(term.args) == 3:
            key, item, collection = (operand.code for operand in self.terms(term.args))
            return call(runtime("contains_pair"), key, item, collection)
        return None

    def _member(self, item: Operand, collection: Operand) -> ast.expr:
        """`item in collection`; a constant set of strings is Python's own."""
        members = collection.value
        if type(members) is frozenset and all(type(m) is str for m in members):
            inside = ast.Compare(left=item.code, ops=[ast.In()], comparators=[collection.code])
            if item.kind == "string":
                return inside
            if isinstance(item.code, ast.Name):
                return ast.BoolOp(op=ast.And(), values=[is_class(item.code, "str"), inside])
        return call(runtime("contains"), item.code, collection.code)

    def call_into(self, term: Call) -> None:
        """A call with its output as last operand: `count(xs, n)`."""
        result = self._value(term, term.args[:-1])
        self.match(term.args[-1], result)

    def has_output(self, term: Call) -> bool:
        """Whether `term` has one operand more than its callee declares."""
        arity = self.plan.callees.arity(term)
        return arity is not None and len(term.args) == arity + 1

    def _value(self, term: Call, args: Sequence[Term]) -> Operand:
        callee = self.plan.callees.find(term)
        if callee is None:
            raise AssertionError(f"undefined function {term.name}")
        if callee.arity not in (None, len(args)):
            # OPA takes `eq` with any number of operands for a call that is never defined.
            self.test(ast.Constant(value=False))
            return self.constant(None)
        operands = self.terms(args)
        if callee.builtin is not None:
            return self._builtin(callee.builtin, operands, term)
        assert callee.node is not None
        return self._function(callee.node, [operand.code for operand in operands], term)

    def _function(self, node: RuleNode, operands: list[ast.expr], term: Call) -> Operand:
        self.called += 1
        direct = call(load(node.name), load(self.state), *operands)
        if node.name not in self.plan.mocked:
            held = self.hold(direct)
        else:
            held = self._mockable(node.name, direct, operands, term)
        self.defined(held)
        return Operand(held)

    def _builtin(self, builtin: Builtin, values: Sequence[Operand], term: Call) -> Operand:
        operands = [operand.code for operand in values]
        function = self.constants.named(f"fn.{builtin.name}", builtin.call)
        args = operands
        if builtin.context:
            args = [load(self.state), *operands]
        direct = call(function, *args)
        site = self.constants.add(Site(builtin.name, term.span), "at")
        if builtin.relation:
            return self._relation(direct, site)
        held = self.fresh()
        if builtin.name in self.plan.mocked:
            names = [self.hold(o) for o in operands]
            args = [*args[: len(args) - len(names)], *names]
            direct = call(function, *args)
            self._guarded(held, self._mock_choice(builtin.name, direct, names, term), site)
        else:
            self._guarded(held, self._inline(builtin, values, direct), site)
        mocked = builtin.name in self.plan.mocked
        kind = "" if mocked else _result_kind(builtin.signature.result)
        self.defined(load(held))
        if self.plan.limited and kind not in _SMALL:
            self.run(self.counted("sized", load(held), term.span))
        return Operand(load(held), kind)

    def _inline(self, builtin: Builtin, values: Sequence[Operand], direct: ast.Call) -> ast.expr:
        """The call with its operands checked here, where that takes no more than a look."""
        prepared = self._prepared(builtin, values, direct)
        if prepared is not None:
            return prepared
        arithmetic = _arithmetic(builtin.name, values, direct)
        if arithmetic is not direct or builtin.call is builtin.body:
            return arithmetic
        tests = _operand_tests(builtin, values)
        if tests is None:
            return direct
        body = self.constants.named(f"body.{builtin.name}", builtin.body)
        unchecked = call(body, *direct.args)
        if not tests:
            return unchecked
        test = tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=tests)
        return ast.IfExp(test=test, body=unchecked, orelse=direct)

    def _prepared(
        self, builtin: Builtin, values: Sequence[Operand], direct: ast.Call
    ) -> ast.expr | None:
        """The call with what its constant operands make made now: a pattern, compiled."""
        if builtin.prepare is None or not all(o.is_constant for o in values[:-1]):
            return None
        last = values[-1]
        if last.is_constant or not isinstance(last.code, ast.Name):
            return None
        try:
            made = builtin.prepare(*[o.value for o in values[:-1]])
        except BuiltinError:
            return None
        function = call(self.constants.add(made), last.code)
        if last.kind == "string":
            return function
        return ast.IfExp(test=is_class(last.code, "str"), body=function, orelse=direct)

    def _guarded(self, held: str, value: ast.expr, site: ast.expr) -> None:
        """`held = value`, with a built-in's error as the evaluation wants it."""
        error = self.fresh()
        failed = ast.Attribute(value=load(self.state), attr="failed", ctx=ast.Load())
        handler = ast.ExceptHandler(
            type=runtime("BuiltinError"),
            name=error,
            body=[
                ast.Assign(targets=[store(held)], value=call(failed, load(error), site)),
            ],
        )
        self.add(
            ast.Try(
                body=[ast.Assign(targets=[store(held)], value=value)],
                handlers=[handler],
                orelse=[],
                finalbody=[],
            )
        )

    def _relation(self, direct: ast.expr, site: ast.expr) -> Operand:
        held = self.fresh()
        self._guarded(held, direct, site)
        self.defined(load(held))
        item = self.fresh()
        self.walk(store(item), method("related", load(held)))
        return Operand(load(item))

    # Functions and built-ins that some `with` replaces

    def _mockable(
        self, name: str, direct: ast.Call, operands: list[ast.expr], term: Call
    ) -> ast.Name:
        names = [self.hold(o) for o in operands]
        direct = call(direct.func, direct.args[0], *names)
        return self.hold(self._mock_choice(name, direct, list(names), term))

    def _mock_choice(
        self, name: str, direct: ast.expr, operands: Sequence[ast.expr], term: Call
    ) -> ast.expr:
        mocks = ast.Attribute(value=load(self.state), attr="mocks", ctx=ast.Load())
        get = ast.Attribute(value=mocks, attr="get", ctx=ast.Load())
        mock = self.hold(call(get, ast.Constant(value=name)))
        use = ast.Attribute(value=load(self.state), attr="mock", ctx=ast.Load())
        site = self.constants.add(Site(name, term.span), "at")
        none = ast.Compare(left=mock, ops=[ast.Is()], comparators=[ast.Constant(value=None)])
        return ast.IfExp(test=none, body=direct, orelse=call(use, mock, site, *operands))


def _operand_tests(builtin: Builtin, operands: Sequence[Operand]) -> list[ast.expr] | None:
    """Tests for what is not known of the operands; None where one look is not enough."""
    tests: list[ast.expr] = []
    declared = builtin.signature.args
    if len(declared) != len(operands) or builtin.signature.variadic is not None:
        return None
    for type_, operand in zip(declared, operands, strict=True):
        wanted = kinds(type_)
        if not wanted or operand.kind in wanted:
            continue
        name = _CLASS.get(wanted[0])
        if len(wanted) > 1 or name is None or not isinstance(operand.code, ast.Name):
            return None
        tests.append(is_class(operand.code, name))
    return tests if len(tests) <= MAX_INLINE else None


MAX_INLINE: Final = 2
"""Operands looked at where they stand; more are better checked by a call."""

_CLASS: Final[Mapping[str, str]] = {
    "string": "str",
    "array": "list",
    "object": "dict",
    "set": "frozenset",
}
"""Kinds that are one Python class, by the class's name."""


def _arithmetic(name: str, operands: Sequence[Operand], direct: ast.Call) -> ast.expr:
    """Integers are computed by Python itself; everything else by the built-in."""
    operator = _ARITHMETIC.get(name)
    if operator is None or not all(
        isinstance(o.code, ast.Name) or type(o.value) is int for o in operands
    ):
        return direct
    tests = [is_class(o.code, "int") for o in operands if not o.is_constant]
    if not tests or any(type(o.value) is not int for o in operands if o.is_constant):
        return direct
    # The built-in bounds the product of two numbers that are both the input's choice.
    if name == "mul" and len(tests) == 2:
        return direct
    a, b = (o.code for o in operands)
    test = tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=list(tests))
    return ast.IfExp(test=test, body=ast.BinOp(left=a, op=operator, right=b), orelse=direct)


_ARITHMETIC: Final[Mapping[str, ast.operator]] = {
    "plus": ast.Add(),
    "minus": ast.Sub(),
    "mul": ast.Mult(),
}


_SMALL: Final = frozenset({"boolean", "null", "number"})
"""Results that need no counting."""


def _result_kind(result: Type | None) -> str:
    return result.kind if isinstance(result, ScalarType) else ""


def _ordered(
    name: str, operator: ast.cmpop, decide: Callable[[int], bool], *, swap: bool
) -> Comparison:
    """`a < b` and its like: inline for a number beside an integer constant."""

    def write(a: Operand, b: Operand) -> ast.expr:
        tests = [is_class(o.code, "int") for o in (a, b) if isinstance(o.code, ast.Name)]
        fixed = [o for o in (a, b) if o.is_constant]
        plain = all(type(o.value) is int for o in fixed)
        if tests and plain and len(tests) + len(fixed) == 2:
            test = tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=list(tests))
            direct = ast.Compare(left=a.code, ops=[operator], comparators=[b.code])
            return ast.IfExp(test=test, body=direct, orelse=general(a, b))
        return general(a, b)

    def general(a: Operand, b: Operand) -> ast.expr:
        if a.is_constant and b.is_constant:
            return ast.Constant(value=decide(compare(a.value, b.value)))
        first, second = (b, a) if swap else (a, b)
        return call(runtime(name), first.code, second.code)

    return write


def _different(a: Operand, b: Operand) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=equality(a, b))


_COMPARISONS: Final[Mapping[str, Comparison]] = {
    "equal": equality,
    "neq": _different,
    "lt": _ordered("less", ast.Lt(), lambda order: order < 0, swap=False),
    "lte": _ordered("less_equal", ast.LtE(), lambda order: order <= 0, swap=False),
    "gt": _ordered("less", ast.Gt(), lambda order: order > 0, swap=True),
    "gte": _ordered("less_equal", ast.GtE(), lambda order: order >= 0, swap=True),
}
