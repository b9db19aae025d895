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
from doorward.rego.builtins.signature import ScalarType, Type
from doorward.rego.codegen.block import call, load, runtime, store
from doorward.rego.codegen.patterns import equality
from doorward.rego.codegen.references import References
from doorward.rego.codegen.terms import Operand
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
            item, collection = (operand.code for operand in self.terms(term.args))
            return call(runtime("contains"), item, collection)
        if term.name == "internal.member_3" and len(term.args) == 3:
            key, item, collection = (operand.code for operand in self.terms(term.args))
            return call(runtime("contains_pair"), key, item, collection)
        return None

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
        operands = [operand.code for operand in self.terms(args)]
        if callee.builtin is not None:
            return self._builtin(callee.builtin, operands, term)
        assert callee.node is not None
        return self._function(callee.node, operands, term)

    def _function(self, node: RuleNode, operands: list[ast.expr], term: Call) -> Operand:
        direct = call(load(node.name), load(self.state), *operands)
        if node.name not in self.plan.mocked:
            held = self.hold(direct)
        else:
            held = self._mockable(node.name, direct, operands, term)
        self.defined(held)
        return Operand(held)

    def _builtin(self, builtin: Builtin, operands: list[ast.expr], term: Call) -> Operand:
        function = self.constants.named(f"fn.{builtin.name}", builtin.call)
        args = operands
        if builtin.context:
            context = ast.Attribute(value=load(self.state), attr="context", ctx=ast.Load())
            args = [context, *operands]
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
            self._guarded(held, direct, site)
        kind = _result_kind(builtin.signature.result)
        self.defined(load(held))
        return Operand(load(held), kind)

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
        self.walk(store(item), load(held))
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


def _result_kind(result: Type | None) -> str:
    return result.kind if isinstance(result, ScalarType) else ""


def _ordered(
    name: str, operator: ast.cmpop, decide: Callable[[int], bool], *, swap: bool
) -> Comparison:
    """`a < b` and its like: inline for a number beside an integer constant."""

    def write(a: Operand, b: Operand) -> ast.expr:
        if type(b.value) is int and not a.is_constant:
            plain = ast.Compare(
                left=call(runtime("type"), a.code), ops=[ast.Is()], comparators=[runtime("int")]
            )
            if isinstance(a.code, ast.Name):
                direct = ast.Compare(left=a.code, ops=[operator], comparators=[b.code])
                return ast.IfExp(test=plain, body=direct, orelse=general(a, b))
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
