"""Rules to Python functions: one for each place of the tree that has rules.

    complete rule     returns its value, the default, or UNDEFINED
    function          the same, of its operands
    partial rules     return the set or object that all of them fill together

A function that can have only one answer returns it where it is found; the others compare every
further answer with the first, since two different ones are a conflict.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

from doorward.rego.analysis.bindings import Binding, term_vars
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.codegen.block import (
    Constants,
    call,
    finish,
    load,
    make_function,
    runtime,
    store,
)
from doorward.rego.codegen.expressions import Expressions
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.references import plain_references
from doorward.rego.codegen.terms import (
    NOT_CONSTANT,
    Operand,
    closure_outer,
    constant_value,
)
from doorward.rego.source import Span
from doorward.rego.syntax.nodes import Ref, Rule, Term
from doorward.rego.values import equal

__all__ = ["RuleWriter", "rule_function"]


def rule_function(node: RuleNode, plan: Plan, constants: Constants) -> ast.FunctionDef:
    """The function that computes what the rules at `node` define."""
    writer = RuleWriter(constants, plan)
    args = ["ctx"]
    if node.is_function:
        count = len(node.definitions[0].rule.head.args or ())
        args += [writer.fresh(f"arg{n}") for n in range(count)]
    with writer.at(node.definitions[0].rule.span):
        if node.is_complete or node.is_function:
            writer.single(node, args[1:])
        elif all(d.is_set and not d.tail for d in node.definitions) and not node.children:
            writer.partial_set(node)
        else:
            writer.partial_object(node)
        return writer.function(node.name, args)


class RuleWriter(Expressions):
    """Writes the function of one place."""

    def function(self, name: str, args: Sequence[str]) -> ast.FunctionDef:
        """The written statements as a function, complete."""
        result = make_function(name, args)
        self._place(result)
        prelude: list[ast.stmt] = [
            ast.Assign(targets=[store(local)], value=value) for local, value in self.prelude.items()
        ]
        for statement in prelude:
            self._place(statement)
        result.body = prelude + self.statements
        for tail in self.tails:
            end = ast.Return(value=runtime("MISSING"))
            self._place(end)
            tail.append(end)
        finish(result, self.shared)
        return result

    # Complete rules and functions

    def single(self, node: RuleNode, args: Sequence[str]) -> None:
        default = node.default
        definitions = [d for d in node.definitions if d is not default]
        self._prefetch_first(definitions)
        if self._one_constant(definitions):
            for definition in definitions:
                with self.scope(definition.rule, args):
                    self._rule_body(definition.rule)
                    self.add(ast.Return(value=self._head_value(definition.rule).code))
            self._fallback(default)
            return
        if len(definitions) == 1:
            self._alternatives(definitions[0].rule, args, node)
            self._fallback(default)
            return
        found = self.fresh("found")
        self.shared.add(found)
        self.assign(found, runtime("UNDEFINED"))
        for definition in definitions:
            self._definition(definition, args, found, node)
        self._return_found(found)
        self._fallback(default)

    def _fallback(self, default: Definition | None) -> None:
        """What is returned where no definition gave an answer."""
        if default is None or default.rule.head.value is None:
            self.add(ast.Return(value=runtime("UNDEFINED")))
            return
        with self.at(default.rule.span):
            self.add(ast.Return(value=self.term(default.rule.head.value).code))

    def _prefetch_first(self, definitions: Sequence[Definition]) -> None:
        """Several definitions often begin by asking the same: it is read once for all.

        Only what the first one reads in any case is read, so that nothing fails too early.
        """
        if len(definitions) < 2 or not definitions[0].rule.body:
            return
        first = definitions[0].rule.body[0]
        if isinstance(first.term, get_args(Term)) and not first.withs:
            for ref in plain_references(first.term):
                if not self._mentions_locals(ref):
                    with self.at(ref.span):
                        self.prefetch(ref)
                    return

    def _mentions_locals(self, ref: Ref) -> bool:
        return any(True for _ in term_vars(ref))

    def _one_constant(self, definitions: Sequence[Definition]) -> bool:
        """Whether every definition gives the same constant: then the first success is final."""
        values = [_constant_of(d.rule) for d in definitions]
        if any(v is NOT_CONSTANT for v in values) or any(d.rule.else_rule for d in definitions):
            return False
        return all(equal(values[0], v) for v in values[1:])

    def _definition(
        self, definition: Definition, args: Sequence[str], found: str, node: RuleNode
    ) -> None:
        """One of several: its answer joins `found`."""
        rule = definition.rule
        if rule.else_rule is None:
            with self.scope(rule, args):
                self._rule_body(rule)
                self._join(found, self._head_value(rule).code, node, rule.span)
            return
        function = make_function(self.fresh("chain"), ())
        self.add(function)
        with self.aside(function.body, fresh_function=True):
            self._alternatives(rule, args, node)
            self.add(ast.Return(value=runtime("UNDEFINED")))
        answer = self.hold(call(load(function.name)))
        with self.nest():
            self.defined(answer)
            self._join(found, answer, node, rule.span)

    def _join(self, found: str, value: ast.expr, node: RuleNode, span: Span) -> None:
        join = runtime("one_of_function" if node.is_function else "one")
        self.assign(found, call(join, load(found), value, self.constants.add(span)))

    def _alternatives(self, rule: Rule, args: Sequence[str], node: RuleNode) -> None:
        """A rule and its `else` branches: return the first answer."""
        branch: Rule | None = rule
        while branch is not None:
            self._branch(branch, args, node)
            branch = branch.else_rule

    def _branch(self, rule: Rule, args: Sequence[str], node: RuleNode) -> None:
        block, start, walked = self.block, len(self.block), self.walked
        with self.scope(rule, args):
            self._rule_body(rule)
            value = self._head_value(rule)
            answer = ast.Return(value=value.code)
            self.add(answer)
            inner = self.block
        if self.walked == walked or value.is_constant:
            return
        # It walks: a second, different answer must be seen.
        found = self.fresh("found")
        self.shared.add(found)
        with self.aside(inner):
            self._join(found, value.code, node, rule.span)
        inner[inner.index(answer)] = inner.pop()
        with self.aside(block):
            self.assign(found, runtime("UNDEFINED"))
        block.insert(start, block.pop())
        self._return_found(found)

    def _return_found(self, found: str) -> None:
        with self.nest():
            self.defined(load(found))
            self.add(ast.Return(value=load(found)))

    # Partial rules

    def partial_set(self, node: RuleNode) -> None:
        out = self.fresh("out")
        self.assign(out, call(runtime("set")))
        add = ast.Attribute(value=load(out), attr="add", ctx=ast.Load())
        for definition in node.definitions:
            rule = definition.rule
            assert rule.head.key is not None
            with self.scope(rule, ()):
                self._rule_body(rule)
                self.run(call(add, self.key(self.term(rule.head.key))))
        self.add(ast.Return(value=call(runtime("frozenset"), load(out))))

    def partial_object(self, node: RuleNode) -> None:
        out = self.fresh("out")
        self.assign(out, ast.Dict(keys=[], values=[]))
        for definition in node.definitions:
            with self.scope(definition.rule, ()):
                self._rule_body(definition.rule)
                self._insert(out, definition)
        result: ast.expr = load(out)
        if any(len(d.tail) > 1 or d.is_set for d in node.definitions):
            result = call(runtime("freeze"), result)
        if node.children:
            merge = ast.Attribute(value=load("ctx"), attr="with_children", ctx=ast.Load())
            place = self.constants.add(node.definitions[0].rule.span)
            result = call(merge, result, self.constants.add(node.path), place)
        self.add(ast.Return(value=result))

    def _insert(self, out: str, definition: Definition) -> None:
        rule = definition.rule
        path = [self.term(part).code for part in definition.tail]
        place = self.constants.add(rule.span)
        if rule.head.key is not None:
            member = self.term(rule.head.key).code
            keys = ast.Tuple(elts=path, ctx=ast.Load())
            self.run(call(runtime("insert_member_at"), load(out), keys, member, place))
            return
        value = self._head_value(rule).code
        if len(path) == 1:
            self.run(call(runtime("insert"), load(out), path[0], value, place))
        else:
            keys = ast.Tuple(elts=path, ctx=ast.Load())
            self.run(call(runtime("insert_at"), load(out), keys, value, place))

    # Heads

    def _head_value(self, rule: Rule) -> Operand:
        value = rule.head.value
        if value is None:
            return Operand(ast.Constant(value=True), "boolean", True)
        return self.term(value)

    @contextmanager
    def scope(self, rule: Rule, args: Sequence[str]) -> Iterator[None]:
        """Write one rule: its parameters are matched, its variables are its own."""
        saved, outer = dict(self.env), self.outer
        head = rule.head
        terms = [t for t in (*head.ref.args, head.key, head.value) if t is not None]
        self.outer = closure_outer(rule.body, (*terms, *(head.args or ())))
        with self.at(rule.span), self.nest():
            self.late = []
            for parameter, arg in zip(head.args or (), args, strict=False):
                if self._is_pattern(parameter):
                    self.match(parameter, Operand(load(arg)))
                else:
                    self.late.append((parameter, arg))
            yield
        self.env, self.outer = saved, outer

    late: list[tuple[Term, str]]
    """Parameters to compare when the body has bound what they are made of."""

    def _is_pattern(self, parameter: Term) -> bool:
        probe = Binding(self.env.keys(), self.outer, self.plan.callees.arity)
        probe.pattern(parameter)
        return not probe.missing()

    def _rule_body(self, rule: Rule) -> None:
        late = self.late
        self.body(rule.body)
        for parameter, arg in late:
            self.match(parameter, Operand(load(arg)))


def _constant_of(rule: Rule) -> Any:
    value = rule.head.value
    return True if value is None else constant_value(value)
