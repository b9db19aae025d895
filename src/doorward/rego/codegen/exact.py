"""A program once more, as code that takes each step when OPA does: slower, for errors.

The code of `program.py` reads ahead, evaluates operands in the order of the text, and looks at all
rules of a document. That changes no answer, but it decides which errors come up: a step that OPA
does not reach may fail, and one that fails in OPA may be skipped. So where that code reports an
error, and where errors of built-ins are errors of the evaluation, this code has the last word:

- each expression is one step, operands before what they are operands of (`evaluation_order.py`);
- only the rules that OPA's index leaves are evaluated, in its order (`rule_index.py`), and no
  further one where the first answer is enough;
- a lookup in a set or object that rules make key by key asks for that key alone.

Functions are compiled when they are first called: most programs never need one. A program in which
a document reads itself at another key (`p.a := p.b` beside `p[x] := 1`) has no other code. Traced,
it reports what OPA would evaluate, which is what coverage counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from doorward.rego.analysis.dependencies import branches
from doorward.rego.analysis.evaluation_order import rule_in_steps
from doorward.rego.analysis.tree import Definition, RuleNode
from doorward.rego.codegen.constants import bind
from doorward.rego.codegen.lazy import Functions, Write
from doorward.rego.codegen.plan import Plan
from doorward.rego.codegen.program import Linked, document_tree
from doorward.rego.codegen.rule_index import RuleIndex, Selection, Subject
from doorward.rego.codegen.rules import one_rule_function, piece_function
from doorward.rego.runtime.evaluation import Evaluation
from doorward.rego.runtime.operations import (
    MISSING,
    freeze,
    lookup_path,
    one,
    one_of_function,
)
from doorward.rego.runtime.tracing import traced
from doorward.rego.syntax.nodes import Rule
from doorward.rego.values import UNDEFINED, from_key, to_key

__all__ = ["ExactRules", "link_exactly"]


def link_exactly(plan: Plan) -> Linked:
    """Return the program of an exact `plan`, ready for evaluation, with an object for each node of
    rules that compiles its code when it is first called.
    """
    code = Functions(plan)
    for node in plan.root.walk():
        if node.definitions:
            bind(code.namespace, node.name, ExactRules(node, code))
    return Linked(code.namespace, document_tree(plan.root, plan, code.namespace))


_Key: TypeAlias = tuple[int, int, int]
"""The number of a chain, that of a rule in it, and what its function returns: 1 for the first
value, 0 for the only one; for a set or object the number of keys that it takes.
"""


class ExactRules:
    """The rules of one document as exact code, which computes its answer as a whole or at one key.
    A chain is a rule with its `else` branches. Functions are compiled when they are first called.
    """

    def __init__(self, node: RuleNode, code: Functions) -> None:
        self.node = node
        self.code = code
        self.own = [d for d in node.definitions if not d.rule.default]
        self.chains: list[list[Rule]] = []
        self.functions: dict[_Key, Callable[..., Any]] = {}
        self.index: RuleIndex | None = None
        self.is_single = node.is_complete or node.is_function
        self.is_set = not self.is_single and node.is_set_of_members

    def __call__(self, ctx: Evaluation, *args: Any) -> Any:
        """Return the whole answer of the rules for the operands `args`; UNDEFINED if there is none.
        EvalError if two rules give different values.
        """
        if self.code.plan.traced:
            return traced(self.node.name, self._answer_of_rules)(ctx, *args)
        return self._answer_of_rules(ctx, *args)

    def _answer_of_rules(self, ctx: Evaluation, *args: Any) -> Any:
        """Return the answer of the rules, as a whole; `args` are the operands of a function, ()
        otherwise. An answer of a function for the same operands is taken from the evaluation's
        cache, except in traced code. Errors of rules pass through.
        """
        if not self.node.is_function or self.code.plan.traced:
            return self._evaluate(ctx, args)
        plan = self.code.plan
        slot, prints = plan.call_slot(self.node), plan.may_print(self.node)
        call = ctx.printing_call(slot, *args, keeps_undefined=not prints)
        if call is None:
            return self._evaluate(ctx, args)
        return call.keep(self._evaluate(ctx, args)) if call.answer is MISSING else call.answer

    def _evaluate(self, ctx: Evaluation, args: Sequence[Any]) -> Any:
        """Evaluate the rules that OPA's index selects, in OPA's order, and return their answer: the
        value, default or UNDEFINED; for partial rules the whole set or object. EvalError for
        conflicting values.
        """
        selection = self._select(ctx, args)
        if self.is_single:
            answer = self._answer(ctx, args, selection)
            return self._default(ctx, args) if answer is UNDEFINED else answer
        out: Any = set() if self.is_set else {}
        for number, numbers in self._own_chains(selection):
            # Rules of sets and objects have no `else`, so that a chain has one rule.
            self._piece(number, numbers[0], 0)(ctx, out)
        return self._complete(ctx, out, ())

    def part(self, ctx: Evaluation, path: Sequence[Any]) -> Any:
        """Return the set or object of the rules with at least the part that a lookup at `path`
        reads; rules for other keys are not evaluated. In traced code the evaluation is reported as
        one of the rules. Errors of rules pass through.
        """
        if self.code.plan.traced:
            return traced(self.node.name, lambda ctx: self._part(ctx, path))(ctx)
        return self._part(ctx, path)

    def _part(self, ctx: Evaluation, path: Sequence[Any]) -> Any:
        """Return the set or object that the rules make, complete at least for the keys of `path`;
        rules for other keys are not evaluated. The whole answer is used if it was computed before;
        a part is cached in `ctx.parts`. Errors of rules, such as a conflict of two values, pass
        through.
        """
        slot = self.code.plan.slot(self.node)
        # The whole answer may be there already.
        store = ctx.constants if self.code.plan.is_constant(self.node) else ctx.cache
        if slot in store:
            return store[slot]
        keys = tuple([to_key(key) for key in path])
        if (slot, keys) not in ctx.parts:
            out: Any = set() if self.is_set else {}
            for number, numbers in self._own_chains(self._select(ctx, ())):
                definition = self.own[number]
                count = min(len(path), len(definition.tail) + definition.is_set)
                self._piece(number, numbers[0], count)(ctx, *path[:count], out)
            if not ctx.parts:
                ctx.parts = {}  # in place of the default of the class, which all evaluations share
            ctx.parts[slot, keys] = self._complete(ctx, out, keys)
        return ctx.parts[slot, keys]

    # Which rules

    def _select(self, ctx: Evaluation, args: Sequence[Any]) -> Selection:
        """Return the rules that the index selects for the input and operands. The first call builds
        the index, and sets `chains`, under the code's lock; other threads wait.
        """
        index = self.index
        if index is None:
            with self.code.lock:
                # Tested again under the lock: another thread may have built it meanwhile.
                index = self.index = self.index or self._build_index()
        return index.select(partial(_read, ctx, args))

    def _build_index(self) -> RuleIndex:
        """Return the index by which OPA selects rules of this document and of the nodes below,
        defaults left out. Also sets `chains` to the rules here with their `else` branches, one
        expression a step.
        """
        # INVARIANT: set before `index` is, which other threads test without the lock (`_select`).
        self.chains = [list(self._in_steps(d.rule)) for d in self.own]
        below = [d.rule for node in self._below() for d in node.definitions if not d.rule.default]
        others = [list(self._in_steps(rule)) for rule in below]
        prints = self.code.plan.prints
        return RuleIndex([*self.chains, *others], self.code.plan.is_virtual, prints=prints)

    def _below(self) -> Iterator[RuleNode]:
        """Yield the nodes below this one, whose rules are in its index too."""
        for child in self.node.children.values():
            yield from child.walk()

    def _in_steps(self, rule: Rule | None) -> Iterator[Rule]:
        """Yield a rule and its `else` branches with one step of evaluation per expression."""
        while rule is not None:
            yield rule_in_steps(rule, self.code.plan.callees)
            rule = rule.else_rule

    def _own_chains(self, selection: Selection) -> Iterator[tuple[int, tuple[int, ...]]]:
        # Those of the nodes below only count for the order: `add_children` evaluates them.
        return (chain for chain in selection.chains if chain[0] < len(self.own))

    # Answers

    def _answer(self, ctx: Evaluation, args: Sequence[Any], selection: Selection) -> Any:
        """Return the value of the selected chains; UNDEFINED if none has one. The value of a chain
        is that of its first rule that holds. Chains with different values are an EvalError, unless
        the selection says that the first value is enough.
        """
        result: Any = UNDEFINED
        join = one_of_function if self.node.is_function else one
        for number, numbers in selection.chains:
            for n in numbers:
                answer = self._alone(number, n, first=selection.one)(ctx, *args)
                if answer is not UNDEFINED:
                    result = join(result, answer, self.chains[number][n].span)
                    break
            if selection.one and result is not UNDEFINED:
                break
        return result

    def _default(self, ctx: Evaluation, args: Sequence[Any]) -> Any:
        """Return the value of the `default` rule for the operands `args`, UNDEFINED if there is
        none. Its code is compiled at the first call.
        """
        default = self.node.default
        if default is None:
            return UNDEFINED
        if (-1, 0, 1) not in self.functions:
            (rule,) = self._in_steps(default.rule)
            self._compile_value((-1, 0, 1), replace(default, rule=rule), first=True)
        return self.functions[-1, 0, 1](ctx, *args)

    def _complete(self, ctx: Evaluation, out: Any, keys: Sequence[Any]) -> Any:
        """Return the set or dictionary `out` as a finished set or object; in an object the answers
        of the rules below this one are inserted. `keys`: those of a lookup; rules for other keys
        are skipped. EvalError if a key has two values.
        """
        if self.is_set:
            return frozenset(out)
        if self.node.children:
            ctx.add_children(out, self.node.path, self.node.definitions[0].rule.span, keys)
        return freeze(out)

    # Functions

    def _alone(self, number: int, n: int, *, first: bool) -> Callable[..., Any]:
        """Return the function for the value of rule `n` in chain `number`. With `first` it returns
        the first value that it finds; otherwise it evaluates all, and two different values are an
        error.
        """
        key = (number, n, int(first))
        if key not in self.functions:
            self._compile_value(key, self._definition(number, n), first=first)
        return self.functions[key]

    def _compile_value(self, key: _Key, definition: Definition, *, first: bool) -> None:
        """Compile the function for the value of one rule, and store it in `functions` under `key`.
        With `first` it returns the first value that it finds; otherwise two different values are an
        error.
        """
        write = partial(one_rule_function, self.node, definition, first=first)
        self._compile(key, definition, write)

    def _piece(self, number: int, n: int, count: int) -> Callable[..., Any]:
        """Return the function `f(ctx, *keys, out)`, compiled at first use, that adds to `out` the
        items of rule `n` (0, or an `else` branch) in chain `number` whose first `count` keys are
        `keys`.
        """
        key = (number, n, count)
        if key not in self.functions:
            definition = self._definition(number, n)
            self._compile(key, definition, partial(piece_function, self.node, definition, count))
        return self.functions[key]

    def _definition(self, number: int, n: int) -> Definition:
        """Return rule `n` of the chain `number` as a definition: with one step per expression, or
        in traced code as it was written. For `n` above 0 that is an `else` branch.
        """
        rule, declared = self.chains[number][n], self.own[number]
        if self.code.plan.traced:
            # Traced code reports the expressions that the author wrote.
            rule = list(branches(declared.rule))[n]
        operands = rule.head.ref.args
        return Definition(rule, operands[len(operands) - len(declared.tail) :], declared.module)

    def _compile(
        self,
        key: _Key,
        definition: Definition,
        write: Write,
    ) -> None:
        """Compile, under the code's lock, the function that `write` writes for a definition, and
        store it in `functions` under `key`.
        """
        # Two threads may compile it at once; the later function replaces an equal one.
        with self.code.lock:
            source = definition.rule.span.source
            self.functions[key] = self.code.function(self.node.name, source, write)


def _read(ctx: Evaluation, args: Sequence[Any], subject: Subject) -> Any:
    """Return the value of an operand, or of a path below the input or base data, that an index
    compares; UNDEFINED if there is none.
    """
    document, *path = subject
    if document == "args":
        (number,) = path
        assert isinstance(number, int)
        return args[number]
    if document == "input":
        return lookup_path(ctx.input, [from_key(key) for key in path])
    return ctx.base_at([from_key(key) for key in path])
