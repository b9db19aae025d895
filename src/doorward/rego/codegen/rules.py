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
    attribute,
    call,
    finish,
    load,
    make_function,
    method,
    method_of,
    runtime,
    store,
)
from doorward.rego.codegen.choice import Choice
from doorward.rego.codegen.expressions import Expressions
from doorward.rego.codegen.index import choose
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.references import plain_references, references_of
from doorward.rego.codegen.terms import (
    NOT_CONSTANT,
    Operand,
    closure_outer,
    constant_value,
)
from doorward.rego.source import Source, Span
from doorward.rego.syntax.nodes import Ref, Rule, Term
from doorward.rego.values import equal

__all__ = ["RuleWriter", "rule_functions"]


def rule_functions(
    node: RuleNode, plan: Plan, constants: Constants
) -> Iterator[tuple[Source, ast.FunctionDef]]:
    """The function that computes what the rules at `node` define, with its source.

    Where a table chooses among the definitions, each has a function of its own beside it.
    """
    definitions = [d for d in node.definitions if not d.rule.default]
    choice = None if plan.traced else choose(definitions)
    writer = RuleWriter(constants, plan)
    args = writer.parameters(node)
    writer.keep_record(node)
    with writer.at(node.definitions[0].rule.span):
        if choice is None:
            writer.asked_once = not node.is_function
            writer.share(_references(definitions))
            writer.place(node, definitions, args)
        else:
            single = node.is_complete or node.is_function
            for number, definition in enumerate(definitions):
                own = _own_function(node, number, definition, plan, constants, single=single)
                yield definition.rule.span.source, own
            plan.add_table(node, choice, definitions)
            writer.indexed(node, definitions, args, choice)
        function = writer.function(node.name, ["ctx", *args, *writer.record])
        yield node.definitions[0].rule.span.source, function


def _own_function(
    node: RuleNode,
    number: int,
    definition: Definition,
    plan: Plan,
    constants: Constants,
    *,
    single: bool,
) -> ast.FunctionDef:
    """One definition as a function; without a `single` answer it fills the parameter `out`."""
    writer = RuleWriter(constants, plan)
    args = writer.parameters(node)
    writer.keep_record(node)
    with writer.at(definition.rule.span):
        writer.share(_references([definition]))
        if single:
            writer.single(node, [definition], args, None)
        else:
            out = writer.fresh("out")
            args = [*args, out, *writer.record]
            writer.fill(node, definition, out)
        return writer.function(plan.definition_name(node, number), ["ctx", *args])


def _references(definitions: Sequence[Definition]) -> Iterator[Ref]:
    return (ref for definition in definitions for ref in references_of(definition.rule))


