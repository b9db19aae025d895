"""Expressions of a body to Python: what must hold, what is bound, what is replaced meanwhile."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from doorward.rego.analysis.bindings import as_call, equations
from doorward.rego.analysis.calls import replaced_function
from doorward.rego.codegen.block import call, load, make_function, method, method_of, runtime, store
from doorward.rego.codegen.calls import Calls
from doorward.rego.codegen.terms import Operand, closure_outer
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

__all__ = ["Expressions"]


class Expressions(Calls):
    """Writes bodies."""

    def body(self, body: Body) -> None:
        """What is written next runs once for each way in which all of `body` holds."""
        for n, expr in enumerate(body):
            if self._walks(expr) and not self.plan.traced:
                self.read_ahead(body[n:])
            self.step(expr)
            self.expression(expr)
            self.step(expr, holds=True)

    def step(self, node: Rule | Expr, *, holds: bool = False) -> None:
        """Report that `node` is about to be asked, or holds, with what is bound by then."""
        if not self.plan.traced:
            return
        used = dict.fromkeys(v.name for v in walk(node) if isinstance(v, Var))
        known = {name: self.env[name].code for name in used if name in self.env}
        bound = ast.Dict(keys=[ast.Constant(value=n) for n in known], values=[*known.values()])
        with self.at(node.span):
            what = self.constants.add(node), ast.Constant(value=holds), bound
            self.run(method_of(load(self.state), "step", *what))

    def expression(self, expr: Expr) -> None:
        with self.at(expr.span):
            if expr.withs:
                self._under(expr)
            elif expr.negated:
                self._not(expr)
            else:
                self._holds(expr.term)

    def expression_value(self, expr: Expr) -> Operand:
        """The value of an expression that is a term, under its `with` clauses."""
        assert not isinstance(expr.term, (SomeDecl, SomeIn, Every, Not, And, Or))
        if not expr.withs:
            return self.term(expr.term)
        before = self.state
        self._replace(expr.withs)
        value = self.term(expr.term)
        self.state = before
        return value

    def _holds(self, term: Term | SomeDecl | SomeIn | Every | Not | And | Or) -> None:
        match term:
            case SomeDecl():
                return
            case SomeIn():
                self._some_in(term)
            case Every():
                self._every(term)
            case Not():
                self.test(ast.UnaryOp(op=ast.Not(), operand=self._tested(term.body)))
            case And():
                for side in (term.left, term.right):
                    self.test(self._tested(side))
            case Or():
                self._either(term)
            case Call() if term.name in ("eq", "assign") and len(term.args) == 2:
                self._equation(*term.args)
            case Call() if term.name == "print" or term.name == "internal.print":
                self._print(term)
            case Call() if self.has_output(term):
                self.call_into(term)
            case Call():
                condition = self.condition(term) or self.predicate(term)
                if condition is not None:
                    self.test(condition)
                else:
                    self._true(self.term(term))
            case _:
                self._true(self.term(term))

    def _true(self, operand: Operand) -> None:
        """Anything but false holds."""
        if operand.is_constant:
            if operand.value is False:
                self.test(ast.Constant(value=False))
            return
        if operand.kind == "boolean":
            self.test(
                ast.Compare(
                    left=operand.code, ops=[ast.Is()], comparators=[ast.Constant(value=True)]
                )
            )
        elif operand.kind == "":
            self.test(
                ast.Compare(
                    left=operand.code, ops=[ast.IsNot()], comparators=[ast.Constant(value=False)]
                )
            )
        else:
            self.hold(operand.code)

    # Equations

    def _equation(self, left: Term, right: Term) -> None:
        waiting = list(equations(left, right))
        while waiting:
            pair = next((p for p in waiting if self.is_known(p[0]) or self.is_known(p[1])), None)
            assert pair is not None, "unsafe equation"
            waiting.remove(pair)
            a, b = pair
            # The left side is asked first, as in OPA: where it is an error, a right side that is
            # undefined must not hide it.
            if self.is_known(a):
                self.match(b, self.term(a))
            else:
                self.match(a, self.term(b))

    # some, every, not

    def _some_in(self, term: SomeIn) -> None:
        if self.is_folder(term.domain):
            self._some_in_folder(term)
            return
        domain = self.term(term.domain)
        if term.key is None or (isinstance(term.key, Var) and term.key.is_wildcard):
            value = self.target(term.value, domain.of)
            self.walk_values(value, domain)
        else:
            key, value = self.target(term.key), self.target(term.value)
            target = ast.Tuple(elts=[key, value], ctx=ast.Store())
            self.walk(target, method("items", domain.code))
            self.match_target(term.key, key)
        self.match_target(term.value, value)

    def _some_in_folder(self, term: SomeIn) -> None:
        """A walk over places: what rules there answer is asked when the walk comes to them."""
        key = term.key if term.key is not None else Var("$some", term.span)
        domain = term.domain
        if isinstance(domain, Ref):
            reference = Ref(domain.head, (*domain.args, key), term.span)
        else:
            reference = Ref(domain, (key,), term.span)
        self.match(term.value, self.ref(reference))

    def _every(self, term: Every) -> None:
        domain = self.hold(self.term(term.domain).code)
        self.test(call(runtime("is_collection"), domain))
        holds = self.fresh()
        self.assign(holds, ast.Constant(value=True))
        saved, outer = dict(self.env), self.outer
        self.outer = outer | closure_outer(term.body, ())
        with self.nest():
            value = self.target(term.value)
            if term.key is None or term.key.is_wildcard:
                self.walk_values(value, Operand(domain))
            else:
                target = ast.Tuple(elts=[self.target(term.key), value], ctx=ast.Store())
                self.walk(target, method("items", domain))
            found = self._exists(term.body)
            stop: list[ast.stmt] = [
                ast.Assign(targets=[store(holds)], value=ast.Constant(value=False)),
                ast.Break(),
            ]
            self.add(ast.If(test=ast.UnaryOp(op=ast.Not(), operand=found), body=stop, orelse=[]))
        self.shared.add(holds)
        self.env, self.outer = saved, outer
        self.test(load(holds))

    def _tested(self, body: Body) -> ast.expr:
        """A test for whether `body`, whose variables are its own, holds."""
        saved, outer = dict(self.env), self.outer
        self.outer = outer | closure_outer(body, ())
        found = self._exists(body)
        self.env, self.outer = saved, outer
        return found

    def _either(self, term: Or) -> None:
        """The right side is asked only where the left one does not hold."""
        holds = self.hold(self._tested(term.left), self.fresh())
        self.shared.add(holds.id)
        with self.nest():
            self.test(ast.UnaryOp(op=ast.Not(), operand=holds))
            right = self._tested(term.right)
            self.assign(holds.id, right)
        self.test(holds)

    def _not(self, expr: Expr) -> None:
        self._ask(expr.before)
        positive = Expr(expr.term, False, (), expr.span)
        saved = dict(self.env)
        found = self._exists((positive,))
        self.env = saved
        self.test(ast.UnaryOp(op=ast.Not(), operand=found))

    def _ask(self, before: Body) -> None:
        """What a negated term is made of; an equation that binds what others need comes first."""
        waiting = [expr.term for expr in before]
        while waiting:
            known = (t for t in waiting if isinstance(t, Call) and self.is_known(t.args[1]))
            term = next(known, waiting[0])
            assert isinstance(term, Call)
            waiting.remove(term)
            local, value = term.args
            with self.at(value.span):
                self.match(local, self.term(value))

    def _exists(self, body: Body) -> ast.expr:
        """A test for whether `body` holds at all, to be made at once: a flag, or a function where
        it walks."""
        walked, always = self.walked, dict(self.always)
        flag = self.fresh()
        before = len(self.block)
        block = self.block
        self.assign(flag, ast.Constant(value=False))
        leaf = ast.Assign(targets=[store(flag)], value=ast.Constant(value=True))
        tails = len(self.tails)
        with self.nest():
            self.body(body)
            self.add(leaf)
            inner = self.block
        if self.walked == walked and len(self.tails) == tails:
            last = block[-1]
            if isinstance(last, ast.If) and last.body == [leaf]:
                # One test is all there is to it.
                del block[before], block[-1]
                return last.test
            return load(flag)
        # It walks: the first success must end all walks at once. What it reads is its own.
        self.always = always
        function = make_function(flag, ())
        function.body = block[before + 1 :]
        del block[before:]
        place = inner if inner is not block else function.body
        place[place.index(leaf)] = ast.copy_location(
            ast.Return(value=ast.copy_location(ast.Constant(value=True), leaf)), leaf
        )
        end = ast.copy_location(ast.Return(value=ast.Constant(value=False)), leaf)
        self._place(end)
        function.body.append(end)
        self.add(function)
        return call(load(flag))

    # with

    def _under(self, expr: Expr) -> None:
        before = self.state
        # A replacement that is undefined makes a negated expression undefined too, not true.
        self._replace(expr.withs)
        if expr.negated:
            self._not(expr)
        else:
            self._holds(expr.term)
        self.state = before

    def _replace(self, withs: Sequence[With]) -> None:
        """From here on, the evaluation under `withs`."""
        inputs: list[ast.expr] = []
        data: list[ast.expr] = []
        functions: list[ast.expr] = []
        for item in withs:
            name = replaced_function(item, self.plan.callees)
            if name is not None:
                mock = self._mock(name, item.value)
                functions.append(_pair(ast.Constant(value=name), mock))
                continue
            value = self.term(item.value).code
            head, path = _target(item)
            path_code = self.constants.add(path)
            (inputs if head == "input" else data).append(_pair(path_code, value))
        lists = [ast.Tuple(elts=part, ctx=ast.Load()) for part in (inputs, data, functions)]
        place = self.constants.add(self.span)
        self.state = self.hold(method_of(load(self.state), "replace", *lists, place)).id

    def _mock(self, name: str, value: Term) -> ast.expr:
        """What stands in for the function `name`: another one, or a value."""
        target = as_call(value)
        callee = self.plan.callees.find(target) if target is not None else None
        if callee is not None and callee.builtin is not None:
            return self.constants.add(BuiltinMock(callee.builtin))
        if callee is not None and callee.node is not None and callee.node.is_function:
            return call(runtime("FunctionMock"), load(callee.node.name))
        mock = call(runtime("ValueMock"), self.term(value).code)
        replaced = self.plan.callees.registry.get(name)
        if replaced is not None and replaced.absent:
            # OPA looks for the code before it looks at the value.
            return self.constants.add(BuiltinMock(replaced))
        return mock

    # print

    def _print(self, term: Call) -> None:
        """Operands of a print may be undefined or have several values: each is collected."""
        if not self.plan.prints:
            return
        outs: list[ast.expr] = []
        for arg in term.args:
            out = self.fresh()
            self.assign(out, ast.List(elts=[], ctx=ast.Load()))
            saved = dict(self.env)
            with self.nest():
                self.run(method_of(load(out), "append", self.term(arg).code))
            self.env = saved
            outs.append(load(out))
        self.run(method_of(load(self.state), "print", self.constants.add(term.span), *outs))


def _pair(first: ast.expr, second: ast.expr) -> ast.expr:
    return ast.Tuple(elts=[first, second], ctx=ast.Load())


def _target(item: With) -> tuple[str, tuple[Key, ...]]:
    """`input` or `data`, and the path below it that is replaced."""
    target = item.target
    if isinstance(target, Var):
        return target.name, ()
    head = target.head
    assert isinstance(head, Var)
    path = [arg for arg in target.args]
    return head.name, tuple(to_key(getattr(arg, "value", None)) for arg in path)
