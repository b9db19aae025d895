"""Calls to Python: built-ins behind their operand check, functions by name, operators inline.

An operator that Python computes exactly on the operands at hand is written out. A built-in that
fails makes its expression undefined; the evaluation decides whether that is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from doorward.rego.analysis.tree import RuleNode
from doorward.rego.builtins.registry import Builtin
from doorward.rego.builtins.registry.signature import AnyOf, ArrayType, ScalarType, SetType, Type
from doorward.rego.codegen.block import (
    all_of,
    attribute,
    call,
    load,
    method,
    method_of,
    on,
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
from doorward.rego.codegen.patterns import is_class
from doorward.rego.codegen.references import References
from doorward.rego.codegen.terms import Operand
from doorward.rego.errors import CALL_ERRORS
from doorward.rego.runtime.evaluation import Site
from doorward.rego.syntax.nodes import Call, Term

__all__ = ["Calls"]


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
        write = COMPARISONS.get(term.name)
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
        """`item in collection`; of a string in a list or set of strings, Python's own."""
        members = collection.value
        names = isinstance(item.code, ast.Name) or item.kind == "string"
        general = call(runtime("contains"), item.code, collection.code)
        if not names:
            return general
        tests = [] if item.kind == "string" else [is_class(item.code, "str")]
        inside = ast.Compare(left=item.code, ops=[ast.In()], comparators=[collection.code])
        if type(members) is frozenset and all(type(m) is str for m in members):
            return all_of([*tests, inside])
        if not isinstance(collection.code, ast.Name):
            return general
        if collection.kind not in ("array", "set"):
            tests.append(is_class(collection.code, "list"))
        return Inline(inside, tests).otherwise(general)

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
        assert callee is not None, f"undefined function {term.name}"
        if callee.arity not in (None, len(args)):
            # OPA takes `eq` with any number of operands for a call that is never defined.
            self.test(ast.Constant(value=False))
            return self.constant(None)
        operands = self.terms(args)
        if callee.builtin is not None:
            return self._builtin(callee.builtin, operands, term)
        assert callee.node is not None
        if not callee.node.is_function:
            return self.rule_value(callee.node)
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
        if builtin.name in self.plan.mocked:
            return self._mocked_builtin(builtin, direct, operands, term, site)
        result = builtin.signature.result
        made = Operand(function, _result_kind(result), of=_item_kind(result))
        written = self._written(builtin, values)
        if written is not None:
            held = self._held(written, self._asked(function, site, args))
            if not written.is_total:
                self.defined(held)
        else:
            held = load(self.fresh())
            self._guarded(held.id, self._checked(builtin, values, direct), site)
            self.defined(held)
        return self._counted(replace(made, code=held), term)

    def predicate(self, term: Call) -> ast.expr | None:
        """A Python test for a call of a built-in that says yes or no; None for other calls."""
        callee = self.plan.callees.find(term)
        builtin = callee.builtin if callee is not None else None
        if builtin is None or builtin.name in self.plan.mocked or builtin.context:
            return None
        signature = builtin.signature
        if _result_kind(signature.result) != "boolean" or len(term.args) != len(signature.args):
            return None
        values = self.terms(term.args)
        written = self._written(builtin, values)
        if written is None:
            answer = self._builtin(builtin, values, term)
            return ast.Compare(
                left=answer.code, ops=[ast.Is()], comparators=[ast.Constant(value=True)]
            )
        function = self.constants.named(f"fn.{builtin.name}", builtin.call)
        site = self.constants.add(Site(builtin.name, term.span), "at")
        # What fails is UNDEFINED, which holds as little as False does.
        asked = self._asked(function, site, [o.code for o in values])
        return self._held(written, asked) if written.raises else written.otherwise(asked)

    def _written(self, builtin: Builtin, values: Sequence[Operand]) -> Inline | None:
        if builtin.name == "time.now_ns":
            return Inline(attribute(load(self.state), "now_ns"))
        return self._prepared(builtin, values) or written_out(builtin, values)

    def _held(self, written: Inline, asked: ast.expr) -> ast.Name:
        """What `written` gives, or what is `asked` of the built-in, under a name."""
        if not written.raises:
            return self.hold(written.otherwise(asked))
        held = self.fresh()
        self.attempt(held, written.otherwise(asked), on(runtime("KIND_ERRORS"), held, asked))
        return load(held)

    def _asked(self, function: ast.expr, site: ast.expr, operands: Sequence[ast.expr]) -> ast.expr:
        """The built-in's own answer; UNDEFINED when it fails."""
        return method_of(load(self.state), "asked", site, function, *operands)

    def _mocked_builtin(
        self,
        builtin: Builtin,
        direct: ast.Call,
        operands: Sequence[ast.expr],
        term: Call,
        site: ast.expr,
    ) -> Operand:
        """A built-in that some `with` replaces."""
        names = [self.hold(o) for o in operands]
        held = self.fresh()
        given = direct.args[: len(direct.args) - len(names)]
        direct = call(direct.func, *given, *names)
        self._guarded(held, self._mock_choice(builtin.name, direct, names, term), site)
        self.defined(load(held))
        return self._counted(Operand(load(held)), term)

    def _counted(self, made: Operand, term: Call) -> Operand:
        """`made`, counted where somebody limits what collections hold."""
        if self.plan.limited and made.kind not in _SMALL:
            self.run(self.counted("sized", made.code, term.span))
        return made

    def _checked(self, builtin: Builtin, values: Sequence[Operand], direct: ast.Call) -> ast.expr:
        """The call with its operands checked here, where that takes no more than a look."""
        computed = arithmetic(builtin.name, values, direct)
        if computed is not direct or builtin.call is builtin.body:
            return computed
        tests = operand_tests(builtin, values)
        if tests is None:
            return direct
        body = self.constants.named(f"body.{builtin.name}", builtin.body)
        return Inline(call(body, *direct.args), tests).otherwise(direct)

    def _prepared(self, builtin: Builtin, values: Sequence[Operand]) -> Inline | None:
        """The call with what its constant operands make made now: a pattern, compiled."""
        if builtin.prepare is None or not all(o.is_constant for o in values[:-1]):
            return None
        last = values[-1]
        if last.is_constant or not isinstance(last.code, ast.Name):
            return None
        try:
            made = builtin.prepare(*[o.value for o in values[:-1]])
        except CALL_ERRORS:
            return None
        tests = () if last.kind == "string" else [is_class(last.code, "str")]
        return Inline(self._made(made, last.code), tests)

    def _made(self, function: Callable[[str], Any], operand: ast.expr) -> ast.expr:
        """The call of a function made now: a comparison where it is the method of one."""
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        operator = _OPERATORS.get((type(owner), name))
        if operator is None:
            return call(self.constants.add(function), operand)
        compared = ast.Constant(value=owner) if type(owner) is str else self.constants.add(owner)
        return ast.Compare(left=operand, ops=[operator], comparators=[compared])

    def _guarded(self, held: str, value: ast.expr, site: ast.expr) -> None:
        """`held = value`, with a built-in's error as the evaluation wants it."""
        error = self.fresh()
        failed = method_of(load(self.state), "failed", load(error), site)
        self.attempt(held, value, on(runtime("CALL_ERRORS"), held, failed, error))

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
        mocks = attribute(load(self.state), "mocks")
        mock = self.hold(method_of(mocks, "get", ast.Constant(value=name)))
        site = self.constants.add(Site(name, term.span), "at")
        use = method_of(load(self.state), "mock", mock, site, *operands)
        none = ast.Compare(left=mock, ops=[ast.Is()], comparators=[ast.Constant(value=None)])
        return ast.IfExp(test=none, body=direct, orelse=use)


_OPERATORS: Final[Mapping[tuple[type, str], ast.cmpop]] = {
    (str, "__eq__"): ast.Eq(),
    (frozenset, "__contains__"): ast.In(),
}
"""Comparisons by the class and the name of the method that is one."""

_SMALL: Final = frozenset({"boolean", "null", "number"})
"""Results that need no counting."""


def _result_kind(result: Type | None) -> str:
    return "" if result is None or isinstance(result, AnyOf) else result.kind


def _item_kind(result: Type | None) -> str:
    """The kind of what every item of a built-in's result is."""
    match result:
        case ArrayType(items=(), rest=ScalarType(kind)) | SetType(of=ScalarType(kind)):
            return kind
    return ""