class RuleWriter(Expressions):
    """Writes the function of one place."""

    record: tuple[str, ...] = ()
    """The parameter for a `Record`, where rules make an object key by key."""

    def __init__(self, constants: Constants, plan: Plan) -> None:
        super().__init__(constants, plan)
        self.puts: dict[str, str] = {}

    def keep_record(self, node: RuleNode) -> None:
        if self.plan.is_keyed(node):
            self.record = (self.fresh("record"),)

    def function(self, name: str, args: Sequence[str]) -> ast.FunctionDef:
        """The written statements as a function, complete."""
        result = make_function(name, args)
        self._place(result)
        prelude: list[ast.stmt] = [
            ast.Assign(targets=[store(local)], value=value) for local, value in self.prelude.items()
        ]
        if self._must_tick(name, args):
            prelude.append(ast.Expr(value=method("tick")))
        for statement in prelude:
            self._place(statement)
        result.body = prelude + self.statements
        for tail in self.tails:
            end = ast.Return(value=runtime("MISSING"))
            self._place(end)
            tail.append(end)
        finish(result, self.shared)
        return result

    def _must_tick(self, name: str, args: Sequence[str]) -> bool:
        """Whether calls are counted: not of rules, which are asked once in an evaluation."""
        if [*args] == ["ctx", *self.record] and "#" not in name:
            return False
        return self.called > 1 or (self.called > 0 and (self.walked > 0 or "#" in name))

    # Complete rules and functions

    def parameters(self, node: RuleNode) -> list[str]:
        """Names for the operands of a function; none for rules."""
        count = len(node.definitions[0].rule.head.args or ()) if node.is_function else 0
        return [self.fresh(f"arg{n}") for n in range(count)]

    def place(self, node: RuleNode, definitions: Sequence[Definition], args: Sequence[str]) -> None:
        """All definitions of a place, one after the other."""
        if node.is_complete or node.is_function:
            self.single(node, definitions, args, node.default)
            return
        out = self._collection(node)
        for definition in definitions:
            self.fill(node, definition, out)
        self._return_collection(node, out)

    def single(
        self,
        node: RuleNode,
        definitions: Sequence[Definition],
        args: Sequence[str],
        default: Definition | None,
    ) -> None:
        """Definitions of which at most one answer may come."""
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

    def indexed(
        self,
        node: RuleNode,
        definitions: Sequence[Definition],
        args: Sequence[str],
        choice: Choice,
    ) -> None:
        """Only the definitions that a look at `choice.source` leaves."""
        single = node.is_complete or node.is_function
        out = self.fresh("found") if single else self._collection(node)
        if single:
            self.assign(out, runtime("UNDEFINED"))
        looked: ast.expr
        if isinstance(choice.source, int):
            looked = load(args[choice.source])
        else:
            looked = self._read(self.hold(self.of_state("input")), choice.source)
        rule, span = self.fresh("rule"), self.fresh("place")
        candidates = call(runtime("candidates"), load(self.plan.table_name(node)), looked)
        with self.nest():
            target = ast.Tuple(elts=[store(rule), store(span)], ctx=ast.Store())
            self.walk(target, candidates)
            operands = [load(name) for name in ("ctx", *args)]
            if not single:
                self.run(call(load(rule), *operands, load(out), *map(load, self.record)))
            else:
                answer = self.hold(call(load(rule), *operands))
                self.defined(answer)
                if self._one_constant(definitions):
                    self.add(ast.Return(value=answer))
                else:
                    join = runtime("one_of_function" if node.is_function else "one")
                    self.assign(out, call(join, load(out), answer, load(span)))
        if single:
            self._return_found(out)
            self._fallback(node.default)
        else:
            self._return_collection(node, out)

    def _fallback(self, default: Definition | None) -> None:
        """What is returned where no definition gave an answer."""
        if self.statements and isinstance(self.statements[-1], ast.Return):
            return
        if default is None:
            self.add(ast.Return(value=runtime("UNDEFINED")))
            return
        with self.at(default.rule.span):
            self.add(ast.Return(value=self._head_value(default.rule).code))

    def _prefetch_first(self, definitions: Sequence[Definition]) -> None:
        """Several definitions often begin by asking the same: it is read once for all.

        Only what the first one reads in any case is read, so that nothing fails too early.
        """
        if self.plan.traced or len(definitions) < 2 or not definitions[0].rule.body:
            return
        first = definitions[0].rule.body[0]
        term = first.before[0].term if first.before else first.term
        if isinstance(term, get_args(Term)) and not first.withs:
            for ref in plain_references(term):
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

    def _collection(self, node: RuleNode) -> str:
        """A new set or object for the rules of a place to fill."""
        out = self.fresh("out")
        empty = call(runtime("set")) if _is_set(node) else ast.Dict(keys=[], values=[])
        self.assign(out, empty)
        return out

    def fill(self, node: RuleNode, definition: Definition, out: str) -> None:
        """What one definition adds to the set or object `out`."""
        rule = definition.rule
        with self.scope(rule, ()):
            self._rule_body(rule)
            if _is_set(node):
                assert rule.head.key is not None
                member = self.key(self.term(rule.head.key))
                self.step(rule, holds=True)
                self.run(method_of(load(out), "add", member))
            else:
                self._insert(out, definition)
            self.count_one()

    def _return_collection(self, node: RuleNode, out: str) -> None:
        result: ast.expr = load(out)
        if _is_set(node):
            result = call(runtime("frozenset"), result)
        else:
            if node.children:
                place = self.constants.add(node.definitions[0].rule.span)
                where = self.constants.add(node.path), place
                self.run(method("add_children", result, *where, *map(load, self.record)))
            if node.children or any(len(d.tail) > 1 or d.is_set for d in node.definitions):
                result = call(runtime("freeze"), result)
        self.add(ast.Return(value=result))

    def _insert(self, out: str, definition: Definition) -> None:
        rule = definition.rule
        path = [self.term(part).code for part in definition.tail]
        place = self.constants.add(rule.span)
        if rule.head.key is not None:
            member = self.term(rule.head.key).code
            self.step(rule, holds=True)
            keys = ast.Tuple(elts=path, ctx=ast.Load())
            self.run(call(self._put("insert_member_at"), load(out), keys, member, place))
            return
        value = self._head_value(rule).code
        if len(path) == 1:
            self.run(call(self._put("insert"), load(out), path[0], value, place))
        else:
            keys = ast.Tuple(elts=path, ctx=ast.Load())
            self.run(call(self._put("insert_at"), load(out), keys, value, place))

    def _put(self, name: str) -> ast.expr:
        """What puts a piece into the object, or into the record."""
        local = self.puts.get(name)
        if local is None:
            (record,) = self.record
            local = self.puts[name] = self.fresh(name)
            none = ast.Compare(
                left=load(record), ops=[ast.Is()], comparators=[ast.Constant(value=None)]
            )
            own = attribute(load(record), name)
            self.prelude[local] = ast.IfExp(test=none, body=runtime(name), orelse=own)
        return load(local)

    # Heads

    def _head_value(self, rule: Rule) -> Operand:
        value = rule.head.value
        if value is None:
            operand = Operand(ast.Constant(value=True), "boolean", True)
        else:
            operand = self.term(value)
        self.step(rule, holds=True)
        return operand

    @contextmanager
    def scope(self, rule: Rule, args: Sequence[str]) -> Iterator[None]:
        """Write one rule: its parameters are matched, its variables are its own."""
        saved, outer = dict(self.env), self.outer
        head = rule.head
        terms = [t for t in (*head.ref.args, head.key, head.value) if t is not None]
        self.outer = closure_outer(rule.body, (*terms, *(head.args or ())))
        with self.at(rule.span), self.nest():
            self.step(rule)
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


def _is_set(node: RuleNode) -> bool:
    # Checked to be of one kind, so that the first definition speaks for all.
    first = node.definitions[0]
    return not node.children and first.is_set and not first.tail


def _constant_of(rule: Rule) -> Any:
    value = rule.head.value
    return True if value is None else constant_value(value)
